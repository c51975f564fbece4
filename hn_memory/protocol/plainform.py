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
from hn_memory.values import NamedTuple, make

# The inside of a string as `canonical.encode` writes it. Rarer escapes are left to the ordinary way.
_TEXT: Final = r'(?:[^"\\<>&\x00-\x1f\u2028\u2029]++|\\(?:["\\nrt]|u003[ce]|u0026))*+'
# No escape, so that what stands there is the text itself.
_PLAIN: Final = r'[^"\\<>&\x00-\x1f\u2028\u2029]*+'
_LIST: Final = rf'(?:"{_PLAIN}"(?:,"{_PLAIN}")*+)?+'
_PATH: Final = rf'\{{"path":"({_PLAIN})","blob":"({_PLAIN})"\}}'
_HEAD: Final = (
    r'\{"protocol":"(hn-memory/0)","operation":"(record|supersede|retract|challenge)"'
    rf',"actor":"({_PLAIN})","actorName":"({_PLAIN})","publicKey":"({_PLAIN})","stream":"({_PLAIN})"'
    rf',"sequence":([1-9][0-9]{{0,14}}),"timestamp":"({_PLAIN})"(?:,"previous":"({_PLAIN})")?+'
)
_TAIL: Final = rf'(?:,"target":"({_PLAIN})")?+(?:,"reason":"({_PLAIN})")?+(?:,"evidence":\[((?!\]){_LIST})\])?+\}}'
# A record on both sides of its content, which is most of it and looked at by other means.
_BEFORE: Final = rf',"record":\{{"kind":"({_PLAIN})","content":"'
_AFTER: Final = (
    rf'","anchor":\{{"commit":"({_PLAIN})"(?:,"paths":\[((?:\{{[^\[\]{{}}]*+\}},?+)++)\])?+(?:,"subject":"({_PLAIN})")?+\}}'
    rf',"applicability":\{{"mode":"({_PLAIN})"(?:,"subject":"({_PLAIN})")?+\}}'
    rf',"topics":\[({_LIST})\],"evidence":\[({_LIST})\](?:,"attemptOutcome":"({_PLAIN})")?+'
    rf'(?:,"handoff":\{{"completed":\[({_LIST})\],"assumptions":\[({_LIST})\],"blockers":\[({_LIST})\]'
    rf',"nextActions":\[({_LIST})\]\}})?+\}}'
)
_CONTENT: Final = '"content":"'
_ANCHOR: Final = '","anchor":{'
# What may stand in ASCII as it is.
_UNESCAPED: Final = bytes(set(range(0x20, 0x80)) - set(b'"\\<>&'))


class _Expressions(NamedTuple):
    """`speech` is an envelope without a record; `before`, `text` and `after` are one with a record, in three parts."""

    speech: re.Pattern[str]
    before: re.Pattern[str]
    text: re.Pattern[str]
    after: re.Pattern[str]
    path: re.Pattern[str]
    paths: re.Pattern[str]


@cache
def _expressions() -> _Expressions:
    return _Expressions(
        re.compile(_HEAD + _TAIL),
        re.compile(_HEAD + _BEFORE),
        re.compile(_TEXT),
        re.compile(_AFTER + _TAIL),
        re.compile(_PATH),
        re.compile(rf"{_PATH}(?:,{_PATH})*+"),
    )


def prepare() -> None:
    """Compile the expressions now; processes forked off later share them."""
    _expressions()


def recognise(payload: bytes) -> tuple[object, ...] | None:
    """The fields of an envelope, in the order of `envelope.Envelope`, where these bytes are its canonical form.

    None says nothing about the bytes but that they are to be read in the ordinary way.
    """
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return None
    speech, before, inside, after, path, paths_form = _expressions()
    start = text.find(_CONTENT) + len(_CONTENT)
    if start < len(_CONTENT):
        found = speech.fullmatch(text)
        if found is None:
            return None
        protocol, operation, *speaker, sequence, timestamp, previous, target, reason, evidence = found.groups()
        record = None
    else:
        end = text.find(_ANCHOR, start)
        head, rest = before.fullmatch(text, 0, start), after.fullmatch(text, end) if end >= 0 else None
        if head is None or rest is None:
            return None
        protocol, operation, *speaker, sequence, timestamp, previous, kind = head.groups()
        (
            commit, paths, anchor_subject, mode, subject, topics, cited, outcome, completed,
            assumptions, blockers, next_actions, target, reason, evidence,
        ) = rest.groups()  # fmt: skip
        content = text[start:end]
        # Nearly always nothing is left, and that is found out in no time.
        escaped = not text.isascii() or payload[start:end].translate(None, _UNESCAPED)
        if escaped and inside.fullmatch(content) is None:
            return None
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
        operation, *speaker, int(sequence), timestamp, previous, record, target, reason,
        () if evidence is None else _items(evidence), protocol,
    )  # fmt: skip


def _items(listed: str) -> tuple[str, ...]:
    # No string of the list holds a quote.
    return tuple(listed[1:-1].split('","')) if listed else ()
