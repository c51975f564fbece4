"""Envelopes whose bytes are recognised as canonical at one stroke, without decoding them as JSON first.

Nearly every envelope that is verified is an ordinary one, and its canonical bytes have one shape: fields in one
order, nothing between them, strings that hold no escape but the usual ones. One expression recognises that shape
(rules 1 and 2 of `protocol.envelope`) in a third of the time that decoding, looking at each field and encoding
again take. The rules themselves (rule 3) are not looked at here.

Whatever the expression does not recognise is not refused: it is read in the ordinary way. So a gap in it costs time,
never an answer, and a test compares the two ways on envelopes of every form.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from hn_memory.protocol.jsonbytes import loads
from hn_memory.protocol.record import Anchor, Applicability, Handoff, PathAnchor, Record
from hn_memory.values import make

# The inside of a string as `canonical.encode` writes it. Rarer escapes are left to the ordinary way.
_TEXT: Final = r'(?:[^"\\<>&\x00-\x1f\u2028\u2029]++|\\(?:["\\nrt]|u003[ce]|u0026))*+'
# No escape, so that what stands there is the text itself.
_PLAIN: Final = r'[^"\\<>&\x00-\x1f\u2028\u2029]*+'
_LIST: Final = rf'(?:"{_PLAIN}"(?:,"{_PLAIN}")*+)?+'
_PATH: Final = rf'\{{"path":"({_PLAIN})","blob":"({_PLAIN})"\}}'
_ENVELOPE: Final = (
    r'\{"protocol":"(hn-memory/0)","operation":"(record|supersede|retract|challenge)"'
    rf',"actor":"({_PLAIN})","actorName":"({_PLAIN})","publicKey":"({_PLAIN})","stream":"({_PLAIN})"'
    rf',"sequence":([1-9][0-9]{{0,14}}),"timestamp":"({_PLAIN})"(?:,"previous":"({_PLAIN})")?+'
    rf'(?:,"record":\{{"kind":"({_PLAIN})","content":"({_TEXT})"'
    rf',"anchor":\{{"commit":"({_PLAIN})"(?:,"paths":\[((?:\{{[^\[\]{{}}]*+\}},?+)++)\])?+(?:,"subject":"({_PLAIN})")?+\}}'
    rf',"applicability":\{{"mode":"({_PLAIN})"(?:,"subject":"({_PLAIN})")?+\}}'
    rf',"topics":\[({_LIST})\],"evidence":\[({_LIST})\](?:,"attemptOutcome":"({_PLAIN})")?+'
    rf'(?:,"handoff":\{{"completed":\[({_LIST})\],"assumptions":\[({_LIST})\],"blockers":\[({_LIST})\]'
    rf',"nextActions":\[({_LIST})\]\}})?+\}})?+'
    rf'(?:,"target":"({_PLAIN})")?+(?:,"reason":"({_PLAIN})")?+(?:,"evidence":\[((?!\]){_LIST})\])?+\}}'
)


@cache
def _expression() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    return re.compile(_ENVELOPE), re.compile(_PATH), re.compile(rf"{_PATH}(?:,{_PATH})*+")


def recognise(payload: bytes) -> tuple[object, ...] | None:
    """The fields of an envelope, in the order of `envelope.Envelope`, where these bytes are its canonical form.

    None says nothing about the bytes but that they are to be read in the ordinary way.
    """
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return None
    whole, path, paths_form = _expression()
    found = whole.fullmatch(text)
    if found is None:
        return None
    (
        protocol, operation, actor, actor_name, public_key, stream, sequence, timestamp, previous, kind, content,
        commit, paths, anchor_subject, mode, subject, topics, cited, outcome, completed,
        assumptions, blockers, next_actions, target, reason, evidence,
    ) = found.groups()  # fmt: skip
    record = None
    if kind is not None:
        pairs: tuple[PathAnchor, ...] = ()
        if paths is not None:
            if paths_form.fullmatch(paths) is None:
                return None
            pairs = tuple(PathAnchor(*pair) for pair in path.findall(paths))
        handoff = None
        if completed is not None:
            handoff = Handoff(_items(completed), _items(assumptions), _items(blockers), _items(next_actions))
        record = make(
            Record,
            (
                kind,
                loads(f'"{content}"'.encode()) if "\\" in content else content,
                make(Anchor, (commit, pairs, anchor_subject)),
                make(Applicability, (mode, subject)),
                _items(topics),
                _items(cited),
                outcome,
                handoff,
            ),
        )
    return (
        operation, actor, actor_name, public_key, stream, int(sequence), timestamp, previous, record, target, reason,
        () if evidence is None else _items(evidence), protocol,
    )  # fmt: skip


def _items(listed: str) -> tuple[str, ...]:
    # No string of the list holds a quote.
    return tuple(listed[1:-1].split('","')) if listed else ()
