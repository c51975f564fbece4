"""The shapes of requests and answers (section 2 of the settled page).

Requests are checked against these: a field of another type is 400, a value out of bounds 422, an unknown field is
ignored. Answers are made by hand and only described by these; tests hold the two together.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from hn_memory.uhp.values import PRIVILEGES

Privilege = Literal["read", "write", "create", "delete"]
assert Privilege.__args__ == PRIVILEGES  # type: ignore[attr-defined]

NAME_CHARACTERS = 512
DESCRIPTION_CHARACTERS = 8192
ID_CHARACTERS = 64
LIST_LIMIT = 200
RECALL_LIMIT = 100
EPISODES = 256
ERASED = 1000

Id = Annotated[str, Field(max_length=ID_CHARACTERS)]
# NUL is no character of a PostgreSQL text, and controls have no business in a name.
Name = Annotated[
    str,
    Field(min_length=1, max_length=NAME_CHARACTERS, pattern=r"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$"),
]
Description = Annotated[str, Field(max_length=DESCRIPTION_CHARACTERS, pattern=r"^[^\x00]*$")]
Instant = Annotated[
    str,
    Field(
        description="RFC 3339, with an offset.",
        examples=["2026-10-01T17:02:11Z"],
        json_schema_extra={"format": "date-time"},
    ),
]


class Request(BaseModel):
    """A body: strict types, unknown fields ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class Answer(BaseModel):
    """A body of ours."""

    model_config = ConfigDict(extra="allow")


# -- memories ---------------------------------------------------------------------------------------------


class NewMemory(Request):
    name: Name
    description: Description = ""
    parent_id: Id | None = None
    restricted: bool = False
    provider: Id | None = None


class MemoryChange(Request):
    name: Name = ""
    description: Description = ""
    parent_id: Id | None = None
    restricted: bool = False
    provider: Id | None = None


class Count(Answer):
    count: int


class Memory(Answer):
    id: str
    object: Literal["memory"]
    name: str
    description: str
    parent_id: str | None
    ancestors: list[str]
    restricted: bool
    provider: str
    privileges: list[Privilege]
    records: Count
    children: Count
    createdAt: int  # noqa: N815 - the protocol's name
    updatedAt: int  # noqa: N815


class MemoryList(Answer):
    object: Literal["list"]
    data: list[Memory]
    next: str | None


class MemoryDeleted(Answer):
    id: str
    deleted: Literal[True]
    memories: list[str]


class Neighbour(Answer):
    id: str
    name: str
    description: str
    records: Count
    children: Count
    privileges: list[Privilege]


class NewGrant(Request):
    principal: Annotated[str, Field(max_length=160)]
    privileges: Annotated[list[str], Field(max_length=16)]


class Grant(Answer):
    id: str
    object: Literal["memory.grant"]
    memory_id: str
    principal: str
    privileges: list[Privilege]
    inherited: bool


class GrantList(Answer):
    object: Literal["list"]
    data: list[Grant]
    next: None


class GrantDeleted(Answer):
    id: str
    deleted: Literal[True]


# -- records ----------------------------------------------------------------------------------------------


class NewReference(Request):
    memory_id: Id
    record_id: Id
    rel: Annotated[str, Field(min_length=1, max_length=128)] = "related"


class FileId(Request):
    id: Id


class FileContent(Request):
    file: FileId


class Times(Request):
    valid_from: Instant | None = None
    valid_to: Instant | None = None


Type = Annotated[str, Field(min_length=1, max_length=128)]
Text = Annotated[str, Field(min_length=1, description="At most 65,536 bytes of UTF-8 together with the attributes.")]
References = Annotated[list[NewReference], Field(max_length=64)]


def _content_tag(value: Any) -> str | None:
    """Which of its forms a content is meant to have, so that the fault of that form is the one that is told."""
    if isinstance(value, str):
        return "=text"
    return "=file" if isinstance(value, dict | FileContent) else None


