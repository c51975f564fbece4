"""The identities of one repository (section 10): `hn/identities/<actor>.json` and `hn/active`.

The rules:

1. a file in `hn/identities` is named after its actor and decodes as `protocol.identity` demands;
2. an identity is written once: the same content again is no change, other content is refused;
3. `hn/active` is one actor ID and a newline; the first identity of a repository becomes the active one,
   after that only `use` changes it;
4. an override (the caller's, for one command) goes before `hn/active` and never changes it.

Only full actor IDs are accepted, since with them goes who signs.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from hn_memory.errors import ConflictError, HnError, NotFoundError, UsageError
from hn_memory.protocol.identifiers import is_actor_id, require_actor
from hn_memory.protocol.identity import (
    IDENTITY_BYTES,
    Identity,
    decode_identity,
    encode_identity,
    new_identity,
)
from hn_memory.protocol.signing import KEY_BYTES
from hn_memory.repository.private import PrivateFiles, read_outside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, NoReturn


IDENTITIES: Final = "identities"
ACTIVE: Final = "active"
_SUFFIX: Final = ".json"
_ACTIVE_BYTES: Final = 65
_POINTER_BYTES: Final = 65_536


class Keyring:
    """Reads and writes the identities below one Git common directory.

    Args:
        common_dir: the Git common directory; linked work trees of one repository share their identities.
        override: the actor to act as instead of the active one.

    Error codes of all methods, beside those of `PrivateFiles`:
        `identity-invalid`: a file breaks a rule; the message names the file and the field.
        `identity-unknown` (`NotFoundError`): no identity of that actor is here.
        `actor-invalid` (`UsageError`): not a full actor ID.
    """

    __slots__ = ("_files", "override")

    def __init__(self, common_dir: Path, override: str | None = None) -> None:
        self._files = PrivateFiles(common_dir)
        self.override = override

    def list(self) -> list[Identity]:
        """All identities, sorted by actor. One invalid file is an error that names it."""
        identities: list[Identity] = []
        for name in self._files.names(IDENTITIES):
            actor = name.removesuffix(_SUFFIX)
            if not name.endswith(_SUFFIX) or not is_actor_id(actor):
                # Quoted and cut: a file name is text of unknown origin.
                raise HnError(
                    "identity-invalid",
                    f"hn/{IDENTITIES} holds {name[:80]!a}, which is not named after an actor",
                    hint="Move it out of the directory if it is not an identity.",
                )
            identities.append(self._load(actor))
        return identities

    def get(self, actor: str) -> Identity:
        """The identity of one actor, by its full ID."""
        require_actor(actor, "actor")
        try:
            return self._load(actor)
        except NotFoundError:
            raise NotFoundError(
                "identity-unknown",
                f"no identity of actor {actor} is in this repository",
                hint="`hn identity list` shows those that are.",
                field="actor",
            ) from None

    def active(self) -> Identity | None:
        """Who signs here: the override, else the actor that `hn/active` names, else None.

        Raises:
            NotFoundError `identity-unknown`: the actor that is named has no identity here.
        """
        actor = self.override if self.override is not None else self.active_actor()
        return None if actor is None else self.get(actor)

    def active_actor(self) -> str | None:
        """The actor in `hn/active`, whether or not its identity is here; the override plays no part."""
        try:
            data = self._files.read(ACTIVE, _ACTIVE_BYTES)
        except NotFoundError:
            return None
        actor = data.decode("ascii", "replace").removesuffix("\n")
        if len(data) != _ACTIVE_BYTES or not is_actor_id(actor):
            raise HnError(
                "identity-invalid",
                f"hn/{ACTIVE} is not one actor ID and a newline",
                hint="`hn identity use ACTOR` writes it anew.",
                field=ACTIVE,
            )
        return actor

    def require_active(self) -> Identity:
        """As `active`, for callers that must sign.

        Raises:
            NotFoundError `identity-missing`: nobody is active.
        """
        identity = self.active()
        if identity is None:
            raise NotFoundError(
                "identity-missing",
                "no identity is active in this repository",
                hint="`hn init` makes one; `hn identity use ACTOR` chooses one.",
            )
        return identity

    def use(self, actor: str) -> Identity:
        """Make an identity of this repository the active one."""
        identity = self.get(actor)
        self._files.write(ACTIVE, _active_bytes(actor))
        return identity

    def create(self, name: str) -> Identity:
        """A new identity with a key from the system's random source."""
        return self.add(new_identity(name, os.urandom(KEY_BYTES)))

    def add(self, identity: Identity) -> Identity:
        """Store an identity; it becomes active when no other is.

        Raises:
            ConflictError `identity-exists`: the actor is here with other content (another name).
        """
        try:
            self._files.create(_file(identity.actor), encode_identity(identity))
        except ConflictError:
            if self._load(identity.actor) != identity:
                raise ConflictError(
                    "identity-exists",
                    f"an identity of actor {identity.actor} is here under another name",
                    hint="An identity is never overwritten. Use the one that is here.",
                    field="name",
                ) from None
        # Of two first identities at once, one becomes active; the other must not take its place.
        with suppress(ConflictError):
            self._files.create(ACTIVE, _active_bytes(identity.actor))
        return identity

    def import_from(self, source: Path, actor: str | None = None) -> Identity:
        """Take over one identity: one person with many clones is one actor.

        Args:
            source: an identity file (owner-only, like every private file), a repository's work tree, or a
                Git directory.
            actor: which identity of a repository to take. Left out: its active one, or its only one.

        Raises:
            NotFoundError `import-source-missing`: nothing is there, or it is no repository, or has none.
            UsageError `import-source-ambiguous`: several identities and none of them active.
        """
        if actor is not None:
            require_actor(actor, "actor")
        if not source.is_dir():
            return self.add(_read_file(source, actor))
        common_dir = _common_dir(source)
        if common_dir is None:
            _no_source("is neither an identity file nor a Git repository")
        if common_dir.resolve() == self._files.common_dir.resolve():
            raise UsageError("import-source-same", "that is this very repository", field="source")
        return self.add(_choose(Keyring(common_dir), actor))

    def _load(self, actor: str) -> Identity:
        data = self._files.read(_file(actor), IDENTITY_BYTES)
        return _decode(data, f"hn/{_file(actor)}", actor)


