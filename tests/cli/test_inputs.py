"""Files that are none: pipes and devices where text or a bundle is wanted."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from cli_harness import Answer, Hn

from hn_memory.cli import inputs

BY = ("memory", "record", "-k", "decision", "--json", "--content-file")


def written(hn: Hn, name: str, *, say: bytes = b"Said in a pipe.") -> Answer:
    """Record what somebody writes into a named pipe meanwhile."""
    writer = threading.Thread(target=Path(name).write_bytes, args=(say,))
    writer.start()
    answer = hn(*BY, name)
    writer.join()
    return answer


@pytest.mark.usefixtures("ada")
def test_pipes_are_read(hn: Hn) -> None:
    os.mkfifo("pipe")
    assert written(hn, "pipe").done().json["memoryId"]
    assert written(hn, "./pipe", say=b"").error["message"] == "content is blank"
    # What a shell makes of `<(command)`.
    ours, theirs = os.pipe()
    os.write(theirs, b"Said by a command.")
    os.close(theirs)
    assert hn(*BY, f"/dev/fd/{ours}").done().json["memoryId"]
    os.close(ours)


@pytest.mark.usefixtures("ada")
def test_a_pipe_without_a_writer_is_not_waited_for_for_ever(hn: Hn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "WRITER_SECONDS", 0.05)
    os.mkfifo("pipe")
    for command in (BY, ("memory", "recall", "--json", "--input")):
        answer = hn(*command, "pipe")
        assert (answer.status, answer.error["code"]) == (1, "file-unreadable")
        assert answer.error["message"].endswith(": pipe is a pipe that nobody writes into")
    # Whoever has opened it may take time.
    writer = os.open("pipe", os.O_RDWR)
    threading.Timer(0.3, lambda: (os.write(writer, b"Late."), os.close(writer))).start()
    assert hn(*BY, "pipe").done().json["memoryId"]


@pytest.mark.usefixtures("ada")
def test_a_bundle_is_a_regular_file(hn: Hn) -> None:
    os.mkfifo("pipe")
    ours, theirs = os.pipe()
    for name in ("pipe", "/dev/zero", "/dev/tty", f"/dev/fd/{ours}"):
        for command in (("memory", "verify", name), ("sync", name if "/" in name else f"./{name}")):
            answer = hn(*command, "--json")
            assert (answer.status, answer.error["code"]) == (1, "file-unreadable")
            assert answer.error["message"] == f"{name} is no regular file, which a bundle must be"
    os.close(ours)
    os.close(theirs)


@pytest.mark.usefixtures("ada")
@pytest.mark.parametrize(
    "url",
    [
        "https://ada:pa55word@example.org/x.git", "ssh://example.org/x", "git@example.org:a/b.git", "example.org:b",
        "file:///tmp/x", "ext::sh -c x/y",
    ],
)  # fmt: skip
def test_a_url_is_no_remote(hn: Hn, url: str) -> None:
    answer = hn("sync", url, "--json")
    assert (answer.status, answer.error["code"]) == (2, "remote-invalid")
    assert answer.error["message"] == "sync takes the name of a remote or a bundle file, not a URL"
    assert answer.error["hint"] == "`git remote add NAME URL`, then `hn sync NAME`."
    Path("a:b").write_bytes(b"no bundle")
    assert hn("sync", "./a:b", "--json").error["code"] == "file-unknown"


@pytest.mark.usefixtures("ada")
def test_no_home_in_what_git_says_of_a_bundle(hn: Hn, clean: Path) -> None:
    broken = clean / "home" / "x.bundle"
    broken.write_bytes(b"# v2 git bundle\nnonsense\n\n" + b"PACK")
    for command in (("memory", "verify"), ("sync",)):
        answer = hn(*command, str(broken))
        assert answer.status == 1 and str(clean) not in answer.err and "~/x.bundle" in answer.err, answer.err


@pytest.mark.usefixtures("ada")
def test_an_empty_revision(hn: Hn) -> None:
    for command in (("recall",), ("search", "x"), ("grep", "x"), ("record", "-k", "decision", "x")):
        answer = hn("memory", *command, "--at", "", "--json")
        assert answer.status == 3 and answer.error["message"] == "the name of a commit is empty", answer


@pytest.mark.usefixtures("ada")
def test_names_that_name_nothing(hn: Hn) -> None:
    assert hn(*BY, "").error["message"] == "content: the name of the file is empty"
    for command in (("memory", "verify", ""), ("memory", "export", "--bundle", "")):
        answer = hn(*command, "--json")
        assert (answer.status, answer.error["message"]) == (2, "the name of the bundle is empty")
    hn("memory", "record", "-k", "decision", "x").done()
    answer = hn("memory", "export", "--bundle", "nowhere/x", "--json")
    assert (answer.status, answer.error["message"]) == (3, "there is no directory nowhere")
