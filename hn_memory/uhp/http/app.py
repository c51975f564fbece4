"""The ASGI application of one process: its routes, what surrounds them, its beginning and its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hn_memory.uhp.faults import UhpError
from hn_memory.uhp.http import (
    consolidations,
    files,
    harnesses,
    memories,
    operations,
    queries,
    records,
    snapshots,
    system,
    tools,
)
from hn_memory.uhp.http.endpoint import Endpoint, Workers, send_fault
from hn_memory.uhp.http.metrics import Metrics
from hn_memory.uhp.http.openapi import document
from hn_memory.uhp.http.route import Route
from hn_memory.uhp.server import Server, Settings, open_server

# Fixed paths before those with a memory's id in their place.
ROUTES: Final[tuple[Route, ...]] = (
    *system.ROUTES,
    *operations.ROUTES,
    *tools.ROUTES,
    *records.ROUTES,
    *memories.ROUTES,
    *harnesses.ROUTES,
    *queries.ROUTES,
    *files.ROUTES,
    *snapshots.ROUTES,
    *consolidations.ROUTES,
)

_LOG: Final = logging.getLogger("hn.uhp")
_SWEEP_SECONDS: Final = 600.0
_LOOK_SECONDS: Final = 2.0
_LOOK_SHARE: Final = 100


@dataclass(frozen=True, slots=True)
class AppFactory:
    """Makes the application in each worker process; what it needs to know travels there with it."""

    settings: Settings

    def __call__(self) -> ASGIApp:
        return make_app(lambda: open_server(self.settings))


def make_app(opened: Callable[[], Server]) -> ASGIApp:
    """The application over a server that is opened when it starts and closed when it ends."""
    held: list[Server] = []
    threads: list[Workers] = []
    metrics = Metrics()

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        server = opened()
        held.append(server)
        threads.append(Workers(server.precedence))
        tasks = [asyncio.create_task(run(server, threads[0])) for run in (_sweep, _look_around)]
        if server.settings.consolidate:
            tasks.append(asyncio.create_task(_consolidate(server, threads[0])))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            server.runs.stopping.set()
            await asyncio.get_running_loop().run_in_executor(None, threads[0].close)
            server.close()

    async def healthz(_: Request) -> Response:
        return Response(b'{"status":"ok"}', media_type="application/json")

    async def readyz(_: Request) -> Response:
        try:
            await asyncio.get_running_loop().run_in_executor(threads[0].changer, held[0].check)
        except UhpError as error:
            return Response(
                orjson.dumps({"status": "unavailable", "reason": error.message}), 503, media_type="application/json"
            )
        return Response(b'{"status":"ready"}', media_type="application/json")

    async def metrics_text(_: Request) -> Response:
        return Response(metrics.text(), media_type=metrics.media_type)

    described = orjson.dumps(document(ROUTES))

    async def openapi(_: Request) -> Response:
        return Response(described, media_type="application/json")

    routes = [
        StarletteRoute(route.path, Endpoint(lambda: held[0], lambda: threads[0], route), methods=[route.method])
        for route in ROUTES
    ]
    plain = [("/healthz", healthz), ("/readyz", readyz), ("/metrics", metrics_text), ("/openapi.json", openapi)]
    routes += [StarletteRoute(path, run, methods=["GET"]) for path, run in plain]
    for one in routes:
        # Starlette answers HEAD wherever it answers GET; the document does not offer it.
        if one.methods is not None:
            one.methods.discard("HEAD")
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _unrouted, Exception: _failed})
    app.router.redirect_slashes = False
    return Surrounding(app, metrics)


async def _sweep(server: Server, workers: Workers) -> None:
    """What is done beside the requests: ends that a killed process left open, and answers that are old."""
    loop = asyncio.get_running_loop()
    while True:
        with contextlib.suppress(UhpError):
            await loop.run_in_executor(workers.writer, server.finish_drops)
            await loop.run_in_executor(workers.writer, server.uploads.sweep)
            await loop.run_in_executor(workers.writer, server.runs.recover)
            await loop.run_in_executor(workers.writer, server.jobs.recover)
            await loop.run_in_executor(workers.changer, server.ledger.sweep)
        await asyncio.sleep(_SWEEP_SECONDS)


async def _look_around(server: Server, workers: Workers) -> None:
    """Meet streams that appeared: of others as memories, of this server's actor for what they say of its records."""
    loop = asyncio.get_running_loop()
    while True:
        begun = loop.time()
        with contextlib.suppress(UhpError):
            await loop.run_in_executor(workers.changer, server.look_around)
        # Where there are many refs a look takes long, and is taken the more seldom.
        await asyncio.sleep(max(_LOOK_SECONDS, (loop.time() - begun) * _LOOK_SHARE))


async def _consolidate(server: Server, workers: Workers) -> None:
    """Consolidation runs that begin by themselves; one at a time, in the thread where those asked for are done."""
    pause = server.settings.consolidate * 3600
    while True:
        await asyncio.sleep(min(_SWEEP_SECONDS, pause / 4))
        with contextlib.suppress(UhpError):
            memories = list(server.store.snapshot().nodes)
            await asyncio.get_running_loop().run_in_executor(
                workers.background, server.runs.look_around, memories, int(pause * 1000)
            )


async def _unrouted(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    fault = UhpError("route_not_found", "nothing is at this path")
    if status == 405:
        fault = UhpError("method_not_allowed", "this path does not take that method")
    headers = dict(getattr(error, "headers", None) or {})
    headers["uhp-version"] = system.DEFAULT_VERSION
    return Response(orjson.dumps(fault.document()), fault.status, headers=headers, media_type="application/json")


async def _failed(request: Request, error: Exception) -> Response:
    """In place of Starlette's own answer, which is no JSON; `Surrounding` logs what went wrong."""
    fault = UhpError("internal", "the server failed at this request")
    return Response(orjson.dumps(fault.document()), fault.status, media_type="application/json")


class Surrounding:
    """Around every request: its log line and its metrics, and an answer even where the program is wrong."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if not any(name == b"uhp-version" for name, _ in message["headers"]):
                    message["headers"] = [*message["headers"], (b"uhp-version", system.DEFAULT_VERSION.encode())]
            await send(message)

        with self._metrics.request() as measured:
            try:
                await self._app(scope, receive, noting)
            except Exception as error:
                _LOG.error(
                    "internal",
                    extra={"route": scope.get("uhp_route"), "error": type(error).__name__},
                    exc_info=_LOG.isEnabledFor(logging.DEBUG),
                )
                if not status:
                    await send_fault(scope, noting, UhpError("internal", "the server failed at this request"))
            measured.route = scope.get("uhp_route") or "other"
            measured.status = status
        _LOG.info(
            "request",
            extra={"route": measured.route, "status": status, "ms": round(measured.seconds * 1000, 2)},
        )


__all__ = ["ROUTES", "AppFactory", "make_app"]
