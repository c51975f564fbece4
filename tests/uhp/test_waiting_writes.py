"""Writes that wait are carried out together, and each is decided, witnessed and refused by itself."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from uhp_harness import make_repository, open_hn

from hn_memory import open_repository
from hn_memory.uhp.faults import UhpError
from hn_memory.uhp.hn.provider import HnProvider
from hn_memory.uhp.hn.view import View
from hn_memory.uhp.hn.wishes import Wish, dealt, matching
from hn_memory.uhp.provider import Witness, one_by_one, unwitnessed
from hn_memory.uhp.values import Author, Draft, Patch, Selection, Version

ONE, OTHER = "hmem_" + "1" * 32, "hmem_" + "2" * 32
ADA = Author("person", "ada")
TOKEN = "ghp_" + "a1B2" * 9  # the shape of a credential


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "project")


def at_a_stroke(told: Sequence[tuple[Witness, str]]) -> bool:
    """Tells all, or says that each is to be told by itself."""
    try:
        for witness, token in told:
            witness(token)
    except Exception:
        return False
    return True


@pytest.fixture(params=[one_by_one, at_a_stroke])
def provider(place: Path, request: pytest.FixtureRequest) -> Iterator[HnProvider]:
    made = open_hn(place, request.param)
    yield made
    made.close()


def all_at_once(provider: HnProvider, *writes: Callable[[], Any]) -> list[Any]:
    """What the writes gave or raised, begun in their order while another write is under way."""
    answers: list[Any] = [None] * len(writes)

    def run(at: int) -> None:
        try:
            answers[at] = writes[at]()
        except UhpError as error:
            answers[at] = error.code
        except Exception as error:
            answers[at] = type(error).__name__

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(writes))]
    with provider._writing:
        for number, thread in enumerate(threads, 1):
            thread.start()
            while len(provider._waiting) < number:
                time.sleep(0.001)
    for thread in threads:
        thread.join(30)
    return answers


def head(place: Path, provider: HnProvider, memory: str) -> str:
    ref = f"refs/hn/memory/*/{provider.stream(memory).removeprefix('sha256:')}"
    done = subprocess.run(["git", "for-each-ref", "--format=%(objectname)", ref], cwd=place, capture_output=True)
    return done.stdout.decode().strip()


def contents(provider: HnProvider, memory: str = ONE) -> list[Any]:
    return [one.content for one in provider.listing(memory, Selection(), None, 100).versions]


def test_they_share_one_move_of_the_ref(place: Path, provider: HnProvider) -> None:
    provider.remember(ONE, [Draft("first")], ADA)
    seen: list[str] = []

    def write(number: int) -> Callable[[], list[Version]]:
        drafts = [Draft(f"{number}.{part}") for part in range(number % 3 + 1)]
        memory = ONE if number % 2 else OTHER

        def witness(token: str) -> None:
            assert len(token.split()) == len(drafts)
            seen.append(head(place, provider, ONE))

        return lambda: provider.remember(memory, drafts, ADA, witness)

    before = head(place, provider, ONE)
    answers = all_at_once(provider, *(write(number) for number in range(9)))
    assert [[one.content for one in answer] for answer in answers] == [
        [f"{number}.{part}" for part in range(number % 3 + 1)] for number in range(9)
    ]
    ids = [one.record_id for answer in answers for one in answer]
    assert len(ids) == len(set(ids)) == 18
    # The five of even number come first, their memory being the first that waited; the others all met one head.
    assert seen[:5] == [before] * 5 and seen[5:] == [before] * 4
    assert len(contents(provider)) == 1 + sum(number % 3 + 1 for number in range(1, 9, 2))
    with open_repository(place) as service:
        verified = service.verify()
    assert verified["valid"] and verified["memories"] == 19


def test_a_refused_one_leaves_the_others_alone(provider: HnProvider) -> None:
    def busy(token: str) -> None:
        raise UhpError("memory_busy", "somebody else does it")

    answers = all_at_once(
        provider,
        lambda: provider.remember(ONE, [Draft("a")], ADA),
        lambda: provider.remember(ONE, [Draft("b"), Draft(f"key {TOKEN}")], ADA),
        lambda: provider.remember(ONE, [Draft("c")], ADA, busy),
        lambda: provider.revise(ONE, "hrec_" + "9" * 32, Patch({"content": "x"}), ADA),
        lambda: provider.remember(ONE, [Draft("d")], ADA),
    )
    assert [answer if isinstance(answer, str) else answer[0].content for answer in answers] == [
        "a", "memory_invalid", "memory_busy", "memory_record_not_found", "d",
    ]  # fmt: skip
    assert contents(provider) == ["a", "d"]


def test_what_nobody_expected_hits_its_own_write_alone(provider: HnProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(token: str) -> None:
        raise ZeroDivisionError

    answers = all_at_once(
        provider,
        lambda: provider.remember(ONE, [Draft("a")], ADA),
        lambda: provider.remember(ONE, [Draft("b")], ADA, broken),
        lambda: provider.remember(OTHER, [Draft("c")], ADA),
    )
    assert [answers[0][0].content, answers[1], answers[2][0].content] == ["a", "ZeroDivisionError", "c"]
    # The view cannot take in what the first memory's append wrote: the other memory's write is none the worse for it.
    taken = View.extend

    def extend(view: View, *arguments: Any) -> None:
        if view.memory == ONE:
            raise MemoryError
        taken(view, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(View, "extend", extend)
        answers = all_at_once(
            provider,
            lambda: provider.remember(ONE, [Draft("d")], ADA),
            lambda: provider.remember(OTHER, [Draft("e")], ADA),
        )
    assert answers[0] == "MemoryError" and answers[1][0].content == "e"
    assert contents(provider) == ["a", "d"] and contents(provider, OTHER) == ["c", "e"]


def test_of_two_on_one_record_the_second_meets_what_the_first_did(provider: HnProvider) -> None:
    (record,) = provider.remember(ONE, [Draft("one")], ADA)
    name = record.record_id
    answers = all_at_once(
        provider,
        lambda: provider.revise(ONE, name, Patch({"content": "two"}), ADA, 1),
        lambda: provider.revise(ONE, name, Patch({"content": "zwei"}), ADA, 1),
        lambda: provider.remember(ONE, [Draft("beside")], ADA),
        lambda: provider.revise(ONE, name, Patch({"attributes": {"k": 1}}), ADA),
        lambda: provider.forget(ONE, name, ADA, 3),
    )
    assert answers[0].content == "two" and answers[1] == "memory_conflict"
    assert (answers[3].number, answers[3].content, answers[3].attributes) == (3, "two", {"k": 1})
    assert answers[4].status == "forgotten"
    assert contents(provider) == ["beside"]


def test_erasing_goes_alone(provider: HnProvider) -> None:
    (record,) = provider.remember(ONE, [Draft("one")], ADA)
    answers = all_at_once(
        provider,
        lambda: provider.remember(ONE, [Draft("two")], ADA),
        lambda: provider.erase(ONE, [record.record_id], ADA),
        lambda: provider.remember(ONE, [Draft("three")], ADA),
    )
    assert answers[1].erased == (record.record_id,)
    assert contents(provider) == ["two", "three"]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.frozensets(st.integers(0, 3), max_size=2)), min_size=1))
def test_together_is_what_could_as_well_be_one_after_the_other(
    waiting: list[tuple[str, frozenset[int] | None]],
) -> None:
    wishes = [
        Wish(memory, lambda _: [], unwitnessed, None if records is None else frozenset(map(str, records)))
        for memory, records in waiting
    ]
    left = wishes
    order: list[Wish] = []
    while left:
        together, rest = matching(left)
        assert together[0] is left[0] and len(together) + len(rest) == len(left)
        assert {wish.memory for wish in together} == {left[0].memory}
        if len(together) > 1:
            assert all(wish.records is not None for wish in together)
            records = [record for wish in together for record in wish.records or ()]
            assert len(records) == len(set(records))
        order += together
        left = rest
    for memory in "ab":
        # Within a memory nobody overtakes anybody.
        assert [wish for wish in order if wish.memory == memory] == [wish for wish in wishes if wish.memory == memory]


def test_each_gets_its_own() -> None:
    wishes = [Wish(ONE, lambda _: [], unwitnessed, frozenset()) for _ in range(3)]
    wishes[0].said, wishes[2].said = [None, None], [None]  # type: ignore[list-item]
    assert [own for _, own in dealt(wishes, ["a", "b", "c"])] == [["a", "b"], [], ["c"]]
