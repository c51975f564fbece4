"""What search is compared with: FTS5 as it comes, `bm25s` with stemming, and the embedder alone."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Sequence

from hn_memory.index.words import STOP_WORDS

Ranker = Callable[[str], list[int]]
"""Gives the positions of the documents that answer a question, the best first."""

_WORD = re.compile(r"[^\W_]+")


def fts5(documents: Sequence[str], joint: str) -> Ranker:
    """FTS5's own bm25 over Porter stems, without stop words, all words asked for (`AND`) or any (`OR`)."""
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE d USING fts5(text, tokenize='porter unicode61')")
    db.executemany("INSERT INTO d(rowid, text) VALUES(?,?)", enumerate(documents))

    def rank(question: str) -> list[int]:
        words = [word for word in _WORD.findall(question.lower()) if word not in STOP_WORDS]
        if not words:
            return []
        query = f" {joint} ".join(f'"{word}"' for word in words)
        return [n for (n,) in db.execute("SELECT rowid FROM d WHERE d MATCH ? ORDER BY rank LIMIT 50", (query,))]

    return rank


def bm25s_stemmed(documents: Sequence[str]) -> Ranker | None:
    """`bm25s` with its defaults, English stop words and PyStemmer; None where it is not installed."""
    try:
        import bm25s
        import Stemmer
    except ImportError:
        return None
    stemmer = Stemmer.Stemmer("english")
    index = bm25s.BM25()
    index.index(
        bm25s.tokenize(list(documents), stopwords="en", stemmer=stemmer, show_progress=False), show_progress=False
    )

    def rank(question: str) -> list[int]:
        tokens = bm25s.tokenize([question], stopwords="en", stemmer=stemmer, show_progress=False)
        found, _ = index.retrieve(tokens, k=min(50, len(documents)), show_progress=False)
        return [int(n) for n in found[0]]

    return rank
