"""Settings of `hn` in the repository's own Git configuration.

Only that file is read (`git config --local`): it is this clone's alone and never travels with the repository, so
that nobody's commit can name a program for somebody else's machine to run, or a host to send memories to.
"""

from __future__ import annotations

import os

from hn_memory.errors import HnError
from hn_memory.repository.base import Repository
from hn_memory.repository.discover import GIT, git_environment
from hn_memory.repository.paths import without_homes
from hn_memory.repository.spawn import run


def own_settings(repository: Repository) -> dict[str, str]:
    """The settings of the section `hn` by their names in lower case, without the section; the last value counts.

    Raises:
        HnError `config-unreadable`.
    """
    layout = repository.layout
    try:
        text = (layout.common_dir / "config").read_bytes().lower()
    except OSError:
        return {}
    # Most clones have none, and then Git need not be asked.
    if b"[hn]" not in text and b"[include" not in text:
        return {}
    command = [*GIT, f"--git-dir={os.fspath(layout.git_dir)}", "config", "--local", "--includes", "-z"]
    done = run([*command, "--get-regexp", r"^hn\.[^.]*$"], git_environment())
    if done.status > 1:
        raise HnError("config-unreadable", f"Git cannot read the configuration: {without_homes(done.reason)}")
    found: dict[str, str] = {}
    for entry in done.stdout.decode("utf-8", "surrogateescape").split("\0"):
        key, newline, value = entry.partition("\n")
        if newline:
            found[key.partition(".")[2]] = value
    return found
