"""Files over HTTP: uploads, records whose content is one, and whose bytes are whose."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from uhp_harness import Api, Running, error, make_repository, ok, run_hn

from hn_memory.uhp.faults import UhpError
from hn_memory.uhp.http.upload import FILE_BYTES, parse_upload

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


@pytest.fixture(scope="module")
def api(running: Running) -> Api:
    return running.api("person:ada")


def send(
    api: Api, data: bytes, name: str = "a.bin", kind: str = "application/octet-stream", **more: Any
) -> httpx.Response:
    headers = {"content-type": kind, **more.pop("headers", {})}
    return api.call("POST", "/v1/files", content=data, params={"name": name}, headers=headers, **more)


def upload(api: Api, data: bytes, name: str = "a.bin", kind: str = "application/octet-stream") -> str:
    return str(ok(send(api, data, name, kind))["id"])


def remember(api: Api, memory: str, file: str, **fields: Any) -> dict[str, Any]:
    return ok(api.post(memory, "records", json={"content": {"file": {"id": file}}, **fields}))


def content(api: Api, memory: str, record: str, **params: Any) -> httpx.Response:
    return api.get(memory, "records", record, "content", params=params)


def refs(repository: Path) -> list[str]:
    listed = subprocess.run(
        ["git", "for-each-ref", "--format=%(refname)", "refs/hn/files"], cwd=repository, check=True, capture_output=True
    )
    return listed.stdout.decode().split()


def test_upload_and_remember(running: Running, api: Api) -> None:
    memory = api.create("Papers")
    sent = ok(send(api, PNG, "plan ü.png", "image/png"))
    assert sent["object"] == "file" and sent["id"].startswith("file_") and sent["expiresAt"] > sent["createdAt"]
    assert (sent["name"], sent["bytes"], sent["media_type"]) == ("plan ü.png", len(PNG), "image/png")
    assert ok(api.get(f"/v1/files/{sent['id']}")) == sent
    record = remember(api, memory, sent["id"], type="note", attributes={"about": "the plan"})
    file = {name: sent[name] for name in ("id", "name", "bytes", "media_type", "version")}
    assert record["content"] == {"file": file}
    assert ok(api.get(memory, "records", record["id"]))["content"] == {"file": file}
    answer = content(api, memory, record["id"])
    assert answer.status_code == 200 and answer.content == PNG and answer.headers["content-type"] == "image/png"
    assert answer.headers["uhp-version"] == "2026-10-04"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in answer.headers["content-security-policy"]
    assert [one["record"]["id"] for one in api.recall(memory, text="plan")["results"]] == [record["id"]]
    statement = {"language": "sql", "statement": "SELECT content, file ->> 'bytes' FROM record"}
    assert ok(api.post(memory, "query", json=statement))["rows"] == [["plan ü.png", len(PNG)]]
    held = [ref for ref in refs(running.repository) if memory in ref]
    assert len(held) == 1 and held[0].endswith(f"/{memory}/{record['id']}/1")
    run_hn(running.repository, "memory", "verify")


def test_a_form_is_the_same_upload(api: Api) -> None:
    files = {"file": ("x.txt", b"a\r\n--b\r\n\r\nc\r\n", "text/plain; charset=utf-8"), "purpose": (None, b"memory")}
    headers = {"Idempotency-Key": "form-1"}
    first = ok(api.call("POST", "/v1/files", files=files, headers=headers))
    assert (first["name"], first["bytes"], first["media_type"]) == ("x.txt", 13, "text/plain; charset=utf-8")
    # Sent again under another boundary.
    assert ok(api.call("POST", "/v1/files", files=files, headers=headers)) == first
    other = {"file": ("x.txt", b"other", "text/plain")}
    error(api.call("POST", "/v1/files", files=other, headers=headers), 422, "memory_invalid")
    memory = api.create("Form")
    record = remember(api, memory, first["id"])
    assert content(api, memory, record["id"]).content == b"a\r\n--b\r\n\r\nc\r\n"


def test_versions_keep_their_bytes(api: Api) -> None:
    memory = api.create("Drafts")
    record = remember(api, memory, upload(api, b"one"))
    second = ok(
        api.call("PATCH", memory, "records", record["id"], json={"content": {"file": {"id": upload(api, b"two")}}})
    )
    third = ok(api.call("PATCH", memory, "records", record["id"], json={"attributes": {"final": True}}))
    assert third["version"] == 3 and third["content"] == second["content"]
    fourth = ok(api.call("PATCH", memory, "records", record["id"], json={"content": "Now a text."}))
    error(content(api, memory, record["id"]), 404, "file_not_found")
    assert content(api, memory, record["id"], version=1).content == b"one"
    assert content(api, memory, record["id"], version=3).content == b"two"
    assert content(api, memory, record["id"], version=record["content"]["file"]["version"]).content == b"one"
    assert content(api, memory, record["id"], as_of=second["time"]["written_at"]).content == b"two"
    for wanted in ("4", "9", "0", "x", "f" * 40):
        error(content(api, memory, record["id"], version=wanted), 404, "file_not_found")
    both = content(api, memory, record["id"], version=1, as_of=fourth["time"]["written_at"])
    error(both, 422, "memory_invalid")
    ok(api.call("DELETE", memory, "records", record["id"]))
    assert content(api, memory, record["id"], version=2).content == b"two"


def test_an_upload_is_its_uploaders(running: Running, api: Api) -> None:
    memory = api.create("Mine")
    eve = running.api("person:eve")
    api.grant(memory, "person:eve", "read", "write")
    file = upload(api, b"private")
    unknown = error(eve.get("/v1/files/file_" + "0" * 32), 404, "file_not_found")
    assert error(eve.get(f"/v1/files/{file}"), 404, "file_not_found") == unknown
    for name in (file, "file_" + "0" * 32, "x"):
        named = eve.post(memory, "records", json={"content": {"file": {"id": name}}})
        error(named, 404, "file_not_found")
    assert ok(api.get(memory))["records"] == {"count": 0}
    error(Api(running.client, None).call("POST", "/v1/files", content=b"x"), 401, "missing_credential")
    reader = running.api("person:ada", "read")
    error(send(reader, b"x"), 403, "memory_forbidden")


def test_bytes_are_read_with_the_memory_alone(running: Running, api: Api) -> None:
    memory, other = api.create("A"), api.create("B")
    record = remember(api, memory, upload(api, b"of A"))
    eve = running.api("person:mallory")
    error(content(eve, memory, record["id"]), 404, "memory_not_found")
    api.grant(memory, "person:mallory", "write")
    error(content(eve, memory, record["id"]), 403, "memory_forbidden")
    api.grant(memory, "person:mallory", "read")
    assert content(eve, memory, record["id"]).content == b"of A"
    error(content(api, other, record["id"]), 404, "memory_record_not_found")
    text = api.remember(memory, "A text.")
    error(content(api, memory, text["id"]), 404, "file_not_found")


def test_a_forged_trailer_reaches_no_blob(running: Running, api: Api) -> None:
    """A text that looks like a file's record stays a text; nothing but the server's refs leads to a blob."""
    memory = api.create("Forged")
    (running.repository / "secret.txt").write_text("of the repository")
    oid = (
        subprocess.run(
            ["git", "hash-object", "-w", "secret.txt"], cwd=running.repository, check=True, capture_output=True
        )
        .stdout.decode()
        .strip()
    )
    reference = f'{{"id":"file_x","name":"s","bytes":17,"media_type":"text/plain","version":"{oid}"}}'
    forged = f"s\n\nUhp-Type: fact\nUhp-Written-By: person ada\nUhp-File: {reference}"
    record = api.remember(memory, forged)
    assert record["content"] == forged
    error(content(api, memory, record["id"]), 404, "file_not_found")
    error(content(api, memory, record["id"], version=oid), 404, "file_not_found")
    for version in ({"file": {"id": oid}}, {"file": {"id": "../../" + oid}}):
        error(api.post(memory, "records", json={"content": version}), 404, "file_not_found")


def test_a_record_says_when_its_bytes_are_not_here(running: Running, api: Api) -> None:
    memory = api.create("Lost")
    record = remember(api, memory, upload(api, b"soon lost"))
    ref = next(one for one in refs(running.repository) if record["id"] in one)
    subprocess.run(["git", "update-ref", "-d", ref], cwd=running.repository, check=True)
    got = ok(api.get(memory, "records", record["id"]))
    assert got["content"] == {"file": {**record["content"]["file"], "available": False}}
    error(content(api, memory, record["id"]), 404, "file_not_found")
    # Carried over, it does not come back by way of its ID alone.
    revised = ok(api.call("PATCH", memory, "records", record["id"], json={"attributes": {"a": 1}}))
    assert revised["content"]["file"]["available"] is False


def test_erased_bytes_are_gone(running: Running, api: Api) -> None:
    memory = api.create("Erased")
    file = upload(api, b"gone soon")
    record, twin = remember(api, memory, file), remember(api, memory, file)
    erased = ok(api.post(memory, "erase", json={"record_ids": [record["id"]]}))
    assert erased["erased"] == [record["id"]]
    error(content(api, memory, record["id"], version=1), 404, "memory_record_not_found")
    error(api.get(f"/v1/files/{file}"), 404, "file_not_found")
    assert not [ref for ref in refs(running.repository) if record["id"] in ref]
    assert content(api, memory, twin["id"]).content == b"gone soon"
    ok(api.call("DELETE", memory))
    assert not [ref for ref in refs(running.repository) if memory in ref]


NAMES = ["", " ", "../etc/passwd", "a/b", "a\\b", "..", ".", "a\nb", "a\x7fb", "x" * 256, "\u2028"]
TYPES = ["text", "text/", "/plain", "text/pl ain", "é/x", "x" * 200 + "/y", "text/plain;"]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_are_none(api: Api, name: str) -> None:
    assert error(send(api, b"x", name), 422, "memory_invalid")["param"] == "name"


@pytest.mark.parametrize("kind", TYPES)
def test_types_that_are_none(api: Api, kind: str) -> None:
    answer = api.call("POST", "/v1/files", content=b"x", headers={"content-type": kind.encode("latin-1")})
    error(answer, 422, "memory_invalid")


FORM = b"multipart/form-data; boundary=b"
FORMS = [
    (b"", b"multipart/form-data"), (b"x", FORM), (b"--b\r\n\r\nx", FORM), (b"--b--\r\n", FORM),
    (b"--b\r\nContent-Disposition: form-data; name=other\r\n\r\nx\r\n--b--", FORM),
    (b"--b\r\nno header\r\n\r\nx\r\n--b--", FORM),
    (b"--b\r\nContent-Disposition: form-data; name=file\r\n\r\nx\r\n" * 2 + b"--b--", FORM),
    (b"--b\r\n\r\n\r\n" * 100 + b"--b--", FORM), (b"x", b"multipart/form-data; boundary=" + b"b" * 100),
]  # fmt: skip


@pytest.mark.parametrize(("body", "kind"), FORMS)
def test_forms_that_are_none(api: Api, body: bytes, kind: bytes) -> None:
    error(api.call("POST", "/v1/files", content=body, headers={"content-type": kind}), 400, "invalid_input")


def test_a_path_in_a_form_is_refused(api: Api) -> None:
    error(api.call("POST", "/v1/files", files={"file": ("../../x", b"y", "text/plain")}), 422, "memory_invalid")
    unnamed = b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nx\r\n--b--'
    kind = {"content-type": "multipart/form-data; boundary=b"}
    assert ok(api.call("POST", "/v1/files", content=unnamed, headers=kind))["name"] == "file"


def test_sizes(api: Api) -> None:
    memory = api.create("Large")
    whole = bytes(FILE_BYTES)
    record = remember(api, memory, upload(api, whole, "zeros"))
    assert content(api, memory, record["id"]).content == whole
    error(send(api, whole + b"x"), 413, "input_too_large")
    empty = remember(api, memory, upload(api, b"", "empty"))
    assert content(api, memory, empty["id"]).content == b"" and empty["content"]["file"]["bytes"] == 0
    # Other bodies keep their bound.
    error(api.post(memory, "records", json={"content": "x" * (1 << 20)}), 413, "input_too_large")


def test_a_repeat_is_the_first_upload(api: Api) -> None:
    key = {"Idempotency-Key": "upload-1"}
    first = ok(send(api, b"same", "same", headers=key))
    assert ok(send(api, b"same", "same", headers=key)) == first
    error(send(api, b"same", "other", headers=key), 422, "memory_invalid")


def test_files_survive_a_restart_and_the_loss_of_the_state(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "project")
    with Running(repository) as server:
        api = server.api("person:ada")
        memory = api.create("Kept")
        record = remember(api, memory, upload(api, b"kept"))
        server.restart()
        api = server.api("person:ada")
        assert content(api, memory, record["id"]).content == b"kept"
        subprocess.run(["git", "gc", "--prune=now", "-q"], cwd=repository, check=True)
        assert content(api, memory, record["id"]).content == b"kept"
    held = next(ref for ref in refs(repository) if record["id"] in ref)
    shown = subprocess.run(["git", "cat-file", "blob", held], cwd=repository, check=True, capture_output=True).stdout
    assert shown == b"kept"


@given(st.binary(max_size=200), st.text("ab-\r\n", max_size=5), st.text(max_size=20))
@settings(max_examples=200, deadline=None)
def test_any_form_is_read_or_refused(data: bytes, boundary: str, name: str) -> None:
    body = b'--b\r\nContent-Disposition: form-data; name=file; filename="f"\r\n\r\n' + data + b"\r\n--b--\r\n"
    if b"\r\n--b" not in b"\r\n" + data:
        assert parse_upload(b"multipart/form-data; boundary=b", None, body).data == data
    try:
        parse_upload(b"multipart/form-data; boundary=" + boundary.encode(), name, data)
        sent = parse_upload(b"application/octet-stream", name, data)
        assert sent.data == data and sent.name == name
    except UhpError as refusal:
        assert refusal.status in (400, 422)


def test_what_a_killed_write_left_goes_at_the_next_start(repository: Path) -> None:
    with Running(repository) as server:
        mine = server.api("person:ada")
        memory = mine.create("Left")
        record = remember(mine, memory, upload(mine, b"kept"))["id"]
        (kept,) = [ref for ref in refs(repository) if memory in ref]
        # As they are after the end of a process between the files and the stream; and one that nobody can judge.
        below = kept.rpartition(f"/{record}/")[0]
        left = [f"{below}/{record}/2", f"{below}/hrec_{'0' * 32}/1"]
        unknown = f"{below.rpartition('/')[0]}/hmem_{'0' * 32}/{record}/1"
        for name in (*left, unknown):
            subprocess.run(["git", "update-ref", name, kept], cwd=repository, check=True)
        server.restart(signal.SIGKILL)
        until = time.monotonic() + 30
        while set(left) & set(refs(repository)):
            assert time.monotonic() < until
            time.sleep(0.05)
        assert {kept, unknown} <= set(refs(repository))
        assert content(server.api("person:ada"), memory, record).content == b"kept"
