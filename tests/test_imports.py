"""The house: a room imports only from rooms below it, and `protocol/` touches nothing outside itself.

The walk is over the syntax trees, so imports inside functions count, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import hn_memory

PACKAGE = Path(hn_memory.__file__).parent
# From the roof down; rooms of one floor know nothing of each other.
FLOORS = [
    {"cli", "uhp", "mcp"},
    {"service"},
    {"recall"},
    {"replication"},
    {"index"},
    {"repository"},
    {"protocol"},
    {"errors", "values", "_version"},
]
FLOOR = {room: number for number, floor in enumerate(FLOORS) for room in floor}
MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))

# What asks files, processes, the clock or chance. `datetime` only calculates as long as nobody calls now().
FORBIDDEN_MODULES = {
    "asyncio", "glob", "io", "multiprocessing", "os", "pathlib", "pygit2", "random", "secrets", "shutil",
    "signal", "socket", "sqlite3", "subprocess", "sys", "tempfile", "threading", "time", "urllib",
}  # fmt: skip
FORBIDDEN_CALLS = {"open", "input", "print", "exec", "eval", "__import__"}
# Package data that belongs to the protocol: its Unicode tables. The documented exception of the rule.
DATA_READERS = {Path("protocol/unicode.py"): {"importlib.resources"}}


def room_of(module: Path) -> str:
    return module.parts[0] if len(module.parts) > 1 else module.stem


def imports(path: Path) -> Iterator[tuple[str, int, bool]]:
    """Absolute names of everything imported, with the line, and whether it is for types alone."""
    tree = ast.parse(path.read_text())
    for_types: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for_types.update(inner for statement in node.body for inner in ast.walk(statement))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno, node in for_types
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                package = path.relative_to(PACKAGE.parent).with_suffix("").parts[: -node.level]
                source = ".".join([*package, *([source] if source else [])])
            yield source, node.lineno, node in for_types
            for alias in node.names:
                yield f"{source}.{alias.name}", node.lineno, node in for_types


def test_every_room_is_on_a_floor() -> None:
    rooms = {room_of(module) for module in MODULES} - {"__init__", "__main__"}
    assert rooms <= set(FLOOR), rooms - set(FLOOR)


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_nothing_imports_upward(module: Path) -> None:
    room = room_of(module)
    if room in ("__init__", "__main__"):
        return  # the public face re-exports from everywhere
    for name, line, _ in imports(PACKAGE / module):
        parts = name.split(".")
        if parts[0] != "hn_memory" or len(parts) < 2 or parts[1] not in FLOOR:
            continue
        other = parts[1]
        assert other == room or FLOOR[other] > FLOOR[room], f"{module}:{line} imports {name}"


@pytest.mark.parametrize("module", [module for module in MODULES if room_of(module) == "protocol"], ids=str)
def test_protocol_is_pure(module: Path) -> None:
    path = PACKAGE / module
    allowed = DATA_READERS.get(module, set())
    for name, line, for_types in imports(path):
        if for_types or name in allowed or any(name.startswith(f"{one}.") for one in allowed):
            continue
        assert name.split(".")[0] not in FORBIDDEN_MODULES | {"importlib"}, f"{module}:{line} imports {name}"
    if allowed:
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in FORBIDDEN_CALLS, f"{module}:{node.lineno} calls {called}"
            last = called.rsplit(".", 1)[-1]
            assert last not in ("read_text", "read_bytes", "urandom", "now", "utcnow", "today"), (
                f"{module}:{node.lineno} {called}"
            )


def test_the_library_never_prints() -> None:
    """Only doors talk to people."""
    for module in MODULES:
        if room_of(module) in FLOORS[0]:
            continue
        for node in ast.walk(ast.parse((PACKAGE / module).read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called != "print" and not called.startswith(("sys.stdout.", "sys.stderr.")), module


def test_doors_decide_no_rule() -> None:
    """The command line reaches the protocol for values and limits, never for its encoders, keys or chains."""
    beyond = {"canonical", "chain", "commit", "envelope", "signing", "memory", "snapshot"}
    for module in MODULES:
        if room_of(module) == "cli":
            for name, line, _ in imports(PACKAGE / module):
                parts = name.split(".")
                if parts[:2] == ["hn_memory", "protocol"]:
                    assert len(parts) < 3 or parts[2] not in beyond, f"{module}:{line} imports {name}"
                assert parts[:2] != ["hn_memory", "repository"], f"{module}:{line} imports {name}"


def test_public_names_are_there() -> None:
    for name in hn_memory.__all__:
        assert getattr(hn_memory, name) is not None
    with pytest.raises(AttributeError):
        hn_memory.no_such_name  # noqa: B018


# Modules that were asked and do one thing all the same.
LONGER = {Path("index/store.py"): 575}


def test_modules_stay_small() -> None:
    """A module that passes about 400 lines is asked what second thing it does."""
    for module in MODULES:
        lines = len((PACKAGE / module).read_text().splitlines())
        assert lines <= LONGER.get(module, 440), f"{module} has {lines} lines"
