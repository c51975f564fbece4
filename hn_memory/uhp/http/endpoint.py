"""What every request goes through: version, credential, query, body, idempotency, the route, the answer.

Reads run on the event loop: they take less time than handing them to a thread would. Writes to the repository run one
after the other in a thread of their own, which is also the order in which the repository takes them; changes of the
state run in another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import orjson
from sqlalchemy.exc import IntegrityError
from starlette.types import Receive, Scope, Send

from hn_memory.errors import HnError
from hn_memory.protocol.limits import REQUEST_BYTES
from hn_memory.uhp.access import Caller
from hn_memory.uhp.faults import UhpError, from_hn, invalid, malformed
from hn_memory.uhp.http.admission import Admission
from hn_memory.uhp.http.answers import answer_version, send_bytes
from hn_memory.uhp.http.body import parse_json, read_body
from hn_memory.uhp.http.route import Call, Raw, Route, checked, if_match, request_digest
from hn_memory.uhp.http.upload import UPLOAD_BYTES, parse_upload
from hn_memory.uhp.precedence import Precedence
from hn_memory.uhp.server import Server
from hn_memory.uhp.state.idempotency import KEY_CHARACTERS, Announcement, Begun, Mine, Running, Stored
from hn_memory.uhp.state.snapshot import Key

_JSON: Final = b"application/json"
_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 0.25
_WRITES_AT_ONCE: Final = 32
"""Writes that wait together; a provider carries them out one after the other, or many at a time."""
_QUERIES_AT_ONCE: Final = 2
_QUERIES_WAITING: Final = 32

T = TypeVar("T")


class Workers:
    """The threads of one process."""

    def __init__(self, precedence: Precedence) -> None:
        self.reads = Admission(precedence)
        self.writer = ThreadPoolExecutor(_WRITES_AT_ONCE, "uhp-write")
        self.changer = ThreadPoolExecutor(1, "uhp-change")
        self.background = ThreadPoolExecutor(1, "uhp-background")
        self._asker = ThreadPoolExecutor(_QUERIES_AT_ONCE, "uhp-query")
        self._asked = 0

    async def ask(self, run: Callable[[], T]) -> T:
        """Run a query beside the other requests.

        Raises:
            UhpError `memory_unavailable`: too many wait already.
        """
        if self._asked >= _QUERIES_WAITING:
            raise UhpError("memory_unavailable", "too many queries wait; try again")
        self._asked += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._asker, run)
        finally:
            self._asked -= 1

    def close(self) -> None:
        """Wait for what runs."""
        self._asker.shutdown()
        self.background.shutdown(cancel_futures=True)
        self.writer.shutdown()
        self.changer.shutdown()


class Answered:
    """An answer before it is sent."""

    __slots__ = ("data", "headers", "media_type", "status")

    def __init__(self, status: int, data: bytes, media_type: bytes = _JSON, headers: Any = ()) -> None:
        self.status = status
        self.data = data
        self.media_type = media_type
        self.headers = headers


class Endpoint:
    """One route as an ASGI application."""

    def __init__(self, server: Callable[[], Server], workers: Callable[[], Workers], route: Route) -> None:
        self._server = server
        self._workers = workers
        self.route = route
        self._query_names = route.query_names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["uhp_route"] = self.route.name
        try:
            version = answer_version(scope)
            answered = await self._answer(scope, receive)
        except UhpError as error:
            await send_fault(scope, send, error)
            return
        await send_bytes(send, answered.status, answered.data, answered.media_type, version, answered.headers)

    async def _answer(self, scope: Scope, receive: Receive) -> Answered:
        headers = {name: value for name, value in scope["headers"]}
        server = self._server()
        route = self.route
        query = _query(scope["query_string"], self._query_names)
        if route.open:
            caller, key = Caller(server.store.snapshot(), "credential:anonymous", 0), _NOBODY
        else:
            caller, key = server.authenticate(_token(headers.get(b"authorization")))
        call = Call(server, caller, key, scope["path_params"], query)
        data = b""
        if route.method != "GET":
            data = await read_body(scope, receive, UPLOAD_BYTES if route.upload else REQUEST_BYTES)
        if route.body is not None:
            call.body = checked(route.body, parse_json(data if data or not route.optional else b"{}"))
        if route.upload:
            sent = parse_upload(headers.get(b"content-type"), query.get("name"), data)
            call.body, data = sent, sent.canonical()
        if route.if_match:
            call.if_version = if_match(headers.get(b"if-match"))
        kind = route.kind if route.kind_of is None else route.kind_of(call)
        if kind == "read":
            await self._workers().reads.wait()
            return _answered(_guarded(lambda: route.run(call)))
        if kind == "query":
            return await self._workers().ask(lambda: _answered(_guarded(lambda: route.run(call))))
        name = _idempotency_key(headers.get(b"idempotency-key"))
        digest = b""
        if name is not None:
            target = scope["raw_path"] + b"?" + scope["query_string"]
            digest = request_digest(route.method, target, headers.get(b"if-match", b""), data)
        if kind == "change":
            return await self._change(call, name, digest)
        if name is None:
            return _answered(await self._in(self._workers().writer, lambda: _guarded(lambda: route.run(call))))
        return await self._write_once(call, name, digest)

    # -- changes of the state -----------------------------------------------------------------------------

    async def _change(self, call: Call, name: str | None, digest: bytes) -> Answered:
        pause = _PAUSE
        while True:
            answered = await self._in(self._workers().changer, lambda: self._try_change(call, name, digest))
            if answered is not None:
                break
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        for run in call.after:
            await self._in(self._workers().writer, run)
        for run in call.later:
            self._workers().background.submit(run)
        return answered

    def _try_change(self, call: Call, name: str | None, digest: bytes) -> Answered | None:
        server, caller = call.server, call.caller
        call.after.clear()
        call.later.clear()
        try:
            with server.store.changing() as (connection, tree):
                if name is not None:
                    try:
                        known = server.ledger.known(connection, caller.principal, name, digest)
                    except UhpError as error:
                        # The key stands for another request, whose answer stays.
                        raise _OtherRequestError(error) from None
                    if known is not None:
                        # Nothing is changed, and nobody needs to look again.
                        raise _KnownError(known)
                call.connection = connection
                call.caller = Caller(tree, caller.principal, caller.cap)
                answered = _answered(self.route.run(call))
                if name is not None:
                    stored = Stored(answered.status, answered.data)
                    server.ledger.store(connection, caller.principal, name, digest, stored)
                return answered
        except _KnownError as known_error:
            found = known_error.known
            return Answered(found.status, found.answer) if isinstance(found, Stored) else None
        except _OtherRequestError as other:
            raise other.fault from None
        except IntegrityError:
            # Somebody else did something of that name at the same moment; look again.
            return None
        except HnError as error:
            raise from_hn(error) from None
        except UhpError as error:
            if name is None or error.status >= 500 or error.code == "memory_busy":
                raise
            answered = Answered(error.status, orjson.dumps(error.document()))
            try:
                with server.store.writing() as connection:
                    stored = Stored(answered.status, answered.data)
                    server.ledger.store(connection, caller.principal, name, digest, stored)
            except IntegrityError:
                return None
            return answered

    # -- writes to a provider -----------------------------------------------------------------------------

    async def _write_once(self, call: Call, name: str, digest: bytes) -> Answered:
        pause = _PAUSE
        while True:
            answered = await self._in(self._workers().writer, lambda: self._try_write(call, name, digest))
            if answered is not None:
                return answered
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _try_write(self, call: Call, name: str, digest: bytes) -> Answered | None:
        """The answer, or None while somebody else is at the same request."""
        state, owner = call.server.ledger.claim(call.caller.principal, name, digest)
        if isinstance(state, Running):
            return None
        if isinstance(state, Stored):
            return Answered(state.status, state.answer)
        return self._run_claimed(call, name, owner, state)

    def _run_claimed(self, call: Call, name: str, owner: str, state: Mine | Begun) -> Answered:
        server, principal = call.server, call.caller.principal
        memory = call.params.get("id", "")
        call.witness = Announcement(server.ledger, principal, name, owner, lambda: call.target or memory)
        try:
            answered = self._recovered(call, state) if isinstance(state, Begun) else None
            if answered is None:
                answered = _answered(_guarded(lambda: self.route.run(call)))
        except UhpError as error:
            if error.status >= 500 or error.code == "memory_busy":
                server.ledger.finish(principal, name, owner, None)
                raise
            answered = Answered(error.status, orjson.dumps(error.document()))
        except BaseException:
            server.ledger.finish(principal, name, owner, None)
            raise
        server.ledger.finish(principal, name, owner, Stored(answered.status, answered.data))
        return answered

    def _recovered(self, call: Call, begun: Begun) -> Answered | None:
        """The answer of a write that took effect before its process was killed."""
        if begun.token is None or begun.memory is None or self.route.recovered is None:
            return None
        node = call.tree.nodes.get(begun.memory)
        versions = None if node is None else call.server.provider_of(node).find(begun.memory, begun.token)
        return None if versions is None else _answered(self.route.recovered(call, versions))

    async def _in(self, pool: ThreadPoolExecutor, run: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, run)


class _KnownError(Exception):
    """Leaves a transaction that has nothing to do."""

    def __init__(self, known: Stored | Running) -> None:
        self.known = known


class _OtherRequestError(Exception):
    """Leaves a transaction whose idempotency key was used for another request."""

    def __init__(self, fault: UhpError) -> None:
        self.fault = fault


_NOBODY: Final = Key("", "credential:anonymous", 0, False)


def _guarded(run: Callable[[], T]) -> T:
    try:
        return run()
    except HnError as error:
        raise from_hn(error) from None


def _answered(value: Any) -> Answered:
    if isinstance(value, Raw):
        return Answered(200, value.data, value.media_type.encode("latin-1"), value.headers)
    status = 200
    if isinstance(value, tuple):
        status, value = value
    headers: tuple[tuple[str, str], ...] = ()
    if isinstance(value, dict) and value.get("object") == "memory.record":
        headers = (("etag", f'"{value["version"]}"'),)
    return Answered(status, orjson.dumps(value), _JSON, headers)


def _token(header: bytes | None) -> str:
    if header is None:
        raise UhpError("missing_credential", "this needs Authorization: Bearer with a key")
    scheme, _, token = header.decode("latin-1").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise UhpError("missing_credential", "this needs Authorization: Bearer with a key")
    return token.strip()


def _idempotency_key(header: bytes | None) -> str | None:
    if header is None:
        return None
    name = header.decode("latin-1")
    if not name or not name.isascii() or not name.isprintable():
        raise malformed("an idempotency key is printable ASCII", "Idempotency-Key")
    if len(name) > KEY_CHARACTERS:
        raise invalid(f"an idempotency key has at most {KEY_CHARACTERS} characters", "Idempotency-Key")
    return name


def _query(data: bytes, names: Collection[str]) -> dict[str, str]:
    if not data:
        return {}
    try:
        pairs = parse_qsl(data.decode("ascii"), keep_blank_values=True, max_num_fields=64, errors="strict")
    except ValueError:
        raise malformed("the query string is not UTF-8, or too long") from None
    found = dict(pairs)
    if "\0" in data.decode("ascii") or any("\0" in value for value in found.values()):
        raise malformed("the query string holds a NUL")
    for at, (name, _) in enumerate(pairs):
        shown = name[:80].encode("ascii", "backslashreplace").decode()
        if name not in names:
            raise malformed(f'there is no query parameter "{shown}" here', shown)
        if any(name == other for other, _ in pairs[:at]):
            raise malformed(f'the query parameter "{shown}" is given twice', shown)
    return found


async def send_fault(scope: Scope, send: Send, error: UhpError) -> None:
    """Answer with an error body."""
    try:
        version = answer_version(scope)
    except UhpError:
        version = b""
    await send_bytes(send, error.status, orjson.dumps(error.document()), _JSON, version)
