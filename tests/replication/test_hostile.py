"""Hostile streams: each refused with its own reason, the others promoted in the same sync."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from world import Author, Forge, Store, bare, fsck, git, outcome, refs, service, sync, texts, words

from hn_memory.protocol.commit import commit_object
from hn_memory.protocol.envelope import encode_envelope
from hn_memory.protocol.identifiers import memory_id
from hn_memory.replication import verify as verify_module
from hn_memory.repository import workers


def _bad_signature(forge: Forge) -> None:
    forge.append()
    forge.append(signature=b"A" * 86)
    forge.publish()


def _other_key(forge: Forge) -> None:
    forge.append(signer=Author(999))
    forge.publish()


def _other_owner(forge: Forge) -> None:
    valid = Forge(forge.store, Author(77)).grow(2)
    forge.publish(valid.commits[-1])


def _other_stream(forge: Forge) -> None:
    valid = Forge(forge.store, forge.author, forge.author.stream("elsewhere")).grow(1)
    forge.publish(valid.commits[-1])


def _reordered(forge: Forge) -> None:
    forge.append("one")
    forge.append("three", sequence=3, previous="sha256:" + "2" * 64)
    forge.append("two", sequence=2, previous=forge.ids[0])
    forge.publish()


def _dropped(forge: Forge) -> None:
    forge.append("one")
    forge.append("three", sequence=3)
    forge.publish()


def _twice(forge: Forge) -> None:
    forge.append("one")
    forge.append("again", sequence=1, previous=None)
    forge.publish()


def _third_entry(forge: Forge) -> None:
    forge.append(extra=[("zzz", "100644", "blob", b"more")])
    forge.publish()


def _third_entry_tree(forge: Forge) -> None:
    forge.append(extra=[("zzz", "40000", "tree", b"")])
    forge.publish()


def _symlink(forge: Forge) -> None:
    forge.append(mode="120000")
    forge.publish()


def _executable(forge: Forge) -> None:
    forge.append(mode="100755")
    forge.publish()


def _tree_for_memory(forge: Forge) -> None:
    forge.append(memory_tree=True)
    forge.publish()


def _two_parents(forge: Forge) -> None:
    forge.append("one")
    other = Forge(forge.store, forge.author, forge.author.stream("other")).append("x")
    forge.append("two", parents=[forge.commits[0], other])
    forge.publish()


def _root_with_parent(forge: Forge) -> None:
    other = Forge(forge.store, forge.author, forge.author.stream("other")).append("x")
    forge.append("one", parents=[other])
    forge.publish()


def _not_canonical(forge: Forge) -> None:
    envelope = forge.envelope("text")
    payload = encode_envelope(envelope) + b"\n"
    tree = b"100644 memory.json\0" + bytes.fromhex(forge.store.add("blob", payload))
    tree += b"100644 signature\0" + bytes.fromhex(forge.store.add("blob", b"A" * 86))
    commit = commit_object(envelope, memory_id(payload), forge.store.add("tree", tree), None)
    forge.publish(forge.store.add("commit", commit))


def _big_signature(forge: Forge) -> None:
    forge.append(signature=b"A" * 1000)
    forge.publish()


EVIL: dict[str, tuple[Callable[[Forge], None], str]] = {
    "bad signature": (_bad_signature, "signature"),
    "another key": (_other_key, "the signature does not hold"),
    "valid commits of another owner": (_other_owner, "the envelope's actor is not the owner"),
    "a record of another stream": (_other_stream, "the envelope's stream is not the one"),
    "reordered": (_reordered, "sequence is 3, expected 2"),
    "one dropped": (_dropped, "sequence is 3, expected 2"),
    "a sequence twice": (_twice, "sequence is 1, expected 2"),
    "a third entry": (_third_entry, "another entry beside"),
    "a third entry that is a tree": (_third_entry_tree, "another entry beside"),
    "a symlink": (_symlink, "has mode 120000"),
    "an executable": (_executable, "has mode 100755"),
    "a tree for memory.json": (_tree_for_memory, "has mode 040000"),
    "two parents": (_two_parents, "2 parents, not the predecessor alone"),
    "a parent at the first": (_root_with_parent, "the envelope's stream is not the one"),
    "not canonical": (_not_canonical, "canonical"),
    "a long signature": (_big_signature, "signature has 1000 bytes"),
}


def test_each_is_refused_with_its_own_reason_and_the_others_are_promoted(alice: Path, store: Store) -> None:
    good = [Forge(store, Author(1000 + number)).grow(3).publish() for number in range(3)]
    evil: dict[str, Forge] = {}
    for number, (name, (make, _)) in enumerate(EVIL.items()):
        evil[name] = Forge(store, Author(number))
        make(evil[name])
    document = sync(alice)
    assert not document["complete"]
    for forge in good:
        assert outcome(document, forge.stream)["outcome"] == "promoted"
        assert refs(alice)[f"refs/hn/remotes/origin/memory/{forge.author.actor}/{forge.stream[7:]}"]
    for name, forge in evil.items():
        row = outcome(document, forge.stream)
        assert row["outcome"] == "structurally-invalid", name
        assert EVIL[name][1] in row["reason"], (name, row["reason"])
    assert words(document) == sorted(["promoted"] * 3 + ["structurally-invalid"] * len(EVIL))
    assert len(refs(alice, "refs/hn")) == 3
    # Nothing of what was refused is in the store.
    for forge in evil.values():
        tip = refs(store.path)[forge.ref]
        assert subprocess.run(["git", "-C", str(alice), "cat-file", "-e", tip], capture_output=True).returncode
    assert words(sync(alice)) == sorted(["unchanged"] * 3 + ["structurally-invalid"] * len(EVIL))
    assert len(texts(alice)) == 9
    fsck(alice)


def test_commit_metadata_is_not_signed_and_not_judged(alice: Path, store: Store) -> None:
    forge = Forge(store, Author(1))
    forge.append(raw_commit=b"author Eve <eve@example.org> 1 +0000\ncommitter Eve <eve@example.org> 2 +0100\n\nOther\n")
    forge.publish()
    assert words(sync(alice)) == ["promoted"]


def test_one_stream_under_two_owners_is_not_requested(alice: Path, store: Store) -> None:
    one, two = Author(1), Author(2)
    stream = one.stream("shared")
    Forge(store, one, stream).grow(1).publish()
    Forge(store, two, stream).grow(1).publish()
    Forge(store, two).grow(1).publish()
    document = sync(alice)
    assert outcome(document, stream)["outcome"] == "structurally-invalid"
    assert "2 owners" in outcome(document, stream)["reason"]
    assert words(document) == ["promoted", "structurally-invalid"]


def test_malformed_names_and_junk_refs_are_passed_over(alice: Path, store: Store) -> None:
    forge = Forge(store, Author(1)).grow(1).publish()
    commit = forge.commits[-1]
    upper = f"refs/hn/memory/{forge.author.actor.upper()}/{forge.stream[7:]}"
    actor, digest = forge.author.actor, forge.stream[7:]
    shapes = (
        "junk/{0}",
        f"{actor}/{{0}}",
        f"{{0:064x}}/{digest}/more",
        f"{{0:063x}}/{digest}",
        f"{{0:064x}}/{digest}-",
    )
    junk = [f"refs/hn/memory/{shapes[number % 5].format(number)}" for number in range(10_000)]
    junk += [f"refs/junk/{number}" for number in range(10_000)]
    there = refs(store.path) | dict.fromkeys([upper, *junk], commit)
    # By hand and at once: making them one by one takes Git half a minute.
    lines = "".join(f"{there[ref]} {ref}\n" for ref in sorted(there))
    (store.path / "packed-refs").write_text(f"# pack-refs with: peeled fully-peeled sorted \n{lines}")
    with service(alice) as opened:
        document = opened.sync("origin")
        assert words(document) == ["promoted"]
        assert any("10001 malformed" in notice for notice in opened.notices)
        document = opened.replication_discover("origin")
        assert (len(document["offers"]), document["malformed"]) == (1, 10_001)
    assert len(refs(alice, "refs/hn")) == 1


def test_a_65_MiB_blob_is_over_budget_and_stays_out(alice: Path, store: Store) -> None:  # noqa: N802
    forge = Forge(store, Author(1))
    forge.append(extra=[("zzz", "100644", "blob", b"\0" * (65 * 1024 * 1024))])
    forge.publish()
    good = Forge(store, Author(2)).grow(1).publish()
    document = sync(alice)
    assert outcome(document, forge.stream)["outcome"] == "over-budget"
    assert "maxObjectBytes" in outcome(document, forge.stream)["reason"]
    assert outcome(document, good.stream)["outcome"] == "promoted"
    assert int(git(alice, "count-objects", "-v").split("size-pack: ")[1].split()[0]) < 1000


def test_attachments_have_a_budget_of_their_own(alice: Path, store: Store) -> None:
    forge = Forge(store, Author(1))
    forge.append(extra=[("zzz", "100644", "blob", b"\0" * (17 * 1024 * 1024))])
    forge.publish()
    row = outcome(sync(alice), forge.stream)
    assert (row["outcome"], "maxAttachmentBytes" in row["reason"]) == ("over-budget", True)


def test_10001_commits_are_over_budget_and_10000_are_not(alice: Path, store: Store, tmp_path: Path) -> None:
    forge = Forge(store, Author(1)).grow(10_001).publish()
    row = outcome(sync(alice), forge.stream)
    assert (row["outcome"], "maxEvents" in row["reason"]) == ("over-budget", True)
    forge.publish(forge.commits[9_999])
    assert outcome(sync(alice), forge.stream)["sequence"] == 10_000
    # Budgets count what is new: the next one passes.
    forge.publish(forge.commits[10_000])
    assert outcome(sync(alice), forge.stream)["sequence"] == 10_001


def test_a_pack_beyond_maxTotalBytes_is_cut_off_while_it_arrives(alice: Path, store: Store) -> None:  # noqa: N802
    noise = os.urandom(4 * 1024 * 1024)
    large = Forge(store, Author(1))
    large.append(extra=[("zzz", "100644", "blob", noise)])
    large.publish()
    good = Forge(store, Author(2)).grow(1).publish()
    with service(alice) as opened:
        opened.replication_select("origin", everything=True, budgets={"max_total_bytes": 1024 * 1024})
    document = sync(alice)
    assert outcome(document, large.stream)["outcome"] == "over-budget"
    assert "maxTotalBytes" in outcome(document, large.stream)["reason"]
    assert outcome(document, good.stream)["outcome"] == "promoted"


def test_an_anchor_of_the_wrong_type_is_relationship_invalid(alice: Path, store: Store) -> None:
    blob = git(alice, "rev-parse", "HEAD:app.py")
    wrong = Forge(store, Author(1))
    wrong.append(anchor=blob)
    wrong.publish()
    absent = Forge(store, Author(2)).grow(1).publish()
    document = sync(alice)
    assert outcome(document, wrong.stream)["outcome"] == "relationship-invalid"
    assert "is a blob" in outcome(document, wrong.stream)["reason"]
    assert outcome(document, absent.stream)["outcome"] == "promoted"


def test_a_corrupt_object_is_found_by_halving(tmp_path: Path, alice: Path, store: Store) -> None:
    good = [Forge(store, Author(10 + number)).grow(2).publish() for number in range(6)]
    bad = Forge(store, Author(1)).grow(2).publish()
    blob = git(store.path, "rev-parse", f"{bad.commits[0]}:memory.json")
    path = store.path / "objects" / blob[:2] / blob[2:]
    path.chmod(0o644)
    path.write_bytes(b"garbage")
    document = sync(alice)
    row = outcome(document, bad.stream)
    assert row["outcome"] == "structurally-invalid"
    assert "could not deliver" in row["reason"]
    assert all(outcome(document, forge.stream)["outcome"] == "promoted" for forge in good)
    fsck(alice)


def test_workers_judge_as_one_process_does(alice: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams are spread over processes, and a commit that does not hold condemns its own."""
    monkeypatch.setattr(verify_module, "PARALLEL_FROM", 1)
    monkeypatch.setattr(workers, "CHUNK", 2)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    started: list[int] = []
    real = workers.spread

    def counted(*arguments: Any, **options: Any) -> Any:
        started.append(len(arguments[1]))
        return real(*arguments, **options)

    monkeypatch.setattr(workers, "spread", counted)
    good = [Forge(store, Author(10 + number)).grow(3).publish() for number in range(2)]
    ada, eve = Forge(store, Author(1)).grow(2).publish(), Forge(store, Author(2)).grow(1)
    # Somebody else's records, in a stream of her own.
    git(store.path, "update-ref", eve.ref, ada.commits[-1])
    document = sync(alice)
    assert started == [3 + 3 + 2 + 2]
    assert {outcome(document, forge.stream)["outcome"] for forge in (*good, ada)} == {"promoted"}
    assert outcome(document, eve.stream)["outcome"] == "structurally-invalid"
    assert "owner" in outcome(document, eve.stream)["reason"]


