"""Routes of section 7: uploads, and the bytes of a record whose content is a file.

An upload is its uploader's: for everybody else there is no such file. It can be named by records for two days; each
version that names it keeps its bytes from then on, whatever becomes of the upload.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from hn_memory.uhp.faults import UhpError, invalid, no_file
from hn_memory.uhp.http import models_optional as models
from hn_memory.uhp.http.models import Answer
from hn_memory.uhp.http.records import AS_OF
from hn_memory.uhp.http.route import Call, Parameter, Raw, Route
from hn_memory.uhp.http.upload import NAME_CHARACTERS, Upload
from hn_memory.uhp.state.schema import READ, WRITE
from hn_memory.uhp.uploads import UPLOAD_MS, Kept
from hn_memory.uhp.values import FileReference, Version

_DIGITS: Final = 9


def upload(call: Call) -> dict[str, Any]:
    """Take a file."""
    body: Upload = call.body
    if not call.caller.cap & WRITE:
        raise UhpError("memory_forbidden", "this needs a key that may write")
    return _document(call.server.uploads.take(call.caller.principal, body.name, body.media_type, body.data))


def get(call: Call) -> dict[str, Any]:
    """What an upload is."""
    return _document(call.server.uploads.of(call.caller.principal, call.params["file"]))


def content(call: Call) -> Raw:
    """The bytes of the file that is a record's content: of its latest version, or of another."""
    node = call.caller.require(call.params["id"], READ)
    provider = call.server.provider_of(node)
    record, wanted = call.params["rid"], call.query.get("version")
    if wanted is None:
        version = provider.get(node.id, record, call.instant("as_of"))
    else:
        if "as_of" in call.query:
            raise invalid("version and as_of are not asked for together", "version")
        version = _named(provider.history(node.id, record), wanted)
    reference = version.content
    if not isinstance(reference, FileReference):
        raise no_file()
    return Raw(
        provider.read(version),
        reference.media_type,
        (
            # Whatever it says it is, it is shown by no browser as if it came from us.
            ("content-disposition", "attachment; filename*=UTF-8''" + quote(reference.name, safe="")),
            ("x-content-type-options", "nosniff"),
            ("content-security-policy", "sandbox; default-src 'none'"),
            ("etag", f'"{reference.version}"'),
        ),
    )


def _named(versions: list[Version], wanted: str) -> Version:
    """The version of that number, or the last whose file has that opaque version."""
    by_number = wanted.isascii() and wanted.isdigit() and len(wanted) <= _DIGITS
    for version in reversed(versions):
        content = version.content
        if by_number and version.number == int(wanted):
            return version
        if isinstance(content, FileReference) and content.version == wanted:
            return version
    raise no_file()


def _document(kept: Kept) -> dict[str, Any]:
    return {
        "object": "file",
        **kept.reference.document(),
        "createdAt": kept.created,
        "expiresAt": kept.created + UPLOAD_MS,
    }


_NAME: Final = Parameter(
    "name", "The file's name, where the body is the file itself.",
    {"type": "string", "minLength": 1, "maxLength": NAME_CHARACTERS},
)  # fmt: skip
_VERSION: Final = Parameter("version", "The number of a version of the record, or the `version` of a file.")

ROUTES: Final = (
    Route("POST", "/v1/files", "Upload a file.", upload, models.Uploaded, "write", parameters=(_NAME,),
          codes=("memory_forbidden", "memory_invalid", "memory_unsupported"), upload=True),
    Route("GET", "/v1/files/{file}", "What an upload is.", get, models.Uploaded, codes=("file_not_found",)),
    Route("GET", "/v1/memories/{id}/records/{rid}/content", "The bytes of a record whose content is a file.", content,
          Answer, "query", parameters=(_VERSION, AS_OF), raw=True,
          codes=("memory_not_found", "memory_forbidden", "memory_record_not_found", "file_not_found",
                 "memory_invalid")),
)  # fmt: skip
