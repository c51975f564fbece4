"""Projection (section 5): each of the five judgments as a table, with a world made up for the test."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator import OID, OTHER_OID, Author, changed, record

from hn_memory.protocol.envelope import encode_envelope
from hn_memory.protocol.identifiers import memory_id
from hn_memory.protocol.lifecycle import judge_lifecycles
from hn_memory.protocol.policy import missing_policy, parse_policy
from hn_memory.protocol.projection import (
    APPLICABILITIES,
    LIFECYCLES,
    Context,
    Dependency,
    SourceMemory,
    judge_applicability,
    judge_evidence,
    project,
    sort_rows,
)
from hn_memory.protocol.record import Anchor, Applicability, PathAnchor

ADA, BOB = Author(1, "Ada"), Author(2, "Bob")
SUBJECT, OTHER_SUBJECT = ("issue:sha256:" + digit * 64 for digit in "78")
NOWHERE = "sha256:" + "0" * 64
EVENT = "sha256:" + "e" * 64


class FakeWorld:
    """Answers as told. `anchor` is the state of every anchor, `ancestor` that of every commit."""

    def __init__(
        self,
        *,
        anchor: str | None = None,
        query: bool = True,
        ancestor: bool | str = True,
        objects: Iterable[str] = (),
        events: Iterable[str] = (),
    ) -> None:
        self.anchor, self.query, self.ancestor = anchor, query, ancestor
        self.objects, self.events = set(objects), set(events)

    def anchor_state(self, anchor: Anchor) -> str | None:
        return self.anchor

    def query_exists(self) -> bool:
        return self.query

    def ancestry(self, commit: str) -> bool | str:
        return self.ancestor

    def object_exists(self, oid: str) -> bool:
        return oid in self.objects

    def event_accepted(self, event_id: str) -> bool:
        return event_id in self.events


class Told:
    """A verified set that grows as authors speak."""

    def __init__(self) -> None:
        self.memories: dict[str, SourceMemory] = {}
        self.count = 0

    def say(self, author: Author, operation: str = "record", target: str | None = None, **changes: Any) -> str:
        """One memory of an author, each with other words; answers its ID."""
        self.count += 1
        fields: dict[str, Any] = {} if target is None else {"target": target}
        if operation in ("record", "supersede") and "record" not in changes:
            fields["record"] = record(f"note {self.count}")
        fields["timestamp"] = f"2026-10-01T17:02:{self.count:02d}Z"
        envelope = author.envelope(operation, **(fields | changes))
        name = memory_id(encode_envelope(envelope))
        self.memories[name] = SourceMemory(name, f"{self.count:040x}", envelope)
        return name

    def states(self) -> dict[str, str]:
        """The lifecycle of every record."""
        judged = judge_lifecycles(self.memories)
        return {
            name: judged.state(name) for name, memory in self.memories.items() if memory.envelope.record is not None
        }


# -- lifecycle --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("successors", "retractions", "challenges", "state"),
    [
        (0, 0, 0, "active"),
        (0, 0, 3, "active"),
        (1, 0, 0, "superseded"),
        (1, 0, 2, "superseded"),
        (2, 0, 0, "branching"),
        (3, 0, 1, "branching"),
        (0, 1, 0, "retracted"),
        (0, 2, 0, "retracted"),
        (1, 1, 0, "retracted"),
        (2, 1, 1, "retracted"),
    ],
)
def test_the_lifecycle_table(successors: int, retractions: int, challenges: int, state: str) -> None:
    told = Told()
    target = told.say(ADA)
    said = {
        "supersede": sorted(told.say(ADA, "supersede", target) for _ in range(successors)),
        "retract": sorted(told.say(ADA, "retract", target) for _ in range(retractions)),
        "challenge": sorted(told.say(BOB, "challenge", target) for _ in range(challenges)),
    }
    judged = judge_lifecycles(told.memories)
    assert judged.state(target) == state
    edges = judged.edges.get(target)
    if edges is None:
        assert not any(said.values())
    else:
        assert (edges.successors, edges.retractions, edges.challengers) == tuple(said.values())
    assert judged.diagnostics == judged.dependencies == []
    assert [(item.operation, item.memory_id) for item in judged.relationships] == [
        (operation, name) for operation in ("challenge", "retract", "supersede") for name in said[operation]
    ]
    # A successor is a record of its own, and nobody has spoken about it.
    assert all(judged.state(name) == "active" for name in said["supersede"])


def test_an_unknown_target_is_a_dependency() -> None:
    told = Told()
    names = {operation: told.say(ADA, operation, NOWHERE) for operation in ("supersede", "retract", "challenge")}
    judged = judge_lifecycles(told.memories)
    assert judged.state(names["supersede"]) == "dependency-missing"
    assert judged.relationships == judged.diagnostics == []
    assert [item.document() for item in judged.dependencies] == [
        {
            "kind": "lifecycle-target", "ownerId": names[operation], "stream": ADA.stream, "operation": operation,
            "missingId": NOWHERE, "reason": "target-unavailable",
        }
        for operation in ("challenge", "retract", "supersede")
    ]  # fmt: skip


def test_a_missing_target_goes_before_everything_said_about_the_successor() -> None:
    told = Told()
    orphan = told.say(ADA, "supersede", NOWHERE)
    told.say(ADA, "retract", orphan)
    told.say(ADA, "supersede", orphan)
    told.say(ADA, "supersede", orphan)
    assert told.states()[orphan] == "dependency-missing"
    edges = judge_lifecycles(told.memories).edges[orphan]
    assert (len(edges.successors), len(edges.retractions)) == (2, 1)


@pytest.mark.parametrize(
    ("author", "operation", "about", "code"),
    [
        (BOB, "supersede", "record", "actor-mismatch"),
        (BOB, "retract", "record", "actor-mismatch"),
        (BOB, "challenge", "record", None),
        (ADA, "challenge", "record", None),
        (ADA, "supersede", "record", None),
        (ADA, "retract", "record", None),
        (ADA, "supersede", "successor", None),
        (ADA, "supersede", "retraction", "wrong-target-kind"),
        (ADA, "retract", "retraction", "wrong-target-kind"),
        (ADA, "challenge", "retraction", "wrong-target-kind"),
        (BOB, "challenge", "challenge", "wrong-target-kind"),
        (BOB, "retract", "challenge", "wrong-target-kind"),
        (BOB, "supersede", "retraction", "wrong-target-kind"),
    ],
)
def test_who_may_speak_about_what(author: Author, operation: str, about: str, code: str | None) -> None:
    told = Told()
    plain = told.say(ADA)
    targets = {
        "record": told.say(ADA),
        "successor": told.say(ADA, "supersede", plain),
        "retraction": told.say(ADA, "retract", plain),
        "challenge": told.say(BOB, "challenge", plain),
    }
    before = told.states()
    name = told.say(author, operation, targets[about])
    judged = judge_lifecycles(told.memories)
    found = [item for item in judged.diagnostics if item.memory_id == name]
    if code is None:
        assert found == []
        assert any(item.memory_id == name for item in judged.relationships)
    else:
        assert [item.document() for item in found] == [
            {"memoryId": name, "operation": operation, "targetId": targets[about], "code": code}
        ]
        assert not any(item.memory_id == name for item in judged.relationships)
        assert {state: told.states()[state] for state in before} == before


@pytest.mark.parametrize("operation", ["supersede", "retract", "challenge"])
def test_nobody_speaks_about_oneself(operation: str) -> None:
    # No honest hash names itself; the rule holds all the same.
    told = Told()
    name = told.say(ADA, operation, NOWHERE)
    memory = told.memories.pop(name)
    told.memories[NOWHERE] = changed(memory, id=NOWHERE)
    judged = judge_lifecycles(told.memories)
    assert [item.code for item in judged.diagnostics] == ["self-target"]
    assert judged.dependencies == judged.relationships == []
    if operation == "supersede":
        assert judged.state(NOWHERE) == "active"


def test_a_retracted_successor_still_counts() -> None:
    told = Told()
    first = told.say(ADA)
    second = told.say(ADA, "supersede", first)
    told.say(ADA, "retract", second)
    assert told.states() == {first: "superseded", second: "retracted"}


@given(st.permutations(range(7)))
def test_arrival_order_never_matters(order: list[int]) -> None:
    told = Told()
    first = told.say(ADA)
    second = told.say(ADA, "supersede", first)
    told.say(ADA, "supersede", first)
    told.say(ADA, "retract", second)
    told.say(BOB, "challenge", first)
    told.say(BOB, "retract", first)
    told.say(BOB, "supersede", NOWHERE)
    items = list(told.memories.items())
    one, other = judge_lifecycles(told.memories), judge_lifecycles(dict(items[at] for at in order))
    assert (one.relationships, one.diagnostics, one.dependencies, one.orphans) == (
        other.relationships, other.diagnostics, other.dependencies, other.orphans,
    )  # fmt: skip
    assert {name: one.state(name) for name in told.memories} == {name: other.state(name) for name in told.memories}


# -- applicability ----------------------------------------------------------------------------------------


def judged_applicability(
    world: FakeWorld,
    mode: str = "descendants",
    *,
    commit: str = OTHER_OID,
    anchor_subject: str | None = None,
    subject: str | None = None,
    path: str | None = None,
) -> tuple[str, Dependency | None]:
    note = record(
        anchor=Anchor(OID, (PathAnchor("src/a", OID), PathAnchor("src/b", "absent")), anchor_subject),
        applicability=Applicability(mode, anchor_subject if mode == "subject" else None),
    )
    memory = SourceMemory(NOWHERE, OID, ADA.envelope(record=note))
    return judge_applicability(memory, note, Context(commit, missing_policy(), world, subject, path))


@pytest.mark.parametrize(
    ("world", "options", "state", "missing"),
    [
        # The anchor goes before the query, and both go before the mode.
        ({"anchor": "anchor-missing"}, {}, "anchor-missing", ("anchor-commit", OID, "anchor-commit-unavailable")),
        ({"anchor": "anchor-missing", "query": False}, {}, "anchor-missing",
         ("anchor-commit", OID, "anchor-commit-unavailable")),
        ({"anchor": "anchor-invalid"}, {}, "anchor-invalid", None),
        ({"anchor": "anchor-invalid", "query": False}, {}, "anchor-invalid", None),
        ({"query": False}, {}, "anchor-missing", ("query-commit", OTHER_OID, "query-commit-unavailable")),
        ({"query": False}, {"mode": "exact", "commit": OID}, "anchor-missing",
         ("query-commit", OID, "query-commit-unavailable")),
        # exact
        ({}, {"mode": "exact", "commit": OID}, "applicable", None),
        ({}, {"mode": "exact", "commit": OTHER_OID}, "inapplicable", None),
        ({"ancestor": "f" * 40}, {"mode": "exact", "commit": OID}, "applicable", None),
        # descendants
        ({"ancestor": True}, {}, "applicable", None),
        ({"ancestor": False}, {}, "inapplicable", None),
        ({"ancestor": "d" * 40}, {}, "anchor-missing", ("anchor-ancestry", "d" * 40, "ancestry-commit-unavailable")),
        ({"ancestor": "d" * 40}, {"path": "src/c"}, "anchor-missing",
         ("anchor-ancestry", "d" * 40, "ancestry-commit-unavailable")),
        # subject
        ({}, {"mode": "subject", "anchor_subject": SUBJECT, "subject": SUBJECT}, "applicable", None),
        ({}, {"mode": "subject", "anchor_subject": SUBJECT}, "inapplicable", None),
        ({}, {"mode": "subject", "anchor_subject": SUBJECT, "subject": OTHER_SUBJECT}, "inapplicable", None),
        ({"ancestor": False}, {"mode": "subject", "anchor_subject": SUBJECT, "subject": SUBJECT}, "applicable", None),
        # A subject of the query narrows every mode.
        ({}, {"anchor_subject": SUBJECT, "subject": SUBJECT}, "applicable", None),
        ({}, {"anchor_subject": SUBJECT, "subject": OTHER_SUBJECT}, "inapplicable", None),
        ({}, {"subject": SUBJECT}, "inapplicable", None),
        ({}, {"anchor_subject": SUBJECT}, "applicable", None),
        ({}, {"mode": "exact", "commit": OID, "subject": SUBJECT}, "inapplicable", None),
        # So does a path, which must be one of the anchor's.
        ({}, {"path": "src/a"}, "applicable", None),
        ({}, {"path": "src/b"}, "applicable", None),
        ({}, {"path": "src"}, "inapplicable", None),
        ({}, {"path": "src/c"}, "inapplicable", None),
        ({"ancestor": False}, {"path": "src/a"}, "inapplicable", None),
        ({}, {"path": "src/a", "subject": SUBJECT}, "inapplicable", None),
    ],
)  # fmt: skip
def test_the_applicability_table(
    world: dict[str, Any], options: dict[str, Any], state: str, missing: tuple[str, str, str] | None
) -> None:
    found, dependency = judged_applicability(FakeWorld(**world), **options)
    assert found == state
    if missing is None:
        assert dependency is None
    else:
        assert dependency is not None
        assert dependency.document() == {
            "kind": missing[0], "ownerId": NOWHERE, "stream": ADA.stream, "missingId": missing[1], "reason": missing[2],
        }  # fmt: skip


# -- evidence ---------------------------------------------------------------------------------------------


def test_the_evidence_table() -> None:
    told = Told()
    plain = told.say(ADA)
    retraction = told.say(ADA, "retract", plain)
    world = FakeWorld(objects=[OID], events=[EVENT])
    owner = told.memories[plain]
    items = {
        f"git:{OID}": ("resolved", "exact-object"),
        f"git:{OTHER_OID}": ("missing", "object-unavailable"),
        f"event:{EVENT}": ("resolved", "accepted-event"),
        f"event:{NOWHERE}": ("missing", "event-unavailable"),
        f"memory:{plain}": ("resolved", "accepted-memory"),
        # Any verified memory counts, record or not.
        f"memory:{retraction}": ("resolved", "accepted-memory"),
        f"memory:{NOWHERE}": ("missing", "memory-unavailable"),
    }
    for order in (list(items), list(reversed(items))):
        state, details, dependencies = judge_evidence(owner, order, told.memories, world)
        assert state == "missing"
        assert details == [
            {
                "type": item.partition(":")[0], "requested": item.partition(":")[2], "ownerId": plain,
                "status": items[item][0], "reason": items[item][1],
            }
            for item in sorted(items, key=lambda item: (item.partition(":")[0], item.partition(":")[2]))
        ]  # fmt: skip
        assert {(item.kind, item.missing_id, item.reason) for item in dependencies} == {
            ("evidence-git", OTHER_OID, "object-unavailable"),
            ("evidence-event", NOWHERE, "event-unavailable"),
            ("evidence-memory", NOWHERE, "memory-unavailable"),
        }
        assert all("operation" not in item.document() for item in dependencies)
    resolved = [item for item, (status, _) in items.items() if status == "resolved"]
    assert judge_evidence(owner, resolved, told.memories, world)[0] == "resolved"
    assert judge_evidence(owner, resolved, frozenset(told.memories), world)[0] == "resolved"
    assert judge_evidence(owner, (), told.memories, world) == ("resolved", [], [])


# -- rows -------------------------------------------------------------------------------------------------


def rows_of(told: Told, world: FakeWorld | None = None, policy: bytes = b"{}", **query: Any) -> list[Any]:
    context = Context(OTHER_OID, parse_policy(policy), world or FakeWorld(), **query)
    return project(told.memories, judge_lifecycles(told.memories), context)


def test_only_records_are_rows() -> None:
    told = Told()
    first = told.say(ADA)
    second = told.say(ADA, "supersede", first)
    told.say(ADA, "retract", second)
    told.say(BOB, "challenge", first)
    assert sorted(row.memory.id for row in rows_of(told)) == sorted([first, second])
    context = Context(OTHER_OID, missing_policy(), FakeWorld())
    chosen = project(told.memories, judge_lifecycles(told.memories), context, [second])
    assert [row.memory.id for row in chosen] == [second]


def test_a_row_is_shown_in_two_forms() -> None:
    told = Told()
    evidence = ("memory:" + NOWHERE, "git:" + OID)
    name = told.say(ADA, "supersede", NOWHERE, record=record("é", topics=("a",), evidence=evidence))
    policy = b'{"memory":{"trustedActors":["%s"],"trustedKinds":["observation"]}}' % ADA.actor.encode()
    (row,) = rows_of(told, FakeWorld(ancestor="d" * 40, objects=[OID]), policy)
    recalled = row.document()
    assert list(recalled) == [
        "id", "stream", "actor", "signedTimestamp", "kind", "contentDigest", "anchor", "signature", "lifecycle",
        "challengers", "successors", "retractions", "applicability", "evidence", "evidenceDetails", "dependencies",
        "trust", "data",
    ]  # fmt: skip
    assert recalled["id"] == name
    assert recalled["contentDigest"] == "sha256:4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c"
    judgments = ("signature", "lifecycle", "applicability", "evidence", "trust")
    assert [recalled[name] for name in judgments] == [
        "valid", "dependency-missing", "anchor-missing", "missing", "qualified",
    ]  # fmt: skip
    assert recalled["data"]["evidence"] == sorted(evidence)
    kinds = [item["kind"] for item in recalled["dependencies"]]
    assert kinds == ["anchor-ancestry", "evidence-memory", "lifecycle-target"]
    shown = row.document(show=True)
    assert list(shown) == [name for name in recalled if name not in ("signedTimestamp", "dependencies")]
    assert shown["data"]["evidence"] == list(evidence)
    assert {name: shown[name] for name in shown if name != "data"} == {
        name: recalled[name] for name in shown if name != "data"
    }


def test_dependencies_are_sorted_by_what_is_missing() -> None:
    fields = [("a", "b"), ("x", "y"), (None, "o"), ("1", "2"), ("s", "t"), ("r", "q")]
    everything = [
        Dependency(kind, owner, stream, missing, reason, operation)
        for missing, kind, operation, owner, stream, reason in itertools.product(*fields)  # type: ignore[arg-type]
    ]
    everything.sort(key=Dependency.order)
    keys = [(d.missing_id, d.kind, d.operation or "", d.owner_id, d.stream, d.reason) for d in everything]
    assert keys == sorted(keys)


def test_rows_are_sorted_by_applicability_lifecycle_time_and_id() -> None:
    told = Told()
    for _ in range(3):
        first = told.say(ADA)
        told.say(ADA, "supersede", first)
        told.say(ADA, "retract", told.say(ADA))
    # Two of one instant, and instants whose order as text is not the order in time.
    for content, timestamp in (
        ("x", "2026-10-01T17:02:11Z"),
        ("y", "2026-10-01T17:02:11Z"),
        ("late", "2026-10-01T17:02:11.5Z"),
        ("offset", "2026-10-01T18:02:11+02:00"),
    ):
        told.say(ADA, record=record(content), timestamp=timestamp)
    told.say(ADA, record=record("exact", applicability=Applicability("exact")))
    rows = rows_of(told)
    sort_rows(rows)
    keys = [
        (
            APPLICABILITIES.index(row.applicability),
            LIFECYCLES.index(row.lifecycle),
            [-ord(character) for character in row.memory.envelope.timestamp.ljust(40)],
            row.memory.id,
        )
        for row in rows
    ]
    assert keys == sorted(keys)
    assert rows[-1].applicability == "inapplicable"
    again = list(reversed(rows))
    sort_rows(again)
    assert [row.memory.id for row in again] == [row.memory.id for row in rows]


@pytest.mark.parametrize(
    ("policy", "author", "kind", "trust"),
    [
        (b"{}", ADA, "observation", "policy-missing"),
        (b'{"memory":{}}', ADA, "observation", "actor-untrusted"),
        (b'{"memory":{"trustedActors":["%s"],"trustedKinds":["decision"]}}', ADA, "observation", "kind-untrusted"),
        (b'{"memory":{"trustedActors":["%s"],"trustedKinds":["decision"]}}', ADA, "decision", "qualified"),
        (b'{"memory":{"trustedActors":["%s"],"trustedKinds":["decision"]}}', BOB, "decision", "actor-untrusted"),
    ],
)
def test_trust_follows_the_policy_alone(policy: bytes, author: Author, kind: str, trust: str) -> None:
    told = Told()
    told.say(author, record=record(kind=kind))
    (row,) = rows_of(told, policy=policy.replace(b"%s", ADA.actor.encode()))
    assert row.trust == trust
