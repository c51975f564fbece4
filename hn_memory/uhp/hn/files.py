"""Files as Git blobs, each kept reachable by refs of the server's own.

    refs/hn/files/<actor>/uploads/<day>/<file>               an upload, until its day is past
    refs/hn/files/<actor>/<memory>/<record>/<version>        the content of one version of one record

A blob is served only through the second kind, never because a record says its ID: what a record says may come from
elsewhere, and the repository holds blobs that are nobody's business here. The refs do not travel with `hn sync`;
where one is missing the record says that its content is not available. Once the refs are gone, so is the blob, when
Git next prunes what nothing holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from hn_memory.repository.base import RefUpdate, Repository
from hn_memory.service.keeping import Saying
from hn_memory.uhp.faults import no_file
from hn_memory.uhp.hn.trailers import FILE_LINE, split
from hn_memory.uhp.hn.view import View, record_id
from hn_memory.uhp.values import FileReference, Version

_PREFIX: Final = "refs/hn/files"
_MESSAGE: Final = "hn: files"
DAY_MS: Final = 86_400_000


class Files:
    """The files of one actor's memories; the repository is given with each call, by the thread that may use it."""

    def __init__(self, actor: str) -> None:
        self._root = f"{_PREFIX}/{actor}"

    def take(self, repository: Repository, file: str, created: int, data: bytes) -> str:
        """Keep an upload; the blob's ID. `created` in Unix milliseconds."""
        (oid,) = repository.write_objects([("blob", data)])
        name = f"{self._root}/uploads/{created // DAY_MS}/{file}"
        repository.update_refs([RefUpdate(name, oid, None)], _MESSAGE)
        return oid

    def release(self, repository: Repository, before: int) -> None:
        """Let go of the uploads of days that were over before an instant."""
        past = before // DAY_MS
        self._delete(
            repository,
            (
                ref
                for ref in self._below(repository, "uploads")
                if (day := ref.split("/")[-2]).isdigit() and int(day) < past
            ),
        )

    def hold(self, repository: Repository, view: View, memories: Sequence[str], said: Sequence[Saying]) -> list[str]:
        """Keep the files of versions that are about to be written; the refs that were made.

        Raises:
            UhpError `file_not_found`: an upload is gone.
        """
        updates: list[RefUpdate] = []
        for memory, saying in zip(memories, said, strict=True):
            if saying.arguments is None or FILE_LINE not in saying.arguments.content:
                continue
            stated = split(saying.arguments.content)
            if stated is None or not isinstance(stated.draft.content, FileReference):
                continue
            record, oid = stated.record or record_id(memory), stated.draft.content.version
            chain = view.chain(record)
            if chain is not None and chain.versions[-1].draft.content == stated.draft.content:
                # Carried over from the version before: kept if that one's was, for a file of elsewhere is not ours.
                if self._holds(repository, view.memory, record, stated.number - 1) != oid:
                    continue
            elif oid not in repository.info([oid]):
                raise no_file()
            name = self._name(view.memory, record, stated.number)
            updates.append(RefUpdate(name, oid, self._holds(repository, view.memory, record, stated.number)))
        if updates:
            repository.update_refs(updates, _MESSAGE)
        return [update.name for update in updates]

    def let_go(self, repository: Repository, names: Iterable[str]) -> None:
        """Take back what `hold` made for a write that came to nothing."""
        self._delete(repository, names)

    def forget(self, repository: Repository, memory: str, records: Iterable[str] | None = None) -> None:
        """Let go of the files of erased records, or of a deleted memory's."""
        below = [memory] if records is None else [f"{memory}/{record}" for record in records]
        self._delete(repository, (name for one in below for name in self._below(repository, one)))

    def mend(self, repository: Repository, stands: Callable[[str, str, int], bool]) -> None:
        """Let go of what a killed process left: files of versions that were never written, or were erased.

        Args:
            stands: is there this version (memory, record, number)? Nobody may be writing meanwhile.
        """
        names = [ref.name for ref in repository.refs(f"{self._root}/") if "/uploads/" not in ref.name]
        # A ref of another form is none of ours.
        parts = self._root.count("/") + 3
        ours = [name for name in names if name.count("/") == parts and name.rpartition("/")[2].isdigit()]
        self._delete(repository, (name for name in ours if not stands(*_version_of(name))))

    def is_here(self, repository: Repository, version: Version) -> bool:
        """Can the file that is a version's content be read?"""
        content = version.content
        return isinstance(content, FileReference) and content.version == self._holds(
            repository, version.memory_id, version.record_id, version.number
        )

    def read(self, repository: Repository, version: Version) -> bytes:
        """The bytes of the file that is a version's content.

        Raises:
            UhpError `file_not_found`: its content is no file, or it is not here.
        """
        if self.is_here(repository, version) and isinstance(version.content, FileReference):
            for _, kind, data in repository.read([version.content.version]):
                if kind == "blob":
                    return data
        raise no_file()

    # -- inside -------------------------------------------------------------------------------------------

    def _name(self, memory: str, record: str, number: int) -> str:
        return f"{self._root}/{memory}/{record}/{number}"

    def _holds(self, repository: Repository, memory: str, record: str, number: int) -> str | None:
        ref = repository.ref(self._name(memory, record, number))
        return None if ref is None else ref.target

    def _below(self, repository: Repository, place: str) -> list[str]:
        return [ref.name for ref in repository.refs(f"{self._root}/{place}/")]

    def _delete(self, repository: Repository, names: Iterable[str]) -> None:
        updates = [
            RefUpdate(name, None, ref.target)
            for name in names
            if (ref := repository.ref(name)) is not None and ref.target is not None
        ]
        if updates:
            repository.update_refs(updates, _MESSAGE)


def _version_of(name: str) -> tuple[str, str, int]:
    memory, record, number = name.split("/")[-3:]
    return memory, record, int(number)
