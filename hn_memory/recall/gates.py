"""The gates of recall, each with its reason; together they are the receipt.

A record is counted once, under the first gate it fails, in this order: filtered, applicability, evidence,
lifecycle, trust, no-match. What passes them all is a match. Most gates need not see a record: who speaks in
which kind (a voice) and where it is anchored (a site) settle them for all records that share both.
"""

from __future__ import annotations

from hn_memory.protocol.policy import TRUST_CLASSES, Policy
from hn_memory.protocol.projection import APPLICABILITIES, EVIDENCE_STATES, LIFECYCLES, Context, judge_site
from hn_memory.protocol.query import NormalRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


FILTERED: Final = "filtered"
EVIDENCE_MISSING: Final = "evidence-missing"
NO_MATCH: Final = "no-match"

REASONS: Final = (
    FILTERED,
    *APPLICABILITIES[1:],
    *(f"evidence-{state}" for state in EVIDENCE_STATES[1:]),
    *LIFECYCLES,
    *TRUST_CLASSES,
    NO_MATCH,
)
"""Every reason in the order the receipt shows them."""


def voice_is_filtered(actor: str, kind: str, request: NormalRequest) -> bool:
    """Do the filters exclude what this actor says in this kind?"""
    return bool((request.kinds and kind not in request.kinds) or (request.actors and actor not in request.actors))


def site_is_filtered(subject: str | None, request: NormalRequest) -> bool:
    """Does the subject filter exclude what is anchored here?"""
    return request.subject is not None and subject != request.subject


def applicability_gate(
    anchor_state: str | None, anchor: str, mode: str, subject: str | None, context: Context
) -> str | None:
    """The applicability that withholds what is anchored here, or None."""
    state, _ = judge_site(anchor_state, anchor, mode, subject, context)
    return None if state == "applicable" else state


def lifecycle_gate(lifecycle: str, request: NormalRequest) -> str | None:
    """The lifecycle that withholds a record, or None."""
    return None if not request.lifecycle or lifecycle in request.lifecycle else lifecycle


def trust_gate(actor: str, kind: str, policy: Policy, request: NormalRequest) -> str | None:
    """The trust class that withholds what this actor says in this kind, or None."""
    trust = policy.trust(actor, kind)
    return None if not request.trust or trust in request.trust else trust
