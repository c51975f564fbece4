r"""What UHP says of a record and hn-memory/0 has no field for, kept inside the signed content as trailers.

The grammar, after Git's trailers (`git interpret-trailers`):

    signed   = content "\n\n" type author *("\n" trailer)
    type     = "Uhp-Type: " value                  ; always the first line
    author   = "\nUhp-Written-By: " kind " " id    ; always the second line
    trailer  = name ": " value
    name     = "Uhp-Record" / "Uhp-Version" / "Uhp-Attributes" / "Uhp-References" / "Uhp-Valid-From"
             / "Uhp-Valid-To" / "Uhp-File"         ; each at most once, in this order

* `Uhp-Record` and `Uhp-Version` (from 2) stand on revisions; version 1 is named by its own memory ID.
* `Uhp-Attributes` is a JSON object, `Uhp-References` a list of `[memory_id, record_id, rel]`, `Uhp-File` the
  reference of the file that is the content; then the text before the trailers is the file's name.
* Any other value that is not printable ASCII, or begins with a quote, is a JSON string.

No value holds a line break, since JSON escapes it. So the last empty line of the text is the one before the
trailers, whatever the content holds, and what stands before it is the content byte for byte.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from hn_memory.uhp.values import Author, Content, Draft, FileReference, Reference

_ORDER: Final = (
    "Type", "Written-By", "Record", "Version", "Attributes", "References", "Valid-From", "Valid-To", "File",
)  # fmt: skip
_PREFIX: Final = "Uhp-"
FILE_LINE: Final = f"\n{_PREFIX}File: "
"""What every text has whose content is a file."""


class Stated(NamedTuple):
    """What a signed content says. `record` and `number` name an earlier record's next version."""

    draft: Draft
    author: Author
    record: str | None
    number: int


def join(draft: Draft, author: Author, record: str | None = None, number: int = 1) -> str:
    """The text to be signed."""
    values: dict[str, str] = {"Type": _scalar(draft.type), "Written-By": f"{author.kind} {author.id}"}
    if record is not None:
        values["Record"], values["Version"] = record, str(number)
    if draft.attributes:
        values["Attributes"] = _json(draft.attributes)
    if draft.references:
        values["References"] = _json([[one.memory_id, one.record_id, one.rel] for one in draft.references])
    if draft.valid_from is not None:
        values["Valid-From"] = draft.valid_from
    if draft.valid_to is not None:
        values["Valid-To"] = draft.valid_to
    content = draft.content
    if isinstance(content, FileReference):
        values["File"] = _json(content.document())
        content = content.name
    lines = [f"{_PREFIX}{name}: {value}" for name, value in values.items()]
    return content + "\n\n" + "\n".join(lines)


def split(text: str) -> Stated | None:
    """What was joined, or None for a text that no UHP server wrote."""
    content, separator, block = text.rpartition("\n\n")
    if not separator or not block.startswith(f"{_PREFIX}Type: "):
        return None
    values: dict[str, str] = {}
    at = 0
    for line in block.split("\n"):
        name, colon, value = line.partition(": ")
        name = name.removeprefix(_PREFIX)
        if not colon or name not in _ORDER[at:]:
            return None
        at = _ORDER.index(name) + 1
        values[name] = value
    try:
        return _stated(content, values)
    except (ValueError, KeyError, TypeError):
        return None


def _stated(content: str, values: dict[str, str]) -> Stated:
    kind, _, author = values["Written-By"].partition(" ")
    attributes = json.loads(values.get("Attributes", "{}"))
    if not isinstance(attributes, dict):
        raise TypeError("attributes")
    body: Content = content
    if "File" in values:
        body = FileReference(**json.loads(values["File"]))
    draft = Draft(
        body,
        _unscalar(values["Type"]),
        attributes,
        tuple(Reference(*one) for one in json.loads(values.get("References", "[]"))),
        values.get("Valid-From"),
        values.get("Valid-To"),
    )
    return Stated(draft, Author(kind, author), values.get("Record"), int(values.get("Version", "1")))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _scalar(text: str) -> str:
    plain = text.isascii() and text.isprintable() and text and not text.startswith('"')
    return text if plain else _json(text)


def _unscalar(text: str) -> str:
    if not text.startswith('"'):
        return text
    value = json.loads(text)
    if not isinstance(value, str):
        raise TypeError("a JSON string")
    return value
