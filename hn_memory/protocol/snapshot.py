"""The `index-v0.json` snapshot (section 9): written byte for byte alike, read strictly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from hn_memory.errors import HnError
from hn_memory.protocol import limits
from hn_memory.protocol.canonical import encode_indented
from hn_memory.protocol.record import searched_fields
from hn_memory.protocol.strictjson import Reader, loads
from hn_memory.protocol.unicode import terms
from hn_memory.values import NamedTuple

SNAPSHOT_VERSION: Final = 0


class Snapshot(NamedTuple):
    """What a snapshot says: the fingerprint of its sources, its rows and its terms."""

    source_fingerprint: str
    records: list[dict[str, Any]]
    tokens: list[dict[str, Any]]


def build_snapshot(source_fingerprint: str, rows: Iterable[Mapping[str, Any]]) -> Snapshot:
    """A snapshot of projected row documents (shape of section 7)."""
    records = sorted((dict(row) for row in rows), key=lambda row: str(row["id"]))
    postings: defaultdict[str, list[str]] = defaultdict(list)
    for row in records:
        # A blank parts terms. The rows are sorted, and so is each list.
        for term in dict.fromkeys(terms(" ".join(searched_fields(row["data"])))):
            postings[term].append(row["id"])
    tokens = [{"token": term, "memoryIds": postings[term]} for term in sorted(postings)]
    return Snapshot(source_fingerprint, records, tokens)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """The file's bytes.

    Raises:
        HnError `snapshot-too-large`.
    """
    data = encode_indented(
        {
            "version": SNAPSHOT_VERSION,
            "sourceFingerprint": snapshot.source_fingerprint,
            "records": snapshot.records,
            "tokens": snapshot.tokens,
        }
    )
    if len(data) > limits.SNAPSHOT_BYTES:
        raise HnError(
            "snapshot-too-large",
            f"the snapshot would have {len(data)} bytes, at most {limits.SNAPSHOT_BYTES} are allowed",
            hint="The snapshot is for other tools; recall does not need it.",
        )
    return data


def decode_snapshot(data: bytes) -> Snapshot:
    """The snapshot in a file's bytes.

    Raises:
        HnError `index-corrupt`: not the shape of a snapshot, or not as we would write it.
        HnError `index-incompatible`: another version.
    """
    if len(data) > limits.SNAPSHOT_BYTES:
        raise HnError("index-corrupt", f"the snapshot has more than {limits.SNAPSHOT_BYTES} bytes")
    value = loads(data, "index-corrupt", "the snapshot", usage=False)
    reader = Reader("index-corrupt", usage=False)
    if isinstance(value, dict) and type(value.get("version")) is int and value["version"] != SNAPSHOT_VERSION:
        raise HnError("index-incompatible", f"the snapshot has version {value['version']}, not {SNAPSHOT_VERSION}")
    fields = reader.object(value, "", ("version", "sourceFingerprint", "records", "tokens"))
    if reader.integer(fields["version"], "version") != SNAPSHOT_VERSION:
        reader.fail("version must be 0", "version")
    for name in ("records", "tokens"):
        if not isinstance(fields[name], list) or not all(isinstance(item, dict) for item in fields[name]):
            reader.fail(f"{name} must be a list of objects", name)
    snapshot = Snapshot(
        reader.text(fields["sourceFingerprint"], "sourceFingerprint"), fields["records"], fields["tokens"]
    )
    if encode_snapshot(snapshot) != data:
        raise HnError("index-corrupt", "the snapshot is not in the form it is written in")
    return snapshot
