"""The words in which a pattern is refused.

Every refusal is a `UsageError` on the field `pattern`, one line long, that says at which byte of the pattern
what was found, in the words of RE2 and Go: "missing closing ): `(abc`".  Codes:

* `pattern-invalid`: it is not UTF-8 or does not parse;
* `pattern-too-large`: more bytes than a pattern may have;
* `pattern-too-complex`: it parses, but compiles to too many instructions;
* `pattern-unsupported`: it is valid, and the matcher here cannot compile it (none is known).
"""

from __future__ import annotations

from hn_memory.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


FIELD: Final = "pattern"

UNEXPECTED_PAREN: Final = "unexpected )"
MISSING_PAREN: Final = "missing closing )"
MISSING_BRACKET: Final = "missing closing ]"
BAD_RANGE: Final = "invalid character class range"
BAD_ESCAPE: Final = "invalid escape sequence"
TRAILING_BACKSLASH: Final = "trailing backslash at end of expression"
BAD_NAME: Final = "invalid named capture"
BAD_GROUP: Final = "invalid or unsupported Perl syntax"
BAD_COUNT: Final = "invalid repeat count"
NESTED_OPERATOR: Final = "invalid nested repetition operator"
NOTHING_TO_REPEAT: Final = "missing argument to repetition operator"
TOO_DEEP: Final = "expression nests too deeply"
TOO_LARGE: Final = "expression too large"
NOT_UTF8: Final = "invalid UTF-8"

# What Perl and its heirs have and this syntax has not: how it starts, and what to say of it.  For the help too.
FOREIGN_SYNTAX: Final = (
    ("(?=", "lookahead"),
    ("(?!", "negative lookahead"),
    ("(?<=", "lookbehind"),
    ("(?<!", "negative lookbehind"),
    ("(?>", "an atomic group"),
    ("(?#", "a comment"),
    ("(?P=", "a backreference"),
    ("(?P>", "recursion"),
    ("(?R", "recursion"),
    ("(?(", "a condition"),
    ("(?|", "a branch reset"),
    ("(?x", "the extended flag x"),
    ("\\1", "a backreference"),
    ("\\2", "a backreference"),
    ("\\3", "a backreference"),
    ("\\4", "a backreference"),
    ("\\5", "a backreference"),
    ("\\6", "a backreference"),
    ("\\7", "a backreference"),
    ("\\8", "a backreference"),
    ("\\9", "a backreference"),
    ("\\k", "a backreference"),
    ("\\g", "a backreference"),
    ("\\C", "a single byte"),
    ("\\Z", "the end before a last newline (use \\z, or $ for the end of the text)"),
    ("\\G", "the end of the last match"),
    ("\\K", "resetting the start of the match"),
    ("\\R", "any line break"),
    ("\\X", "a grapheme cluster"),
    ("\\h", "horizontal space (use [ \\t])"),
    ("\\u", "\\u escapes (use \\x{0041})"),
    ("\\U", "\\U escapes (use \\x{1F600})"),
    ("\\N", "named characters"),
    ("\\c", "control escapes (use \\x01)"),
    ("\\e", "the escape \\e (use \\x1b)"),
)

_SHOWN: Final = 80


def shown(text: str) -> str:
    """`text` as an error may show it: on one line, what does not print as `\\x{...}`, cut after 80 characters."""
    cut = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    return "".join(char if char.isprintable() else f"\\x{{{ord(char):02X}}}" for char in cut)


def byte_offset(pattern: str, at: int) -> int:
    """The offset in UTF-8 bytes of the character at `at`."""
    return len(pattern[:at].encode("utf-8", "surrogatepass"))


def invalid(pattern: str, at: int, reason: str, found: str) -> UsageError:
    """The refusal of a pattern in which, at character `at`, `found` is wrong for `reason`."""
    message = f"invalid pattern at byte {byte_offset(pattern, at)}: {reason}: `{shown(found)}`"
    return UsageError("pattern-invalid", message, hint=_hint(pattern, at, reason), field=FIELD)


def too_complex(message: str) -> UsageError:
    """The refusal of a pattern that is too big in instructions."""
    hint = "use smaller repetition counts (`+` often does), or search for fewer alternatives at a time"
    return UsageError("pattern-too-complex", message, hint=hint, field=FIELD)


def _hint(pattern: str, at: int, reason: str) -> str | None:
    if reason == NESTED_OPERATOR:
        return "put the inner repetition in a group: (?:a*)*; possessive operators are not part of this syntax"
    if reason in (BAD_ESCAPE, BAD_GROUP, BAD_NAME):
        for start, name in FOREIGN_SYNTAX:
            if pattern.startswith(start, at):
                return f"{name} is not part of this syntax" if "(use" not in name else f"no {name}"
    if reason in (MISSING_PAREN, MISSING_BRACKET, UNEXPECTED_PAREN, NOTHING_TO_REPEAT):
        return "put a backslash before a character that is meant literally"
    return None
