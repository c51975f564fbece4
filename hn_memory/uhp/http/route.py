"""One route: what it takes, what it answers, and how it is run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pydantic import BaseModel, ValidationError
from sqlalchemy import Connection

from hn_memory.uhp.access import Caller
from hn_memory.uhp.faults import UhpError, invalid, malformed
from hn_memory.uhp.http.models import LIST_LIMIT, Answer, Request
from hn_memory.uhp.instants import parse_instant
from hn_memory.uhp.provider import Witness, unwitnessed
from hn_memory.uhp.server import Server
from hn_memory.uhp.state.snapshot import Key, Snapshot
from hn_memory.uhp.values import Version

DEFAULT_LIMIT: Final = 50
CURSOR_CHARACTERS: Final = 512


@dataclass(slots=True)
class Call:
    """One request on its way through a route.

    Attributes:
        query: query parameters, as texts.
        body: the checked body; `given` are the names of its fields that the request named.
        if_version: the version that `If-Match` names.
        connection, tree: in a `change`: the transaction, and the tree as it finds it.
        witness: in a `write`: told what is about to be written.
        target: in a `write`: the memory, where it is not the one in the path.
        after: in a `change`: run when it is committed, before it is answered.
        later: in a `change`: begun when it is committed; nobody waits for it.
    """

    server: Server
    caller: Caller
    key: Key
    params: Mapping[str, str]
    query: Mapping[str, str]
    body: Any = None
    if_version: int | None = None
    connection: Connection = None  # type: ignore[assignment]
    witness: Witness = unwitnessed
    target: str | None = None
    after: list[Callable[[], None]] = field(default_factory=list)
    later: list[Callable[[], None]] = field(default_factory=list)

    @property
    def given(self) -> set[str]:
        """Fields that the request named."""
        found: set[str] = self.body.model_fields_set
        return found

    @property
    def tree(self) -> Snapshot:
        """The tree that the caller is judged on."""
        return self.caller.tree

    def instant(self, name: str) -> int | None:
        """A query parameter that is an instant, in nanoseconds."""
        text = self.query.get(name)
        return None if text is None else instant_of(text, name)

    def limit(self) -> int:
        """The `limit` of a listing."""
        text = self.query.get("limit")
        if text is None:
            return DEFAULT_LIMIT
        if not (text.isascii() and text.lstrip("-").isdigit() and len(text) < 10):
            raise malformed("limit is a whole number", "limit")
        if not 1 <= int(text) <= LIST_LIMIT:
            raise invalid(f"limit is 1 to {LIST_LIMIT}", "limit")
        return int(text)

    def choice(self, name: str, values: Sequence[str]) -> str:
        """A query parameter that is one of some words; the first of them when it is left out."""
        text = self.query.get(name, values[0])
        if text not in values:
            raise invalid(f"{name} is {' or '.join(values)}", name)
        return text


def instant_of(text: str, param: str) -> int:
    """An RFC 3339 instant in nanoseconds.

    Raises:
        UhpError `invalid_input`.
    """
    value = parse_instant(text)
    if value is None:
        raise malformed(f"{param} is an RFC 3339 instant with an offset", param)
    return value


Recovered = Callable[[Call, list[Version]], Any]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter or header, for the document."""

    name: str
    description: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    place: Literal["query", "header"] = "query"


@dataclass(frozen=True, slots=True)
class Route:
    """A method on a path.

    Attributes:
        run: makes the answer's JSON value; or `(status, value)` with another status than 200; or a `Raw`.
        kind: `read` runs at once; `query` reads beside the other requests, for it takes long; `change` runs in a
            transaction on the state; `write` writes to a provider.
        recovered: of a `write`: the answer, from what was written before the process was killed.
        codes: faults beyond those that every route has.
        accepted: the model of an answer with 202.
        kind_of: how a request is run, where that depends on what it says.
        open: needs no credential.
        optional: no body at all stands for an empty object.
        upload: the body is a file (`upload.Upload`), in place of JSON.
        raw: the answer is a `Raw`.
    """

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    summary: str
    run: Callable[[Call], Any]
    answer: type[Answer]
    kind: Literal["read", "query", "change", "write"] = "read"
    body: type[Request] | None = None
    parameters: tuple[Parameter, ...] = ()
    codes: tuple[str, ...] = ()
    recovered: Recovered | None = None
    accepted: type[Answer] | None = None
    open: bool = False
    optional: bool = False
    upload: bool = False
    raw: bool = False
    if_match: bool = False
    kind_of: Callable[[Call], str] | None = None

    @property
    def name(self) -> str:
        """The route's name in logs, metrics and the document."""
        return f"{self.method} {self.path}"

    @property
    def query_names(self) -> tuple[str, ...]:
        """The query parameters it takes; any other is refused, for it would change nothing in silence."""
        return tuple(one.name for one in self.parameters if one.place == "query")


@dataclass(frozen=True, slots=True)
class Raw:
    """An answer that is no JSON."""

    data: bytes
    media_type: str
    headers: tuple[tuple[str, str], ...] = ()


# A field of another type, or none where one must be; everything else pydantic finds is a value out of bounds.
_TYPE_ERRORS: Final = ("missing", "_type", "_parsing", "model_attributes", "is_instance", "int_from_float", "union_tag")


# What pydantic says in terms of its own, in terms of the caller's.
_WORDS: Final = {
    "missing": "it must be given",
    "union_tag_not_found": "it should be a text, or an object that names a file",
    "string_type": "it should be a text",
    "int_type": "it should be a whole number",
    "bool_type": "it should be true or false",
    "list_type": "it should be a list",
    "dict_type": "it should be an object",
    "model_type": "it should be an object",
    "model_attributes_type": "it should be an object",
    "string_pattern_mismatch": "it holds control characters, or nothing but spaces",
}


def checked(model: type[BaseModel], value: Any) -> Any:
    """The body as its model.

    Raises:
        UhpError `invalid_input`: a field of the wrong type; `memory_invalid`: a value out of bounds.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
    first = next((one for one in found if _is_type(one["type"])), found[0])
    where = ".".join(str(part) for part in first["loc"] if not str(part).startswith("="))
    said = _WORDS.get(first["type"]) or first["msg"][0].lower() + first["msg"][1:]
    message = f"{where or 'the body'}: {said.replace('input should', 'it should')}"
    if any(_is_type(one["type"]) for one in found):
        raise malformed(message, where or None)
    raise invalid(message, where or None)


def _is_type(kind: str) -> bool:
    return any(kind.endswith(part) or kind.startswith(part) for part in _TYPE_ERRORS)


def request_digest(method: str, target: bytes, if_match: bytes, body: bytes) -> bytes:
    """What an idempotency key stands for: the whole request."""
    digest = hashlib.sha256()
    for part in (method.encode(), target, if_match, body):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


def if_match(value: bytes | None) -> int | None:
    """The version that `If-Match` names: `"3"` or `3`; `*` and none name nothing.

    Raises:
        UhpError `invalid_input`.
    """
    if value is None or value.strip() == b"*":
        return None
    digits = value.strip().strip(b'"')
    if not digits.isdigit() or len(digits) > 9:
        raise UhpError("invalid_input", "If-Match is the number of a version", param="If-Match")
    return int(digits)
