"""A remote that costs more than the budgets say: packs that are small on the line and large in memory or in number."""

from __future__ import annotations

import hashlib
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from world import Author, Forge, Store, fsck, git, outcome, person, refs, say, service, sync, words

from hn_memory.replication import quarantine

MIB = 1024 * 1024
TREE = 2


def pack_of_one(kind: int, size: int) -> bytes:
    """A pack of one object: that many zeros."""
    header = bytearray()
    byte, rest = (kind << 4) | (size & 15), size >> 4
    while rest:
        header.append(byte | 0x80)
        byte, rest = rest & 127, rest >> 7
    header.append(byte)
    pressed = zlib.compressobj(1)
    body = bytearray()
    for _ in range(size // MIB):
        body += pressed.compress(bytes(MIB))
    data = b"PACK" + struct.pack(">II", 2, 1) + bytes(header) + bytes(body + pressed.flush())
    return data + hashlib.sha1(data).digest()


def answer_with(home: Path, command: str) -> None:
    """Have the remote send what that command prints in place of a pack it made."""
    hook = home / "answer"
    hook.write_text(f"#!/bin/sh\ncat > /dev/null\n{command}\n")
    hook.chmod(0o755)
    with (home / ".gitconfig").open("a") as file:
        file.write(f"[uploadpack]\n\tpackObjectsHook = {hook}\n")


def test_a_tree_of_gigabytes_in_a_small_pack_meets_the_limit_of_memory(
    alice: Path, store: Store, home: Path, tmp_path: Path
) -> None:
    # A blob of that size Git would not hold in memory, a tree it would.
    Forge(store, Author(1)).grow(1).publish()
    (tmp_path / "bomb.pack").write_bytes(pack_of_one(TREE, 1100 * MIB))
    answer_with(home, f"cat {tmp_path / 'bomb.pack'}")
    with service(alice) as opened:
        opened.replication_select("origin", everything=True, budgets={"max_object_bytes": MIB})
    code = (
        "import resource, sys, hn_memory\n"
        "with hn_memory.open_repository(sys.argv[1], backend='git') as service:\n"
        "    print(service.sync('origin')['outcomes'][0])\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(alice)], capture_output=True, text=True, timeout=120)
    said, used = done.stdout.splitlines()
    assert "over-budget" in said and "maxObjectBytes" in said, said
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(used) * unit < 1090 * MIB
    assert not refs(alice, "refs/hn")


def test_more_objects_than_allowed_are_not_even_listed(
    alice: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = [Forge(store, Author(10 + number)).grow(2).publish() for number in range(5)]
    bad = Forge(store, Author(1))
    bad.append(extra=[(f"zz{number:05}", "100644", "blob", b"%d" % number) for number in range(1000)])
    bad.publish()
    with service(alice) as opened:
        opened.replication_select("origin", everything=True, budgets={"max_objects": 100})
    listed: list[int] = []
    real = quarantine.Quarantine.sizes

    def sizes(self: quarantine.Quarantine) -> dict[str, tuple[str, int]]:
        found = real(self)
        listed.append(len(found))
        return found

    monkeypatch.setattr(quarantine.Quarantine, "sizes", sizes)
    document = sync(alice)
    row = outcome(document, bad.stream)
    assert row["outcome"] == "over-budget" and "maxObjects" in row["reason"]
    assert all(outcome(document, forge.stream)["outcome"] == "promoted" for forge in good)
    assert listed == [40]
    assert words(sync(alice)) == ["over-budget", *["unchanged"] * 5]
    fsck(alice)


def test_a_flood_of_words_keeps_the_first_and_the_last(alice: Path, store: Store) -> None:
    hook = store.path / "hooks/pre-receive"
    hook.write_text(
        "#!/bin/sh\nexec >&2\nprintf 'first \\033]0;owned\\007\\n'\nhead -c 500000 /dev/zero | tr '\\0' x\n"
        "echo\necho last\nexit 1\n"
    )
    hook.chmod(0o755)
    person(alice, "Ada")
    say(alice, "one")
    messages = sync(alice)["messages"]
    assert messages[0].startswith("first") and messages[-1] == "last"
    assert sum(map(len, messages)) < 100_000 and max(map(len, messages)) <= 1003


@pytest.mark.parametrize("count", [1, 60])
def test_what_comes_along_unasked_does_not_reach_the_store(
    alice: Path, store: Store, home: Path, tmp_path: Path, count: int
) -> None:
    """The remote packs more than was wanted: a blob, a tree and a commit that no stream names."""
    for number in range(count):
        Forge(store, Author(number)).grow(1).publish()
    junk = [store.add("blob", b"junk"), store.add("blob", b"more junk"), store.add("tree", b"")]
    junk.append(store.add("commit", f"tree {junk[-1]}\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000\n\n".encode()))
    store.flush()
    listed = tmp_path / "listed"
    everything = git(store.path, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    listed.write_text(everything + "\n")
    answer_with(home, f"git -C {store.path} pack-objects --stdout -q < {listed}")
    assert words(sync(alice)) == ["promoted"] * count
    here = set(git(alice, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split())
    assert not here & set(junk)
    fsck(alice)
