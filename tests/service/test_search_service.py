"""Search through the service: what it finds and in which order, that nothing is syntax, and what fails without harm."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from hn_memory import HnError, RecordArguments, Request, Service, open_repository
from hn_memory.index.store import DATABASE
from hn_memory.protocol.record import Handoff

HEAD = Request("HEAD")
WORDS = ("cache", "index", "stream", "reader", "writer", "lock", "pack", "tree", "blob", "record", "query", "policy")


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
    (place / "src" / "deep").mkdir(parents=True)
    git(place, "init", "-q")
    (place / "src" / "x.py").write_text("x = 1\n")
    (place / "src" / "y.py").write_text("y = 1\n")
    (place / "src" / "deep" / "z.py").write_text("z = 1\n")
    with open_repository(place) as service:
        service.policy_trust([service.init("Ada")["identity"]["actor"]])
    git(place, "add", ".")
    git(place, "commit", "-qm", "Start")
    return place


@pytest.fixture
def place(project: Path, tmp_path: Path) -> Path:
    shutil.copytree(project, tmp_path / "project")
    return tmp_path / "project"


@pytest.fixture
def service(place: Path) -> Iterator[Service]:
    with open_repository(place, backend="libgit2") as opened:
        yield opened


def say(service: Service, content: str, target: str | None = None, **parts: Any) -> str:
    """Record something; its memory ID."""
    arguments = RecordArguments(content=content, **{"kind": "decision", **parts})
    memory: str = service.record(arguments, target=target)["memoryId"]
    return memory


def ids(document: dict[str, Any]) -> list[str]:
    return [row["id"] for row in document["memories"]]


def find(service: Service, question: str, **parts: Any) -> list[str]:
    return ids(service.search(Request("HEAD", **parts), question))


def test_a_question_finds_what_was_said_in_other_forms(service: Service) -> None:
    queue = say(service, "We dropped the retry queue: a dying worker lost what was in it.")
    say(service, "Logs rotate every day.")
    document = service.search(HEAD, "Why did we drop retries that queue?")
    assert ids(document) == [queue]
    assert document["memories"][0]["why"] == ["text"]
    assert document["abstain"] is False
    assert document["receipt"]["withheld"] == {"no-match": 1}
    assert document["receipt"]["search"] == {"mode": "lexical", "asked": "lexical"}


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("Use ask-codex for that.", "ask-codex"),
        ("It is in src/main.py now.", "src/main.py"),
        ("It is in src/main.py now.", "main.py"),
        ("C++ needs a wrapper.", "C++"),
        ("They don't match.", "don't"),
        ("Write col:val pairs.", "col:val"),
        ('A quote " stands alone beside b.', 'b AND "'),
        ("Renamed to retryQueue.", "retry queue"),
        ("Renamed to retryQueue.", "retry_queue"),
        ("Renamed to retry_queue.", "retryqueue"),
        ("The retry queue is gone.", "RetryQueue"),
        ("Sie heißt Größe.", "große"),
        ("Un café fermé.", "cafe"),
        ("我们删除了重试队列。", "重试队列"),
        ("我们删除了重试队列。", "列"),
        ("데이터베이스를 지웠다", "데이터베이스"),
        ("She went home.", "Who goes?"),
        ("what is the", "what is the"),
    ],
)
def test_everything_is_text(service: Service, said: str, asked: str) -> None:
    wanted = say(service, said)
    say(service, "Nothing of the kind; numbers 1 to 5.")
    assert find(service, asked)[0] == wanted


def test_fields_weigh_by_what_they_are(service: Service) -> None:
    in_content = say(service, "The latency of it.")
    in_handoff = say(service, "Paused.", kind="handoff", handoff=Handoff((), (), ("Latency",), ("go on",)))
    in_path = say(service, "Slow.", paths=(("src/x.py", None),))
    in_topic = say(service, "Slow, too.", topics=("latency",))
    assert find(service, "latency")[0] == in_topic
    assert set(find(service, "latency")) == {in_content, in_handoff, in_topic}
    document = service.search(HEAD, "x.py")
    assert ids(document)[0] == in_path
    assert document["memories"][0]["why"][0] == "path"


def test_what_was_replaced_is_never_returned_and_lends_its_words(service: Service) -> None:
    old = say(service, "The overage of a plan is billed by the block.")
    say(service, "Invoices go out on Mondays.")
    new = say(service, "Make it sixty.", target=old)
    document = service.search(HEAD, "How is overage of a plan billed?")
    assert ids(document)[0] == new and old not in ids(document)
    assert document["receipt"]["withheld"]["superseded"] == 1
    newest = say(service, "Seventy.", target=new)
    assert find(service, "How is overage of a plan billed?")[0] == newest
    everything = find(service, "How is overage of a plan billed?", lifecycle=("all",))
    assert everything[0] == old
    service.retract(newest, "incorrect")
    assert newest not in find(service, "How is overage of a plan billed?")


def test_newer_breaks_ties_and_no_more(service: Service) -> None:
    better = say(service, "The cache cache holds cache keys of the cache.")
    say(service, "Far enough apart"), say(service, "to be no neighbours"), say(service, "of one another.")
    first = say(service, "The cache holds values.")
    say(service, "Once more"), say(service, "apart by"), say(service, "three others.")
    second = say(service, "The cache holds values!")
    document = service.search(HEAD, "cache")
    assert ids(document) == [better, second, first]
    assert document["memories"][0]["score"] > document["memories"][1]["score"] > document["memories"][2]["score"]


def test_it_abstains_where_nobody_said_anything_of_it(service: Service) -> None:
    for at in range(30):
        say(service, f"Decision {at}: the cache of part {at} is cleared at night.")
    assert service.search(HEAD, "When is the cache cleared?")["abstain"] is False
    document = service.search(HEAD, "Which part does Caroline's orchestra rehearse on Tuesday evenings in Vienna?")
    assert document["memories"] and document["abstain"] is True
    assert service.search(HEAD, "quantum chromodynamics")["abstain"] is True


def test_questions_without_words(service: Service) -> None:
    say(service, "Something.")
    for question in ("", "   ", "!?", "🔥", "\u0000"):
        document = service.search(HEAD, question)
        assert document["memories"] == [] and document["abstain"] is True
        assert document["receipt"]["hints"][-1] == "the question holds no word to look for"
    assert service.search(HEAD, "what is the")["memories"] == []


def test_pages_are_the_whole_order_cut(service: Service) -> None:
    draw = random.Random(6)
    for at in range(150):
        say(service, " ".join(draw.choices(WORDS, k=draw.randrange(2, 9))) + f" n{at}")
    whole = service.search(Request("HEAD", max_records=1_000), "cache reader of the stream")
    assert whole["matched"] == whole["returned"] == len(set(ids(whole)))
    scores = [row["score"] for row in whole["memories"]]
    assert scores == sorted(scores, reverse=True)
    assert all(round(score, 6) == score for score in scores)
    for size in (7, 64, 100):
        found: list[str] = []
        cursor: str | None = None
        while True:
            page = service.search(Request("HEAD", max_records=size, cursor=cursor), "cache reader of the stream")
            found += ids(page)
            assert page["matched"] == whole["matched"]
            cursor = page.get("nextCursor")
            if cursor is None:
                break
        assert found == ids(whole)
    holding = {
        row["id"]
        for row in service.recall(Request("HEAD", max_records=1_000))["memories"]
        if set(row["data"]["content"].split()) & {"cache", "reader", "stream"}
    }
    assert set(ids(whole)) == holding


def test_a_cursor_holds_for_its_question_alone(service: Service) -> None:
    for at in range(3):
        say(service, f"cache {at}")
    cursor = service.search(Request("HEAD", max_records=1), "cache")["nextCursor"]
    with pytest.raises(HnError, match="another query"):
        service.search(Request("HEAD", max_records=1, cursor=cursor), "caches")
    with pytest.raises(HnError) as caught:
        service.recall(Request("HEAD", max_records=1, cursor=cursor))
    assert caught.value.code == "cursor-invalid"


def test_bounds(service: Service) -> None:
    say(service, "cache " * 50)
    with pytest.raises(HnError) as caught:
        service.search(Request("HEAD", max_content_bytes=100), "cache")
    assert caught.value.code == "bound-too-small"
    for parts in ({"query": "x"}, {"max_records": 0}):
        with pytest.raises(HnError) as caught:
            service.search(Request("HEAD", **parts), "cache")
        assert caught.value.code == "request-invalid"
    with pytest.raises(HnError, match="unknown mode"):
        service.search(HEAD, "cache", "semantic")


def test_the_same_answer_however_the_index_came_about(place: Path) -> None:
    draw = random.Random(7)
    with open_repository(place) as service:
        said: list[str] = []
        for at in range(60):
            target = said.pop(0) if at % 9 == 8 else None
            said.append(say(service, " ".join(draw.choices(WORDS, k=6)), target=target))
            if at % 7 == 0:
                service.search(HEAD, "cache")
        grown = service.search(HEAD, "the lock of a cache reader")
    (place / ".git" / "hn" / DATABASE).unlink()
    with open_repository(place) as service:
        rebuilt = service.search(HEAD, "the lock of a cache reader")
    shutil.rmtree(place / ".git" / "hn" / "memory")
    (place / ".git" / "hn" / "memory").write_text("in the way")
    with open_repository(place) as service:
        in_memory = service.search(HEAD, "the lock of a cache reader")
        assert in_memory["receipt"]["index"]["state"] == "memory"
    for document in (grown, rebuilt, in_memory):
        document["receipt"].pop("index")
    assert json.dumps(grown) == json.dumps(rebuilt) == json.dumps(in_memory)


def test_what_leaves_the_index_leaves_its_search_tables(place: Path) -> None:
    with open_repository(place) as service:
        say(service, "The first cache.")
        (row,) = service.streams()["streams"]
        before = git(place, "rev-parse", row["ref"])
        say(service, "The second cache, with quotas.", topics=("limits",))
        assert len(find(service, "cache quotas limits")) == 2
        git(place, "update-ref", row["ref"], before)
        assert len(find(service, "cache quotas limits")) == 1
        database = place / ".git" / "hn" / DATABASE
        with sqlite3.connect(database) as db:
            db.execute("CREATE VIRTUAL TABLE temp.v USING fts5vocab(main, words, row)")
            terms = {term for (term,) in db.execute("SELECT term FROM temp.v")}
            assert terms == {"the:0", "first:0", "cach:0"}
            assert db.execute("SELECT records, words FROM tally").fetchone() == (1, 3)
        db.close()
        say(service, "Another cache.")
        assert len(find(service, "cache quotas limits")) == 2


def test_arbitrary_questions_never_raise(service: Service) -> None:
    """From all of Unicode and from what looks like syntax, each through the whole search."""
    for content in ("The cache.", "重试队列 and naïve C++", 'a:b "quoted" NEAR(x) * ^ -'):
        say(service, content)
    draw = random.Random(8)
    pieces = ['"', "'", "*", "(", ")", "NEAR", "AND", "OR", "NOT", "^", ":", "-", "+", "{", "}", "\\", "cache", " ",
              "重", "́", "\u200d", "İ", "ﬀ", "ß", "C++", "''", '""', "a" * 100, "\x00", "\ufffd"]  # fmt: skip
    from hn_memory.index.words import Stemmer, question_words, words

    stemmer = Stemmer()
    for at in range(10_000):
        size = draw.randrange(12)
        if at % 2:
            question = "".join(draw.choices(pieces, k=size))
        else:
            points = (draw.randrange(0x110000) for _ in range(size))
            question = "".join(chr(point) for point in points if not 0xD800 <= point < 0xE000)
        wanted = question_words(question)
        assert set(wanted) <= set(words(question)) and bool(wanted) == bool(words(question))
        assert all(word and ":" not in word and '"' not in word and len(word) <= 66 for word in wanted)
        stems = stemmer.stems(wanted)
        assert all(stems[word] for word in wanted)
        document = service.search(HEAD, question)
        assert document["matched"] == len(document["memories"]) <= 3
        assert document["receipt"]["withheld"].get("no-match", 0) + document["matched"] == 3
        if not wanted:
            assert document["abstain"] and document["memories"] == []


# -- a file -----------------------------------------------------------------------------------------------


def test_what_concerns_a_file_in_order(service: Service, place: Path) -> None:
    blob = git(place, "rev-parse", "HEAD:src/x.py")
    mention = say(service, "Whoever changes src/x.py must tell Bea.")
    name = say(service, "There is more about x.py elsewhere.")
    evidence = say(service, "Measured 40 ms.", evidence=(f"git:{blob}",))
    beside = say(service, "Settings are read here.", paths=(("src/y.py", None),))
    anchored = say(service, "It opens the file twice.", paths=(("src/x.py", None),))
    say(service, "The deeper one.", paths=(("src/deep/z.py", None),))
    say(service, "About max.py and xx.py only.")
    document = service.search(Request("HEAD", path="src/x.py"), "")
    assert ids(document) == [anchored, beside, evidence, mention, name]
    assert all(row["why"][0] == "path" for row in document["memories"])
    assert document["abstain"] is False
    assert find(service, "deeper", path="src/deep/z.py")[1:] != []
    second = say(service, "It closes the file never.", paths=(("src/x.py", None),))
    assert find(service, "why is it opened twice?", path="src/x.py")[0] == anchored
    assert find(service, "why is it never closed?", path="src/x.py")[0] == second
    assert service.search(Request("HEAD", path="nowhere/q.py"), "")["abstain"] is True


def test_evidence_states(service: Service, place: Path) -> None:
    blobs = {name: git(place, "rev-parse", f"HEAD:src/{name}") for name in ("x.py", "y.py", "deep/z.py")}
    commit = git(place, "rev-parse", "HEAD")
    record = say(
        service,
        "All of it.",
        paths=(("src/x.py", None), ("src/y.py", None), ("src/deep/z.py", None), ("src/new.py", "absent")),
        evidence=tuple(f"git:{oid}" for oid in (*blobs.values(), commit)),
    )

    def states() -> dict[str, str]:
        (items,) = service.recall(HEAD, check_evidence=True)["evidenceStates"].values()
        return {item["item"]: item["state"] + (" " + item["now"] if "now" in item else "") for item in items}

    assert set(states().values()) == {"unchanged"}
    (place / "src" / "x.py").write_text("x = 2\n")
    git(place, "mv", "src/y.py", "src/moved.py")
    git(place, "rm", "-q", "src/deep/z.py")
    (place / "src" / "new.py").write_text("new\n")
    git(place, "add", ".")
    git(place, "commit", "-qm", "Change")
    expected = {
        "path:src/x.py": "changed", f"git:{blobs['x.py']}": "changed",
        "path:src/y.py": "moved src/moved.py", f"git:{blobs['y.py']}": "moved src/moved.py",
        "path:src/deep/z.py": "gone", f"git:{blobs['deep/z.py']}": "gone",
        "path:src/new.py": "changed", f"git:{commit}": "unchanged",
    }  # fmt: skip
    assert states() == expected
    shown = service.show(record, check_evidence=True)["evidenceStates"][record]
    assert {item["item"]: item["state"] for item in shown} == {key: value.split()[0] for key, value in expected.items()}
    found = service.search(HEAD, "all of it", check_evidence=True)["evidenceStates"][record]
    # A projected row sorts its evidence, what is shown keeps the author's order.
    assert sorted(map(json.dumps, found)) == sorted(map(json.dumps, shown))
    assert "evidenceStates" not in service.search(HEAD, "all of it")


# -- meaning ----------------------------------------------------------------------------------------------

EMBEDDER = """
import json, sys
log = open(sys.argv[1], "a")
for line in sys.stdin:
    asked = json.loads(line)
    print(asked["role"], file=log, flush=True)
    text = asked["text"].lower()
    if "crash" in text and len(sys.argv) > 2:
        sys.exit(3)
    vector = [float(text.count(word)) for word in ("car", "automobile", "fruit")]
    vector = [vector[0] + vector[1], vector[2], 0.1]
    print(json.dumps({"embedding": vector}), flush=True)
