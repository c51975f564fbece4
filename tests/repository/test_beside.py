"""Two things at once."""

from __future__ import annotations

import threading

import pytest

from hn_memory.repository.beside import beside


def test_both_are_done_at_once() -> None:
    waiting, met = threading.Event(), threading.Event()
    done: list[str] = []

    def wait() -> None:
        waiting.set()
        assert met.wait(10)
        done.append("waited")

    def meanwhile() -> str:
        assert waiting.wait(10)
        met.set()
        done.append("did")
        return "answer"

    assert beside(wait, meanwhile) == "answer"
    assert sorted(done) == ["did", "waited"]


def test_what_fails_is_raised_when_both_are_over() -> None:
    over: list[str] = []

    def fails(name: str) -> None:
        over.append(name)
        raise ValueError(name)

    with pytest.raises(ValueError, match="waiting"):
        beside(lambda: fails("waiting"), lambda: over.append("doing"))
    assert sorted(over) == ["doing", "waiting"]
    with pytest.raises(ValueError, match="doing"):
        beside(lambda: over.append("waited"), lambda: fails("doing"))
    assert "waited" in over
    with pytest.raises(ValueError, match="waiting"):
        beside(lambda: fails("waiting"), lambda: fails("doing"))
