"""`hn help`: topics from `hn_memory/help/*.md`, and the help of commands."""

from __future__ import annotations

from pathlib import Path

import click

from hn_memory.cli.click_types import TEXT
from hn_memory.cli.command import command as make
from hn_memory.cli.command import session_of
from hn_memory.errors import NotFoundError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


TOPICS: Final = Path(__file__).parents[2] / "help"


@make("help", "Explain a topic or a command.")
@click.argument("words", type=TEXT, metavar="[TOPIC | COMMAND...]", nargs=-1)
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Explain TOPIC, or list the topics. `hn help memory record` shows a command's help."""
    session = session_of(ctx)
    name = " ".join(words)
    if not words:
        listed = topics()
        session.reply({"version": 0, "topics": listed}, _overview)
        return
    if name in topics():
        text = (TOPICS / f"{name}.md").read_text("utf-8")
        session.reply({"version": 0, "topic": name, "help": text}, lambda _: text)
        return
    text = _command_help(ctx, words)
    session.reply({"version": 0, "command": f"hn {name}", "help": text}, lambda _: text)


def topics() -> dict[str, str]:
    """Names of topics with their titles."""
    found: dict[str, str] = {}
    for path in sorted(TOPICS.glob("*.md")):
        with path.open(encoding="utf-8") as file:
            found[path.stem] = file.readline().lstrip("# ").rstrip("\n")
    return found


def _overview(document: dict[str, dict[str, str]]) -> str:
    listed = document["topics"]
    width = max(len(name) for name in listed)
    lines = [f"  {name:<{width}}  {title}" for name, title in listed.items()]
    return "\n".join(["Topics (`hn help TOPIC`):", "", *lines, "", "`hn --help` lists the commands."])


def _command_help(ctx: click.Context, words: tuple[str, ...]) -> str:
    context = ctx.find_root()
    found: click.Command = context.command
    for word in words:
        below = found.get_command(context, word) if isinstance(found, click.Group) else None
        if below is None:
            raise NotFoundError(
                "topic-unknown", f"there is no topic {' '.join(words)[:80]!a}", hint=f"Topics: {', '.join(topics())}."
            )
        found = below
        context = click.Context(found, parent=context, info_name=word)
    return found.get_help(context)
