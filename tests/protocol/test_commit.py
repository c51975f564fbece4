"""The raw objects of a memory commit (section 2), held against Git itself."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulator import Author, record

from hn_memory.protocol.commit import (
    commit_object,
    epoch_seconds,
    ident_name,
    memory_objects,
    object_id,
    tree_object,
)
from hn_memory.protocol.envelope import encode_envelope, is_timestamp
from hn_memory.protocol.identifiers import memory_id
from hn_memory.protocol.signing import encode_signature

ACTOR = Author().actor
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C.UTF-8"}


def git(where: Path, *arguments: str, stdin: bytes = b"", env: dict[str, str] | None = None) -> bytes:
    command = ["git", "-C", str(where), *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, env=ENVIRONMENT | (env or {}), check=False)
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout


def git_name(name: str) -> str | None:
    """The name in an ident as Git itself writes it; None when Git finds that nothing is left of it."""
    env = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": "a@hn.invalid", "GIT_AUTHOR_DATE": "@1 +0000"}
    done = subprocess.run(["git", "var", "GIT_AUTHOR_IDENT"], capture_output=True, env=ENVIRONMENT | env, check=False)
    if done.returncode:
        assert b"empty ident name" in done.stderr or b"only of disallowed characters" in done.stderr
        return None
    return done.stdout.decode().removesuffix(" <a@hn.invalid> 1 +0000\n")


# Later versions of Git keep a dot at the end of a name; the format keeps to what it was written with.
GIT_STRIPS_DOTS = git_name("Jr.") == "Jr"

CRUD = " ,:;\"'\\<>" + ("." if GIT_STRIPS_DOTS else "")
names = st.text(
    st.sampled_from(CRUD + "aé日") | st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12
)


@settings(max_examples=60, deadline=None)
@given(names.filter(lambda name: GIT_STRIPS_DOTS or "." not in name))
def test_a_name_is_written_as_git_writes_it(name: str) -> None:
    assert ident_name(name, ACTOR) == (git_name(name) or ACTOR[:12])


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("Ada", "Ada"),
        ("  Ada Lovelace\t", "Ada Lovelace"),
        ("Sammy Davis, Jr.", "Sammy Davis, Jr"),
        ("<Ada> <ada@example.org>", "Ada ada@example.org"),
        ('"Ada"', "Ada"),
        ("O'Neil", "O'Neil"),
        ("a\nb", "ab"),
        (". <a", "a"),
        ("\u3000Ada\xa0", "\u3000Ada\xa0"),
        ("\u202eAda", "\u202eAda"),
        ("...", ACTOR[:12]),
        ("<>", ACTOR[:12]),
        ("", ACTOR[:12]),
    ],
)
def test_names_by_example(name: str, written: str) -> None:
    assert ident_name(name, ACTOR) == written


# -- time -------------------------------------------------------------------------------------------------

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
offsets = st.builds(lambda minutes: timezone(timedelta(minutes=minutes)), st.integers(-23 * 60 - 59, 23 * 60 + 59))


@given(st.datetimes(timezones=st.just(UTC) | offsets), st.text("0123456789", max_size=9))
def test_seconds_agree_with_the_calendar(moment: datetime, digits: str) -> None:
    moment = moment.replace(microsecond=0)
    fraction = "." + digits.rstrip("0") if digits.rstrip("0") else ""
    zone = _offset(moment) if moment.utcoffset() else "Z"
    text = f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}{fraction}{zone}"
    assert is_timestamp(text)
    offset = moment.utcoffset() or timedelta()
    naive = moment.replace(tzinfo=UTC)
    assert epoch_seconds(text) == (naive - EPOCH) // timedelta(seconds=1) - offset // timedelta(seconds=1)


def _offset(moment: datetime) -> str:
    minutes = (moment.utcoffset() or timedelta()) // timedelta(minutes=1)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.999999999Z", 0),
        ("1969-12-31T23:59:59.5Z", -1),
        ("2026-10-01T17:02:11.5Z", 1_790_874_131),
        ("2026-10-01T17:02:11+02:00", 1_790_874_131 - 7200),
        ("2026-10-01T17:02:11.25-00:30", 1_790_874_131 + 1800),
        ("1970-01-02T00:59:00+24:59", 0),
        ("0001-01-01T00:00:00Z", -62_135_596_800),
        ("0000-12-31T23:59:59Z", -62_135_596_801),
        ("0000-03-01T00:00:00Z", -62_162_035_200),
        ("0000-02-29T00:00:00Z", -62_162_121_600),
        ("0000-01-01T00:00:00Z", -62_167_219_200),
        ("0000-01-01T00:00:00+24:59", -62_167_219_200 - 89_940),
        ("9999-12-31T23:59:59.999999999Z", 253_402_300_799),
        ("9999-12-31T23:59:59-24:59", 253_402_300_799 + 89_940),
    ],
)
def test_seconds_by_example(text: str, seconds: int) -> None:
    assert is_timestamp(text)
    assert epoch_seconds(text) == seconds


# -- objects ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["sha1", "sha256"])
def repository(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    place = tmp_path_factory.mktemp(request.param)
    git(place, "init", "-q", f"--object-format={request.param}")
    return place, request.param


@pytest.mark.parametrize("data", [b"", b"x", b"\0\xff", b"x" * 70_000])
def test_object_ids_are_those_of_git(repository: tuple[Path, str], data: bytes) -> None:
    place, object_format = repository
    assert object_id("blob", data, object_format) == git(place, "hash-object", "--stdin", stdin=data).decode().strip()


def test_a_tree_is_the_one_git_would_make(repository: tuple[Path, str]) -> None:
    place, object_format = repository
    oids = [git(place, "hash-object", "-w", "--stdin", stdin=data).decode().strip() for data in (b"{}", b"s")]
    listing = f"100644 blob {oids[0]}\tmemory.json\n100644 blob {oids[1]}\tsignature\n".encode()
    made = git(place, "mktree", stdin=listing).decode().strip()
    assert object_id("tree", tree_object(*oids), object_format) == made


def test_a_commit_is_the_one_git_would_make(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    tree = git(tmp_path, "hash-object", "-t", "tree", "-w", "--stdin").decode().strip()
    assert tree == EMPTY_TREE
    author = Author(name="Ädä <x>")
    envelope = author.envelope()
    identity = f"{author.actor[:12]}@hn.invalid"
    date = f"@{epoch_seconds(envelope.timestamp)} +0000"
    env = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
           for what, value in (("NAME", author.name), ("EMAIL", identity), ("DATE", date))}  # fmt: skip
    name = "sha256:" + "0" * 64
    first = git(tmp_path, "commit-tree", tree, stdin=f"hn memory {name}\n".encode(), env=env).decode().strip()
    assert object_id("commit", commit_object(envelope, name, tree, None), "sha1") == first
    arguments = ("commit-tree", "-p", first, tree)
    second = git(tmp_path, *arguments, stdin=f"hn memory {name}\n".encode(), env=env).decode().strip()
    assert object_id("commit", commit_object(envelope, name, tree, first), "sha1") == second


@pytest.mark.parametrize(
    "name", ["Ada", "...", "<>", "日本語", "Ünï <x@y>", "\u202eevil", "a" * 256, "x \\", "\u3000x", "Jr., Dr."]
)
def test_git_finds_nothing_wrong_with_a_stream(repository: tuple[Path, str], name: str) -> None:
    place, object_format = repository
    author = Author(7, name)
    parent = previous = None
    for sequence, timestamp in enumerate(("1970-01-01T00:00:00Z", "9999-12-31T23:59:59.9Z"), 1):
        envelope = author.envelope(
            sequence=sequence, previous=previous, timestamp=timestamp, record=record("bell \x07 & nul \0")
        )
        payload = encode_envelope(envelope)
        previous = memory_id(payload)
        signature = encode_signature(author.sign(payload))
        oid, objects = memory_objects(envelope, payload, signature, previous, parent, object_format)
        for kind, data in objects:
            stored = git(place, "hash-object", "-t", kind, "-w", "--stdin", stdin=data).decode().strip()
            assert stored == object_id(kind, data, object_format)
        assert stored == oid
        parent = oid
    git(place, "update-ref", f"refs/hn/memory/{author.actor}/{author.stream[7:]}", str(parent))
    done = subprocess.run(
        ["git", "-C", str(place), "fsck", "--strict", "--no-dangling"],
        capture_output=True, env=ENVIRONMENT, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert b"error" not in done.stderr and b"warning" not in done.stderr
    assert git(place, "log", "-1", "--format=%s%n%b", str(parent)).decode() == f"hn memory {previous}\n\n"
    assert git(place, "ls-tree", "--name-only", str(parent)) == b"memory.json\nsignature\n"
