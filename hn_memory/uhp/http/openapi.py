"""The OpenAPI document, out of the same table that serves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from hn_memory._version import __version__
from hn_memory.uhp.faults import STATUS
from hn_memory.uhp.http.models import Error
from hn_memory.uhp.http.route import Parameter, Route
from hn_memory.uhp.http.system import VERSIONS

_COMMON: Final = ("invalid_input", "unsupported_protocol_version", "internal", "memory_unavailable")
_AUTHENTICATED: Final = ("missing_credential", "invalid_credential")
_BODY: Final = ("input_too_large",)
_VERSION: Final = Parameter(
    "UHP-Version", "The version to answer in.", {"type": "string", "enum": list(VERSIONS)}, "header"
)
_IDEMPOTENCY: Final = Parameter(
    "Idempotency-Key", "A repeat with the same key gets the first answer.",
    {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"}, "header",
)  # fmt: skip
_IF_MATCH: Final = Parameter(
    "If-Match",
    "The version that must be the current one.",
    {"type": "string", "pattern": '^("?[0-9]{1,9}"?|\\*)$'},
    "header",
)
_BYTES: Final = {"type": "string", "format": "binary"}
_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """The whole document."""
    shapes: list[tuple[type[BaseModel], str]] = [(Error, "serialization")]
    for route in routes:
        shapes.append((route.answer, "serialization"))
        if route.accepted is not None:
            shapes.append((route.accepted, "serialization"))
        if route.body is not None:
            shapes.append((route.body, "validation"))
    refs, definitions = models_json_schema(
        list(dict.fromkeys(shapes)),  # type: ignore[arg-type]
        ref_template="#/components/schemas/{model}",
    )
    named = {(model, mode): schema for (model, mode), schema in refs.items()}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, named)
    for path, summary, kind in (
        ("/healthz", "Does the process answer?", "application/json"),
        ("/readyz", "Do the repository and the state answer?", "application/json"),
        ("/metrics", "Prometheus metrics.", "text/plain"),
        ("/openapi.json", "This document.", "application/json"),
    ):
        answers: dict[str, Any] = {"200": {"description": "Yes.", "content": {kind: {"schema": {}}}}}
        if path == "/readyz":
            answers["503"] = {"description": "No.", "content": {kind: {"schema": {"type": "object"}}}}
        paths[path] = {"get": {"summary": summary, "operationId": path[1:], "responses": answers, "security": []}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "hn-memory: Unified Harness Protocol, Memories",
            "version": __version__,
            "description": "Memories as signed streams in a Git repository.",
        },
        "paths": paths,
        "components": {
            "schemas": definitions["$defs"],
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def _operation(route: Route, named: dict[Any, Any]) -> dict[str, Any]:
    codes = [*_COMMON, *route.codes]
    parameters = [_VERSION, *route.parameters]
    if not route.open:
        codes += _AUTHENTICATED
    if route.method != "GET":
        codes += _BODY
    if route.kind in ("change", "write"):
        parameters.append(_IDEMPOTENCY)
        codes.append("memory_invalid")
    if route.if_match:
        parameters.append(_IF_MATCH)
    responses: dict[str, Any] = {"200": _answer("Done.", named[(route.answer, "serialization")])}
    if route.raw:
        responses["200"] = {"description": "The bytes.", "content": {"*/*": {"schema": _BYTES}}}
    if route.accepted is not None:
        responses["202"] = _answer("Taken; a job goes on.", named[(route.accepted, "serialization")])
    by_status: dict[int, list[str]] = {}
    for code in dict.fromkeys(codes):
        by_status.setdefault(STATUS[code], []).append(code)
    for status, of in sorted(by_status.items()):
        responses[str(status)] = _answer(", ".join(of), named[(Error, "serialization")])
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": re.sub(r"\W+", "_", f"{route.method.lower()}{route.path}").strip("_"),
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
                for name in _PLACEHOLDER.findall(route.path)
            ),
            *(
                {"name": one.name, "in": one.place, "description": one.description, "schema": dict(one.schema)}
                for one in parameters
            ),
        ],
        "responses": responses,
    }
    if route.open:
        operation["security"] = []
    if route.upload:
        form = {"type": "object", "properties": {"file": _BYTES}, "required": ["file"]}
        operation["requestBody"] = {
            "required": True,
            "content": {
                "multipart/form-data": {"schema": form},
                "application/octet-stream": {"schema": _BYTES},
            },
        }
    if route.body is not None:
        operation["requestBody"] = {
            "required": not route.optional,
            "content": {"application/json": {"schema": named[(route.body, "validation")]}},
        }
    return operation


def _answer(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}
