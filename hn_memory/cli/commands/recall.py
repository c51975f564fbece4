"""`hn memory recall`."""

from __future__ import annotations

from typing import Any, Final

import click

from hn_memory.cli.command import command as make
from hn_memory.cli.command import session_of
from hn_memory.cli.inputs import FILE, TEXT, read_bytes
from hn_memory.cli.record_options import complete_kinds
from hn_memory.errors import UsageError

_FLAGS: Final = {
    "at": "--at",
    "subject": "--subject",
    "path": "--path",
    "topics": "--topic",
    "kinds": "--kind",
    "actors": "--actor",
    "lifecycle": "--lifecycle",
    "trust": "--trust",
    "query": "--query",
    "max_records": "--max-records",
    "max_content_bytes": "--max-content-bytes",
    "cursor": "--cursor",
    "include_untrusted": "--include-untrusted",
}


def complete_lifecycles(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Shell completion of lifecycles, with `all`."""
    from hn_memory.protocol.projection import LIFECYCLES

    return [name for name in (*LIFECYCLES, "all") if name.startswith(incomplete)]


def complete_trust(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Shell completion of trust classes."""
    from hn_memory.protocol.policy import TRUST_CLASSES

    return [name for name in TRUST_CLASSES if name.startswith(incomplete)]


@make("recall", "Find what applies here, with a receipt.")
@click.argument("extra", type=TEXT, metavar="", nargs=-1)
@click.option("-q", "--query", type=TEXT, metavar="WORDS", help="Every word must occur, in content or topics.")
@click.option("--at", type=TEXT, metavar="REV", help="The commit to look from.  [default: HEAD]")
@click.option(
    "-t", "--topic", "topics", type=TEXT, metavar="TOPIC", multiple=True, help="All must be there. Repeatable."
)
@click.option(
    "-k",
    "--kind",
    "kinds",
    type=TEXT,
    metavar="KIND",
    multiple=True,
    shell_complete=complete_kinds,
    help="assumption, attempt, decision, handoff, observation or verification. Repeatable.",
)
@click.option("-p", "--path", type=TEXT, metavar="PATH", help="Only records bound to this file.")
@click.option("--subject", type=TEXT, metavar="ID", help="The subject that is asked about.")
@click.option("--actor", "actors", type=TEXT, metavar="ACTOR", multiple=True, help="By this author. Repeatable.")
@click.option(
    "--lifecycle",
    type=TEXT,
    metavar="STATE",
    multiple=True,
    shell_complete=complete_lifecycles,
    help="active, superseded, retracted, branching, dependency-missing, or all alone. Repeatable.  [default: active]",
)
@click.option(
    "--trust",
    type=TEXT,
    metavar="CLASS",
    multiple=True,
    shell_complete=complete_trust,
    help="qualified, policy-missing, actor-untrusted or kind-untrusted. Repeatable.  [default: qualified]",
)
@click.option("--include-untrusted", is_flag=True, help="Show every trust class; it stays what it is.")
@click.option("-n", "--max-records", type=int, metavar="N", help="Records of a page.  [default: 20]")
@click.option(
    "--max-content-bytes", type=int, metavar="N", help="Bytes of encoded content of a page.  [default: 65536]"
)
@click.option("--cursor", type=TEXT, metavar="CURSOR", help="Go on after the page that gave this nextCursor.")
@click.option(
    "--input", "input_file", type=FILE, metavar="FILE", help="Read a JSON request from FILE, or `-`, instead."
)
@click.pass_context
def command(ctx: click.Context, /, extra: tuple[str, ...], input_file: str | None, **values: Any) -> None:
    """Find the records that apply to a commit, and say what was withheld and why.

    Without flags: what is active at HEAD, whose evidence is here, and whose author
    and kind the policy of that commit trusts.
    """
    if extra:
        raise UsageError(
            "usage",
            f"recall takes no argument, but {len(extra)} {'was' if len(extra) == 1 else 'were'} given",
            hint="Look for words with --query WORDS.",
        )
    from hn_memory.protocol.query import Request, read_request

    session = session_of(ctx)
    if input_file is not None:
        from hn_memory.protocol import limits

        for name, flag in _FLAGS.items():
            if values[name] not in (None, (), False):
                raise UsageError(
                    "usage",
                    f"Other recall flags cannot be combined with --input (here: {flag})",
                    hint="Say it in the JSON, or leave --input out.",
                    field=flag.lstrip("-"),
                )
        request = read_request(read_bytes(input_file, limits.REQUEST_BYTES, "--input"))
    with session.service() as service:
        if input_file is None:
            if values["path"] is not None:
                from hn_memory.service.read import recall_path

                values["path"] = recall_path(service.environment, values["path"])
            request = Request(**{**values, "at": values["at"] or "HEAD", "query": values["query"] or ""})
        document = service.recall(request)
    from hn_memory.cli.render_recall import recalled

    session.reply(document, recalled)
