"""The flags that `record`, `supersede` and `handoff` share, and what they amount to."""

from __future__ import annotations

from collections.abc import Mapping

from hn_memory.cli.declare import FILE, Option, option
from hn_memory.cli.inputs import STDIN, read_bytes, read_text
from hn_memory.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from hn_memory.service.building import RecordArguments

# Options that say what to record and so exclude --input, with the names they have on the command line.
_EXCLUSIVE: Final = {
    "kind": "--kind",
    "text": "content",
    "content": "--content",
    "content_file": "--content-file",
    "at": "--at",
    "applies": "--applies",
    "topics": "--topic",
    "evidence": "--evidence",
    "paths": "--path",
    "blobs": "--blob",
    "subject": "--subject",
    "outcome": "--outcome",
    "completed": "--completed",
    "assumptions": "--assumption",
    "blockers": "--blocker",
    "next_actions": "--next-action",
    "stream": "--stream",
}
_CONTEXT: Final = ("at", "applies")


def kinds() -> tuple[str, ...]:
    """The kinds of records."""
    from hn_memory.protocol.identifiers import KINDS

    return KINDS


def modes() -> tuple[str, ...]:
    """Where a record may apply."""
    from hn_memory.protocol.record import MODES

    return MODES


KIND: Final = option(
    "-k",
    "--kind",
    metavar="KIND",
    values=kinds,
    help="assumption, attempt, decision, handoff, observation or verification.",
)
EVIDENCE: Final = option(
    "-e",
    "--evidence",
    metavar="ID",
    multiple=True,
    help="git:OID, event:sha256:HEX or memory:sha256:HEX. Repeatable.",
)
STREAM: Final = option("--stream", metavar="ID", help="The stream to append to, or `new`.")
"""What several of the commands that write take."""


def record_options(*, handoff: bool = False) -> list[Option]:
    """The flags; `handoff` leaves out those that other kinds need."""
    return [
        option("-m", "--content", metavar="TEXT", help="What to record."),
        option("--content-file", type=FILE, metavar="FILE", help="Read it from FILE, or from standard input with `-`."),
        option("--at", metavar="REV", help="The commit it is about.  [default: HEAD]"),
        option(
            "--applies",
            metavar="MODE",
            values=modes,
            help="exact, descendants or subject.  [default: descendants]",
        ),
        option("-t", "--topic", name="topics", metavar="TOPIC", multiple=True, help="A label. Repeatable."),
        EVIDENCE,
        option("-p", "--path", name="paths", metavar="PATH", multiple=True, help="A file it is about. Repeatable."),
        option(
            "--blob",
            name="blobs",
            metavar="OID",
            multiple=True,
            help="Insist on the blob of the --path in the same place: its full ID, or `absent`.",
        ),
        option("--subject", metavar="ID", help="issue:, proposal:, event:, policy:, pipeline: or run:sha256:HEX."),
        *([] if handoff else [option("--outcome", metavar="TOKEN", help="How an attempt ended.")]),
        *(
            option(flag, name=name, metavar="TEXT", multiple=True, help=f"{what} (handoff). Repeatable.")
            for flag, name, what in (
                ("--completed", "completed", "Done"),
                ("--assumption", "assumptions", "Taken for granted"),
                ("--blocker", "blockers", "In the way"),
                ("--next-action", "next_actions", "Proposed next step, inert"),
            )
        ),
        STREAM,
        option(
            "--input",
            name="input_file",
            type=FILE,
            metavar="FILE",
            help="Read a JSON request from FILE, or `-`, instead.",
        ),
        option(
            "--allow-secret",
            name="allow_secret",
            metavar="RULE",
            multiple=True,
            help="Sign although this rule sees a credential. Repeatable.",
        ),
    ]


def record_arguments(values: Mapping[str, Any], *, kind: str | None = None) -> RecordArguments:
    """What the flags ask to have recorded.

    Args:
        values: the parameters of the command.
        kind: the kind that the command writes, when it writes one only.

    Raises:
        UsageError: flags that exclude each other, or a missing kind or content.
    """
    from hn_memory.protocol.record import Handoff
    from hn_memory.service.building import RecordArguments

    if values["input_file"] is not None:
        return _from_input(values, kind)
    chosen = kind or values["kind"]
    if chosen is None:
        from hn_memory.protocol.identifiers import KINDS

        raise UsageError("usage", "a record needs a --kind", hint=f"Kinds: {', '.join(KINDS)}.", field="kind")
    content = _content(values)
    lists = {name: tuple(values[name]) for name in ("completed", "assumptions", "blockers", "next_actions")}
    return RecordArguments(
        kind=chosen,
        content=content,
        at=values["at"],
        applies=values["applies"],
        topics=tuple(values["topics"]),
        evidence=tuple(values["evidence"]),
        paths=_paths(values["paths"], values["blobs"]),
        subject=values["subject"],
        outcome=values.get("outcome"),
        handoff=Handoff(**lists) if chosen == "handoff" or any(lists.values()) else None,
        stream=values["stream"],
    )


def _from_input(values: Mapping[str, Any], kind: str | None) -> RecordArguments:
    from hn_memory.protocol import limits
    from hn_memory.protocol.requests import read_record_request
    from hn_memory.service.building import RecordArguments

    handoff = kind == "handoff"
    for name, flag in _EXCLUSIVE.items():
        if values.get(name) not in (None, ()) and not (handoff and name in _CONTEXT):
            raise UsageError(
                "usage",
                f"Other record flags cannot be combined with --input (here: {flag})",
                hint="Say it in the JSON, or leave --input out.",
                field=flag.lstrip("-"),
            )
    data = read_bytes(values["input_file"], limits.REQUEST_BYTES, "--input")
    request = read_record_request(data, context_optional=handoff, kind=kind)
    return RecordArguments(at=values["at"], applies=values["applies"], request=request)


def _content(values: Mapping[str, Any]) -> str:
    """The content from the one source that was given."""
    from hn_memory.protocol import limits

    argument, option, file = values["text"], values["content"], values["content_file"]
    given = [name for name in ("text", "content", "content_file") if values[name] is not None]
    if not given:
        raise UsageError(
            "usage",
            "there is nothing to record",
            hint="Give the text as an argument, with --content TEXT, with --content-file FILE, or `-` for standard "
            "input, which is the way for long texts.",
            field="content",
        )
    if len(given) > 1:
        names = {"text": "an argument", "content": "--content", "content_file": "--content-file"}
        raise UsageError(
            "usage",
            f"the content is given more than once: {' and '.join(names[name] for name in given)}",
            hint="Choose one.",
            field="content",
        )
    if argument == STDIN:
        file = STDIN
    if file is not None:
        return read_text(file, limits.CONTENT_BYTES, "content", "record.content")
    return str(argument if option is None else option)


def _paths(paths: tuple[str, ...], blobs: tuple[str, ...]) -> tuple[tuple[str, str | None], ...]:
    if blobs and len(blobs) != len(paths):
        raise UsageError(
            "usage",
            f"{len(paths)} --path and {len(blobs)} --blob do not pair up",
            hint="Give a --blob for every --path, in the same order, or none at all.",
            field="blob",
        )
    return tuple(zip(paths, blobs or [None] * len(paths), strict=True))
