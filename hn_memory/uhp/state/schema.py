"""The tables. Times are Unix milliseconds; privileges are sums of `BITS`; documents are JSON texts.

`epoch` has one row: it grows with every change of the tree, grants, groups or keys, and whoever changes those locks
it first. So a process knows by one number whether what it remembers still holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from hn_memory.uhp.values import PRIVILEGES

SCHEMA_VERSION: Final = 1

BITS: Final = {name: 1 << at for at, name in enumerate(PRIVILEGES)}
READ, WRITE, CREATE, DELETE = BITS.values()
ALL: Final = sum(BITS.values())

metadata: Final = MetaData()

epoch: Final = Table("epoch", metadata, Column("id", Integer, primary_key=True), Column("number", BigInteger))

setting: Final = Table(
    "setting", metadata, Column("name", String(64), primary_key=True), Column("value", Text, nullable=False)
)

memory: Final = Table(
    "memory",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("parent_id", String(64)),
    Column("restricted", Boolean, nullable=False),
    Column("provider", String(64), nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("updated", BigInteger, nullable=False),
    # A deleted memory is remembered, so that its records are never taken for somebody else's.
    Column("deleted", BigInteger),
    Column("dropped", Boolean, nullable=False, default=False),
)

grant: Final = Table(
    "access_grant",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("memory_id", String(64), nullable=False, index=True),
    Column("principal", String(160), nullable=False),
    Column("privileges", Integer, nullable=False),
    Column("created", BigInteger, nullable=False),
    UniqueConstraint("memory_id", "principal"),
)

member: Final = Table(
    "group_member",
    metadata,
    Column("group_id", String(160), primary_key=True),
    Column("principal", String(160), primary_key=True),
)

key: Final = Table(
    "api_key",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("digest", LargeBinary(32), nullable=False, unique=True),
    Column("principal", String(160), nullable=False),
    Column("privileges", Integer, nullable=False),
    Column("administrator", Boolean, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("revoked", BigInteger),
)

harness: Final = Table(
    "harness",
    metadata,
    Column("id", String(160), primary_key=True),
    Column("owner", String(160), nullable=False),
)

attachment: Final = Table(
    "attachment",
    metadata,
    Column("harness_id", String(160), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("memory_id", String(64), nullable=False),
    Column("access", String(16), nullable=False),
    Column("is_default", Boolean, nullable=False),
)

idempotency: Final = Table(
    "idempotency",
    metadata,
    Column("principal", String(160), primary_key=True),
    Column("name", String(256), primary_key=True),
    Column("request", LargeBinary(32), nullable=False),
    Column("created", BigInteger, nullable=False),
    # Who runs it, while it runs; its answer, once there is one.
    Column("owner", String(160)),
    Column("memory_id", String(64)),
    Column("token", Text),
    Column("status", Integer),
    Column("answer", LargeBinary),
    Index("idempotency_created", "created"),
)

job: Final = Table(
    "job",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("memory_id", String(64), nullable=False, index=True),
    Column("status", String(16), nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("owner", String(160)),
    Column("token", Text),
    Column("request", Text, nullable=False),
    Column("error", Text),
    Column("records", Text),
)

query: Final = Table(
    "named_query",
    metadata,
    Column("memory_id", String(64), primary_key=True),
    Column("name", String(128), primary_key=True),
    Column("document", Text, nullable=False),
    Column("updated", BigInteger, nullable=False),
)

snapshot: Final = Table(
    "named_instant",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("memory_id", String(64), nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("at", String(40), nullable=False),
)

run: Final = Table(
    "consolidation",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("memory_id", String(64), nullable=False, index=True),
    Column("started", BigInteger, nullable=False),
    Column("status", String(16), nullable=False),
    Column("owner", String(160)),
    Column("document", Text, nullable=False),
    Column("changes", Text, nullable=False),
)

file: Final = Table(
    "file",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("owner", String(160), nullable=False),
    Column("name", Text, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("version", String(80), nullable=False),
    Column("created", BigInteger, nullable=False),
)


def mask_of(privileges: Iterable[str]) -> int:
    """The sum of privileges by name; an unknown name is a `KeyError`."""
    mask = 0
    for name in privileges:
        mask |= BITS[name]
    return mask


def names_of(mask: int) -> list[str]:
    """The names in a sum of privileges, in the chapter's order."""
    return [name for name, bit in BITS.items() if mask & bit]