def test_a_vanished_object_is_found_by_halving(alice: Path, store: Store) -> None:
    good = Forge(store, Author(10)).grow(2).publish()
    bad = Forge(store, Author(1)).grow(2).publish()
    blob = git(store.path, "rev-parse", f"{bad.commits[0]}:signature")
    (store.path / "objects" / blob[:2] / blob[2:]).unlink()
    document = sync(alice)
    assert outcome(document, bad.stream)["outcome"] == "structurally-invalid"
    assert outcome(document, good.stream)["outcome"] == "promoted"


def test_an_unreadable_part_condemns_only_its_stream(
    alice: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever breaks while many streams are read in one go, each is then read by itself."""
    good = [Forge(store, Author(10 + number)).grow(2).publish() for number in range(3)]
    real = verify_module.verify_walked
    broken = good[1].commits[0]

    def failing(repository: object, walked: list[verify_module.Walked], sizes: object) -> object:
        for item in walked:
            if item.commit == broken:
                raise ValueError("cut short")
        return real(repository, walked, sizes)  # type: ignore[arg-type]

    monkeypatch.setattr(verify_module, "verify_walked", failing)
    document = sync(alice)
    assert outcome(document, good[1].stream)["outcome"] == "structurally-invalid"
    assert words(document) == ["promoted", "promoted", "structurally-invalid"]


def test_sha256_streams_travel_and_sha1_does_not_mix(tmp_path: Path) -> None:
    from world import clone, person, say

    import hn_memory

    remote = bare(tmp_path / "r.git", "--object-format=sha256")
    one = tmp_path / "one"
    git(tmp_path, "init", "-q", "--object-format=sha256", str(one))
    git(one, "commit", "-q", "--allow-empty", "-m", "Start")
    git(one, "remote", "add", "origin", f"file://{remote}")
    git(one, "push", "-q", "origin", "HEAD:main")
    person(one, "Ada")
    say(one, "long IDs")
    assert words(sync(one)) == ["published"]
    two = clone(f"file://{remote}", tmp_path / "two")
    assert words(sync(two)) == ["promoted"]
    assert texts(two) == ["long IDs"]
    fsck(two)
    other = clone(f"file://{bare(tmp_path / 'sha1.git')}", tmp_path / "three")
    git(other, "remote", "add", "long", f"file://{remote}")
    with pytest.raises(hn_memory.HnError) as caught:
        sync(other, "long")
    assert caught.value.code == "object-format-mismatch"
    assert "SHA-256" in caught.value.message and "SHA-1" in caught.value.message
