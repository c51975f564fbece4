"""Measures of a ranking."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

CUTS = (1, 5, 10)


@dataclass
class Measures:
    """Sums over questions; recall at k is the share of a question's evidence among the first k."""

    questions: int = 0
    recall: dict[int, float] = field(default_factory=lambda: dict.fromkeys(CUTS, 0.0))
    reciprocal: float = 0.0

    def add(self, ranked: Sequence[str], wanted: Collection[str]) -> None:
        """Count one question, by what was found and what answers it."""
        self.questions += 1
        for cut in CUTS:
            self.recall[cut] += len(set(ranked[:cut]) & set(wanted)) / len(set(wanted))
        self.reciprocal += next((1 / place for place, found in enumerate(ranked, 1) if found in wanted), 0.0)

    def merged(self, other: Measures) -> Measures:
        """Both together."""
        return Measures(
            self.questions + other.questions,
            {cut: self.recall[cut] + other.recall[cut] for cut in CUTS},
            self.reciprocal + other.reciprocal,
        )

    def document(self) -> dict[str, float]:
        """The means."""
        count = max(self.questions, 1)
        return {f"recall@{cut}": round(self.recall[cut] / count, 4) for cut in CUTS} | {
            "mrr": round(self.reciprocal / count, 4),
            "questions": self.questions,
        }
