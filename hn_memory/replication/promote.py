"""Promotion: objects first, then a journal, then one ref transaction, then the ledger (step 7).

A process killed at any point leaves each ref old or new and never pointing at an absent object: the objects are
in the main store before a ref names them, and Git moves each ref by itself atomically. The journal names the
whole set; `finish` completes it when the next sync begins.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from hn_memory.errors import ConflictError, HnError, NotFoundError
from hn_memory.protocol.identifiers import accepted_ref
from hn_memory.protocol.tips import LEDGER_BYTES, Journal, Ledger, Move, Tip, decode_journal, encode_journal
from hn_memory.replication.quarantine import Quarantine
from hn_memory.replication.tips import save_tips
from hn_memory.repository.base import RefUpdate, Repository
from hn_memory.repository.discover import GIT, git_environment
from hn_memory.repository.locks import WriterLock
from hn_memory.repository.private import PrivateFiles
from hn_memory.repository.process import store_refused
from hn_memory.repository.refwriter import BROKEN_OFF, LOCKED
from hn_memory.repository.spawn import run

JOURNAL: Final = "replication/journal.json"
REFLOG_MESSAGE: Final = "hn: promote memory"

# As `git fetch` would decide: few objects stay loose, many stay a pack.
_LOOSE_LIMIT: Final = 100


def copy_objects(main: Repository, quarantine: Quarantine, heads: Sequence[str], *, whole: bool, arrived: int) -> None:
    """Bring what verified heads reach, and only that, into the main store.

    Args:
        whole: everything that arrived is wanted, so that its pack may come along as it is.
        arrived: how many objects arrived.

    Raises:
        HnError `object-write-failed`: the store refused; names the directory.
    """
    if not heads or not arrived:
        return
    if arrived < _LOOSE_LIMIT:
        data = _packed(main, quarantine, heads, "--stdout")
        if data:
            done = run([*_main(main), "unpack-objects", "-q"], git_environment(), stdin=data)
            if done.status:
                raise store_refused(main.layout.objects, done.reason)
        return
    packs = sorted((quarantine.objects / "pack").glob("*.pack"))
    if not (whole and len(packs) == 1):
        _packed(main, quarantine, heads, os.fspath(quarantine.path / "promote"))
        packs = sorted(quarantine.path.glob("promote-*.pack"))
    for pack in packs:
        _move_pack(main, pack)


def promote(
    main: Repository, files: PrivateFiles, ledger: Ledger, moves: Sequence[Move], tips: Sequence[Tip]
) -> dict[str, HnError]:
    """Move refs whose objects are in the main store, and note the tips; the refs that others hold locked, and why.

    Raises:
        ConflictError `ref-moved`, `repository-busy`; HnError `ref-write-failed`.
    """
    held: dict[str, HnError] = {}
    if moves:
        write_journal(files, Journal(tuple(moves), tuple(tips)))
        try:
            held = move_all_but_locked(main, moves)
        except HnError as error:
            if error.code != BROKEN_OFF:
                files.remove(JOURNAL)
            raise
    write_tips(files, ledger, (tip for tip in tips if accepted_ref(*tip[:3]) not in held))
    if moves:
        clear_journal(files)
    return held


def move_all_but_locked(main: Repository, moves: Sequence[Move]) -> dict[str, HnError]:
    """`move_accepted`; where a lock that is none of ours stops it, all that it need not stop, found by halving.

    Raises:
        ConflictError `ref-moved`, `repository-busy`; HnError `ref-write-failed`.
    """
    try:
        move_accepted(main, moves)
    except ConflictError as error:
        if error.code != LOCKED:
            raise
        if len(moves) == 1:
            return {moves[0].ref: error}
        middle = len(moves) // 2
        return move_all_but_locked(main, moves[:middle]) | move_all_but_locked(main, moves[middle:])
    return {}


def write_journal(files: PrivateFiles, journal: Journal) -> None:
    """Name the set that is about to be promoted."""
    files.write(JOURNAL, encode_journal(journal))


def clear_journal(files: PrivateFiles) -> None:
    """The set is promoted and its tips are noted."""
    files.remove(JOURNAL)


def write_tips(files: PrivateFiles, ledger: Ledger, tips: Iterable[Tip]) -> None:
    """Note the tips of what was promoted."""
    save_tips(files, ledger, tips)


def move_accepted(main: Repository, moves: Sequence[Move]) -> None:
    """One ref transaction under the writers' lock, each ref against the value read before."""
    layout = main.layout
    with WriterLock(layout.common_dir, ref_format=layout.ref_format) as lock:
        lock.journal([move.ref for move in moves])
        updates = [RefUpdate(move.ref, move.new, move.old) for move in moves]
        try:
            main.update_refs(updates, REFLOG_MESSAGE, (lock.fileno(),))
        except HnError as error:
            if error.code != BROKEN_OFF:
                lock.clear()
            raise
        lock.clear()


