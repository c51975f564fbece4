"""Every transport, every kind of clone, and remotes that refuse: their own words, and nothing local changes."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import pytest
from servers import PASSWORD, USER, git_daemon, smart_http
from world import (
    Author,
    Forge,
    Store,
    bare,
    clone,
    fsck,
    git,
    outcome,
    person,
    refs,
    say,
    service,
    sync,
    texts,
    words,
)

import hn_memory


def exchange(one: Path, two: Path) -> None:
    """A records, both sync, B challenges, both sync, A sees it."""
    person(one, "Ada")
    person(two, "Bea")
    (memory,) = say(one, "Rows live in SQLite.")
    assert words(sync(one)) == ["published"]
    assert words(sync(two)) == ["promoted"]
    assert texts(two) == ["Rows live in SQLite."]
    with service(two) as opened:
        opened.challenge(memory, "not-measured")
    assert words(sync(two)) == ["published", "unchanged"]
    assert words(sync(one)) == ["promoted", "unchanged"]
    with service(one) as opened:
        entries = opened.log()["entries"]
    assert [entry["operation"] for entry in entries] == ["challenge", "record"]
    assert entries[1]["challengers"] == [entries[0]["id"]]
    for path in (one, two):
        assert set(words(sync(path))) == {"unchanged"}
        fsck(path)
        assert not [ref for ref in refs(path) if "quarantine" in ref]
        assert not (path / ".git/FETCH_HEAD").exists() or "hn/" not in (path / ".git/FETCH_HEAD").read_text()


def test_file(alice: Path, bob: Path) -> None:
    config = (bob / ".git/config").read_bytes()
    exchange(alice, bob)
    assert (bob / ".git/config").read_bytes() == config


def test_git_daemon(tmp_path: Path) -> None:
    bare(tmp_path / "remote.git")
    with git_daemon(tmp_path) as url:
        exchange(
            clone(f"{url}/remote.git", tmp_path / "one"),
            clone(f"{url}/remote.git", tmp_path / "two"),
        )


def test_smart_http_with_credentials_from_the_main_repository(tmp_path: Path) -> None:
    remote = bare(tmp_path / "remote.git")
    git(remote, "config", "http.receivepack", "true")
    one, two = clone(f"file://{remote}", tmp_path / "one"), clone(f"file://{remote}", tmp_path / "two")
    with smart_http(tmp_path) as url:
        for path in (one, two):
            git(path, "remote", "set-url", "origin", f"{url}/remote.git")
        helper = f"!f() {{ echo username={USER}; echo password={PASSWORD}; }}; f"
        git(one, "config", "credential.helper", helper)
        address = url.removeprefix("http://")
        git(two, "config", f"url.http://{USER}:{PASSWORD}@{address}/.insteadOf", f"{url}/")
        exchange(one, two)
        git(one, "config", "--unset", "credential.helper")
        started = time.monotonic()
        with pytest.raises(hn_memory.HnError) as caught:
            sync(one)
        assert time.monotonic() - started < 10
        assert caught.value.code == "remote-failed"
        assert "could not read Username" in caught.value.message
        git(one, "remote", "set-url", "origin", f"http://{USER}:wrong-{PASSWORD}@{address}/remote.git")
        with pytest.raises(hn_memory.HnError) as caught:
            sync(one)
        assert "Authentication failed" in caught.value.message
        assert PASSWORD not in caught.value.message and USER not in caught.value.message


def test_a_line_cut_in_the_middle_changes_nothing(tmp_path: Path) -> None:
    remote = bare(tmp_path / "remote.git")
    Forge(Store(remote), Author(1)).grow(50).publish()
    one = clone(f"file://{remote}", tmp_path / "one")
    before = refs(one)
    with smart_http(tmp_path, cut_after=100) as url:
        address = url.removeprefix("http://")
        git(one, "remote", "set-url", "origin", f"http://{USER}:{PASSWORD}@{address}/remote.git")
        document = sync(one)
    (row,) = document["outcomes"]
    assert row["outcome"] == "structurally-invalid"
    assert "could not deliver" in row["reason"] and PASSWORD not in row["reason"]
    assert refs(one) == before
    assert not list((one / ".git/hn/replication/quarantine").iterdir())
    git(one, "remote", "set-url", "origin", f"file://{remote}")
    assert words(sync(one)) == ["promoted"]
    fsck(one)


def test_a_remote_that_is_not_there(alice: Path, remote: Path) -> None:
    person(alice, "Ada")
    say(alice, "text")
    before = refs(alice)
    remote.rename(remote.with_name("gone"))
    with pytest.raises(hn_memory.HnError) as caught:
        sync(alice)
    assert caught.value.code == "remote-failed"
    assert "does not exist" in caught.value.message or "not appear to be a git repository" in caught.value.message
    assert refs(alice) == before


def test_a_remote_that_never_answers_meets_the_time_limit(alice: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        git(alice, "remote", "add", "silent", f"git://127.0.0.1:{silent.getsockname()[1]}/x.git")
        started = time.monotonic()
        with pytest.raises(hn_memory.HnError) as caught:
            sync(alice, "silent", timeout=0.5)
        assert time.monotonic() - started < 5
    assert "time limit" in caught.value.message
    assert "HN_SYNC_TIMEOUT" in (caught.value.hint or "")


@pytest.mark.parametrize("flags", [(), ("--filter=blob:none",), ("--bare",)], ids=["plain", "partial", "bare"])
def test_kinds_of_clones(alice: Path, remote: Path, tmp_path: Path, flags: tuple[str, ...]) -> None:
    person(alice, "Ada")
    say(alice, "one", "two")
    git(remote, "config", "uploadpack.allowFilter", "true")
    sync(alice)
    path = tmp_path / "other"
    git(tmp_path, "clone", "-q", *flags, f"file://{remote}", str(path))
    assert words(sync(path)) == ["promoted"]
    assert texts(path) == ["one", "two"]
    say(alice, "three")
    sync(alice)
    assert words(sync(path)) == ["promoted"]
    person(path, "Bea")
    say(path, "four")
    assert words(sync(path)) == ["published", "unchanged"]
    assert words(sync(alice)) == ["promoted", "unchanged"]


def test_a_worktree_shares_everything(alice: Path, bob: Path, tmp_path: Path) -> None:
    person(alice, "Ada")
    say(alice, "one")
    sync(alice)
    git(bob, "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    assert words(sync(tmp_path / "linked")) == ["promoted"]
    assert words(sync(bob)) == ["unchanged"]
    assert texts(bob) == ["one"]


def test_a_relative_url_is_meant_from_the_work_tree(alice: Path, remote: Path) -> None:
    Forge(Store(remote), Author(1)).grow(1).publish()
    (alice / "below").mkdir()
    git(alice, "remote", "set-url", "origin", "../remote.git")
    assert words(sync(alice / "below")) == ["promoted"]


def test_a_ci_clone_without_our_refs_that_pushes_its_branch_loses_nothing(
    alice: Path, remote: Path, tmp_path: Path
) -> None:
    person(alice, "Ada")
    say(alice, "one")
    sync(alice)
    ci = tmp_path / "ci"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{remote}", str(ci))
    assert not refs(ci, "refs/hn")
    git(ci, "commit", "-q", "--allow-empty", "-m", "release")
    git(ci, "push", "-q", "origin", "HEAD:main")
    git(ci, "push", "-q", "--all")
    assert words(sync(alice)) == ["unchanged"]


def test_plain_git_between_our_steps_changes_no_outcome(alice: Path, bob: Path, remote: Path) -> None:
    person(alice, "Ada")
    for number in range(3):
        say(alice, f"text {number}")
        for path in (alice, bob, remote):
            git(path, "gc", "-q", "--prune=now")
            git(path, "pack-refs", "--all")
        git(alice, "commit", "-q", "--allow-empty", "-m", "x")
        git(alice, "push", "-q", "origin", "HEAD:main")
        git(bob, "fetch", "-q", "--prune")
        assert words(sync(alice)) == ["published"]
        git(alice, "fetch", "-q", "--all", "--prune")
        git(remote, "gc", "-q", "--prune=now")
        assert words(sync(bob)) == ["promoted"]
        git(bob, "gc", "-q", "--prune=now")
        fsck(bob)
    assert len(texts(bob)) == 3


# -- refusals ---------------------------------------------------------------------------------------------


def refused(path: Path, *needles: str) -> None:
    """A push that is refused, twice: the words of the remote, and nothing has moved."""
    before = refs(path)
    for _ in range(2):
        document = sync(path)
        (row,) = [row for row in document["outcomes"] if row["outcome"] == "refused"]
        text = row["reason"] + " ".join(document["messages"])
        assert all(needle in text for needle in needles), text
        assert not document["complete"]
        assert refs(path) == before


def test_hidden_refs(alice: Path, remote: Path) -> None:
    git(remote, "config", "receive.hideRefs", "refs/hn")
    person(alice, "Ada")
    say(alice, "one")
    refused(alice, "hidden ref")
    assert not refs(remote, "refs/hn")
    assert words(sync(alice, push=False)) == []


def test_a_rejecting_hook_is_quoted(alice: Path, remote: Path) -> None:
    hook = remote / "hooks/pre-receive"
    hook.write_text("#!/bin/sh\necho 'no memories here, see the handbook' >&2\nexit 1\n")
    hook.chmod(0o755)
    person(alice, "Ada")
    say(alice, "one")
    refused(alice, "pre-receive hook declined", "no memories here, see the handbook")


def test_a_remote_that_rejects_one_of_three_refs(alice: Path, bob: Path, remote: Path) -> None:
    person(alice, "Ada")
    say(alice, "one")
    say(alice, "two", stream="new")
    say(alice, "three", stream="new")
    target = sorted(refs(alice, "refs/hn/memory"))[1]
    hook = remote / "hooks/update"
    hook.write_text(f"#!/bin/sh\n[ $1 != {target} ] || {{ echo not this one >&2; exit 1; }}\n")
    hook.chmod(0o755)
    document = sync(alice)
    assert words(document) == ["published", "published", "refused"]
    assert "hook declined" in outcome(document, "sha256:" + target[-64:])["reason"]
    assert words(sync(alice)) == ["refused", "unchanged", "unchanged"]
    assert words(sync(bob)) == ["promoted", "promoted"]
    hook.unlink()
    assert words(sync(alice)) == ["published", "unchanged", "unchanged"]


def test_deny_non_fast_forwards_and_fsck_objects_do_not_matter(alice: Path, bob: Path, remote: Path) -> None:
    git(remote, "config", "receive.denyNonFastForwards", "true")
    git(remote, "config", "receive.fsckObjects", "true")
    exchange(alice, bob)


def test_a_read_only_daemon(tmp_path: Path) -> None:
    remote = bare(tmp_path / "remote.git")
    one = clone(f"file://{remote}", tmp_path / "one")
    Forge(Store(remote), Author(1)).grow(1).publish()
    person(one, "Ada")
    say(one, "mine")
    git(remote, "config", "daemon.receivepack", "false")
    with git_daemon(tmp_path) as url:
        git(one, "remote", "set-url", "origin", f"{url}/remote.git")
        document = sync(one)
        assert words(document) == ["promoted", "refused"]
        (row,) = [row for row in document["outcomes"] if row["outcome"] == "refused"]
        assert "access denied" in row["reason"] or "service not enabled" in row["reason"]
        document = sync(one, push=False)
        assert words(document) == ["unchanged"] and document["complete"]


def test_a_push_that_loses_a_race(alice: Path, remote: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the advert and the push somebody else moves the ref."""
    from hn_memory.replication import publish

    actor = person(alice, "Ada")
    say(alice, "one")
    sync(alice)
    say(alice, "two")
    (ref,) = refs(alice, "refs/hn/memory")
    other = git(remote, "commit-tree", "-m", "x", "-p", ref, git(remote, "rev-parse", f"{ref}^{{tree}}"))
    real = publish.push

    def late(*arguments: object, **options: object) -> object:
        git(remote, "update-ref", ref, other)
        return real(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(publish, "push", late)
    before = refs(alice)
    document = sync(alice)
    assert words(document) == ["refused"]
    assert "fetch first" in document["outcomes"][0]["reason"]
    assert refs(alice) == before and refs(remote)[ref] == other
    assert actor in ref


def test_one_fetch_and_one_push_however_many_streams(
    alice: Path, bob: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person(alice, "Ada")
    for number in range(12):
        Forge(store, Author(number)).grow(1).publish()
        say(alice, f"text {number}", stream="new")
    log = tmp_path / "calls"
    wrapper = tmp_path / "bin/git"
    wrapper.parent.mkdir()
    real = git(alice, "--exec-path") + "/git"
    wrapper.write_text(f'#!/bin/sh\nfor a; do case "$a" in fetch|push|ls-remote) echo $a >> {log};; esac; done\n'
                       f'exec {real} "$@"\n')  # fmt: skip
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    assert words(sync(alice)) == sorted(["promoted"] * 12 + ["published"] * 12)
    assert sorted(log.read_text().split()) == ["fetch", "ls-remote", "push"]
    log.unlink()
    assert words(sync(alice)) == ["unchanged"] * 24
    assert log.read_text().split() == ["ls-remote"]


def test_two_syncs_at_once_wait_for_each_other(alice: Path, store: Store) -> None:
    for number in range(5):
        Forge(store, Author(number)).grow(20).publish()
    found: list[list[str]] = []
    threads = [threading.Thread(target=lambda: found.append(words(sync(alice)))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [["promoted"] * 5, ["unchanged"] * 5, ["unchanged"] * 5]


def test_hostile_settings_of_the_user_change_nothing(alice: Path, bob: Path, home: Path, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("pre-push", "reference-transaction", "post-checkout", "fsmonitor", "pre-auto-gc"):
        (hooks / name).write_text(f"#!/bin/sh\necho {name} >> {marker}\nexit 1\n")
        (hooks / name).chmod(0o755)
    settings = {
        "core.hooksPath": str(hooks), "core.fsmonitor": str(hooks / "fsmonitor"), "fetch.prune": "true",
        "fetch.fsckObjects": "true", "fetch.recurseSubmodules": "true", "push.followTags": "true",
        "push.gpgSign": "true", "push.default": "matching", "gc.auto": "1", "remote.origin.mirror": "true",
        "remote.origin.tagOpt": "--tags", "fetch.unpackLimit": "100000", "push.recurseSubmodules": "check",
        "remote.origin.prune": "true", "remote.pushDefault": "nowhere", "transfer.hideRefs": "refs/x",
    }  # fmt: skip
    for path in (alice, bob):
        git(path, "tag", "mine")
        for key, value in settings.items():
            git(path, "config", key, value)
        git(path, "config", "--add", "remote.origin.push", "+refs/*:refs/*")
    exchange(alice, bob)
    assert not marker.exists(), marker.read_text()
    assert set(refs(bob / "../remote.git")) == {"refs/heads/main", *refs(bob / "../remote.git", "refs/hn/memory")}


def test_private_things_never_leave(alice: Path, bob: Path, remote: Path) -> None:
    exchange(alice, bob)
    with service(alice) as opened:
        opened.replication_select("origin", everything=True)
        actor = opened.identity_show()["identity"]["actor"]
    sync(alice)
    held = git(remote, "cat-file", "--batch-all-objects", "--batch", "--unordered")
    for word in ("privateKey", "selections", "tips", "maxEvents", "SQLite format"):
        assert word not in held
    assert all(ref.startswith(("refs/hn/memory/", "refs/heads/")) for ref in refs(remote))
    with service(bob) as opened, pytest.raises(hn_memory.HnError):
        opened.identity_use(actor)
