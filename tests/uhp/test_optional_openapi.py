"""The OpenAPI document against the server, for the chapter's optional parts: any request it allows, and what comes."""

from __future__ import annotations

import random
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from uhp_harness import Running, ok

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
MEMORY = "/v1/memories/{id}"
OPERATIONS = [
    ("POST", f"{MEMORY}/query"), ("GET", f"{MEMORY}/queries"), ("PUT", f"{MEMORY}/queries/{{name}}"),
    ("POST", f"{MEMORY}/queries/{{name}}"), ("POST", "/v1/files"), ("GET", "/v1/files/{file}"),
    ("GET", f"{MEMORY}/records/{{rid}}/content"), ("POST", f"{MEMORY}/snapshots"), ("GET", f"{MEMORY}/snapshots"),
    ("POST", f"{MEMORY}/consolidations"), ("GET", f"{MEMORY}/consolidations"),
    ("GET", f"{MEMORY}/consolidations/{{run}}"), ("GET", f"{MEMORY}/consolidations/{{run}}/changes"),
    ("POST", f"{MEMORY}/consolidations/{{run}}/revert"),
]  # fmt: skip


@pytest.fixture(scope="module")
def schema(running: Running) -> Any:
    return schemathesis.openapi.from_url(f"{running.url}/openapi.json")


@pytest.fixture(scope="module")
def ids(running: Running) -> dict[str, list[str]]:
    """What there is to be named in a path."""
    api = running.api("person:ada")
    memory = api.create("Here")
    file = ok(api.call("POST", "/v1/files", content=b"bytes", params={"name": "a"}))["id"]
    records = [{"content": "a text"}, {"content": {"file": {"id": file}}}]
    ok(api.call("PUT", memory, "queries", "q", json={"language": "sql", "body": "SELECT record_id FROM record"}))
    return {
        "id": [memory],
        "rid": [ok(api.post(memory, "records", json=body))["id"] for body in records],
        "file": [file],
        "name": ["q"],
        "run": [ok(api.call("POST", memory, "consolidations"))["id"]],
    }


@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=lambda one: one)
def test_answers_are_as_described(
    running: Running, schema: Any, ids: dict[str, list[str]], method: str, path: str
) -> None:
    key = {"Authorization": f"Bearer {running.key('person:ada')}"}
    operation = schema[path][method]
    chance = random.Random(path)
    statuses = set()

    @given(case=operation.as_strategy())
    @settings(
        max_examples=12, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )  # fmt: skip
    def answer(case: Any) -> None:
        for name in case.path_parameters or {}:
            # Mostly what exists; an id that was made up as well.
            if chance.random() < 0.85:
                case.path_parameters[name] = chance.choice(ids[name])
        response = case.call(headers=key)
        statuses.add(response.status_code)
        case.validate_response(response, checks=CHECKS)

    answer()
    assert statuses
