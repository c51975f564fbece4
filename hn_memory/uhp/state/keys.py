"""Who may call: API keys, the groups of principals, and the names both go by.

A principal is `<kind>:<id>`; the kinds are `harness`, `credential`, `person` and `group`. A key speaks for one
principal and never does more than the privileges it was made with, whatever its principal is granted. Of a key only
the SHA-256 digest is kept: it is 256 bits of chance, so nothing slower is needed.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from hn_memory.errors import NotFoundError, UsageError
from hn_memory.uhp.state import schema
from hn_memory.uhp.state.schema import ALL, mask_of, names_of
from hn_memory.uhp.state.store import Store
from hn_memory.uhp.values import PRINCIPAL_KINDS, PRIVILEGES

ADMINISTRATOR: Final = "credential:administrator"
PREFIX: Final = "hnk_"

_PRINCIPAL: Final = re.compile(rf"(?:{'|'.join(PRINCIPAL_KINDS)}):[A-Za-z0-9][A-Za-z0-9._@+=~-]{{0,127}}")
_KEY_BYTES: Final = 32


def new_id(prefix: str) -> str:
    """A random id: the prefix and 32 hexadecimal digits."""
    return prefix + secrets.token_hex(16)


def now_ms() -> int:
    """Unix milliseconds."""
    return time.time_ns() // 1_000_000


def is_principal(text: str) -> bool:
    """Does a text have the form `<kind>:<id>`?"""
    return _PRINCIPAL.fullmatch(text) is not None


def digest_of(token: str) -> bytes:
    """What is kept of a key."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def create_key(
    store: Store, principal: str, privileges: Sequence[str] = PRIVILEGES, *, administrator: bool = False
) -> dict[str, Any]:
    """Make a key. Its text is in the answer and nowhere else.

    Raises:
        UsageError `principal-invalid`, `privilege-unknown`.
    """
    _require_principal(principal)
    if principal.startswith("group:"):
        raise UsageError("principal-invalid", "a group has members and no key of its own", field="principal")
    unknown = [name for name in privileges if name not in PRIVILEGES]
    if unknown or not privileges:
        raise UsageError("privilege-unknown", f"privileges are some of {', '.join(PRIVILEGES)}", field="privileges")
    token = PREFIX + secrets.token_urlsafe(_KEY_BYTES)
    key = new_id("hkey_")
    with store.changing() as (connection, _):
        connection.execute(
            insert(schema.key).values(
                id=key,
                digest=digest_of(token),
                principal=principal,
                privileges=mask_of(privileges),
                administrator=administrator,
                created=now_ms(),
            )
        )
    return {
        "version": 0,
        "id": key,
        "key": token,
        "principal": principal,
        "privileges": names_of(mask_of(privileges)),
        "administrator": administrator,
    }


def first_key(store: Store) -> str | None:
    """The administrator's key, made when the state has never had one; its text, this once."""
    with store.reading() as connection:
        if connection.execute(select(schema.key.c.id).where(schema.key.c.administrator)).first() is not None:
            return None
        mark = connection.execute(
            select(schema.setting.c.value).where(schema.setting.c.name == "administrator")
        ).scalar()
    if mark is not None:
        return None
    try:
        with store.writing() as connection:
            # Of several processes that start at once, the one that writes this makes the key.
            connection.execute(insert(schema.setting).values(name="administrator", value="made"))
    except IntegrityError:
        return None
    made: str = create_key(store, ADMINISTRATOR, administrator=True)["key"]
    return made


def forget_first_key(store: Store) -> None:
    """Take back what `first_key` made, because nobody has seen it: the next start makes another one."""
    with store.changing() as (connection, _):
        connection.execute(delete(schema.key).where(schema.key.c.administrator))
        connection.execute(delete(schema.setting).where(schema.setting.c.name == "administrator"))


def list_keys(store: Store) -> dict[str, Any]:
    """All keys, without their texts."""
    with store.reading() as connection:
        rows = connection.execute(select(schema.key).order_by(schema.key.c.created, schema.key.c.id)).mappings().all()
    keys = [
        {
            "id": row["id"],
            "principal": row["principal"],
            "privileges": names_of(row["privileges"]),
            "administrator": row["administrator"],
            "createdAt": row["created"],
            "revokedAt": row["revoked"],
        }
        for row in rows
    ]
    return {"version": 0, "keys": keys}


