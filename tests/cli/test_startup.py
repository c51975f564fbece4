"""Starting up is a feature: what is deferred behaves as the real thing, and nothing heavy comes along."""

from __future__ import annotations

import gettext
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hn_memory.cli import deferred
from hn_memory.cli.entry import OVERVIEW


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def loaded_after(*arguments: str) -> set[str]:
    code = f"""
import sys, os
sys.argv = ["hn", *{list(arguments)!r}]
from hn_memory.cli.entry import answer
kept = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
answer()
os.dup2(kept, 1)
print(*(name for name in sys.modules if type(sys.modules[name]).__name__ != "_StandIn"))
"""
    return set(python(code).split())


def test_overview_and_version_need_no_click() -> None:
    for arguments in (("--help",), ("-h",), ("--version",)):
        loaded = loaded_after(*arguments)
        assert not loaded & {"click", "pygit2", "cryptography", "nacl", "orjson", "hn_memory.service"}


def test_overview_is_what_is_printed() -> None:
    code = "import sys; sys.argv = ['hn', '--help']; from hn_memory.cli.entry import main; sys.exit(main())"
    assert python(code) == Path(OVERVIEW).read_text()


def test_help_of_a_command_loads_no_service() -> None:
    loaded = loaded_after("memory", "recall", "--help")
    assert "click" in loaded
    heavy = {"inspect", "pygit2", "cryptography", "nacl", "orjson", "regex", "hn_memory.service", "hn_memory.protocol"}
    assert not loaded & heavy
    others = {name for name in loaded if name.startswith("hn_memory.cli.commands.")}
    assert others == {"hn_memory.cli.commands.memory", "hn_memory.cli.commands.recall"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "one line",
        "  one line",
        "first\n    second\n      third\n\n    fourth\n    ",
        "\n\n    only\n\n",
        "\ttabs\n\tand\n\t\tmore",
        "first\n\n\n",
        "first\nno indent\n  some",
    ],
)
def test_carried_cleandoc_is_the_real_one(text: str) -> None:
    assert deferred.cleandoc(text) == inspect.cleandoc(text)


def test_carried_isfunction_is_the_real_one() -> None:
    for value in (test_carried_cleandoc_is_the_real_one, len, int, object(), lambda: None, Path.exists, "x"):
        assert deferred.isfunction(value) == inspect.isfunction(value)


def test_a_deferred_module_becomes_the_real_one() -> None:
    code = """
import sys
from hn_memory.cli import deferred
deferred.install()
import inspect
assert type(inspect).__name__ == "_StandIn" and "dis" not in sys.modules
assert inspect.signature(lambda a, b: 0).parameters.keys() == {"a", "b"}
assert type(sys.modules["inspect"]).__name__ == "module"
import inspect as again
from inspect import isclass
assert again is sys.modules["inspect"] and again.isclass is isclass and isclass(int)
from dataclasses import dataclass
@dataclass
class Undocumented:
    x: int = 0
assert Undocumented.__doc__ == "Undocumented(x: int = 0)"
try:
    inspect.no_such_name
except AttributeError:
    print("done")
"""
    assert python(code) == "done\n"


def test_carried_gettext_is_the_real_one_without_a_catalogue() -> None:
    for message in ("", "Usage:", "é"):
        assert deferred.gettext(message) == gettext.gettext(message) or not message
    for count in (0, 1, 2, 11):
        assert deferred.ngettext("one", "many", count) == gettext.ngettext("one", "many", count)


def test_carried_quote_is_the_real_one() -> None:
    code = """
from hn_memory.cli import deferred
deferred.install()
import pathlib
print(pathlib.PurePosixPath("/a b/é").as_uri())
import urllib.parse, uuid
print(urllib.parse.urlsplit("http://x/y").netloc, uuid.UUID(int=1))
"""
    assert python(code) == "file:///a%20b/%C3%A9\nx 00000000-0000-0000-0000-000000000001\n"


def test_carried_uuid_makes_and_knows_real_ones() -> None:
    code = """
from hn_memory.cli import deferred
deferred.install()
import sys, click
assert "platform" not in sys.modules
kind = click.UUID
value = kind.convert("00000000-0000-0000-0000-000000000001", None, None)
import uuid
assert type(value) is uuid.UUID and kind.convert(value, None, None) is value
try:
    kind.convert("x", None, None)
except click.BadParameter as error:
    print(error.message)
"""
    assert python(code) == "'x' is not a valid UUID.\n"


def test_deferring_replaces_nothing_that_is_loaded() -> None:
    before = sys.modules["inspect"]
    deferred.install()
    assert sys.modules["inspect"] is before


