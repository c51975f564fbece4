"""Every refusal of this package: one small hierarchy with a code, an exit status and a hint.

A message is one line: what is wrong, where, and (in the hint) what to do. It never holds a key, a token or
the path of somebody's home, and never spells out a complete destructive command, because agents obey the
texts of errors.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar


class HnError(Exception):
    """A refusal with a stable machine code.

    Attributes:
        code: lower-case words joined by hyphens, stable between releases (`policy-invalid`).
        message: one line for a person.
        hint: what to do about it, or None.
        field: the input field at fault (`record.topics[2]`), or None.
        exit_status: the status with which the command line ends.
    """

    exit_status: ClassVar[int] = 1

    def __init__(self, code: str, message: str, *, hint: str | None = None, field: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.field = field

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        # A refusal may come from another process; the constructors of its kinds differ, what they leave does not.
        return _revived, (type(self), self.args), self.__dict__


def _revived(kind: type[HnError], arguments: tuple[object, ...]) -> HnError:
    return kind.__new__(kind, *arguments)


class UsageError(HnError):
    """The request itself is malformed: an unknown flag, a bad value, two exclusive inputs."""

    exit_status = 2


class NotFoundError(HnError):
    """What was named does not exist here: a memory, a revision, an identity, a repository."""

    exit_status = 3


class ConflictError(HnError):
    """Somebody else moved first, more often than a bounded number of retries could follow."""

    exit_status = 4


class PartialError(HnError):
    """Some parts of the work were done and some refused; the document on stdout says which."""

    exit_status = 5


class InvalidSourceError(HnError):
    """`verify` met a source that does not hold."""

    exit_status = 6
