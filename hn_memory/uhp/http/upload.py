"""The bytes of an upload: a `multipart/form-data` body with one part named `file`, or the body itself.

In the second form the name is the query parameter `name`. Names are labels: they are never the path of anything, and
one that looks like a path is refused rather than cut.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.message import Message
from email.utils import collapse_rfc2231_value
from typing import Final

from hn_memory.uhp.faults import UhpError, invalid, malformed

FILE_BYTES: Final = 16 << 20
UPLOAD_BYTES: Final = FILE_BYTES + (64 << 10)
"""A whole request: the file and what multipart puts around it."""

NAME_CHARACTERS: Final = 255
DEFAULT_TYPE: Final = "application/octet-stream"

_PARTS: Final = 16
_NAME_OF_TYPE: Final = r"[A-Za-z0-9!#$&^_.+-]{1,127}"
_MEDIA_TYPE: Final = re.compile(rf"{_NAME_OF_TYPE}/{_NAME_OF_TYPE}(?:[ ]*;[ ]*[ -~]{{1,100}})?")
_BOUNDARY: Final = re.compile(r"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that was sent."""

    name: str
    media_type: str
    data: bytes

    def canonical(self) -> bytes:
        """What makes two uploads the same request, whatever boundary each was sent with."""
        return b"\0".join((self.name.encode(), self.media_type.encode(), self.data))


def parse_upload(content_type: bytes | None, name: str | None, body: bytes) -> Upload:
    """The file of a request.

    Raises:
        UhpError `invalid_input`: the body is no such form; `memory_invalid`: a name or type that is none;
            `input_too_large`.
    """
    header = _header("content-type", (content_type or DEFAULT_TYPE.encode()).decode("latin-1"))
    media_type = str(header["content-type"])
    if header.get_content_type() == "multipart/form-data":
        part, body = _file_part(header.get_boundary(), body)
        media_type = str(part.get("content-type") or DEFAULT_TYPE)
        found = part.get_param("filename", header="content-disposition")
        name = None if found is None else collapse_rfc2231_value(found)
    if len(body) > FILE_BYTES:
        raise UhpError("input_too_large", f"a file has at most {FILE_BYTES} bytes")
    if _MEDIA_TYPE.fullmatch(media_type) is None:
        raise invalid("the media type is none", "content-type")
    return Upload(_checked(name if name is not None else "file"), media_type, body)


def _checked(name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise malformed("a file's name is not UTF-8", "name") from None
    if not name.strip() or len(name) > NAME_CHARACTERS:
        raise invalid(f"a file's name has 1 to {NAME_CHARACTERS} characters", "name")
    if "/" in name or "\\" in name or name in (".", "..") or _CONTROL.search(name):
        raise invalid("a file's name is no path and has no control characters", "name")
    return name


def _file_part(boundary: str | None, body: bytes) -> tuple[Message, bytes]:
    if boundary is None or _BOUNDARY.fullmatch(boundary) is None:
        raise malformed("the form's boundary is missing or none", "content-type")
    _, *parts = (b"\r\n" + body).split(b"\r\n--" + boundary.encode())
    if not parts or not parts[-1].startswith(b"--"):
        raise malformed("the form does not end")
    if len(parts) > _PARTS:
        raise malformed(f"a form has at most {_PARTS - 1} parts")
    files = [(head, data) for head, data in map(_part, parts[:-1]) if _param(head, "name") == "file"]
    if len(files) != 1:
        raise malformed("the form has one part named file", "file")
    return files[0]


def _part(part: bytes) -> tuple[Message, bytes]:
    """The fields and the content of one part, whose delimiter may end in white space."""
    head, separator, data = part.lstrip(b" \t").partition(b"\r\n\r\n")
    if not separator or not head.startswith(b"\r\n"):
        raise malformed("a part of the form has no header")
    message = Message()
    for line in head[2:].split(b"\r\n"):
        name, colon, value = line.decode("utf-8", "surrogateescape").partition(":")
        if not colon:
            raise malformed("a part's header is none")
        if name.strip().lower() in ("content-disposition", "content-type"):
            message[name.strip().lower()] = value.strip()
    return message, data


def _header(name: str, value: str) -> Message:
    message = Message()
    message[name] = value.strip()
    return message


def _param(head: Message, name: str) -> str | None:
    found = head.get_param(name, header="content-disposition")
    return None if found is None else collapse_rfc2231_value(found)
