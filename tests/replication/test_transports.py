"""Credentials in headers, ssh, remotes on disk that cannot be written, shared repositories, other ref stores."""

from __future__ import annotations

import base64
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import PASSWORD, USER, smart_http
from test_remotes import exchange
from world import Author, Forge, Store, bare, clone, fsck, git, outcome, person, refs, say, sync, words

import hn_memory
from hn_memory.errors import HnError

NOBODY = 65534
TOKEN = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
SECRETS = (PASSWORD, TOKEN)


def held(path: Path) -> bytes:
    """Everything that we keep in a repository."""
    return b"".join(file.read_bytes() for file in (path / ".git/hn").rglob("*") if file.is_file())


def assert_no_secret(text: str | bytes) -> None:
    data = text.encode() if isinstance(text, str) else text
    for secret in SECRETS:
        assert secret.encode() not in data


# -- HTTP -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["repository", "repository and URL", "user"])
def test_credentials_in_a_header(tmp_path: Path, home: Path, scope: str) -> None:
    remote = bare(tmp_path / "remote.git")
    git(remote, "config", "http.receivepack", "true")
    one, two = clone(f"file://{remote}", tmp_path / "one"), clone(f"file://{remote}", tmp_path / "two")
    with smart_http(tmp_path) as url:
        for path in (one, two):
            git(path, "remote", "set-url", "origin", f"{url}/remote.git")
            where = ["--global"] if scope == "user" else []
            key = f"http.{url}/.extraHeader" if "URL" in scope else "http.extraHeader"
            git(path, "config", *where, key, f"Authorization: Basic {TOKEN}")
        exchange(one, two)
        for path in (one, two):
            assert_no_secret(held(path))
        # Nor when it fails: no such repository, and a header that the server does not take.
        git(one, "remote", "set-url", "origin", f"{url}/none.git")
        with pytest.raises(HnError) as caught:
            sync(one)
        assert caught.value.code == "remote-failed" and "not found" in caught.value.message
        assert_no_secret(caught.value.message + (caught.value.hint or ""))


def test_secrets_are_in_no_file_even_while_git_runs(tmp_path: Path) -> None:
    """A sync is killed right after its fetch and right after its push: what lies there holds no credential."""
    remote = bare(tmp_path / "remote.git")
    git(remote, "config", "http.receivepack", "true")
    path = clone(f"file://{remote}", tmp_path / "one")
    person(path, "Ada")
    script = Path(__file__).with_name("killed_sync.py")
    with smart_http(tmp_path) as url:
        address = url.removeprefix("http://")
        for setting, target in (
            (("http.extraHeader", f"Authorization: Basic {TOKEN}"), f"{url}/remote.git"),
            (None, f"http://{USER}:{PASSWORD}@{address}/remote.git"),
        ):
            git(path, "config", "--unset-all", "http.extraHeader", ok=False)
            if setting is not None:
                git(path, "config", *setting)
            git(path, "remote", "set-url", "origin", target)
            for place in ("quarantine:run_network:after", "publish:run_network:after"):
                Forge(Store(remote), Author(len(refs(remote)))).grow(1).publish()
                say(path, f"text {place}")
                done = subprocess.run([sys.executable, str(script), str(path), place], capture_output=True, check=False)
                assert done.returncode == -9, done
                assert list((path / ".git/hn/replication/quarantine").iterdir())
                assert_no_secret(held(path))
                assert_no_secret(done.stdout + done.stderr)
                assert sync(path)["complete"]


def test_a_server_that_repeats_credentials_is_not_quoted_with_them(tmp_path: Path) -> None:
    remote = bare(tmp_path / "remote.git")
    path = clone(f"file://{remote}", tmp_path / "one")
    person(path, "Ada")
    say(path, "one")
    hook = remote / "hooks/pre-receive"
    hook.write_text(
        f"#!/bin/sh\necho 'go to https://{USER}:{PASSWORD}@example.org/x' >&2\n"
        f"echo 'you sent Authorization: Basic {TOKEN}, or {TOKEN}' >&2\nexit 1\n"
    )
    git(path, "config", "http.extraHeader", f"Authorization: Basic {TOKEN}")
    hook.chmod(0o755)
    document = sync(path)
    assert words(document) == ["refused"]
    assert "https://***@example.org/x" in str(document)
    assert "you sent Authorization: ***, or ***" in str(document)
    assert_no_secret(str(document))


# -- ssh --------------------------------------------------------------------------------------------------

