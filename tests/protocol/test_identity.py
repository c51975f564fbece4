"""The identity codec (section 10): one exact form out, everything that does not fit refused by name."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hn_memory.errors import HnError
from hn_memory.protocol import limits
from hn_memory.protocol.identity import (
    IDENTITY_BYTES,
    Identity,
    decode_identity,
    encode_identity,
    new_identity,
    public_document,
)
from hn_memory.protocol.signing import encode_base64
from hn_memory.protocol.unicode import is_blank

VECTOR = Path(__file__).parents[2] / "fixtures" / "vectors" / "identity.json"
SEED = bytes(range(32))

names = st.text(
    st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=limits.ACTOR_NAME_BYTES // 4
).filter(lambda name: not is_blank(name))
seeds = st.binary(min_size=32, max_size=32)


def document(**changes: object) -> dict[str, object]:
    """The vector's fields with some of them changed."""
    fields: dict[str, object] = json.loads(VECTOR.read_bytes())
    fields.update(changes)
    return fields


def refusal(data: bytes | dict[str, object]) -> HnError:
    """The error of decoding, after a look that it keeps the key to itself."""
    text = data if isinstance(data, bytes) else json.dumps(data).encode()
    with pytest.raises(HnError) as caught:
        decode_identity(text)
    error = caught.value
    assert error.code == "identity-invalid"
    assert error.__cause__ is None
    told = f"{error.message} {error.hint} {error.field}"
    private = str(document()["privateKey"])
    assert private not in told
    assert private[:43] not in told
    assert "\n" not in error.message
    return error


def test_the_vector_is_reproduced_byte_for_byte() -> None:
    data = VECTOR.read_bytes()
    identity = decode_identity(data)
    assert identity.name == "Throwaway"
    assert encode_identity(identity) == data
    assert new_identity("Throwaway", identity.seed) == identity


@settings(deadline=None)
@given(names, seeds)
def test_what_is_written_reads_back(name: str, seed: bytes) -> None:
    identity = new_identity(name, seed)
    data = encode_identity(identity)
    assert decode_identity(data) == identity
    assert len(data) <= IDENTITY_BYTES
    assert data.endswith(b"}\n")
    assert not any(character in data.decode() for character in "<>&\u2028\u2029")


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_an_identity_or_refused(data: bytes) -> None:
    try:
        identity = decode_identity(data)
    except HnError as error:
        assert error.code == "identity-invalid"
    else:
        assert decode_identity(encode_identity(identity)) == identity


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 255))
def test_one_changed_byte_never_gives_another_key(at: int, value: int) -> None:
    data = bytearray(VECTOR.read_bytes())
    data[at % len(data)] = value
    try:
        identity = decode_identity(bytes(data))
    except HnError as error:
        assert error.code == "identity-invalid"
    else:
        assert identity.seed == decode_identity(VECTOR.read_bytes()).seed


def test_strings_are_escaped_as_the_reference_does() -> None:
    data = encode_identity(new_identity('<b>&"\\\u2028\u2029 Zoë', SEED)).decode()
    assert '"name": "\\u003cb\\u003e\\u0026\\"\\\\\\u2028\\u2029 Zoë"' in data


@pytest.mark.parametrize("field", ["version", "actor", "name", "publicKey", "privateKey", "lifecycle"])
def test_a_missing_field_is_named(field: str) -> None:
    fields = document()
    del fields[field]
    error = refusal(fields)
    assert error.field == field
    assert field in error.message


@pytest.mark.parametrize("field", ["version", "actor", "name", "publicKey", "privateKey", "lifecycle"])
@pytest.mark.parametrize("value", [None, True, 1.0, [], {}, "", 10**30])
def test_a_field_of_the_wrong_type_or_form_is_named(field: str, value: object) -> None:
    error = refusal(document(**{field: value}))
    assert error.field == field
    assert field in error.message


def test_an_unknown_field_is_named() -> None:
    assert refusal(document(comment="x")).field == "comment"


def test_key_material_as_a_field_name_is_not_repeated() -> None:
    private = str(document()["privateKey"])
    assert refusal(document(**{private: 1})).field is None
    twice = json.dumps(document())[:-1] + f', "{private}": 1, "{private}": 2}}'
    assert refusal(twice.encode()).field is None


