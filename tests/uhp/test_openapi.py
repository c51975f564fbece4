"""The OpenAPI document is complete and true: requests made from it get the answers that it names, and no other."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cache
from math import ceil
from typing import Any

import httpx
import pytest
import requests
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

EXAMPLES = int(os.environ.get("HN_UHP_EXAMPLES", "2000"))
"""Requests in all; `HN_UHP_EXAMPLES=20000 scripts/test tests/uhp` makes more of them."""

SHARES = {GenerationMode.POSITIVE: 0.75, GenerationMode.NEGATIVE: 0.25}
"""Requests that break the document somewhere take several times as long to make."""

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(make_repository(tmp_path_factory.mktemp("openapi") / "project")) as server:
        yield server


@cache
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


@pytest.fixture(scope="module")
def schema(running: Running) -> Any:
    """The document as what requests are made from; reading it takes longer than a request does."""
    made = schemathesis.openapi.from_dict(described())
    made.config.update(base_url=running.url)
    return made


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as opened:
        opened.trust_env = False
        yield opened


REQUESTS = [
    (path, method, mode)
    for path, method in operations(described())
    for mode in SHARES
    # The others take nothing that could be broken.
    if mode == GenerationMode.POSITIVE or {"requestBody", "parameters"} & described()["paths"][path][method].keys()
]


@pytest.mark.parametrize(("path", "method", "mode"), REQUESTS, ids=lambda part: getattr(part, "value", part))
def test_requests_made_from_it(
    schema: Any, session: requests.Session, prepared: Prepared, path: str, method: str, mode: GenerationMode
) -> None:
    """Some of the requests break what the document says somewhere; the others keep to it."""
    operation = schema[path][method]
    each = ceil(EXAMPLES * SHARES[mode] / len([of for *_, of in REQUESTS if of == mode]))
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
        case.call_and_validate(headers=prepared.api.headers, session=session, checks=CHECKS)

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
