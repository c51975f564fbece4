"""The quarantine: a fresh bare repository that borrows the main object store, and the fetch into it (step 2).

Only new objects travel, and none of them is in the main store before it is verified. Hooks, filters, fsmonitor,
maintenance, submodules and tags are off; the transport's settings are the main repository's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from hn_memory.errors import HnError
from hn_memory.protocol.selection import Budgets
from hn_memory.replication.advertise import Offer
from hn_memory.replication.network import Ended, PercentProgress, network_environment, run_network
from hn_memory.replication.remote import Remote
from hn_memory.repository.base import Layout, Repository
from hn_memory.repository.discover import GIT, git_environment
from hn_memory.repository.open import open_repository
from hn_memory.repository.private import PrivateFiles
from hn_memory.repository.spawn import run
from hn_memory.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


QUARANTINE: Final = "replication/quarantine"
PREFIX: Final = "refs/hn/quarantine/memory/"

_TRANSACTION: Final = "txn-"
_SAFE: Final = {
    "core.fsmonitor": "false",
    "core.attributesFile": "/dev/null",
    "core.alternateRefsPrefixes": "refs/hn/memory refs/hn/remotes",
    "core.logAllRefUpdates": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "fetch.unpackLimit": "1",
    "fetch.prune": "false",
    "fetch.pruneTags": "false",
    "fetch.writeCommitGraph": "false",
    "fetch.output": "full",
    # What a commit holds is judged by our own rules, which know nothing of names and dates.
    "fetch.fsckObjects": "false",
    "transfer.bundleURI": "false",
    "push.followTags": "false",
    "push.recurseSubmodules": "no",
    "push.gpgSign": "false",
    "push.autoSetupRemote": "false",
}
# A pack is a little larger than what is in it where nothing compresses.
_SLACK: Final = 1024 * 1024
# One bad stream among 10,000 takes 28 fetches to find; a remote where everything fails is left alone in the end.
_FETCHES: Final = 200


# What Git needs beside the objects themselves, and how many of the largest it may hold at once.
_MEMORY: Final = 1024 * 1024 * 1024
_HELD: Final = 16
# More objects than this are not listed at once, whoever brings them.
_LISTED: Final = 2_000_000


class Failure(NamedTuple):
    """An offer that did not arrive: why, and whether that is a matter of its budgets."""

    offer: Offer
    reason: str
    over_budget: bool


class Fetched(NamedTuple):
    """What came of fetching: the offers that arrived, and those that did not."""

    arrived: tuple[Offer, ...]
    failed: tuple[Failure, ...]


class Quarantine:
    """One transaction's repository, until `close`."""

    def __init__(self, main: Repository, remote: Remote) -> None:
        files = PrivateFiles(main.layout.common_dir)
        self._main = main
        self._remote = remote
        self.secrets = remote.secrets
        self.path = files.directory(f"{QUARANTINE}/{_TRANSACTION}{os.urandom(8).hex()}")
        self._repository: Repository | None = None
        self.fetches = 0
        try:
            self._create()
        except OSError as error:
            files.failed(error, f"{QUARANTINE}/x", writing=True)
        place = os.fspath(main.layout.work_tree or main.layout.git_dir)
        settings = [part for key, value in _SAFE.items() for part in ("-c", f"{key}={value}")]
        self.command = [*GIT, "-C", place, f"--git-dir={self.path}", *settings]

    def close(self) -> None:
        """Remove everything. Safe to call twice."""
        if self._repository is not None:
            self._repository.close()
            self._repository = None
        _remove(self.path)

    @property
    def objects(self) -> Path:
        """The directory of what arrived."""
        return self.path / "objects"

    def environment(self, *, interactive: bool = False) -> dict[str, str]:
        """For Git children here that talk to the remote."""
        env = network_environment(interactive=interactive, ssh_command=self._remote.ssh_command)
        return env | self._remote.environment() | {"GIT_NO_LAZY_FETCH": "1"}

    def repository(self) -> Repository:
        """What arrived and the main store, as one repository to read."""
        if self._repository is None:
            main = self._main.layout
            layout = Layout(
                git=str(self.path), common=str(self.path), tree=None, store=str(self.objects),
                object_format=main.object_format, ref_format="files", shallow=False, promisor=False, prefix="",
            )  # fmt: skip
            # By Git, as `verify` reads it.
            self._repository = open_repository(layout, prefer="git")
        return self._repository

    def fetch(
        self,
        offers: Sequence[Offer],
        budgets: Budgets,
        *,
        deadline: float,
        interactive: bool,
        progress: PercentProgress | None,
        reachable: Callable[[], bool],
    ) -> Fetched:
        """Fetch all offers at once; where that fails for one stream's sake, find that stream by halving.

        Args:
            reachable: does the remote still answer? Asked after a failure, to tell a bad stream from a bad line.

        Raises:
            HnError `remote-failed`: the remote does not answer any more.
        """
        waiting: list[Sequence[Offer]] = [offers]
        arrived: list[Offer] = []
        failed: list[Failure] = []
        while waiting:
            batch = waiting.pop()
            before = self._packs()
            done = self._fetch_once(batch, budgets, deadline, interactive, progress)
            over = _over_budget(done, budgets)
            if done.status == 0:
                packs = self._packs() - before
                count = sum(map(_count, packs))
                if count <= budgets.max_objects * len(batch) and (count <= _LISTED or len(batch) == 1):
                    arrived += batch
                    continue
                over = f"it brings more than {budgets.max_objects} objects (maxObjects)"
                self._discard(batch, packs)
            elif done.timed_out or not (over or reachable()):
                from hn_memory.replication.advertise import remote_failed

                raise remote_failed(self._remote, done)
            if len(batch) == 1 or self.fetches >= _FETCHES:
                reason = over or f"the remote could not deliver it: {done.words}"
                failed += [Failure(offer, reason, over is not None) for offer in batch]
                continue
            middle = len(batch) // 2
            waiting += [batch[middle:], batch[:middle]]
        present = {ref.name: ref.target for ref in self.repository().refs(PREFIX)}
        for offer in arrived:
            if present.get(quarantine_ref(offer)) != offer.commit:
                raise HnError("remote-failed", f"{self._remote.name}: what arrived is not what was advertised")
        return Fetched(tuple(arrived), tuple(failed))

    def sizes(self) -> dict[str, tuple[str, int]]:
        """Type and size of every object that arrived, without reading one; the main store does not count."""
        command = [*GIT, f"--git-dir={self.path}", "cat-file", "--batch-all-objects", "--unordered", "--buffer"]
        alternates = self.objects / "info" / "alternates"
        aside = self.objects / "info" / "alternates.aside"
        alternates.rename(aside)
        try:
            form = "--batch-check=%(objectname) %(objecttype) %(objectsize)"
            done = run([*command, form], git_environment())
        finally:
            aside.rename(alternates)
        if done.status:
            raise HnError("quarantine-unreadable", f"Git cannot list what arrived: {done.reason}")
        words = done.stdout.decode("ascii").split()
        return dict(zip(words[::3], zip(words[1::3], map(int, words[2::3]), strict=True), strict=True))

    def _packs(self) -> set[Path]:
        return set((self.objects / "pack").glob("*.pack"))

    def _discard(self, batch: Sequence[Offer], packs: Iterable[Path]) -> None:
        """Forget what a fetch brought: the refs first, then the objects."""
        for offer in batch:
            (self.path / quarantine_ref(offer)).unlink(missing_ok=True)
        for pack in packs:
            for suffix in (".idx", ".rev", ".pack"):
                pack.with_suffix(suffix).unlink(missing_ok=True)

    def _fetch_once(
        self,
        offers: Sequence[Offer],
        budgets: Budgets,
        deadline: float,
        interactive: bool,
        progress: PercentProgress | None,
    ) -> Ended:
        self.fetches += 1
        flags = [
            "--no-tags", "--no-auto-maintenance", "--no-recurse-submodules", "--no-write-fetch-head",
            "--no-show-forced-updates", "--progress" if progress else "--quiet", "--stdin",
        ]  # fmt: skip
        lines = "".join(f"{offer.commit}:{quarantine_ref(offer)}\n" for offer in offers)
        return run_network(
            [*self.command, "fetch", *flags, "--", self._remote.name],
            self.environment(interactive=interactive),
            deadline=deadline,
            stdin=lines.encode(),
            file_limit=budgets.max_total_bytes + budgets.max_total_bytes // 64 + _SLACK,
            memory_limit=memory_limit(budgets),
            secrets=self.secrets,
            interactive=interactive,
            progress=progress,
        )

    def _create(self) -> None:
        main = self._main.layout
        for part in ("refs", "objects/info", "objects/pack"):
            (self.path / part).mkdir(parents=True)
        (self.path / "HEAD").write_text("ref: refs/heads/none\n")
        sha256 = main.object_format == "sha256"
        extra = "[extensions]\n\tobjectFormat = sha256\n" if sha256 else ""
        (self.path / "config").write_text(f"[core]\n\trepositoryFormatVersion = {int(sha256)}\n\tbare = true\n{extra}")
        (self.objects / "info" / "alternates").write_bytes(os.fsencode(_quoted(os.fspath(main.objects))) + b"\n")


