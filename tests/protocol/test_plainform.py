"""Reading an envelope at one stroke and reading it in the ordinary way give the same answer, whatever the bytes are."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from envelope_strategies import envelopes
from hypothesis import given, settings
from hypothesis import strategies as st

from hn_memory.errors import HnError
from hn_memory.protocol import jsonbytes
from hn_memory.protocol.canonical import encode
from hn_memory.protocol.envelope import Envelope, decode_envelope, envelope_document
from hn_memory.protocol.plainform import recognise

VECTOR = Path(__file__).parents[2] / "fixtures" / "vectors" / "envelopes.jsonl"
PAYLOADS = [base64.b64decode(json.loads(line)["payload"]) for line in VECTOR.read_text().splitlines()]
PIECES = st.sampled_from(
    [
        b'"', b"\\", b",", b"[", b"]", b"{", b"}", b" ", b":", b"0", b"\n", b"\\n", b"\\/", b"\\u0041", b"\\u003c",
        b"<", b"\xe2\x80\xa8", b"\xc3\xa9", b"\xff", b"\x00", b"\x7f", b'","', b'"],"evidence":["', b',"paths":[]',
        b',"evidence":[]', b',"reason":"x"', b'"target"', b"null", b"true", b"-1", b"01",
    ]
)  # fmt: skip


def outcome(payload: bytes, monkeypatch: pytest.MonkeyPatch, *, many: bool) -> Envelope | tuple[str, str, str | None]:
    with monkeypatch.context() as patch:
        patch.setattr(jsonbytes, "_handled", jsonbytes.WORTH_IT + 1 if many else -(10**9))
        try:
            return decode_envelope(payload)
        except HnError as error:
            return error.code, error.message, error.field


@pytest.mark.parametrize("number", range(len(PAYLOADS)))
def test_vectors_are_read_alike(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    payload = PAYLOADS[number]
    assert outcome(payload, monkeypatch, many=True) == outcome(payload, monkeypatch, many=False)


@given(envelopes(), st.data())
@settings(max_examples=400, deadline=None)
def test_whatever_stands_there_is_read_alike(envelope: Envelope, data: st.DataObject) -> None:
    payload = encode(envelope_document(envelope))
    with pytest.MonkeyPatch.context() as monkeypatch:
        assert outcome(payload, monkeypatch, many=True) == envelope
        for _ in range(3):
            at, length = data.draw(st.integers(0, len(payload))), data.draw(st.integers(0, 3))
            changed = payload[:at] + data.draw(PIECES | st.binary(max_size=2)) + payload[at + length :]
            assert outcome(changed, monkeypatch, many=True) == outcome(changed, monkeypatch, many=False)


@given(envelopes())
@settings(max_examples=200, deadline=None)
def test_what_is_recognised_is_canonical(envelope: Envelope) -> None:
    """Rules are not looked at: a field may say anything, but only in the one spelling."""
    odd = envelope._replace(actor="nobody", stream="", timestamp="never", reason="Because", target="x")
    payload = encode(envelope_document(odd))
    fields = recognise(payload)
    assert fields is None or Envelope._make(fields) == odd
    assert recognise(payload + b"\n") is None
    assert recognise(b" " + payload) is None


def test_ordinary_envelopes_are_recognised() -> None:
    """Else the short way would be there for nothing."""
    accepted = [json.loads(line)["accepted"] for line in VECTOR.read_text().splitlines()]
    valid = [payload for payload, good in zip(PAYLOADS, accepted, strict=True) if good]
    assert sum(recognise(payload) is not None for payload in valid) > len(valid) * 0.7
