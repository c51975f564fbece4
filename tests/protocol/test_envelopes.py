"""The envelope (sections 3 and 4): the reference's verdicts, and properties that no table can list."""

from __future__ import annotations

import base64
import calendar
import json
import re
import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from envelope_strategies import author_of, envelopes
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from simulator import OID, OTHER_OID, Author, changed, record

from hn_memory.errors import HnError
from hn_memory.protocol import limits
from hn_memory.protocol.canonical import encode
from hn_memory.protocol.envelope import (
    Envelope,
    check_actor_name,
    decode_envelope,
    encode_envelope,
    envelope_document,
    is_timestamp,
)
from hn_memory.protocol.identifiers import memory_id
from hn_memory.protocol.memory import verify_memory
from hn_memory.protocol.record import Anchor, Applicability, Handoff, PathAnchor, check_path, check_record
from hn_memory.protocol.searchable import weigh, written_size
from hn_memory.protocol.signing import decode_signature, encode_signature
from hn_memory.protocol.unicode import term_text, terms

pytestmark = pytest.mark.usefixtures("json_library")

VECTOR = Path(__file__).parents[2] / "fixtures" / "vectors" / "envelopes.jsonl"
VECTORS = [json.loads(line) for line in VECTOR.read_text().splitlines()]
ACCEPTED = [base64.b64decode(vector["payload"]) for vector in VECTORS if vector["accepted"]]
DIGEST = "sha256:" + "7" * 64
SUBJECT = "issue:" + DIGEST
AUTHOR = Author()


# -- the reference's verdicts -----------------------------------------------------------------------------


def test_every_vector_is_accepted_or_refused_as_by_the_reference() -> None:
    assert len(VECTORS) == 249
    wrong = []
    for vector in VECTORS:
        payload, signature = base64.b64decode(vector["payload"]), base64.b64decode(vector["signature"])
        try:
            memory = verify_memory(payload, signature)
        except HnError as error:
            assert error.code in ("memory-invalid", "signature-invalid", "signature-malformed")
            assert error.message.isprintable()
            answer: tuple[bool, str | None] = (False, None)
        else:
            assert encode_envelope(memory.envelope) == payload
            answer = (True, memory.id)
        if answer != (vector["accepted"], vector.get("id")):
            wrong.append((vector["name"], answer))
    assert wrong == []


def test_no_signature_of_one_vector_fits_another() -> None:
    accepted = [vector for vector in VECTORS if vector["accepted"]]
    for one, other in pairwise(accepted):
        if one["payload"] == other["payload"]:
            continue
        with pytest.raises(HnError) as caught:
            verify_memory(base64.b64decode(one["payload"]), base64.b64decode(other["signature"]))
        assert caught.value.code == "signature-invalid"


# -- properties -------------------------------------------------------------------------------------------


@given(envelopes())
def test_what_the_index_takes_from_a_payload(envelope: Envelope) -> None:
    if envelope.record is None:
        return
    content, topics = envelope.record.content, envelope.record.topics
    assert written_size(encode_envelope(envelope)) == len(encode(content))
    each = [term for text in (content, *topics) for term in terms(text)]
    text = term_text((content, *topics))
    assert set(terms(text)) == set(each)
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE VIRTUAL TABLE said USING fts5(text, content='', detail=none, columnsize=0, tokenize=ascii)")
        db.execute("INSERT INTO said(rowid, text) VALUES(1, ?)", (text,))
        db.execute("CREATE VIRTUAL TABLE found USING fts5vocab('said', 'row')")
        # It cuts very long terms short.
        assert {term for (term,) in db.execute("SELECT term FROM found")} == {
            term.encode()[:32768].decode(errors="ignore") for term in each
        }
    lists = () if envelope.record.handoff is None else envelope.record.handoff.lists()
    texts = [content, *topics, *(item for _, items in lists for item in items)]
    assert weigh(envelope.record) == sum(len(text.encode()) + 1 for text in texts)


@given(envelopes())
def test_what_is_encoded_decodes_to_itself(envelope: Envelope) -> None:
    payload = encode_envelope(envelope)
    assert decode_envelope(payload) == envelope
    assert encode_envelope(decode_envelope(payload)) == payload
    signature = author_of(envelope).sign(payload)
    assert verify_memory(payload, signature) == (memory_id(payload), envelope)
    assert decode_signature(encode_signature(signature)) == signature


