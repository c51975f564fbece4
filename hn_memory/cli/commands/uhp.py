"""`hn uhp`: serve memories to harnesses over HTTP. Everything behind it is loaded when it runs."""

from __future__ import annotations

import gc
import os
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click

from hn_memory.cli.click_types import FILE, TEXT
from hn_memory.cli.command import LazyGroup, session_of
from hn_memory.cli.command import command as make
from hn_memory.errors import HnError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hn_memory.cli.session import Session

COMMANDS: Final = {
    "serve": "Serve this repository's memories over HTTP.",
    "key": "Make, list and revoke API keys.",
    "group": "Change and list groups of principals.",
}
KEY_COMMANDS: Final = {
    "create": "Make a key for a principal.",
    "list": "List all keys, without their texts.",
    "revoke": "End a key.",
}
GROUP_COMMANDS: Final = {
    "add": "Add members to a group.",
    "remove": "Remove members from a group.",
    "list": "List groups and their members.",
}
_GARBAGE: Final = 100_000
"""Objects made and not freed after which a server looks for those that only refer to each other."""


@click.command("uhp", cls=LazyGroup, table=COMMANDS)
def command() -> None:
    """Serve memories to harnesses: the Unified Harness Protocol's Memories.

    Needs the extra `hn-memory[uhp]`. See `hn help uhp`.
    """


def _state_option() -> Callable[[Any], Any]:
    return click.option(
        "--state",
        type=TEXT,
        metavar="URL",
        help="Where the server's own state is (postgresql://...).  [default: a private file of the repository]",
    )


@make("serve", COMMANDS["serve"])
@click.option("--host", type=TEXT, metavar="HOST", default="127.0.0.1", show_default=True, help="Address to bind.")
@click.option(
    "--port", type=click.IntRange(0, 65535), metavar="PORT", default=8765, show_default=True, help="0: any free one."
)
@_state_option()
@click.option(
    "--workers", type=click.IntRange(1, 64), metavar="N", default=1, show_default=True, help="Processes that answer."
)
@click.option(
    "--roots",
    type=click.Choice(["any", "admin"]),
    default="any",
    show_default=True,
    help="Who may create a memory without a parent.",
)
@click.option("--types", type=FILE, metavar="FILE", help="Further types of records, as JSON.")
@click.option("--observe-later", is_flag=True, help="Answer observe with 202 and write the episodes afterwards.")
@click.option(
    "--consolidate",
    type=click.FloatRange(0, 8760),
    metavar="HOURS",
    default=0.0,
    help="Consolidate memories by themselves, each at most that often.  [default: only when asked]",
)
@click.option("--tls-cert", type=FILE, metavar="FILE", help="Certificate chain to serve HTTPS with.")
@click.option("--tls-key", type=FILE, metavar="FILE", help="Its private key.")
@click.option("--insecure-http", is_flag=True, help="Serve other addresses than loopback without encryption.")
@click.pass_context
def serve(ctx: click.Context, /, **values: Any) -> None:
    """Serve this repository's memories over HTTP until stopped.

    The first start prints the administrator's key, this once. Log lines go to
    standard error, as JSON, and hold nothing of a request's content.
    """
    # A command ends before garbage could matter; a server does not.
    gc.set_threshold(_GARBAGE)
    session = session_of(ctx)
    if values["consolidate"] != values["consolidate"]:
        raise UsageError("usage", "--consolidate is no number of hours", field="consolidate")
    operate = _load("operate")
    listening = operate.Listening(
        host=values["host"],
        port=values["port"],
        workers=values["workers"],
        certificate=_file(values["tls_cert"]),
        private_key=_file(values["tls_key"]),
        insecure=values["insecure_http"],
    )
    types = () if values["types"] is None else _load("types").read_types(_file(values["types"]))
    more = {name: values[name] for name in ("roots", "consolidate")}
    settings = _settings(session, values["state"], **more, jobs=values["observe_later"], types=types)
    operate.serve(settings, listening, lambda document: _announce(session, document))


def _announce(session: Session, document: dict[str, Any]) -> bool:
    """Answer at once: the command itself ends only with the server. False when the answer could not be written."""
    from hn_memory.cli import output

    lines = [f"listening on {document['url']}"]
    if "administratorKey" in document:
        lines.append(f"administrator key, shown once: {document['administratorKey']}")
    text = "".join(f"{line}\n" for line in lines)
    return output.write_out(output.json_bytes(document) if session.json else text.encode()) == 0


@click.command("key", cls=LazyGroup, table=KEY_COMMANDS)
def key() -> None:
    """Make, list and revoke API keys. A key speaks for one principal."""


