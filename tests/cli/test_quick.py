"""The two readers of a command line agree: what `getopt` reads, click reads the same; what click refuses, it leaves."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest
from cli_harness import Hn, record
from hypothesis import given, settings
from hypothesis import strategies as st

from hn_memory.cli import quick
from hn_memory.cli.commands.memory import COMMANDS
from hn_memory.cli.declare import NUMBER, Argument, Command, Option
from hn_memory.cli.session import Session

NAMES = [*sorted(quick._MEMORY), "sync"]
DECLARED: dict[str, Command] = {
    name: import_module(f"hn_memory.cli.commands.{name}").command for name in NAMES
}  # as the command line finds them
TEXTS = st.text(st.characters(blacklist_categories=["Cs"]), max_size=6) | st.sampled_from(
    ["", "-", "--", "-x", "--json", "--at", "=", "a=b", "-1", "5", " 5", "5_0", "x y", "\udcff"]
)
NUMBERS = st.integers(-3, 10**6).map(str)


def by_click(command: Command, line: list[str]) -> dict[str, Any] | None:
    """The parameters as click fills them, with `--json`; None where it refuses or answers itself."""
    session = Session()
    made = command.made()
    try:
        context = made.make_context(command.name, list(line), obj=session)
    except (click.ClickException, click.exceptions.Exit):
        return None
    return {**context.params, quick._JSON: session.json_option}


@st.composite
def proper_lines(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Lines that say nothing wrong, in every way of writing them."""
    name = draw(st.sampled_from(NAMES))
    parameters = DECLARED[name].parameters
    words: list[list[str]] = []
    options = [parameter for parameter in parameters if isinstance(parameter, Option)]
    chosen = [option for option in options if option.required]
    chosen += draw(st.lists(st.sampled_from(options), max_size=5)) if options else []
    for option in chosen:
        flag = draw(st.sampled_from(option.flags))
        if option.type is None:
            words.append([flag])
            continue
        value = draw(NUMBERS if option.type == NUMBER else TEXTS.filter(lambda text: "\udcff" not in text))
        if flag.startswith("--"):
            words.append(draw(st.sampled_from([[flag, value], [f"{flag}={value}"]])))
        else:
            words.append(draw(st.sampled_from([[flag, value], [flag + value] if value else [flag, value]])))
    if draw(st.booleans()):
        words.append(["--json"])
    plain = TEXTS.filter(lambda text: not text.startswith("-") and "\udcff" not in text)
    positional = []
    for parameter in parameters:
        if isinstance(parameter, Argument):
            count = draw(st.integers(0, 3)) if parameter.many else 1 if parameter.required else draw(st.integers(0, 1))
            positional += [[draw(plain)] for _ in range(count)]
    mixed = draw(st.permutations([*words, *[[] for _ in positional]]))
    line: list[str] = []
    for piece in mixed:
        line += piece or positional.pop(0)
    return name, line


@st.composite
def any_lines(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Lines of flags, wrong flags, values and nonsense in any order."""
    name = draw(st.sampled_from(NAMES))
    flags = [
        flag for parameter in DECLARED[name].parameters if isinstance(parameter, Option) for flag in parameter.flags
    ]
    words = TEXTS | st.sampled_from([*flags, "-h", "--help", "--json", "--jso", "--json=1", "-nt", "-ix", "--no"])
    words |= st.builds("{}={}".format, st.sampled_from([*flags, "--json"]), TEXTS)
    words |= st.builds("{}{}".format, st.sampled_from([*flags, "--json"]), TEXTS)
    return name, draw(st.lists(words, max_size=6))


@given(proper_lines())
@settings(max_examples=400, deadline=None)
def test_proper_lines_are_read_as_click_reads_them(case: tuple[str, list[str]]) -> None:
    name, line = case
    expected = by_click(DECLARED[name], line)
    assert expected is not None
    found = quick.read(DECLARED[name], line)
    # A value that looks like an option may be left to click.
    if found is None:
        assert any(word.startswith("--") for word in line), line
    else:
        assert found == expected


@given(any_lines())
@settings(max_examples=1500, deadline=None)
def test_any_line_is_read_as_click_reads_it_or_left(case: tuple[str, list[str]]) -> None:
    name, line = case
    found = quick.read(DECLARED[name], line)
    assert found is None or found == by_click(DECLARED[name], line)


def test_plain_lines_are_never_left() -> None:
    for name, line in [
        ("recall", []),
        ("recall", ["--json", "-t", "cache", "--topic=build", "-n5", "--include-untrusted", "-q", "two words"]),
        ("search", ["why", "not?", "--path", "a.py", "--", "--json"]),
        ("record", ["-k", "decision", "-m", "-", "--json"]),
        ("show", ["12345678", "--check-evidence"]),
        ("grep", ["-i", "a|b", "--json"]),
        ("sync", []),
    ]:
        assert quick.read(DECLARED[name], line) is not None, (name, line)


@pytest.mark.parametrize(
    "line", [["--jso"], ["--at"], ["-n", "x"], ["-n"], ["--help"], ["-h"], ["--json=1"], ["\udcff"]]
)
def test_what_is_wrong_or_help_is_left(line: list[str]) -> None:
    assert quick.read(DECLARED["recall"], line) is None


def test_getopt_is_not_asked_to_stop_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSIXLY_CORRECT", "1")
    assert quick.read(DECLARED["search"], ["why", "--json"]) is None


def test_every_declared_command_has_the_quick_door() -> None:
    declared = {
        name for name in COMMANDS if isinstance(import_module(f"hn_memory.cli.commands.{name}").command, Command)
    }
    assert declared == quick._MEMORY
    assert all(command.name == name for name, command in DECLARED.items())


def test_ordinary_commands_load_no_click(ada: str, hn: Hn, repository: Path) -> None:
    memory = record(hn)
    for line in (
        ["memory", "recall", "--json"],
        ["memory", "recall"],
        ["memory", "search", "rows"],
        ["memory", "grep", "SQLite", "--json"],
        ["memory", "show", memory],
        ["memory", "log", "--json"],
        ["memory", "record", "-k", "decision", "-m", "Quickly."],
    ):
        code = (
            f"import sys; sys.argv = ['hn', *{line!r}]\n"
            "from hn_memory.cli.entry import answer\n"
            "status = answer()\n"
            "import json\nsys.stderr.write(json.dumps([status, sorted(sys.modules)]))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        status, loaded = json.loads(done.stderr.splitlines()[-1])
        assert status == 0, done.stderr
        assert not {"click", "pygit2", "hn_memory.cli.root"} & set(loaded), line
