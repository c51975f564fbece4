"""Prometheus metrics: how many requests of which route ended how, and how long they took. No label holds an id.

With several workers each answers `/metrics` for itself, with its process number as a label, unless
`PROMETHEUS_MULTIPROC_DIR` names a directory where they add up.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

_DIRECTORY: Final = "PROMETHEUS_MULTIPROC_DIR"
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Measured:
    """One request being measured."""

    __slots__ = ("route", "seconds", "status")

    def __init__(self) -> None:
        self.route = "other"
        self.status = 0
        self.seconds = 0.0


class Metrics:
    """The metrics of one process."""

    media_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter("uhp_requests", "Requests answered.", ["route", "status"], registry=self._registry)
        self._seconds = Histogram(
            "uhp_request_seconds", "Time to answer.", ["route"], buckets=_BUCKETS, registry=self._registry
        )
        self._running = Gauge(
            "uhp_requests_running", "Requests under way.", registry=self._registry, multiprocess_mode="livesum"
        )

    @contextmanager
    def request(self) -> Iterator[Measured]:
        """Measure one request."""
        measured = Measured()
        self._running.inc()
        start = time.perf_counter()
        try:
            yield measured
        finally:
            measured.seconds = time.perf_counter() - start
            self._running.dec()
            self._requests.labels(measured.route, str(measured.status)).inc()
            self._seconds.labels(measured.route).observe(measured.seconds)

    def text(self) -> bytes:
        """The metrics in the text format."""
        if _DIRECTORY in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
            return generate_latest(registry)
        return generate_latest(self._registry)
