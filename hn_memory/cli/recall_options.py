"""The flags that `recall`, `search`, `grep` and `duplicates` share: filters, bounds and the cursor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from hn_memory.cli.inputs import TEXT
from hn_memory.cli.record_options import complete_kinds

if TYPE_CHECKING:
    from hn_memory.protocol.query import Request
    from hn_memory.service.service import Service

_Function = TypeVar("_Function", bound=Callable[..., Any])

FLAGS: Final = {
    "at": "--at",
    "subject": "--subject",
    "path": "--path",
    "topics": "--topic",
    "kinds": "--kind",
    "actors": "--actor",
    "lifecycle": "--lifecycle",
    "trust": "--trust",
    "max_records": "--max-records",
    "max_content_bytes": "--max-content-bytes",
    "cursor": "--cursor",
    "include_untrusted": "--include-untrusted",
}
"""Options that narrow or bound an answer, by the parameters that they fill."""


def complete_lifecycles(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Shell completion of lifecycles, with `all`."""
    from hn_memory.protocol.projection import LIFECYCLES

    return [name for name in (*LIFECYCLES, "all") if name.startswith(incomplete)]


def complete_trust(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Shell completion of trust classes."""
    from hn_memory.protocol.policy import TRUST_CLASSES

    return [name for name in TRUST_CLASSES if name.startswith(incomplete)]


def check_evidence_option(function: _Function) -> _Function:
    """The flag of commands that show records."""
    add = click.option(
        "--check-evidence", is_flag=True, help="Say whether the code under each record has changed since."
    )
    return add(function)


def recall_options(
    content_bytes: str | None, path: str = "Only records bound to this file.", page: str = "Records of a page."
) -> Callable[[_Function], _Function]:
    """The decorator that adds the flags.

    Args:
        content_bytes: what `--max-content-bytes` counts; None for an answer without pages.
        path: what `--path` does.
        page: what `--max-records` counts.
    """
    options = [
        click.option("--at", type=TEXT, metavar="REV", help="The commit to look from.  [default: HEAD]"),
        click.option(
            "-t", "--topic", "topics", type=TEXT, metavar="TOPIC", multiple=True, help="All must be there. Repeatable."
        ),
        click.option(
            "-k",
            "--kind",
            "kinds",
            type=TEXT,
            metavar="KIND",
            multiple=True,
            shell_complete=complete_kinds,
            help="assumption, attempt, decision, handoff, observation or verification. Repeatable.",
        ),
        click.option("-p", "--path", type=TEXT, metavar="PATH", help=path),
        click.option("--subject", type=TEXT, metavar="ID", help="The subject that is asked about."),
        click.option(
            "--actor", "actors", type=TEXT, metavar="ACTOR", multiple=True, help="By this author. Repeatable."
        ),
        click.option(
            "--lifecycle",
            type=TEXT,
            metavar="STATE",
            multiple=True,
            shell_complete=complete_lifecycles,
            help="active, superseded, retracted, branching, dependency-missing, or all alone. Repeatable.  "
            "[default: active]",
        ),
        click.option(
            "--trust",
            type=TEXT,
            metavar="CLASS",
            multiple=True,
            shell_complete=complete_trust,
            help="qualified, policy-missing, actor-untrusted or kind-untrusted. Repeatable.  [default: qualified]",
        ),
        click.option("--include-untrusted", is_flag=True, help="Show every trust class; it stays what it is."),
        click.option("-n", "--max-records", type=int, metavar="N", help=f"{page}  [default: 20]"),
    ]
    if content_bytes is not None:
        options += [
            click.option("--max-content-bytes", type=int, metavar="N", help=f"{content_bytes}  [default: 65536]"),
            click.option(
                "--cursor", type=TEXT, metavar="CURSOR", help="Go on after the page that gave this nextCursor."
            ),
        ]

    def add(function: _Function) -> _Function:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def request_of(service: Service, values: Mapping[str, Any]) -> Request:
    """The request that the flags make, by the names of `FLAGS`; paths are relative to where one stands."""
    from hn_memory.protocol.query import Request

    path = values["path"]
    if path is not None:
        from hn_memory.service.read import recall_path

        path = recall_path(service.environment, path)
    return Request(**{**values, "at": "HEAD" if values["at"] is None else values["at"], "path": path})
