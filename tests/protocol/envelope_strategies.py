"""Hypothesis strategies for envelopes that keep every rule of section 4."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from simulator import Author, changed

from hn_memory.protocol import limits
from hn_memory.protocol.identifiers import EVIDENCE_TYPES, SUBJECT_TYPES
from hn_memory.protocol.record import Anchor, Applicability, Handoff, PathAnchor, Record
from hn_memory.protocol.unicode import find_control, is_blank, lower, trim

AUTHORS = [Author(number, name) for number, name in enumerate(("Ada", "Bob Ünïcode", "\u202e<&>", "日本"), 1)]

hexes = st.text("0123456789abcdef", min_size=64, max_size=64)
digests = hexes.map("sha256:".__add__)
oids = hexes | hexes.map(lambda text: text[:40])
awkward = st.sampled_from('\x00\b\f\n\r\t\x1f\x7f\x85\xa0<>&"\\/\u2028\u2029\ufeff\u200d\U0001f469')
texts = st.text(st.characters(exclude_categories=["Cs"]) | awkward, min_size=1, max_size=30)
contents = texts.filter(lambda text: not is_blank(text))
tokens = st.from_regex("[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
subjects = st.builds(lambda kind, digest: f"{kind}:{digest}", st.sampled_from(SUBJECT_TYPES), digests)
evidence = st.lists(
    st.sampled_from(EVIDENCE_TYPES).flatmap(
        lambda kind: (oids if kind == "git" else digests).map(lambda text: f"{kind}:{text}")
    ),
    max_size=4,
    unique=True,
).map(tuple)
topics = st.lists(
    texts.map(lambda text: lower(trim(text))).filter(lambda text: text != "" and find_control(text) is None), max_size=4
).map(lambda items: tuple(sorted(set(items))))
components = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/\\"), min_size=1, max_size=6
).filter(lambda part: part not in (".", ".."))
clean_paths = st.lists(components, min_size=1, max_size=3).map("/".join)
paths = st.dictionaries(clean_paths, oids | st.just("absent"), max_size=3).map(
    lambda pairs: tuple(PathAnchor(path, pairs[path]) for path in sorted(pairs))
)
entries = st.lists(contents, max_size=2).map(tuple)
handoffs = st.builds(Handoff, entries, entries, entries, entries)


@st.composite
def timestamps(draw: st.DrawFn) -> str:
    """Any legal instant, in UTC or at an offset."""
    moment = draw(st.datetimes())
    digits = draw(st.text("0123456789", max_size=9)).rstrip("0")
    hours, minutes = draw(st.integers(0, 24)), draw(st.integers(0, 59))
    zone = "Z" if (hours, minutes) == (0, 0) else f"{draw(st.sampled_from('+-'))}{hours:02d}:{minutes:02d}"
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}{'.' + digits if digits else ''}{zone}"


@st.composite
def records(draw: st.DrawFn) -> Record:
    """A record of any kind, with what the kind demands."""
    kind = draw(st.sampled_from(["assumption", "attempt", "decision", "handoff", "observation", "verification"]))
    subject = draw(st.none() | subjects)
    mode = draw(st.sampled_from(["exact", "descendants"] + ([] if subject is None else ["subject"])))
    items = draw(evidence)
    if kind == "verification" and not items:
        items = ("git:" + draw(hexes),)
    return Record(
        kind,
        draw(contents),
        Anchor(draw(oids), draw(paths), subject),
        Applicability(mode, subject if mode == "subject" else None),
        draw(topics),
        items,
        draw(tokens) if kind == "attempt" else None,
        draw(handoffs) if kind == "handoff" else None,
    )


@st.composite
def envelopes(draw: st.DrawFn) -> Any:
    """An envelope of any operation by one of the `AUTHORS`."""
    author = draw(st.sampled_from(AUTHORS))
    operation = draw(st.sampled_from(["record", "supersede", "retract", "challenge"]))
    sequence = draw(st.sampled_from([1, 2, 2**53 + 1, limits.SEQUENCE_MAX]) | st.integers(1, limits.SEQUENCE_MAX))
    fields: dict[str, Any] = {
        "stream": draw(digests),
        "sequence": sequence,
        "previous": None if sequence == 1 else draw(digests),
        "timestamp": draw(timestamps()),
    }
    if operation in ("record", "supersede"):
        fields["record"] = draw(records())
    if operation != "record":
        fields["target"] = draw(digests)
    if operation in ("retract", "challenge"):
        fields["reason"] = draw(tokens)
    if operation == "challenge":
        fields["evidence"] = draw(evidence)
    return changed(author.envelope(operation), **fields)


def author_of(envelope: Any) -> Author:
    """Who holds the key of a generated envelope."""
    return next(author for author in AUTHORS if author.actor == envelope.actor)
