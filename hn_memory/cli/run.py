"""Run one command line: every way it can end has one place here, one exit status and one form of answer."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from hn_memory.cli import output, quick
from hn_memory.cli.inputs import decode_arguments
from hn_memory.cli.session import Session
from hn_memory.errors import HnError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    import click

    from hn_memory.service.ahead import Ahead

INTERRUPTED: Final = 130
COMPLETE_VARIABLE: Final = "_HN_COMPLETE"


def run(arguments: Sequence[str], ahead: Ahead | None = None) -> int:
    """Run the arguments after the program's name; the exit status. `ahead` are Git children for this directory."""
    try:
        return _run(arguments, ahead)
    finally:
        if ahead is not None:
            ahead.stop()


def _run(arguments: Sequence[str], ahead: Ahead | None) -> int:
    decoded = decode_arguments(arguments)
    session = Session(json=_asks_for_json(decoded), ahead=ahead)
    try:
        _dispatch(session, decoded)
    except HnError as error:
        return _refuse(session, error)
    except (KeyboardInterrupt, EOFError):
        return _interrupted(session)
    except Exception as error:  # the last resort: nothing a user sees may hold a traceback or a path of ours
        if "click" in sys.modules:
            import click

            if isinstance(error, click.ClickException):
                return _refuse(session, _usage(error))
            if isinstance(error, click.Abort):
                return _interrupted(session)
        if os.environ.get("HN_DEBUG") == "1":
            import traceback

            output.write_error(traceback.format_exc().rstrip("\n"))
        return _refuse(
            session,
            HnError(
                "internal",
                f"internal error: {type(error).__name__}",
                hint="This is a bug in hn. HN_DEBUG=1 shows where it happened.",
            ),
        )
    failed = output.write_out(session.answer or b"")
    if failed and session.unwritten is not None:
        try:
            session.unwritten()
        except HnError as error:
            output.report(error)
    return failed or session.status


def _dispatch(session: Session, arguments: list[str]) -> None:
    instruction = os.environ.get(COMPLETE_VARIABLE)
    if not instruction and quick.dispatch(session, arguments):
        return
    import click

    from hn_memory.cli.root import root

    if instruction:
        from click.shell_completion import shell_complete

        # The class writes for itself; it runs in a shell's completion function, never beside an answer.
        session.status = shell_complete(root, {}, "hn", COMPLETE_VARIABLE, instruction)
        return
    try:
        with root.make_context("hn", arguments, obj=session) as context:
            root.invoke(context)
    except click.exceptions.Exit as done:
        session.status = done.exit_code


def _asks_for_json(arguments: Sequence[str]) -> bool:
    """Is `--json` among the options? Asked ahead, because parsing may fail before it gets there."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return "--json" in arguments[:end]


def _interrupted(session: Session) -> int:
    if not session.json:
        output.write_error("")
    return _refuse(session, HnError("interrupted", "interrupted"), status=INTERRUPTED)


def _refuse(session: Session, error: HnError, *, status: int | None = None) -> int:
    status = error.exit_status if status is None else status
    if session.json:
        failed = output.write_out(output.json_bytes(output.error_document(error)))
        return failed or status
    if error.code != "interrupted":
        output.report(error)
    return status


def _usage(error: click.ClickException) -> HnError:
    """What click refuses, as one of our refusals."""
    import click

    hint = None
    context = getattr(error, "ctx", None)
    if isinstance(context, click.Context):
        hint = f"See `{context.command_path} --help`."
    field = None
    parameter = getattr(error, "param", None)
    if isinstance(parameter, click.Option):
        field = max(parameter.opts, key=len).lstrip("-")
    elif isinstance(parameter, click.Argument):
        field = (parameter.metavar or parameter.name or "").strip("[].").lower()
    message = error.format_message()
    own_hint = getattr(error, "hint", None)
    return UsageError("usage", message, hint=own_hint or hint, field=field)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
