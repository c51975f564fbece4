"""One run of the command line: what the options before the command said, and the answer that it gives."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hn_memory.cli import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hn_memory.service.ahead import Ahead
    from hn_memory.service.service import Service


class Session:
    """The state of one run; click hands it to every command as its object.

    Attributes:
        json: the answer is to be one JSON document. Before parsing is done this is a guess from the arguments.
        ahead: Git children that run already, for the directory in which the command began.
        json_option: `--json` was met as an option.
        git_dir: the argument of `--git-dir`, as given.
        answer: the bytes for stdout, once a command gave them.
        status: the exit status that goes with the answer.
        unwritten: called when the answer could not be written, to take back what nobody has seen.
    """

    def __init__(self, *, json: bool = False, ahead: Ahead | None = None) -> None:
        self.json = json
        self.ahead = ahead
        self.json_option = False
        self.git_dir: str | None = None
        self.answer: bytes | None = None
        self.status = 0
        self.unwritten: Callable[[], None] | None = None

    def parsed(self) -> None:
        """The whole line is parsed: whether `--json` was an option or some other option's value is known."""
        self.json = self.json_option

    @contextmanager
    def service(self) -> Iterator[Service]:
        """The service over the repository we stand in; its notices go to stderr when it is done."""
        from hn_memory.service.service import open_repository

        ahead, self.ahead = self.ahead, None
        # A command is over before libgit2 would be loaded.
        service = open_repository(
            git_dir=self.git_dir, actor=os.environ.get("HN_ACTOR") or None, backend="git", ahead=ahead
        )
        try:
            if output.watched():
                from hn_memory.cli.progress import Progress

                with Progress() as service.environment.progress:
                    yield service
            else:
                yield service
        finally:
            # What was appended is told to the index at the end, which may have something to say of it.
            service.close()
            # One command may ask more than once.
            for line in dict.fromkeys(service.notices):
                output.notice(line)

    def reply(self, document: dict[str, Any], render: Callable[[dict[str, Any]], str], *, status: int = 0) -> None:
        """Set the answer: the document itself, or what `render` makes of it for people."""
        if self.json:
            self.answer = output.json_bytes(document)
        else:
            text = render(document)
            self.answer = (text if text.endswith("\n") or not text else text + "\n").encode("utf-8", "backslashreplace")
        self.status = status
