"""Routes for a gateway that offers memories to an agent: priming, the tools it may hold, and calling one.

A tool call runs the same code as the route it stands for, as the harness, narrowed to what its attachments reach.
What it answers is data: its text is fenced and carries who wrote what.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from hn_memory.protocol.query import WARNING
from hn_memory.uhp.access import Caller, memory_document, neighbourhood
from hn_memory.uhp.faults import UhpError, invalid, memory_not_found
from hn_memory.uhp.http import harnesses, models, operations, queries, records
from hn_memory.uhp.http import models_optional as optional
from hn_memory.uhp.http.route import Call, Parameter, Route, checked
from hn_memory.uhp.priming import DEFAULT_BUDGET, MOST, fenced, instructions, prime_text, tokens
from hn_memory.uhp.state import schema
from hn_memory.uhp.state.schema import READ, WRITE
from hn_memory.uhp.state.snapshot import Node
from hn_memory.uhp.types import all_types
from hn_memory.uhp.values import Version
from hn_memory.uhp.walking import Attached, Reach


class Tool(NamedTuple):
    """A tool of section 9.1: what it runs, with which body, and which arguments are ids in the path."""

    description: str
    run: Callable[[Call], Any]
    model: type[models.Request] | None
    path: tuple[str, ...] = ()
    writes: bool = False


_NOTE: Final = 400
_QUERIES: Final = 32

_PROPERTIES: Final[dict[str, dict[str, Any]]] = {
    "memory_id": {"type": "string", "description": "The memory; the default one when left out."},
    "record_id": {"type": "string", "description": "The record."},
    "name": {"type": "string", "description": "Which one."},
}


def _list(call: Call) -> dict[str, Any]:
    """A memory with its parent and children; the attached ones are in `memories`."""
    node = call.caller.require(call.params["id"], READ)
    shown = memory_document(call.caller, node, call.server.extent)
    return {"memory": shown, **neighbourhood(call.caller, node, call.server.extent)}


TOOLS: Final = {
    "memory_list": Tool("Look at a memory: what it is, its parent and its children.", _list, None),
    "memory_recall": Tool("Search one memory by question, words and fields.", records.recall, models.Recall),
    "memory_get": Tool("Read one record.", records.get, None, ("record_id",)),
    "memory_remember": Tool("Write one record as stated.", records.remember, models.NewRecord, writes=True),
    "memory_revise": Tool(
        "Write a new version of a record.", records.revise, models.RecordChange, ("record_id",), writes=True
    ),
    "memory_forget": Tool("Close a record; its trace is kept.", records.forget, None, ("record_id",), writes=True),
    "memory_run_query": Tool("Run a named query of a memory.", queries.run, optional.QueryRun, ("name",)),
    "memory_operate": Tool(
        "Do to a record what its type offers.", operations.operate, optional.OperationInput, ("record_id", "name"),
        writes=True,
    ),
    "memory_query": Tool("Run a query of your own on one memory.", queries.free, optional.FreeQuery),
}  # fmt: skip


# -- priming ----------------------------------------------------------------------------------------------


def prime(call: Call) -> dict[str, Any]:
    """The always-relevant records of one memory within a budget."""
    node = call.caller.require(call.params["id"], READ)
    return _prime(call, call.caller, node, _budget(call))


def session(call: Call) -> dict[str, Any]:
    """What a session of the harness starts with: each attached memory within a share of the budget."""
    reach = _reach(call, call.query.get("memory"))
    caller = reach.caller()
    starts = list(dict.fromkeys(one.memory for one in reach.attached if caller.reads(one.memory)))
    budget = _budget(call) // max(1, len(starts))
    primed = [_prime(call, caller, call.tree.nodes[memory], budget) for memory in starts]
    text = instructions([one["text"] for one in primed])
    return {"instructions": text, "tokens": tokens(text), "memories": primed, "default": reach.default}


def _prime(call: Call, caller: Caller, node: Node, budget: int) -> dict[str, Any]:
    shown = memory_document(caller, node, call.server.extent)
    near = neighbourhood(caller, node, call.server.extent)
    children: Any = near["children"]
    provider = call.server.provider_of(node)
    versions = provider.prime(node.id) if provider.describe()["prime"] else []
    text, placed, omitted = prime_text(shown, children, versions, budget)
    return {
        "memory_id": node.id,
        "name": node.name,
        "description": node.description,
        "text": text,
        "tokens": tokens(text),
        "records": placed,
        "omitted": omitted,
        **near,
    }


def _budget(call: Call) -> int:
    text = call.query.get("budget", str(DEFAULT_BUDGET))
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UhpError("invalid_input", "budget is a number of tokens", param="budget")
    if not 1 <= int(text) <= MOST:
        raise invalid(f"budget is 1 to {MOST}", "budget")
    return int(text)


# -- tools ------------------------------------------------------------------------------------------------


def offered(call: Call) -> dict[str, Any]:
    """The tools that this harness may hold now."""
    reach = _reach(call, call.query.get("memory"))
    return {"tools": [_definition(name, tool, reach) for name, tool in _held(call, reach).items()]}


def use(call: Call) -> dict[str, Any]:
    """Run one tool as the harness."""
    body: optional.ToolCall = call.body
    inner, tool = _prepared(call)
    answer = tool.run(inner)
    return _result(body.name, answer)


def kind_of(call: Call) -> str:
    """Reading tools run beside the writes."""
    tool = TOOLS.get(call.body.name)
    return "write" if tool is not None and tool.writes else "query"


def _recovered(call: Call, versions: list[Version]) -> dict[str, Any]:
    inner, tool = _prepared(call)
    if tool is TOOLS["memory_operate"]:
        answer = operations.written(inner, versions)
    else:
        answer = records.record_document(inner.server, inner.caller, versions[0])
    return _result(call.body.name, answer)


def _prepared(call: Call) -> tuple[Call, Tool]:
    """The call that the tool call stands for."""
    body: optional.ToolCall = call.body
    reach = _reach(call, body.metadata.memory)
    tool = _held(call, reach).get(body.name)
    if tool is None:
        raise invalid("the harness holds no such tool", "name")
    arguments = dict(body.arguments)
    memory = arguments.pop("memory_id", None) or _unaddressed(reach, writes=tool.writes)
    params = {"id": _text(memory, "memory_id")}
    for name in tool.path:
        params["rid" if name == "record_id" else name] = _text(arguments.pop(name, None), name)
    call.target = params["id"]
    inner = Call(call.server, reach.caller(), call.key, params, {}, witness=call.witness)
    if tool.model is not None:
        inner.body = checked(tool.model, arguments)
    return inner, tool


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise UhpError("invalid_input", f"{name} is a text", param=f"arguments.{name}")
    return value


def _unaddressed(reach: Reach, *, writes: bool) -> str:
    """The memory that is meant when none is named."""
    if reach.default is not None:
        return reach.default
    starts = {one.memory for one in reach.attached}
    if writes or len(starts) != 1:
        raise invalid("no memory is named, and none is the default", "arguments.memory_id")
    return starts.pop()


def _result(name: str, answer: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "text": f"{WARNING}\n<memory>\n{fenced(answer)}\n</memory>", "result": answer}


def _held(call: Call, reach: Reach) -> dict[str, Tool]:
    """The tools of this harness: write tools only where it is attached to write, queries only where there are any."""
    keepers = [call.server.provider_of(call.tree.nodes[one.memory]) for one in reach.attached]
    providers = [keeper.describe() for keeper in keepers]
    operable = any(one["operations"] for one in all_types(call.server.settings.types))
    free = any(one["queries"]["free"] for one in providers)
    named = _named(call, [one.memory for one in reach.attached])
    left_out = set()
    if not free:
        left_out.add("memory_query")
    if not named:
        left_out.add("memory_run_query")
    if not operable:
        left_out.add("memory_operate")
    # What the agent needs to know to write a statement, or to name a query.
    notes = {
        "memory_query": dict.fromkeys(keeper.query_note for keeper in keepers if keeper.query_note),
        "memory_run_query": dict.fromkeys(named),
    }
    return {
        name: tool._replace(description=" ".join((tool.description, *notes.get(name, ()))))
        for name, tool in TOOLS.items()
        if name not in left_out and (reach.writes or not tool.writes)
    }


def _named(call: Call, memories: Sequence[str]) -> list[str]:
    """The named queries of memories, each as a line: they are written by whoever may write there, so they are cut."""
    lines: list[str] = []
    for memory in memories:
        for name, query in list(queries.named(call.server, memory).items())[:_QUERIES]:
            said, takes = " ".join(query["description"].split()), json.dumps(query["params"])
            lines.append(f"In {memory}, {name}: {said[:_NOTE]} Takes {takes[:_NOTE]}.")
    return lines


def _definition(name: str, tool: Tool, reach: Reach) -> dict[str, Any]:
    described: dict[str, Any] = {"type": "object", "properties": {}, "required": []}
    if tool.model is not None:
        described = tool.model.model_json_schema()
    properties = {"memory_id": _PROPERTIES["memory_id"]} | {one: _PROPERTIES[one] for one in tool.path}
    required = [*tool.path, *described.get("required", [])]
    if reach.default is None and (tool.writes or len({one.memory for one in reach.attached}) != 1):
        required.insert(0, "memory_id")
    input_schema = {
        "type": "object",
        "properties": {**properties, **described.get("properties", {})},
        "required": required,
    }
    if "$defs" in described:
        input_schema["$defs"] = described["$defs"]
    starts = ", ".join(dict.fromkeys(one.memory for one in reach.attached))
    return {"name": name, "description": f"{tool.description} You start at {starts}.", "input_schema": input_schema}


def _reach(call: Call, extra: str | None) -> Reach:
    """What the harness in the path reaches, with the memory that a task names beside the attached ones.

    Raises:
        UhpError `memories_not_attached`; `memory_not_found`: the task's memory is none that the harness holds.
    """
    harness = harnesses.harness_of(call)
    caller = Caller(call.tree, harness, schema.ALL)
    attached = [Attached(*one) for one in harnesses.entries(call, harness, none=extra is not None)]
    if extra is not None:
        mask = caller.mask(extra)
        if not mask:
            raise memory_not_found("metadata.memory")
        if mask & WRITE:
            attached = [one._replace(default=False) for one in attached]
        attached = [one for one in attached if one.memory != extra]
        attached.append(Attached(extra, "write" if mask & WRITE else "read", bool(mask & WRITE)))
    if not attached:
        raise harnesses.not_attached()
    return Reach(caller, attached)


_MEMORY: Final = Parameter("memory", "One more memory for this session: the task's `metadata.memory`.")
_BUDGET: Final = Parameter(
    "budget", "Tokens that the text may cost, estimated.",
    {"type": "integer", "minimum": 1, "maximum": MOST, "default": DEFAULT_BUDGET},
)  # fmt: skip
_CODES: Final = ("memory_not_found", "memory_forbidden", "memories_not_attached", "memory_invalid")
_HARNESS: Final = "/v1/harnesses/{id}/memories"

ROUTES: Final = (
    Route("GET", "/v1/memories/{id}/prime", "What is always relevant in a memory, within a budget.", prime,
          optional.Primed, parameters=(_BUDGET,), codes=_CODES),
    Route("GET", f"{_HARNESS}/session", "What a session of the harness starts with.", session, optional.Session,
          parameters=(_MEMORY, _BUDGET), codes=_CODES),
    Route("GET", f"{_HARNESS}/tools", "The tools that the harness may hold.", offered, optional.Tools,
          parameters=(_MEMORY,), codes=_CODES),
    Route("POST", f"{_HARNESS}/tools", "Run one tool as the harness.", use, optional.ToolResult, "write",
          optional.ToolCall, recovered=_recovered, kind_of=kind_of,
          codes=(*_CODES, "memory_record_not_found", "memory_query_not_found", "memory_unsupported",
                 "memory_conflict", "file_not_found")),
)  # fmt: skip
