"""Bundles: written whole, checked without a repository, imported as a remote is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from world import Author, Forge, Store, bare, clone, fsck, git, outcome, person, refs, say, service, sync, texts, words

import hn_memory
from hn_memory.service.bundles import verify_file


@pytest.fixture
def bundle(alice: Path, store: Store, tmp_path: Path) -> Path:
    """Alice's stream, one accepted from a remote, and a policy."""
    actor = person(alice, "Ada")
    say(alice, "one", "two")
    Forge(store, Author(1)).grow(3).publish()
    sync(alice)
    with service(alice) as opened:
        opened.policy_trust([actor])
        git(alice, "add", ".hn")
        git(alice, "commit", "-qm", "Trust")
        document = opened.export_bundle(tmp_path / "all.bundle")
    assert sorted(row["memories"] for row in document["streams"]) == [2, 3]
    assert document["policy"] == "refs/hn/bundle/policy"
    return tmp_path / "all.bundle"


def empty(path: Path, *flags: str) -> Path:
    git(path.parent, "init", "-q", *flags, str(path))
    git(path, "commit", "-q", "--allow-empty", "-m", "x")
    return path


def test_it_is_an_ordinary_bundle_with_only_our_refs(bundle: Path, alice: Path) -> None:
    heads = dict(reversed(line.split(" ")) for line in git(alice, "bundle", "list-heads", str(bundle)).splitlines())
    assert all(ref.startswith("refs/hn/memory/") for ref in heads if ref != "refs/hn/bundle/policy")
    assert len(heads) == 3
    git(alice, "bundle", "verify", str(bundle))
    listed = git(alice, "ls-tree", "-r", "--name-only", "refs/heads/main")
    assert ".hn/policy.json" in listed


