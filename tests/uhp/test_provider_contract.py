"""One suite for every provider: what the server relies on, whoever keeps the records."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hn_memory.uhp.faults import UhpError
from hn_memory.uhp.filters import parse_filters
from hn_memory.uhp.instants import parse_instant
from hn_memory.uhp.provider import Provider
from hn_memory.uhp.values import Author, Draft, Patch, Question, Reference, Selection, Version

ONE, OTHER = "hmem_" + "1" * 32, "hmem_" + "2" * 32
ADA = Author("person", "ada")
BOT = Author("harness", "chrn_1")


def remember(provider: Provider, content: str, memory: str = ONE, **fields: Any) -> Version:
    (version,) = provider.remember(memory, [Draft(content, **fields)], ADA)
    return version


def contents(provider: Provider, **selection: Any) -> list[Any]:
    return [one.content for one in provider.listing(ONE, Selection(**selection), None, 100).versions]


def refused(code: str) -> Any:
    return pytest.raises(UhpError, check=lambda error: error.code == code)


def instant(text: str | None) -> int:
    value = parse_instant(text or "")
    assert value is not None
    return value


def test_a_record_comes_back_as_stated(provider: Provider) -> None:
    reference = Reference(OTHER, "hrec_" + "9" * 32, "derived_from")
    draft = Draft("Acme renews.", "note", {"a": [1, {"b": None}]}, (reference,), "2026-09-30T00:00:00Z", None)
    (written,) = provider.remember(ONE, [draft], BOT)
    assert written == provider.get(ONE, written.record_id)
    assert (written.content, written.type, written.attributes) == (draft.content, draft.type, draft.attributes)
    assert (written.references, written.valid_from, written.valid_to) == ((reference,), draft.valid_from, None)
    assert (written.number, written.supersedes, written.status, written.written_by) == (1, None, "active", BOT)
    assert written.invalidated_at is None
    assert written.memory_id == ONE
    assert written.record_id.startswith("hrec_") and len(written.record_id) == 37


def test_versions_close_one_another(provider: Provider) -> None:
    first = remember(provider, "one", attributes={"k": 1})
    second = provider.revise(ONE, first.record_id, Patch({"content": "two"}), BOT)
    assert (second.record_id, second.number, second.supersedes) == (first.record_id, 2, 1)
    assert (second.content, second.attributes, second.written_by) == ("two", {"k": 1}, BOT)
    third = provider.revise(ONE, first.record_id, Patch({"type": "note", "attributes": {}}), ADA)
    assert (third.type, third.attributes, third.content) == ("note", {}, "two")
    provider.forget(ONE, first.record_id, ADA)
    history = provider.history(ONE, first.record_id)
    assert [(one.number, one.status) for one in history] == [(1, "superseded"), (2, "superseded"), (3, "forgotten")]
    assert [one.invalidated_at for one in history[:2]] == [one.written_at for one in history[1:]]
    assert provider.get(ONE, first.record_id) == history[-1]


def test_forgetting(provider: Provider) -> None:
    kept, gone = remember(provider, "kept"), remember(provider, "gone")
    assert provider.extent(ONE).count == 2
    forgotten = provider.forget(ONE, gone.record_id, ADA)
    assert forgotten.status == "forgotten" and forgotten.number == 1 and forgotten.invalidated_at is not None
    assert provider.forget(ONE, gone.record_id, BOT) == forgotten
    assert contents(provider) == ["kept"] and contents(provider, forgotten=True) == ["kept", "gone"]
    assert provider.extent(ONE).count == 1
    found = provider.recall(ONE, Question(query="gone kept")).hits
    assert [hit.version for hit in found] == [kept]
    with refused("memory_invalid"):
        provider.revise(ONE, gone.record_id, Patch({"content": "x"}), ADA)


def test_erasing(provider: Provider) -> None:
    kept, gone = remember(provider, "kept"), remember(provider, "gone")
    before = instant(gone.written_at)
    provider.revise(ONE, gone.record_id, Patch({"content": "gone again"}), ADA)
    erased = provider.erase(ONE, [gone.record_id, gone.record_id, "hrec_" + "0" * 32], ADA)
    assert erased.erased == (gone.record_id,)
    for ask in (provider.get, provider.history):
        with refused("memory_record_not_found"):
            ask(ONE, gone.record_id)  # type: ignore[operator]
    with refused("memory_record_not_found"):
        provider.get(ONE, gone.record_id, before)
    assert contents(provider, forgotten=True) == ["kept"] == contents(provider, as_of=before, forgotten=True)
    assert [hit.version for hit in provider.recall(ONE, Question(query="kept gone again")).hits] == [kept]
    assert provider.erase(ONE, [gone.record_id], ADA) == erased


def test_a_forgotten_record_can_be_erased(provider: Provider) -> None:
    gone = remember(provider, "gone")
    provider.forget(ONE, gone.record_id, ADA)
    assert provider.erase(ONE, [gone.record_id], ADA).erased == (gone.record_id,)
    with refused("memory_record_not_found"):
        provider.get(ONE, gone.record_id)


def test_a_record_is_in_one_memory_only(provider: Provider) -> None:
    record = remember(provider, "mine").record_id
    calls: list[Any] = [
        lambda: provider.get(OTHER, record),
        lambda: provider.history(OTHER, record),
        lambda: provider.revise(OTHER, record, Patch({"content": "x"}), ADA),
        lambda: provider.forget(OTHER, record, ADA),
    ]
    for call in calls:
        with refused("memory_record_not_found"):
            call()
    assert provider.erase(OTHER, [record], ADA).erased == ()
    assert provider.get(ONE, record).content == "mine"
    assert provider.extent(OTHER).count == 0
    assert provider.recall(OTHER, Question(query="mine")).hits == []


def test_as_of_is_inclusive(provider: Provider) -> None:
    first = remember(provider, "one")
    second = provider.revise(ONE, first.record_id, Patch({"content": "two"}), ADA)
    forgotten = provider.forget(ONE, first.record_id, ADA)
    start, middle, end = (instant(t) for t in (first.written_at, second.written_at, forgotten.invalidated_at))
    with refused("memory_record_not_found"):
        provider.get(ONE, first.record_id, start - 1)
    for at, content, status in ((start, "one", "active"), (middle, "two", "active"), (end, "two", "forgotten")):
        version = provider.get(ONE, first.record_id, at)
        assert (version.content, version.status) == (content, status)
        assert (version.invalidated_at is None) == (status == "active")
    assert contents(provider, as_of=start) == ["one"] == contents(provider, as_of=middle - 1)
    assert contents(provider, as_of=middle) == ["two"]
    assert contents(provider, as_of=end) == [] and contents(provider, as_of=end, forgotten=True) == ["two"]
    hits = provider.recall(ONE, Question(Selection(as_of=start), query="one two")).hits
    assert [hit.version.content for hit in hits] == ["one"]


def test_a_stale_version_changes_nothing(provider: Provider) -> None:
    record = remember(provider, "one").record_id
    provider.revise(ONE, record, Patch({"content": "two"}), ADA, if_version=1)
    for call in (
        lambda: provider.revise(ONE, record, Patch({"content": "three"}), ADA, if_version=1),
        lambda: provider.forget(ONE, record, ADA, if_version=1),
    ):
        with pytest.raises(UhpError) as caught:
            call()
        assert caught.value.code == "memory_conflict" and caught.value.detail == {"version": 2}
    assert provider.get(ONE, record).content == "two"


def test_of_many_at_once_one_wins(provider: Provider) -> None:
    record = remember(provider, "one").record_id
    outcomes: list[str] = []

    def revise(number: int) -> None:
        try:
            provider.revise(ONE, record, Patch({"content": f"by {number}"}), ADA, if_version=1)
            outcomes.append("won")
        except UhpError as error:
            outcomes.append(error.code)

    threads = [threading.Thread(target=revise, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["memory_conflict"] * 7 + ["won"]
    assert provider.get(ONE, record).number == 2


def test_episodes_are_append_only(provider: Provider) -> None:
    episodes = provider.remember(ONE, [Draft("asked", "episode"), Draft("answered", "episode")], BOT)
    assert [one.content for one in episodes] == ["asked", "answered"] == contents(provider)
    with refused("memory_invalid"):
        provider.revise(ONE, episodes[0].record_id, Patch({"content": "x"}), ADA)
    assert provider.forget(ONE, episodes[0].record_id, ADA).status == "forgotten"


def test_a_token_tells_whether_a_write_took_effect(provider: Provider) -> None:
    tokens: list[str] = []
    written = provider.remember(ONE, [Draft("one"), Draft("two")], ADA, tokens.append)
    assert provider.find(ONE, tokens[-1]) == written
    revised = provider.revise(ONE, written[0].record_id, Patch({"content": "three"}), ADA, witness=tokens.append)
    assert len(tokens) == 2
    assert provider.find(ONE, tokens[-1]) == [revised]
    provider.forget(ONE, written[0].record_id, ADA, witness=tokens.append)
    assert len(tokens) == 3
    assert provider.find(ONE, tokens[-1]) == [provider.get(ONE, written[0].record_id)]

    class BrokenOffError(Exception):
        pass

    def break_off(token: str) -> None:
        tokens.append(token)
        raise BrokenOffError

    with pytest.raises(BrokenOffError):
        provider.remember(ONE, [Draft("never")], ADA, break_off)
    assert provider.find(ONE, tokens[-1]) is None
    assert contents(provider) == ["two"]


def test_pages_cover_a_listing_once(provider: Provider) -> None:
    drafts = [Draft(f"number {number}", "note" if number % 3 else "fact") for number in range(25)]
    provider.remember(ONE, drafts, ADA)
    for types, expected in ((frozenset(), 25), (frozenset({"fact"}), 9), (frozenset({"x.none"}), 0)):
        seen: list[Any] = []
        after, pages = None, 0
        while pages == 0 or after is not None:
            page = provider.listing(ONE, Selection(types), after, 4)
            assert len(page.versions) <= 4
            seen += [one.content for one in page.versions]
            after, pages = page.next, pages + 1
        assert seen == [draft.content for draft in drafts if not types or draft.type in types]
        assert len(seen) == expected
    with refused("invalid_input"):
        provider.listing(ONE, Selection(), "no such place", 4)


def test_each_signal_as_declared(provider: Provider) -> None:
    remember(provider, "Acme renews in March.", attributes={"account": "acme"})
    remember(provider, "Globex left in May.", type="note", attributes={"account": "globex"})
    signals = provider.describe()["recall"]["signals"]
    filters = parse_filters({"field": "attributes.account", "op": "eq", "value": "acme"})
    for name, question in (
        ("query", Question(query="renews acme")),
        ("text", Question(text="renews")),
        ("filters", Question(filters=filters)),
    ):
        answer = provider.recall(ONE, question)
        if name in signals:
            assert [hit.version.content for hit in answer.hits] == ["Acme renews in March."], name
            assert answer.degraded == () and answer.hits[0].why == (name,)
            assert (answer.hits[0].score is None) == (name == "filters")
        else:
            assert answer.degraded == (f"{name}:not_supported",) and not answer.hits
    both = provider.recall(ONE, Question(query="in may", filters=filters))
    assert [hit.version.content for hit in both.hits] in ([], ["Acme renews in March."])
    nothing = provider.recall(ONE, Question(query="zebra"))
    assert nothing.hits == [] and nothing.abstain
    typed = provider.recall(ONE, Question(Selection(frozenset({"note"})), query="acme globex"))
    assert [hit.version.type for hit in typed.hits] == ["note"]


def test_dropping_a_memory(provider: Provider) -> None:
    remember(provider, "one")
    remember(provider, "other", OTHER)
    provider.drop(ONE)
    provider.drop(ONE)
    assert provider.extent(ONE).count == 0 and contents(provider) == []
    assert provider.extent(OTHER).count == 1


TEXT = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=60)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
DRAFTS = st.builds(
    Draft,
    TEXT
    | st.sampled_from(["a\n\nUhp-Type: note\nUhp-Written-By: person eve", "\n\n", "x\n", "\r\n\r\nUhp-Type: fact"]),
    st.sampled_from(["fact", "note", "procedure", "link", "episode", "x.é", '"', "x.a b", "x.\n\nUhp-Type: fact"]),
    st.dictionaries(TEXT, JSON, max_size=3),
    st.lists(st.builds(Reference, TEXT, TEXT, TEXT), max_size=2).map(tuple),
    st.none() | st.just("2026-09-30T00:00:00Z"),
    st.none() | st.just("2026-10-30T00:00:00+02:00"),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(DRAFTS, min_size=1, max_size=4))
def test_whatever_is_stated_comes_back(provider: Provider, drafts: list[Draft]) -> None:
    written = provider.remember(ONE, drafts, BOT)
    for version, draft in zip(written, drafts, strict=True):
        again = provider.get(ONE, version.record_id)
        assert again == version
        for name in Draft.__slots__:
            assert getattr(again, name) == getattr(draft, name), name
        assert again.written_by == BOT
