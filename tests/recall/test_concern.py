"""Which records concern a file."""

from __future__ import annotations

from hn_memory.protocol import limits
from hn_memory.recall.concern import _above


def test_a_path_of_any_depth_costs_little() -> None:
    deepest = _above("a/" * 100_000 + "b")
    assert len(deepest) == limits.PATH_BYTES // 2
    assert max(map(len, deepest)) <= limits.PATH_BYTES
    assert _above("one/two/three.py") == ["one/two", "one"]
    assert _above("three.py") == []
