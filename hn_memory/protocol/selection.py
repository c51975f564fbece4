"""What a clone takes from a remote: the saved selection and its budgets (replication, "Selection").

Pure: bytes in, a `Selection` or an error out. A selection authorizes transport and nothing else; whom to trust
is said by the policy. `actors` and `proposals` belong to other namespaces: always empty from us, kept if there.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, Final

from hn_memory.errors import UsageError
from hn_memory.protocol.canonical import encode_indented
from hn_memory.protocol.identifiers import is_digest, is_remote_name
from hn_memory.protocol.strictjson import Reader, loads
from hn_memory.values import NamedTuple

SELECTION_VERSION: Final = 1
SELECTION_BYTES: Final = 64 * 1024 * 1024

_CODE: Final = "selection-invalid"
_REQUIRED: Final = ("version", "remote", "actors", "proposals", "all", "budgets")


class Budgets(NamedTuple):
    """Bounds of what one stream may bring beyond its accepted head; positive and inclusive."""

    max_events: int = 10_000
    max_objects: int = 100_000
    max_object_bytes: int = 67_108_864
    max_attachment_bytes: int = 16_777_216
    max_total_bytes: int = 1_073_741_824


BUDGET_FIELDS: Final[Mapping[str, str]] = {
    "maxEvents": "max_events",
    "maxObjects": "max_objects",
    "maxObjectBytes": "max_object_bytes",
    "maxAttachmentBytes": "max_attachment_bytes",
    "maxTotalBytes": "max_total_bytes",
}


class Selection(NamedTuple):
    """What one remote may bring. `memories` are full stream IDs, sorted; None where none are named."""

    remote: str
    all: bool
    memories: tuple[str, ...] | None
    budgets: Budgets = Budgets()
    actors: tuple[str, ...] = ()
    proposals: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Are streams named one by one?"""
        return not self.all

    def takes(self, stream: str) -> bool:
        """May this stream come from the remote?"""
        return self.all or (self.memories is not None and stream in self.memories)


def default_selection(remote: str) -> Selection:
    """What a sync takes where nothing is saved: everything, under the default budgets."""
    return Selection(remote, True, None)


def selection_file(remote: str) -> str:
    """The name of a remote's selection file."""
    return urlsafe_b64encode(remote.encode()).decode("ascii").rstrip("=") + ".json"


def check_remote(remote: str) -> str:
    """A remote name or `UsageError remote-invalid`."""
    if is_remote_name(remote):
        return remote
    raise UsageError(
        "remote-invalid",
        "a remote name is letters, digits, `-`, `_` and `.`, and starts with a letter, digit or `_`",
        hint="`git remote` lists the remotes; `git remote rename` gives one another name.",
        field="remote",
    )


def make_selection(
    remote: str, streams: tuple[str, ...], *, everything: bool, budgets: Mapping[str, int | None]
) -> Selection:
    """A selection as a person asks for it. `budgets` are fields of `Budgets`; None leaves the default.

    Raises:
        UsageError `selection-conflict`, `selection-empty`, `id-invalid`, `budget-invalid`, `remote-invalid`.
    """
    check_remote(remote)
    if everything and streams:
        raise UsageError("selection-conflict", "--all takes every stream and excludes --memory", field="all")
    if not everything and not streams:
        raise UsageError(
            "selection-empty",
            "an exact selection names at least one stream",
            hint=f"`hn replication discover {remote}` lists what the remote offers; --all takes everything.",
            field="memory",
        )
    for stream in streams:
        if not is_digest(stream):
            raise UsageError(
                "id-invalid",
                "a stream must be sha256: and 64 lower-case hex digits",
                hint=f"`hn replication discover {remote}` prints full IDs.",
                field="memory",
            )
    given = {name: value for name, value in budgets.items() if value is not None}
    for name, value in given.items():
        if value < 1:
            raise UsageError("budget-invalid", f"{_json_name(name)} must be positive", field=_json_name(name))
    chosen = None if everything else tuple(sorted(set(streams)))
    return Selection(remote, everything, chosen, Budgets(**given))


def encode_selection(selection: Selection) -> bytes:
    """The exact bytes of a selection file."""
    return encode_indented(selection_document(selection))


def selection_document(selection: Selection) -> dict[str, Any]:
    """The JSON value of a selection."""
    document: dict[str, Any] = {
        "version": SELECTION_VERSION,
        "remote": selection.remote,
        "actors": list(selection.actors),
        "proposals": list(selection.proposals),
    }
    if selection.memories is not None:
        document["memories"] = list(selection.memories)
    return document | {"all": selection.all, "budgets": budgets_document(selection.budgets)}


def budgets_document(budgets: Budgets) -> dict[str, int]:
    """The JSON value of budgets."""
    return {name: getattr(budgets, field) for name, field in BUDGET_FIELDS.items()}


def decode_selection(data: bytes, remote: str) -> Selection:
    """Read the selection file of a remote.

    Raises:
        HnError `selection-invalid`: the message and `field` say what is wrong.
    """
    reader = Reader(_CODE, usage=False)
    value = loads(data, _CODE, "selection file", usage=False)
    fields = reader.object(value, "", _REQUIRED, ("memories",))
    if reader.integer(fields["version"], "version") != SELECTION_VERSION:
        reader.fail(f"version is not {SELECTION_VERSION}", "version")
    if fields["remote"] != remote:
        reader.fail("remote is not the one the file is named after", "remote")
    everything = fields["all"]
    if not isinstance(everything, bool):
        reader.fail("all must be true or false", "all")
    actors = tuple(reader.texts(fields["actors"], "actors"))
    proposals = tuple(reader.texts(fields["proposals"], "proposals"))
    memories = tuple(reader.texts(fields["memories"], "memories")) if "memories" in fields else None
    if everything and memories is not None:
        reader.fail("memories cannot stand beside all", "memories")
    for at, stream in enumerate(memories or ()):
        if not is_digest(stream):
            reader.fail("a stream is sha256: and 64 lower-case hex digits", f"memories[{at}]")
    if memories is not None and list(memories) != sorted(set(memories)):
        reader.fail("memories must be sorted and unique", "memories")
    if not everything and not (memories or actors or proposals):
        reader.fail("an exact selection is never empty", "memories")
    return Selection(remote, everything, memories, _decode_budgets(reader, fields["budgets"]), actors, proposals)


def _decode_budgets(reader: Reader, value: Any) -> Budgets:
    fields = reader.object(value, "budgets", (), tuple(BUDGET_FIELDS))
    found: dict[str, int] = {}
    for name, number in fields.items():
        found[BUDGET_FIELDS[name]] = reader.integer(number, f"budgets.{name}")
        if number < 1:
            reader.fail(f"budgets.{name} must be positive", f"budgets.{name}")
    return Budgets(**found)


def _json_name(field: str) -> str:
    return next(name for name, own in BUDGET_FIELDS.items() if own == field)
