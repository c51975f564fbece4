"""A remote as the main repository knows it: its name, and the settings that reach it.

Transport and credentials are configured in the main repository; the quarantine is handed exactly these settings
(through its environment, so that no credential is written anywhere) and nothing else of that configuration.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from hn_memory.errors import HnError, NotFoundError, UsageError
from hn_memory.protocol.selection import check_remote
from hn_memory.repository.base import Repository
from hn_memory.repository.discover import GIT, git_environment
from hn_memory.repository.paths import without_homes
from hn_memory.repository.spawn import run
from hn_memory.values import NamedTuple

_SECTIONS: Final = ("credential.", "http.", "url.", "ssh.", "protocol.")
_CORE: Final = frozenset({"core.sshcommand", "core.gitproxy", "core.askpass"})
_REMOTE: Final = frozenset({"url", "pushurl", "proxy", "proxyauthmethod", "uploadpack", "receivepack", "vcs"})
# Values of these add up, and an empty one starts anew.
_LISTS: Final = ("helper", "extraheader")
# A shorter word is no credential, and blotting it out would make a text unreadable.
_SECRET: Final = 6


class Remote(NamedTuple):
    """One remote. `settings` are the Git settings that reach it; `bundle` is a file that stands in for one."""

    name: str
    settings: tuple[tuple[str, str], ...]
    ssh_command: str | None
    bundle: bool = False

    @property
    def secrets(self) -> list[str]:
        """What goes to the server in headers of the user's; the credential without its scheme, too."""
        headers = [value.partition(":")[2].strip() for key, value in self.settings if key.endswith(".extraheader")]
        words = [word for header in headers for word in (header, header.rpartition(" ")[2])]
        return sorted({word for word in words if len(word) >= _SECRET}, key=len, reverse=True)

    def environment(self) -> dict[str, str]:
        """The settings, as Git takes them from its environment."""
        env = {"GIT_CONFIG_COUNT": str(len(self.settings))}
        for at, (key, value) in enumerate(self.settings):
            env[f"GIT_CONFIG_KEY_{at}"], env[f"GIT_CONFIG_VALUE_{at}"] = key, value
        return env


def find_remote(repository: Repository, name: str | None) -> Remote:
    """A configured remote; for None the only one, or `origin`.

    Raises:
        UsageError `remote-invalid`, `remote-missing`; NotFoundError `remote-unknown`.
    """
    if name is not None:
        check_remote(name)
    entries = _configuration(repository)
    if name is None:
        name = check_remote(_default(_names(entries)))
    if not any(key in (f"remote.{name}.url", f"remote.{name}.pushurl") for _, key, _ in entries):
        known = _names(entries)
        raise NotFoundError(
            "remote-unknown",
            f"there is no remote {name}",
            hint=f"Remotes here: {', '.join(known[:10])}." if known else "Add one with `git remote add`.",
            field="remote",
        )
    settings: list[tuple[str, str]] = []
    begun: set[str] = set()
    ssh_command = None
    for scope, key, value in entries:
        section, _, variable = key.rpartition(".")
        if key == "core.sshcommand":
            ssh_command = value
        if section == f"remote.{name}" and variable in _REMOTE:
            # The quarantine reads the user's own settings itself.
            wanted = scope in ("local", "worktree", "command")
        else:
            wanted = key.startswith(_SECTIONS) or key in _CORE
        if not wanted:
            continue
        if variable in _LISTS and key not in begun:
            begun.add(key)
            settings.append((key, ""))
        settings.append((key, value))
    return Remote(name, tuple(settings), ssh_command)


def bundle_remote(name: str, path: Path) -> Remote:
    """A bundle file that is read as a remote of that name."""
    check_remote(name)
    return Remote(name, ((f"remote.{name}.url", str(path.absolute())),), None, bundle=True)


def remote_names(repository: Repository) -> list[str]:
    """Names of all remotes, sorted."""
    return _names(_configuration(repository))


def command_place(repository: Repository) -> list[str]:
    """`git -C` where relative URLs are meant from."""
    layout = repository.layout
    return [*GIT, "-C", os.fspath(layout.work_tree or layout.git_dir)]


def _names(entries: list[tuple[str, str, str]]) -> list[str]:
    return sorted({key.split(".", 1)[1].rpartition(".")[0] for _, key, _ in entries if _is_url(key)})


def _default(names: list[str]) -> str:
    if not names:
        raise NotFoundError(
            "remote-unknown", "this repository has no remote", hint="Add one with `git remote add`.", field="remote"
        )
    if len(names) > 1 and "origin" not in names:
        raise UsageError(
            "remote-missing", "there are several remotes and none is called origin", hint="Name one.", field="remote"
        )
    return "origin" if "origin" in names else names[0]


def _is_url(key: str) -> bool:
    return key.startswith("remote.") and key.endswith((".url", ".pushurl"))


def _configuration(repository: Repository) -> list[tuple[str, str, str]]:
    """Scope, key and value of every setting, in order. A setting without a value is true."""
    command = [*command_place(repository), f"--git-dir={repository.layout.git_dir}"]
    done = run([*command, "config", "-z", "--show-scope", "--list", "--includes"], git_environment())
    if done.status:
        raise HnError("config-unreadable", f"Git cannot read the configuration: {without_homes(done.reason)}")
    fields = done.stdout.decode("utf-8", "surrogateescape").split("\0")
    entries: list[tuple[str, str, str]] = []
    for scope, entry in zip(fields[0::2], fields[1::2], strict=False):
        key, newline, value = entry.partition("\n")
        entries.append((scope, key, value if newline else "true"))
    return entries