@settings(max_examples=60)
@given(envelopes(), st.data())
def test_no_other_spelling_of_an_envelope_is_accepted(envelope: Envelope, data: st.DataObject) -> None:
    payload = encode_envelope(envelope)
    value = json.loads(payload)
    spellings = [
        json.dumps(value).encode(),
        json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(),
        json.dumps(value, indent=2).encode(),
        payload + b"\n",
        b" " + payload,
        b"\xef\xbb\xbf" + payload,
        payload + payload,
        _shuffled(value, data),
        payload.replace(b'"operation"', b'"\\u006fperation"'),
        payload[:-1] + b',"evidence":[]}',
        payload[:-1] + b',"target":null}',
        payload[:-1] + b',"x":1}',
        payload[:-1] + b',"protocol":"hn-memory/0"}',
    ]
    for spelling in spellings:
        if spelling != payload:
            with pytest.raises(HnError) as caught:
                decode_envelope(spelling)
            assert caught.value.code == "memory-invalid"


def _shuffled(value: dict[str, Any], data: st.DataObject) -> bytes:
    order = data.draw(st.permutations(sorted(value)))
    return json.dumps({name: value[name] for name in order}, ensure_ascii=False, separators=(",", ":")).encode()


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(ACCEPTED) | envelopes().map(encode_envelope), st.data())
def test_damage_is_refused_or_says_something_else_in_canonical_form(payload: bytes, data: st.DataObject) -> None:
    damaged = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        act = data.draw(st.sampled_from(["flip", "set", "drop", "double", "cut"]))
        if act == "flip":
            damaged[at] ^= 1 << data.draw(st.integers(0, 7))
        elif act == "set":
            damaged[at] = data.draw(st.sampled_from(b'{}[]":,\\u0 \n\x00\xff<'))
        elif act == "drop":
            del damaged[at]
        elif act == "double":
            damaged.insert(at, damaged[at])
        else:
            del damaged[at : at + data.draw(st.integers(1, 40))]
        assume(damaged)
    result = bytes(damaged)
    try:
        envelope = decode_envelope(result)
    except HnError as error:
        assert error.code == "memory-invalid"
        assert error.message.isprintable()
    else:
        assert encode_envelope(envelope) == result
    if result != payload:
        with pytest.raises(HnError):
            verify_memory(result, bytes(64))