def test_a_repeated_field_is_named() -> None:
    data = VECTOR.read_text().replace("{", '{"name": "Other",', 1)
    assert refusal(data.encode()).field == "name"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'"x"',
        b"null",
        b"{}",
        b"{} {}",
        b"\xff",
        b"\xef\xbb\xbf" + VECTOR.read_bytes(),
        VECTOR.read_text().encode("utf-16"),
        VECTOR.read_bytes()[:-3],
        VECTOR.read_bytes() + b"x",
        b"[" * 10_000,
        b'{"version": NaN}',
        VECTOR.read_bytes() + b" " * IDENTITY_BYTES,
    ],
)
def test_what_is_no_identity_document_is_refused(data: bytes) -> None:
    refusal(data)


@pytest.mark.parametrize("version", [0, 2, -1])
def test_another_version_is_refused(version: int) -> None:
    assert refusal(document(version=version)).field == "version"


def test_another_lifecycle_is_refused() -> None:
    assert refusal(document(lifecycle="retired")).field == "lifecycle"


@pytest.mark.parametrize("field", ["publicKey", "privateKey"])
def test_only_canonical_unpadded_base64_is_read(field: str) -> None:
    text = str(document()[field])
    # The last character of 43 (of 86) carries 2 (4) unused bits; the one after it in the alphabet sets one.
    loose = text[:-1] + chr(ord(text[-1]) + 1)
    for changed in (text + "=", text + "==", text[:-1], text + "\n", " " + text, text.replace("/", "_"), loose):
        if changed != text:
            assert refusal(document(**{field: changed})).field == field


def test_a_private_key_that_ends_with_another_public_key_is_refused() -> None:
    other = new_identity("Other", SEED)
    assert refusal(document(publicKey=encode_base64(other.public_key))).field == "privateKey"


def test_a_seed_that_makes_another_public_key_is_refused() -> None:
    identity = decode_identity(VECTOR.read_bytes())
    forged = encode_base64(SEED + identity.public_key)
    assert refusal(document(privateKey=forged)).field == "privateKey"


def test_an_actor_that_is_not_the_fingerprint_is_refused() -> None:
    assert refusal(document(actor="0" * 64)).field == "actor"
    assert refusal(document(actor=str(document()["actor"]).upper())).field == "actor"


@pytest.mark.parametrize("name", ["", " ", "\u00a0\u3000", "a\nb", "a\x7f", "a\u0085b", "x" * 257, "é" * 129])
def test_names_obey_the_rules_of_actor_name(name: str) -> None:
    assert refusal(document(name=name)).field == "name"
    with pytest.raises(HnError) as caught:
        new_identity(name, SEED)
    assert (caught.value.code, caught.value.field) == ("identity-invalid", "name")


@pytest.mark.parametrize("name", ["\u200b", "\ufeff", "x" * 256, "é" * 128])
def test_names_that_only_look_wrong_are_names(name: str) -> None:
    assert new_identity(name, SEED).name == name


def test_a_lone_surrogate_in_a_name_is_refused() -> None:
    assert refusal(VECTOR.read_bytes().replace(b"Throwaway", rb"\ud800")).field == "name"
    with pytest.raises(HnError, match="surrogate"):
        new_identity("\udcff", SEED)


def test_fields_may_stand_in_any_order_and_spacing() -> None:
    fields = dict(reversed(document().items()))
    assert decode_identity(json.dumps(fields, indent=None).encode()) == decode_identity(VECTOR.read_bytes())


@pytest.mark.parametrize("seed", [b"", bytes(31), bytes(33), bytes(64)])
def test_a_seed_has_32_bytes(seed: bytes) -> None:
    with pytest.raises(HnError, match="32 bytes"):
        new_identity("A", seed)


def test_an_identity_that_does_not_hold_together_is_not_written() -> None:
    good = new_identity("A", SEED)
    for bad in (
        Identity("0" * 64, good.name, good.public_key, good.seed),
        Identity(good.actor, "", good.public_key, good.seed),
        Identity(good.actor, good.name, bytes(32), good.seed),
        Identity(good.actor, good.name, good.public_key, b""),
    ):
        with pytest.raises(HnError) as caught:
            encode_identity(bad)
        assert caught.value.code == "identity-invalid"


def test_the_seed_is_never_shown() -> None:
    identity = new_identity("A", b"S" * 32)
    shown = f"{identity!r} {identity} {public_document(identity)}"
    assert "SSSS" not in shown
    assert encode_base64(identity.seed)[:40] not in shown
    assert "seed" not in shown
    assert "privateKey" not in public_document(identity)
    assert pickle.loads(pickle.dumps(identity)) == identity


def test_the_public_document_is_the_file_without_the_private_key() -> None:
    identity = decode_identity(VECTOR.read_bytes())
    expected = document()
    del expected["privateKey"]
    assert list(public_document(identity).items()) == list(expected.items())