@make("create", KEY_COMMANDS["create"])
@click.option(
    "--principal",
    type=TEXT,
    metavar="KIND:ID",
    help="Whom it speaks for: harness:..., credential:... or person:...",
)
@click.option("--administrator", is_flag=True, help="Make another administrator's key, in place of one that is lost.")
@click.option(
    "--privileges",
    type=TEXT,
    metavar="LIST",
    default="read,write,create,delete",
    show_default=True,
    help="The most it may ever do, whatever its principal is granted.",
)
@_state_option()
@click.pass_context
def key_create(
    ctx: click.Context, principal: str | None, administrator: bool, privileges: str, state: str | None
) -> None:
    """Make a key for a principal. It is shown once and kept as a digest."""
    if (principal is None) != administrator:
        raise UsageError(
            "usage",
            "a key speaks for one principal or is the administrator's",
            hint="Give --principal KIND:ID, or --administrator.",
            field="principal",
        )
    names = [name.strip() for name in privileges.split(",") if name.strip()]
    _reply(
        ctx,
        state,
        lambda keys, store: keys.create_key(store, principal or keys.ADMINISTRATOR, names, administrator=administrator),
        lambda made: (
            f"key {made['id']} of {made['principal']} ({', '.join(made['privileges'])}), shown once:\n{made['key']}\n"
        ),
        take_back=lambda keys, store, made: keys.revoke_key(store, made["id"]),
    )


@make("list", KEY_COMMANDS["list"])
@_state_option()
@click.pass_context
def key_list(ctx: click.Context, state: str | None) -> None:
    """List all keys, without their texts."""

    def render(document: dict[str, Any]) -> str:
        return "".join(
            f"{one['id']} {one['principal']} {','.join(one['privileges'])}{' revoked' if one['revokedAt'] else ''}\n"
            for one in document["keys"]
        )

    _reply(ctx, state, lambda keys, store: keys.list_keys(store), render)


@make("revoke", KEY_COMMANDS["revoke"])
@click.argument("name", type=TEXT, metavar="ID")
@_state_option()
@click.pass_context
def key_revoke(ctx: click.Context, name: str, state: str | None) -> None:
    """End a key, by its ID; servers refuse it from their next request on."""
    _reply(
        ctx,
        state,
        lambda keys, store: keys.revoke_key(store, name),
        lambda done: f"revoked {done['id']} of {done['principal']}\n",
    )


@click.command("group", cls=LazyGroup, table=GROUP_COMMANDS)
def group() -> None:
    """Change and list groups; a grant to group:NAME holds for every member."""


def _members(document: dict[str, Any]) -> str:
    return f"{document['group']}: {', '.join(document['members']) or '(nobody)'}\n"


@make("add", GROUP_COMMANDS["add"])
@click.argument("name", type=TEXT, metavar="GROUP")
@click.argument("members", type=TEXT, metavar="KIND:ID...", nargs=-1, required=True)
@_state_option()
@click.pass_context
def group_add(ctx: click.Context, name: str, members: tuple[str, ...], state: str | None) -> None:
    """Add members to a group; a member may be a group."""
    _reply(ctx, state, lambda keys, store: keys.change_group(store, name, members), _members)


@make("remove", GROUP_COMMANDS["remove"])
@click.argument("name", type=TEXT, metavar="GROUP")
@click.argument("members", type=TEXT, metavar="KIND:ID...", nargs=-1, required=True)
@_state_option()
@click.pass_context
def group_remove(ctx: click.Context, name: str, members: tuple[str, ...], state: str | None) -> None:
    """Remove members from a group."""
    _reply(ctx, state, lambda keys, store: keys.change_group(store, name, (), members), _members)


@make("list", GROUP_COMMANDS["list"])
@_state_option()
@click.pass_context
def group_list(ctx: click.Context, state: str | None) -> None:
    """List groups and their members."""
    _reply(
        ctx,
        state,
        lambda keys, store: keys.list_groups(store),
        lambda document: "".join(map(_members, document["groups"])),
    )


for _of, _subcommands in (
    (command, (serve, key, group)),
    (key, (key_create, key_list, key_revoke)),
    (group, (group_add, group_remove, group_list)),
):
    for _subcommand in _subcommands:
        _of.add_command(_subcommand)


def _reply(
    ctx: click.Context,
    state: str | None,
    run: Callable[[Any, Any], dict[str, Any]],
    render: Callable[[dict[str, Any]], str],
    take_back: Callable[[Any, Any, dict[str, Any]], Any] | None = None,
) -> None:
    session = session_of(ctx)
    keys = _load("state.keys")
    with _store(session, state) as store:
        document = run(keys, store)
    session.reply(document, render)
    if take_back is not None:

        def unseen() -> None:
            with _store(session, state) as store:
                take_back(keys, store, document)

        session.unwritten = unseen


@contextmanager
def _store(session: Session, state: str | None) -> Iterator[Any]:
    store = _load("server").open_state(_settings(session, state))
    try:
        yield store
    finally:
        store.close()


def _settings(session: Session, state: str | None, **more: Any) -> Any:
    return _load("server").Settings(
        git_dir=session.git_dir, actor=os.environ.get("HN_ACTOR") or None, state=state, **more
    )


def _file(name: str | None) -> str | None:
    from hn_memory.cli.inputs import file_name

    return None if name is None else file_name(name)


def _load(module: str) -> Any:
    """A module of the server. By name, because the command line stands without it."""
    try:
        return import_module(f"hn_memory.uhp.{module}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("hn_memory"):
            raise
        raise HnError(
            "uhp-not-installed",
            f"`hn uhp` needs the extra hn-memory[uhp]: {error.name} is missing",
            hint="Install hn again with its extra `uhp`; from a clone that is: pip install '.[uhp]'",
        ) from None
