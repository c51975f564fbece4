"""Logs of the server: JSON lines on standard error, without anything that a request or an answer says."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any, Final


class JsonLines(logging.Formatter):
    """One JSON object a line: when, what, and the fields of the event. No text of a request is ever among them."""

    _FIELDS: Final = ("route", "status", "ms", "error")

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        entry.update({name: getattr(record, name) for name in self._FIELDS if hasattr(record, name)})
        return json.dumps(entry, separators=(",", ":"))


def log_as_json() -> None:
    """Send the logs of the server and of uvicorn to stderr as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("hn.uhp", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(logging.INFO)