SSH = """#!/bin/sh
# Stands in for ssh: runs the command here.
printf '%s\\n' "$*" >> "$HN_TEST_SSH_LOG"
while [ $# -gt 2 ]; do shift; done
[ "$1" = example.org ] || { echo "ssh: Could not resolve hostname $1" >&2; exit 255; }
exec sh -c "$2"
"""


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    script = tmp_path / "bin/ssh"
    script.parent.mkdir()
    script.write_text(SSH)
    script.chmod(0o755)
    monkeypatch.setenv("HN_TEST_SSH_LOG", str(tmp_path / "ssh.log"))
    return script


@pytest.mark.parametrize("by", ["GIT_SSH_COMMAND", "core.sshCommand", "PATH"])
def test_ssh(tmp_path: Path, ssh: Path, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    remote = bare(tmp_path / "remote.git")
    one, two = clone(f"file://{remote}", tmp_path / "one"), clone(f"file://{remote}", tmp_path / "two")
    if by == "GIT_SSH_COMMAND":
        monkeypatch.setenv("GIT_SSH_COMMAND", f"{ssh} -i key")
    elif by == "PATH":
        monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    for number, path in enumerate((one, two)):
        url = f"ssh://example.org{remote}" if number else f"example.org:{remote}"
        git(path, "remote", "set-url", "origin", url)
        if by == "core.sshCommand":
            git(path, "config", "core.sshCommand", str(ssh))
    exchange(one, two)
    calls = (tmp_path / "ssh.log").read_text().splitlines()
    assert all("-o BatchMode=yes" in call for call in calls), calls
    assert {"git-upload-pack", "git-receive-pack"} <= {word for call in calls for word in call.split()}
    git(one, "remote", "set-url", "origin", f"ssh://elsewhere.example{remote}")
    with pytest.raises(HnError) as caught:
        sync(one)
    assert caught.value.code == "remote-failed" and "Could not resolve hostname" in caught.value.message


# -- a remote that cannot be written ----------------------------------------------------------------------

AS_NOBODY = """#!{python}
import os, sys
os.setgroups([])
os.setgid({nobody})
os.setuid({nobody})
os.chdir("/")
os.environ["HOME"] = "/nonexistent"
os.environ["PATH"] = "/usr/local/bin:/usr/bin:/bin"
os.environ["GIT_CONFIG_GLOBAL"] = "{config}"
os.execv("/bin/sh", ["sh", "-c", sys.argv[-1]])
"""


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that everybody may read: the tests' own is closed to others."""
    with tempfile.TemporaryDirectory(prefix="hn-public-") as path:
        Path(path).chmod(0o755)
        yield Path(path)


def test_a_remote_on_a_disk_that_may_only_be_read(tmp_path: Path, public: Path, home: Path) -> None:
    """Mode bits bind everybody but root, so root reaches the remote as nobody."""
    remote = bare(public / "remote.git")
    path = clone(f"file://{remote}", tmp_path / "one")
    Forge(Store(remote), Author(1)).grow(2).publish()
    person(path, "Ada")
    say(path, "mine")
    (public / "gitconfig").write_text("[safe]\n\tdirectory = *\n")
    if os.geteuid() == 0:
        script = tmp_path / "as-nobody"
        script.write_text(AS_NOBODY.format(python=sys.executable, nobody=NOBODY, config=public / "gitconfig"))
        script.chmod(0o755)
        git(path, "config", "core.sshCommand", str(script))
        git(path, "config", "ssh.variant", "simple")
        git(path, "remote", "set-url", "origin", f"ssh://nobody{remote}")
    places = [remote, *remote.rglob("*")]
    for place in places:
        place.chmod(0o555 if place.is_dir() else 0o444)
    before = refs(remote)
    try:
        document = sync(path)
        assert words(document) == ["promoted", "refused"]
        again = sync(path)
        assert words(again) == ["refused", "unchanged"]
        for found in (document, again):
            (row,) = [row for row in found["outcomes"] if row["outcome"] == "refused"]
            assert "unable to create temporary object directory" in row["reason"], row
        quiet = sync(path, push=False)
        assert quiet["complete"] and words(quiet) == ["unchanged"]
    finally:
        for place in places:
            place.chmod(0o777)
    assert refs(remote) == before
    assert words(sync(path)) == ["published", "unchanged"]


def test_a_remote_whose_ref_is_locked(tmp_path: Path) -> None:
    """A lock that a dead process left in the remote is the remote's to remove; its words are shown."""
    remote = bare(tmp_path / "remote.git")
    path = clone(f"file://{remote}", tmp_path / "one")
    person(path, "Ada")
    say(path, "one")
    say(path, "two", stream="new")
    locked, free = sorted(refs(path, "refs/hn/memory"))
    lock = remote / f"{locked}.lock"
    lock.parent.mkdir(parents=True)
    lock.write_bytes(b"")
    document = sync(path)
    assert words(document) == ["published", "refused"]
    row = outcome(document, f"sha256:{locked[-64:]}")
    assert "lock" in row["reason"], row
    assert set(refs(path, "refs/hn/remotes").values()) == {refs(path)[free]}
    lock.unlink()
    assert words(sync(path)) == ["published", "unchanged"]


def test_an_empty_remote_of_the_other_object_format_says_so_when_something_is_pushed(tmp_path: Path) -> None:
    path = clone(f"file://{bare(tmp_path / 'remote.git')}", tmp_path / "one")
    git(path, "remote", "set-url", "origin", f"file://{bare(tmp_path / 'long.git', '--object-format=sha256')}")
    person(path, "Ada")
    say(path, "one")
    document = sync(path)
    assert words(document) == ["refused"]
    assert "hash algorithm" in document["outcomes"][0]["reason"], document


# -- the store --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streams", [1, 60])
@pytest.mark.parametrize(("shared", "bits"), [("group", 0o440), ("all", 0o444), ("0640", 0o440), ("umask", 0o400)])
def test_a_shared_repository_stays_readable_for_those_who_share_it(
    tmp_path: Path, shared: str, bits: int, streams: int
) -> None:
    remote = bare(tmp_path / "remote.git")
    store = Store(remote)
    for number in range(streams):
        Forge(store, Author(number)).grow(1).publish()
    path = tmp_path / "one"
    before = os.umask(0o077)
    try:
        git(tmp_path, "init", "-q", f"--shared={shared}", str(path))
        git(path, "remote", "add", "origin", f"file://{remote}")
        git(path, "commit", "-q", "--allow-empty", "-m", "x")
        assert words(sync(path)) == ["promoted"] * streams
    finally:
        os.umask(before)
    files = [file for file in (path / ".git/objects").rglob("*") if file.is_file()]
    assert bool([file for file in files if file.suffix == ".pack"]) == (streams > 30)
    for place in files:
        assert stat.S_IMODE(place.stat().st_mode) == bits, place
    for place in (path / ".git/refs/hn").rglob("*"):
        assert place.stat().st_mode & 0o040 == bits & 0o040, place
    # What is private stays private.
    assert all(not place.stat().st_mode & 0o077 for place in (path / ".git/hn").rglob("*"))


def test_an_object_store_on_another_file_system(tmp_path: Path) -> None:
    remote = bare(tmp_path / "remote.git")
    store = Store(remote)
    forges = [Forge(store, Author(number)).grow(2).publish() for number in range(40)]
    path = clone(f"file://{remote}", tmp_path / "one")
    objects = path / ".git/objects"
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=where) as elsewhere:
        shutil.move(objects, f"{elsewhere}/objects")
        objects.symlink_to(f"{elsewhere}/objects")
        assert words(sync(path)) == ["promoted"] * 40
        assert len(list(Path(elsewhere).rglob("*.pack"))) == 1
        assert not list(Path(elsewhere).rglob("tmp_*"))
        fsck(path)
        assert {forge.commits[-1] for forge in forges} == set(refs(path, "refs/hn").values())


def test_a_ref_store_of_another_kind(tmp_path: Path) -> None:
    """Where Git knows reftables they work as files do; an older Git, and so we, refuse such a repository by name."""
    remote = bare(tmp_path / "remote.git")
    one = clone(f"file://{remote}", tmp_path / "one")
    two = tmp_path / "two"
    if subprocess.run(
        ["git", "init", "-q", "--ref-format=reftable", str(two)], capture_output=True, check=False
    ).returncode == 0:  # fmt: skip
        git(two, "remote", "add", "origin", f"file://{remote}")
        git(two, "fetch", "-q")
        git(two, "checkout", "-q", "-t", "origin/main")
        exchange(one, two)
        return
    git(tmp_path, "init", "-q", str(two))
    git(two, "config", "core.repositoryFormatVersion", "1")
    git(two, "config", "extensions.refStorage", "reftable")
    with pytest.raises(HnError) as caught:
        hn_memory.open_repository(two, backend="git")
    assert caught.value.code == "repository-unusable" and "refstorage" in caught.value.message