def revoke_key(store: Store, key: str) -> dict[str, Any]:
    """End a key by its id; it is refused from the next request on.

    Raises:
        NotFoundError `key-unknown`.
    """
    with store.changing() as (connection, _):
        done = connection.execute(
            update(schema.key)
            .where(schema.key.c.id == key, schema.key.c.revoked.is_(None))
            .values(revoked=now_ms())
            .returning(schema.key.c.principal)
        ).scalar()
        if done is None:
            raise NotFoundError("key-unknown", "no key in force has that id", field="key")
    return {"version": 0, "id": key, "principal": done, "revoked": True}


def change_group(store: Store, name: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> dict[str, Any]:
    """Add and remove members of a group; `name` is with or without `group:`. Members may be groups that have members.

    Raises:
        UsageError `principal-invalid`; `group-loop`: a group would hold itself.
        NotFoundError `group-unknown`: the group to take from, or a group to add, has no members; `member-unknown`: one
            to remove is no member. Nothing is changed then.
    """
    group = name if name.startswith("group:") else f"group:{name}"
    for principal in (group, *add, *remove):
        _require_principal(principal)
    table = schema.member
    with store.changing() as (connection, _):
        _check_members(connection, group, add, remove)
        if add or remove:
            connection.execute(delete(table).where(table.c.group_id == group, table.c.principal.in_([*add, *remove])))
        if add:
            rows = [{"group_id": group, "principal": principal} for principal in dict.fromkeys(add)]
            connection.execute(insert(table), rows)
        members = connection.execute(
            select(table.c.principal).where(table.c.group_id == group).order_by(table.c.principal)
        ).scalars()
        return {"version": 0, "group": group, "members": list(members)}


def list_groups(store: Store) -> dict[str, Any]:
    """All groups and their members."""
    groups: dict[str, list[str]] = {}
    table = schema.member
    with store.reading() as connection:
        for group, principal in connection.execute(select(table).order_by(table.c.group_id, table.c.principal)):
            groups.setdefault(group, []).append(principal)
    return {"version": 0, "groups": [{"group": group, "members": of} for group, of in groups.items()]}


def _check_members(connection: Connection, group: str, add: Sequence[str], remove: Sequence[str]) -> None:
    groups: dict[str, set[str]] = {}
    for of, principal in connection.execute(select(schema.member.c.group_id, schema.member.c.principal)):
        groups.setdefault(of, set()).add(principal)
    if remove and group not in groups:
        raise NotFoundError(
            "group-unknown", f"there is no {group}", hint="`hn uhp group list` shows all.", field="group"
        )
    for principal in remove:
        if principal not in groups[group]:
            raise NotFoundError(
                "member-unknown",
                f"{principal} is no member of {group}",
                hint="`hn uhp group list` shows who is.",
                field="members",
            )
    for principal in add:
        if principal.startswith("group:") and principal != group and principal not in groups:
            raise NotFoundError(
                "group-unknown", f"there is no {principal}", hint="Give it members of its own first.", field="members"
            )
        if group in _reached(groups, principal):
            raise UsageError("group-loop", f"{group} would be a member of itself through {principal}", field="members")


def _reached(groups: Mapping[str, set[str]], principal: str) -> set[str]:
    """A principal and all that are its members, directly or by one another."""
    seen: set[str] = set()
    waiting = {principal}
    while waiting:
        seen |= waiting
        waiting = {one for name in waiting for one in groups.get(name, ())} - seen
    return seen


def _require_principal(text: str) -> None:
    if not is_principal(text):
        raise UsageError(
            "principal-invalid",
            f"{text[:80]!a} is not a principal",
            hint=f"<kind>:<id> with kind {', '.join(PRINCIPAL_KINDS)}; letters, digits and . _ @ + = ~ - in the id.",
            field="principal",
        )


__all__ = [
    "ADMINISTRATOR",
    "ALL",
    "change_group",
    "create_key",
    "digest_of",
    "first_key",
    "is_principal",
    "list_groups",
    "list_keys",
    "new_id",
    "now_ms",
    "revoke_key",
]
