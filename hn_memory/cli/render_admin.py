"""What the commands about identities and policy say to people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hn_memory.cli.render_common import author, paint, short

_STATES: Final = {
    "present": "a memory section is in force",
    "no-memory-section": "the file has no memory section: nobody is trusted",
    "missing": "there is no policy file: nobody is trusted",
}


def initialised(document: Mapping[str, Any]) -> str:
    """After `hn init`."""
    return "\n".join([identity_made(document), *(f"hint: {hint}" for hint in document["hints"])])


def identity_made(document: Mapping[str, Any]) -> str:
    """After `hn identity new`."""
    identity = document["identity"]
    lines = [f"made identity {paint(identity['actor'], 'id')} | {author(identity['name'])}"]
    if not identity["active"]:
        lines.append(f"another one signs here; `hn identity use {identity['actor']}` changes that")
    return "\n".join(lines)


def identity_imported(document: Mapping[str, Any]) -> str:
    """After `hn identity import`."""
    return identity_made(document).replace("made", "took over", 1)


def identity_used(document: Mapping[str, Any]) -> str:
    """After `hn identity use`."""
    identity = document["identity"]
    return f"{paint(identity['actor'], 'id')} signs from now on | {author(identity['name'])}"


def identities_listed(document: Mapping[str, Any]) -> str:
    """One line each; none is no error, and no line."""
    return "\n".join(
        f"{'*' if identity['active'] else ' '} {paint(identity['actor'], 'id')} | {author(identity['name'])}"
        for identity in document["identities"]
    )


def identity_public(document: Mapping[str, Any]) -> str:
    """What to hand to others."""
    identity = document["identity"]
    return "\n".join(
        [
            f"actor {paint(identity['actor'], 'id')}",
            f"publicKey {identity['publicKey']}",
            f"name {author(identity['name'])}",
        ]
    )


def identity_shown(document: Mapping[str, Any]) -> str:
    """The same, and whether it signs here."""
    active = "signs here" if document["identity"]["active"] else "does not sign here at present"
    return f"{identity_public(document)}\n{active}"


def policy_shown(document: Mapping[str, Any]) -> str:
    """The policy at a commit; names are of identities in this clone."""
    lines = [f"policy at {short(document['commit'])}: {_STATES[document['state']]}", f"  digest {document['digest']}"]
    for actor in document["trustedActors"]:
        name = document["names"].get(actor)
        lines.append(f"  actor {paint(actor, 'id')}" + (f" | {author(name)}" if name else ""))
    if document["trustedKinds"]:
        lines.append(f"  kinds {', '.join(document['trustedKinds'])}")
    return "\n".join(lines)


def policy_checked(document: Mapping[str, Any]) -> str:
    """A file that holds; one that does not is an error."""
    source = "the work tree" if document["source"] == "work-tree" else short(document["source"])
    return f"policy of {source} is {paint('valid', 'good')}: {_STATES[document['state']]}"


def policy_edited(document: Mapping[str, Any]) -> str:
    """After `trust` and `untrust`."""
    done = "wrote" if document["changed"] else "nothing to change in"
    lines = [f"{done} {document['path']}; it {document['notice']}"]
    lines += [f"  actor {paint(actor, 'id')}" for actor in document["trustedActors"]]
    if document["trustedKinds"]:
        lines.append(f"  kinds {', '.join(document['trustedKinds'])}")
    return "\n".join(lines)
