"""What a request works with: the state, the providers, and how a write spans both.

Knows nothing of HTTP: doors above hand it a principal's key and get documents or `UhpError`s back.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import select, update

from hn_memory.errors import HnError
from hn_memory.repository.private import PrivateFiles
from hn_memory.service.service import open_repository
from hn_memory.uhp.access import Caller
from hn_memory.uhp.consolidation import Runs
from hn_memory.uhp.faults import UhpError, unsupported
from hn_memory.uhp.hn.external import REPOSITORY, RepositoryProvider
from hn_memory.uhp.hn.provider import HnProvider
from hn_memory.uhp.jobs import Jobs
from hn_memory.uhp.provider import Provider
from hn_memory.uhp.state import schema
from hn_memory.uhp.state.idempotency import Ledger, announce_together
from hn_memory.uhp.state.keys import digest_of
from hn_memory.uhp.state.places import add_places
from hn_memory.uhp.state.snapshot import Key, Node
from hn_memory.uhp.state.store import Store, open_store
from hn_memory.uhp.uploads import Uploads
from hn_memory.uhp.values import Erased, Extent, FileReference

DEFAULT_PROVIDER: Final = HnProvider.id
READ_ONLY: Final = REPOSITORY


@dataclass(frozen=True, slots=True)
class Settings:
    """How a server runs.

    Attributes:
        path: where the repository is; None for the directory it is started in. `git_dir` as `--git-dir`.
        actor: act as this identity instead of the active one.
        state: URL of the state, None for SQLite beside the index.
        roots: `any` key may create a root, or only the `admin`'s.
        jobs: `observe` answers 202 and writes afterwards.
        types: types beyond those of the protocol and of hn-memory/0, as `types.read_types` gives them.
        consolidate: hours between consolidation runs that begin by themselves, 0 for none.
    """

    path: str | None = None
    git_dir: str | None = None
    actor: str | None = None
    state: str | None = None
    roots: str = "any"
    jobs: bool = False
    types: Sequence[dict[str, Any]] = ()
    consolidate: float = 0.0


class Server:
    """State and providers of one process."""

    def __init__(self, settings: Settings, store: Store, providers: dict[str, Provider]) -> None:
        self.settings = settings
        self.precedence = store.precedence
        self.store = store
        self.providers = providers
        self.ledger = Ledger(store)
        self.runs = Runs(store, self._keeper_of)
        self.jobs = Jobs(store, self._keeper_of)
        self.uploads = Uploads(store, lambda: self.providers[DEFAULT_PROVIDER])

    def close(self) -> None:
        """Close providers and state."""
        for provider in self.providers.values():
            provider.close()
        self.store.close()

    def authenticate(self, token: str) -> tuple[Caller, Key]:
        """The caller of a key, on the tree as it is now.

        Raises:
            UhpError `invalid_credential`.
        """
        tree = self.store.snapshot()
        key = tree.keys.get(digest_of(token))
        if key is None:
            raise UhpError("invalid_credential", "the key is unknown or was revoked")
        return Caller.of_key(tree, key), key

    def provider_of(self, node: Node) -> Provider:
        """Who keeps a memory's records.

        Raises:
            UhpError `memory_unavailable`: the provider is not connected.
        """
        provider = self.providers.get(node.provider)
        if provider is None:
            raise UhpError("memory_unavailable", "the memory's provider is not connected")
        return provider

    def _keeper_of(self, memory: str) -> Provider | None:
        node = self.store.snapshot().nodes.get(memory)
        return None if node is None else self.provider_of(node)

    def extent(self, node: Node) -> Extent:
        """How much a memory holds."""
        return self.provider_of(node).extent(node.id)

    def writable(self, provider: str) -> bool:
        """Does a provider keep memories that this server makes?"""
        return provider != READ_ONLY

    def look_around(self) -> None:
        """Bring the tree up to the streams that are written elsewhere."""
        provider = self.providers.get(READ_ONLY)
        if isinstance(provider, RepositoryProvider):
            places = provider.places()
            signer = self.providers.get(DEFAULT_PROVIDER)
            if isinstance(signer, HnProvider):
                signer.heed(provider.streams_of_actor())
            if places:
                try:
                    add_places(self.store, READ_ONLY, places)
                except UhpError:
                    provider.forget_places()
                    raise

    def file(self, caller: Caller, node: Node, file: str) -> FileReference:
        """The file that a caller names as the content of a record.

        Raises:
            UhpError `file_not_found`: it is no upload of the caller's; `memory_unsupported`: the memory's provider
                keeps no files.
        """
        if not self.provider_of(node).describe()["files"]:
            raise unsupported("this memory keeps no files")
        return self.uploads.of(caller.principal, file).reference

    def erase(self, caller: Caller, node: Node, records: Sequence[str]) -> Erased:
        """Take records out of every read, and their files' uploads with them."""
        provider = self.provider_of(node)
        files: set[str] = set()
        for record in records:
            with suppress(UhpError):
                files |= {
                    one.content.id
                    for one in provider.history(node.id, record)
                    if isinstance(one.content, FileReference)
                }
        self.uploads.forget(files)
        return provider.erase(node.id, records, caller.author)

    def challenge(self, node: Node, record: str, reason: str) -> dict[str, Any]:
        """Dispute a record that is written elsewhere.

        Raises:
            UhpError `memory_unsupported`: the memory is one of this server.
        """
        provider, signer = self.provider_of(node), self.providers.get(DEFAULT_PROVIDER)
        if not isinstance(provider, RepositoryProvider) or not isinstance(signer, HnProvider):
            raise unsupported("records of this memory are revised, not challenged")
        return signer.challenge(provider.memory_of(node.id, record), reason)

    def finish_drops(self) -> None:
        """Tell the providers which memories are deleted, those too that a killed process left."""
        table = schema.memory
        with self.store.reading() as connection:
            rows = connection.execute(
                select(table.c.id, table.c.provider).where(table.c.deleted.is_not(None), table.c.dropped.is_(False))
            ).all()
        for memory, provider in rows:
            if provider in self.providers:
                self.providers[provider].drop(memory)
                with self.store.writing() as connection:
                    connection.execute(update(table).where(table.c.id == memory).values(dropped=True))

    def check(self) -> None:
        """Do the state and the repository answer?

        Raises:
            UhpError `memory_unavailable`.
        """
        self.store.ping()
        for provider in self.providers.values():
            provider.extent("hmem_" + "0" * 32)


