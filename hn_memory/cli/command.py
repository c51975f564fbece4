"""What all our commands share: `--json`, `-h`, the width of help, and groups that import what they run.

A group knows the names and summaries of its commands from a table; the module behind a name is imported when
it is asked for. A test holds the table and the modules together. What such a module declares as data (`cli.declare`)
becomes a command of click here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, Final

import click

from hn_memory.cli import declare
from hn_memory.cli.click_types import FILE, TEXT

if TYPE_CHECKING:
    from hn_memory.cli.session import Session

_TYPES: Final[dict[str, Any]] = {
    declare.TEXT: TEXT,
    declare.FILE: FILE,
    declare.RAW: click.STRING,
    declare.NUMBER: click.INT,
}
_SETTINGS: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"], "max_content_width": 80}


class Command(click.Command):
    """A command with `--json`; `hint` says what to do about an unknown option, where that has its own answer."""

    def __init__(self, name: str | None, *, hint: str | None = None, **settings: Any) -> None:
        self.hint = hint
        settings["params"] = [*(settings.get("params") or ()), _json_option()]
        settings["context_settings"] = {**_SETTINGS, **(settings.get("context_settings") or {})}
        super().__init__(name, **settings)

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        return _help_option(super().get_help_option(ctx))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if self.hint is not None:
                error.hint = self.hint  # type: ignore[attr-defined]
            raise

    def invoke(self, ctx: click.Context) -> Any:
        session_of(ctx).parsed()
        return super().invoke(ctx)


class LazyGroup(click.Group):
    """A group whose commands are imported when they run.

    Args:
        table: names of commands with their summaries, in the order of the help.
        package: where the modules are, one named after each command; its `command` is the command. Without a
            package the commands are added by the module that makes the group.
    """

    def __init__(self, name: str | None, *, table: Mapping[str, str], package: str = "", **settings: Any) -> None:
        settings["params"] = [*(settings.get("params") or ()), _json_option()]
        settings["context_settings"] = {**_SETTINGS, **(settings.get("context_settings") or {})}
        settings.setdefault("no_args_is_help", False)
        super().__init__(name, **settings)
        self.table = table
        self.package = package

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        return _help_option(super().get_help_option(ctx))

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return None
        if cmd_name not in self.commands:
            from importlib import import_module

            module = import_module(f"{self.package}.{cmd_name}")
            found = module.command
            self.commands[cmd_name] = found if isinstance(found, click.Command) else found.made()
        return self.commands[cmd_name]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self.table.items()))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name = args[0]
        if name in self.table or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        error = click.UsageError(f"{ctx.command_path} has no command {name[:80]!r}.", ctx)
        guess = self.guess(name)
        if guess is not None:
            error.hint = f"Did you mean `{ctx.command_path} {guess}`?"  # type: ignore[attr-defined]
        raise error

    def guess(self, name: str) -> str | None:
        """What somebody probably meant by a name that is no command."""
        from difflib import get_close_matches

        return next(iter(get_close_matches(name, self.table, 1)), None)


def command(name: str, summary: str, **settings: Any) -> Callable[[Callable[..., None]], Command]:
    """Make a function a command. Its docstring is the help, `summary` the line in its group's list."""
    return click.command(name, cls=Command, short_help=summary, **settings)


def made(declared: declare.Command) -> Command:
    """The command of click that a declaration describes."""

    def run(**values: Any) -> None:
        declared.run(session_of(click.get_current_context()), **values)

    parameters = [
        _argument(parameter) if isinstance(parameter, declare.Argument) else _option(parameter)
        for parameter in declared.parameters
    ]
    return Command(
        declared.name,
        callback=run,
        params=parameters,
        help=cleandoc(declared.run.__doc__ or ""),
        short_help=declared.summary,
        hint=declared.hint,
    )


def _argument(declared: declare.Argument) -> click.Argument:
    return click.Argument(
        [declared.name],
        type=_TYPES[declared.type],
        metavar=declared.metavar,
        nargs=-1 if declared.many else 1,
        required=declared.required,
    )


def _option(declared: declare.Option) -> click.Option:
    names = [*declared.flags, declared.name]
    if declared.type is None:
        return click.Option(names, is_flag=True, help=declared.help)
    return click.Option(
        names,
        type=_TYPES[declared.type],
        metavar=declared.metavar,
        multiple=declared.multiple,
        required=declared.required,
        help=declared.help,
        shell_complete=None if declared.values is None else completing(declared.values),
    )


def completing(values: declare.Values) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """The values that begin with what is typed so far, as click asks for them."""
    return lambda ctx, parameter, incomplete: [one for one in values() if one.startswith(incomplete)]


def session_of(ctx: click.Context) -> Session:
    """The session that a command runs in."""
    session: Session = ctx.obj
    return session


def _json_option() -> click.Option:
    def remember(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
        if value and ctx.obj is not None:
            ctx.obj.json_option = True

    return click.Option(
        ["--json"], is_flag=True, expose_value=False, is_eager=True, callback=remember, help="Print one JSON document."
    )


def _help_option(option: click.Option | None) -> click.Option | None:
    """click's help option, with the text as our answer, so that it, too, is one JSON document if asked."""
    if option is None:
        return None

    def show(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
        if not value or ctx.resilient_parsing:
            return
        text = ctx.get_help() + "\n"
        session_of(ctx).reply({"version": 0, "command": ctx.command_path, "help": text}, lambda _: text)
        ctx.exit()

    option.callback = show
    return option
