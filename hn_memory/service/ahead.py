"""Git children that a door may start before it has loaded the rest of itself; see `repository.ahead`."""

from __future__ import annotations

from hn_memory.repository.ahead import Ahead

__all__ = ["Ahead"]