def memory_limit(budgets: Budgets) -> int:
    """How many bytes of memory Git may use to unpack what arrives."""
    return _MEMORY + _HELD * budgets.max_object_bytes


def quarantine_ref(offer: Offer) -> str:
    """Where an offered stream is put in the quarantine."""
    return f"{PREFIX}{offer.actor}/{offer.digest}"


def sweep(main: Repository) -> None:
    """Remove what killed syncs left. Only for who holds the lock of syncs."""
    top = PrivateFiles(main.layout.common_dir)
    top.sweep("replication")
    for name in top.names(QUARANTINE):
        if name.startswith(_TRANSACTION):
            _remove(top.path(f"{QUARANTINE}/{name}"))


def _remove(path: Path) -> None:
    import shutil  # 5 ms, and a sync with nothing new has nothing to remove

    shutil.rmtree(path, ignore_errors=True)


def _over_budget(done: Ended, budgets: Budgets) -> str | None:
    """Did a limit that comes from the budgets end this fetch, and which?"""
    if b"File too large" in done.stderr or b"signal 25" in done.stderr or done.status == -25:
        return f"it is larger than {budgets.max_total_bytes} bytes (maxTotalBytes)"
    # What the remote says of its own memory comes with a prefix.
    if done.status and b"\nfatal: Out of memory" in b"\n" + done.stderr:
        return f"Git ran out of memory; an object may have {budgets.max_object_bytes} bytes (maxObjectBytes)"
    return None


def _count(pack: Path) -> int:
    """How many objects a pack holds, by its header: `PACK`, the version, the number."""
    with pack.open("rb") as file:
        return int.from_bytes(file.read(12)[8:])


def _quoted(path: str) -> str:
    """A path as a line of `objects/info/alternates`: quoted as in C where it must be."""
    if not path.startswith(("#", '"')) and not any(ord(character) < 0x20 or character == "\\" for character in path):
        return path
    body = "".join(
        f"\\{ord(character):03o}" if ord(character) < 0x20 or character in '"\\' else character for character in path
    )
    return f'"{body}"'