def _choose(ring: Keyring, actor: str | None) -> Identity:
    if actor is not None:
        return ring.get(actor)
    identity = ring.active()
    if identity is not None:
        return identity
    identities = ring.list()
    if not identities:
        _no_source("holds no identity")
    if len(identities) > 1:
        raise UsageError(
            "import-source-ambiguous",
            f"the source holds {len(identities)} identities and none of them is active",
            hint="Name the actor to import, or the identity file.",
            field="source",
        )
    return identities[0]


def _read_file(source: Path, actor: str | None) -> Identity:
    try:
        data = read_outside(source, IDENTITY_BYTES)
    except NotFoundError:
        _no_source("does not exist")
    return _decode(data, "the source", actor)


def _decode(data: bytes, where: str, actor: str | None) -> Identity:
    """Decode, with the place of the file in every refusal, and hold it to the actor that was asked for."""
    try:
        identity = decode_identity(data)
    except HnError as error:
        raise HnError(error.code, f"{where}: {error.message}", hint=error.hint, field=error.field) from None
    if actor is not None and identity.actor != actor:
        raise HnError("identity-invalid", f"{where}: actor is not the one it is named after", field="actor")
    return identity


def _common_dir(source: Path) -> Path | None:
    """The Git common directory of a work tree or a Git directory, by the files Git itself goes by.

    No Git runs here: the settings of a repository that is merely read must not be able to start anything.
    """
    dot_git = source / ".git"
    git_dir = source
    if dot_git.is_dir():
        git_dir = dot_git
    elif dot_git.is_file():
        pointer = _pointer(dot_git)
        if pointer is None or not pointer.startswith("gitdir: "):
            return None
        git_dir = source / pointer.removeprefix("gitdir: ")
    common = _pointer(git_dir / "commondir")
    common_dir = git_dir if common is None else git_dir / common
    return common_dir if (common_dir / "objects").is_dir() and (git_dir / "HEAD").is_file() else None


def _pointer(path: Path) -> str | None:
    """The one line of a small file, None when it is not there."""
    try:
        with path.open("rb") as file:
            return os.fsdecode(file.read(_POINTER_BYTES).removesuffix(b"\n"))
    except OSError:
        return None


def _file(actor: str) -> str:
    return f"{IDENTITIES}/{actor}{_SUFFIX}"


def _active_bytes(actor: str) -> bytes:
    return f"{actor}\n".encode("ascii")


def _no_source(why: str) -> NoReturn:
    raise NotFoundError("import-source-missing", f"the source {why}", field="source") from None
