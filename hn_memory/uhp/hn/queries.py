"""Free queries on views of streams: an image per state of a stream, a process per statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from hn_memory.uhp.faults import unsupported
from hn_memory.uhp.sql.image import DESCRIPTION, Images, build_image
from hn_memory.uhp.sql.sandbox import Sandbox
from hn_memory.uhp.values import Rows, Version

LANGUAGE: Final = "sql"
__all__ = ["DESCRIPTION", "LANGUAGE", "Queries"]


class Queries:
    """Runs statements, each on the rows of one memory and nothing else."""

    def __init__(self) -> None:
        self._images = Images()
        self._sandbox = Sandbox()

    def close(self) -> None:
        """End the processes."""
        self._sandbox.close()

    def forget(self, memory: str) -> None:
        """Hold nothing of a memory: something of it was erased."""
        self._images.forget(memory)

    def run(
        self,
        memory: str,
        state: str,
        versions: Callable[[], Sequence[Version]],
        language: str,
        statement: str,
        params: Mapping[str, Any],
    ) -> Rows:
        """What a statement answers.

        Args:
            state: names what the memory holds now; the same name, the same rows.
            versions: all of the memory's versions that are not erased.

        Raises:
            UhpError `memory_unsupported`: another language, or too much to query; `memory_invalid`: SQLite refuses it.
        """
        if language != LANGUAGE:
            raise unsupported(f"queries are written in {LANGUAGE}")
        image = self._images.known(memory, state)
        if image is None:
            image = build_image(versions())
            self._images.keep(memory, state, image)
        return self._sandbox.run(image, statement, params)
