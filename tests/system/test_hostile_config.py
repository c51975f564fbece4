"""Nothing from outside changes what we write: settings, hooks, locale, inherited variables."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest
from system_harness import HERE, HN, Machine, chain, fsck, make_project, memory_refs, trust

SETTINGS = """
[user]
    useConfigOnly = true
    signingKey = nobody
[commit]
    gpgSign = true
    template = {elsewhere}/no-such-template
[tag]
    gpgSign = true
[gpg]
    program = false
    format = ssh
[i18n]
    commitEncoding = latin1
    logOutputEncoding = latin1
[core]
    hooksPath = {hooks}
    autocrlf = true
    eol = crlf
    safecrlf = true
    abbrev = 4
    pager = false
    editor = false
    askPass = false
    attributesFile = {elsewhere}/attributes
    excludesFile = {elsewhere}/exclude
    logAllRefUpdates = {reflogs}
    preferSymlinkRefs = true
    bigFileThreshold = 1
    compression = 0
    looseCompression = 0
    warnAmbiguousRefs = false
    quotePath = false
    ignoreCase = true
    precomposeUnicode = true
    commentChar = h
    createObject = rename
    filesRefLockTimeout = 0
    packedRefsTimeout = 0
    commitGraph = true
    untrackedCache = true
[filter "evil"]
    clean = false
    smudge = false
    required = true
[color]
    ui = always
[pager]
    for-each-ref = false
    log = false
    show = false
[alias]
    for-each-ref = !false
    update-ref = !false
    cat-file = !false
    unpack-objects = !false
    rev-parse = !false
    config = !false
    symbolic-ref = !false
    rev-list = !false
[log]
    showSignature = true
    date = format:%Y
    decorate = full
    mailmap = true
[format]
    pretty = %x00
[gc]
    auto = 1
    autoDetach = false
[transfer]
    fsckObjects = true
    hideRefs = refs/hn
    unpackLimit = 1
[fetch]
    unpackLimit = 1
[receive]
    denyNonFastForwards = true
    denyDeletes = true
[init]
    defaultObjectFormat = sha256
    templateDir = {elsewhere}/no-such-template
[trace2]
    normalTarget = {elsewhere}/trace2
[advice]
    graftFileDeprecated = true
[pack]
    writeBitmaps = true
