"""The shapes of the chapter's optional parts: queries, snapshots, consolidation runs, files."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field

from hn_memory.uhp.http.models import (
    Answer,
    Description,
    File,
    Name,
    Neighbour,
    Privilege,
    Record,
    Request,
    Result,
    WrittenBy,
)

STATEMENT_CHARACTERS = 32_768
PARAMETERS = 64

Statement = Annotated[str, Field(min_length=1, max_length=STATEMENT_CHARACTERS, pattern=r"^[^\x00]*$")]
Language = Annotated[str, Field(min_length=1, max_length=32, pattern=r"^[^\x00]*$")]
Parameters = Annotated[dict[str, Any], Field(max_length=PARAMETERS)]
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
QueryName = Annotated[str, Field(pattern=f"^{NAME.pattern}$")]


# -- queries ----------------------------------------------------------------------------------------------


class FreeQuery(Request):
    language: Language
    statement: Statement
    params: Parameters = Field(default_factory=dict)


class NewQuery(Request):
    name: QueryName | None = None
    description: Description = ""
    params: dict[str, Any] = Field(default_factory=dict)
    requires: Privilege = "read"
    language: Language
    body: Statement


class QueryRun(Request):
    params: Parameters = Field(default_factory=dict)


class Query(Answer):
    name: str
    description: str
    params: dict[str, Any]
    requires: Privilege
    language: str
    body: str


class QueryList(Answer):
    object: Literal["list"]
    data: list[Query]
    next: str | None


class Queried(Answer):
    results: list[Result]
    columns: list[str] = Field(default_factory=list, description="Absent where the result is records.")
    rows: list[list[Any]] = Field(default_factory=list, description="Absent where the result is records.")
    parent: Neighbour = Field(default=None)  # type: ignore[assignment]
    children: list[Neighbour]
    degraded: list[str]
    abstain: bool


# -- snapshots --------------------------------------------------------------------------------------------


class NewSnapshot(Request):
    name: Name
    message: Description = ""


class Snapshot(Answer):
    id: str
    object: Literal["memory.snapshot"]
    memory_id: str
    name: str
    message: str
    at: str


class SnapshotList(Answer):
    object: Literal["list"]
    data: list[Snapshot]
    next: str | None


# -- consolidation runs -----------------------------------------------------------------------------------


class NewBudget(Request):
    limit: Annotated[int, Field(ge=1, le=1000)]
    unit: Literal["records"] = "records"


class NewRun(Request):
    budget: NewBudget | None = None


class RunRead(Answer):
    episodes: int
    through: str | None


class RunChanges(Answer):
    created: int
    superseded: int
    forgotten: int


class Usage(Answer):
    input_tokens: int
    output_tokens: int


class Budget(Answer):
    limit: int
    unit: Literal["records"]
    exhausted: bool


class Reverted(Answer):
    at: int
    restored: int
    kept: list[str]


class Run(Answer):
    id: str
    object: Literal["memory.consolidation"]
    memory_id: str
    status: Literal["queued", "running", "completed", "stopped", "failed"]
    trigger: Literal["manual", "schedule"]
    started_at: int
    finished_at: int | None
    read: RunRead
    changes: RunChanges
    usage: Usage
    budget: Budget
    written_by: WrittenBy
    error: str
    reverted: Reverted | None


class RunList(Answer):
    object: Literal["list"]
    data: list[Run]
    next: str | None


class RunChange(Answer):
    change: Literal["created", "superseded", "forgotten"]
    record_id: str
    version: int
    record: Record | None


class RunChangeList(Answer):
    object: Literal["list"]
    data: list[RunChange]
    next: str | None


# -- files ------------------------------------------------------------------------------------------------


class Uploaded(File):
    object: Literal["file"]
    createdAt: int  # noqa: N815 - the protocol's name
    expiresAt: int  # noqa: N815


# -- types, priming and tools ------------------------------------------------------------------------------


class Types(Answer):
    data: list[dict[str, Any]]


class OperationInput(Request):
    input: Parameters = Field(default_factory=dict)


class OperationResult(Answer):
    name: str
    result: dict[str, Any]


class Primed(Answer):
    memory_id: str
    name: str
    description: str
    text: str
    tokens: int
    records: list[str]
    omitted: int


class Session(Answer):
    instructions: str
    tokens: int
    memories: list[Primed]
    default: str | None


class Tool(Answer):
    name: str
    description: str
    input_schema: dict[str, Any]


class Tools(Answer):
    tools: list[Tool]


class ToolMetadata(Request):
    memory: Annotated[str, Field(max_length=64)] | None = None


class ToolCall(Request):
    name: Annotated[str, Field(min_length=1, max_length=64)]
    arguments: dict[str, Any] = Field(default_factory=dict)
    metadata: ToolMetadata = ToolMetadata()


class ToolResult(Answer):
    name: str
    text: str
    result: dict[str, Any]