def finish(main: Repository, files: PrivateFiles, ledger: Ledger) -> int:
    """Complete a promotion that was broken off; how many refs that moved. Only for the holder of the sync lock."""
    try:
        journal = decode_journal(files.read(JOURNAL, LEDGER_BYTES))
    except NotFoundError:
        return 0
    except HnError as error:
        if error.code != "journal-invalid":
            raise
        # Journals are written whole or not at all; this one is nobody's.
        files.remove(JOURNAL)
        return 0
    refs = {ref.name: ref.target for ref in main.refs(*(move.ref for move in journal.moves))}
    pending = [move for move in journal.moves if refs.get(move.ref) == move.old]
    if pending and not _connected(main, [move.new for move in pending]):
        pending = []
    moved: Sequence[Move] = ()
    if pending:
        held = move_all_but_locked(main, pending)
        moved = [move for move in pending if move.ref not in held]
        refs |= {move.ref: move.new for move in moved}
    else:
        # Whoever takes the writers' lock removes what the killed process left there.
        with WriterLock(main.layout.common_dir, ref_format=main.layout.ref_format):
            pass
    write_tips(files, ledger, (tip for tip in journal.tips if refs.get(accepted_ref(*tip[:3])) == tip.commit))
    clear_journal(files)
    return len(moved)


def _connected(main: Repository, commits: Iterable[str]) -> bool:
    """Is everything that these commits reach in the main store?"""
    lines = "".join(f"{commit}\n" for commit in commits)
    env = git_environment() | {"GIT_NO_LAZY_FETCH": "1"}
    # `--stdin` reads revisions only: what existing refs reach is left out of the walk.
    done = run(
        [*_main(main), "rev-list", "--objects", "--quiet", "--stdin", "--not", "--all"], env, stdin=lines.encode()
    )
    return done.status == 0


def _packed(main: Repository, quarantine: Quarantine, heads: Sequence[str], where: str) -> bytes:
    """A pack of exactly what the heads reach and the main store lacks; none when it lacks nothing."""
    lines = "".join(f"{head}\n" for head in dict.fromkeys(heads))
    flags = ["--revs", "--local", "--non-empty", "--delta-base-offset", "-q"]
    done = run([*quarantine.command, "pack-objects", *flags, where], git_environment(), stdin=lines.encode())
    if done.status:
        raise store_refused(main.layout.objects, done.reason)
    return done.stdout


def _move_pack(main: Repository, pack: Path) -> None:
    """Move a pack into the main store; its index last, since a pack without one is not there for Git.

    The quarantine is private, whatever core.sharedRepository says; in the store whoever may read the store may read it.
    """
    directory = main.layout.objects / "pack"
    try:
        readable = stat.S_IMODE(main.layout.objects.stat().st_mode)
        if not directory.exists():
            directory.mkdir(exist_ok=True)
            directory.chmod(readable)
        name = f"pack-{pack.stem.rpartition('-')[2]}"
        for suffix in (".pack", ".rev", ".idx"):
            source = pack.with_suffix(suffix)
            if not source.exists():
                continue
            target = directory / f"{name}{suffix}"
            if target.exists():
                continue
            source.chmod(0o400 | (0o044 & readable))
            try:
                source.rename(target)
            except OSError:
                import shutil

                # Another file system: copied beside it first, so that it appears at once.
                beside = directory / f"tmp_pack_{os.urandom(8).hex()}"
                shutil.copy(source, beside)
                beside.rename(target)
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise store_refused(main.layout.objects, error.strerror or "unknown reason") from error


def _main(main: Repository) -> list[str]:
    return [*GIT, f"--git-dir={main.layout.git_dir}"]
