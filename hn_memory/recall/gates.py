"""The gates of recall, each with its reason; together they are the receipt.

A record is counted once, under the first gate it fails, in this order: filtered, applicability, evidence,
lifecycle, trust, no-match. What passes them all is a match.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hn_memory.protocol.policy import TRUST_CLASSES
from hn_memory.protocol.projection import APPLICABILITIES, EVIDENCE_STATES, LIFECYCLES, Row
from hn_memory.protocol.query import NormalRequest
from hn_memory.protocol.record import Record
from hn_memory.protocol.unicode import terms

FILTERED: Final = "filtered"
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

Gate = Callable[[Row, NormalRequest], str | None]


def passes_filters(record: Record, actor: str, request: NormalRequest) -> bool:
    """The cheap filters, which need nothing but the record: kind, actor, topic, path, subject."""
    anchor = record.anchor
    return (
        (not request.kinds or record.kind in request.kinds)
        and (not request.actors or actor in request.actors)
        and all(topic in record.topics for topic in request.topics)
        and (request.path is None or any(pair.path == request.path for pair in anchor.paths))
        and (request.subject is None or anchor.subject == request.subject)
    )


def _filtered(row: Row, request: NormalRequest) -> str | None:
    return None if passes_filters(row.record, row.memory.envelope.actor, request) else FILTERED


def _applicability(row: Row, request: NormalRequest) -> str | None:
    return None if row.applicability == "applicable" else row.applicability


def _evidence(row: Row, request: NormalRequest) -> str | None:
    return None if row.evidence == "resolved" else f"evidence-{row.evidence}"


def _lifecycle(row: Row, request: NormalRequest) -> str | None:
    return None if not request.lifecycle or row.lifecycle in request.lifecycle else row.lifecycle


def _trust(row: Row, request: NormalRequest) -> str | None:
    return None if not request.trust or row.trust in request.trust else row.trust


def _terms(row: Row, request: NormalRequest) -> str | None:
    return None if has_terms(row.record, request.terms) else NO_MATCH


GATES: Final[tuple[Gate, ...]] = (_filtered, _applicability, _evidence, _lifecycle, _trust, _terms)


def has_terms(record: Record, wanted: tuple[str, ...]) -> bool:
    """Does every term occur in content or topics?"""
    if not wanted:
        return True
    found = set(terms(record.content))
    for topic in record.topics:
        found.update(terms(topic))
    return found.issuperset(wanted)


def first_failure(row: Row, request: NormalRequest) -> str | None:
    """The reason of the first gate that withholds a row, or None for a match."""
    for gate in GATES:
        reason = gate(row, request)
        if reason is not None:
            return reason
    return None
