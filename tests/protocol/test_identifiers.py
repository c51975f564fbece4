"""The forms of identifiers (section 1) and of memory refs (section 2)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hn_memory.errors import HnError, UsageError
from hn_memory.protocol import identifiers as ids
from hn_memory.protocol import limits

HEX = "0123456789abcdef" * 4
DIGEST = "sha256:" + HEX

digits = st.text("0123456789abcdef", min_size=64, max_size=64)

FORMS: list[tuple[Callable[[str], bool], list[str], list[str]]] = [
    (
        ids.is_digest,
        [DIGEST],
        ["", HEX, "SHA256:" + HEX, "sha256:" + HEX.upper(), DIGEST + "0", DIGEST[:-1], DIGEST + "\n", "sha1:" + HEX,
         " " + DIGEST, "sha256:" + "٠" * 64],
    ),
    (ids.is_actor_id, [HEX], ["", DIGEST, HEX.upper(), HEX[:63], HEX + "0", HEX + "\n", "g" * 64, "٠" * 64]),
    (ids.is_object_id, [HEX, HEX[:40]], ["", "HEAD", HEX[:39], HEX[:41], HEX[:40].upper(), HEX[:40] + "\n", "g" * 40]),
    (
        ids.is_evidence,
        [f"git:{HEX[:40]}", f"git:{HEX}", f"event:{DIGEST}", f"memory:{DIGEST}"],
        ["", HEX, DIGEST, f"git:{DIGEST}", f"git:{HEX[:10]}", f"event:{HEX}", f"memory:{HEX}", f"issue:{DIGEST}",
         f"GIT:{HEX[:40]}", f"git:{HEX[:40]}\n", f"event:{DIGEST.upper()}", f" git:{HEX}"],
    ),
    (
        ids.is_subject,
        [f"{kind}:{DIGEST}" for kind in ("issue", "proposal", "event", "policy", "pipeline", "run")],
        ["", DIGEST, f"task:{DIGEST}", f"memory:{DIGEST}", f"git:{DIGEST}", f"issue:{HEX}", f"Issue:{DIGEST}",
         f"issue:{DIGEST}\n", f"issues:{DIGEST}"],
    ),
    (
        lambda text: ids.is_token(text, 8),
        ["a", "9", "0", "a-b", "a--b", "a1-2b", "x" * 8],
        ["", "-", "-a", "a-", "a_b", "a b", "A", "é", "x" * 9, "a\n", "a-\n"],
    ),
    (
        ids.is_remote_name,
        ["origin", "_", "9", "a.b", "a-b", "A_1", "a.lockx", "lock", "x" * 128],
        ["", ".", "..", ".a", "-a", "a..b", "a.", "a.lock", ".lock", "a/b", "a b", "é", "a\n", "x" * 129, "a~1", "a:b"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("test", "good", "bad"), FORMS)
def test_forms(test: Callable[[str], bool], good: list[str], bad: list[str]) -> None:
    assert [text for text in good if not test(text)] == []
    assert [text for text in bad if test(text)] == []


@pytest.mark.parametrize(
    ("require", "good", "bad", "code"),
    [
        (lambda text: ids.require_digest(text, "a target", "target"), DIGEST, HEX, "id-invalid"),
        (lambda text: ids.require_actor(text, "target"), HEX, HEX[:12], "actor-invalid"),
        (lambda text: ids.require_subject(text, "target"), f"run:{DIGEST}", DIGEST, "subject-invalid"),
    ],
)
def test_requirements_name_the_field(require: Callable[[str], str], good: str, bad: str, code: str) -> None:
    assert require(good) == good
    with pytest.raises(UsageError) as caught:
        require(bad)
    assert (caught.value.code, caught.value.field) == (code, "target")
    assert caught.value.hint


def test_only_show_takes_a_prefix() -> None:
    assert ids.memory_prefix(DIGEST) == HEX
    assert ids.memory_prefix(HEX[:8]) == HEX[:8]
    assert ids.memory_prefix("sha256:" + HEX[:8]) == HEX[:8]
    for text in ("", "sha256:", HEX[:7], "sha256:" + HEX[:7], HEX + "0", "ABCDEF01", HEX[:8] + "\n", "HEAD"):
        with pytest.raises(UsageError) as caught:
            ids.memory_prefix(text)
        assert caught.value.code == "id-invalid"


def test_derived_identifiers_by_their_formulas() -> None:
    key = bytes(range(32))
    assert ids.fingerprint(key) == hashlib.sha256(key).hexdigest()
    assert ids.memory_id(b"{}") == "sha256:" + hashlib.sha256(b"{}").hexdigest()
    text = b"hn-memory-stream-v0\0" + HEX.encode() + b"\0default"
    assert ids.derived_stream(HEX, "default") == "sha256:" + hashlib.sha256(text).hexdigest()


def test_the_default_stream_of_a_known_actor() -> None:
    actor = "156ed2992a16653a386c81c9fc77675d300311f5af5707c9bc8ef2e9c1cd273b"
    stream = "sha256:34b92d603e14a993bb775a6590c8b185adf3116419a5ed06ed48ab6e2716ee4a"
    assert ids.derived_stream(actor, "default") == stream


@given(digits, digits, st.none() | st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,20}", fullmatch=True))
def test_a_ref_is_taken_apart_into_what_it_was_made_of(actor: str, stream: str, remote: str | None) -> None:
    stream_id = "sha256:" + stream
    ref = ids.local_ref(actor, stream_id) if remote is None else ids.accepted_ref(remote, actor, stream_id)
    assert ids.parse_source_ref(ref) == (ref, remote, actor, stream_id)


@pytest.mark.parametrize(
    "ref",
    [
        f"refs/hn/memory/{HEX}",
        f"refs/hn/memory/{HEX}/{HEX[:63]}",
        f"refs/hn/memory/{HEX}/{HEX.upper()}",
        f"refs/hn/memory/{HEX}/{HEX}/x",
        f"refs/hn/memory/{HEX}/sha256-{HEX}",
        "refs/hn/memory/x",
        f"refs/hn/remotes/origin/memory/{HEX}",
        f"refs/hn/remotes/origin/memory/{HEX}/{HEX}0",
        "refs/hn/remotes/origin/memory/x",
        f"refs/hn/remotes/-o/memory/{HEX}/{HEX}",
        f"refs/hn/remotes/{'o' * 129}/memory/{HEX}/{HEX}",
    ],
)
def test_a_ref_of_another_shape_in_our_namespace_is_an_invalid_source(ref: str) -> None:
    with pytest.raises(HnError) as caught:
        ids.parse_source_ref(ref)
    assert caught.value.code == "source-malformed"


@pytest.mark.parametrize(
    "ref",
    [
        "refs/heads/main",
        f"refs/hn/actors/{HEX}",
        f"refs/hn/remotes/origin/actors/{HEX}",
        "refs/hn/remotes/origin/other/thing",
        "refs/hn/remotes/origin",
        f"refs/hn/memoryx/{HEX}/{HEX}",
    ],
)
def test_the_refs_of_others_are_passed_over(ref: str) -> None:
    assert ids.parse_source_ref(ref) is None


@given(st.text(max_size=80), st.integers(1, limits.REASON_BYTES))
def test_a_form_never_holds_for_odd_text(text: Any, size: int) -> None:
    plain = set("abcdefghijklmnopqrstuvwxyz0123456789-")
    if ids.is_token(text, size):
        assert set(text) <= plain and 1 <= len(text) <= size and text[0] != "-" and text[-1] != "-"
    if ids.is_remote_name(text):
        assert text.isascii() and "/" not in text and not text.endswith(".lock")
