"""The text of a policy file: where its parts stand, and how the `memory` section is edited.

The rules of an edit:

1. the text must be a valid policy before it is touched, and is checked again after;
2. where both lists are there, nothing but the bytes of the lists that differ change;
3. where a list is missing, the value of `memory` is written anew; where `memory` is missing, it is added
   after the last member; every other byte stays, line ends and indentation included;
4. lists are sorted and unique, and keep the layout they had;
5. an edit that changes no set changes no byte.

Places are found by the JSON library's own scanner, so there is no second opinion about what JSON is. Pure:
bytes in, bytes out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from json.decoder import JSONDecoder
from typing import Final

from hn_memory.errors import HnError
from hn_memory.protocol.policy import Policy, parse_policy
from hn_memory.values import NamedTuple

_LISTS: Final = ("trustedActors", "trustedKinds")
_SPACE: Final = re.compile("[ \t\r\n]*")
_LINE_END: Final = re.compile("\r\n|\n|\r")
_DECODER: Final = JSONDecoder()


class _Member(NamedTuple):
    """One member of an object: its name and where name and value stand."""

    name: str
    start: int
    value: int
    end: int


class _Layout(NamedTuple):
    """How an object is set: `lead` before a member, `tail` before the closing brace, `colon` after a name."""

    lead: str
    tail: str
    colon: str
    unit: str

    @property
    def lines(self) -> bool:
        return _LINE_END.search(self.lead) is not None

    def below(self) -> _Layout:
        """The layout of a value inside this object."""
        if not self.lines:
            return self
        return _Layout(self.lead + self.unit, self.lead, self.colon, self.unit)

    def wrap(self, brackets: str, items: Sequence[str]) -> str:
        """Items between brackets, each on its own line or all on one."""
        if not items:
            return brackets
        between = "," + self.lead if self.lines or self.lead else ", " if self.colon.endswith(" ") else ","
        return brackets[0] + self.lead + between.join(items) + self.tail + brackets[1]


def edit_policy(data: bytes | None, actors: Iterable[str], kinds: Iterable[str]) -> bytes:
    """The policy file with exactly these trusted actors and kinds, and everything else as it was.

    Args:
        data: the file's bytes, or None where there is none: a new file holds nothing but `memory`.

    Raises:
        HnError `policy-invalid`: the file, or what it would become, breaks a rule of section 6.
    """
    wanted = {"trustedActors": sorted(set(actors)), "trustedKinds": sorted(set(kinds))}
    if data is None:
        return _checked((json.dumps({"memory": wanted}, indent=2) + "\n").encode(), wanted)
    before = parse_policy(data)
    if before.state == "present" and _lists(before) == wanted:
        return data
    text = data.decode()
    try:
        edited = _edit(text, before, wanted)
    except RecursionError:
        raise HnError("policy-invalid", "the policy is nested too deeply to be edited") from None
    return _checked(edited.encode(), wanted)


def locate(data: bytes, field: str | None) -> tuple[int, int] | None:
    """Line and column, from 1, of a field that `parse_policy` named; of the fault where the text is no JSON.

    A column counts characters. None when the place cannot be told.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    try:
        at = _offset(text, field)
    except json.JSONDecodeError as error:
        at = error.pos
    except (ValueError, RecursionError):
        return None
    if at is None:
        return None
    line_start = text.rfind("\n", 0, at) + 1
    return text.count("\n", 0, at) + 1, at - line_start + 1


# -- editing ----------------------------------------------------------------------------------------------


def _lists(policy: Policy) -> dict[str, list[str]]:
    return {"trustedActors": sorted(policy.actors), "trustedKinds": sorted(policy.kinds)}


def _checked(data: bytes, wanted: dict[str, list[str]]) -> bytes:
    """The bytes, after a look that they say what they should."""
    after = parse_policy(data)
    if after.state != "present" or _lists(after) != wanted:
        raise AssertionError("an edited policy does not say what it should")
    return data