@given(envelopes(), st.integers(0, 511))
def test_a_signature_holds_for_no_other_bit(envelope: Envelope, bit: int) -> None:
    payload = encode_envelope(envelope)
    signature = bytearray(author_of(envelope).sign(payload))
    signature[bit // 8] ^= 1 << bit % 8
    with pytest.raises(HnError) as caught:
        verify_memory(payload, bytes(signature))
    assert caught.value.code == "signature-invalid"


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(HnError) as caught:
        decode_envelope(data)
    assert caught.value.code == "memory-invalid"


# -- rules, each named by its field -----------------------------------------------------------------------


def refused(envelope: Envelope, code: str = "memory-invalid") -> HnError:
    with pytest.raises(HnError) as caught:
        encode_envelope(envelope)
    assert caught.value.code == code
    if code == "memory-invalid":
        # Reading finds the same fault as writing.
        from hn_memory.protocol.canonical import encode

        with pytest.raises(HnError) as reading:
            decode_envelope(encode(envelope_document(envelope)))
        assert (reading.value.field, reading.value.message) == (caught.value.field, caught.value.message)
    return caught.value


def kind(name: str, **fields: Any) -> Any:
    return record(kind=name, **fields)


def anchored(*pairs: tuple[str, str]) -> Any:
    return record(anchor=Anchor(OID, tuple(PathAnchor(*pair) for pair in pairs)))


@pytest.mark.parametrize(
    ("operation", "changes", "field"),
    [
        ("record", {"protocol": "hn-memory/1"}, "protocol"),
        ("record", {"operation": "forget"}, "operation"),
        ("record", {"actor": "A" * 64}, "actor"),
        ("record", {"actor": "0" * 64}, "actor"),
        ("record", {"public_key": "AAAA"}, "publicKey"),
        ("record", {"public_key": Author(1).public_key + "="}, "publicKey"),
        ("record", {"public_key": Author(2).public_key}, "actor"),
        ("record", {"actor_name": "\u3000"}, "actorName"),
        ("record", {"actor_name": "a\x85b"}, "actorName"),
        ("record", {"actor_name": "é" * 129}, "actorName"),
        ("record", {"stream": "7" * 64}, "stream"),
        ("record", {"sequence": 0}, "sequence"),
        ("record", {"sequence": 2}, "previous"),
        ("record", {"sequence": 2, "previous": "7" * 64}, "previous"),
        ("record", {"previous": DIGEST}, "previous"),
        ("record", {"timestamp": "2026-02-29T00:00:00Z"}, "timestamp"),
        ("record", {"record": None}, "record"),
        ("record", {"target": DIGEST}, "target"),
        ("record", {"reason": "wrong"}, "reason"),
        ("record", {"evidence": ("git:" + OID,)}, "evidence"),
        ("supersede", {"record": None}, "record"),
        ("supersede", {"target": None}, "target"),
        ("supersede", {"reason": "wrong"}, "reason"),
        ("supersede", {"evidence": ("git:" + OID,)}, "evidence"),
        ("retract", {"record": record()}, "record"),
        ("retract", {"target": None}, "target"),
        ("retract", {"target": "7" * 64}, "target"),
        ("retract", {"reason": None}, "reason"),
        ("retract", {"reason": "-a"}, "reason"),
        ("retract", {"reason": "a" * 129}, "reason"),
        ("retract", {"evidence": ("git:" + OID,)}, "evidence"),
        ("challenge", {"record": record()}, "record"),
        ("challenge", {"reason": ""}, "reason"),
        ("challenge", {"evidence": ("git:" + OID, OID)}, "evidence[1]"),
        ("challenge", {"evidence": ("git:" + OID, "git:" + OID)}, "evidence"),
        ("challenge", {"evidence": tuple(f"git:{number:040x}" for number in range(65))}, "evidence"),
    ],
)
def test_rules_of_the_envelope(operation: str, changes: dict[str, Any], field: str) -> None:
    assert refused(AUTHOR.envelope(operation, **changes)).field == field


@pytest.mark.parametrize(
    ("broken", "field"),
    [
        (kind("note"), "kind"),
        (record("\x85\xa0\u3000"), "content"),
        (record("é" * 32_768 + "x"), "content"),
        (record(topics=("b", "a")), "topics[1]"),
        (record(topics=("a", "a")), "topics[1]"),
        (record(topics=("",)), "topics[0]"),
        (record(topics=("A",)), "topics[0]"),
        (record(topics=(" a",)), "topics[0]"),
        (record(topics=("a", "b\u3000")), "topics[1]"),
        (record(topics=("a\x00b",)), "topics[0]"),
        (record(topics=("é" * 65,)), "topics[0]"),
        (record(topics=tuple(f"{number:02d}" for number in range(33))), "topics"),
        (record(evidence=("x",)), "evidence[0]"),
        (record(evidence=("git:" + OID,) * 2), "evidence"),
        (record(evidence=tuple(f"git:{number:040x}" for number in range(65))), "evidence"),
        (record(anchor=Anchor("HEAD")), "anchor.commit"),
        (record(anchor=Anchor(OID, (), DIGEST)), "anchor.subject"),
        (anchored(("b", OID), ("a", OID)), "anchor.paths[1].path"),
        (anchored(("a", OID), ("a", OTHER_OID)), "anchor.paths[1].path"),
        (anchored(("a", "gone")), "anchor.paths[0].blob"),
        (anchored(("a//b", OID)), "anchor.paths[0].path"),
        (anchored(*((f"{number:04x}", OID) for number in range(129))), "anchor.paths"),
        (anchored(*((f"{number:02x}" + "x" * 4_000, OID) for number in range(17))), "anchor.paths"),
        (record(applicability=Applicability("always")), "applicability.mode"),
        (record(applicability=Applicability("exact", SUBJECT)), "applicability.subject"),
        (record(applicability=Applicability("subject")), "applicability.subject"),
        (record(applicability=Applicability("subject", SUBJECT)), "applicability.subject"),
        (
            record(anchor=Anchor(OID, (), SUBJECT), applicability=Applicability("subject", "run:" + DIGEST)),
            "applicability.subject",
        ),
        (kind("attempt"), "attemptOutcome"),
        (kind("attempt", attempt_outcome="a" * 65), "attemptOutcome"),
        (kind("attempt", attempt_outcome="-"), "attemptOutcome"),
        (kind("decision", attempt_outcome="done"), "attemptOutcome"),
        (kind("verification"), "evidence"),
        (kind("handoff"), "handoff"),
        (kind("decision", handoff=Handoff()), "handoff"),
        (kind("handoff", handoff=Handoff(blockers=("a", "\u2003"))), "handoff.blockers[1]"),
        (kind("handoff", handoff=Handoff(next_actions=("x" * 4_097,))), "handoff.nextActions[0]"),
        (kind("handoff", handoff=Handoff(assumptions=("x",) * 65)), "handoff.assumptions"),
        (kind("handoff", handoff=Handoff(("x" * 4_096,) * 9, ("x" * 4_096,) * 8)), "handoff"),
    ],
)
def test_rules_of_the_record(broken: Any, field: str) -> None:
    assert refused(AUTHOR.envelope(record=broken)).field == f"record.{field}"


@pytest.mark.parametrize(
    ("operation", "changes"),
    [
        ("record", {"sequence": limits.SEQUENCE_MAX, "previous": DIGEST}),
        ("record", {"actor_name": "é" * 128}),
        ("retract", {"reason": "a" * 128}),
        ("challenge", {"evidence": tuple(f"git:{number:040x}" for number in range(64))}),
        ("record", {"record": record("é" * 32_768)}),
        ("record", {"record": record("\x00" * 65_536)}),
        ("record", {"record": record(topics=("é" * 64, *sorted(f"à{number:02d}" for number in range(31)))[::-1])}),
        ("record", {"record": kind("attempt", attempt_outcome="a" * 64)}),
        ("record", {"record": kind("handoff", handoff=Handoff(("x" * 4_096,) * 8, ("x" * 4_096,) * 8))}),
        ("record", {"record": anchored(*((f"{number:02x}" + "x" * 4_094, "absent") for number in range(16)))}),
        ("record", {"record": anchored(("..", OID), ("../../a", OID))}),
        ("record", {"record": record(evidence=("memory:" + DIGEST, "git:" + OID))}),
    ],
)
def test_the_bounds_are_inside(operation: str, changes: dict[str, Any]) -> None:
    if "record" in changes:
        topics = changes["record"].topics
        changes["record"] = changed(changes["record"], topics=tuple(sorted(topics)))
    envelope = AUTHOR.envelope(operation, **changes)
    assert decode_envelope(encode_envelope(envelope)) == envelope


def test_the_whole_is_bounded_too() -> None:
    entries = ("\x00" * 4_096,) * 8
    full = kind("handoff", content="\x01" * 65_536, handoff=Handoff(entries, entries))
    error = refused_size(AUTHOR.envelope(record=full))
    assert str(limits.MEMORY_JSON_BYTES) in error.message
    with pytest.raises(HnError, match="at most"):
        decode_envelope(b" " * (limits.MEMORY_JSON_BYTES + 1))


def refused_size(envelope: Envelope) -> HnError:
    with pytest.raises(HnError) as caught:
        encode_envelope(envelope)
    assert caught.value.code == "memory-invalid"
    return caught.value


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"actor_name": "A\ud800"}, "actorName"),
        ({"record": record("a\ud83d")}, "record.content"),
        ({"record": record(topics=("a\udfff",))}, "record.topics[0]"),
        ({"record": anchored(("a\udc80", OID))}, "record.anchor.paths[0].path"),
        ({"record": kind("handoff", handoff=Handoff(blockers=("a\ud800",)))}, "record.handoff.blockers[0]"),
    ],
)
def test_a_lone_surrogate_is_refused_with_its_position(changes: dict[str, Any], field: str) -> None:
    error = refused(AUTHOR.envelope(**changes), "text-invalid")
    assert error.field == field
    assert "at character 1" in error.message


