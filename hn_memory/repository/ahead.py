"""Git children started before it is known what they will be asked.

A command of the terminal spends its first half on loading its own code, and needs Git right after. Git looks
for the repository, reads the refs and waits for questions about objects meanwhile, on another core. The
children see what they would see later: the same directory, configuration and environment. What they answer is
used only for the repository around the current directory; for any other one they are stopped, unasked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hn_memory.errors import HnError
from hn_memory.protocol.identifiers import LOCAL_PREFIX, REMOTES_PREFIX
from hn_memory.repository.discover import GIT, git_environment, layout_question, settings_question
from hn_memory.repository.spawn import Child

REF_FORMAT = "--format=%(refname)%00%(objectname)%00%(symref)"
SOURCE_PREFIXES = (LOCAL_PREFIX, REMOTES_PREFIX)
OBJECT_QUESTIONS = ("cat-file", "--batch-command", "--buffer")


class Ahead:
    """Running children, each of which one asker may take over."""

    __slots__ = ("_children",)

    def __init__(self, *, refs: bool) -> None:
        """Start them; without a Git there is none, and whoever needs it will say so.

        Args:
            refs: list the memory refs, for a command that needs no later state of them than its own start.
        """
        self._children: dict[str, Child] = {}
        env = git_environment()
        inside = backend_environment(env)
        try:
            self._start("layout", layout_question(GIT), env)
            self._start("settings", settings_question(GIT), env)
            self._start("objects", [*GIT, *OBJECT_QUESTIONS], inside)
            if refs:
                self._start("refs", [*GIT, *listing(SOURCE_PREFIXES)], inside)
        except (HnError, OSError):
            self.stop()

    def _start(self, name: str, argv: Sequence[str], env: Mapping[str, str]) -> None:
        self._children[name] = Child(argv, env)

    def take(self, name: str) -> Child | None:
        """The child of that name (`layout`, `settings`, `objects`, `refs`), which is the caller's from now on."""
        return self._children.pop(name, None)

    def stop(self) -> None:
        """End those that nobody took. Safe to call twice."""
        children, self._children = self._children, {}
        for child in children.values():
            child.stop()


def backend_environment(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of children that read an open repository (`discover.git_environment` plus ours).

    The shallow file is set aside, so that a boundary commit shows the parents it records; nothing is fetched.
    """
    return {**env, "GIT_SHALLOW_FILE": "", "GIT_NO_LAZY_FETCH": "1"}


def listing(prefixes: Sequence[str]) -> list[str]:
    """The arguments that list the refs below the prefixes: name, object ID and target of a symbolic one."""
    return ["for-each-ref", REF_FORMAT, "--", *(prefix.rstrip("/") for prefix in prefixes)]
