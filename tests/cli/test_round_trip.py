"""Content comes back byte for byte, whatever it holds and whichever way it went in."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_harness import Hn, git

CONTENTS = {
    "nul": b"a\0b\0",
    "bom": b"\xef\xbb\xbfwith a byte order mark",
    "crlf": b"one\r\ntwo\r\n\r\n",
    "newlines around": b"\n\n  indented\n\n\n",
    "line separators": "a\u2028b\u2029c\x85d".encode(),
    "astral": "𝔘𝔫𝔦 🐛🦀 \U0010ffff".encode(),
    "zwj families": "👩‍👩‍👧‍👦 🏳️‍🌈 👨🏽‍🚀 🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f".encode(),
    "combining": "e\u0301 vs \u00e9, \u1100\u1161\u11a8 vs \uac01, A\u030a".encode(),
    "bidi": "\u202eevil\u202c \u2066inside\u2069 \u200f".encode(),
    "controls": bytes(range(1, 32)) + b"\x7f" + "\x80\x9b\x9d".encode(),
    "terminal": b"\x1b[2J\x1b]0;title\x07\rhn: error: no",
    "html and quotes": rb"""<script>&amp;"quoted" \ back/slash \u2028</script>""",
    "one long line": b"x" * 65_536,
    "one long line of escapes": b"\x01" * 65_535 + b"x",
    "64 KiB of four-byte characters": "🦀".encode() * 16_384,
}


@pytest.mark.parametrize("name", CONTENTS)
def test_bytes_round_trip(name: str, ada: str, hn: Hn, tmp_path: Path) -> None:
    content = CONTENTS[name]
    file = tmp_path / "content"
    file.write_bytes(content)
    ways = [
        hn("memory", "record", "-k", "observation", "--content-file", str(file), "--json"),
        hn("memory", "record", "-k", "observation", "-", "--json", stdin=content),
    ]
    if b"\0" not in content:
        ways.append(hn("memory", "record", "-k", "observation", "-m", content, "--json"))
    for way in ways:
        shown = hn("memory", "show", way.done().json["memoryId"], "--json").done()
        assert shown.json["projection"]["data"]["content"].encode() == content
        payload = git("show", f"{shown.json['commit']}:memory.json")
        assert payload.isascii() or "\ufffd" not in payload
    assert hn("memory", "verify").status == 0
    recalled = hn("memory", "recall", "--max-records", "1", "--json").done()
    assert recalled.json["memories"][0]["data"]["content"].encode() == content


@pytest.mark.parametrize("name", CONTENTS)
def test_nothing_in_it_acts_on_a_terminal(name: str, ada: str, hn: Hn) -> None:
    content = CONTENTS[name].decode()
    memory_id = (
        hn("memory", "record", "-k", "observation", "-", "--json", stdin=content.encode()).done().json["memoryId"]
    )
    for command in (("recall",), ("show", memory_id), ("log",), ("log", "--graph")):
        text = hn("memory", *command).done().text
        for character in text:
            assert character in "\n\t" or (character >= " " and not "\x7f" <= character <= "\x9f"), (command, character)
            assert character not in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u2028\u2029"
    # Nothing that the author wrote begins a line.
    own = ("Memory ", "observation ", "record ", "  ", "1 of 1 considered")
    for line in hn("memory", "show", memory_id).text.splitlines():
        assert not line or line.startswith(own), line


def test_too_much_is_refused(ada: str, hn: Hn) -> None:
    for size in (65_537, 2_000_000):
        answer = hn("memory", "record", "-k", "observation", "-", "--json", stdin=b"x" * size)
        assert answer.status in (1, 2)
        assert "65536" in answer.error["message"].replace(",", "")


def test_every_record_is_shown_behind_the_gutter(ada: str, hn: Hn) -> None:
    """An author who imitates our receipt, our header, a list item."""
    forged = "yes\n\n2 of 2 considered\ndecision sha256:0\n  actor x\nhn: error: no\n"
    hn("memory", "handoff", "-m", forged, "--completed", f"done\n  2 | {forged}", "-t", "x").done()
    lines = hn("memory", "recall").done().text.splitlines()
    assert lines.count("1 of 1 considered") == 1 and "2 of 2 considered" not in lines
    inside = [line for line in lines if "considered" in line or "sha256:0" in line]
    assert [line for line in inside if not line.startswith(("  | ", "  1 | ", "handoff sha256:0"))] == [
        "1 of 1 considered"
    ]
