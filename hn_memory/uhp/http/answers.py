"""Sending an answer, and the version it is in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from starlette.types import Scope, Send

from hn_memory.uhp.faults import UhpError
from hn_memory.uhp.http.system import DEFAULT_VERSION, VERSIONS

VERSION_HEADER: Final = b"uhp-version"


def answer_version(scope: Scope) -> bytes:
    """The version that the request asks for, or the default.

    Raises:
        UhpError `unsupported_protocol_version`.
    """
    for name, value in scope["headers"]:
        if name == VERSION_HEADER:
            if value.decode("latin-1") not in VERSIONS:
                raise UhpError(
                    "unsupported_protocol_version",
                    "this server does not speak that version",
                    param="UHP-Version",
                    detail={"supported": list(VERSIONS)},
                )
            asked: bytes = value
            return asked
    return DEFAULT_VERSION.encode()


async def send_bytes(
    send: Send,
    status: int,
    data: bytes,
    media_type: bytes,
    version: bytes,
    headers: Iterable[tuple[str, str]] = (),
) -> None:
    """One whole answer."""
    listed = [
        (b"content-type", media_type),
        (b"content-length", b"%d" % len(data)),
        (VERSION_HEADER, version or DEFAULT_VERSION.encode()),
        *((name.encode(), value.encode("latin-1")) for name, value in headers),
    ]
    if status == 401:
        listed.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": listed})
    await send({"type": "http.response.body", "body": data})
