"""What a fresh clone may not know yet: that a remote has memories. From what is known locally, without network."""

from __future__ import annotations

from collections.abc import Collection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


_SHOWN: Final = 3


def sync_hints(common: str, sources: Collection[str], *, empty: bool) -> list[str]:
    """Hints about remotes whose streams are not here.

    Args:
        sources: names of the memory refs here.
        empty: nothing was found, so even a remote that was never asked is worth a word.
    """
    names = configured_remotes(common)
    if not names:
        return []
    return [hint for name in names[:_SHOWN] if (hint := _hint(common, name, sources, empty)) is not None]


def configured_remotes(common: str) -> list[str]:
    """Names of the remotes in the repository's own configuration file, without asking Git."""
    try:
        with open(f"{common}/config", "rb") as file:  # noqa: PTH123 - pathlib is not free
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    names: list[str] = []
    for line in text.split("\n"):
        head = line.strip()
        if head.startswith('[remote "') and head.endswith('"]'):
            names.append(head[9:-2])
    return sorted(set(names))


def _hint(common: str, name: str, sources: Collection[str], empty: bool) -> str | None:
    from hn_memory.errors import HnError
    from hn_memory.protocol.identifiers import accepted_ref, is_remote_name, local_ref
    from hn_memory.replication.offers import known_offers
    from hn_memory.replication.selection import load_selection
    from hn_memory.repository.private import PrivateFiles

    if not is_remote_name(name):
        return None
    files = PrivateFiles(common)
    offers = known_offers(files, name)
    if offers is None:
        if not empty:
            return None
        return f"{name} was never asked for memories; `hn replication discover {name}` asks, `hn sync {name}` fetches"
    absent = [key for key in offers if accepted_ref(name, *key) not in sources and local_ref(*key) not in sources]
    if not absent:
        return None
    try:
        selection = load_selection(files, name)
    except HnError:
        return None
    streams = f"{len(absent)} stream{'s' if len(absent) > 1 else ''}"
    if selection is None:
        return f"{name} offers {streams} that nobody selected; `hn sync {name}` takes all, `hn help sync` says more"
    if empty and any(not selection.takes(stream) for _, stream in absent):
        return f"{name} offers {streams} that are not here; `hn replication discover {name}` lists them"
    return None
