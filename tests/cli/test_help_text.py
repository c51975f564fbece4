"""The surface of the command line: all help as one snapshot, and no flag or command without documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from cli_harness import SNAPSHOTS, UPDATE, Hn

import hn_memory
from hn_memory.cli import entry
from hn_memory.cli.command import LazyGroup
from hn_memory.cli.root import root

PACKAGE = Path(hn_memory.__file__).parent
DOCUMENTS = [PACKAGE.parent / "README.md", *sorted((PACKAGE / "help").glob("*.md"))]


def commands() -> Iterator[tuple[str, click.Context]]:
    """Every command with its path, groups before what is in them."""
    pending = [("hn", click.Context(root, info_name="hn", terminal_width=80, **root.context_settings))]
    while pending:
        path, context = pending.pop(0)
        yield path, context
        if isinstance(context.command, LazyGroup):
            below = []
            for name in context.command.list_commands(context):
                command = context.command.get_command(context, name)
                assert command is not None
                child = click.Context(
                    command, parent=context, info_name=name, terminal_width=80, **command.context_settings
                )
                below.append((f"{path} {name}", child))
            pending = below + pending


def test_whole_help_is_as_recorded() -> None:
    """Run with HN_UPDATE_SNAPSHOTS=1 to record a change of surface, which then shows in review."""
    text = "".join(f"$ {path} --help\n{context.get_help()}\n\n" for path, context in commands())
    snapshot = SNAPSHOTS / "help.txt"
    overview = click.Context(root, info_name="hn", terminal_width=80, **root.context_settings).get_help() + "\n"
    if UPDATE:
        snapshot.write_text(text)
        Path(entry.OVERVIEW).write_text(overview)
    assert text == snapshot.read_text()
    assert overview == Path(entry.OVERVIEW).read_text(), "what `hn --help` prints without click is out of date"


def test_group_tables_name_what_the_modules_hold() -> None:
    for path, context in commands():
        group = context.command
        if isinstance(group, LazyGroup):
            for name, summary in group.table.items():
                command = group.get_command(context, name)
                assert command is not None, f"{path} {name}"
                assert command.name == name
                assert not (command.short_help or "") or command.short_help == summary
            assert group.get_command(context, "no-such-command") is None
            if group.package:
                assert not set(group.commands) - set(group.table)


def test_every_command_has_json_and_help() -> None:
    for path, context in commands():
        names = {name for parameter in context.command.get_params(context) for name in parameter.opts}
        assert {"--json", "--help", "-h"} <= names, path


def test_every_command_and_flag_is_documented() -> None:
    """Beyond its own --help: in the README or a help topic."""
    text = "\n".join(path.read_text() for path in DOCUMENTS)
    missing = []
    for path, context in commands():
        for spelling in (path, path.removeprefix("hn ").removeprefix("memory ")):
            if re.search(rf"(?<![\w-]){re.escape(spelling)}(?![\w-])", text):
                break
        else:
            missing.append(path)
        for parameter in context.command.params:
            for name in parameter.opts:
                flag = isinstance(parameter, click.Option) and name.startswith("-")
                if flag and not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text):
                    missing.append(f"{path} {name}")
    # Short forms that are only spelled in --help, and a flag that says what is so anyway.
    allowed = {"hn memory log --oneline", "hn memory retract -r", "hn memory challenge -r"}
    assert set(missing) <= allowed


def test_every_option_has_a_help_text() -> None:
    for path, context in commands():
        for parameter in context.command.get_params(context):
            assert not isinstance(parameter, click.Option) or parameter.help, f"{path} {parameter.name}"


def test_help_names_the_values_that_the_protocol_knows() -> None:
    from hn_memory.protocol.identifiers import EVIDENCE_TYPES, KINDS, SUBJECT_TYPES
    from hn_memory.protocol.policy import TRUST_CLASSES
    from hn_memory.protocol.projection import LIFECYCLES
    from hn_memory.protocol.record import MODES

    helps = {path: " ".join(context.get_help().split()) for path, context in commands()}
    expected = {
        "hn memory record": (*KINDS, *MODES, *EVIDENCE_TYPES, *SUBJECT_TYPES),
        "hn memory supersede": KINDS,
        "hn memory recall": (*KINDS, *LIFECYCLES, *TRUST_CLASSES),
        "hn memory grep": (*KINDS, *LIFECYCLES, *TRUST_CLASSES),
        "hn memory search": (*KINDS, *LIFECYCLES, *TRUST_CLASSES),
    }
    for path, words in expected.items():
        for word in words:
            assert re.search(rf"(?<![\w]){word}(?![\w])", helps[path].replace("- ", "-")), (path, word)


def test_topics_are_listed_and_shown(hn: Hn) -> None:
    listed = hn("help", "--json").done().json["topics"]
    expected = "bundles completions environment exit-codes grep identities json limits policy recall receipt record"
    expected += " search secrets streams sync uhp"
    assert list(listed) == sorted(expected.split())
    for name, title in listed.items():
        text = (PACKAGE / "help" / f"{name}.md").read_text()
        assert text.startswith(f"# {title}\n")
        assert hn("help", name).done().text == text
        assert hn("help", name, "--json").done().json == {"version": 0, "topic": name, "help": text}
        assert name in hn("help").done().text
        assert f"hn_memory/help/{name}.md" in DOCUMENTS[0].read_text()


def test_help_of_a_command_and_of_nothing(hn: Hn) -> None:
    assert hn("help", "memory", "show").done().text.startswith("Usage: hn memory show")
    answer = hn("help", "nonsense", "--json")
    assert answer.status == 3
    assert answer.error["code"] == "topic-unknown"


def test_help_mentions_no_machine() -> None:
    for path in [*DOCUMENTS, PACKAGE.parent / "CHANGELOG.md", *(PACKAGE.parent / "scripts").iterdir()]:
        if path.is_file():
            assert not re.search(r"/(?:home|root|Users|work)/", path.read_text(errors="replace")), path.name


@pytest.mark.parametrize("name", ["README.md", *(f"hn_memory/help/{path.name}" for path in DOCUMENTS[1:])])
def test_links_lead_somewhere(name: str) -> None:
    path = PACKAGE.parent / name
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target
    for topic in re.findall(r"`hn help ([a-z-]+)`", path.read_text()):
        assert (PACKAGE / "help" / f"{topic}.md").exists() or topic == "memory", topic
