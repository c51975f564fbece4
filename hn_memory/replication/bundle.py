"""A bundle as transport: streams and the policy in one verifiable Git file, for where no remote can be reached."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from hn_memory.errors import HnError, NotFoundError
from hn_memory.protocol.gitobject import object_id
from hn_memory.protocol.identifiers import LOCAL_PREFIX, local_ref
from hn_memory.protocol.policy import POLICY_PATH, Policy, parse_policy
from hn_memory.protocol.selection import Budgets
from hn_memory.replication.advertise import Offer
from hn_memory.replication.network import DEFAULT_TIMEOUT, clean_lines, run_network
from hn_memory.replication.quarantine import Quarantine, memory_limit
from hn_memory.replication.remote import Remote
from hn_memory.repository.base import Layout, ObjectFormat, ObjectType, Repository
from hn_memory.repository.discover import GIT, git_environment
from hn_memory.repository.open import open_repository
from hn_memory.repository.paths import display, without_homes
from hn_memory.repository.policyfile import policy_bytes
from hn_memory.repository.scan import VerifiedSet, scan
from hn_memory.repository.spawn import run
from hn_memory.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


POLICY_REF: Final = "refs/hn/bundle/policy"
_MAGIC: Final = (b"# v2 git bundle\n", b"# v3 git bundle\n")
_HEADER_BYTES: Final = 4096
_READ_BYTES: Final = 1 << 20
_FORMAT: Final = b"@object-format="


class BundleContent(NamedTuple):
    """What a bundle holds, verified from its first commits. `policy` is None where it brings none."""

    object_format: ObjectFormat
    verified: VerifiedSet
    policy: Policy | None
    other_refs: int


def is_bundle(path: Path) -> bool:
    """Does the file begin as a Git bundle does?"""
    return _head(path).startswith(_MAGIC)


def check_whole(path: Path) -> None:
    """Is the file complete, from the blank line that ends its header to the checksum that ends its pack?

    Git answers from the refs of a header that is cut off, and does not look at a pack whose objects are here already.

    Raises:
        HnError `bundle-invalid`: it is cut off or was changed on the way.
        HnError `file-unknown`: it is no bundle.
    """
    import hashlib

    digest = hashlib.new(_object_format(path), usedforsecurity=False)
    length = digest.digest_size
    with path.open("rb") as file:
        while (line := file.readline(_HEADER_BYTES)) != b"\n":
            if not line:
                raise _damaged(path)
        tail = b""
        while data := file.read(_READ_BYTES):
            data = tail + data
            digest.update(data[:-length])
            tail = data[-length:]
    if tail != digest.digest():
        raise _damaged(path)


def _damaged(path: Path) -> HnError:
    return HnError(
        "bundle-invalid",
        f"the bundle {display(path)} is cut off or was changed on the way",
        hint="Copy it again from where it was written.",
        field="file",
    )


def write_bundle(main: Repository, streams: Sequence[Offer], policy: bytes | None, target: Path) -> None:
    """Write a bundle of stream heads and the policy; it appears whole or not at all.

    Raises:
        HnError `bundle-failed`: Git cannot write it; NotFoundError `file-missing`: there is no such directory.
    """
    quarantine = Quarantine(main, Remote("bundle", (), None))
    try:
        refs = {local_ref(offer.actor, offer.stream): offer.commit for offer in streams}
        if policy is not None:
            refs[POLICY_REF] = _policy_commit(quarantine.repository(), policy)
        lines = "".join(f"create {ref} {commit}\n" for ref, commit in refs.items())
        done = run([*quarantine.command, "update-ref", "--stdin"], git_environment(), stdin=lines.encode())
        if done.status:
            raise HnError("bundle-failed", f"Git cannot prepare the bundle: {done.reason}")
        if not target.parent.is_dir():
            raise NotFoundError("file-missing", f"there is no directory {display(target.parent)}", field="bundle")
        beside = target.with_name(f".{target.name}.{os.urandom(6).hex()}")
        try:
            command = [*quarantine.command, "bundle", "create", "--quiet", os.fspath(beside.absolute()), "--stdin"]
            done = run(command, git_environment(), stdin="".join(f"{ref}\n" for ref in refs).encode())
            if done.status:
                raise HnError("bundle-failed", f"Git cannot write {display(target)}: {without_homes(done.reason)}")
            beside.replace(target)
        except OSError as error:
            raise HnError("bundle-failed", f"{display(target)} cannot be written: {error.strerror}") from error
        finally:
            beside.unlink(missing_ok=True)
    finally:
        quarantine.close()


def verify_bundle(path: Path) -> BundleContent:
    """Verify every stream of a bundle, in a repository of its own that is gone afterwards.

    Raises:
        HnError `bundle-invalid`: it is damaged, or needs commits that it does not bring.
        HnError `file-unknown`: it is no bundle.
    """
    object_format = _object_format(path)
    check_whole(path)
    top = Path(tempfile.mkdtemp(prefix="hn-bundle-"))
    try:
        command = _fresh(top, object_format)
        refs = _listed(command, path)
        wanted = [ref for ref in refs if ref.startswith(LOCAL_PREFIX) or ref == POLICY_REF]
        if wanted:
            _unbundle(command, path, wanted)
        layout = Layout(str(top), str(top), None, f"{top}/objects", object_format, "files", False, False, "")
        with open_repository(layout, prefer="git") as repository:
            verified = scan(repository)
            policy = None
            ref = repository.ref(POLICY_REF)
            if ref is not None and ref.target is not None:
                data = policy_bytes(repository, ref.target)
                policy = None if data is None else parse_policy(data)
        return BundleContent(object_format, verified, policy, len(refs) - len(wanted))
    finally:
        shutil.rmtree(top, ignore_errors=True)


def _policy_commit(repository: Repository, data: bytes) -> str:
    """A commit that holds the policy at its place and nothing else; the same policy gives the same commit."""
    kind = repository.layout.object_format
    folder, name = POLICY_PATH.encode().split(b"/")
    blob = object_id("blob", data, kind)
    inner = b"100644 " + name + b"\0" + bytes.fromhex(blob)
    outer = b"40000 " + folder + b"\0" + bytes.fromhex(object_id("tree", inner, kind))
    ident = "hn <hn@hn.invalid> 0 +0000"
    tree = object_id("tree", outer, kind)
    commit = f"tree {tree}\nauthor {ident}\ncommitter {ident}\n\nhn policy\n".encode()
    objects: list[tuple[ObjectType, bytes]] = [("blob", data), ("tree", inner), ("tree", outer), ("commit", commit)]
    return repository.write_objects(objects)[-1]


def _head(path: Path) -> bytes:
    try:
        # It is read several times, by Git, too. A pipe would wait for a writer as soon as it is opened.
        if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():
            raise HnError(
                "file-unreadable",
                f"{display(path)} is no regular file, which a bundle must be",
                hint="What comes through a pipe must be written to a file first.",
                field="file",
            )
        with path.open("rb") as file:
            return file.read(_HEADER_BYTES)
    except FileNotFoundError:
        raise NotFoundError("file-missing", f"there is no file {display(path)}", field="file") from None
    except OSError as error:
        raise HnError("file-unreadable", f"{display(path)} cannot be read: {error.strerror}", field="file") from None


def _object_format(path: Path) -> ObjectFormat:
    head = _head(path)
    if not head.startswith(_MAGIC):
        raise HnError(
            "file-unknown",
            f"{display(path)} is none of the files that can be verified",
            hint="A bundle is: `hn memory export --bundle FILE` writes one.",
            field="file",
        )
    for line in head.split(b"\n"):
        if line == _FORMAT + b"sha256":
            return "sha256"
    return "sha1"


def _fresh(top: Path, object_format: ObjectFormat) -> list[str]:
    for part in ("refs", "objects/pack", "objects/info"):
        (top / part).mkdir(parents=True)
    (top / "HEAD").write_text("ref: refs/heads/none\n")
    sha256 = object_format == "sha256"
    extra = "[extensions]\n\tobjectFormat = sha256\n" if sha256 else ""
    (top / "config").write_text(f"[core]\n\trepositoryFormatVersion = {int(sha256)}\n\tbare = true\n{extra}")
    return [*GIT, f"--git-dir={top}"]


def _listed(command: list[str], path: Path) -> list[str]:
    done = run([*command, "bundle", "list-heads", os.fspath(path.absolute())], git_environment())
    if done.status:
        raise HnError("bundle-invalid", f"Git cannot read {display(path)}: {without_homes(done.reason)}")
    return [line.partition(" ")[2] for line in done.stdout.decode("utf-8", "surrogateescape").splitlines()]


def _unbundle(command: list[str], path: Path, refs: Sequence[str]) -> None:
    limit = Budgets().max_total_bytes
    off = ["-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "fetch.unpackLimit=1", "-c", "core.fsync=none"]
    done = run_network(
        [
            *command, *off, "-c", "fetch.fsckObjects=false", "fetch", "--quiet", "--no-tags",
            "--no-auto-maintenance", "--no-write-fetch-head", "--stdin", os.fspath(path.absolute()),
        ],
        git_environment(),
        deadline=time.monotonic() + DEFAULT_TIMEOUT,
        stdin="".join(f"{ref}:{ref}\n" for ref in refs).encode("utf-8", "surrogateescape"),
        file_limit=limit,
        memory_limit=memory_limit(Budgets()),
    )  # fmt: skip
    if done.status:
        lines = [line for line in clean_lines(done.stderr) if line.startswith(("error: ", "fatal: "))]
        why = "; ".join(line.partition(": ")[2] for line in lines[:2]) or done.words
        raise HnError("bundle-invalid", f"Git cannot unpack {display(path)}: {why}")
