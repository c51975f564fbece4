"""Refusals of the Memories protocol: section 12 of the chapter and the error body that every answer shares.

A fault is raised where the rule stands and becomes an HTTP answer in one place, `http/answers.py`. Its message is
one line for a person; it holds no path, no host name, no key and nothing of a memory that the caller may not see.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from hn_memory.errors import ConflictError, HnError

STATUS: Final = {
    "missing_credential": 401,
    "invalid_credential": 401,
    "invalid_input": 400,
    "unsupported_protocol_version": 400,
    "memory_forbidden": 403,
    "memory_not_found": 404,
    "memory_record_not_found": 404,
    "memory_grant_not_found": 404,
    "memory_job_not_found": 404,
    "memory_query_not_found": 404,
    "memory_run_not_found": 404,
    "file_not_found": 404,
    "memories_not_attached": 404,
    "route_not_found": 404,
    "method_not_allowed": 405,
    "memory_busy": 409,
    "memory_conflict": 409,
    "input_too_large": 413,
    "memory_invalid": 422,
    "memory_unsupported": 422,
    "internal": 500,
    "memory_unavailable": 503,
}
"""Every code this server answers, with its status. The OpenAPI document is written from it."""


class UhpError(Exception):
    """A refusal with the code and status of the protocol.

    Attributes:
        code: one of `STATUS`.
        param: the field, query parameter or header at fault, or None.
        detail: more for a machine, or None.
    """

    def __init__(self, code: str, message: str, *, param: str | None = None, detail: dict[str, Any] | None = None):
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param
        self.detail = detail

    @property
    def status(self) -> int:
        """The HTTP status that goes with the code."""
        return STATUS[self.code]

    def document(self) -> dict[str, Any]:
        """The body of the answer."""
        return {
            "error": {
                "type": type_of(self.status),
                "code": self.code,
                "message": self.message,
                "param": self.param,
                "detail": self.detail,
            }
        }


def type_of(status: int) -> str:
    """The error type that a status belongs to."""
    if status >= 500:
        return "server_error"
    return {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}.get(
        status, "invalid_request_error"
    )


def memory_not_found(param: str | None = None) -> UhpError:
    """The one answer for a memory that does not exist and for one that the caller may not see."""
    return UhpError("memory_not_found", "no such memory", param=param)


def record_not_found() -> UhpError:
    """The one answer for a record that is not in the memory asked, wherever else it may be."""
    return UhpError("memory_record_not_found", "no such record in this memory")


def no_file(param: str | None = None) -> UhpError:
    """The one answer for a file that is not here, was never here, or belongs to somebody else."""
    return UhpError("file_not_found", "no such file", param=param)


def invalid(message: str, param: str | None = None) -> UhpError:
    """A request that is well-typed and cannot be done."""
    return UhpError("memory_invalid", message, param=param)


def malformed(message: str, param: str | None = None) -> UhpError:
    """A request of the wrong form: not JSON, or a field of the wrong type."""
    return UhpError("invalid_input", message, param=param)


def unsupported(message: str) -> UhpError:
    """An operation that the memory's provider does not implement at all."""
    return UhpError("memory_unsupported", message)


_REFUSED: Final = frozenset({"memory-invalid", "text-invalid", "secret-found", "stream-full"})


def from_hn(error: HnError) -> UhpError:
    """What a refusal of the repository means to a caller who knows nothing of Git.

    Only the texts of rules about the caller's own input pass; anything else could name places of this machine.
    """
    if error.code in _REFUSED:
        return UhpError("memory_invalid", error.message.splitlines()[0], param=error.field)
    if isinstance(error, ConflictError):
        return UhpError("memory_unavailable", "the repository is busy; try again")
    return UhpError("memory_unavailable", f"the repository did not take it ({error.code})")


@contextmanager
def worded() -> Iterator[None]:
    """A refusal of the repository as one of the protocol's."""
    try:
        yield
    except HnError as error:
        raise from_hn(error) from None
