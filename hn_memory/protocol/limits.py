"""Every bound of hn-memory/0, once. Sizes are bytes of UTF-8 unless the name says otherwise."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


MEMORY_JSON_BYTES: Final = 524_288
SIGNATURE_BYTES: Final = 128
FILE_BYTES: Final = {"memory.json": MEMORY_JSON_BYTES, "signature": SIGNATURE_BYTES}
ACTOR_NAME_BYTES: Final = 256
CONTENT_BYTES: Final = 65_536
TOPICS: Final = 32
TOPIC_BYTES: Final = 128
EVIDENCE: Final = 64
PATHS: Final = 128
PATH_BYTES: Final = 4_096
PATHS_TOTAL_BYTES: Final = 65_536
HANDOFF_ENTRIES: Final = 64
HANDOFF_ENTRY_BYTES: Final = 4_096
HANDOFF_TOTAL_BYTES: Final = 65_536
REASON_BYTES: Final = 128
OUTCOME_BYTES: Final = 64
SEQUENCE_MAX: Final = 2**64 - 1
POLICY_BYTES: Final = 1_048_576
REQUEST_BYTES: Final = 1_048_576
SNAPSHOT_BYTES: Final = 268_435_456
REMOTE_NAME_CHARACTERS: Final = 128
ID_PREFIX_DIGITS: Final = 8

DEFAULT_MAX_RECORDS: Final = 20
DEFAULT_MAX_CONTENT_BYTES: Final = 65_536
