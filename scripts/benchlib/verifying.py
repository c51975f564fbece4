"""How fast this machine verifies Ed25519 signatures at all, on one core and on all of them.

What others are measured against is OpenSSL by way of `cryptography`, whichever library the project itself verifies by.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Final, Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hn_memory.protocol import sodium

Library = Literal["OpenSSL", "libsodium"]

PAYLOAD_BYTES: Final = 1_170
"""About what the memories of the corpus have."""


def raw_rate(processes: int, seconds: float = 1.0, library: Library = "OpenSSL") -> float:
    """Verifications a second of that many processes together."""
    context = get_context("fork")
    ends: list[Connection] = []
    children = []
    for _ in range(processes):
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=_verify_for, args=(seconds, library, theirs))
        child.start()
        theirs.close()
        ends.append(ours)
        children.append(child)
    rate = sum(float(end.recv()) for end in ends)
    for child in children:
        child.join()
    return rate


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))


def _verify_for(seconds: float, library: Library, answer: Connection) -> None:
    key = Ed25519PrivateKey.from_private_bytes(b"\1" * 32)
    verify = _verifier(key, library)
    pairs = [(key.sign(data), data) for data in (os.urandom(PAYLOAD_BYTES) for _ in range(64))]
    done, started = 0, time.perf_counter()
    while (passed := time.perf_counter() - started) < seconds:
        for signature, data in pairs:
            verify(signature, data)
        done += len(pairs)
    answer.send(done / passed)


def _verifier(key: Ed25519PrivateKey, library: Library) -> Callable[[bytes, bytes], object]:
    public = key.public_key()
    if library == "OpenSSL":
        return public.verify
    loaded = sodium.load()
    if loaded is None:
        raise SystemExit("libsodium is not here, or not to be relied on")
    raw, verify = public.public_bytes_raw(), loaded.verify
    return lambda signature, data: verify(raw, signature, data)