def open_server(settings: Settings) -> Server:
    """Open the repository and the state.

    Raises:
        HnError `repository-empty`: there is no commit that records could be anchored to.
        NotFoundError `identity-missing`, `not-a-repository`; HnError `state-...`.
    """
    services = [
        open_repository(settings.path, git_dir=settings.git_dir, actor=settings.actor)
        for _ in ("reader", "writer", "beside")
    ]
    reader, writer, beside = (service.environment for service in services)
    try:
        actor = reader.keyring.require_active().actor
        require_commit(services[0].environment.repository.resolve_commit)
        store = open_store(PrivateFiles(reader.repository.layout.common_dir), settings.state, actor)
    except BaseException:
        for service in services:
            service.close()
        raise
    provider = HnProvider(reader, writer, actor, store.precedence, announce_together)

    def own() -> set[str]:
        table = schema.memory.c
        with store.reading() as connection:
            ids = connection.execute(select(table.id).where(table.provider == provider.id)).scalars().all()
        return {provider.stream(memory) for memory in ids}

    external = RepositoryProvider(beside, actor, own)
    server = Server(settings, store, {provider.id: provider, external.id: external})
    server.look_around()
    return server


def require_commit(resolve: Any) -> None:
    """Records are anchored to HEAD, so there must be one.

    Raises:
        HnError `repository-empty`.
    """
    try:
        resolve("HEAD")
    except HnError:
        raise HnError(
            "repository-empty",
            "this repository has no commit yet, and records are anchored to one",
            hint="Commit something first.",
        ) from None


def open_state(settings: Settings) -> Store:
    """The state alone, for what needs no records: keys and groups."""
    with open_repository(settings.path, git_dir=settings.git_dir, actor=settings.actor, backend="git") as service:
        environment = service.environment
        actor = environment.keyring.require_active().actor
        return open_store(PrivateFiles(environment.repository.layout.common_dir), settings.state, actor)
