"""What the recall path imports, and what each import takes."""

from __future__ import annotations

from typing import Any

from benchlib.bench import Bench, Section, hn_script
from benchlib.measure import Command

_SHOWN = 25
_RUNS = 11


def import_times(text: str) -> dict[str, int]:
    """Modules and microseconds of their own, from the output of `-X importtime`."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        if line.startswith("import time:") and "[us]" not in line:
            own, _, name = line.removeprefix("import time:").split("|")
            found[name.strip()] = int(own)
    return found


def _least(bench: Bench, command: Command) -> list[tuple[str, int]]:
    """For each module the least of several runs, the slowest first: noise only ever adds."""
    runs = [import_times(bench.spawner.output(command)[1].decode()) for _ in range(_RUNS)]
    found = {name: min(run[name] for run in runs if name in run) for run in runs for name in run}
    return sorted(found.items(), key=lambda item: -item[1])


def _run(bench: Bench) -> None:
    built = bench.repository(1_000 if 1_000 in bench.sizes else bench.sizes[0])
    timed = ("-X", "importtime")
    chosen = _least(bench, bench.python(built.root, *timed, hn_script(), "memory", "recall", "--json"))
    bare = {name for name, _ in _least(bench, bench.python(built.root, *timed, "-c", "pass"))}
    total = sum(own for _, own in chosen)
    started = sum(own for name, own in chosen if name in bare)
    ours = sum(own for name, own in chosen if name.split(".")[0] == "hn_memory")
    bench.add("imports of recall", total / 1e3, "ms", note=f"{len(chosen)} modules")
    bench.add("of them: what the interpreter starts with", started / 1e3, "ms")
    bench.add("of them: modules of hn_memory", ours / 1e3, "ms")
    bench.add("of them: everything else", (total - started - ours) / 1e3, "ms")
    rows: list[dict[str, Any]] = [{"module": name, "us": own, "startup": name in bare} for name, own in chosen]
    bench.table("imports", rows)
    bench.remark(f"microseconds of their own, least of {_RUNS} runs, the slowest first; * comes with the interpreter")
    for name, own in chosen[:_SHOWN]:
        bench.remark(f"{own:8,} us  {name}{' *' if name in bare else ''}")


SECTION = Section("imports", "what `hn memory recall --json` imports", _run)