"""

INHERITED = {
    "GIT_DIR": "{elsewhere}/other/.git",
    "GIT_COMMON_DIR": "{elsewhere}/other/.git",
    "GIT_WORK_TREE": "{elsewhere}/other",
    "GIT_INDEX_FILE": "{elsewhere}/index",
    "GIT_OBJECT_DIRECTORY": "{elsewhere}/objects",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES": "{elsewhere}/objects",
    "GIT_NAMESPACE": "elsewhere",
    "GIT_PREFIX": "docs/",
    "GIT_QUARANTINE_PATH": "{elsewhere}/objects",
    "GIT_SHALLOW_FILE": "{elsewhere}/shallow",
    "GIT_GRAFT_FILE": "{elsewhere}/grafts",
    "GIT_REPLACE_REF_BASE": "refs/elsewhere",
    "GIT_DEFAULT_HASH": "sha256",
    "GIT_AUTHOR_NAME": "Eve",
    "GIT_AUTHOR_EMAIL": "",
    "GIT_AUTHOR_DATE": "1999-01-01T00:00:00 +0500",
    "GIT_COMMITTER_NAME": "",
    "GIT_COMMITTER_EMAIL": "<>",
    "GIT_COMMITTER_DATE": "never",
    "GIT_CONFIG": "{elsewhere}/config",
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "core.bare",
    "GIT_CONFIG_VALUE_0": "true",
    "GIT_CONFIG_KEY_1": "core.worktree",
    "GIT_CONFIG_VALUE_1": "/",
    "GIT_CONFIG_PARAMETERS": "'core.repositoryformatversion'='9'",
    "GIT_EXEC_PATH": "{elsewhere}",
    "GIT_TRACE": "1",
    "GIT_TRACE2": "1",
    "GIT_TRACE_SETUP": "1",
    "GIT_FLUSH": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_ICASE_PATHSPECS": "1",
    "GIT_REFLOG_ACTION": "evil\nline",
    "GIT_PAGER": "false",
    "GIT_EDITOR": "false",
    "PAGER": "false",
    "LESS": "-Z",
    "TERM": "dumb",
    "TZ": "Asia/Kathmandu",
    "LANG": "de_DE.UTF-8",
    "LANGUAGE": "de",
    "LC_ALL": "de_DE.ISO-8859-1",
    "PYTHONUTF8": "0",
    "PYTHONIOENCODING": "latin-1:strict",
    "PYTHONOPTIMIZE": "2",
    "COLUMNS": "1",
    "TMPDIR": "{elsewhere}/no-such-directory",
}

HOOKS = ("reference-transaction", "pre-commit", "commit-msg", "prepare-commit-msg", "post-commit", "update")
HOOKS += ("pre-receive", "post-update", "post-index-change", "pre-auto-gc", "fsmonitor-watchman")


class Hostile:
    """A machine and what makes it hostile; `project` is where the hooks look for the repository to write to."""

    def __init__(self, root: Path, reflogs: str) -> None:
        self.machine = Machine(root)
        self.elsewhere = root / "elsewhere"
        self.hooks = root / "hooks"
        self.marker = root / "a-hook-ran"
        self.reflogs = reflogs
        self.elsewhere.mkdir()
        (self.elsewhere / "attributes").write_text("* filter=evil text eol=crlf\n")
        make_project(self.machine, self.elsewhere / "other")
        self.plain_env = dict(self.machine.env)

    def prepare(self, project: Path, *kinds: str) -> None:
        """Turn the machine, and the repository itself, hostile in some of the ways."""
        if "settings" in kinds:
            settings = SETTINGS.format(elsewhere=self.elsewhere, hooks=self.hooks, reflogs=self.reflogs)
            (self.machine.home / ".gitconfig").write_text(settings)
            with (project / ".git" / "config").open("a") as file:
                file.write(settings)
            (project / ".git" / "info").mkdir(exist_ok=True)
            (project / ".git" / "info" / "attributes").write_text("* filter=evil\n")
        if "hooks" in kinds:
            for directory in (self.hooks, project / ".git" / "hooks"):
                directory.mkdir(exist_ok=True)
                for name in HOOKS:
                    hook = directory / name
                    again = " ".join(f"'{word}'" for word in HN)
                    # One that calls us again, and fails.
                    hook.write_text(
                        f"#!/bin/sh\necho {name} >> '{self.marker}'\n"
                        f"{again} -C '{project}' memory record -k decision again >&2\nexit 1\n"
                    )
                    hook.chmod(hook.stat().st_mode | stat.S_IXUSR)
            with (self.machine.home / ".gitconfig").open("a") as file:
                file.write(f"[core]\n\thooksPath = {self.hooks}\n")
        if "variables" in kinds:
            self.machine.env |= {name: value.format(elsewhere=self.elsewhere) for name, value in INHERITED.items()}
        if "no home" in kinds:
            del self.machine.env["HOME"]

    @property
    def untouched(self) -> bool:
        """Nothing was written elsewhere, and no hook ran."""
        others = memory_refs(Machine(self.machine.root, self.plain_env), self.elsewhere / "other")
        return not self.marker.exists() and not others and not (self.elsewhere / "objects").exists()


def test_these_settings_and_hooks_do_bite(tmp_path: Path) -> None:
    """What follows is worth something only if plain Git is stopped by it."""
    hostile = Hostile(tmp_path / "machine", "always")
    project = make_project(hostile.machine, tmp_path / "project")
    hostile.prepare(project, "settings", "hooks")
    assert hostile.machine.run(["git", "commit", "--allow-empty", "-m", "x"], project).status != 0
    assert hostile.machine.run(["git", "update-ref", "refs/hn/x", "HEAD"], project).status != 0
    assert hostile.marker.exists()


KINDS: dict[str, tuple[str, ...]] = {
    "hooks": ("hooks",),
    "settings and hooks": ("settings", "hooks"),
    "everything, and no home": ("settings", "hooks", "variables", "no home"),
}


def written(machine: Machine, project: Path, backend: str) -> str:
    done = machine.run([sys.executable, str(HERE / "write_worker.py"), str(project), backend], project.parent).done()
    assert done.err == b"", done
    return done.out.decode()


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_the_same_envelopes_make_the_same_commits_everywhere(tmp_path: Path, object_format: str) -> None:
    options = (f"--object-format={object_format}",)
    quiet = Machine(tmp_path / "quiet")
    plain = make_project(quiet, tmp_path / "plain" / "project", *options)
    expected = written(quiet, plain, "git")
    assert len(json.loads(expected)["refs"]) == 8
    fsck(quiet, plain)
    for ref in memory_refs(quiet, plain):
        chain(quiet, plain, ref)

    cases = [("git", "always", KINDS["everything, and no home"])]
    if object_format == "sha1":
        cases += [
            ("libgit2", "false", KINDS["everything, and no home"]),
            ("libgit2", "always", KINDS["settings and hooks"]),
        ]
    for backend, reflogs, kinds in cases:
        hostile = Hostile(tmp_path / f"hostile {backend} {reflogs}", reflogs)
        project = make_project(hostile.machine, tmp_path / f"hostile {backend} {reflogs}" / "project", *options)
        hostile.prepare(project, *kinds)
        assert written(hostile.machine, project, backend) == expected, (backend, kinds)
        assert hostile.untouched, (backend, kinds)
        assert _reflogs(project) == (len(json.loads(expected)["refs"]) if reflogs == "always" else 0)
        (project / ".git" / "config").write_bytes((plain / ".git" / "config").read_bytes())
        fsck(quiet, project)


def _reflogs(project: Path) -> int:
    """How many reflogs there are. They are no part of a memory, but there, too, one machine writes as the other."""
    logs = [log for log in (project / ".git" / "logs" / "refs").glob("hn/**/*") if log.is_file()]
    for log in logs:
        for line in log.read_text().splitlines():
            head, message = line.split("\t")
            assert head.split(" ", 2)[2].startswith("hn <hn@hn.invalid> "), line
            assert message == "hn: append memory", line
    return len(logs)


READING: tuple[tuple[str, ...], ...] = (
    ("memory", "recall", "--json"),
    ("memory", "recall", "--json", "--lifecycle", "all", "--include-untrusted", "--path", "app.py"),
    ("memory", "log", "--json"),
    ("memory", "streams", "--json"),
    ("memory", "verify", "--json"),
    ("policy", "show", "--json"),
    ("identity", "list", "--json"),
    ("memory", "recall", "--at", "no-such-revision", "--json"),
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with something to read, written by a quiet machine."""
    quiet = Machine(tmp_path / "quiet")
    path = make_project(quiet, tmp_path / "project")
    actor = quiet.hn(path, "init", "--name", "Ada", "--json").done().json["identity"]["actor"]
    trust(quiet, path, actor)
    for text in ("Größe der Zeile: 80", "zweite"):
        quiet.hn(path, "memory", "record", "-k", "decision", text, "--path", "app.py").done()
    quiet.hn(path, "memory", "recall").done()
    return path


