"""The use cases of identities: make one, choose one, show them, take one over from another clone.

Documents hold what may be shown of an identity and never a private key. `active` says who signs in this call:
the actor that was chosen for it (HN_ACTOR) or else the one in `hn/active`.
"""

from __future__ import annotations

from pathlib import Path

from hn_memory.errors import HnError, UsageError
from hn_memory.protocol.identifiers import LOCAL_PREFIX, REMOTES_PREFIX
from hn_memory.protocol.identity import Identity, public_document
from hn_memory.protocol.unicode import trim
from hn_memory.repository.keyring import ACTIVE
from hn_memory.service.environment import Environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final


_PUBLIC: Final = ("actor", "name", "publicKey")


def init(environment: Environment, name: str | None = None) -> dict[str, Any]:
    """Make the first identity of this clone. Without a name, Git's `user.name` gives it.

    Raises:
        HnError `identity-exists`: there is one already; the message names it.
        UsageError `name-missing`: no name was given and `user.name` is not set.
        HnError `identity-invalid`: the name breaks the rules of `actorName`.
    """
    existing = environment.keyring.list()
    if existing:
        active = _signer(environment)
        found = next((identity for identity in existing if identity.actor == active), existing[0])
        raise HnError(
            "identity-exists",
            f"this clone has an identity: {found.name} ({found.actor})",
            hint="`hn identity new NAME` makes a further one.",
        )
    if name is None:
        name = trim(environment.repository.config("user.name") or "")
        if not name:
            raise UsageError(
                "name-missing",
                "no name was given and Git has no user.name",
                hint="Give one: `hn init --name NAME`.",
                field="name",
            )
    identity = environment.keyring.create(name)
    return _document(environment, identity) | {"hints": _hints(environment, identity)}


def new(environment: Environment, name: str) -> dict[str, Any]:
    """Make a further identity; it is used when it is the first.

    Raises:
        HnError `identity-invalid`: the name breaks the rules of `actorName`.
    """
    return _document(environment, environment.keyring.create(name))


def listing(environment: Environment) -> dict[str, Any]:
    """All identities of this clone, sorted by actor."""
    active = _signer(environment)
    identities = [_public(identity, active) for identity in environment.keyring.list()]
    return {"version": 0, "active": active, "identities": identities}


def show(environment: Environment, actor: str | None = None) -> dict[str, Any]:
    """One identity, by default the one that signs.

    Raises:
        NotFoundError `identity-missing`: no actor was given and none is active.
        NotFoundError `identity-unknown`; UsageError `actor-invalid`.
    """
    keyring = environment.keyring
    return _document(environment, keyring.require_active() if actor is None else keyring.get(actor))


def use(environment: Environment, actor: str) -> dict[str, Any]:
    """Use another identity from now on.

    Raises:
        NotFoundError `identity-unknown`; UsageError `actor-invalid`.
    """
    keyring = environment.keyring
    identity = keyring.use(actor)
    if keyring.override not in (None, actor):
        environment.notices.append(f"commands sign as {keyring.override} as long as that actor is chosen (HN_ACTOR)")
    return _document(environment, identity)


def take(environment: Environment, source: Path, actor: str | None = None) -> dict[str, Any]:
    """Take over an identity from an identity file or another repository.

    Raises:
        What `Keyring.import_from` raises.
    """
    return _document(environment, environment.keyring.import_from(source, actor))


# -- inside -----------------------------------------------------------------------------------------------


def _signer(environment: Environment) -> str | None:
    """Who signs, whether or not the identity is here; a broken `hn/active` names nobody, and is told."""
    keyring = environment.keyring
    if keyring.override is not None:
        return keyring.override
    try:
        return keyring.active_actor()
    except HnError as error:
        if error.field != ACTIVE:
            raise
        # Whoever is to choose anew must be able to see among whom.
        environment.notices.append(f"{error.message}; {error.hint}" if error.hint else error.message)
        return None


def _document(environment: Environment, identity: Identity) -> dict[str, Any]:
    return {"version": 0, "identity": _public(identity, _signer(environment))}


def _public(identity: Identity, active: str | None) -> dict[str, Any]:
    fields = public_document(identity)
    return {name: fields[name] for name in _PUBLIC} | {"active": identity.actor == active}


def _hints(environment: Environment, identity: Identity) -> list[str]:
    """What else it takes before a record comes back."""
    from hn_memory.replication.hints import sync_hints

    repository = environment.repository
    sources = {ref.name for ref in repository.refs(LOCAL_PREFIX, REMOTES_PREFIX)}
    where = "" if environment.repository.layout.work_tree is not None else "in a clone with a work tree, "
    return [
        "recall returns only what the committed policy trusts: "
        f"{where}run `hn policy trust {identity.actor}` and commit .hn/policy.json",
        *sync_hints(repository.layout.common, sources, empty=not sources),
    ]
