"""Routes about the server itself: discovery, providers, types."""

from __future__ import annotations

from typing import Any, Final

from hn_memory._version import __version__
from hn_memory.uhp.http import models
from hn_memory.uhp.http.route import Call, Route
from hn_memory.uhp.values import CORE_TYPES

VERSIONS: Final = ("2026-10-04",)
DEFAULT_VERSION: Final = VERSIONS[-1]

# Named, so that a client can tell "no" from "never heard of it".
_CAPABILITIES: Final = (
    "tasks", "streaming", "sessions", "harnesses", "environments", "files", "tools", "webhooks", "batches",
    "memories", "idempotency",
)  # fmt: skip
_TRUE: Final = frozenset({"memories", "idempotency"})

CORE_DESCRIPTIONS: Final = {
    "episode": "Raw experience as it arrived: a turn, a transcript, an action and its result. Append-only.",
    "fact": "One thing worth remembering, as it was said.",
    "note": "A document an agent or a person wrote and maintains.",
    "procedure": "A how-to with the situation it applies to.",
    "link": "A pointer to something kept elsewhere: an address and a description.",
}


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


def types(call: Call) -> dict[str, Any]:
    """The types that records may have here."""
    return {"data": core_types()}


def core_types() -> list[dict[str, Any]]:
    """The entries of the core types."""
    return [
        {
            "type": name,
            "core": True,
            "description": CORE_DESCRIPTIONS[name],
            "schema": {"type": "object"},
            "text": "content and the texts among the attributes",
            "operations": [],
        }
        for name in CORE_TYPES
    ]


ROUTES: Final = (
    Route("GET", "/v1/uhp", "What this server speaks.", discovery, models.Discovery, open=True),
    Route("GET", "/v1/memories/providers", "What each provider can do.", providers, models.Providers),
    Route("GET", "/v1/memories/types", "The types of records.", types, models.Types),
)
