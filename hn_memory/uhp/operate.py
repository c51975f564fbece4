"""What `hn uhp` does: serve, and see to keys and groups."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hn_memory.errors import HnError, UsageError
from hn_memory.uhp.server import Settings, open_server
from hn_memory.uhp.state.keys import first_key, forget_first_key
from hn_memory.uhp.supervise import BACKLOG, Supervisor, run_worker


@dataclass(frozen=True, slots=True)
class Listening:
    """Where and how to listen. `insecure` is the word of somebody who knows that nothing is encrypted."""

    host: str = "127.0.0.1"
    port: int = 8765
    workers: int = 1
    certificate: str | None = None
    private_key: str | None = None
    insecure: bool = False


def serve(settings: Settings, listening: Listening, announce: Callable[[dict[str, Any]], bool]) -> None:
    """Serve until told to stop; requests under way are finished.

    Args:
        announce: told the address, and the administrator's key the first time, once the socket is bound; False when
            nobody can have read it.

    Raises:
        UsageError `tls-required`, `tls-invalid`; HnError `address-unavailable`, `not-announced`, and those of
        `open_server`.
    """
    _check_exposure(listening)
    server = open_server(settings)
    try:
        key = first_key(server.store)
    finally:
        server.close()
    bound = _bind(listening)
    scheme = "http" if listening.certificate is None else "https"
    host, port = bound.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    document: dict[str, Any] = {"version": 0, "url": f"{scheme}://{shown}:{port}", "workers": listening.workers}
    if key is not None:
        document["administratorKey"] = key
    if not announce(document):
        bound.close()
        if key is not None:
            server = open_server(settings)
            try:
                forget_first_key(server.store)
            finally:
                server.close()
        raise HnError("not-announced", "the address could not be written, so nothing is served and no key was made")
    tls = (listening.certificate, listening.private_key)
    if listening.workers == 1:
        run_worker(settings, bound, *tls)
    else:
        Supervisor(settings, bound, listening.workers, *tls).run()


def _check_exposure(listening: Listening) -> None:
    if (listening.certificate is None) is not (listening.private_key is None):
        raise UsageError("tls-invalid", "a certificate and its private key go together", field="tls-key")
    for name, path in (("tls-cert", listening.certificate), ("tls-key", listening.private_key)):
        if path is not None and not Path(path).is_file():
            raise UsageError("tls-invalid", f"the file of --{name} is not there", field=name)
    if listening.certificate is not None:
        _load_certificate(listening.certificate, listening.private_key or "")
    if listening.certificate is None and not listening.insecure and not _is_loopback(listening.host):
        raise UsageError(
            "tls-required",
            "keys and memories would cross the network unencrypted",
            hint="Give --tls-cert and --tls-key, or say --insecure-http where something in front encrypts.",
            field="host",
        )


def _load_certificate(certificate: str, private_key: str) -> None:
    """Refuse now what the server could not use later; a key behind a passphrase is asked for by nobody."""

    def no_passphrase() -> str:
        raise ValueError("the private key is behind a passphrase")

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, private_key, no_passphrase)
    except ValueError as error:
        raise UsageError("tls-invalid", str(error), field="tls-key") from None
    except (ssl.SSLError, OSError):
        raise UsageError(
            "tls-invalid", "certificate and private key are no PEM files that belong together", field="tls-key"
        ) from None


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bind(listening: Listening) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            listening.host, listening.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        # Whoever is told the address may connect at once; the first answer then waits for the start.
        bound.listen(BACKLOG)
        bound.set_inheritable(True)
        return bound
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "no such address"
        raise HnError(
            "address-unavailable",
            f"cannot listen on {listening.host[:80]} port {listening.port}: {reason}",
            hint="Choose another --port; 0 takes a free one.",
            field="port",
        ) from None