def test_verify_needs_no_repository(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    monkeypatch.chdir(outside)
    document = verify_file(bundle)
    assert document["valid"] and document["memories"] == 5 and document["objectFormat"] == "sha1"
    assert len(document["policy"]["trustedActors"]) == 1
    assert not list(outside.iterdir())


def test_import_again_and_under_another_name(bundle: Path, tmp_path: Path) -> None:
    path = empty(tmp_path / "far")
    assert words(sync(path, str(bundle))) == ["promoted", "promoted"]
    assert words(sync(path, str(bundle))) == ["unchanged", "unchanged"]
    assert words(sync(path, str(bundle), name="courier")) == ["promoted", "promoted"]
    assert len(texts(path)) == 5
    assert {ref.split("/")[3] for ref in refs(path, "refs/hn")} == {"bundle", "courier"}
    assert not [ref for ref in refs(path) if "policy" in ref]
    fsck(path)


def test_what_a_name_means(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = empty(tmp_path / "far")
    (path / "origin").write_bytes(bundle.read_bytes())
    monkeypatch.chdir(path)
    assert words(sync(path, "origin")) == ["promoted", "promoted"]
    git(path, "remote", "add", "origin", f"file://{bare(tmp_path / 'empty.git')}")
    assert sync(path, "origin", push=False)["remote"] == "origin"
    assert words(sync(path, "origin", push=False)) == []
    for target, code in (("no/such", "file-missing"), ("nothing", "remote-unknown"), ("./app", "file-missing")):
        with pytest.raises(hn_memory.HnError) as caught:
            sync(path, target)
        assert caught.value.code == code
    (path / "note").write_text("# not a bundle\n")
    with pytest.raises(hn_memory.HnError) as caught:
        sync(path, "note")
    assert caught.value.code == "file-unknown"
    # A bundle under the name of a real remote shares its refs and its ledger.
    assert words(sync(path, "./origin", name="origin")) == ["promoted", "promoted"]


def test_chosen_streams(bundle: Path, alice: Path, tmp_path: Path) -> None:
    with service(alice) as opened:
        stream = opened.streams()["default"]
        document = opened.export_bundle(tmp_path / "one.bundle", [stream])
        assert [row["stream"] for row in document["streams"]] == [stream]
        with pytest.raises(hn_memory.HnError) as caught:
            opened.export_bundle(tmp_path / "none.bundle", ["sha256:" + "0" * 64])
        assert caught.value.code == "stream-unknown"
        (tmp_path / "precious").write_text("mine")
        with pytest.raises(hn_memory.HnError) as caught:
            opened.export_bundle(tmp_path / "precious")
        assert caught.value.code == "file-exists"
        opened.export_bundle(tmp_path / "one.bundle")
    assert (tmp_path / "precious").read_text() == "mine"
    assert verify_file(tmp_path / "one.bundle")["memories"] == 5


def test_evil_bundles(bundle: Path, tmp_path: Path, store: Store) -> None:
    bad = Forge(store, Author(5))
    bad.append(signer=Author(6))
    bad.publish()
    evil = tmp_path / "evil.bundle"
    git(store.path, "bundle", "create", "-q", str(evil), "--all")
    document = verify_file(evil)
    assert not document["valid"]
    assert [row["ref"] for row in document["invalid"]] == [bad.ref]
    assert document["otherRefs"] == 2  # HEAD and its branch
    path = empty(tmp_path / "far")
    assert outcome(sync(path, str(evil)), bad.stream)["outcome"] == "structurally-invalid"
    path = empty(tmp_path / "near")
    data = bundle.read_bytes()
    damaged = tmp_path / "damaged.bundle"
    for broken in (data[:-30], data[: data.index(b"PACK") + 20], data.replace(b"PACK", b"KCAP", 1)):
        damaged.write_bytes(broken)
        with pytest.raises(hn_memory.HnError) as caught:
            verify_file(damaged)
        assert caught.value.code == "bundle-invalid"
        before = refs(path)
        with service(path) as opened, pytest.raises(hn_memory.HnError) as caught:
            opened.sync(str(damaged))
        assert caught.value.code == "bundle-invalid"
        assert refs(path) == before
    for text in (b"", b"{}", b"# v9 git bundle\n"):
        damaged.write_bytes(text)
        with pytest.raises(hn_memory.HnError) as caught:
            verify_file(damaged)
        assert caught.value.code == "file-unknown"


def test_a_bundle_that_needs_more_than_it_brings(alice: Path, store: Store, tmp_path: Path) -> None:
    forge = Forge(store, Author(1)).grow(4).publish()
    part = tmp_path / "part.bundle"
    git(store.path, "bundle", "create", "-q", str(part), forge.ref, f"^{forge.commits[1]}")
    with pytest.raises(hn_memory.HnError) as caught:
        verify_file(part)
    assert caught.value.code == "bundle-invalid"
    path = empty(tmp_path / "far")
    assert words(sync(path, str(part))) == ["structurally-invalid"]
    sync(alice)
    assert words(sync(alice, str(part))) == ["promoted"]


def test_an_older_bundle_is_a_rewind_and_a_smaller_one_no_withdrawal(alice: Path, tmp_path: Path) -> None:
    person(alice, "Ada")
    say(alice, "one")
    with service(alice) as opened:
        opened.export_bundle(tmp_path / "old.bundle")
    say(alice, "two")
    say(alice, "three", stream="new")
    with service(alice) as opened:
        opened.export_bundle(tmp_path / "new.bundle")
    path = empty(tmp_path / "far")
    assert words(sync(path, str(tmp_path / "new.bundle"))) == ["promoted", "promoted"]
    assert words(sync(path, str(tmp_path / "old.bundle"))) == ["rewound"]
    assert len(texts(path)) == 3


def test_sha256_bundles(tmp_path: Path) -> None:
    path = empty(tmp_path / "long", "--object-format=sha256")
    person(path, "Ada")
    say(path, "long IDs")
    with service(path) as opened:
        opened.export_bundle(tmp_path / "long.bundle")
    assert verify_file(tmp_path / "long.bundle")["objectFormat"] == "sha256"
    other = empty(tmp_path / "other", "--object-format=sha256")
    assert words(sync(other, str(tmp_path / "long.bundle"))) == ["promoted"]
    short = empty(tmp_path / "short")
    with pytest.raises(hn_memory.HnError) as caught:
        sync(short, str(tmp_path / "long.bundle"))
    assert caught.value.code in ("object-format-mismatch", "remote-failed"), caught.value.message
    json.dumps(verify_file(tmp_path / "long.bundle"))


def test_bundles_are_the_same_bytes_for_the_same_streams(bundle: Path, alice: Path, tmp_path: Path) -> None:
    clone_path = clone(f"file://{alice}", tmp_path / "copy")
    sync(clone_path, str(bundle))
    with service(alice) as opened:
        first = opened.export_bundle(tmp_path / "a.bundle")
    with service(clone_path) as opened:
        second = opened.export_bundle(tmp_path / "b.bundle")
    assert first["streams"] == second["streams"]


def test_damage_anywhere_is_told_whatever_is_here_already(bundle: Path, alice: Path, tmp_path: Path) -> None:
    whole = bundle.read_bytes()
    pack = whole.index(b"\n\nPACK") + 2
    damaged = {f"cut at {at}": whole[:at] for at in (20, 100, pack - 1, pack, pack + 40, len(whole) - 1)}
    damaged["a bit flipped"] = whole[: pack + 60] + bytes([whole[pack + 60] ^ 1]) + whole[pack + 61 :]
    damaged["more behind it"] = whole + b"x"
    fresh = empty(tmp_path / "fresh")
    for what, data in damaged.items():
        path = tmp_path / "damaged.bundle"
        path.write_bytes(data)
        for reader in (alice, fresh):
            before = refs(reader)
            with service(reader) as opened, pytest.raises(hn_memory.HnError) as refused:
                opened.sync(str(path))
            assert refused.value.code == "bundle-invalid", what
            assert refs(reader) == before
        with pytest.raises(hn_memory.HnError) as refused:
            verify_file(path)
        assert refused.value.code == "bundle-invalid", what
