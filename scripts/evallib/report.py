"""The figures as text."""

from __future__ import annotations

from typing import Any


def text_of(document: dict[str, Any]) -> str:
    """Tables of everything that was measured."""
    lines: list[str] = []
    for part in ("all", "chosen on", "checked on"):
        if "locomo" in document:
            lines += ["", f"LoCoMo, per turn, {part}"]
            lines += _table({name: found[part] for name, found in document["locomo"]["recall"].items()})
    if "locomo" in document:
        lines += ["", "abstention: share of questions on which search abstains"]
        lines += _table(document["locomo"]["abstention"])
    if "sde" in document:
        lines += ["", "sde-bench"]
        lines += _table(document["sde"])
    return "\n".join(lines).lstrip("\n")


def _table(rows: dict[str, dict[str, Any]]) -> list[str]:
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    first = max(map(len, rows))
    widths = [max(len(name), 6) for name in names]
    lines = [
        "  " + " " * first + "  " + "  ".join(name.rjust(width) for name, width in zip(names, widths, strict=True))
    ]
    for label, row in rows.items():
        values = [row.get(name, "") for name in names]
        shown = [f"{value:.3f}" if isinstance(value, float) else str(value) for value in values]
        cells = "  ".join(text.rjust(width) for text, width in zip(shown, widths, strict=True))
        lines.append(f"  {label.ljust(first)}  {cells}")
    return lines