"""


def configure_command(place: Path, *more: str) -> Path:
    script, log = place.parent / "embed.py", place.parent / "log"
    script.write_text(EMBEDDER)
    command = " ".join(f"'{part}'" for part in (sys.executable, str(script), str(log), *more))
    git(place, "config", "hn.embedCommand", command)
    return log


def test_a_command_gives_meaning_once_for_each_content(place: Path) -> None:
    log = configure_command(place)
    with open_repository(place) as service:
        car = say(service, "He sold his car.")
        say(service, "Fruit is cheap.")
        say(service, "Fruit is cheap.", kind="observation")
        document = service.search(HEAD, "Where is the automobile?")
        assert ids(document) == [car]
        assert document["memories"][0]["why"] == ["meaning"]
        assert document["receipt"]["search"]["mode"] == "hybrid"
        assert log.read_text().split() == ["question", "content", "content"]
        assert ids(service.search(HEAD, "Where is the automobile?", "meaning")) == [car]
        assert ids(service.search(HEAD, "Where is the automobile?", "lexical")) == []
        assert log.read_text().split().count("content") == 2
        say(service, "A new automobile.")
        service.search(HEAD, "automobile")
        assert log.read_text().split().count("content") == 3
    with open_repository(place) as service:
        again = service.search(HEAD, "Where is the automobile?")
        assert json.dumps(again) == json.dumps(service.search(HEAD, "Where is the automobile?"))
        assert log.read_text().split().count("content") == 3


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"hn.embedCommand": "/no/such/program"}, "cannot be run"),
        ({"hn.embedCommand": "true"}, "ended with status 0 before it had answered"),
        (
            {"hn.embedCommand": "sh -c 'echo one >&2; echo \"two \t$HOME/x\" >&2; exit 3'"},
            "status 3 before it had answered: two  ~/x",
        ),
        ({"hn.embedCommand": "sh -c 'kill -9 $$'"}, "ended by signal 9 before it had answered"),
        (
            {"hn.embedCommand": "sh -c 'echo token ghp_0123456789abcdefghijABCDEFGHIJ012345 >&2; exit 1'"},
            "its last words look like a credential",
        ),
        ({"hn.embedCommand": "sh -c 'yes | head -c 100000 | tr -d \"\\n\" >&2; exit 1'"}, "yyyyyyyy..."),
        ({"hn.embedCommand": "echo '{\"embedding\": [NaN, 1]}'"}, "empty or not finite"),
        ({"hn.embedCommand": 'echo \'{"embedding": [1' + "0" * 400 + "]}'"}, "empty or not finite"),
        ({"hn.embedCommand": "echo '{\"embedding\": [0, 0.0]}'"}, "gave the question a vector of zeros"),
        ({"hn.embedCommand": 'printf \'{"embedding": [1, 2]}\\n{"embedding": [1]}\\n\''}, "different lengths, 2 and 1"),
        ({"hn.embedCommand": "echo nonsense"}, "something else than JSON"),
        ({"hn.embedCommand": "echo '{\"embedding\": []}'"}, "empty or not finite"),
        ({"hn.embedUrl": "http://127.0.0.1:1/v1/embeddings", "hn.embedModel": "m"}, "cannot be reached"),
        ({"hn.embedUrl": "file:///etc/passwd", "hn.embedModel": "m"}, "must begin with http"),
        ({"hn.embedUrl": "http://127.0.0.1:1/"}, "needs hn.embedModel"),
        ({"hn.embedUrl": "http://", "hn.embedModel": "m"}, "hn.embedUrl names no host"),
        ({"hn.embedUrl": "http://[::1", "hn.embedModel": "m"}, "hn.embedUrl names no host"),
        ({"hn.embedUrl": "http://a:port/", "hn.embedModel": "m"}, "hn.embedUrl names no host or no port"),
        ({"hn.embedUrl": "http://a b/", "hn.embedModel": "m"}, "hn.embedUrl holds a space"),
        ({"hn.embedUrl": "http://me:pa55word@a/", "hn.embedModel": "m"}, "must hold no user name"),
        ({"hn.embedder": "another"}, "nothing else"),
        ({"hn.embedder": "wordllama", "hn.embedCommand": "true"}, "more than one"),
    ],
)
def test_an_embedder_that_fails_leaves_the_words(place: Path, settings: dict[str, str], why: str) -> None:
    for name, value in settings.items():
        git(place, "config", name, value)
    with open_repository(place) as service:
        cache = say(service, "The cache is cleared at night.")
        document = service.search(HEAD, "When is the cache cleared?")
        assert ids(document) == [cache]
        used = document["receipt"]["search"]
        assert used["mode"] == "lexical" and used["asked"] == "hybrid" and why in used["degraded"]
        assert document["receipt"]["hints"][-1] == f"answered by words alone: {used['degraded']}"


@pytest.mark.parametrize("value", ["0", "-1", "nan", "1e9", "soon"])
def test_a_time_limit_out_of_range_is_told(place: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    configure_command(place)
    monkeypatch.setenv("HN_EMBED_TIMEOUT", value)
    with open_repository(place) as service:
        cache = say(service, "The cache is cleared at night.")
        document = service.search(HEAD, "When is the cache cleared?")
    assert ids(document) == [cache]
    told = document["receipt"]["search"]["degraded"]
    assert told == "HN_EMBED_TIMEOUT must be seconds, more than 0 and at most 86400"


def test_contents_without_direction_are_told_and_another_model_starts_anew(place: Path) -> None:
    script = place.parent / "embed.py"
    script.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    text = json.loads(line)['text']\n"
        "    print(json.dumps({'embedding': [float('car' in text)] * int(sys.argv[1])}), flush=True)\n"
    )
    git(place, "config", "hn.embedModel", "mine")
    for width in (2, 3):
        git(place, "config", "hn.embedCommand", f"'{sys.executable}' '{script}' {width}")
        with open_repository(place) as service:
            if width == 2:
                car = say(service, "He sold his car.")
                say(service, "Fruit is cheap.")
            document = service.search(HEAD, "cars", "meaning")
            assert document["receipt"]["search"]["mode"] == "meaning" and ids(document) == [car]
            assert document["receipt"]["hints"][-1] == "1 found by words alone: the embedder gave zeros for them"


def test_a_command_that_dies_midway_keeps_what_it_made(place: Path) -> None:
    configure_command(place, "dying")
    with open_repository(place) as service:
        say(service, "He sold his car.")
        assert service.search(HEAD, "automobile")["receipt"]["search"]["mode"] == "hybrid"
        say(service, "A crash of the car.")
        document = service.search(HEAD, "car automobile")
        assert document["receipt"]["search"]["mode"] == "lexical" and len(document["memories"]) == 2


def test_settings_that_travel_with_the_repository_count_for_nothing(place: Path) -> None:
    (place / ".gitconfig").write_text("[hn]\n\tembedCommand = true\n")
    (place / ".hn" / "config").write_text("[hn]\n\tembedCommand = true\n")
    with open_repository(place) as service:
        say(service, "The cache.")
        assert service.search(HEAD, "cache")["receipt"]["search"] == {"mode": "lexical", "asked": "lexical"}


class Endpoint(BaseHTTPRequestHandler):
    status = 200
    seen: list[dict[str, Any]] = []

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.seen.append({"key": self.headers.get("Authorization"), **asked})
        rows = [
            {"index": at, "embedding": [float("car" in text or "automobile" in text), float("fruit" in text), 0.1]}
            for at, text in enumerate(asked["input"])
        ]
        body = json.dumps({"data": rows[::-1]}).encode()
        self.send_response(self.status)
        if self.status == 302:
            self.send_header("Location", "http://127.0.0.1:1/")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        return


@pytest.mark.parametrize("status", [200, 302, 401])
def test_a_server(place: Path, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    monkeypatch.setenv("HN_EMBED_KEY", "s3cret")
    monkeypatch.setattr(Endpoint, "status", status)
    monkeypatch.setattr(Endpoint, "seen", [])
    with HTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        git(place, "config", "hn.embedUrl", f"http://127.0.0.1:{server.server_port}/v1/embeddings")
        git(place, "config", "hn.embedModel", "small")
        with open_repository(place) as service:
            car = say(service, "he sold his car")
            say(service, "fruit is cheap")
            document = service.search(HEAD, "the automobile")
        server.shutdown()
    assert Endpoint.seen[0]["key"] == "Bearer s3cret" and Endpoint.seen[0]["model"] == "small"
    if status == 200:
        assert ids(document) == [car] and document["receipt"]["search"]["model"] == "url:small"
    else:
        assert document["receipt"]["search"]["degraded"] == f"the server of hn.embedUrl answered with status {status}"
    assert "s3cret" not in json.dumps(document)


def test_a_server_that_does_not_speak_http(place: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"nonsense\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        git(place, "config", "hn.embedUrl", f"http://127.0.0.1:{server.getsockname()[1]}/")
        git(place, "config", "hn.embedModel", "small")
        with open_repository(place) as service:
            cache = say(service, "The cache.")
            document = service.search(HEAD, "cache")
    assert ids(document) == [cache]
    assert document["receipt"]["search"]["degraded"] == "the server of hn.embedUrl did not answer as HTTP wants it"


# -- duplicates -------------------------------------------------------------------------------------------


def test_duplicates(service: Service) -> None:
    text = "The cache of tenant records is cleared every night at two by the worker that owns it."
    first, second = say(service, text), say(service, text)
    near = say(service, text.replace("two", "three"))
    say(service, "Logs rotate every day.")
    once = say(service, "Backups are kept for a year.")
    gone = say(service, "Backups are kept for a year!")
    service.retract(gone, "incorrect")
    twice = say(service, "Backups are kept for a year.", kind="observation")
    document = service.duplicates(HEAD)
    assert [{row["id"] for row in group["memories"]} for group in document["groups"]] == [
        {once, twice},
        {first, second, near},
    ]
    assert [group["similarity"] == 1 for group in document["groups"]] == [True, False]
    assert document["found"] == 2 and document["matched"] == 6
    assert service.duplicates(Request("HEAD", kinds=("observation",)))["groups"] == []


def test_recording_the_same_again_is_mentioned(place: Path) -> None:
    with open_repository(place) as service:
        first = say(service, "The cache is cleared at night.")
    assert service.notices == []
    with open_repository(place) as service:
        say(service, "The cache is cleared at night.", kind="observation")
    assert len(service.notices) == 1 and first in service.notices[0]
    with open_repository(place) as service:
        service.retract(first, "incorrect")
        say(service, "The cache is cleared at noon.")
    assert service.notices == []
