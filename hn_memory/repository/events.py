"""Which event IDs count as evidence (section 5), read out of the actor refs."""

from __future__ import annotations

from hn_memory.errors import HnError
from hn_memory.protocol.events import EVENT_FILE, verify_event
from hn_memory.protocol.identifiers import FILE_MODE, REMOTES_PREFIX, SIGNATURE_FILE, is_actor_id
from hn_memory.repository.base import Repository, parse_tree

_EVENTS_PREFIX = "refs/hn/actors/"


def accepted_events(repository: Repository) -> frozenset[str]:
    """The IDs of all verified events (section 5): every commit in the history of every actor ref."""
    found: set[str] = set()
    for ref in repository.refs(_EVENTS_PREFIX, REMOTES_PREFIX):
        parts = ref.name.split("/")
        local = ref.name.startswith(_EVENTS_PREFIX) and len(parts) == 4
        accepted = ref.name.startswith(REMOTES_PREFIX) and len(parts) == 6 and parts[4] == "actors"
        if ref.target is not None and (local or accepted) and is_actor_id(parts[-1]):
            found |= _events_of(repository, ref.target, parts[-1])
    return frozenset(found)


def _events_of(repository: Repository, tip: str, actor: str) -> set[str]:
    pending, seen, found = [tip], {tip}, set()
    trees: list[str] = []
    while pending:
        batch, pending = pending, []
        for _, kind, data in repository.read(batch):
            if kind != "commit":
                continue
            header = data.partition(b"\n\n")[0].decode(errors="replace").split("\n")
            trees += [line[5:] for line in header if line.startswith("tree ")][:1]
            for line in header:
                if line.startswith("parent ") and line[7:] not in seen:
                    seen.add(line[7:])
                    pending.append(line[7:])
    pairs: list[tuple[str, str]] = []
    for _, kind, data in repository.read(dict.fromkeys(trees)):
        if kind != "tree":
            continue
        try:
            files = {
                entry.name: entry.oid for entry in parse_tree(data, repository.oid_length) if entry.mode == FILE_MODE
            }
        except ValueError:
            continue
        event, signature = files.get(EVENT_FILE.encode()), files.get(SIGNATURE_FILE.encode())
        if event is not None and signature is not None:
            pairs.append((event, signature))
    blobs = {
        oid: data
        for oid, kind, data in repository.read(dict.fromkeys(oid for pair in pairs for oid in pair))
        if kind == "blob"
    }
    for event, signature in pairs:
        if event in blobs and signature in blobs:
            try:
                event_id = verify_event(blobs[event], blobs[signature], actor)
            except HnError:
                continue
            if event_id is not None:
                found.add(event_id)
    return found
