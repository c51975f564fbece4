"""Where the use cases get verified memories from, whoever verified them."""

from __future__ import annotations

from hn_memory.errors import HnError
from hn_memory.protocol.chain import ChainHead
from hn_memory.protocol.identifiers import parse_source_ref
from hn_memory.protocol.projection import SourceMemory
from hn_memory.repository.scan import BrokenStreamError, VerifiedSet, scan, verify_source
from hn_memory.repository.streams import Source
from hn_memory.service.environment import Environment


class VerifiedView:
    """The verified memories of a repository as they are now.

    Args:
        fresh: verify everything again, whatever was verified before.
    """

    def __init__(self, environment: Environment, *, fresh: bool = False) -> None:
        self._environment = environment
        self._fresh = fresh
        self._set: VerifiedSet | None = None

    def all(self) -> VerifiedSet:
        """Every memory of every valid source."""
        if self._set is None:
            self._set = scan(self._environment.repository)
        return self._set

    def memory(self, memory_id: str) -> SourceMemory | None:
        """One memory by its full ID."""
        return self.all().memories.get(memory_id)

    def head(self, ref: str, commit: str) -> ChainHead:
        """The verified head of a local stream whose ref holds `commit`.

        Raises:
            HnError `stream-invalid`.
        """
        name = parse_source_ref(ref)
        if name is None:
            raise HnError("stream-invalid", "not a memory ref")
        try:
            return verify_source(self._environment.repository, Source(name, commit))[1]
        except BrokenStreamError as error:
            raise HnError(
                "stream-invalid",
                f"the stream does not verify: {error.as_source(ref).reason}",
                hint="See `hn memory verify`; go on in another stream with --stream new.",
            ) from None
