"""Canonical JSON (section 3): compact or indented, UTF-8, strings escaped as Go does with HTML escaping on.

One JSON library writes it all; what Go escapes beyond JSON's own rules is replaced afterwards, which is
sound because `<`, `>`, `&`, U+2028 and U+2029 can stand in a JSON text only inside a string.
"""

from __future__ import annotations

from hn_memory.errors import HnError
from hn_memory.protocol.jsonbytes import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final


_ASCII_ESCAPES: Final = ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026"))
_ESCAPES: Final = (
    *_ASCII_ESCAPES,
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


def escape_html(data: bytes) -> bytes:
    """JSON bytes with the characters escaped that Go's encoder escapes for the sake of HTML."""
    for raw, escaped in _ASCII_ESCAPES if data.isascii() else _ESCAPES:
        if raw in data:
            data = data.replace(raw, escaped)
    return data


def encode(value: Any) -> bytes:
    """A value of dicts (in field order), lists, strings, integers and booleans as canonical bytes.

    Raises:
        HnError `text-invalid`: a string holds a lone surrogate; the message gives its position.
    """
    try:
        return escape_html(dumps(value))
    except (TypeError, ValueError) as error:
        require_encodable(value)
        raise HnError("value-invalid", f"the value cannot be written as JSON: {error}") from None


def encode_indented(value: Any) -> bytes:
    """As `encode`, indented by two spaces, with a newline at the end (sections 9 and 10)."""
    import orjson

    try:
        return escape_html(orjson.dumps(value, option=orjson.OPT_INDENT_2)) + b"\n"
    except (TypeError, ValueError) as error:
        require_encodable(value)
        raise HnError("value-invalid", f"the value cannot be written as JSON: {error}") from None


def require_text(text: str, field: str | None) -> str:
    """The text, or `HnError text-invalid` naming the position of the first lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise HnError(
            "text-invalid",
            f"text is not valid UTF-8: lone surrogate U+{ord(text[error.start]):04X} at character {error.start}",
            field=field,
        ) from None
    return text


def require_encodable(value: Any, field: str = "") -> None:
    """Walk a value and refuse the first string that has no UTF-8 form."""
    if isinstance(value, str):
        require_text(value, field or None)
    elif isinstance(value, dict):
        for key, item in value.items():
            require_encodable(item, f"{field}.{key}" if field else str(key))
    elif isinstance(value, list | tuple):
        for at, item in enumerate(value):
            require_encodable(item, f"{field}[{at}]")
