"""The keyring: which identity signs, how one gets here, and what is never overwritten."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hn_memory.errors import ConflictError, HnError, NotFoundError, UsageError
from hn_memory.protocol.identity import Identity, encode_identity, new_identity
from hn_memory.repository.keyring import Keyring
from hn_memory.repository.private import PrivateFiles


def git(cwd: Path, *args: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=A", "-c", "user.email=a@example.invalid", *args],
        cwd=cwd,
        check=True,
        capture_output=True,
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / "one"
    path.mkdir()
    git(path, "init", "--quiet")
    return path


@pytest.fixture
def ring(repository: Path) -> Keyring:
    return Keyring(repository / ".git")


@pytest.fixture
def files(repository: Path) -> PrivateFiles:
    return PrivateFiles(repository / ".git")


@pytest.fixture
def other(tmp_path: Path) -> Keyring:
    """The keyring of a second repository."""
    path = tmp_path / "two"
    path.mkdir()
    git(path, "init", "--quiet")
    return Keyring(path / ".git")


def refusal(action: Callable[[], object]) -> HnError:
    with pytest.raises(HnError) as caught:
        action()
    assert "\n" not in caught.value.message
    return caught.value


def made(number: int, name: str = "A") -> Identity:
    return new_identity(name, bytes([number]) * 32)


def test_a_repository_starts_without_identities(ring: Keyring, repository: Path) -> None:
    assert ring.list() == []
    assert ring.active() is None
    error = refusal(ring.require_active)
    assert (type(error), error.code) == (NotFoundError, "identity-missing")
    assert not (repository / ".git" / "hn").exists()


def test_the_first_identity_becomes_active_and_stays_so(ring: Keyring, files: PrivateFiles) -> None:
    first = ring.create("First")
    second = ring.create("Second")
    assert first.seed != second.seed
    assert ring.active() == first == ring.require_active()
    assert ring.list() == sorted([first, second], key=lambda identity: identity.actor)
    assert files.read("active", 65) == f"{first.actor}\n".encode()
    assert files.read(f"identities/{first.actor}.json", 9999) == encode_identity(first)
    assert ring.use(second.actor) == second
    assert ring.active() == second


def test_a_bad_name_creates_nothing(ring: Keyring, repository: Path) -> None:
    assert refusal(lambda: ring.create(" ")).code == "identity-invalid"
    assert not (repository / ".git" / "hn").exists()


def test_an_override_goes_before_the_active_identity(ring: Keyring, repository: Path) -> None:
    first, second = ring.create("First"), ring.create("Second")
    overridden = Keyring(repository / ".git", second.actor)
    assert overridden.active() == second
    assert overridden.active_actor() == first.actor
    assert ring.active() == first


@pytest.mark.parametrize("override", ["", "Name", "0" * 63, "sha256:" + "0" * 64, "A" * 64, "../" + "0" * 61])
def test_an_override_is_a_full_actor_id(repository: Path, override: str) -> None:
    ring = Keyring(repository / ".git", override)
    for action in (ring.active, lambda: ring.get(override), lambda: ring.use(override)):
        error = refusal(action)
        assert (type(error), error.code) == (UsageError, "actor-invalid")


def test_an_unknown_actor_is_not_found(ring: Keyring, repository: Path) -> None:
    ring.create("A")
    for action in (
        lambda: ring.get("0" * 64),
        lambda: ring.use("0" * 64),
        Keyring(repository / ".git", "0" * 64).active,
    ):
        error = refusal(action)
        assert (type(error), error.code, error.field) == (NotFoundError, "identity-unknown", "actor")


def test_using_an_unknown_actor_changes_nothing(ring: Keyring) -> None:
    first = ring.create("A")
    refusal(lambda: ring.use("0" * 64))
    assert ring.active() == first


def test_adding_the_same_again_is_no_change(ring: Keyring, files: PrivateFiles) -> None:
    identity = ring.add(made(1))
    before = files.path(f"identities/{identity.actor}.json").stat()
    assert ring.add(identity) == identity
    assert files.path(f"identities/{identity.actor}.json").stat().st_ino == before.st_ino


def test_an_identity_is_never_overwritten(ring: Keyring) -> None:
    identity = ring.add(made(1))
    error = refusal(lambda: ring.add(made(1, "Another name")))
    assert (type(error), error.code) == (ConflictError, "identity-exists")
    assert ring.list() == [identity]


def test_an_invalid_file_is_named_with_its_field(ring: Keyring, files: PrivateFiles) -> None:
    identity = ring.create("A")
    broken = encode_identity(identity).replace(b"available", b"retired")
    files.write(f"identities/{identity.actor}.json", broken)
    for action in (ring.list, ring.active, lambda: ring.get(identity.actor)):
        error = refusal(action)
        assert (error.code, error.field) == ("identity-invalid", "lifecycle")
        assert identity.actor in error.message


def test_a_file_named_after_another_actor_is_refused(ring: Keyring, files: PrivateFiles) -> None:
    first, second = made(1), made(2)
    files.write(f"identities/{first.actor}.json", encode_identity(second))
    error = refusal(lambda: ring.get(first.actor))
    assert (error.code, error.field) == ("identity-invalid", "actor")


@pytest.mark.parametrize("name", ["notes.txt", "x.json", "0" * 64, "A" * 64 + ".json", "new\nline.json"])
def test_a_stray_file_among_the_identities_is_named(ring: Keyring, files: PrivateFiles, name: str) -> None:
    ring.create("A")
    files.write(f"identities/{name}", b"")
    error = refusal(ring.list)
    assert error.code == "identity-invalid"
    assert ascii(name[:80]) in error.message
    assert ring.active() is not None


def test_dot_files_among_the_identities_are_passed_over(ring: Keyring, files: PrivateFiles) -> None:
    identity = ring.create("A")
    files.write("identities/.tmp-0", b"cut short")
    assert ring.list() == [identity]


@pytest.mark.parametrize("content", [b"", b"\n", b"0" * 64, b"0" * 64 + b"\r\n", b"0" * 63 + b"x\n", b"F" * 64 + b"\n"])
def test_a_malformed_active_file_is_refused(ring: Keyring, files: PrivateFiles, content: bytes) -> None:
    identity = ring.create("A")
    files.write("active", content)
    error = refusal(ring.active)
    assert error.code in ("identity-invalid", "private-file-unsafe")
    assert "active" in error.message
    assert files.read("active", 99) == content
    assert ring.use(identity.actor) == ring.active()


def test_a_key_that_others_may_read_is_refused(ring: Keyring, files: PrivateFiles) -> None:
    identity = ring.create("A")
    files.path(f"identities/{identity.actor}.json").chmod(0o644)
    for action in (ring.list, ring.active, lambda: ring.add(identity)):
        assert refusal(action).code == "private-file-unsafe"


def test_of_many_first_identities_one_becomes_active(ring: Keyring) -> None:
    created: list[Identity] = []
    start = threading.Barrier(6)

    def run() -> None:
        start.wait()
        created.append(ring.create("A"))

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ring.list()) == 6
    assert ring.active() in created


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(0, 5), max_size=8))
def test_the_list_is_what_was_added_sorted(tmp_path_factory: pytest.TempPathFactory, numbers: list[int]) -> None:
    ring = Keyring(tmp_path_factory.mktemp("ring"))
    for number in numbers:
        ring.add(made(number))
    expected = sorted({made(number).actor for number in numbers})
    assert [identity.actor for identity in ring.list()] == expected
    active = ring.active()
    assert (active and active.actor) == (made(numbers[0]).actor if numbers else None)


# -- import -------------------------------------------------------------------------------------------------


def test_an_identity_file_is_imported(ring: Keyring, tmp_path: Path) -> None:
    source = tmp_path / "key.json"
    source.touch(mode=0o600)
    source.write_bytes(encode_identity(made(1)))
    assert ring.import_from(source) == made(1) == ring.active()
    assert ring.import_from(source, made(1).actor) == made(1)
    assert refusal(lambda: ring.import_from(source, made(2).actor)).field == "actor"


def test_an_identity_file_that_others_may_read_is_refused(ring: Keyring, tmp_path: Path) -> None:
    source = tmp_path / "key.json"
    source.write_bytes(encode_identity(made(1)))
    source.chmod(0o644)
    assert refusal(lambda: ring.import_from(source)).code == "private-file-unsafe"
    assert ring.list() == []


def test_a_broken_identity_file_is_refused_with_its_field(ring: Keyring, tmp_path: Path) -> None:
    source = tmp_path / "key.json"
    source.touch(mode=0o600)
    source.write_bytes(encode_identity(made(1)).replace(b'"version": 1', b'"version": 2'))
    error = refusal(lambda: ring.import_from(source))
    assert (error.code, error.field) == ("identity-invalid", "version")


def test_the_active_identity_of_another_clone_is_imported(ring: Keyring, other: Keyring, tmp_path: Path) -> None:
    other.add(made(1))
    other.add(made(2))
    other.use(made(2).actor)
    assert ring.import_from(tmp_path / "two") == made(2)
    assert ring.import_from(tmp_path / "two" / ".git", made(1).actor) == made(1)
    assert ring.active() == made(2)


def test_the_only_identity_of_another_clone_is_imported(ring: Keyring, other: Keyring, tmp_path: Path) -> None:
    other.add(made(1))
    (tmp_path / "two" / ".git" / "hn" / "active").unlink()
    assert ring.import_from(tmp_path / "two") == made(1)
    other.add(made(2))
    (tmp_path / "two" / ".git" / "hn" / "active").unlink()
    error = refusal(lambda: ring.import_from(tmp_path / "two"))
    assert (type(error), error.code) == (UsageError, "import-source-ambiguous")


def test_linked_work_trees_and_bare_repositories_are_sources(ring: Keyring, other: Keyring, tmp_path: Path) -> None:
    other.add(made(1))
    git(tmp_path / "two", "commit", "--quiet", "--allow-empty", "--message", "x")
    git(tmp_path / "two", "worktree", "add", "--quiet", "../tree")
    assert ring.import_from(tmp_path / "tree") == made(1)
    git(tmp_path, "init", "--quiet", "--bare", "bare.git")
    Keyring(tmp_path / "bare.git").add(made(2))
    assert ring.import_from(tmp_path / "bare.git") == made(2)


def test_what_is_no_source_is_refused(ring: Keyring, other: Keyring, repository: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / ".git").write_text("gitdir: nowhere\n")
    for source in (tmp_path / "gone", tmp_path / "empty", tmp_path / "odd", tmp_path / "two"):
        error = refusal(lambda source=source: ring.import_from(source))
        assert (type(error), error.code) == (NotFoundError, "import-source-missing")
    assert refusal(lambda: ring.import_from(repository)).code == "import-source-same"
    assert refusal(lambda: ring.import_from(repository, "name")).code == "actor-invalid"


def test_an_import_never_overwrites(ring: Keyring, other: Keyring, tmp_path: Path) -> None:
    ring.add(made(1, "Here"))
    other.add(made(1, "There"))
    assert refusal(lambda: ring.import_from(tmp_path / "two")).code == "identity-exists"
    assert ring.list() == [made(1, "Here")]
