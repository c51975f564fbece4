"""An empty repository that borrows an object store: Git behind it can read, and has nobody to fetch from."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from hn_memory.repository.base import Layout
from hn_memory.repository.discover import GIT


class Scratch:
    """A bare Git directory in a temporary place, until `close`.

    `command` is the start of a Git command line in it; `environment` is to be laid over the usual one.
    """

    def __init__(self, layout: Layout) -> None:
        import tempfile  # 16 ms, and only repositories with a promisor remote need it

        self._path = Path(tempfile.mkdtemp(prefix="hn-"))
        (self._path / "refs").mkdir()
        (self._path / "objects").mkdir()
        (self._path / "HEAD").write_text("ref: refs/heads/none\n")
        version, extra = (0, "") if layout.object_format == "sha1" else (1, "[extensions]\n\tobjectFormat = sha256\n")
        (self._path / "config").write_text(f"[core]\n\trepositoryFormatVersion = {version}\n\tbare = true\n{extra}")
        self.command = [*GIT, f"--git-dir={self._path}"]
        self.environment = {
            "GIT_OBJECT_DIRECTORY": str(layout.objects),
            # Somebody's global configuration may promise a remote, too.
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
        }

    def close(self) -> None:
        """Remove it. Safe to call twice."""
        for name in ("HEAD", "config"):
            (self._path / name).unlink(missing_ok=True)
        for part in ("refs", "objects", ""):
            with contextlib.suppress(OSError):
                (self._path / part).rmdir()

    def __del__(self) -> None:
        if hasattr(self, "_path"):
            self.close()
