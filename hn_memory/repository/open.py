"""Choose the backend for a repository."""

from __future__ import annotations

from hn_memory.errors import HnError
from hn_memory.repository.base import Layout, Repository
from hn_memory.repository.process import ProcessRepository

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    from hn_memory.repository.ahead import Ahead

Preference: TypeAlias = "Literal['git', 'libgit2', 'auto']"


def open_repository(layout: Layout, *, prefer: Preference = "auto", ahead: Ahead | None = None) -> Repository:
    """Open a discovered repository.

    Git serves what libgit2 cannot (SHA-256, reftable, promisor remotes, extensions it does not know) and
    whoever prefers it: a short command ends before libgit2 is imported. Otherwise `libgit2` and `auto` are
    libgit2 where it opens the repository, else Git. Children that run `ahead` for this repository serve Git.
    """
    if prefer == "git" or not _libgit2_fits(layout):
        return ProcessRepository(layout, ahead=ahead)
    try:
        from hn_memory.repository.libgit import LibgitRepository

        return LibgitRepository(layout)
    except (HnError, ImportError, OSError):
        return ProcessRepository(layout)


def _libgit2_fits(layout: Layout) -> bool:
    return layout.object_format == "sha1" and layout.ref_format == "files" and not layout.promisor
