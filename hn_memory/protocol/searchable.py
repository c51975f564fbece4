"""What `hn memory grep` looks into: which strings of a record, under which names, and how much they weigh.

Section 8 and the prose document's section on the regex fallback: the content, each topic, and each entry of the
four handoff lists, every string by itself. Evidence, anchors, IDs and judgments are not searched. One string
weighs its bytes of UTF-8 and one more, so that even an empty one counts as work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hn_memory.protocol.jsonbytes import plain_loads
from hn_memory.protocol.record import HANDOFF_LISTS, Record
from hn_memory.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Texts(NamedTuple):
    """The searched strings of a record as UTF-8, in order, and the bytes of the record's canonical JSON."""

    texts: list[bytes]
    size: int


def searchable(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The searched strings of a record's JSON value with the names of their fields, in canonical order.

    Entries of handoff lists are numbered from 0, as in the JSON: `handoff.completed[2]`.
    """
    yield "content", data["content"]
    for topic in data["topics"]:
        yield "topic", topic
    handoff = data.get("handoff") or {}
    for name, _ in HANDOFF_LISTS:
        for at, item in enumerate(handoff.get(name, ())):
            yield f"handoff.{name}[{at}]", item


def weigh(record: Record) -> int:
    """The sum over all searched strings of their bytes and one: what the work limit counts of a record."""
    texts = [record.content, *record.topics]
    if record.handoff is not None:
        for _, items in record.handoff.lists():
            texts += items
    whole = "".join(texts)
    return (len(whole) if whole.isascii() else len(whole.encode())) + len(texts)


def _content_of(payload: bytes) -> tuple[int, int, int]:
    """Where a record starts, and its content (within its quotes) starts and ends; see `take_texts`."""
    start = payload.index(b'"record":{') + 9
    content = payload.index(b'"content":"', start) + 11
    return start, content, payload.index(b'","anchor":{', content)


def written_size(payload: bytes) -> int:
    """Bytes of a record's content as canonical JSON, quotes included, from its verified payload.

    Raises:
        ValueError: this is not the payload of a record.
    """
    _, content, end = _content_of(payload)
    return end - content + 2


def take_texts(payload: bytes) -> Texts:
    """The searched strings straight from the verified payload of a record, as `searchable` orders them.

    A verified payload is canonical (section 3): its fields stand in one order, without a space between them. And
    no string of JSON holds a quote without a backslash before it. So a field's name in quotes with what must stand
    beside it occurs once, where the field is, and a string without a backslash stands there as it is.

    Raises:
        ValueError: this is not the payload of a record.
    """
    start, content, content_end = _content_of(payload)
    topics = payload.index(b'},"topics":[', content_end) + 12
    topics_end = payload.index(b'],"evidence":[', topics)
    end = payload.rfind(b',"target":"', topics_end)
    if end < 0:
        end = len(payload) - 1
    text = payload[content:content_end]
    texts = [plain_loads(b'"' + text + b'"').encode() if b"\\" in text else text]
    if topics_end > topics:
        listed = payload[topics:topics_end]
        if b"\\" in listed:
            texts += (topic.encode() for topic in plain_loads(b"[" + listed + b"]"))
        else:
            texts += listed[1:-1].split(b'","')
    handoff = payload.find(b',"handoff":{', topics_end, end)
    if handoff >= 0:
        lists = plain_loads(payload[handoff + 11 : end - 1])
        texts += (item.encode() for name, _ in HANDOFF_LISTS for item in lists[name])
    return Texts(texts, end - start)
