"""How fast this machine verifies Ed25519 signatures at all, on one core and on all of them."""

from __future__ import annotations

import os
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PAYLOAD_BYTES: Final = 1_170
"""About what the memories of the corpus have."""


def raw_rate(processes: int, seconds: float = 1.0) -> float:
    """Verifications a second of that many processes together."""
    context = get_context("fork")
    ends: list[Connection] = []
    children = []
    for _ in range(processes):
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=_verify_for, args=(seconds, theirs))
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


def _verify_for(seconds: float, answer: Connection) -> None:
    key = Ed25519PrivateKey.from_private_bytes(b"\1" * 32)
    public = key.public_key()
    pairs = [(key.sign(data), data) for data in (os.urandom(PAYLOAD_BYTES) for _ in range(64))]
    done, started = 0, time.perf_counter()
    while (passed := time.perf_counter() - started) < seconds:
        for signature, data in pairs:
            public.verify(signature, data)
        done += len(pairs)
    answer.send(done / passed)
