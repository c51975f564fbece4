"""Find the repository, and make the environment in which every Git child of ours runs.

Which repository we work in is decided by the directory we stand in, or by the user's explicit `--git-dir`;
never by a variable that some surrounding hook, alias or agent happened to export.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from hn_memory.errors import HnError, NotFoundError
from hn_memory.repository.base import Layout, ObjectFormat
from hn_memory.repository.paths import display, without_homes
from hn_memory.repository.spawn import Child, Completed, collect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from hn_memory.repository.ahead import Ahead

# Everything named GIT_* is dropped but these. They say how to reach remotes, whom to trust there and where the
# user's own configuration lives; none of them can name another repository, object store or ref.
_KEPT = frozenset(
    {
        "GIT_ALLOW_PROTOCOL",
        "GIT_ASKPASS",
        "GIT_CEILING_DIRECTORIES",
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_CONFIG_SYSTEM",
        "GIT_DISCOVERY_ACROSS_FILESYSTEM",
        "GIT_NO_LAZY_FETCH",
        "GIT_PROTOCOL_FROM_USER",
        "GIT_PROXY_COMMAND",
        "GIT_SSH",
        "GIT_SSH_COMMAND",
        "GIT_SSH_VARIANT",
    }
)
_KEPT_PREFIXES = ("GIT_SSL_", "GIT_PROXY_SSL_", "GIT_HTTP_")

_FIXED = {
    "LC_ALL": "C",
    "GIT_NO_REPLACE_OBJECTS": "1",
    # A path that cannot exist, so no grafts: /dev/null itself would make Git advise about grafts each time.
    "GIT_GRAFT_FILE": "/dev/null/grafts",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_ADVICE": "0",
}

# No hook of the repository or the user runs under us, least of all one that calls us again.
GIT = ("git", "-c", "core.hooksPath=/dev/null")

_SETTINGS = r"^(remote\..*\.promisor|extensions\.partialclone|core\.(sharedrepository|fsync|fsyncobjectfiles))$"
_UNSAFE = ("detected dubious ownership", "unsafe repository", "cannot use bare repository")
_FALSE = ("false", "no", "off", "0", "")


def git_environment() -> dict[str, str]:
    """The environment of every Git child: the caller's, without what redirects Git, with what steadies it.

    Inherited `GIT_DIR`, `GIT_INDEX_FILE`, `GIT_OBJECT_DIRECTORY`, `GIT_CONFIG_COUNT` and their like are gone;
    credentials, transports, `GIT_CONFIG_GLOBAL` and `GIT_NO_LAZY_FETCH` stay. Replace refs and grafts are off
    (spec section 2), messages are English, nothing asks questions. HOME may be missing.
    """
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name in _KEPT or name.startswith(_KEPT_PREFIXES)
    }
    env.update(_FIXED)
    return env


def lazy_fetch_forbidden() -> bool:
    """Has the user set `GIT_NO_LAZY_FETCH` to something Git takes for true?"""
    return os.environ.get("GIT_NO_LAZY_FETCH", "").lower() not in _FALSE


_QUESTIONS = (
    *("--is-bare-repository", "--is-shallow-repository", "--show-object-format", "--show-ref-format"),
    *("--path-format=absolute", "--git-dir", "--git-common-dir", "--show-prefix", "--show-toplevel"),
)


def layout_question(base: Sequence[str]) -> list[str]:
    """The command that says where the repository is and of what kind."""
    return [*base, "rev-parse", *_QUESTIONS]


def settings_question(base: Sequence[str]) -> list[str]:
    """The command that says whether a remote promises objects, and whether objects are written in special ways."""
    return [*base, "config", "-z", "--get-regexp", _SETTINGS]


def discover(start: Path | None, *, git_dir: Path | None = None, ahead: Ahead | None = None) -> Layout:
    """Find the repository around `start` (None: the current directory), or the one at `git_dir`.

    Two Git children run side by side, so that the answer takes the time of one; or they run already, `ahead`,
    for the current directory.

    Raises:
        NotFoundError `not-a-repository`: there is none.
        HnError `repository-unsafe`: Git does not trust its owner (safe.directory, safe.bareRepository).
        HnError `repository-unusable`: Git cannot open it (unknown extension, broken configuration).
        HnError `git-missing`: Git is not installed, or older than 2.31.
    """
    env = git_environment()
    base = [*GIT]
    if start is not None:
        base += ["-C", os.fspath(start)]
    if git_dir is not None:
        # Git would read it from `start`; a person means it from where they stand.
        base.append(f"--git-dir={os.path.abspath(git_dir)}")  # noqa: PTH100
    asked = (ahead and ahead.take("layout")) or Child(layout_question(base), env)
    try:
        settings = (ahead and ahead.take("settings")) or Child(settings_question(base), env)
        try:
            done = collect(asked)
            found_settings = collect(settings).stdout.split(b"\0")
        finally:
            settings.stop()
    finally:
        asked.stop()
    lines = os.fsdecode(done.stdout).split("\n")[:-1]
    if len(lines) < 7:
        raise _refusal(done, git_dir or start)
    if "--path-format=absolute" in lines:
        raise HnError("git-missing", "this Git is too old", hint="install Git 2.31 or newer")
    if len(lines) > 8:
        # A path with a newline in it: ask for the four paths one at a time.
        lines[4:] = [_single(base, env, question) for question in _QUESTIONS[5:]]
    bare, shallow, object_format, ref_format, found, common, prefix, *top = lines
    tree = top[0] if top and top[0] else None
    if tree is None and bare == "false" and git_dir is None:
        tree = _tree_of(found)
    if git_dir is not None:
        tree, prefix = _explicit(found, bare == "true", tree, prefix, start)
    return Layout(
        git=found,
        common=common,
        tree=tree,
        store=f"{common}/objects",
        object_format=_object_format(object_format),
        # Git before 2.45 echoes the question, and knows nothing but files.
        ref_format="files" if ref_format.startswith("--") else ref_format,
        shallow=shallow == "true",
        promisor=_promisor(found_settings),
        prefix=prefix.rstrip("/"),
        plain_store=not any(entry.startswith(b"core.") for entry in found_settings),
    )


def _promisor(settings: Sequence[bytes]) -> bool:
    """Does any remote promise objects? A `remote.*.promisor` without a value means true, as in Git."""
    last: dict[str, bool] = {}
    for entry in settings:
        name, equals, value = entry.decode("utf-8", "replace").partition("\n")
        if name and not name.startswith("core."):
            last[name] = bool(value) if name == "extensions.partialclone" else not equals or value.lower() not in _FALSE
    return any(last.values())


def _tree_of(git: str) -> str | None:
    """The work tree of a Git directory in which somebody stands, when its place tells."""
    from pathlib import Path

    git_dir = Path(git)
    if git_dir.name == ".git":
        return str(git_dir.parent)
    try:
        # A linked worktree: the file `gitdir` names the `.git` file of the tree.
        pointer = os.fsdecode((git_dir / "gitdir").read_bytes()).rstrip("\n")
    except OSError:
        return None
    tree = Path(os.path.normpath(git_dir / pointer)).parent
    return str(tree) if tree.is_dir() else None


def _explicit(git: str, bare: bool, named: str | None, prefix: str, start: Path | None) -> tuple[str | None, str]:
    """Work tree and prefix for an explicit `--git-dir`.

    Git takes the current directory for the root of the work tree then, and path anchors would silently mean
    other files; where the place of the Git directory tells the tree, we take that one.
    """
    if bare:
        return None, ""
    from pathlib import Path

    here = Path(os.path.realpath(start or Path()))
    place = _tree_of(git)
    if place is None or (named is not None and Path(named) != here):
        return named, prefix
    tree = Path(os.path.realpath(place))
    inside = here == tree or tree in here.parents
    relative = here.relative_to(tree).as_posix() if inside else ""
    return str(tree), "" if relative == "." or relative.split("/")[0] == ".git" else relative


def _object_format(name: str) -> ObjectFormat:
    if name == "sha1":
        return "sha1"
    if name == "sha256":
        return "sha256"
    raise HnError("repository-unusable", f"the object format {name} is not known here")


def _single(base: Sequence[str], env: dict[str, str], question: str) -> str:
    done = collect(Child([*base, "rev-parse", "--path-format=absolute", question], env))
    return os.fsdecode(done.stdout).removesuffix("\n")


def _refusal(done: Completed, place: Path | None) -> HnError:
    """Why Git would not open what it found, in Git's own words without the command that silences it."""
    why = without_homes(done.reason)
    where = display("." if place is None else place)
    if any(mark in why for mark in _UNSAFE):
        return HnError(
            "repository-unsafe",
            f"Git refuses this repository: {why}",
            hint="see safe.directory and safe.bareRepository in `git help config`; trust only what you know",
        )
    if "not a git repository" in why.lower() or "cannot change to" in why or "current working dir" in why:
        return NotFoundError(
            "not-a-repository",
            f"{where} is not in a Git repository",
            hint="run this inside a repository, or name one with --git-dir",
        )
    return HnError("repository-unusable", f"Git cannot open the repository at {where}: {why}")
