"""Rewinds, deletions, forks and equivocation: told, told again, nothing moved, evidence kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from world import Author, Forge, Store, bare, clone, fsck, git, outcome, person, refs, say, service, sync, texts, words

import hn_memory


def fork(store: Store, forge: Forge, at: int, text: str = "other") -> Forge:
    """The same stream up to `at`, and something else from there on."""
    other = Forge(store, forge.author, forge.stream)
    other.commits, other.ids = forge.commits[:at], forge.ids[:at]
    return other.grow(2, text)


def twice(path: Path, stream: str, word: str, remote: str = "origin") -> dict[str, Any]:
    """Sync twice: the same word, and no accepted ref has moved. The second outcome."""
    before = refs(path, "refs/hn/remotes", "refs/hn/memory")
    first = sync(path, remote)
    assert outcome(first, stream)["outcome"] == word, first
    assert not first["complete"]
    kept = refs(path, "refs/hn")
    second = sync(path, remote)
    assert outcome(second, stream)["outcome"] == word
    assert not second["complete"]
    assert refs(path, "refs/hn") == kept
    assert refs(path, "refs/hn/remotes", "refs/hn/memory") == before
    fsck(path)
    row = outcome(second, stream)
    assert "accepted" not in row
    return row


def test_a_rewind(alice: Path, store: Store) -> None:
    forge = Forge(store, Author(1)).grow(41).publish()
    sync(alice)
    forge.publish(forge.commits[11])
    row = twice(alice, forge.stream, "rewound")
    assert "from 41 to 12" in row["reason"]
    assert "tips accept" in row["hint"]
    forge.publish()
    assert words(sync(alice)) == ["unchanged"]


def test_a_rewind_is_told_when_the_accepted_ref_is_gone_and_everything_is_pruned(alice: Path, store: Store) -> None:
    forge = Forge(store, Author(1)).grow(5).publish()
    sync(alice)
    (ref,) = refs(alice, "refs/hn")
    git(alice, "update-ref", "-d", ref)
    git(alice, "gc", "-q", "--prune=now")
    forge.publish(forge.commits[1])
    assert "from 5 to 2" in twice(alice, forge.stream, "rewound")["reason"]
    forge.publish()
    assert words(sync(alice)) == ["promoted"]
    assert refs(alice, "refs/hn") == {ref: forge.commits[-1]}


def test_a_withdrawal_and_a_person_who_lets_it_pass(alice: Path, store: Store) -> None:
    forge = Forge(store, Author(1)).grow(2).publish()
    sync(alice)
    git(store.path, "update-ref", "-d", forge.ref)
    row = twice(alice, forge.stream, "withdrawn")
    assert "held 2 before" in row["reason"]
    before = refs(alice, "refs/hn")
    with service(alice) as opened:
        answer = opened.replication_tips_accept("origin", forge.stream, "Ada took it back")
        assert answer["accepted"]["outcome"] == "withdrawn"
        assert opened.replication_tips()["accepted"] == [answer["accepted"]]
    assert refs(alice, "refs/hn") == before
    document = sync(alice)
    assert document["complete"]
    assert outcome(document, forge.stream)["accepted"] == "Ada took it back"
    # Whatever it does next is told again.
    forge.publish(forge.commits[0])
    assert not sync(alice)["complete"]


def test_nothing_to_accept(alice: Path, store: Store) -> None:
    forge = Forge(store, Author(1)).grow(2).publish()
    sync(alice)
    with service(alice) as opened:
        for reason, code in (("fine", "nothing-to-accept"), (" ", "reason-invalid"), ("a\nb", "reason-invalid")):
            with pytest.raises(hn_memory.HnError) as caught:
                opened.replication_tips_accept("origin", forge.stream, reason)
            assert caught.value.code == code


@pytest.mark.parametrize("at", [0, 1, 3])
def test_a_fork(alice: Path, store: Store, at: int) -> None:
    forge = Forge(store, Author(1)).grow(4).publish()
    sync(alice)
    other = fork(store, forge, at).publish()
    row = twice(alice, forge.stream, "forked")
    assert f"at sequence {at + 1}" in row["reason"]
    assert forge.ids[at] in row["reason"] and other.ids[at] in row["reason"]
    evidence = refs(alice, "refs/hn/evidence")
    assert sorted(evidence.values()) == sorted([forge.commits[-1], other.commits[-1]])
    assert {item["ref"] for item in row["evidence"]} == set(evidence)
    assert {item["memoryId"] for item in row["evidence"]} == {forge.ids[at], other.ids[at]}
    assert len(texts(alice)) == 4
    # The evidence outlives the remote's second thoughts and a collection.
    forge.publish()
    git(alice, "gc", "-q", "--prune=now")
    assert words(sync(alice)) == ["unchanged"]
    assert refs(alice, "refs/hn/evidence") == evidence


def test_an_accepted_fork_passes_until_it_grows(alice: Path, store: Store) -> None:
    forge = Forge(store, Author(1)).grow(4).publish()
    sync(alice)
    other = fork(store, forge, 2).publish()
    sync(alice)
    evidence = refs(alice, "refs/hn/evidence")
    with service(alice) as opened:
        opened.replication_tips_accept("origin", forge.stream, "known")
    assert sync(alice)["complete"]
    assert refs(alice, "refs/hn/evidence") == evidence
    other.grow(1).publish()
    assert not sync(alice)["complete"]


def test_a_fork_that_does_not_verify_is_only_invalid(alice: Path, store: Store) -> None:
    forge = Forge(store, Author(1)).grow(4).publish()
    sync(alice)
    other = fork(store, forge, 2)
    other.append(signer=Author(9))
    other.publish()
    row = twice(alice, forge.stream, "structurally-invalid")
    assert "position 5" in row["reason"]
    assert not refs(alice, "refs/hn/evidence")


def test_an_unrelated_root(alice: Path, store: Store) -> None:
    forge = Forge(store, Author(1)).grow(3).publish()
    sync(alice)
    Forge(store, forge.author, forge.stream).grow(5, "quite other").publish()
    assert "at sequence 1 " in twice(alice, forge.stream, "forked")["reason"]


def test_equivocation_between_two_remotes(alice: Path, store: Store, tmp_path: Path) -> None:
    forge = Forge(store, Author(1)).grow(4).publish()
    second = Store(bare(tmp_path / "second.git"))
    honest = Forge(second, Author(2)).grow(1).publish()
    copied = Forge(second, forge.author, forge.stream).grow(2)
    assert copied.commits == forge.commits[:2]
    other = fork(second, copied, 2, "told to others").publish()
    git(alice, "remote", "add", "second", f"file://{second.path}")
    sync(alice)
    before = refs(alice, "refs/hn/remotes/origin")
    document = sync(alice, "second", push=False)
    assert outcome(document, honest.stream)["outcome"] == "promoted"
    row = outcome(document, forge.stream)
    assert row["outcome"] == "equivocated"
    assert "at sequence 3" in row["reason"] and forge.ids[2] in row["reason"] and other.ids[2] in row["reason"]
    assert outcome(sync(alice, "second", push=False), forge.stream)["outcome"] == "equivocated"
    assert sorted(refs(alice, "refs/hn/evidence").values()) == sorted([forge.commits[-1], other.commits[-1]])
    assert refs(alice, "refs/hn/remotes/origin") == before
    assert not [ref for ref in refs(alice, "refs/hn/remotes/second") if forge.stream[7:] in ref]
    fsck(alice)


def test_two_remotes_at_different_points_of_one_history_agree(alice: Path, store: Store, tmp_path: Path) -> None:
    forge = Forge(store, Author(1)).grow(6).publish()
    second = Store(bare(tmp_path / "second.git"))
    copied = Forge(second, forge.author, forge.stream).grow(6)
    copied.publish(copied.commits[2])
    git(alice, "remote", "add", "second", f"file://{second.path}")
    assert words(sync(alice)) == ["promoted"]
    assert words(sync(alice, "second")) == ["promoted"]
    copied.publish(copied.commits[4])
    assert words(sync(alice, "second")) == ["promoted"]
    copied.grow(2).publish()
    assert words(sync(alice, "second")) == ["promoted"]
    assert words(sync(alice)) == ["unchanged"]


def test_one_key_in_two_clones_forks_and_is_told_the_way_out(alice: Path, bob: Path) -> None:
    actor = person(alice, "Ada")
    say(alice, "first")
    sync(alice)
    with service(bob) as opened:
        opened.identity_import(alice)
    git(bob, "update-ref", f"refs/hn/memory/{actor}/{'0' * 64}", "HEAD")
    git(bob, "update-ref", "-d", f"refs/hn/memory/{actor}/{'0' * 64}")
    say(bob, "from the other clone")
    document = sync(bob)
    (row,) = document["outcomes"]
    assert row["outcome"] == "forked"
    assert "--stream new" in row["hint"] and "this clone" in row["reason"]
    assert not document["complete"]
    say(bob, "goes on", stream="new")
    assert words(sync(bob)) == ["forked", "published"]
    assert words(sync(alice)) == ["promoted", "unchanged"]
    assert texts(alice) == ["first", "goes on"]


def test_a_fork_made_after_the_remote_was_imported_is_told_too(alice: Path, bob: Path) -> None:
    person(alice, "Ada")
    say(alice, "first")
    sync(alice)
    with service(bob) as opened:
        opened.identity_import(alice)
    sync(bob)
    (ref,) = refs(bob, "refs/hn/remotes")
    git(bob, "update-ref", ref.replace("remotes/origin/", ""), ref)
    say(bob, "second, there")
    assert words(sync(bob)) == ["published"]
    say(alice, "second, here")
    assert words(sync(alice)) == ["forked"]
    assert words(sync(alice)) == ["forked"]
    fsck(alice)


def test_the_ledger_is_made_anew_from_accepted_refs_when_it_is_lost(alice: Path, store: Store) -> None:
    forge = Forge(store, Author(1)).grow(5).publish()
    sync(alice)
    (alice / ".git/hn/replication/tips.json").unlink()
    forge.publish(forge.commits[2])
    assert words(sync(alice)) == ["rewound"]
    forge.publish()
    assert words(sync(alice)) == ["unchanged"]
    with service(alice) as opened:
        assert [tip["sequence"] for tip in opened.replication_tips()["tips"]] == [5]


def test_a_damaged_ledger_is_refused_and_never_replaced(alice: Path, store: Store) -> None:
    Forge(store, Author(1)).grow(1).publish()
    sync(alice)
    path = alice / ".git/hn/replication/tips.json"
    path.write_text(path.read_text()[:-10])
    for _ in range(2):
        with pytest.raises(hn_memory.HnError) as caught:
            sync(alice)
        assert caught.value.code == "ledger-invalid"


def test_the_users_own_fetch_cannot_hide_a_rewind(alice: Path, store: Store) -> None:
    forge = Forge(store, Author(1)).grow(5).publish()
    sync(alice)
    forge.publish(forge.commits[1])
    git(alice, "fetch", "-q", "origin", "+refs/hn/memory/*:refs/hn/remotes/origin/memory/*")
    assert words(sync(alice)) == ["rewound"]


def test_selected_and_never_offered(alice: Path, store: Store) -> None:
    forge = Forge(store, Author(1)).grow(1).publish()
    missing = Author(2).stream()
    with service(alice) as opened:
        opened.replication_select("origin", [missing, forge.stream])
    document = sync(alice)
    assert outcome(document, missing)["outcome"] == "not-offered"
    assert outcome(document, missing)["actor"] is None
    assert outcome(document, forge.stream)["outcome"] == "promoted"
    assert not document["complete"]
    json.dumps(document)


def test_a_replaced_remote_gets_everything_again_once_a_person_looked(tmp_path: Path, remote: Path) -> None:
    path = clone(f"file://{remote}", tmp_path / "one")
    person(path, "Ada")
    say(path, "mine")
    assert words(sync(path)) == ["published"]
    git(path, "remote", "set-url", "origin", f"file://{bare(tmp_path / 'fresh.git')}")
    assert words(sync(path)) == ["withdrawn"]
    (stream,) = [row["stream"] for row in sync(path)["outcomes"]]
    with service(path) as opened:
        opened.replication_tips_accept("origin", stream, "the server was replaced")
    document = sync(path)
    assert "published" in words(document) and document["complete"]
    assert words(sync(path)) == ["unchanged"]
