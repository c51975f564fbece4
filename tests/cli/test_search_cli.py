"""`hn memory search`: its question in every odd form, its flags, and what people see of an answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cli_harness import Hn, git, record


def search(hn: Hn, *arguments: str) -> dict[str, Any]:
    """The document of a search, which is the only thing on stdout."""
    return hn("memory", "search", "--json", *arguments).done().json


def found(document: dict[str, Any]) -> list[str]:
    """The contents of the records on the page."""
    return [row["data"]["content"] for row in document["memories"]]


# -- the question -----------------------------------------------------------------------------------------


def test_nothing_in_a_question_is_syntax(ada: str, hn: Hn) -> None:
    texts = ["The cache is C++.", "We don't retry.", "col:val pairs", 'say "never"', "ask-codex first"]
    for text in texts:
        record(hn, text)
    asked = ["C++", "don't", "col:val", '"never" AND', "ask-codex"]
    for text, question in zip(texts, asked, strict=True):
        assert found(search(hn, question))[0] == text
    for odd in ('"', "NEAR(", "a AND", "*", "^x", "-", "(", ") OR (", "content:", "{a b}", "'; DROP TABLE x;--"):
        search(hn, "--", odd)
    assert found(search(hn, "--", "--json", "C++"))[0] == texts[0]
    assert found(search(hn, "--", "-ask-codex"))[0] == texts[4]
    refused = hn("memory", "search", "--json", "-ask")
    assert (refused.status, refused.error["code"]) == (2, "usage")


def test_a_question_may_be_given_in_several_words(ada: str, hn: Hn) -> None:
    record(hn, "We dropped the retry queue.")
    record(hn, "Logs rotate.")
    whole, words = search(hn, "why drop the queue"), search(hn, "why", "drop", "the", "queue")
    assert whole == words and found(whole) == ["We dropped the retry queue."]


REFUSED = [
    ((), "usage", "search takes a question, but none was given"),
    (("--topic", "x"), "usage", "search takes a question, but none was given"),
    (("--mode", "fuzzy", "x"), "request-invalid", "unknown mode 'fuzzy'; one of lexical, meaning, hybrid"),
    (("--kind", "poem", "x"), "request-invalid", "poem"),
    (("-n", "0", "x"), "request-invalid", "at least 1"),
    (("--query", "a", "x"), "usage", "No such option"),
    (("--input", "-", "x"), "usage", "No such option"),
    (("--cursor", "x", "x"), "cursor-invalid", "cursor"),
    ((b"\xff",), "usage", "UTF-8"),
    (("x" * 70_000,), "request-invalid", "the question has more than"),
    (("--path", "../x", "q"), "path-invalid", "'../x' does not name a file inside the work tree"),
    (("--path", "/etc/passwd", "q"), "path-invalid", "'/etc/passwd' does not name a file inside the work tree"),
    (("--at", "nowhere", "q"), "revision-unknown", "nowhere"),
]


@pytest.mark.parametrize(("arguments", "code", "words"), REFUSED)
def test_refusals_are_one_document_or_one_line(
    ada: str, hn: Hn, arguments: tuple[str | bytes, ...], code: str, words: str
) -> None:
    answer = hn("memory", "search", "--json", *arguments)
    assert answer.status in (2, 3) and answer.error["code"] == code and answer.err == ""
    assert words in answer.error["message"]
    people = hn("memory", "search", *arguments)
    assert (people.status, people.out) == (answer.status, b"")
    first, *hints = people.err.splitlines()
    assert first.startswith("hn: error: ") and words in first
    assert all(line.startswith("hint: ") for line in hints) and len(hints) <= 1


def test_questions_without_content(ada: str, hn: Hn) -> None:
    record(hn, "What is the cache?")
    for question in ("", " ", "!?", "🔥"):
        document = search(hn, question)
        assert document["memories"] == [] and document["abstain"] is True
        assert document["receipt"]["hints"][-1] == "the question holds no word to look for"
    # Stop words count where there is nothing else.
    assert found(search(hn, "what is the")) == ["What is the cache?"]


# -- the answer -------------------------------------------------------------------------------------------


def test_rows_carry_score_and_why_and_replaced_ones_stay_away(ada: str, hn: Hn) -> None:
    old = record(hn, "The queue holds 100 jobs.", "-t", "queue")
    record(hn, "The logs rotate.")
    hn("memory", "supersede", old, "-k", "decision", "The queue holds 200 jobs.", "-t", "queue").done()
    document = search(hn, "how many jobs does the queue hold?")
    assert found(document) == ["The queue holds 200 jobs."]
    (row,) = document["memories"]
    assert row["why"] == ["topic", "text"] and 0 < row["score"] < 2 and round(row["score"], 6) == row["score"]
    assert document["abstain"] is False
    assert document["receipt"]["withheld"] == {"superseded": 1, "no-match": 1}
    assert document["receipt"]["search"] == {"mode": "lexical", "asked": "lexical"}
    nothing = search(hn, "quantum chromodynamics")
    assert nothing["memories"] == [] and nothing["abstain"] is True
    # Filters are those of recall.
    assert found(search(hn, "queue", "--kind", "attempt")) == []
    assert found(search(hn, "queue logs", "--topic", "queue")) == ["The queue holds 200 jobs."]
    everything = search(hn, "queue", "--lifecycle", "superseded")
    assert found(everything) == ["The queue holds 100 jobs."]


def test_pages_together_are_the_one_page(ada: str, hn: Hn) -> None:
    for number in range(7):
        record(hn, f"number {number} " + "of the cache " * (number % 3))
    whole = search(hn, "number cache")
    assert whole["returned"] == 7 and "nextCursor" not in whole
    rows: list[dict[str, Any]] = []
    more: list[str] = []
    while True:
        page = search(hn, "number cache", "-n", "3", *more)
        rows += page["memories"]
        if "nextCursor" not in page:
            break
        text = hn("memory", "search", "number cache", "-n", "3", *more).done().text
        assert f"--cursor {page['nextCursor']}" in text
        more = ["--cursor", page["nextCursor"]]
    assert rows == whole["memories"]
    other = hn("memory", "search", "--json", "number", "-n", "3", *more)
    assert other.error["code"] == "cursor-stale"


def test_what_concerns_a_file(ada: str, hn: Hn, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(hn, "It prints twice.", "-p", "app.py")
    record(hn, "It never ends.", "-p", "app.py")
    record(hn, "See app.py first.")
    record(hn, "The plan is short.", "-p", "docs/plan.md")
    alone = search(hn, "--path", "app.py")
    assert found(alone)[-1] == "See app.py first." and len(found(alone)) == 3
    assert all(row["why"][0] == "path" for row in alone["memories"])
    asked = search(hn, "--path", "app.py", "does it end?")
    assert found(asked)[0] == "It never ends."
    # However the file is named.
    monkeypatch.chdir(repository / "docs")
    (repository.parent / "link").symlink_to(repository)
    names = ["../app.py", ":/app.py", f"{repository}/app.py", f"{repository}/docs/../app.py"]
    for name in (*names, f"{repository.parent}/link/app.py"):
        assert search(hn, "--path", name) == alone
        answer = hn("memory", "recall", "--json", "--path", name).done().json
        assert sorted(found(answer)) == ["It never ends.", "It prints twice."]
    made = hn("memory", "record", "-k", "decision", "-p", f"{repository}/docs/plan.md", "Longer.", "--json").done().json
    shown = hn("memory", "show", made["memoryId"], "--json").done().json
    assert [pair["path"] for pair in shown["projection"]["data"]["anchor"]["paths"]] == ["docs/plan.md"]
    for outside in (str(repository), f"{repository}-other/app.py", f"{repository.parent}/app.py", "/"):
        refused = hn("memory", "record", "-k", "decision", "-p", outside, "No.", "--json")
        assert refused.status == 2 and refused.error["code"] == "path-invalid"


def test_an_absolute_path_needs_a_work_tree(ada: str, hn: Hn, clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git("clone", "-q", "--bare", ".", str(clean / "bare.git"))
    monkeypatch.chdir(clean / "bare.git")
    assert hn("memory", "search", "--json", "--path", f"{clean}/bare.git/app.py").error["code"] == "path-invalid"
    assert search(hn, "--path", "app.py")["memories"] == []


def test_refusals_do_not_tell_whose_home_it_is(ada: str, hn: Hn, clean: Path) -> None:
    answer = hn("memory", "search", "--path", f"{clean}/home/secret.py")
    assert "'~/secret.py' does not name a file inside the work tree" in answer.err
    assert str(clean) not in answer.err


def test_evidence_states(ada: str, hn: Hn, repository: Path) -> None:
    memory = record(hn, "It prints.", "-p", "app.py", "-e", f"git:{git('rev-parse', 'HEAD:docs/plan.md')}")

    def states() -> dict[str, str]:
        items = search(hn, "--check-evidence", "print")["evidenceStates"][memory]
        return {item["item"].partition(":")[0]: item["state"] for item in items}

    assert "evidenceStates" not in search(hn, "print")
    assert states() == {"path": "unchanged", "git": "unchanged"}
    (repository / "app.py").write_text("print(2)\n")
    git("mv", "docs/plan.md", "docs/moved.md")
    git("commit", "-qam", "Change")
    assert states() == {"path": "changed", "git": "moved"}
    git("rm", "-q", "app.py", "docs/moved.md")
    git("commit", "-qm", "Remove")
    assert states() == {"path": "gone", "git": "gone"}
    text = hn("memory", "search", "--check-evidence", "print").done().text
    assert "gone" in text


# -- an embedder ------------------------------------------------------------------------------------------


def test_a_failing_embedder_is_told_and_costs_nothing(ada: str, hn: Hn, repository: Path) -> None:
    record(hn, "The cache is cleared at night.")
    plain = search(hn, "when is the cache cleared?")
    git("config", "hn.embedCommand", "false")
    document = search(hn, "when is the cache cleared?")
    assert document["memories"] == plain["memories"]
    used = document["receipt"]["search"]
    assert used["mode"] == "lexical" and used["asked"] == "hybrid" and used["degraded"]
    assert document["receipt"]["hints"] == [f"answered by words alone: {used['degraded']}"]
    text = hn("memory", "search", "when is the cache cleared?").done().text
    assert f"hint: answered by words alone: {used['degraded']}" in text
    assert search(hn, "--mode", "lexical", "cache")["receipt"]["search"] == {"mode": "lexical", "asked": "lexical"}
    git("config", "--unset", "hn.embedCommand")
    used = search(hn, "--mode", "meaning", "cache")["receipt"]["search"]
    assert used["mode"] == "lexical" and "no embedder is configured" in used["degraded"]


# -- for people -------------------------------------------------------------------------------------------


def test_what_people_see(ada: str, hn: Hn) -> None:
    record(hn, "The cache is \x1b[2Jcleared\nat night.", "-t", "cache")
    text = hn("memory", "search", "when is the cache cleared?").done().text
    lines = text.splitlines()
    assert lines[0] == search(hn, "cache")["warning"] and "\x1b" not in text
    at = next(number for number, line in enumerate(lines) if line.startswith("decision sha256:"))
    assert lines[at + 1].startswith("  score 0.") and lines[at + 1].endswith(" (topic, text)")
    assert "  | The cache is \\u{1b}[2Jcleared" in lines and "  | at night." in lines
    assert lines[-1] == "1 of 1 considered"
    for number in range(30):
        record(hn, f"Part {number} is cleared at night.")
    weak = hn("memory", "search", "Which orchestra rehearses Tuesday night in Vienna with Caroline?").done().text
    assert weak.startswith("nothing found is a plausible answer; what comes nearest:\n")
    none = hn("memory", "search", "chromodynamics").done().text
    assert none.startswith("0 of 31 considered; withheld: 31 no-match")
