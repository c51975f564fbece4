"""Identities through the service, in real repositories: what is made, chosen and shown, and what never is."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hn_memory.errors import HnError, NotFoundError, UsageError
from hn_memory.protocol.identity import decode_identity
from hn_memory.protocol.signing import encode_base64
from hn_memory.service.service import Service, open_repository

Open = Callable[..., Service]


def git(where: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(where), *arguments], check=True, capture_output=True)


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def open_at(tmp_path: Path, request: pytest.FixtureRequest) -> Open:
    """Opens the service over a repository of that name, made when it is not there yet."""

    def opened(name: str = "repository", *, actor: str | None = None, bare: bool = False) -> Service:
        place = tmp_path / name
        if not place.exists():
            git(tmp_path, "init", "-q", *(["--bare"] if bare else []), str(place))
        service = open_repository(place, actor=actor)
        request.addfinalizer(service.close)
        return service

    return opened


def identity_file(tmp_path: Path, actor: str, name: str = "repository") -> Path:
    return tmp_path / name / ".git" / "hn" / "identities" / f"{actor}.json"


def test_init_makes_an_identity_and_shows_only_what_is_public(open_at: Open, tmp_path: Path) -> None:
    made = open_at().init("Ada Ünïcode")
    actor = made["identity"]["actor"]
    stored = decode_identity(identity_file(tmp_path, actor).read_bytes())
    assert made["version"] == 0
    assert made["identity"] == {
        "actor": actor,
        "name": "Ada Ünïcode",
        "publicKey": encode_base64(stored.public_key),
        "active": True,
    }
    assert any(f"hn policy trust {actor}" in hint for hint in made["hints"])
    assert (tmp_path / "repository/.git/hn/active").read_text() == f"{actor}\n"
    assert open_at().identity_show() == {"version": 0, "identity": made["identity"]}


def test_init_takes_the_name_from_git(open_at: Open, tmp_path: Path) -> None:
    service = open_at()
    git(tmp_path / "repository", "config", "user.name", "  Grace Hopper ")
    assert service.init()["identity"]["name"] == "Grace Hopper"


@pytest.mark.parametrize("name", [None, "", "  "])
def test_init_without_any_name_asks_for_one(open_at: Open, tmp_path: Path, name: str | None) -> None:
    service = open_at()
    if name is not None:
        git(tmp_path / "repository", "config", "user.name", name)
    with pytest.raises(UsageError) as caught:
        service.init()
    assert (caught.value.code, caught.value.field) == ("name-missing", "name")
    assert service.identity_list() == {"version": 0, "active": None, "identities": []}


def test_a_second_init_names_what_is_there(open_at: Open) -> None:
    first = open_at().init("Ada")["identity"]
    with pytest.raises(HnError) as caught:
        open_at().init("Someone else")
    error = caught.value
    assert (error.code, error.exit_status) == ("identity-exists", 1)
    assert "Ada" in error.message
    assert first["actor"] in error.message
    assert "hn identity new" in (error.hint or "")
    assert len(open_at().identity_list()["identities"]) == 1


def test_a_second_init_names_the_one_in_use(open_at: Open) -> None:
    open_at().init("Ada")
    second = open_at().identity_new("Bob")["identity"]["actor"]
    open_at().identity_use(second)
    with pytest.raises(HnError, match="Bob"):
        open_at().init("Carol")


@pytest.mark.parametrize("name", ["", " ", "a\nb", "a\x00b", "\x85", "x" * 257, "\ud800"])
def test_names_that_no_envelope_could_hold_are_refused(open_at: Open, name: str) -> None:
    for make in (open_at().init, open_at().identity_new):
        with pytest.raises(HnError) as caught:
            make(name)
        assert (caught.value.code, caught.value.field) == ("identity-invalid", "name")
    assert open_at().identity_list()["identities"] == []


def test_several_identities_live_side_by_side(open_at: Open) -> None:
    assert open_at().identity_list() == {"version": 0, "active": None, "identities": []}
    first = open_at().identity_new("Ada")["identity"]
    second = open_at().identity_new("Ada")["identity"]
    assert first["active"] and not second["active"]
    listed = open_at().identity_list()
    assert listed["active"] == first["actor"]
    assert [one["actor"] for one in listed["identities"]] == sorted([first["actor"], second["actor"]])
    assert {one["actor"]: one["active"] for one in listed["identities"]} == {
        first["actor"]: True,
        second["actor"]: False,
    }
    assert open_at().identity_use(second["actor"])["identity"] == second | {"active": True}
    assert open_at().identity_show()["identity"]["actor"] == second["actor"]
    assert open_at().identity_show(first["actor"])["identity"] == first | {"active": False}


def test_an_actor_chosen_for_one_call_is_the_active_one_in_it(open_at: Open, tmp_path: Path) -> None:
    first = open_at().init("Ada")["identity"]["actor"]
    second = open_at().identity_new("Bob")["identity"]["actor"]
    chosen = open_at(actor=second)
    assert chosen.identity_list()["active"] == second
    assert chosen.identity_show()["identity"]["name"] == "Bob"
    used = chosen.identity_use(first)
    assert used["identity"]["active"] is False
    assert any("HN_ACTOR" in notice for notice in chosen.notices)
    assert (tmp_path / "repository/.git/hn/active").read_text() == f"{first}\n"


def test_unknown_and_missing_identities(open_at: Open) -> None:
    with pytest.raises(NotFoundError, match="no identity is active"):
        open_at().identity_show()
    with pytest.raises(NotFoundError) as unknown:
        open_at().identity_use("0" * 64)
    assert unknown.value.code == "identity-unknown"
    for short in ("0" * 12, "sha256:" + "0" * 64, "A" * 64):
        with pytest.raises(UsageError) as malformed:
            open_at().identity_show(short)
        assert malformed.value.code == "actor-invalid"


def test_a_broken_pointer_is_told_and_does_not_hide_the_list(open_at: Open, tmp_path: Path) -> None:
    actor = open_at().init("Ada")["identity"]["actor"]
    (tmp_path / "repository/.git/hn/active").write_text("nobody\n")
    service = open_at()
    listed = service.identity_list()
    assert listed["active"] is None
    assert [one["actor"] for one in listed["identities"]] == [actor]
    assert "hn/active" in service.notices[0]
    with pytest.raises(HnError, match="hn/active"):
        open_at().identity_show()
    assert open_at().identity_use(actor)["identity"]["active"] is True


def test_one_person_many_clones_one_actor(open_at: Open, tmp_path: Path) -> None:
    made = open_at().init("Ada")["identity"]
    source = identity_file(tmp_path, made["actor"])
    assert open_at("by-file").identity_import(source)["identity"] == made
    assert open_at("by-repository").identity_import(tmp_path / "repository")["identity"] == made
    assert open_at("by-git-directory").identity_import(tmp_path / "repository/.git")["identity"] == made
    assert open_at("into-bare", bare=True).identity_import(source, made["actor"])["identity"] == made
    # Again is no change.
    assert open_at("by-file").identity_import(source)["identity"] == made
    assert len(open_at("by-file").identity_list()["identities"]) == 1


def test_what_cannot_be_imported(open_at: Open, tmp_path: Path) -> None:
    actor = open_at().init("Ada")["identity"]["actor"]
    wide = tmp_path / "wide.json"
    wide.write_bytes(identity_file(tmp_path, actor).read_bytes())
    wide.chmod(0o644)
    target = open_at("other")
    refusals = {
        "private-file-unsafe": wide,
        "import-source-missing": tmp_path / "nothing",
        "import-source-same": tmp_path / "other",
    }
    for code, source in refusals.items():
        with pytest.raises(HnError) as caught:
            target.identity_import(source)
        assert caught.value.code == code
    with pytest.raises(HnError):
        target.identity_import(tmp_path / "repository", "0" * 64)
    assert target.identity_list()["identities"] == []


def test_no_document_notice_or_refusal_holds_a_private_key(open_at: Open, tmp_path: Path) -> None:
    first = open_at().init("Ada")
    actor = first["identity"]["actor"]
    path = identity_file(tmp_path, actor)
    stored = decode_identity(path.read_bytes())
    said: list[object] = [first]
    service = open_at()
    said += [service.identity_list(), service.identity_show(), service.identity_use(actor)]
    said += [open_at("other").identity_import(path), service.notices]
    with pytest.raises(HnError) as again:
        service.init("Ada")
    said += [again.value.message, again.value.hint]
    damaged = json.loads(path.read_bytes())
    damaged["publicKey"] = encode_base64(os.urandom(32))
    path.write_text(json.dumps(damaged))
    with pytest.raises(HnError) as broken:
        open_at().identity_show()
    said += [broken.value.message, broken.value.hint, broken.value.field]
    told = json.dumps(said)
    assert "privateKey" not in json.dumps([first, said[1:-3]])
    for secret in (encode_base64(stored.seed), encode_base64(stored.seed + stored.public_key), stored.seed.hex()):
        assert secret.rstrip("=")[:42] not in told
