"""The OpenAPI document is complete and true: requests made from it get the answers that it names, and no other."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import given as hypothesis_given
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from uhp_harness import Running, make_repository, ok

from hn_memory.uhp.faults import STATUS
from hn_memory.uhp.http.app import ROUTES
from hn_memory.uhp.http.openapi import document

EXAMPLES = int(os.environ.get("HN_UHP_EXAMPLES", "200"))
"""Requests in all. A thorough run takes 2,000 of them: `HN_UHP_EXAMPLES=2000 scripts/test tests/uhp`."""

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(make_repository(tmp_path_factory.mktemp("openapi") / "project")) as server:
        yield server


def described() -> dict[str, Any]:
    value: dict[str, Any] = json.loads(json.dumps(document(ROUTES)))
    return value


def operations(of: dict[str, Any]) -> list[tuple[str, str]]:
    return [(path, method) for path, methods in of["paths"].items() for method in methods]


def test_every_route_is_described(running: Running) -> None:
    served = ok_document(running.client.get("/openapi.json"))
    assert served == described()
    assert {(route.path, route.method.lower()) for route in ROUTES} <= set(operations(served))
    names = [served["paths"][path][method]["operationId"] for path, method in operations(served)]
    assert len(set(names)) == len(names)


def ok_document(response: httpx.Response) -> Any:
    assert response.status_code == 200
    return response.json()


def test_every_code_has_a_route_that_names_it() -> None:
    text = json.dumps(described())
    unrouted = {"route_not_found", "method_not_allowed"}
    assert {code for code in STATUS if code not in text} <= unrouted


class Prepared:
    """A memory, a record and more that generated requests may hit upon."""

    def __init__(self, running: Running) -> None:
        self.api = running.api("person:fuzz")
        self.memory = self.api.create("Fuzzed")
        self.record = str(self.api.remember(self.memory, "A record.")["id"])
        ok(
            self.api.call(
                "PUT", "/v1/harnesses/chrn_f/memories",
                json={"memories": [{"memory_id": self.memory, "access": "write", "default": True}]},
            )
        )  # fmt: skip


@pytest.fixture(scope="module")
def prepared(running: Running) -> Prepared:
    return Prepared(running)


def known(prepared: Prepared, number: int) -> dict[str, str]:
    """Values for half of the path parameters, so that not every request ends at the first check."""
    return {"id": prepared.memory, "rid": prepared.record} if number % 2 else {}


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=lambda mode: mode.value)
@pytest.mark.parametrize(("path", "method"), operations(described()), ids=str)
def test_requests_made_from_it(
    running: Running, prepared: Prepared, path: str, method: str, mode: GenerationMode
) -> None:
    """Half of the requests keep to what the document says, the others break it somewhere."""
    schema = schemathesis.openapi.from_dict(described())
    schema.config.update(base_url=running.url)
    operation = schema[path][method]
    if mode == GenerationMode.NEGATIVE and not (operation.body or operation.query or operation.headers):
        return
    each = -(-EXAMPLES // len(operations(described())) // 2)
    number = 0

    @settings(
        max_examples=each, deadline=None, database=None, derandomize=True,
        phases=(Phase.explicit, Phase.generate), suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @hypothesis_given(case=operation.as_strategy(generation_mode=mode))
    def run(case: schemathesis.Case) -> None:
        nonlocal number
        number += 1
        whole = method == "delete" and path.endswith("memories/{id}")
        for name, value in ({} if whole else known(prepared, number)).items():
            if case.path_parameters and name in case.path_parameters:
                case.path_parameters[name] = "chrn_f" if "harnesses" in path else value
        case.call_and_validate(headers=prepared.api.headers, checks=CHECKS)

    run()


def test_hostile_requests_get_documented_answers(running: Running, prepared: Prepared) -> None:
    """Bodies of the wrong shapes to every route that takes one, and none where one must be."""
    of = described()
    bodies: list[bytes] = [b"", b"null", b"[]", b'"x"', b"{", b'{"a": NaN}', b"\xff", b"[" * 5000, b'{"name": {}}']
    for path, method in operations(of):
        if method == "get":
            continue
        responses = of["paths"][path][method]["responses"]
        filled = path.replace("{id}", "chrn_f" if "harnesses" in path else prepared.memory)
        filled = filled.replace("{rid}", prepared.record).replace("{name}", "x").replace("{run}", "x")
        filled = filled.replace("{grant}", "x").replace("{job}", "x")
        if method == "delete":
            continue
        for body in bodies:
            found = running.client.request(method.upper(), filled, content=body, headers=prepared.api.headers)
            assert str(found.status_code) in responses and found.status_code < 500, (path, method, body, found.text)
