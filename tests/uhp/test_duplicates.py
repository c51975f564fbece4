"""What a consolidation finds: which texts are near, what is merged into what, and within which budget."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hn_memory.uhp.duplicates import likeness, plan
from hn_memory.uhp.instants import parse_instant
from hn_memory.uhp.values import Author, Reference, Version

NOW = parse_instant("2026-06-01T00:00:00Z") or 0


def version(at: int, content: str, **fields: Any) -> Version:
    made = Version(
        "hmem_a", f"hrec_{at}", 1, "fact", content, {}, (), None, None,
        f"2026-01-01T{at // 3600:02d}:{at // 60 % 60:02d}:{at % 60:02d}Z", Author("person", "ada"),
    )  # fmt: skip
    return replace(made, **fields)


NEAR = [
    ("Acme renews in March.", "acme  renews in march"), ("The deal is signed", "deal is signed!"),
    ("Ask Ada, then Bob.", "Ask Ada then Bob"), ("Ünder way", "U\u0308nder way"), ("a\nb  ", "a\nb"),
]  # fmt: skip
FAR = [
    ("Acme renews in March.", "Acme renews in May."), ("Acme renews.", "Acme does not renew."), ("a > b", "a < b"),
    ("Costs 5", "Costs -5"), ("Acme renews.", "Acme renews?"), ("It is 1.5", "It is 15"), ("A owes B", "B owes A"),
    ("Use https://x.example/A", "Use https://x.example/a"), ("Plan A failed", "Plan failed"), ("C++", "C"),
    ("if x:\n    y\nz", "if x:\n    y\n    z"), ("$5", "€5"), ("run v1.A", "run v1.a"),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), NEAR)
def test_near(left: str, right: str) -> None:
    assert likeness("fact", left) == likeness("fact", right)


@pytest.mark.parametrize(("left", "right"), FAR)
def test_far(left: str, right: str) -> None:
    assert likeness("fact", left) != likeness("fact", right)


def test_a_link_is_itself_alone() -> None:
    assert likeness("link", "The list.") != likeness("link", "the list")


def test_those_that_say_the_same_become_one() -> None:
    elsewhere = Reference("hmem_b", "hrec_x")
    found = plan(
        [
            version(1, "Acme renews.", attributes={"account": "acme"}),
            version(2, "Other."),
            version(3, "acme renews", references=(elsewhere,)),
            version(4, "Acme renews!", attributes={"sure": True}),
        ],
        NOW, None, 10,
    )  # fmt: skip
    ((kept, *forgotten),) = found.groups
    assert (kept.record_id, kept.number) == ("hrec_1", 1)
    assert kept.draft is not None and kept.draft.content == "Acme renews!"
    assert kept.draft.attributes == {"account": "acme", "sure": True}
    assert [(one.record_id, one.rel) for one in kept.draft.references] == [
        ("hrec_x", "related"), ("hrec_3", "derived_from"), ("hrec_4", "derived_from"),
    ]  # fmt: skip
    assert [(one.record_id, one.draft) for one in forgotten] == [("hrec_3", None), ("hrec_4", None)]
    assert (found.read, found.through, found.exhausted) == (4, "2026-01-01T00:00:04Z", False)


def test_the_record_first_written_stays_though_it_was_revised_last() -> None:
    found = plan([version(9, "Same", record_id="hrec_a"), version(2, "same", record_id="hrec_b")], NOW, None, 10)
    ((kept, forgotten),) = found.groups
    assert (kept.record_id, forgotten.record_id) == ("hrec_a", "hrec_b")
    assert kept.draft is not None and kept.draft.content == "Same"


KEPT_APART: list[dict[str, Any]] = [
    {"type": "note"}, {"attributes": {"account": "globex"}}, {"valid_to": "2030-01-01T00:00:00Z"},
    {"valid_from": "2020-01-01T00:00:00Z"}, {"type": "episode"}, {"type": "x.calendar.event"},
]  # fmt: skip


@pytest.mark.parametrize("fields", KEPT_APART)
def test_kept_apart(fields: dict[str, Any]) -> None:
    first = version(1, "Same", attributes={"account": "acme"})
    assert plan([first, version(2, "Same", **fields)], NOW, None, 10).groups == []
    assert plan([version(1, "Same", **fields), version(2, "Same", **fields)], NOW, None, 10).groups == [] or (
        fields.get("type") not in ("episode", "x.calendar.event")
    )


def test_true_is_not_one() -> None:
    pair = [version(1, "Same", attributes={"a": 1}), version(2, "Same", attributes={"a": True})]
    assert plan(pair, NOW, None, 10).groups == []


def test_what_is_over_is_forgotten() -> None:
    over, at, later = "2026-05-31T23:59:59Z", "2026-06-01T02:00:00+02:00", "2026-06-01T00:00:01Z"
    found = plan([version(n, "Same", valid_to=end) for n, end in enumerate((over, at, later))], NOW, None, 10)
    assert [[(one.record_id, one.draft) for one in group] for group in found.groups] == [
        [("hrec_0", None)], [("hrec_1", None)],
    ]  # fmt: skip
    assert plan([version(1, "x", type="episode", valid_to=over)], NOW, None, 10).groups == []


def test_what_would_not_fit_is_left() -> None:
    assert plan([version(1, "x" * 59_990), version(2, "x" * 59_990)], NOW, None, 10).groups == []


WORDS = st.lists(
    st.tuples(
        st.sampled_from(["Acme.", "acme", "Globex", "globex!", "the Globex", "Initech"]),
        st.dictionaries(st.sampled_from("ab"), st.integers(0, 1), max_size=2),
        st.sampled_from([None, "2026-01-01T00:00:00Z"]),
    ),
    max_size=25,
)


@given(WORDS, st.integers(1, 12))
@settings(max_examples=300, deadline=None)
def test_passes_within_any_budget_come_to_the_same_end(
    drafts: list[tuple[str, dict[str, int], str | None]], limit: int
) -> None:
    """Pass after pass, each applied and each within its budget, until one has nothing to do."""
    records = {
        f"hrec_{at}": version(at, content, attributes=attributes, valid_to=end)
        for at, (content, attributes, end) in enumerate(drafts)
    }
    clock, through = 1000, None
    for _ in range(100):
        found = plan(records.values(), NOW, through, limit)
        assert sum(map(len, found.groups)) <= limit
        touched = [change.record_id for group in found.groups for change in group]
        assert len(touched) == len(set(touched))
        for change in (change for group in found.groups for change in group):
            before = records[change.record_id]
            assert before.number == change.number
            if change.draft is None:
                del records[change.record_id]
            else:
                clock += 1
                written = version(clock, "").written_at
                draft = change.draft
                records[change.record_id] = replace(
                    before, number=before.number + 1, content=draft.content, attributes=draft.attributes,
                    references=draft.references, written_at=written,
                )  # fmt: skip
        through = found.through
        if not found.groups and not found.exhausted:
            break
        if limit == 1 and found.exhausted and not found.groups:
            return  # a pair takes two
    else:
        raise AssertionError("it never ends")
    left = list(records.values())
    assert all(one.valid_to is None for one in left)
    whole = plan(left, NOW, None, 1000)
    assert whole.groups == []
