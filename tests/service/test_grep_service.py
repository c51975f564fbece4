"""Grep through the service: the order of its checks, its limits, what it finds, and the pages it gives."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hn_memory import HnError, RecordArguments, Request, Service, compile_pattern, open_repository
from hn_memory.index.store import Index
from hn_memory.protocol.canonical import encode
from hn_memory.protocol.query import (
    GREP_CURSOR_DOMAIN,
    GREP_DIGEST_DOMAIN,
    RECALL_CURSOR_DOMAIN,
    RECALL_DIGEST_DOMAIN,
    grep_document,
    normalise,
    query_digest,
    source_fingerprint,
)
from hn_memory.protocol.record import Handoff
from hn_memory.recall import grep as module
from hn_memory.recall.pattern import Pattern

HEAD = Request("HEAD")


def git(where: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(where), *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture(scope="module", autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    home = tmp_path_factory.mktemp("home")
    (home / ".gitconfig").write_text("[user]\n\tname = A\n\temail = a@example.org\n[init]\n\tdefaultBranch = main\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        yield


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with an identity that its policy trusts; copy it, never change it."""
    place = tmp_path_factory.mktemp("original") / "project"
    place.mkdir()
    git(place, "init", "-q")
    (place / "a.txt").write_text("a\n")
    with open_repository(place) as service:
        service.policy_trust([service.init("Ada")["identity"]["actor"]])
    git(place, "add", ".")
    git(place, "commit", "-qm", "Start")
    return place


@pytest.fixture
def service(project: Path, tmp_path: Path) -> Iterator[Service]:
    shutil.copytree(project, tmp_path / "project")
    with open_repository(tmp_path / "project", backend="libgit2") as opened:
        yield opened


def say(service: Service, content: str, target: str | None = None, **parts: Any) -> str:
    """Record something; its memory ID."""
    if "handoff" in parts:
        parts |= {"kind": "handoff", "handoff": Handoff(*parts["handoff"])}
    arguments = RecordArguments(content=content, **{"kind": "decision", **parts})
    memory: str = service.record(arguments, target=target)["memoryId"]
    return memory


def ids(document: dict[str, Any]) -> list[str]:
    return [row["id"] for row in document["memories"]]


def fields(document: dict[str, Any]) -> list[str]:
    """The names of all matching fields on the page."""
    return [found["field"] for row in document["memories"] for found in document["matchedFields"][row["id"]]]


def refusal(service: Service, request: Request, pattern: str, ignore_case: bool = False) -> HnError:
    with pytest.raises(HnError) as caught:
        service.grep(request, pattern, ignore_case)
    return caught.value


def weight(rows: list[dict[str, Any]]) -> int:
    """What the work limit counts, from the definition."""
    return sum(len(text.encode()) + 1 for row in rows for _, text in texts_of(row["data"]))


def texts_of(data: dict[str, Any]) -> list[tuple[str, str]]:
    found = [("content", data["content"]), *(("topic", topic) for topic in data["topics"])]
    for name in ("completed", "assumptions", "blockers", "nextActions"):
        items = data.get("handoff", {}).get(name, [])
        found += ((f"handoff.{name}[{at}]", item) for at, item in enumerate(items))
    return found


# --- the order of checks -----------------------------------------------------------------------------------------


