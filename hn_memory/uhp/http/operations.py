"""Routes of section 8: the types of records, and their operations."""

from __future__ import annotations

from typing import Any, Final

from hn_memory.uhp.access import NEEDS
from hn_memory.uhp.http import models_optional as models
from hn_memory.uhp.http.records import record_document
from hn_memory.uhp.http.route import Call, Route
from hn_memory.uhp.parameters import check_values
from hn_memory.uhp.state.schema import READ, WRITE
from hn_memory.uhp.types import all_types, operation_of
from hn_memory.uhp.values import Patch, Version


def types(call: Call) -> dict[str, Any]:
    """The types that records may have here."""
    return {"data": all_types(call.server.settings.types)}


def operate(call: Call) -> dict[str, Any]:
    """Do to a record what its type says can be done."""
    body: models.OperationInput = call.body
    name = call.params["name"]
    if not call.caller.mask(call.params["id"]) & (READ | WRITE):
        call.caller.require(call.params["id"], READ)
    node = call.tree.nodes[call.params["id"]]
    provider = call.server.provider_of(node)
    record = call.params["rid"]
    version = provider.get(node.id, record)
    operation = operation_of(call.server.settings.types, version.type, name)
    call.caller.require(node.id, NEEDS[operation["requires"]])
    values = check_values(operation["input"], body.input, "input")
    if "sets" not in operation:
        return {"name": name, "result": call.server.challenge(node, record, values["reason"])}
    if operation["requires"] == "read":
        return {"name": name, "result": {of: version.attributes.get(of) for of in operation["sets"]}}
    attributes = {**version.attributes, **{of: values[of] for of in operation["sets"] if of in body.input}}
    # The attributes of just now were looked at: another version in between must not lose its own.
    revised = provider.revise(
        node.id, record, Patch({"attributes": attributes}), call.caller.author, version.number, call.witness
    )
    return written(call, [revised])


def written(call: Call, versions: list[Version]) -> dict[str, Any]:
    return {
        "name": call.params["name"],
        "result": {"record": record_document(call.server, call.caller, versions[0])},
    }


ROUTES: Final = (
    Route("GET", "/v1/memories/types", "The types of records.", types, models.Types),
    Route(
        "POST", "/v1/memories/{id}/records/{rid}/operations/{name}", "Do what the record's type offers.", operate,
        models.OperationResult, "write", models.OperationInput, recovered=written,
        codes=("memory_not_found", "memory_forbidden", "memory_record_not_found", "memory_invalid",
               "memory_unsupported", "memory_conflict"),
    ),
)  # fmt: skip