@pytest.mark.parametrize("path", ["a", "a/b", "..", "../a", "../../a", "...", "a..b/.c", "\u200b", "é", " ", "-a", "~"])
def test_clean_paths(path: str) -> None:
    check_path(path, "path")
    check_record(anchored((path, OID)))


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "/",
        "/a",
        "a/",
        "a//b",
        "./a",
        "a/.",
        "a/./b",
        "a/..",
        "a/../b",
        "../a/..",
        "a\\b",
        "a\tb",
        "a\x7f",
        "\x85",
    ],
)
def test_paths_that_are_not_clean(path: str) -> None:
    with pytest.raises(HnError) as caught:
        check_path(path, "path")
    assert caught.value.field == "path"


@pytest.mark.parametrize("text", [
    "2026-10-01T17:02:11Z", "2026-10-01T17:02:11.5Z", "2026-10-01T17:02:11.123456789Z",
    "2026-10-01T17:02:11.000000001Z",
    "0000-01-01T00:00:00Z", "0000-02-29T00:00:00Z", "9999-12-31T23:59:59Z", "2000-02-29T00:00:00Z",
    "2026-10-01T17:02:11+24:59", "2026-10-01T17:02:11-00:01", "2026-10-01T17:02:11+24:00",
])  # fmt: skip
def test_timestamps(text: str) -> None:
    assert is_timestamp(text)


