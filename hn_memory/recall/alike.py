"""Records that say nearly the same: groups of contents whose words are nearly the same set.

Two contents are alike when of all stems that occur in either at least `ALIKE` occur in both. Every such pair is
found, and few others are looked at: whatever is that much alike shares a stem among the rarest of both (prefix
filtering), and differs little in size.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from math import ceil

from hn_memory.index.words import Stemmer, words
from hn_memory.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


ALIKE: Final = 0.8
_BATCH: Final = 1024
_SHORT_OF_SAME: Final = 0.9999
"""The similarity of contents with the same words that are not the same."""


class Group(NamedTuple):
    """Keys of contents that are alike, each to at least one other; `similarity` is the least of those."""

    similarity: float
    keys: tuple[bytes, ...]


def alike(contents: Mapping[bytes, str], progress: Callable[[str, int, int], None] | None = None) -> list[Group]:
    """Groups of distinct contents, given by a key that orders them."""
    sets = _stem_sets(contents, progress)
    pairs = _pairs(sets)
    parent = {key: key for key in sets}

    def root(key: bytes) -> bytes:
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    for one, other, _ in pairs:
        a, b = sorted((root(one), root(other)))
        parent[b] = a
    members: dict[bytes, list[bytes]] = defaultdict(list)
    least: dict[bytes, float] = {}
    for key in sorted({key for one, other, _ in pairs for key in (one, other)}):
        members[root(key)].append(key)
    for one, _, similarity in pairs:
        least[root(one)] = min(least.get(root(one), 1.0), similarity)
    return [Group(least[top], tuple(keys)) for top, keys in members.items()]


def _stem_sets(
    contents: Mapping[bytes, str], progress: Callable[[str, int, int], None] | None
) -> dict[bytes, frozenset[str]]:
    stemmer = Stemmer()
    keys = sorted(contents)
    sets: dict[bytes, frozenset[str]] = {}
    for at in range(0, len(keys), _BATCH):
        found = {key: words(contents[key]) for key in keys[at : at + _BATCH]}
        known = stemmer.stems(word for said in found.values() for word in said)
        sets |= {key: frozenset(known[word] for word in said) for key, said in found.items()}
        if progress is not None:
            progress("words", min(at + _BATCH, len(keys)), len(keys))
    return {key: stems for key, stems in sets.items() if stems}


def _pairs(sets: Mapping[bytes, frozenset[str]]) -> list[tuple[bytes, bytes, float]]:
    counts = Counter(stem for stems in sets.values() for stem in stems)
    # The smaller sets first, so that a partner met before is no larger.
    order = sorted(sets, key=lambda key: (len(sets[key]), key))
    holders: dict[str, list[bytes]] = defaultdict(list)
    pairs: list[tuple[bytes, bytes, float]] = []
    for key in order:
        stems = sets[key]
        rare = _rarest(stems, counts)
        met = {other for stem in rare for other in holders[stem] if len(sets[other]) >= ALIKE * len(stems)}
        for other in sorted(met):
            shared = len(stems & sets[other])
            similarity = shared / (len(stems) + len(sets[other]) - shared)
            if similarity >= ALIKE:
                pairs.append((other, key, min(similarity, _SHORT_OF_SAME)))
        for stem in rare:
            holders[stem].append(key)
    return pairs


def _rarest(stems: frozenset[str], counts: Mapping[str, int]) -> Sequence[str]:
    """As many of the rarest stems as two sets that are alike cannot both do without."""
    ordered = sorted(stems, key=lambda stem: (counts[stem], stem))
    return ordered[: len(ordered) - ceil(ALIKE * len(ordered)) + 1]
