"""Selections, discovery, the ledger's form, and what a fresh clone is told."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from world import Author, Forge, Store, clone, git, outcome, person, refs, say, service, sync, words

import hn_memory
from hn_memory.errors import HnError
from hn_memory.protocol.query import Request
from hn_memory.protocol.selection import (
    Budgets,
    Selection,
    decode_selection,
    encode_selection,
    selection_file,
)
from hn_memory.protocol.tips import (
    ACCEPTABLE,
    Acceptance,
    Gap,
    Journal,
    Ledger,
    Move,
    Tip,
    decode_gaps,
    decode_journal,
    decode_ledger,
    encode_gaps,
    encode_journal,
    encode_ledger,
)
from hn_memory.replication.offers import known_offers, remember_offers
from hn_memory.repository.private import PrivateFiles

hexes = st.text("0123456789abcdef", min_size=64, max_size=64)
digests = hexes.map("sha256:{}".format)
oids = st.one_of(hexes, hexes.map(lambda text: text[:40]))
remotes = st.sampled_from(["origin", "a", "_x", "up-stream.2", "x" * 128])
positive = st.integers(1, 2**60)
lines = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
tips = st.builds(Tip, remotes, hexes, digests, positive, digests, oids)
calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no failure
budgets = st.builds(Budgets, positive, positive, positive, positive, positive)


@calm
@given(remotes, st.one_of(st.none(), st.sets(digests, min_size=1)), budgets, st.lists(lines), st.lists(lines))
def test_a_selection_comes_back(
    remote: str, streams: set[str] | None, bounds: Budgets, actors: list[str], proposals: list[str]
) -> None:
    chosen = None if streams is None else tuple(sorted(streams))
    selection = Selection(remote, streams is None, chosen, bounds, tuple(actors), tuple(proposals))
    data = encode_selection(selection)
    assert decode_selection(data, remote) == selection
    assert list(json.loads(data))[:2] == ["version", "remote"]


@calm
@given(st.lists(tips), st.lists(st.builds(
    Acceptance, remotes, hexes, digests, st.sampled_from(ACCEPTABLE), st.none() | oids, lines, lines
)))  # fmt: skip
def test_a_ledger_comes_back(found: list[Tip], accepted: list[Acceptance]) -> None:
    ledger = Ledger({tip.key: tip for tip in found}, accepted)
    assert decode_ledger(encode_ledger(ledger)) == ledger


@calm
@given(
    st.lists(st.builds(Move, hexes.map("refs/hn/remotes/o/memory/{}".format), st.none() | oids, oids)), st.lists(tips)
)
def test_a_journal_comes_back(moves: list[Move], found: list[Tip]) -> None:
    journal = Journal(tuple(moves), tuple(found))
    assert decode_journal(encode_journal(journal)) == journal


@calm
@given(st.sets(st.builds(Gap, remotes, hexes, digests, st.just("anchor-commit"), digests, oids)))
def test_gaps_come_back(gaps: set[Gap]) -> None:
    assert decode_gaps(encode_gaps(list(gaps))) == sorted(gaps)


GOOD: dict[str, Any] = json.loads(encode_selection(Selection("origin", False, ("sha256:" + "1" * 64,))))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"version": 2}, "version"),
        ({"remote": "other"}, "remote"),
        ({"extra": 1}, "extra"),
        ({"all": 1}, "all"),
        ({"all": True}, "memories"),
        ({"memories": []}, "memories"),
        ({"memories": ["sha256:1"]}, "memories[0]"),
        ({"memories": ["sha256:" + "2" * 64, "sha256:" + "1" * 64]}, "memories"),
        ({"budgets": {"maxEvents": 0}}, "budgets.maxEvents"),
        ({"budgets": {"maxEvents": True}}, "budgets.maxEvents"),
        ({"budgets": {"maxWishes": 3}}, "budgets.maxWishes"),
        ({"actors": [1]}, "actors[0]"),
    ],
)
def test_a_malformed_selection_is_refused_and_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(HnError) as caught:
        decode_selection(json.dumps(GOOD | changes).encode(), "origin")
    assert (caught.value.code, caught.value.field) == ("selection-invalid", field)


def test_where_it_is_kept(alice: Path) -> None:
    with service(alice) as opened:
        opened.replication_select("origin", everything=True)
    path = alice / ".git/hn/replication/selections/b3JpZ2lu.json"
    assert selection_file("origin") == path.name
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert json.loads(path.read_text()) == {
        "version": 1, "remote": "origin", "actors": [], "proposals": [], "all": True,
        "budgets": {
            "maxEvents": 10_000, "maxObjects": 100_000, "maxObjectBytes": 67_108_864,
            "maxAttachmentBytes": 16_777_216, "maxTotalBytes": 1_073_741_824,
        },
    }  # fmt: skip


def test_what_select_refuses(alice: Path) -> None:
    stream = "sha256:" + "1" * 64
    with service(alice) as opened:
        for arguments, options, code in (
            (("origin",), {}, "selection-empty"),
            (("origin", [stream]), {"everything": True}, "selection-conflict"),
            (("origin", ["1" * 64]), {}, "id-invalid"),
            (("origin", [stream]), {"budgets": {"max_events": 0}}, "budget-invalid"),
            (("../x", [stream]), {}, "remote-invalid"),
            (("origin", [stream]), {"from_policy": True}, "selection-conflict"),
            (("origin",), {"from_policy": True}, "selection-empty"),
        ):
            with pytest.raises(HnError) as caught:
                opened.replication_select(*arguments, **options)
            assert caught.value.code == code
    assert not (alice / ".git/hn/replication/selections").exists()


def test_other_namespaces_of_a_saved_selection_are_kept(alice: Path) -> None:
    stream = "sha256:" + "1" * 64
    with service(alice) as opened:
        opened.replication_select("origin", [stream])
        path = alice / ".git/hn/replication/selections/b3JpZ2lu.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"actors": ["f" * 64]}))
        opened.replication_select("origin", [stream], budgets={"max_events": 3})
        assert opened.replication_show("origin")["selections"][0]["actors"] == ["f" * 64]


def test_an_exact_selection_takes_nothing_else_and_no_command_changes_it(alice: Path, store: Store) -> None:
    one, two = Forge(store, Author(1)).grow(1).publish(), Forge(store, Author(2)).grow(1).publish()
    with service(alice) as opened:
        opened.replication_select("origin", [one.stream], budgets={"max_events": 2})
    saved = (alice / ".git/hn/replication/selections/b3JpZ2lu.json").read_bytes()
    document = sync(alice)
    assert [row["stream"] for row in document["outcomes"]] == [one.stream]
    one.grow(3).publish()
    assert outcome(sync(alice), one.stream)["outcome"] == "over-budget"
    assert (alice / ".git/hn/replication/selections/b3JpZ2lu.json").read_bytes() == saved
    with service(alice) as opened:
        opened.replication_select("origin", everything=True)
    assert words(sync(alice)) == ["promoted", "promoted"]
    assert two.commits[0] in refs(alice).values()


def test_a_damaged_selection_stops_the_sync_and_select_mends_it(alice: Path) -> None:
    with service(alice) as opened:
        opened.replication_select("origin", everything=True)
        path = alice / ".git/hn/replication/selections/b3JpZ2lu.json"
        path.write_text("{}")
        with pytest.raises(HnError) as caught:
            opened.sync("origin")
        assert caught.value.code == "selection-invalid"
        opened.replication_select("origin", everything=True)
        assert opened.sync("origin")["complete"]


def test_discover_and_from_policy(alice: Path, bob: Path, store: Store) -> None:
    actor = person(alice, "Ada")
    say(alice, "one")
    sync(alice)
    stranger = Forge(store, Author(1)).grow(1).publish()
    shared = Author(2).stream()
    Forge(store, Author(2), shared).grow(1).publish()
    Forge(store, Author(3), shared).grow(1).publish()
    before = refs(bob)
    with service(bob) as opened:
        opened.policy_trust([actor])
        git(bob, "add", ".hn")
        git(bob, "commit", "-qm", "Trust")
        document = opened.replication_discover("origin")
        rows = {row["actor"]: row for row in document["offers"]}
        assert rows[actor]["trusted"] and not rows[stranger.author.actor]["trusted"]
        assert {row["known"] for row in rows.values()} == {"no"}
        assert [row["stream"] for row in document["disputed"]] == [shared]
        assert any("--from-policy" in hint for hint in document["hints"])
        assert before | {"refs/heads/main": refs(bob)["refs/heads/main"]} == refs(bob)
        assert not (bob / ".git/hn/replication/selections").exists()
        chosen = opened.replication_select("origin", from_policy=True)["selection"]
        assert chosen["memories"] == [rows[actor]["stream"]]
        assert words(opened.sync("origin")) == ["promoted"]
        document = opened.replication_discover("origin")
        assert {row["actor"]: (row["known"], row["selected"]) for row in document["offers"]} == {
            actor: ("accepted", True),
            stranger.author.actor: ("no", False),
        }


def hints(path: Path) -> list[str]:
    with service(path) as opened:
        found: list[str] = opened.recall(Request(at="HEAD"))["receipt"]["hints"]
    return found


def test_what_a_fresh_clone_is_told(alice: Path, remote: Path, tmp_path: Path, store: Store) -> None:
    Forge(store, Author(1)).grow(1).publish()
    path = clone(f"file://{remote}", tmp_path / "fresh")
    remote.rename(tmp_path / "unreachable")  # no network in recall
    assert any("never asked" in hint and "hn replication discover origin" in hint for hint in hints(path))
    (tmp_path / "unreachable").rename(remote)
    with service(path) as opened:
        opened.replication_discover("origin")
        assert any("1 stream that nobody selected" in hint for hint in hints(path))
        assert any("nobody selected" in hint for hint in opened.init("Ada")["hints"])
    sync(path)
    assert not any("origin" in hint for hint in hints(path))


def test_a_remote_cannot_make_what_recall_reads_long(tmp_path: Path) -> None:
    files = PrivateFiles(tmp_path)
    offers = [(f"{number:064x}", f"sha256:{number:064x}") for number in range(50_000)]
    remember_offers(files, "origin", offers)
    assert known_offers(files, "origin") == offers[:10_000]
    assert files.path("replication/offers/b3JpZ2lu.json").stat().st_size < 2_000_000


def test_recall_says_nothing_of_remotes_where_there_is_none(tmp_path: Path) -> None:
    path = tmp_path / "alone"
    git(tmp_path, "init", "-q", str(path))
    git(path, "commit", "-q", "--allow-empty", "-m", "x")
    assert not any("discover" in hint for hint in hints(path))


def test_unsafe_private_files_are_refused(alice: Path) -> None:
    sync(alice)
    (alice / ".git/hn/replication").chmod(0o755)
    with pytest.raises(HnError) as caught:
        sync(alice)
    assert caught.value.code == "private-file-unsafe"
    (alice / ".git/hn/replication").chmod(0o700)
    assert sync(alice)["complete"]


def test_a_remote_that_is_none(alice: Path) -> None:
    for name, code in (("nowhere", "remote-unknown"), ("-x", "remote-invalid")):
        with service(alice) as opened, pytest.raises(hn_memory.HnError) as caught:
            opened.sync(name)
        assert caught.value.code == code