def _edit(text: str, before: Policy, wanted: dict[str, list[str]]) -> str:
    top = _space(text, 0)
    members, close = _members(text, top)
    layout = _layout(text, top, members, close, _unit(text))
    memory = next((member for member in members if member.name == "memory"), None)
    if memory is None:
        added = f'"memory"{layout.colon}{_section(layout.below(), wanted)}'
        if not members:
            return text[: top + 1] + layout.lead + added + layout.tail + text[close:]
        last = members[-1].end
        between = "," + layout.lead if layout.lines or not layout.colon.endswith(" ") else ", "
        return text[:last] + between + added + text[last:]
    inner, inner_close = _members(text, memory.value)
    places = {member.name: member for member in inner}
    if not all(name in places for name in _LISTS):
        return text[: memory.value] + _section(layout.below(), wanted) + text[memory.end :]
    section = _layout(text, memory.value, inner, inner_close, layout.unit)
    held = _lists(before)
    # From the back, so that an edit does not move the place of the next.
    for place in sorted(inner, key=lambda member: member.start, reverse=True):
        if held[place.name] != wanted[place.name]:
            new = _list(text, place, section, wanted[place.name])
            text = text[: place.value] + new + text[place.end :]
    return text


def _section(layout: _Layout, wanted: dict[str, list[str]]) -> str:
    below = layout.below()
    return layout.wrap(
        "{}", [f'"{name}"{layout.colon}{below.wrap("[]", [json.dumps(i) for i in wanted[name]])}' for name in _LISTS]
    )


def _list(text: str, place: _Member, section: _Layout, wanted: list[str]) -> str:
    """A list in the layout it has, or where it is empty in the one of the section around it."""
    items = [json.dumps(item) for item in wanted]
    spans = _items(text, place.value)
    if not spans or not items:
        return section.below().wrap("[]", items)
    lead = text[place.value + 1 : spans[0][0]]
    tail = text[spans[-1][1] : place.end - 1]
    if len(spans) > 1:
        between = text[spans[0][1] : spans[1][0]]
    else:
        between = "," + (lead or (" " if section.colon.endswith(" ") else ""))
    return "[" + lead + between.join(items) + tail + "]"


def _layout(text: str, start: int, members: list[_Member], close: int, unit: str) -> _Layout:
    """How the object at `start` is set; an empty one as the file's own line ends suggest."""
    if members:
        first = members[0]
        lead = text[start + 1 : first.start]
        colon = text[_DECODER.raw_decode(text, first.start)[1] : first.value]
        return _Layout(lead, text[members[-1].end : close], colon if _LINE_END.search(colon) is None else ": ", unit)
    inside = text[start + 1 : close]
    ends = _LINE_END.search(text)
    if ends is None:
        return _Layout("", "", ": ", unit)
    base = "" if _LINE_END.search(inside) is None else _LINE_END.split(inside)[-1]
    return _Layout(ends[0] + base + unit, ends[0] + base, ": ", unit)


def _unit(text: str) -> str:
    """One step of indentation: what stands before the first member of the document, else two spaces."""
    top = _space(text, 0)
    members, _ = _members(text, top)
    if members:
        ends = _LINE_END.split(text[top + 1 : members[0].start])
        if len(ends) > 1 and ends[-1]:
            return ends[-1]
    return "  "


# -- places -----------------------------------------------------------------------------------------------


def _space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


def _members(text: str, start: int) -> tuple[list[_Member], int]:
    """The members of the object whose brace stands at `start`, and the place of the closing brace."""
    members: list[_Member] = []
    at = _space(text, start + 1)
    while text[at] != "}":
        name_at = at
        name, at = _DECODER.raw_decode(text, at)
        value_at = _space(text, _space(text, at) + 1)
        _, end = _DECODER.raw_decode(text, value_at)
        members.append(_Member(name, name_at, value_at, end))
        at = _space(text, end)
        if text[at] == ",":
            at = _space(text, at + 1)
    return members, at


def _items(text: str, start: int) -> list[tuple[int, int]]:
    """Where the items of the list whose bracket stands at `start` begin and end."""
    spans: list[tuple[int, int]] = []
    at = _space(text, start + 1)
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        spans.append((at, end))
        at = _space(text, end)
        if text[at] == ",":
            at = _space(text, at + 1)
    return spans


def _offset(text: str, field: str | None) -> int | None:
    """Where a field stands; raises `JSONDecodeError` where the text is no JSON."""
    json.loads(text)
    start = _space(text, 0)
    if field is None or not text.startswith("{", start):
        return None
    # Of a repeated field the last one counts: it is the one too many.
    places: dict[str, int] = {}
    for member in _members(text, start)[0]:
        places[member.name] = member.start
        if member.name != "memory" or text[member.value] != "{":
            continue
        for inner in _members(text, member.value)[0]:
            where = f"memory.{inner.name}"
            places[where] = inner.start
            if inner.name in _LISTS and text[inner.value] == "[":
                spans = _items(text, inner.value)
                places.update((f"{where}[{at}]", begin) for at, (begin, _) in enumerate(spans))
    return places.get(field)
