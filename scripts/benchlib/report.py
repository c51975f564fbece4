"""What was measured, as rows: for people an aligned table, for machines one document."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Unit = Literal["ms", "us", "s", "/s", "x", "MiB", "KiB", ""]

_FORMS = {"ms": "{:,.1f}", "us": "{:,.1f}", "s": "{:,.2f}", "/s": "{:,.0f}", "x": "{:,.2f}", "MiB": "{:,.1f}"}
_HEADS = ("what", "memories", "figure", "least", "cpu", "bound", "")


@dataclass(frozen=True)
class Bound:
    """A limit that an issue sets."""

    limit: float
    at_most: bool = True

    def holds(self, value: float) -> bool:
        return value <= self.limit if self.at_most else value >= self.limit


def at_most(limit: float) -> Bound:
    """The figure must not be above."""
    return Bound(limit)


def at_least(limit: float) -> Bound:
    """The figure must not be below."""
    return Bound(limit, at_most=False)


@dataclass
class Row:
    """One figure. `least` is the fastest run and `cpu` the median processor time, where there were runs."""

    section: str
    name: str
    value: float
    unit: Unit
    size: int | None = None
    bound: Bound | None = None
    least: float | None = None
    cpu: float | None = None
    runs: int | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.bound is None:
            return ""
        return "ok" if self.bound.holds(self.value) else "MISS"


@dataclass
class Report:
    """All rows and notes of a run, in order."""

    rows: list[Row] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def document(self, machine: dict[str, Any]) -> dict[str, Any]:
        """The whole report as JSON."""
        return {
            "version": 0,
            "machine": machine,
            "rows": [_row_document(row) for row in self.rows],
            "notes": [{"section": section, "text": text} for section, text in self.notes],
            "tables": self.tables,
            "missed": sum(row.verdict == "MISS" for row in self.rows),
        }

    def section_text(self, name: str) -> str:
        """One section for people."""
        rows = [row for row in self.rows if row.section == name]
        lines = _aligned([_HEADS, *(_cells(row) for row in rows)]) if rows else []
        lines += [f"  ({text})" for section, text in self.notes if section == name]
        return "\n".join(lines)


def figure(value: float | None, unit: Unit) -> str:
    """A figure with its unit; nothing for None."""
    if value is None:
        return ""
    return f"{_FORMS.get(unit, '{:g}').format(value)} {unit}".rstrip()


def median_of(values: Iterable[float]) -> float:
    """The median."""
    return statistics.median(values)


def _cells(row: Row) -> tuple[str, ...]:
    bound = ""
    if row.bound is not None:
        bound = f"{'<=' if row.bound.at_most else '>='} {row.bound.limit:,g} {row.unit}"
    name = f"{row.name} ({row.note})" if row.note else row.name
    size = "" if row.size is None else f"{row.size:,}"
    return (
        name, size, figure(row.value, row.unit), figure(row.least, row.unit), figure(row.cpu, row.unit), bound,
        row.verdict,
    )  # fmt: skip


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(_HEADS))]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if at in (0, 6) else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _row_document(row: Row) -> dict[str, Any]:
    document = {name: value for name, value in asdict(row).items() if value not in (None, "")}
    if row.bound is not None:
        document["bound"] = {"limit": row.bound.limit, "kind": "at-most" if row.bound.at_most else "at-least"}
        document["verdict"] = row.verdict
    return document
