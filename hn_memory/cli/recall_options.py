"""The flags that `recall`, `search`, `grep` and `duplicates` share: filters, bounds and the cursor."""

from __future__ import annotations

from collections.abc import Mapping

from hn_memory.cli.declare import NUMBER, Option, option, switch
from hn_memory.cli.record_options import kinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from hn_memory.protocol.query import Request
    from hn_memory.service.service import Service

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


def lifecycles() -> tuple[str, ...]:
    """Lifecycles, and `all`."""
    from hn_memory.protocol.projection import LIFECYCLES

    return (*LIFECYCLES, "all")


def trust_classes() -> tuple[str, ...]:
    """The classes of trust."""
    from hn_memory.protocol.policy import TRUST_CLASSES

    return TRUST_CLASSES


CHECK_EVIDENCE: Final = switch("--check-evidence", help="Say whether the code under each record has changed since.")
"""The flag of commands that show records."""


def recall_options(
    content_bytes: str | None, path: str = "Only records bound to this file.", page: str = "Records of a page."
) -> list[Option]:
    """The flags.

    Args:
        content_bytes: what `--max-content-bytes` counts; None for an answer without pages.
        path: what `--path` does.
        page: what `--max-records` counts.
    """
    options = [
        option("--at", metavar="REV", help="The commit to look from.  [default: HEAD]"),
        option("-t", "--topic", name="topics", metavar="TOPIC", multiple=True, help="All must be there. Repeatable."),
        option(
            "-k",
            "--kind",
            name="kinds",
            metavar="KIND",
            multiple=True,
            values=kinds,
            help="assumption, attempt, decision, handoff, observation or verification. Repeatable.",
        ),
        option("-p", "--path", metavar="PATH", help=path),
        option("--subject", metavar="ID", help="The subject that is asked about."),
        option("--actor", name="actors", metavar="ACTOR", multiple=True, help="By this author. Repeatable."),
        option(
            "--lifecycle",
            metavar="STATE",
            multiple=True,
            values=lifecycles,
            help="active, superseded, retracted, branching, dependency-missing, or all alone. Repeatable.  "
            "[default: active]",
        ),
        option(
            "--trust",
            metavar="CLASS",
            multiple=True,
            values=trust_classes,
            help="qualified, policy-missing, actor-untrusted or kind-untrusted. Repeatable.  [default: qualified]",
        ),
        switch("--include-untrusted", help="Show every trust class; it stays what it is."),
        option("-n", "--max-records", type=NUMBER, metavar="N", help=f"{page}  [default: 20]"),
    ]
    if content_bytes is not None:
        options += [
            option("--max-content-bytes", type=NUMBER, metavar="N", help=f"{content_bytes}  [default: 65536]"),
            option("--cursor", metavar="CURSOR", help="Go on after the page that gave this nextCursor."),
        ]
    return options


def request_of(service: Service, values: Mapping[str, Any]) -> Request:
    """The request that the flags make, by the names of `FLAGS`; paths are relative to where one stands."""
    from hn_memory.protocol.query import Request

    path = values["path"]
    if path is not None:
        from hn_memory.service.read import recall_path

        path = recall_path(service.environment, path)
    return Request(**{**values, "at": "HEAD" if values["at"] is None else values["at"], "path": path})
