"""The public face of one repository: every use case as a method.

Documents that methods answer are the JSON values of the command line; text in them is author data wherever
it stands below `data`, `content` or `summary`, and inert.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from os import PathLike

from hn_memory.repository.clock import Clock, system_clock
from hn_memory.service.environment import Environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Any

    from hn_memory.protocol.query import Request
    from hn_memory.repository.ahead import Ahead
    from hn_memory.service.building import RecordArguments


class Service:
    """All use cases over one repository. Close it, or use it as a context manager."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment

    def __enter__(self) -> Service:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End helper processes and release handles."""
        self.environment.close()

    @property
    def notices(self) -> list[str]:
        """Lines for people that the last calls left."""
        return self.environment.notices

    # -- writing ------------------------------------------------------------------------------------------

    def record(
        self, arguments: RecordArguments, *, target: str | None = None, allow_secrets: Collection[str] = ()
    ) -> dict[str, Any]:
        """Append a record, or with `target` a record that supersedes it."""
        from hn_memory.service import write

        return write.record(self.environment, arguments, target=target, allow_secrets=allow_secrets)

    def record_all(
        self, arguments: Sequence[RecordArguments], *, stream: str | None = None, allow_secrets: Collection[str] = ()
    ) -> list[dict[str, Any]]:
        """Append records to one stream, all of them or none, with one move of the ref."""
        from hn_memory.service import write

        return write.record_all(self.environment, arguments, stream=stream, allow_secrets=allow_secrets)

    def retract(self, target: str, reason: str, *, stream: str | None = None) -> dict[str, Any]:
        """Append a retraction of a record of our own."""
        from hn_memory.service import write

        return write.retract(self.environment, target, reason, stream=stream)

    def challenge(
        self, target: str, reason: str, *, evidence: Sequence[str] = (), stream: str | None = None
    ) -> dict[str, Any]:
        """Append a dispute of a record."""
        from hn_memory.service import write

        return write.challenge(self.environment, target, reason, evidence=evidence, stream=stream)

    # -- reading ------------------------------------------------------------------------------------------

    def recall(self, request: Request, *, check_evidence: bool = False) -> dict[str, Any]:
        """One page of matches, with a receipt of what was withheld."""
        from hn_memory.service import read

        return read.recall(self.environment, request, check_evidence=check_evidence)

    def grep(self, request: Request, pattern: str, ignore_case: bool = False) -> dict[str, Any]:
        """One page of the records that a regular expression is found in, with a receipt."""
        from hn_memory.service import grep

        return grep.grep(self.environment, request, pattern, ignore_case)

    def search(
        self, request: Request, question: str, mode: str | None = None, *, check_evidence: bool = False
    ) -> dict[str, Any]:
        """One page of the records that answer a question, ranked, with a receipt."""
        from hn_memory.service import search

        return search.search(self.environment, request, question, mode, check_evidence=check_evidence)

    def duplicates(self, request: Request) -> dict[str, Any]:
        """Groups of records that say nearly the same, among those that a recall with this request would match."""
        from hn_memory.service import duplicates

        return duplicates.duplicates(self.environment, request)

    def show(self, memory_id: str, *, check_evidence: bool = False) -> dict[str, Any]:
        """One memory by full ID or unambiguous prefix."""
        from hn_memory.service import read

        return read.show(self.environment, memory_id, check_evidence=check_evidence)

    def log(
        self, *, max_count: int | None = None, actor: str | None = None, stream: str | None = None
    ) -> dict[str, Any]:
        """All memories, newest first, with lifecycle marks and the relationships among them."""
        from hn_memory.service import read

        return read.log(self.environment, max_count=max_count, actor=actor, stream=stream)

    def streams(self) -> dict[str, Any]:
        """Every source here, and which stream is this clone's default."""
        from hn_memory.service import read

        return read.streams(self.environment)

    def use_stream(self, stream: str) -> dict[str, Any]:
        """Make a stream the default of this clone for the identity in use."""
        from hn_memory.service import write

        return write.use_stream(self.environment, stream)

    def verify(self) -> dict[str, Any]:
        """Verify every stream from its first commit."""
        from hn_memory.service import read

        return read.verify(self.environment)

    def index_rebuild(self) -> dict[str, Any]:
        """Build the index anew from the signed commits and write the `index-v0.json` snapshot."""
        from hn_memory.service import snapshot

        return snapshot.rebuild(self.environment)

    def index_verify(self) -> dict[str, Any]:
        """Check the index and the `index-v0.json` snapshot, if there is one, against the sources."""
        from hn_memory.service import snapshot

        return snapshot.verify(self.environment)

    def index_status(self) -> dict[str, Any]:
        """What the index holds and whether it would be used; changes nothing."""
        from hn_memory.service import snapshot

        return snapshot.status(self.environment)

    # -- replication --------------------------------------------------------------------------------------

    def sync(
        self,
        target: str | PathLike[str] | None = None,
        *,
        name: str | None = None,
        push: bool = True,
        recover_shallow: bool = False,
        interactive: bool = False,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Import from a remote and publish to it, or import from a bundle file."""
        from hn_memory.service import replicate

        return replicate.sync(
            self.environment,
            target,
            name=name,
            push=push,
            recover_shallow=recover_shallow,
            interactive=interactive,
            timeout=timeout,
        )

    def replication_select(
        self,
        remote: str,
        streams: Sequence[str] = (),
        *,
        everything: bool = False,
        from_policy: bool = False,
        budgets: Mapping[str, int | None] | None = None,
        interactive: bool = False,
    ) -> dict[str, Any]:
        """Save what a remote may bring, and under which budgets."""
        from hn_memory.service import replicate

        return replicate.select(
            self.environment,
            remote,
            streams,
            everything=everything,
            from_policy=from_policy,
            budgets=budgets,
            interactive=interactive,
        )

    def replication_show(self, remote: str | None = None) -> dict[str, Any]:
        """Saved selections, and what a sync takes where none is saved."""
        from hn_memory.service import replicate

        return replicate.show(self.environment, remote)

    def replication_discover(self, remote: str, *, interactive: bool = False) -> dict[str, Any]:
        """What a remote offers; takes nothing."""
        from hn_memory.service import replicate

        return replicate.discover(self.environment, remote, interactive=interactive)

    def replication_gaps(self) -> dict[str, Any]:
        """What streams need that this shallow clone does not have."""
        from hn_memory.service import replicate

        return replicate.gaps(self.environment)

    def replication_tips(self) -> dict[str, Any]:
        """The highest verified link of each stream that each remote showed."""
        from hn_memory.service import replicate

        return replicate.tips(self.environment)

    def replication_tips_accept(
        self, remote: str, stream: str, reason: str, *, interactive: bool = False
    ) -> dict[str, Any]:
        """Record that a person looked at a rewind, withdrawal or fork."""
        from hn_memory.service import replicate

        return replicate.tips_accept(self.environment, remote, stream, reason, interactive=interactive)

    def export_bundle(self, path: str | PathLike[str], streams: Sequence[str] = ()) -> dict[str, Any]:
        """Write a verifiable bundle of streams and the policy."""
        from hn_memory.service import bundles

        return bundles.export_bundle(self.environment, path, streams)

    # -- policy -------------------------------------------------------------------------------------------

    def policy_show(self, at: str = "HEAD") -> dict[str, Any]:
        """The policy in force at a commit."""
        from hn_memory.service import policy

        return policy.show(self.environment, at)

    def policy_check(self, at: str | None = None) -> dict[str, Any]:
        """Check the policy file of the work tree, or of a commit."""
        from hn_memory.service import policy

        return policy.check(self.environment, at)

    def policy_trust(self, actors: Sequence[str], kinds: Sequence[str] = ()) -> dict[str, Any]:
        """Add actors and kinds to the policy file of the work tree."""
        from hn_memory.service import policy

        return policy.trust(self.environment, actors, kinds)

    def policy_untrust(self, actors: Sequence[str]) -> dict[str, Any]:
        """Remove actors from the policy file of the work tree."""
        from hn_memory.service import policy

        return policy.untrust(self.environment, actors)

    # -- identities ---------------------------------------------------------------------------------------

    def init(self, name: str | None = None) -> dict[str, Any]:
        """Make the first identity of this clone and use it."""
        from hn_memory.service import identity

        return identity.init(self.environment, name)

    def identity_new(self, name: str) -> dict[str, Any]:
        """Make a further identity; it is used when it is the first."""
        from hn_memory.service import identity

        return identity.new(self.environment, name)

    def identity_list(self) -> dict[str, Any]:
        """All identities of this clone, without private keys."""
        from hn_memory.service import identity

        return identity.listing(self.environment)

    def identity_show(self, actor: str | None = None) -> dict[str, Any]:
        """One identity (the one in use by default), without its private key."""
        from hn_memory.service import identity

        return identity.show(self.environment, actor)

    def identity_use(self, actor: str) -> dict[str, Any]:
        """Use another identity from now on."""
        from hn_memory.service import identity

        return identity.use(self.environment, actor)

    def identity_import(self, source: str | PathLike[str], actor: str | None = None) -> dict[str, Any]:
        """Take over an identity from an identity file or another repository."""
        from pathlib import Path

        from hn_memory.service import identity

        return identity.take(self.environment, Path(source), actor)


def open_repository(
    path: str | PathLike[str] | None = None,
    *,
    git_dir: str | PathLike[str] | None = None,
    actor: str | None = None,
    backend: str = "auto",
    clock: Clock = system_clock,
    ahead: Ahead | None = None,
) -> Service:
    """The service over the repository at `path` (default: the current directory).

    Args:
        git_dir: a Git directory named outright, as with `--git-dir`.
        actor: act as this identity of the keyring instead of the active one.
        backend: `auto` and `libgit2` suit a process that stays; `git` starts fastest.
        ahead: Git children that run already for the current directory.

    Raises:
        NotFoundError `not-a-repository`; HnError `repository-unsafe`, `git-missing`.
    """
    from hn_memory.repository.discover import discover
    from hn_memory.repository.open import open_repository as open_backend

    start: Path | None = None
    named: Path | None = None
    if path is not None or git_dir is not None:
        from pathlib import Path

        start, named = (None if place is None else Path(place) for place in (path, git_dir))
        # They look at the current directory; whoever started them stops them.
        ahead = None
    layout = discover(start, git_dir=named, ahead=ahead)
    repository = open_backend(layout, prefer=backend, ahead=ahead)  # type: ignore[arg-type]
    return Service(Environment(repository, actor, clock))