@pytest.mark.parametrize("text", [
    "", "now", "2026-10-01", "2026-10-01t17:02:11Z", "2026-10-01T17:02:11z", "2026-10-01 17:02:11Z",
    "26-10-01T17:02:11Z",
    "2026-10-01T17:02:11", "2026-10-01T17:02:11.Z", "2026-10-01T17:02:11.50Z", "2026-10-01T17:02:11.0Z",
    "2026-10-01T17:02:11,5Z", "2026-10-01T17:02:11.1234567891Z", "2026-10-01T24:00:00Z", "2026-10-01T17:60:00Z",
    "2026-10-01T23:59:60Z", "2026-00-01T00:00:00Z", "2026-13-01T00:00:00Z", "2026-10-00T00:00:00Z",
    "2026-09-31T00:00:00Z", "2026-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2026-10-01T17:02:11+00:00",
    "2026-10-01T17:02:11-00:00", "2026-10-01T17:02:11+25:00", "2026-10-01T17:02:11+02:60", "2026-10-01T17:02:11+0200",
    "2026-10-01T17:02:11+02", "12026-10-01T17:02:11Z", "-2026-10-01T17:02:11Z", "2026-10-01T17:02:11Z\n",
    "٢٠٢٦-10-01T17:02:11Z",
])  # fmt: skip
def test_what_is_no_timestamp(text: str) -> None:
    assert not is_timestamp(text)


_FORM = re.compile(
    "([0-9]{4})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    "(?:[.][0-9]{0,8}[1-9])?(?:Z|[+-](?!00:00)(?:[01][0-9]|2[0-4]):[0-5][0-9])"
)


@given(
    st.lists(
        st.sampled_from(
            ["2024", "1900", "02", "29", "30", "12", "00", "24", "60", "-", "T", ":", ".", "5", "Z", "+", "é"]
        ),
        max_size=16,
    ).map("".join)
    | st.from_regex(_FORM, fullmatch=True)
    | st.from_regex(_FORM, fullmatch=True).flatmap(
        lambda text: st.tuples(st.integers(0, len(text)), st.sampled_from("09-:T.Z+ \u0662")).map(
            lambda change: text[: change[0]] + change[1] + text[change[0] + 1 :]
        )
    )
)
def test_timestamps_are_those_of_the_form_on_days_that_there_are(text: str) -> None:
    found = _FORM.fullmatch(text)
    expected = False
    if found is not None:
        # A year without a calendar of its own has that of the year 2000, which was a leap year.
        year, month, day = int(found[1]) or 2000, int(found[2]), int(found[3])
        expected = day <= calendar.monthrange(year, month)[1]
    assert is_timestamp(text) == expected


def test_names() -> None:
    for name in ("A", "\u200b", "\u202e", "é" * 128, " A "):
        check_actor_name(name, "name")
    for name in ("", " ", "\u2028", "A\n", "\x00", "\x9f", "é" * 129):
        with pytest.raises(HnError) as caught:
            check_actor_name(name, "name")
        assert (caught.value.code, caught.value.field) == ("memory-invalid", "name")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"A" * 85,
        b"A" * 87,
        b"A" * 86 + b"==",
        b"A" * 86 + b"\n",
        b"A" * 85 + b"B",
        b"-" * 86,
        b"\xff" * 86,
        b" " + b"A" * 86,
    ],
)
def test_signature_files_that_are_malformed(data: bytes) -> None:
    with pytest.raises(HnError) as caught:
        decode_signature(data)
    assert caught.value.code == "signature-malformed"
    assert decode_signature(b"A" * 86) == bytes(64)


@pytest.mark.parametrize("size", [0, 63, 65])
def test_a_signature_has_64_bytes(size: int) -> None:
    with pytest.raises(HnError) as caught:
        verify_memory(encode_envelope(AUTHOR.envelope()), bytes(size))
    assert caught.value.code == "signature-malformed"
