"""The contract of section 10 of the chapter: what keeps records, and what a server asks of it.

Everything above a provider (the tree, grants, the cutoff, references across memories, attachments, keys) is the
server's and the same whichever provider keeps the records; nothing here knows of HTTP. A memory is named by its
id alone, and a provider never answers with a record of another memory than the one it was asked about.

Writing and crashes. A write may be prepared before it takes effect (signed, say). A provider calls `witness` with
an opaque token after preparing and before the effect, again for each new attempt. After a crash `find(memory,
token)` tells whether that very write took effect; so a repeat of a request neither loses nor doubles it.

Faults: `UhpError` `memory_record_not_found` for a record that is not in that memory or was erased; `memory_conflict`
when `if_version` is not the current version; `memory_unsupported` for what a provider does not implement;
`memory_invalid` for what it cannot keep; `memory_unavailable` when it does not answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hn_memory.uhp.faults import unsupported
from hn_memory.uhp.values import (
    Author,
    Change,
    Draft,
    Erased,
    Extent,
    Page,
    Patch,
    Question,
    Recalled,
    Rows,
    Selection,
    Version,
)

Witness = Callable[[str], None]
"""Told the token of a write that is about to take effect."""


Together = Callable[[Sequence[tuple[Witness, str]]], bool]
"""Tells several witnesses their tokens at a stroke; False when each is to be told by itself."""


def unwitnessed(token: str) -> None:
    """A witness for writes that nobody will repeat."""


def one_by_one(told: Sequence[tuple[Witness, str]]) -> bool:
    """For witnesses of whom each is told by itself."""
    return False


class Provider(ABC):
    """One system that keeps records.

    Attributes:
        id: how memories name it, and its entry in the capability document.
        query_note: for who writes a free query: its language and what can be asked of; empty where there are none.
    """

    id: str
    query_note: str = ""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """The capability document of section 10.2."""

    def close(self) -> None:  # noqa: B027 - a provider may have nothing to close
        """Release what the provider holds."""

    # -- reading ------------------------------------------------------------------------------------------

    @abstractmethod
    def extent(self, memory: str) -> Extent:
        """How much a memory holds now."""

    @abstractmethod
    def get(self, memory: str, record: str, as_of: int | None = None) -> Version:
        """A record's latest version, forgotten ones included, or the one that stood at an instant."""

    @abstractmethod
    def history(self, memory: str, record: str) -> list[Version]:
        """All versions, oldest first."""

    @abstractmethod
    def listing(self, memory: str, selection: Selection, after: str | None, limit: int) -> Page:
        """Latest versions in the order in which records were first written.

        Raises:
            UhpError `invalid_input`: `after` is no place that a page named.
        """

    @abstractmethod
    def recall(self, memory: str, question: Question) -> Recalled:
        """The ranking of the signals the provider has; those it lacks are named in `degraded`."""

    def prime(self, memory: str) -> list[Version]:
        """What is always relevant, most relevant first; the server cuts it to its budget."""
        raise unsupported("this provider marks nothing as always relevant")

    def read(self, version: Version) -> bytes:
        """The bytes of the file that is a version's content. Called from threads of its own.

        Raises:
            UhpError `file_not_found`: it is no file, or the bytes are not here.
        """
        raise unsupported("this provider keeps no files")

    def is_here(self, version: Version) -> bool:
        """Are the bytes of the file that is a version's content here?"""
        return False

    def query(self, memory: str, language: str, statement: str, params: Mapping[str, Any]) -> Rows:
        """What a statement answers, run where it cannot reach beyond this one memory.

        Called from threads of its own. Parameters are named; their values are JSON values.

        Raises:
            UhpError `memory_invalid`: the statement cannot be run.
        """
        raise unsupported("this provider runs no queries")

    # -- writing ------------------------------------------------------------------------------------------

    @abstractmethod
    def remember(
        self, memory: str, drafts: Sequence[Draft], author: Author, witness: Witness = unwitnessed
    ) -> list[Version]:
        """Write records as stated, all of them or none. Episodes of `observe` come this way too."""

    @abstractmethod
    def revise(
        self,
        memory: str,
        record: str,
        patch: Patch,
        author: Author,
        if_version: int | None = None,
        witness: Witness = unwitnessed,
    ) -> Version:
        """Append a version. Of two at once with the same `if_version`, one is refused."""

    @abstractmethod
    def forget(
        self,
        memory: str,
        record: str,
        author: Author,
        if_version: int | None = None,
        witness: Witness = unwitnessed,
    ) -> Version:
        """Close a record and keep its trace. Forgetting it again changes nothing."""

    def rewrite(
        self, memory: str, groups: Sequence[Sequence[Change]], author: Author, witness: Witness = unwitnessed
    ) -> list[Version]:
        """Make changes in one write, each group whole or not at all; the versions written, and those forgotten.

        A group is passed over when a record of it is gone, is not as its change says, or is in a group before it.
        """
        raise unsupported("this provider does not consolidate")

    @abstractmethod
    def erase(self, memory: str, records: Sequence[str], author: Author) -> Erased:
        """Take records out of every read for good.

        Erasing again changes nothing and answers the same; an unknown id is passed over.
        """

    def take(self, file: str, created: int, data: bytes) -> str:
        """Keep the bytes of an upload until it is released; their version, which records name.

        Args:
            created: Unix milliseconds.
        """
        raise unsupported("this provider keeps no files")

    def release(self, before: int) -> None:  # noqa: B027 - a provider may keep none
        """Let go of uploads of before an instant, in Unix milliseconds, or a little later."""

    @abstractmethod
    def find(self, memory: str, token: str) -> list[Version] | None:
        """What a witnessed write wrote, or None if it never took effect."""

    @abstractmethod
    def drop(self, memory: str) -> None:
        """The memory is deleted: close all its records. Dropping it again changes nothing."""
