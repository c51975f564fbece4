"""Whichever implementation serves, the digests are the standard's."""

from __future__ import annotations

import hashlib
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from hn_memory.protocol import hashing


@given(st.sampled_from(["sha1", "sha256"]), st.lists(st.binary(max_size=300), max_size=4))
def test_the_digests_are_those_of_hashlib(name: str, parts: list[bytes]) -> None:
    digest, real = hashing.new(name), hashlib.new(name)
    for part in parts:
        digest.update(part)
        real.update(part)
    assert digest.hexdigest() == real.hexdigest()
    assert digest.digest() == real.digest()


def test_hashlib_serves_where_the_interpreter_has_nothing_of_its_own() -> None:
    code = """
import sys
for name in ("_sha1", "_sha2", "_sha256"):
    sys.modules[name] = None
from hn_memory.protocol import hashing
print(hashing.new("sha256", b"abc").hexdigest()[:8], hashing.sha1(b"abc").hexdigest()[:8], "hashlib" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "ba7816bf a9993e36 True\n"


def test_nothing_changes_when_openssl_takes_over() -> None:
    code = """
import sys
from hn_memory.protocol import hashing
before = "hashlib" in sys.modules
names = ("sha1", "sha256") * hashing.WORTH_IT
digests = {(name, hashing.new(name, b"abc").hexdigest()) for name in names}
print(before, "hashlib" in sys.modules, len(digests))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False True 2\n"