def test_reading_says_the_same(tmp_path: Path, project: Path) -> None:
    quiet = Machine(tmp_path / "quiet")
    before = [quiet.hn(project, *arguments) for arguments in READING]
    assert [answer.status for answer in before] == [0] * (len(READING) - 1) + [3]
    hostile = Hostile(tmp_path / "hostile", "false")
    hostile.prepare(project, "settings", "hooks", "variables", "no home")
    for arguments, expected in zip(READING, before, strict=True):
        assert hostile.machine.hn(project, *arguments) == expected, arguments
    assert hostile.untouched


@pytest.mark.parametrize("kinds", [KINDS["hooks"], KINDS["everything, and no home"]], ids=["hooks", "everything"])
def test_commands_write_well_formed_memories(tmp_path: Path, project: Path, kinds: tuple[str, ...]) -> None:
    hostile = Hostile(tmp_path / "hostile", "always")
    hostile.prepare(project, *kinds)
    docs = project / "docs"
    answer = hostile.machine.hn(
        docs, "memory", "record", "-k", "decision", "Grün \U0001f7e2", "--path", "plan.md", "--json"
    )
    assert answer.err == b"", answer
    memory_id = answer.done().json["memoryId"]
    assert answer.json["anchor"]["paths"][0]["path"] == "docs/plan.md"
    piped = hostile.machine.hn(
        project, "memory", "record", "-k", "decision", "-", "--json", stdin="Straße\r\n".encode()
    )
    piped.done()
    hostile.machine.hn(project, "memory", "retract", memory_id, "--reason", "no-longer-true").done()
    assert hostile.untouched

    quiet = Machine(tmp_path / "quiet")
    (project / ".git" / "hooks").rename(tmp_path / "hooks-aside")
    (ref,) = memory_refs(quiet, project)
    memories = chain(quiet, project, ref)
    contents = [memory.envelope.record.content if memory.envelope.record else None for memory in memories]
    assert contents[2:] == ["Grün \U0001f7e2", "Straße\r\n", None]
    raw = quiet.git(project, "cat-file", "commit", ref).splitlines()
    actor = memories[0].envelope.actor
    assert [line.split(" ")[0] for line in raw[:4]] == ["tree", "parent", "author", "committer"]
    assert raw[2].startswith(f"author Ada <{actor[:12]}@hn.invalid> ") and raw[2].endswith(" +0000")
    assert raw[3] == raw[2].replace("author", "committer", 1)
    assert raw[4:] == ["", f"hn memory {memories[-1].id}"]
    fsck(quiet, project)


def test_the_name_of_the_user_is_asked_for_when_no_setting_tells_it(tmp_path: Path) -> None:
    hostile = Hostile(tmp_path / "machine", "true")
    project = make_project(hostile.machine, tmp_path / "project")
    hostile.prepare(project, "settings", "hooks", "variables", "no home")
    answer = hostile.machine.hn(project, "init", "--json")
    assert answer.status in (1, 2) and "name" in answer.error["message"]
    hostile.machine.hn(project, "init", "--name", "Ada").done()
