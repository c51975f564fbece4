"""`hn memory grep`: its one argument in every odd form, and what people see of a match."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cli_harness import Answer, Hn, git, record
from test_commands import on_terminal

from hn_memory.cli.render_grep import grepped
from hn_memory.index.store import Index
from hn_memory.protocol.regexp import FOREIGN_SYNTAX, MAX_INSTRUCTIONS, MAX_PATTERN_BYTES
from hn_memory.recall.grep import WORK_LIMIT
from hn_memory.recall.pattern import MAX_MEMORY, UNSUPPORTED


def matched(answer: Answer) -> list[str]:
    """The contents of the records on the page."""
    return [row["data"]["content"] for row in answer.done().json["memories"]]


def below_header(text: str) -> list[str]:
    """The lines of matches of a page with one record."""
    return [line for line in text.splitlines() if re.match(r"  (?:content|topic\b|handoff\.)", line)]


def test_the_example_of_the_protocol(ada: str, hn: Hn) -> None:
    for text in ("stream_isolated", "stream isolation", "streams are isolated"):
        record(hn, text, "-t", "architecture")
    record(hn, "stream-isolation elsewhere")
    answer = hn("memory", "grep", "--at", "HEAD", "--topic", "architecture", "--json", "stream[-_ ]isolat.*")
    assert sorted(matched(answer)) == ["stream isolation", "stream_isolated"]
    receipt = answer.json["receipt"]
    assert receipt["considered"] == 4 and receipt["withheld"] == {"filtered": 1, "no-match": 1}
    assert len(matched(hn("memory", "grep", "--ignore-case", "--max-records", "2", "STREAM", "--json"))) == 2
    assert len(matched(hn("memory", "grep", "-i", "STREAM", "--json"))) == 4
    assert matched(hn("memory", "grep", "STREAM", "--json")) == []


def test_a_pattern_may_look_like_anything(ada: str, hn: Hn) -> None:
    texts = ["-legacy1", "--", "--json", "a\nb", "ümlaut", "ordinary"]
    for text in texts:
        record(hn, text)

    def grep(*arguments: str) -> list[str]:
        return matched(hn("memory", "grep", "--json", *arguments))

    assert grep("--", "-legacy[0-9]+") == ["-legacy1"]
    assert set(grep("--", "^--")) == {"--", "--json"}
    assert grep("--", "--json") == ["--json"]
    assert grep("--", "^--$") == ["--"]
    # Two of them: the first ends the options, the second is the pattern.
    assert set(grep("--", "--")) == {"--", "--json"}
    assert sorted(grep("")) == sorted(grep("--", "")) == sorted(texts)
    assert grep("(?m)^b$") == ["a\nb"] and grep("a\nb") == ["a\nb"]
    assert grep("ü") == ["ümlaut"]
    assert grep("\0") == grep("\\x00") == []
    # Among flags and after them; flags that look like short ones are flags.
    assert grep("ordinary", "-i", "-n", "3") == ["ordinary"]
    assert hn("memory", "grep", "--", "ordinary", "--json").status == 2


REFUSED = [
    ((), "usage", "exactly one pattern, but none was given"),
    (("a", "b"), "usage", "exactly one pattern, but 2 were given"),
    (("--", "a", "-b"), "usage", "exactly one pattern, but 2 were given"),
    (("-legacy",), "usage", "No such option"),
    (("--legacy",), "usage", "No such option"),
    (("--query", "a", "b"), "usage", "No such option"),
    (("--input", "-", "b"), "usage", "No such option"),
    (("é".encode() + b"\xff",), "pattern-invalid", "invalid pattern at byte 2: invalid UTF-8"),
    ((b"ab\xed\xa0\x80",), "pattern-invalid", "invalid pattern at byte 2: invalid UTF-8"),
    (("(abc",), "pattern-invalid", "invalid pattern at byte 0: missing closing ): `(abc`"),
    (("a(?=b)",), "pattern-invalid", "invalid pattern at byte 1: invalid or unsupported Perl syntax: `(?=`"),
    (("x*" * 3000,), "pattern-too-large", "pattern of 6000 bytes, limit 4096"),
    (("(?:\\pL{1000}){1}" * 20,), "pattern-too-complex", "pattern too complex: "),
    (("((((a{100}){100}){100}){100})",), "pattern-invalid", "invalid repeat count"),
]


@pytest.mark.parametrize(("arguments", "code", "words"), REFUSED)
def test_refusals_are_one_line_and_touch_no_index(
    ada: str, hn: Hn, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: str, words: str
) -> None:
    record(hn)
    files = sorted(Path(".git/hn/memory").glob("*"))
    refreshed: list[Index] = []
    monkeypatch.setattr(Index, "refresh", lambda self, *more: refreshed.append(self))
    answer = hn("memory", "grep", "--json", *arguments)
    assert (answer.status, answer.error["code"]) == (2, code), answer
    assert words in answer.error["message"] and answer.err == ""
    people = hn("memory", "grep", *arguments)
    assert (people.status, people.out) == (2, b"")
    lines = people.err.splitlines()
    assert lines[0].startswith("hn: error: ") and words in lines[0]
    assert len(lines) == 1 or (len(lines) == 2 and lines[1].startswith("hint: "))
    assert refreshed == []
    assert sorted(Path(".git/hn/memory").glob("*")) == files


def test_hints_say_what_was_probably_meant(ada: str, hn: Hn) -> None:
    assert "Put `--` before" in hn("memory", "grep", "--json", "-legacy").error["hint"]
    assert "quotes" in hn("memory", "grep", "--json", "stream", "isolation").error["hint"]
    assert "lookahead" in hn("memory", "grep", "--json", "a(?=b)").error["hint"]
    assert hn("grep", "a", "--json").error["hint"] == "Did you mean `hn memory grep`?"


def test_no_partial_result(ada: str, hn: Hn, monkeypatch: pytest.MonkeyPatch) -> None:
    record(hn, "short")
    record(hn, "a longer one, of many words")
    for flags in (("--max-content-bytes", "160", "o"), ("--max-content-bytes", "160", "-n", "1", "o")):
        answer = hn("memory", "grep", *flags)
        assert (answer.status, answer.out) == (1, b"")
        assert "more than the bound of 160" in answer.err
    monkeypatch.setattr("hn_memory.recall.grep.WORK_LIMIT", 10)
    answer = hn("memory", "grep", "o")
    assert (answer.status, answer.out) == (1, b"")
    assert "limit 10" in answer.err.splitlines()[0] and "--topic" in answer.err.splitlines()[1]
    assert hn("memory", "grep", "o", "--json").error["code"] == "work-limit"


def test_cursors_go_on(ada: str, hn: Hn) -> None:
    ids = {record(hn, f"number {number}") for number in range(3)}
    page = hn("memory", "grep", "-n", "2", "--json", "number").done().json
    text = hn("memory", "grep", "-n", "2", "number").done().text
    assert f"--cursor {page['nextCursor']}" in text
    rest = hn("memory", "grep", "-n", "2", "--cursor", page["nextCursor"], "--json", "number").done().json
    assert {row["id"] for row in (*page["memories"], *rest["memories"])} == ids
    other = hn("memory", "grep", "-n", "2", "--cursor", page["nextCursor"], "--json", "numbe")
    assert other.error["code"] == "cursor-stale"
    assert hn("memory", "recall", "-n", "2", "--cursor", page["nextCursor"], "--json").error["code"] == "cursor-invalid"


# --- for people --------------------------------------------------------------------------------------------------


def test_each_match_stands_beside_the_name_of_its_field(ada: str, hn: Hn) -> None:
    lists = ("--completed", "keys", "--completed", "moved keys", "--blocker", "no\nkeys", "--next-action", "more keys")
    hn("memory", "handoff", "Half the keys.\nNothing.\nAll keys, all.", *lists, "-t", "keys", "-t", "other").done()
    text = hn("memory", "grep", "keys").done().text
    assert below_header(text) == [
        "  content:1 | Half the keys.",
        "  content:3 | All keys, all.",
        "  topic | keys",
        "  handoff.completed[0] | keys",
        "  handoff.completed[1] | moved keys",
        "  handoff.blockers[0]:2 | keys",
        "  handoff.nextActions[0] | more keys",
    ]
    assert text.splitlines()[0] == hn("memory", "grep", "keys", "--json").json["warning"]
    assert text.endswith("\n1 of 1 considered\n")
    # A match over several lines shows all of them; the empty one shows where it stands.
    assert below_header(hn("memory", "grep", "(?s)Half.*All").done().text) == [
        "  content:1 | Half the keys.",
        "  content:2 | Nothing.",
        "  content:3 | All keys, all.",
    ]
    assert below_header(hn("memory", "grep", "(?m)$^", "-t", "keys").done().text) == []
    assert "  handoff.completed[0] | keys" in hn("memory", "grep", "").done().text
    assert hn("memory", "grep", "no such").done().text.startswith("0 of 1 considered; withheld: 1 no-match\n")


def test_lines_end_at_newlines_only_and_long_ones_are_cut() -> None:
    def shown(content: str, pattern: str) -> list[str]:
        data = {"content": content, "topics": [], "applicability": {"mode": "exact"}}
        row = {
            "data": data, "kind": "decision", "id": "i", "actor": "a", "applicability": "applicable", "trust": "t",
            "lifecycle": "active", "evidence": "resolved", "anchor": {"commit": "c"}, "evidenceDetails": [],
            "successors": [], "retractions": [], "challengers": [],
        }  # fmt: skip
        document = {
            "memories": [row], "warning": "w", "missingDependencies": [], "matched": 1, "truncated": False,
            "receipt": {"considered": 1, "withheld": {}, "sources": {"invalid": []}, "callouts": [], "hints": []},
        }  # fmt: skip
        return below_header(grepped(document, pattern, False))

    assert shown("a\rb\u2028c\n", "b") == ["  content:1 | a\\u{d}b\\u{2028}c"]
    assert shown("a\n\nb", "(?m)^$") == ["  content:2 |"]
    assert shown("a\nb", "a\n") == ["  content:1 | a"]
    assert shown("a\nb", "\n") == ["  content:1 | a"]
    assert shown("a\nb", "\nb") == ["  content:1 | a", "  content:2 | b"]
    assert shown("ab\n", "\\z") == ["  content:2 |"]
    assert shown("x" * 100 + "needle" + "y" * 300, "needle") == [
        "  content | …" + "x" * 60 + "needle" + "y" * 174 + "…"
    ]
    assert shown("needle" + "y" * 300, "needle") == ["  content | needle" + "y" * 234 + "…"]
    assert shown("y" * 300 + "needle", "needle$") == ["  content | …" + "y" * 60 + "needle"]
    many = shown("a\n" * 80, "a")
    assert many[0] == "  content:1 | a" and many[-2] == "  content:64 | a"
    assert many[-1] == "  content: more lines may match" and len(many) == 65
    assert shown("a" * 40, "a") == ["  content | " + "a" * 40]


@pytest.mark.usefixtures("ada")
def test_a_terminal_shows_where_and_obeys_nothing(hn: Hn) -> None:
    record(hn, "before \x1b[2Jkey\u202e\x9b2J after\n  topic | forged key", "-t", "k")
    piped = hn("memory", "grep", "[Jk]ey\\x{202E}").done().text
    assert "  content:1 | before \\u{1b}[2Jkey\\u{202e}\\u{9b}2J after\n" in piped and "\x1b" not in piped
    status, out = on_terminal("memory", "grep", "(?i)KEY.")
    text = out.decode().replace("\r\n", "\n")
    assert status == 0
    marked = "\x1b[31m\x1b[1mkey\\u{202e}\x1b[0m"
    assert f"| before \\u{{1b}}[2J{marked}\\u{{9b}}2J after\n" in text
    assert set(re.findall("\x1b\\[[0-9;]*[^0-9;]", text)) <= {f"\x1b[{code}m" for code in (0, 1, 2, 31, 32, 33)}
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert b"\x1b" not in on_terminal("memory", "grep", "key", env=env)[1]
    status, out = on_terminal("memory", "grep", "key", "--json")
    assert out.isascii() and b"\x1b" not in out and json.loads(out)["matched"] == 1
    # What an author writes cannot pass for a line of ours: ours is what stands left of the first bar.
    forged = hn("memory", "grep", "forged").done().text
    assert below_header(forged) == ["  content:2 |   topic | forged key"]


def test_completion_and_help(hn: Hn) -> None:
    code = "import sys; from hn_memory.cli.entry import main; sys.exit(main())"

    def complete(words: str) -> list[str]:
        env = {**os.environ, "_HN_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
        return [line.split(",", 1)[1] for line in done.stdout.splitlines()]

    assert complete("hn memory gr") == ["grep"]
    assert complete("hn memory grep --kind a") == ["assumption", "attempt"]
    assert complete("hn memory grep --ig") == ["--ignore-case"]
    filters = set(complete("hn memory recall --")) - {"--query", "--input", "--check-evidence"}
    assert filters == set(complete("hn memory grep --")) - {"--ignore-case"}


def test_the_help_names_every_limit_and_everything_that_is_missing(hn: Hn) -> None:
    text = hn("help", "grep").done().text
    for figure in (MAX_PATTERN_BYTES, MAX_INSTRUCTIONS, WORK_LIMIT, 1_000):
        assert f"{figure:,}" in text
    assert f"{MAX_MEMORY >> 20} MiB" in text
    for syntax, _ in FOREIGN_SYNTAX:
        assert f"`{syntax}" in text or (re.fullmatch(r"\\\d", syntax) and "`\\1` to `\\9`" in text), syntax
    # Nothing that is valid is unsupported; if something comes to be, it must be told.
    assert UNSUPPORTED == () or all(name in text for name in UNSUPPORTED)


def test_a_clone_without_an_index_gets_one(ada: str, hn: Hn) -> None:
    record(hn, "text")
    for path in Path(".git/hn/memory").glob("*"):
        path.unlink()
    assert matched(hn("memory", "grep", "--json", "text")) == ["text"]
    assert git("status", "--porcelain") == ""
