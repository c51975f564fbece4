"""README and help topics are executed: every `console` block, in order, in a fresh repository for each file.

`$ ` begins a command, `> ` continues it; the lines after it are its stdout and stderr together. `…` stands for
anything on one line (IDs, times), a line that is only `…` for any number of lines. The shell goes on from block
to block, so variables and directories stay; somebody else is a clone next door.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hn_memory

ROOT = Path(hn_memory.__file__).parents[1]
PAGES = ["README.md", *sorted(f"hn_memory/help/{path.name}" for path in (ROOT / "hn_memory" / "help").glob("*.md"))]
RUNNING = [name for name in PAGES if "```console" in (ROOT / name).read_text()]

# The index is derived and comes and goes; that it was built again is no part of an answer.
_INDEX_NOTICE = "hn: note: the index was rebuilt from the signed commits: it was missing\n"

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def steps(page: str) -> list[tuple[str, list[str]]]:
    """Commands with the lines they are said to print."""
    found: list[tuple[str, list[str]]] = []
    for block in _BLOCK.findall(page):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif line.startswith("> ") and found and not found[-1][1]:
                found[-1] = (f"{found[-1][0]}\n{line[2:]}", [])
            else:
                found[-1][1].append(line)
    return found


def pattern(lines: list[str]) -> re.Pattern[str]:
    """What the printed lines must look like."""
    parts = [r"(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*?") + "\n" for line in lines]
    return re.compile("".join(parts))


@pytest.fixture
def project(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A repository with one commit, in a home with nothing but Git's user, and `hn` on the path."""
    home, path, binaries = tmp_path / "home", tmp_path / "project", tmp_path / "bin"
    for folder in (home, path, binaries):
        folder.mkdir()
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n"
    )
    program = binaries / "hn"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nfrom hn_memory.cli.entry import main\nif __name__ == '__main__':\n"
        "    sys.exit(main())\n"
    )
    program.chmod(0o755)
    environment = {
        "HOME": str(home),
        "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": str(tmp_path),
    }

    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=path, env=environment, check=True)

    git("init", "-q")
    (path / "app.py").write_text("print('app')\n")
    git("add", ".")
    git("commit", "-qm", "Start")
    return path, environment


@pytest.mark.parametrize("name", RUNNING)
def test_examples_do_what_they_say(name: str, project: tuple[Path, dict[str, str]]) -> None:
    path, environment = project
    wanted = steps((ROOT / name).read_text())
    assert wanted
    script = "exec 2>&1\n" + "".join(f"printf '\\0'\n{command}\n" for command, _ in wanted)
    done = subprocess.run(["bash", "-c", script], cwd=path, env=environment, capture_output=True, timeout=300)
    printed = done.stdout.decode().replace(_INDEX_NOTICE, "").split("\0")[1:]
    assert len(printed) == len(wanted), done.stdout.decode()
    for (command, lines), text in zip(wanted, printed, strict=True):
        text = text if text.endswith("\n") or not text else text + "\n"
        assert pattern(lines).fullmatch(text), f"$ {command}\n--- said\n" + "\n".join(lines) + f"\n--- printed\n{text}"


def test_pages_hold_examples() -> None:
    silent = set(PAGES) - set(RUNNING)
    assert silent == {"hn_memory/help/limits.md"}
