"""Commands as plain data: what a command line may say, from which click's command is made when it is needed.

A well-formed line of an ordinary command is read without click (`cli.quick`), whose import alone takes longer than
most answers. Everything else is click's: help, completion, whatever is wrong with a line, and every command that
has commands of its own. Both readers work from the same declaration, so neither can know an option that the other
does not.
"""

from __future__ import annotations

from hn_memory.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Final

    import click

    Values = Callable[[], Iterable[str]]

TEXT: Final = "text"
"""Becomes text somewhere and so must be valid UTF-8."""
FILE: Final = "file"
"""The name of a file, any bytes; or `-`."""
RAW: Final = "raw"
"""Any bytes, which the command itself judges."""
NUMBER: Final = "number"
"""An integer as Python reads one."""


class Option(NamedTuple):
    """One option.

    Attributes:
        flags: its spellings, such as `-q` and `--query`.
        name: the parameter that it fills.
        help: its text in the help.
        type: `TEXT`, `FILE`, `RAW` or `NUMBER`; None for a switch, which takes no value.
        metavar: what stands for the value in the help.
        multiple: may be repeated; the parameter is then a tuple, empty where the option is not given.
        required: click refuses a line without it.
        values: what it may be, for a shell to complete; asked for only then.
    """

    flags: tuple[str, ...]
    name: str
    help: str
    type: str | None
    metavar: str | None
    multiple: bool
    required: bool
    values: Values | None


class Argument(NamedTuple):
    """One positional argument.

    Attributes:
        name: the parameter that it fills.
        type: `TEXT`, `FILE` or `RAW`.
        metavar: what stands for it in the usage line.
        many: takes all that are left, as a tuple; else it takes one, and None stands for one that is not given.
        required: click refuses a line without it.
    """

    name: str
    type: str
    metavar: str
    many: bool
    required: bool


class Command:
    """A command: its declaration and what it runs, `run(session, **parameters)`."""

    __slots__ = ("hint", "name", "parameters", "run", "summary")

    def __init__(
        self,
        name: str,
        summary: str,
        parameters: tuple[Option | Argument, ...],
        run: Callable[..., None],
        hint: str | None,
    ) -> None:
        self.name = name
        self.summary = summary
        self.parameters = parameters
        self.run = run
        self.hint = hint

    def made(self) -> click.Command:
        """The same as a command of click."""
        from hn_memory.cli.command import made

        return made(self)


def command(
    name: str, summary: str, *parameters: Option | Argument, hint: str | None = None
) -> Callable[[Callable[..., None]], Command]:
    """Make a function a command. Its docstring is the help, `summary` the line in its group's list.

    Args:
        hint: what to do about an unknown option, where that has its own answer.
    """

    def make(run: Callable[..., None]) -> Command:
        return Command(name, summary, parameters, run, hint)

    return make


def option(
    *flags: str,
    help: str,
    type: str | None = TEXT,
    name: str | None = None,
    metavar: str | None = None,
    multiple: bool = False,
    required: bool = False,
    values: Values | None = None,
) -> Option:
    """An option that takes a value; without `name` it fills the parameter of its longest spelling."""
    name = name or max(flags, key=len).lstrip("-").replace("-", "_")
    return Option(flags, name, help, type, metavar, multiple, required, values)


def switch(*flags: str, help: str) -> Option:
    """An option without a value: its parameter is True where it is given."""
    return option(*flags, help=help, type=None)


def argument(name: str, metavar: str, *, type: str = TEXT, many: bool = False, required: bool = True) -> Argument:
    """A positional argument."""
    return Argument(name, type, metavar, many, required and not many)


def given(parameters: Iterable[Option | Argument]) -> dict[str, Any]:
    """The parameters of a line that says nothing."""
    values: dict[str, Any] = {}
    for parameter in parameters:
        if isinstance(parameter, Argument):
            values[parameter.name] = () if parameter.many else None
        else:
            values[parameter.name] = () if parameter.multiple else False if parameter.type is None else None
    return values
