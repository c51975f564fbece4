"""The policy (section 6): what is refused, by the name of the field, and whom it trusts."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hn_memory.errors import HnError, UsageError
from hn_memory.protocol import limits
from hn_memory.protocol.identifiers import KINDS
from hn_memory.protocol.policy import missing_policy, parse_policy

A, B = "a" * 64, "b" * 64
ALL = ["assumption", "attempt", "decision", "handoff", "observation", "verification"]


def refusal(data: bytes | str) -> HnError:
    with pytest.raises(HnError) as caught:
        parse_policy(data if isinstance(data, bytes) else data.encode())
    assert caught.value.code == "policy-invalid"
    assert not isinstance(caught.value, UsageError)
    assert caught.value.exit_status == 1
    assert "\n" not in caught.value.message
    return caught.value


def memory(**fields: Any) -> str:
    return json.dumps({"memory": fields})


def test_the_digest_of_no_policy() -> None:
    policy = missing_policy()
    assert policy.digest == "sha256:" + hashlib.sha256(b"hn-memory-policy-missing-v0").hexdigest()
    assert policy.state == "missing"
    assert policy.trust(A, "decision") == "policy-missing"


@pytest.mark.parametrize(
    ("text", "field"),
    [
        # The document as a whole.
        ("", None),
        ("null", None),
        ("[]", None),
        ('"memory"', None),
        ("{", None),
        ("{}{}", None),
        ("{} x", None),
        ('{"memory": NaN}', None),
        ('{"memory": {},}', None),
        ("{'memory': {}}", None),
        ("// policy\n{}", None),
        ('\ufeff{"memory": {}}', None),
        ('{"pipelines": ' + "[" * 100_000 + "]" * 100_000 + "}", None),
        # Top-level fields.
        ('{"Memory": {}}', "Memory"),
        ('{"memories": {}}', "memories"),
        ('{"": 1}', ""),
        ('{"memory": {}, "memory": {}}', "memory"),
        ('{"proposals": 1, "memory": {}, "proposals": 2}', "proposals"),
        ('{"version": "hn.policy/1", "memory": {}}', "version"),
        ('{"version": 0}', "version"),
        ('{"version": null}', "version"),
        # The memory section.
        ('{"memory": null}', "memory"),
        ('{"memory": []}', "memory"),
        (memory(trusted=[]), "memory.trusted"),
        (memory(trustedactors=[]), "memory.trustedactors"),
        ('{"memory": {"trustedKinds": [], "trustedKinds": []}}', "memory.trustedKinds"),
        # Its actors.
        (memory(trustedActors=None), "memory.trustedActors"),
        (memory(trustedActors={}), "memory.trustedActors"),
        (memory(trustedActors=A), "memory.trustedActors"),
        (memory(trustedActors=[A, 3]), "memory.trustedActors[1]"),
        (memory(trustedActors=[B, A]), "memory.trustedActors[1]"),
        (memory(trustedActors=[A, A]), "memory.trustedActors[1]"),
        (memory(trustedActors=["A" * 64]), "memory.trustedActors[0]"),
        (memory(trustedActors=["a" * 63]), "memory.trustedActors[0]"),
        (memory(trustedActors=["a" * 64 + "\n"]), "memory.trustedActors[0]"),
        (memory(trustedActors=[A, "sha256:" + B]), "memory.trustedActors[1]"),
        (memory(trustedActors=[""]), "memory.trustedActors[0]"),
        # Its kinds.
        (memory(trustedKinds=None), "memory.trustedKinds"),
        (memory(trustedKinds=[None]), "memory.trustedKinds[0]"),
        (memory(trustedKinds=["gossip"]), "memory.trustedKinds[0]"),
        (memory(trustedKinds=["Decision"]), "memory.trustedKinds[0]"),
        (memory(trustedKinds=["decision", "attempt"]), "memory.trustedKinds[1]"),
        (memory(trustedKinds=["attempt", "attempt"]), "memory.trustedKinds[1]"),
        (memory(trustedKinds=["\ud800"]), "memory.trustedKinds[0]"),
    ],
)
def test_a_refusal_names_the_field(text: str, field: str | None) -> None:
    error = refusal(text)
    assert (error.field or None) == (field or None)


def test_bytes_that_are_no_text() -> None:
    assert "byte 12" in refusal(b'{"memory": {\xff}}').message


def test_the_size_is_bounded() -> None:
    room = limits.POLICY_BYTES - len(b'{"proposals":""}')
    assert parse_policy(b'{"proposals":"%s"}' % (b"x" * room)).state == "no-memory-section"
    assert str(limits.POLICY_BYTES) in refusal(b'{"proposals":"%s"}' % (b"x" * (room + 1))).message


@pytest.mark.parametrize(
    ("text", "state", "actors", "kinds"),
    [
        ("{}", "no-memory-section", [], []),
        (" \r\n\t{ }\n", "no-memory-section", [], []),
        ('{"version": "hn.policy/0"}', "no-memory-section", [], []),
        ('{"memory": {}}', "present", [], []),
        (memory(trustedActors=[A, B]), "present", [A, B], []),
        (memory(trustedKinds=ALL), "present", [], ALL),
        (memory(trustedKinds=["decision"], trustedActors=[A]), "present", [A], ["decision"]),
        # The inside of other sections is nobody's business here, not even a repeated field.
        ('{"maintainers": {"x": 1, "x": 2}, "pipelines": [{"trustedActors": 7}], "memory": {}}', "present", [], []),
    ],
)
def test_what_is_accepted(text: str, state: str, actors: list[str], kinds: list[str]) -> None:
    policy = parse_policy(text.encode())
    assert policy.digest == "sha256:" + hashlib.sha256(text.encode()).hexdigest()
    assert (policy.state, sorted(policy.actors), sorted(policy.kinds)) == (state, actors, kinds)


def test_trust_is_the_first_rule_that_holds() -> None:
    policy = parse_policy(memory(trustedActors=[A], trustedKinds=["decision"]).encode())
    assert policy.trust(A, "decision") == "qualified"
    assert policy.trust(A, "attempt") == "kind-untrusted"
    assert policy.trust(B, "decision") == "actor-untrusted"
    assert policy.trust(B, "attempt") == "actor-untrusted"
    assert parse_policy(b"{}").trust(A, "decision") == "policy-missing"
    assert parse_policy(b'{"memory":{}}').trust(A, "decision") == "actor-untrusted"


@given(st.sets(st.text("0123456789abcdef", min_size=64, max_size=64), max_size=6), st.sets(st.sampled_from(KINDS)))
def test_any_sorted_lists_are_read_as_sets(actors: set[str], kinds: set[str]) -> None:
    policy = parse_policy(memory(trustedActors=sorted(actors), trustedKinds=sorted(kinds)).encode())
    assert (policy.actors, policy.kinds) == (actors, kinds)
    shown = {(actor, kind): policy.trust(actor, kind) for actor in (*actors, "f" * 64) for kind in KINDS}
    assert {pair for pair, trust in shown.items() if trust == "qualified"} == {
        (actor, kind) for actor in actors for kind in kinds
    }


@given(st.binary(max_size=80) | st.text(alphabet='{}[]":, \\un0aemory', max_size=60).map(str.encode))
def test_any_bytes_are_a_policy_or_refused(data: bytes) -> None:
    try:
        policy = parse_policy(data)
    except HnError as error:
        assert error.code == "policy-invalid"
    else:
        assert isinstance(json.loads(data), dict)
        assert policy.state != "missing"
