"""Move refs through `git update-ref --stdin`: all or none, each against the value read before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hn_memory.errors import ConflictError, HnError
from hn_memory.repository.base import Ref, RefUpdate, Repository
from hn_memory.repository.paths import display, without_homes
from hn_memory.repository.spawn import Child, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


# Reflog entries need a name. Set here, they never fail for want of user.name (user.useConfigOnly, no HOME),
# and both backends write the same one.
IDENTITY: Final = ("hn", "hn@hn.invalid")

# Other writers hold a ref lock for milliseconds; waiting that long beats reporting a conflict.
_LOCK_WAIT = ("-c", "core.filesRefLockTimeout=500", "-c", "core.packedRefsTimeout=1000")

# Asking for each ref by itself takes a child each.
_FEW = 2

# Git ends by itself with 129 at most; what is above, or a signal, says that it was killed.
_OWN_STATUS: Final = 129

BROKEN_OFF: Final = "ref-move-broken-off"
LOCKED: Final = "ref-locked"


def move_refs(
    repository: Repository,
    command: Sequence[str],
    env: Mapping[str, str],
    updates: Sequence[RefUpdate],
    message: str,
    pass_fds: Sequence[int] = (),
) -> None:
    """See `Repository.update_refs`. `command` is everything before `update-ref`.

    While Git holds the locks, the refs are read once more: Git compares the value at the end of a symbolic
    ref, and would then put a plain ref in its place.
    """
    if not updates:
        return
    for update in updates:
        if not update.name.startswith("refs/") or "\0" in update.name:
            raise HnError("ref-write-failed", f"{update.name!r} is no name of a ref")
    identity = {"GIT_COMMITTER_NAME": IDENTITY[0], "GIT_COMMITTER_EMAIL": IDENTITY[1]}
    child = Child(
        [*command, *_LOCK_WAIT, "update-ref", "-m", one_line(message), "--stdin", "-z"], {**env, **identity}, pass_fds
    )
    try:
        prepared = _until(child, b"start\0" + b"".join(map(_line, updates)) + b"prepare\0", b"prepare: ok\n")
        if prepared:
            for ref in _now(repository, updates):
                if ref.symbolic is not None:
                    raise moved(ref.name)
            if _until(child, b"commit\0", b"commit: ok\n"):
                return
        status = child.wait()
    finally:
        child.stop()
    if status < 0 or status > _OWN_STATUS:
        raise broken_off(repository)
    raise _why(repository, updates, bytes(child.errors))


def one_line(message: str) -> str:
    """A reflog message as Git keeps it: white space is one blank, and it is never empty."""
    return " ".join(message.replace("\0", " ").split()) or "hn"


def moved(name: str) -> ConflictError:
    """The refusal when a ref does not hold its old value."""
    return ConflictError("ref-moved", f"{name} was moved by somebody else", hint="read it again and retry")


def locked(name: str) -> ConflictError:
    """The refusal when the lock of a ref is held."""
    return ConflictError(
        LOCKED,
        f"another writer holds the lock of {name}",
        hint="retry; a lock that stays was left by a process that crashed",
    )


def broken_off(repository: Repository) -> HnError:
    """What to say when Git was killed at its work: refs are old or new, and their locks may still stand there."""
    where = display(repository.layout.common_dir)
    return HnError(
        BROKEN_OFF,
        f"Git was killed while it moved refs in {where}; they are as they were, or moved already",
        hint="`hn memory log` shows what is there; run the command again if it is missing.",
    )


def refused(repository: Repository, why: str) -> HnError:
    """The refusal of the ref store itself."""
    where = display(repository.layout.common_dir)
    return HnError(
        "ref-write-failed",
        f"cannot move refs in {where}: {without_homes(why)}",
        hint="check the permissions, the owner and the free space of that directory",
    )


def holds(ref: Ref | None, old: str | None) -> bool:
    """Does the ref hold that value itself, not through another ref?"""
    if ref is None:
        return old is None
    return ref.symbolic is None and ref.target == old and old is not None


def _now(repository: Repository, updates: Sequence[RefUpdate]) -> list[Ref]:
    """What the refs hold. Dangling symbolic refs are seen when only a few refs are asked for."""
    if len(updates) > _FEW:
        return repository.refs(*(update.name for update in updates))
    return [ref for update in updates if (ref := repository.ref(update.name)) is not None]


def _line(update: RefUpdate) -> bytes:
    name = update.name.encode("utf-8", "surrogateescape")
    new, old = (update.new or "").encode("ascii"), (update.old or "").encode("ascii")
    if update.new is None:
        command = b"delete %s\0%s\0" % (name, old)
    elif update.old is None:
        command = b"create %s\0%s\0" % (name, new)
    else:
        command = b"update %s\0%s\0%s\0" % (name, new, old)
    return b"option no-deref\0" + command


def _until(child: Child, request: bytes, answer: bytes) -> bool:
    """Send a request and wait for the line that confirms it; False when Git ended instead."""
    outgoing = bytearray(request)
    arrived = b""
    while not arrived.endswith(answer):
        data = child.receive(outgoing)
        if not data:
            return False
        arrived += data
    return True


def _why(repository: Repository, updates: Sequence[RefUpdate], stderr: bytes) -> HnError:
    """What kept Git from moving: first what the refs hold now, then what Git said."""
    now = {ref.name: ref for ref in _now(repository, updates)}
    for update in updates:
        if not holds(now.get(update.name), update.old):
            return moved(update.name)
    why = reason(stderr)
    if ".lock" in why and "File exists" in why:
        return locked(next((u.name for u in updates if u.name in why), updates[0].name))
    if "but expected" in why or "reference already exists" in why:
        # It moved, and moved back: the value read before was not the one under the lock.
        return moved(next((u.name for u in updates if u.name in why), updates[0].name))
    return refused(repository, why)
