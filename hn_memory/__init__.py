"""Memory that agents sign and repositories carry.

The public face. Names load on first use, so that importing the package costs nothing:

* `verify_memory(payload, signature)`: the verified memory, from bytes alone.
* `open_repository(path)`: the service over one repository.
* `compile_pattern(pattern, ignore_case=False)`: a pattern of `hn memory grep`, judged and ready to search with.
* `HnError`: every refusal, with `.code`.
"""

from __future__ import annotations

from hn_memory._version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hn_memory.errors import HnError
    from hn_memory.protocol.memory import VerifiedMemory, verify_memory
    from hn_memory.protocol.query import Request
    from hn_memory.recall.pattern import compile_pattern
    from hn_memory.service.building import RecordArguments
    from hn_memory.service.service import Service, open_repository

__all__ = [
    "HnError",
    "RecordArguments",
    "Request",
    "Service",
    "VerifiedMemory",
    "__version__",
    "compile_pattern",
    "open_repository",
    "verify_memory",
]

_HOMES = {
    "HnError": "hn_memory.errors",
    "RecordArguments": "hn_memory.service.building",
    "Request": "hn_memory.protocol.query",
    "Service": "hn_memory.service.service",
    "VerifiedMemory": "hn_memory.protocol.memory",
    "compile_pattern": "hn_memory.recall.pattern",
    "open_repository": "hn_memory.service.service",
    "verify_memory": "hn_memory.protocol.memory",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)
