"""`hn memory grep`, and the judging of patterns alone. Left out where the command does not exist yet."""

from __future__ import annotations

from contextlib import suppress

import hn_memory
from benchlib.bench import Bench, Section
from benchlib.measure import Call, FailedCommandError
from benchlib.report import at_most

_PATTERN = "stre[ae]m[-_ ](iso|loc).*"
_KINDS = ("decision", "observation", "attempt", "verification")
"""Most of the records: with all of them 10,000 memories are beyond the work limit for 20 instructions."""
_TEXT_BYTES = 65_536


def _run(bench: Bench) -> None:
    try:
        bench.spawner.run(bench.hn(bench.workshop.directory, "memory", "grep", "--help"))
    except FailedCommandError:
        bench.remark("`hn memory grep` is not there")
    else:
        _whole(bench)
    if hasattr(hn_memory, "compile_pattern"):
        _judging(bench)
    else:
        bench.remark("`hn_memory.compile_pattern` is not there")


def _whole(bench: Bench) -> None:
    for size in bench.sizes:
        if size > 10_000:
            continue  # beyond the work limit for a pattern of this size
        built = bench.repository(size)
        kinds = [part for kind in _KINDS for part in ("--kind", kind)]
        command = bench.hn(built.root, "memory", "grep", "--json", *kinds, "--", _PATTERN)
        try:
            taken = bench.compare({0: command})[0]
        except FailedCommandError as error:
            bench.remark(f"at {size:,}: {error}")
            continue
        bench.add_time("grep", taken, size=size, bound=at_most(250) if size == 10_000 else None)


def _judging(bench: Bench) -> None:
    compile_pattern, refusal = hn_memory.compile_pattern, hn_memory.HnError
    bench.remark(f"{_PATTERN} has {compile_pattern(_PATTERN).instructions} instructions")

    def judge(pattern: str) -> None:
        with suppress(refusal):
            compile_pattern(pattern)

    text = "a" * _TEXT_BYTES
    slow = compile_pattern("(a+)+$")
    nested = "(" * 1_365 + "a" + ")*" * 1_365
    legal = "(" * 990 + "a" * 1_126 + ")*" * 990
    wide = "(a|b|[c-e]{2,3})" * 256
    many = "((((a{100}){100}){100}){100})"
    calls = {
        f"judge {_PATTERN}": (Call(lambda: judge(_PATTERN)), None),
        f"search (a+)+$ in {_TEXT_BYTES:,} times a": (Call(lambda: slow.search(text)), at_most(10)),
        f"judge nested groups, {len(nested):,} bytes": (Call(lambda: judge(nested)), at_most(50)),
        f"judge nested groups, 990 deep, {len(legal):,} bytes": (Call(lambda: judge(legal)), at_most(50)),
        f"judge many groups, {len(wide):,} bytes": (Call(lambda: judge(wide)), at_most(50)),
        f"refuse {many}": (Call(lambda: judge(many)), None),
    }
    samples = bench.compare({name: call for name, (call, _) in calls.items()}, warm=2)
    for name, taken in samples.items():
        bench.add_time(name, taken, bound=calls[name][1])


SECTION = Section("grep", "grep and its patterns", _run)
