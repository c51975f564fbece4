"""Well-formed lines of ordinary commands, read without click.

The standard library's `getopt` reads a line by the command's own declaration. Whatever is doubtful is left to click,
which reads the line again from the start and says what is wrong with it: so this can only agree with click or stand
aside, and a test compares the two on lines of every shape.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from hn_memory.cli.declare import NUMBER, TEXT, Argument, Command, given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from hn_memory.cli.session import Session

_MEMORY: Final = frozenset(
    {
        "record", "handoff", "supersede", "retract", "challenge", "recall", "search", "grep", "show", "log",
        "streams", "verify", "duplicates", "export",
    }
)  # fmt: skip
_PACKAGE: Final = "hn_memory.cli.commands"
_JSON: Final = "--json"


def dispatch(session: Session, arguments: Sequence[str]) -> bool:
    """Run the command of a line, if it is one that can be read here; whether it was."""
    if arguments[:1] == ["sync"]:
        name, rest = "sync", arguments[1:]
    elif arguments[:1] == ["memory"] and _MEMORY.issuperset(arguments[1:2]) and len(arguments) > 1:
        name, rest = arguments[1], arguments[2:]
    else:
        return False
    # With a name to take out of it, this answers with the module itself, and needs no `importlib`.
    command: Command = __import__(f"{_PACKAGE}.{name}", fromlist=("command",)).command
    values = read(command, rest)
    if values is None:
        return False
    session.json = values.pop(_JSON)
    command.run(session, **values)
    return True


def read(command: Command, arguments: Sequence[str]) -> dict[str, Any] | None:
    """The parameters that a line fills, with `--json` beside them; None where click is to read it.

    Args:
        arguments: decoded, without the words that name the command.
    """
    if os.environ.get("POSIXLY_CORRECT"):
        return None  # getopt would end the options at the first argument
    short, long, options = "", ["json"], {}
    for parameter in command.parameters:
        if isinstance(parameter, Argument):
            continue
        for flag in parameter.flags:
            options[flag] = parameter
            if flag.startswith("--"):
                long.append(flag[2:] if parameter.type is None else f"{flag[2:]}=")
            else:
                short += flag[1] if parameter.type is None else f"{flag[1]}:"
    for argument in arguments:
        # getopt takes the beginning of a name for the name; click does not.
        if argument.startswith("--") and argument != "--":
            name = argument.partition("=")[0]
            if name not in options and name != _JSON:
                return None
    from getopt import GetoptError, gnu_getopt

    try:
        found, rest = gnu_getopt(list(arguments), short, long)
    except GetoptError:
        return None
    values = given(command.parameters)
    values[_JSON] = False
    for flag, text in found:
        if flag == _JSON:
            values[_JSON] = True
            continue
        option = options[flag]
        value = True if option.type is None else _converted(option.type, text)
        if value is None:
            return None
        values[option.name] = (*values[option.name], value) if option.multiple else value
    if not _take(command, rest, values):
        return None
    return values


def _take(command: Command, rest: list[str], values: dict[str, Any]) -> bool:
    """Give the positional arguments their values, the first first; whether they fit."""
    at = 0
    for parameter in command.parameters:
        if not isinstance(parameter, Argument):
            if parameter.required and values[parameter.name] is None:
                return False
            continue
        taken = rest[at:] if parameter.many else rest[at : at + 1]
        at += len(taken)
        converted = [_converted(parameter.type, text) for text in taken]
        if None in converted or (parameter.required and not taken):
            return False
        if parameter.many:
            values[parameter.name] = tuple(converted)
        elif converted:
            values[parameter.name] = converted[0]
    return at == len(rest)


def _converted(kind: str, text: str) -> Any:
    """The value that a text stands for; None where it stands for none."""
    if kind == NUMBER:
        try:
            return int(text)
        except ValueError:
            return None
    if kind == TEXT:
        try:
            text.encode()
        except UnicodeEncodeError:
            return None
    return text
