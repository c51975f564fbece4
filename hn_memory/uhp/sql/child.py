"""The process a free query runs in. It answers one request and ends; it imports nothing of this project.

What confines a statement is never its text:

1. the process holds one database, in memory, made of the rows that the caller may read; it has no file, no socket and
   no other handle, and can open none;
2. SQLite's authorizer allows reading the named tables and calling the named functions, and nothing else;
3. a progress handler stops the statement when its time is up; the system ends the process when a single step of
   SQLite goes on for longer (a pattern match has no end that one could wait for);
4. memory, the size of a value, the columns and the depth of a statement are bounded.

Request, on standard input: two lengths (8 bytes each, big-endian), a JSON object, the image of the database.
Answer, on standard output: one JSON object, with `columns`, `rows` and `degraded`, or with `error`.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
import resource
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

TABLES = frozenset({"record", "version", "reference", "json_each", "json_tree"})
# What computes; not what loads code, tells of the build, or reaches a file.
_FUNCTIONS = """
abs acos acosh asin asinh atan atan2 atanh ceil ceiling char coalesce concat concat_ws cos cosh date datetime degrees
exp floor format glob hex ifnull iif instr julianday length like likelihood likely ln log log10 log2 lower ltrim max min
mod nullif octet_length pi pow power printf quote radians random replace round rtrim sign sin sinh soundex sqrt strftime
substr substring tan tanh time timediff trim trunc typeof unicode unixepoch unlikely upper
avg count group_concat string_agg sum total
cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank row_number
json json_array json_array_length json_error_position json_extract json_group_array json_group_object json_insert
json_object json_patch json_quote json_remove json_replace json_set json_type json_valid -> ->>
"""
FUNCTIONS = frozenset(_FUNCTIONS.split())
STEPS = 1000
LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 1 << 20,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1 << 16,
    sqlite3.SQLITE_LIMIT_COLUMN: 100,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 100_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 64,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}


def main() -> None:
    """Answer one request."""
    source = sys.stdin.buffer
    head = source.read(16)
    if len(head) < 16:
        return
    request = json.loads(source.read(int.from_bytes(head[:8], "big")))
    image = source.read(int.from_bytes(head[8:], "big"))
    confine(request, len(image))
    try:
        answer = ask(image, request)
    except MemoryError:
        answer = {"columns": [], "rows": [], "degraded": ["memory"]}
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
        answer = {"error": str(error)}
    data = json.dumps(answer, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def confine(request: dict[str, Any], size: int) -> None:
    """No file, no child, no core dump; so much memory and so much time of the processor."""
    used = math.ceil(time.process_time())
    for name, value in (
        ("RLIMIT_CORE", 0),
        ("RLIMIT_FSIZE", 0),
        ("RLIMIT_NPROC", 0),
        ("RLIMIT_NOFILE", 3),
        ("RLIMIT_CPU", used + math.ceil(request["seconds"]) + 1),
        ("RLIMIT_AS", mapped() + 2 * size + request["memory"]),
    ):
        # A system that lacks one of them, or was started with less, goes on with what there is.
        with contextlib.suppress(AttributeError, ValueError, OSError):
            resource.setrlimit(getattr(resource, name), (value, value))


def mapped() -> int:
    """Bytes of address space in use."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return 1 << 28


def ask(image: bytes, request: dict[str, Any]) -> dict[str, Any]:
    """Run the statement on a connection of its own."""
    connection = sqlite3.connect(":memory:", isolation_level=None, cached_statements=0)
    connection.deserialize(image)
    for pragma in ("temp_store = MEMORY", "query_only = ON", "trusted_schema = OFF", "cell_size_check = ON"):
        connection.execute("PRAGMA " + pragma)
    for function in ("json_each", "json_tree"):
        # Its first use declares a table, which no statement of a caller may do.
        connection.execute(f"SELECT 1 FROM {function}('[]')").fetchall()  # noqa: S608 - our own two names
    for name, value in LIMITS.items():
        connection.setlimit(name, value)
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    until = time.process_time() + request["seconds"]
    connection.set_progress_handler(lambda: time.process_time() > until, STEPS)
    connection.set_authorizer(authorize)
    columns: list[str] = []
    rows: list[list[Any]] = []
    degraded: list[str] = []
    try:
        cursor = connection.execute(request["statement"], request["params"])
        if cursor.description is None:
            raise ValueError("the statement asks for nothing")
        columns = [column[0] for column in cursor.description]
        degraded += collect(cursor, request, rows)
    except sqlite3.OperationalError as error:
        if str(error) != "interrupted":
            raise
        degraded.append("time")
    return {"columns": columns, "rows": rows, "degraded": degraded}


def authorize(action: int, first: str | None, second: str | None, database: str | None, inner: str | None) -> int:
    """What a statement may do (2.), asked while SQLite compiles it."""
    if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
        return sqlite3.SQLITE_OK
    # An empty column: rows are only counted, those of a common table expression, too, whatever its name.
    if action == sqlite3.SQLITE_READ and (second == "" or (first in TABLES and database == "main")):
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and second is not None and second.lower() in FUNCTIONS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def collect(cursor: sqlite3.Cursor, request: dict[str, Any], rows: list[list[Any]]) -> list[str]:
    """Gather rows up to the bounds; the bound that was met."""
    size = 0
    for row in cursor:
        if len(rows) == request["rows"]:
            return ["rows"]
        values = [plain(value) for value in row]
        size += len(json.dumps(values, ensure_ascii=False).encode())
        if size > request["bytes"]:
            return ["bytes"]
        rows.append(values)
    return []


def plain(value: Any) -> Any:
    """A value as JSON has it: bytes in Base64, and null for what is no number."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


if __name__ == "__main__":
    main()