Content = Annotated[Annotated[Text, Tag("=text")] | Annotated[FileContent, Tag("=file")], Discriminator(_content_tag)]


class NewRecord(Request):
    content: Content
    type: Type = "fact"
    attributes: dict[str, Any] = {}
    references: References = []
    time: Times = Times()


class RecordChange(Request):
    content: Content = ""
    type: Type = "fact"
    attributes: dict[str, Any] = {}
    references: References = []
    time: Times = Times()


class Episode(Request):
    content: Text
    attributes: dict[str, Any] = {}


class Observation(Request):
    episodes: Annotated[list[Episode], Field(min_length=1, max_length=EPISODES)]


class Erasure(Request):
    record_ids: Annotated[list[Id], Field(min_length=1, max_length=ERASED)]


class Recall(Request):
    query: Annotated[str, Field(max_length=4096)] | None = None
    text: Annotated[str, Field(max_length=4096)] | None = None
    filters: dict[str, Any] | None = None
    types: Annotated[list[Type], Field(max_length=64)] | None = None
    as_of: Instant | None = None
    include: Literal["active", "all"] = "active"
    limit: Annotated[int, Field(ge=1, le=RECALL_LIMIT)] = 8
    depth: Annotated[int, Field(ge=0)] = 0


class WrittenBy(Answer):
    kind: str
    id: str


class Time(Answer):
    valid_from: str | None
    valid_to: str | None
    written_at: str
    invalidated_at: str | None


class File(Answer):
    id: str
    name: str
    bytes: int
    media_type: str
    version: str
    available: bool = Field(default=True, description="False, and there at all, only where the bytes are not here.")


class FileHeld(Answer):
    file: File


class Record(Answer):
    id: str
    object: Literal["memory.record"]
    memory_id: str
    type: str
    content: str | FileHeld
    attributes: dict[str, Any]
    version: int
    status: Literal["active", "superseded", "forgotten"]
    supersedes: int | None
    time: Time
    written_by: WrittenBy
    references: list[dict[str, Any]]
    trust: Literal["untrusted"]


class RecordList(Answer):
    object: Literal["list"]
    data: list[Record]
    next: str | None
    parent: Neighbour = Field(default=None)  # type: ignore[assignment]
    children: list[Neighbour]


class Observed(Answer):
    data: list[Record]
    next: None


class Job(Answer):
    id: str
    object: Literal["memory.job"]
    status: Literal["pending", "completed", "failed"]
    data: list[Record]


class ObservedLater(Answer):
    data: list[Record]
    next: None
    job: dict[str, str]


class History(Answer):
    object: Literal["list"]
    data: list[Record]
    next: None


class Result(Answer):
    record: Record
    score: float | None
    why: list[str]


class Recalled(Answer):
    results: list[Result]
    parent: Neighbour = Field(default=None)  # type: ignore[assignment]
    children: list[Neighbour]
    degraded: list[str]
    abstain: bool


class Erased(Answer):
    erased: list[str]
    unreachable: list[str]


# -- harnesses and the server ------------------------------------------------------------------------------


class NewAttachment(Request):
    memory_id: Id
    access: Literal["read", "write"]
    default: bool = False


class NewAttachments(Request):
    memories: Annotated[list[NewAttachment], Field(max_length=64)]


class Attachment(Answer):
    memory_id: str
    access: Literal["read", "write"]
    default: bool


class Attachments(Answer):
    memories: list[Attachment]


class Providers(Answer):
    data: list[dict[str, Any]]


class Discovery(Answer):
    object: Literal["uhp.discovery"]
    protocol: Literal["uhp"]
    versions: list[str]
    default_version: str
    capabilities: dict[str, bool]
    implementation: dict[str, str]


class ErrorBody(Answer):
    type: str
    code: str
    message: str
    param: str | None
    detail: dict[str, Any] | None


class Error(Answer):
    error: ErrorBody
