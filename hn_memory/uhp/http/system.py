"""Routes about the server itself: discovery, providers, types."""

from __future__ import annotations

from typing import Any, Final

from hn_memory._version import __version__
from hn_memory.uhp.http import models
from hn_memory.uhp.http.route import Call, Route

VERSIONS: Final = ("2026-10-04",)
DEFAULT_VERSION: Final = VERSIONS[-1]

# Named, so that a client can tell "no" from "never heard of it".
_CAPABILITIES: Final = (
    "tasks", "streaming", "sessions", "harnesses", "environments", "files", "tools", "webhooks", "batches",
    "memories", "idempotency",
)  # fmt: skip
_TRUE: Final = frozenset({"memories", "idempotency"})


def discovery(call: Call) -> dict[str, Any]:
    """What this server speaks."""
    return {
        "object": "uhp.discovery",
        "protocol": "uhp",
        "versions": list(VERSIONS),
        "default_version": DEFAULT_VERSION,
        "capabilities": {name: name in _TRUE for name in _CAPABILITIES},
        "implementation": {"name": "hn-memory", "version": __version__},
    }


def providers(call: Call) -> dict[str, Any]:
    """The capability document of every provider."""
    return {"data": [provider.describe() for provider in call.server.providers.values()]}


ROUTES: Final = (
    Route("GET", "/v1/uhp", "What this server speaks.", discovery, models.Discovery, open=True),
    Route("GET", "/v1/memories/providers", "What each provider can do.", providers, models.Providers),
)