def test_carried_datetime_is_the_real_one() -> None:
    code = """
import sys
from hn_memory.cli import deferred
deferred.install()
import datetime, sqlite3
from datetime import datetime as carried, timezone, timedelta, UTC
assert type(sys.modules["datetime"]).__name__ == "_StandIn"
when = carried(2024, 2, 29, 12, tzinfo=UTC) + timedelta(days=1)
assert when.isoformat() == "2024-03-01T12:00:00+00:00" and carried.strptime("1999", "%Y").year == 1999
import pickle, copy
assert pickle.loads(pickle.dumps(when)) == when
del sys.modules["datetime"]
import datetime
print(datetime.datetime is carried, datetime.UTC is UTC)
"""
    assert python(code) == "True True\n"


def test_threads_work_after_the_stand_in() -> None:
    code = """
import sys
from hn_memory.cli import deferred
deferred.install()
from threading import local
import threading
assert type(threading).__name__ == "_StandIn"
from concurrent.futures import ThreadPoolExecutor, ProcessPoolExecutor
with ThreadPoolExecutor(2) as pool:
    assert list(pool.map(str, range(4))) == ["0", "1", "2", "3"]
with ProcessPoolExecutor(1) as pool:
    assert pool.submit(abs, -3).result() == 3
import threading as again
assert again.local is local and again.current_thread() is again.main_thread()
assert type(again).__name__ == "module"
print("done")
"""
    assert python(code) == "done\n"


def leaving(code: str) -> subprocess.CompletedProcess[str]:
    program = f"import sys\nfrom hn_memory.cli.entry import leave\n{code}\nleave(3)"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)


def test_leaving_writes_what_waits_and_gives_the_status() -> None:
    done = leaving("sys.stdout.write('waiting')\nsys.stderr.write('said')")
    assert (done.returncode, done.stdout, done.stderr) == (3, "waiting", "said")


def test_leaving_takes_nothing_apart() -> None:
    done = leaving("class Last:\n    def __del__(self): print('taken apart')\nkept = Last()")
    assert (done.returncode, done.stdout) == (3, "")


@pytest.mark.parametrize(
    "code",
    [
        "import atexit\natexit.register(print, 'at the end')",
        "import threading, time\n"
        "threading.Thread(target=lambda: (time.sleep(0.2), print('at the end', flush=True))).start()",
    ],
    ids=["something to run", "a thread"],
)
def test_leaving_waits_for_what_wants_to_run(code: str) -> None:
    done = leaving(code)
    assert (done.returncode, done.stdout) == (3, "at the end\n")


def test_commands_that_start_git_early_are_commands() -> None:
    from hn_memory.cli import entry
    from hn_memory.cli.commands.memory import COMMANDS

    assert set(COMMANDS) >= entry._READS | entry._WRITES
    assert not entry._READS & entry._WRITES


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit, one memory and its index."""
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(tmp_path),
        **{f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }  # fmt: skip
    root = tmp_path / "repository"
    hn = "import sys; from hn_memory.cli.entry import main; main()"
    for command in (
        ["git", "init", "-q", str(root)],
        ["git", "-C", str(root), "commit", "-q", "--allow-empty", "-m", "Start"],
        [sys.executable, "-c", hn, "-C", str(root), "init", "--name", "Ada"],
        [sys.executable, "-c", hn, "-C", str(root), "memory", "record", "--kind", "observation", "seen"],
    ):
        subprocess.run(command, check=True, capture_output=True, env=environment)
    return root


@pytest.mark.parametrize("command", [["recall"], ["recall", "--topic", "x", "--query", "seen"], ["log"]])
def test_reading_loads_little_of_the_standard_library(
    repository: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    """Together these take longer to load than the rest of a short command takes."""
    monkeypatch.chdir(repository)
    loaded = loaded_after("memory", *command, "--json")
    assert {"sqlite3", "hn_memory.index.store"} <= loaded
    heavy = {
        "binascii", "collections", "contextlib", "enum", "functools", "importlib", "inspect", "json", "operator",
        "pathlib", "re", "types", "typing", "warnings",
    }  # fmt: skip
    # What the interpreter loads by itself, as the `.pth` files of an environment may have it do, is not ours.
    bare = set(python("import sys; print(*sys.modules)").split())
    unwanted = (heavy | {"click", "cryptography", "nacl", "orjson", "pygit2"}) - bare
    assert loaded & unwanted == set()


def test_carried_caches_are_the_real_ones() -> None:
    code = """
