"""How big the index is, beside the signed bytes that it stands for."""

from __future__ import annotations

import sqlite3

from benchlib.bench import Bench, Section
from benchlib.build import Built
from benchlib.report import at_most
from hn_memory.index.schema import SEARCH_TABLES


def _pages(built: Built) -> dict[str, int]:
    """Bytes of each table and index of the database."""
    path = built.index_files[0]
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        return dict(connection.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name ORDER BY 2 DESC"))


def _run(bench: Bench) -> None:
    for size in bench.sizes:
        built = bench.repository(size)
        payloads = built.meta.payload_bytes
        whole = sum(path.stat().st_size for path in built.index_files)
        bench.add("payloads", payloads / 2**20, "MiB", size=size)
        bench.add("index", whole / 2**20, "MiB", size=size)
        try:
            pages = _pages(built)
        except sqlite3.Error as error:
            bench.remark(f"no sizes of single tables: {error}")
            continue
        search = sum(taken for name, taken in pages.items() if name in SEARCH_TABLES)
        bench.add("index, search tables", search / 2**20, "MiB", size=size)
        ratio = (whole - search) / payloads
        bench.add(
            "index without search tables, to payloads",
            ratio,
            "x",
            size=size,
            # Below this the page of 16 KiB that each of thirty tables takes at least is most of it.
            bound=at_most(1.5) if size >= 10_000 else None,
        )
        bench.add("index, to payloads", whole / payloads, "x", size=size)
        if size == bench.sizes[-1]:
            bench.table("index", [{"name": name, "bytes": taken} for name, taken in pages.items()])
            largest = ", ".join(f"{name} {taken / 2**20:.1f}" for name, taken in list(pages.items())[:10])
            bench.remark(f"MiB at {size:,}: {largest}")


SECTION = Section("index", "size of the index", _run)
