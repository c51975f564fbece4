"""`hn memory search`."""

from __future__ import annotations

from typing import Any

import click

from hn_memory.cli.command import command as make
from hn_memory.cli.command import session_of
from hn_memory.cli.inputs import TEXT
from hn_memory.cli.recall_options import check_evidence_option, recall_options, request_of
from hn_memory.errors import UsageError


def _complete_modes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from hn_memory.recall.ranking import MODES

    return [name for name in MODES if name.startswith(incomplete)]


@make("search", "Ask a question, get ranked answers.")
@click.argument("question", type=TEXT, metavar="[QUESTION]", nargs=-1)
@click.option(
    "--mode",
    type=TEXT,
    metavar="MODE",
    shell_complete=_complete_modes,
    help="lexical, meaning or hybrid.  [default: hybrid where an embedder is configured, else lexical]",
)
@recall_options("Bytes of encoded content of a page.", "What concerns this file; QUESTION may be left out.")
@check_evidence_option
@click.pass_context
def command(
    ctx: click.Context, /, question: tuple[str, ...], mode: str | None, check_evidence: bool, **values: Any
) -> None:
    """Find the records that apply to a commit and answer QUESTION, the best first.

    QUESTION is text, never syntax. What was superseded or retracted does not come
    back, and the answer says so when nothing found is plausible. Filters are those
    of `hn memory recall`; `hn help search` explains the ranking.
    """
    if not question and values["path"] is None:
        raise UsageError(
            "usage",
            "search takes a question, but none was given",
            hint='Ask one: hn memory search "why was the queue dropped?", or name a file with --path.',
            field="question",
        )
    session = session_of(ctx)
    with session.service() as service:
        document = service.search(request_of(service, values), " ".join(question), mode, check_evidence=check_evidence)
    from hn_memory.cli.render_search import found

    session.reply(document, found)