@pytest.fixture
def refreshes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happened from the index on, in order."""
    seen: list[str] = []
    refresh, weigh, sift = Index.refresh, module.PatternSelection._weight, Pattern.sift
    monkeypatch.setattr(Index, "refresh", lambda self, *more: (seen.append("index"), refresh(self, *more))[1])
    monkeypatch.setattr(module.PatternSelection, "_weight", lambda self: (seen.append("work limit"), weigh(self))[1])
    monkeypatch.setattr(Pattern, "sift", lambda *given: (seen.append("matching"), sift(*given))[1])
    return seen


def test_checks_come_in_order(service: Service, refreshes: list[str]) -> None:
    say(service, "text")
    refreshes.clear()
    service.grep(HEAD, "text")
    assert [what for what in refreshes if what != "matching"] == ["index", "work limit"]
    assert refreshes[:2] == ["index", "work limit"] and "matching" in refreshes


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        # Each fails all the checks after its own, too: it is the first that speaks.
        ("(\udcff" + "x{1000}" * 600, "pattern-invalid"),
        ("(" * 2000 + "é" * 2000, "pattern-too-large"),
        ("(a{1000}" + "b{1000}" * 10, "pattern-invalid"),
        ("\\C", "pattern-invalid"),
        ("(?=a)", "pattern-invalid"),
        ("(a)\\1", "pattern-invalid"),
        ("(?:\\pL{1000}){1}" * 200, "pattern-too-complex"),
        ("(?:" + "a{1000}" * 4 + ")b{94}c{0,2}", "pattern-too-complex"),
    ],
)
def test_a_refused_pattern_touches_no_index(service: Service, refreshes: list[str], pattern: str, code: str) -> None:
    say(service, "text")
    refreshes.clear()
    database = service.environment.repository.layout.common_dir / "hn/memory/index.sqlite"
    database.unlink(missing_ok=True)
    error = refusal(service, HEAD, pattern)
    assert (error.code, error.field, error.exit_status) == (code, "pattern", 2)
    assert "\n" not in error.message
    assert refreshes == [] and not database.exists()
    assert service.notices == []


def test_other_refusals_touch_no_index_either(service: Service, refreshes: list[str]) -> None:
    for request, code in (
        (Request("HEAD", query="words"), "request-invalid"),
        (Request("HEAD", max_records=0), "request-invalid"),
        (Request("HEAD", kinds=("poem",)), "request-invalid"),
        (Request("no-such-branch"), "revision-unknown"),
        (Request("HEAD", cursor="x"), "cursor-invalid"),
    ):
        assert refusal(service, request, "a").code == code
        # The pattern is judged before everything else.
        assert refusal(service, request, "(").code == "pattern-invalid"
    assert refreshes == []


def test_what_the_matcher_cannot_compile_is_refused_before_the_index(
    service: Service, refreshes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hn_memory.recall.pattern.MAX_MEMORY", 1 << 12)
    assert refusal(service, HEAD, "a{1000}").code == "pattern-unsupported"
    assert refreshes == []


# --- the work limit ----------------------------------------------------------------------------------------------


def test_the_work_limit_is_exact_and_counted_before_matching(
    service: Service, refreshes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    say(service, 'größer als\n"a" < b', topics=("t", "größe"))
    say(service, "half", handoff=(("done", "한"), (), ("x",), ("",) * 0), topics=("t",))
    old = say(service, "never looked at, since superseded")
    say(service, "new", old)
    rows = service.recall(HEAD)["memories"]
    assert len(rows) == 3
    pattern = compile_pattern("nothing[ ]like (it|this)")
    work = pattern.instructions * weight(rows)
    monkeypatch.setattr(module, "WORK_LIMIT", work)
    assert service.grep(HEAD, pattern.pattern)["matched"] == 0
    monkeypatch.setattr(module, "WORK_LIMIT", work - 1)
    refreshes.clear()
    error = refusal(service, HEAD, pattern.pattern)
    assert refreshes == ["index", "work limit"]
    assert error.code == "work-limit"
    for number in (pattern.instructions, weight(rows), 3, work, work - 1):
        assert str(number) in error.message
    assert error.hint is not None and "--topic" in error.hint
    # What is searched is what passes the gates: a filter makes it fit, and so does a smaller pattern.
    assert service.grep(Request("HEAD", kinds=("handoff",)), pattern.pattern)["matched"] == 0
    assert service.grep(Request("HEAD", topics=("t",)), pattern.pattern)["matched"] == 0
    assert service.grep(HEAD, "nothing")["matched"] == 0
    # A page bounds what comes out, not what is searched.
    assert refusal(service, Request("HEAD", max_records=1), pattern.pattern).code == "work-limit"
    # With the superseded record among them it is more again.
    everything = Request("HEAD", lifecycle=("all",))
    monkeypatch.setattr(module, "WORK_LIMIT", pattern.instructions * weight(service.recall(everything)["memories"]))
    assert service.grep(everything, pattern.pattern)["matched"] == 0
    monkeypatch.setattr(module, "WORK_LIMIT", module.WORK_LIMIT - 1)
    assert refusal(service, everything, pattern.pattern).code == "work-limit"


# --- what is found -----------------------------------------------------------------------------------------------


def test_each_field_is_searched_alone_and_a_record_comes_back_whole_and_once(service: Service) -> None:
    handoff = (("keys moved", "locks moved"), ("nobody reads",), ("disk\nfull",), ("measure", "Measure again"))
    memory = say(service, "Half done.\nMeasured twice.", topics=("cache", "measures"), handoff=handoff)
    found = service.grep(HEAD, "easure")
    assert ids(found) == [memory] and found["matched"] == 1
    assert found["memories"] == service.recall(HEAD)["memories"]
    assert found["matchedFields"] == {
        memory: [
            {"field": "content", "line": 2},
            {"field": "topic", "line": 1},
            {"field": "handoff.nextActions[0]", "line": 1},
            {"field": "handoff.nextActions[1]", "line": 1},
        ]
    }
    for pattern, where in (
        ("^cache$", ["topic"]),
        ("^locks", ["handoff.completed[1]"]),
        ("nobody", ["handoff.assumptions[0]"]),
        ("(?m)^full$", ["handoff.blockers[0]"]),
        ("again$", ["handoff.nextActions[1]"]),
        ("(?i)^half", ["content"]),
    ):
        assert fields(service.grep(HEAD, pattern)) == where, pattern
    # Neither from one field into the next, nor from item to item, nor with anything between them.
    for pattern in ("moved.*locks", "(?s)moved.*locks", "twice\\.(?s:.*)cache", "cache[^x]*measures", "movedlocks"):
        assert service.grep(HEAD, pattern)["matched"] == 0, pattern


def test_what_is_not_searched(service: Service) -> None:
    head = git(Path(service.environment.repository.layout.common_dir).parent, "rev-parse", "HEAD")
    say(service, "x", evidence=(f"git:{head}",), paths=(("a.txt", None),))
    for pattern in (head[:12], "git:", "a\\.txt", "decision", "Ada", "untrusted", "qualified", "sha256", "descendants"):
        assert service.grep(HEAD, pattern)["matched"] == 0, pattern


def test_anchors_flags_and_the_empty_pattern(service: Service) -> None:
    one, two = say(service, "Decision: one\nDECISION: two"), say(service, "first\nDecision: late")
    say(service, "nothing of the kind")
    assert ids(service.grep(HEAD, "^Decision:")) == [one]
    assert set(ids(service.grep(HEAD, "(?m)^Decision:"))) == {one, two}
    assert ids(service.grep(HEAD, "(?m)^Decision: late$")) == [two]
    assert ids(service.grep(HEAD, "one.DECISION")) == []
    assert ids(service.grep(HEAD, "(?s)one.DECISION")) == [one]
    assert ids(service.grep(HEAD, "decision: TWO")) == []
    assert ids(service.grep(HEAD, "decision: TWO", True)) == ids(service.grep(HEAD, "(?i)decision: TWO")) == [one]
    everything = service.grep(HEAD, "")
    assert everything["matched"] == 3 and ids(everything) == ids(service.recall(HEAD))


def test_order_filters_gates_and_receipt_are_recalls(service: Service) -> None:
    old = say(service, "stream isolation, first", topics=("a",))
    say(service, "stream isolation, second", old, topics=("a",))
    say(service, "stream isolation, third", topics=("b",))
    gone = say(service, "stream isolation, gone")
    service.retract(gone, "incorrect")
    say(service, "unlike", topics=("b",))
    say(service, "stream isolation, of no kind", kind="observation")
    for request in (
        HEAD,
        Request("HEAD", topics=("b",)),
        Request("HEAD", kinds=("decision",)),
        Request("HEAD", lifecycle=("all",)),
        Request("HEAD", lifecycle=("superseded", "retracted")),
        Request("HEAD", trust=("actor-untrusted",)),
        Request("HEAD", include_untrusted=True, max_records=2),
        Request("HEAD~0", path="a.txt"),
    ):
        found, recalled = service.grep(request, "stream isolation"), service.recall(request._replace(query="isolation"))
        for name in ("warning", "matched", "returned", "truncated", "memories", "missingDependencies"):
            assert found[name] == recalled[name], (request, name)
        receipt = found["receipt"]
        assert receipt["considered"] == found["matched"] + sum(receipt["withheld"].values())
        assert receipt == recalled["receipt"] | {"hints": receipt["hints"]}
        assert set(found) - set(recalled) == {"matchedFields"}
        assert list(found["matchedFields"]) == ids(found)
    nothing = service.grep(HEAD, "no such thing")["receipt"]
    assert nothing["withheld"]["no-match"] == 4
    assert any("no-match: the pattern is found in none of their fields" in hint for hint in nothing["hints"])


def test_only_what_matches_is_called_out(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    root = say(service, "stream isolation")
    other = say(service, "another matter")
    for target in (root, other):
        say(service, "left", target)
        say(service, "right", target)
    lost = say(service, "stream of tears")
    service.retract(say(service, "dried", lost), "incorrect")

    def called(pattern: str) -> dict[str, str]:
        callouts = service.grep(HEAD, pattern)["receipt"]["callouts"]
        return {item["memoryId"]: item["code"] for item in callouts}

    assert called("stream") == {root: "branching", lost: "successor-retracted"}
    assert called("matter$") == {other: "branching"}
    assert called("left") == {}
    assert called("") == {root: "branching", other: "branching", lost: "successor-retracted"}
    # Where the work limit leaves nothing for them, all of them may match, and silence would mislead.
    weighed = compile_pattern("left").instructions * weight(service.recall(HEAD)["memories"])
    monkeypatch.setattr(module, "WORK_LIMIT", weighed)
    assert set(called("left")) == {root, other, lost}


# --- bounds and pages --------------------------------------------------------------------------------------------


def test_the_budget_counts_the_whole_data_object(service: Service) -> None:
    say(service, "<a> & \u2028 x", topics=("größe",))
    say(service, "x", handoff=(("x" * 500,), (), (), ()))
    say(service, "other" * 50)
    rows = service.grep(HEAD, "x")["memories"]
    needs = [len(encode(row["data"])) for row in rows]
    assert len(needs) == 2 and needs[0] > 700 and needs[1] > 190
    # A bound that holds both, exactly, and one byte less.
    assert service.grep(Request("HEAD", max_content_bytes=sum(needs)), "x")["returned"] == 2
    page = service.grep(Request("HEAD", max_content_bytes=sum(needs) - 1), "x")
    assert (page["returned"], page["truncated"]) == (1, True)
    # Any match over an explicit bound fails before a page, also one that would come later; what does not match is free.
    assert service.grep(Request("HEAD", max_content_bytes=max(needs)), "x")["returned"] == 1
    error = refusal(service, Request("HEAD", max_content_bytes=max(needs) - 1), "x")
    assert (error.code, error.field) == ("bound-too-small", "maxContentBytes")
    assert str(max(needs)) in error.message and rows[0]["id"] in error.message
    late = refusal(service, Request("HEAD", max_content_bytes=max(needs) - 1, max_records=1), "x")
    assert late.code == "bound-too-small"
    small = Request("HEAD", max_content_bytes=min(needs))
    assert service.grep(small, "größe")["returned"] == 1
    # Recall counts the content alone.
    assert service.recall(Request("HEAD", max_content_bytes=100, query="x"))["returned"] == 2


def test_the_default_bound_is_soft(service: Service) -> None:
    say(service, "\n" * 40_000 + "x")
    say(service, "x")
    page = service.grep(HEAD, "x")
    assert page["returned"] == 1 and page["truncated"]
    rest = service.grep(Request("HEAD", cursor=page["nextCursor"]), "x")
    assert rest["returned"] == 1 and not rest["truncated"]
    assert refusal(service, Request("HEAD", max_content_bytes=65_536), "x").code == "bound-too-small"


def test_pages_go_on_and_cursors_have_a_domain_of_their_own(service: Service) -> None:
    for number in range(5):
        say(service, f"number {number}")
    bounded = Request("HEAD", max_records=2)
    seen: list[str] = []
    page = service.grep(bounded, "number")
    first = page["nextCursor"]
    while True:
        seen += ids(page)
        if not page["truncated"]:
            break
        page = service.grep(bounded._replace(cursor=page["nextCursor"]), "number")
    assert seen == ids(service.grep(HEAD, "number")) and len(seen) == 5

    going_on = bounded._replace(cursor=first)
    for request, pattern, ignore_case in (
        (going_on, "numbe[r]", False),
        (going_on, "(?:number)", False),
        (going_on, "", False),
        (going_on, "number", True),
        (going_on._replace(max_records=3), "number", False),
        (going_on._replace(kinds=("decision",)), "number", False),
    ):
        assert refusal(service, request, pattern, ignore_case).code == "cursor-stale", (request, pattern)
    with pytest.raises(HnError) as caught:
        service.recall(going_on)
    assert caught.value.code == "cursor-invalid"
    recalled = service.recall(bounded)["nextCursor"]
    assert refusal(service, bounded._replace(cursor=recalled), "").code == "cursor-invalid"
    assert service.recall(bounded._replace(cursor=recalled))["returned"] == 2
    say(service, "number 6")
    assert refusal(service, going_on, "number").code == "cursor-stale"


def test_the_digest_covers_the_exact_pattern_and_the_flag(service: Service) -> None:
    assert len({GREP_DIGEST_DOMAIN, GREP_CURSOR_DOMAIN, RECALL_DIGEST_DOMAIN, RECALL_CURSOR_DOMAIN}) == 4
    normal = normalise(HEAD, "1" * 40)
    document = grep_document(normal, "é", False)
    assert document == {**normal.document(), "pattern": "é", "ignoreCase": False}
    fingerprint = source_fingerprint("sha256:" + "0" * 64, {})

    def digest(pattern: str, ignore_case: bool) -> str:
        return query_digest(GREP_DIGEST_DOMAIN, grep_document(normal, pattern, ignore_case), fingerprint, "p")

    # The last two look alike and are different bytes.
    variants = [("a", False), ("a", True), ("(?i)a", False), ("", False), ("", True), ("é", False), ("e\u0301", False)]
    assert len({digest(*variant) for variant in variants}) == len(variants)
    say(service, "a")
    assert service.grep(HEAD, "a")["queryDigest"] != service.grep(HEAD, "a", True)["queryDigest"]


# --- the whole of it ---------------------------------------------------------------------------------------------

WORDS = ("stream", "isolation", "Größe", "한국어", "a<b", '"q"', "back\\slash", "tab\there", "x1", "é", "STREAM", "-")
PATTERNS = (
    "stream", "(?i)stream", "^x1", "x1$", "(?m)^x1", "(?m)x1$", "\\bé", "\\Bx", "[^a-z]+$", "\\pL{6,}", "한.어", ".",
    "(?s)m.*x", "stream[-_ ]isolat.*", "\\\\s", '"q"', "<", "\\t", "^$", "", "Größe|^é$", "[[:upper:]]{2}", "a{3}",
)  # fmt: skip


def test_grep_is_a_naive_scan_of_what_recall_returns(service: Service) -> None:
    pick = random.Random(4)

    def text() -> str:
        return pick.choice((" ", "\n", "", "-")).join(pick.choices(WORDS, k=pick.randint(1, 5))) + "."

    def items() -> tuple[str, ...]:
        return tuple(text() for _ in range(pick.randint(0, 2)))

    def topics() -> tuple[str, ...]:
        return tuple(
            {pick.choice(("stream", "größe", "x1", "two words", '"q"', "a,b")) for _ in range(pick.randint(0, 2))}
        )

    batch = []
    for _ in range(120):
        arguments = RecordArguments(kind="decision", content=text(), topics=topics())
        if pick.random() < 0.3:
            arguments = arguments._replace(kind="handoff", handoff=Handoff(items(), items(), items(), items()))
        batch.append(arguments)
    service.record_all(batch)
    request = Request("HEAD", max_records=1_000, max_content_bytes=10_000_000)
    rows = service.recall(request)["memories"]
    assert len(rows) == 120
    for source in PATTERNS:
        pattern = compile_pattern(source)
        expected = {
            row["id"]: found
            for row in rows
            if (found := [name for name, value in texts_of(row["data"]) if pattern.search(value)])
        }
        document = service.grep(request, source)
        assert ids(document) == list(expected), source
        assert document["memories"] == [row for row in rows if row["id"] in expected]
        assert [[found["field"] for found in document["matchedFields"][name]] for name in expected] == list(
            expected.values()
        )
        assert document["receipt"]["withheld"].get("no-match", 0) == 120 - len(expected)


def test_a_stored_memory_that_is_no_memory_is_verified_anew(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = say(service, "text")
    service.grep(HEAD, "text")
    taken, real = [0], module.take_texts

    def damaged(payload: bytes) -> Any:
        taken[0] += 1
        return real(payload if taken[0] > 1 else b"{}")

    monkeypatch.setattr(module, "take_texts", damaged)
    found = service.grep(HEAD, "text")
    assert ids(found) == [memory] and taken[0] > 1


@pytest.mark.parametrize("backend", ["git", "libgit2"])
def test_nothing_is_written_but_the_index(service: Service, backend: str) -> None:
    say(service, "text")
    place = service.environment.repository.layout.common_dir
    before = git(place, "for-each-ref")
    with open_repository(place.parent, backend=backend) as other:
        assert other.grep(HEAD, "text")["matched"] == 1
    assert git(place, "for-each-ref") == before
    assert sorted(path.name for path in (place / "hn/memory").iterdir()) == ["index.lock", "index.sqlite"]