from hn_memory.cli import deferred
import functools
for module in (functools, deferred):
    asked = []
    @module.lru_cache(maxsize=2)
    def double(x: int) -> int:
        "Twice."
        asked.append(x)
        return 2 * x
    answers = [double(x) for x in (1, 2, 1, 3, 2, 1)]
    print(answers, asked, double.cache_info(), double.cache_parameters())
    print(double.__name__, double.__doc__, double.__qualname__, double.__annotations__, double.__wrapped__(4))
    double.cache_clear()
    @module.lru_cache
    def plain(x): return x
    @module.cache
    def kept(x): return x
    kept(1), kept(1)
    print(plain(1), plain.cache_parameters(), kept.cache_info(), double.cache_info())
    print(module.lru_cache(-5, True)(len).cache_parameters())
"""
    lines = python(code).splitlines()
    assert lines[:4] == lines[4:] and len(lines) == 8


def test_carried_contexts_are_the_real_ones() -> None:
    code = """
from hn_memory.cli import deferred
import contextlib
class Ours(Exception): pass
def stops(error):
    yield 1
    raise error
def quiet():
    try: yield 2
    except Ours: pass
def other():
    try: yield 3
    except Ours as error: raise KeyError("other") from error
def passes():
    try: yield 4
    finally: print("end")
def twice():
    yield 5
    yield 6
def never():
    return
    yield
def caught_and_goes_on():
    try: yield 7
    except Ours: yield 8
makers = [quiet, other, passes, twice, never, caught_and_goes_on, lambda: stops(StopIteration("x")),
          lambda: stops(Ours("end"))]
for module in (contextlib, deferred):
    for maker in makers:
        for raised in (None, Ours("a"), StopIteration("b"), RuntimeError("c"), GeneratorExit(), KeyboardInterrupt()):
            said = []
            try:
                with module.contextmanager(maker)() as value:
                    said.append(value)
                    if raised is not None:
                        raise raised
                said.append("after")
            except BaseException as error:
                said += [type(error).__name__, error is raised, type(error.__cause__).__name__]
            print(said)
    try:
        with module.suppress(KeyError, ValueError): raise UnicodeError
        with module.suppress(): pass
        with module.suppress(KeyError): raise IndexError
    except IndexError: print("not suppressed")
    named = module.contextmanager(quiet)
    print(named.__name__, named.__wrapped__ is quiet)
"""
    lines = python(code).splitlines()
    half = len(lines) // 2
    assert lines[:half] == lines[half:] and half > 40


def test_carried_collections_become_the_real_ones() -> None:
    code = """
import sys
early = {"collections", "functools", "contextlib"} & set(sys.modules)
from hn_memory.cli import deferred
deferred.install()
import collections.abc, functools, contextlib
from collections import deque, defaultdict, OrderedDict
from collections.abc import Mapping
assert early or type(sys.modules["collections"]).__name__ == "_StandIn"
import sqlite3
sqlite3.connect(":memory:").execute("SELECT 1")
assert early or type(sys.modules["functools"]).__name__ == "_StandIn"
from collections import Counter, namedtuple
import collections as real
assert type(real).__name__ == "module" and real.abc.Mapping is Mapping and real.deque is deque
assert isinstance(Counter(), Mapping) and namedtuple("P", "x")(1).x == 1
import typing, dataclasses, concurrent.futures, traceback, http.client
assert typing.Mapping.__origin__ is Mapping and real.defaultdict is defaultdict and real.OrderedDict is OrderedDict
with contextlib.ExitStack() as stack:
    stack.callback(print, "done")
functools.wraps(len)(lambda: 0)
exec("from functools import *; assert singledispatch and cmp_to_key")
try:
    raise ExceptionGroup("x", [ValueError("a")])
except ExceptionGroup as error:
    error.__notes__ = ["b"]
    assert "b" in "".join(traceback.format_exception(error))
"""
    assert python(code) == "done\n"


def test_what_is_no_json_is_told_where_the_package_is_not_loaded() -> None:
    """The C half of the standard library's reader raises an exception that the other half would have brought."""
    texts = [b"{", b"[1,]", b'{"a" 1}', b'{"a":1,}', b"nul", b"", b"{}x", b'"', b'"\\x"', b'"a\x01"', b"[1 2]", b"\xff"]
    code = f"""
import sys
from hn_memory.protocol.jsonbytes import loads
for text in {texts!r}:
    for name in [name for name in sys.modules if name.partition(".")[0] == "json"]:
        del sys.modules[name]
    try:
        loads(text)
    except ValueError:
        print("told")
"""
    assert python(code).split() == ["told"] * len(texts)
