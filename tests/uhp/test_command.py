"""`hn uhp` as a command: what it prints, what it refuses, and how it ends."""

from __future__ import annotations

import datetime
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import psycopg
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from uhp_harness import COMMAND, Api, Running, ok, run_hn


def refused(path: Path, *arguments: str) -> dict[str, Any]:
    """The error of a command that must not succeed; stdout is one document and there is no traceback."""
    done = subprocess.run([*COMMAND, *arguments, "--json"], cwd=path, capture_output=True, timeout=60)
    assert done.returncode != 0
    assert b"Traceback" not in done.stderr
    error: dict[str, Any] = json.loads(done.stdout)["error"]
    assert str(path) not in error["message"]
    return error


def test_keys_by_command(repository: Path) -> None:
    made = run_hn(repository, "uhp", "key", "create", "--principal", "harness:chrn_1", "--privileges", "read,write")
    assert made["key"].startswith("hnk_") and made["privileges"] == ["read", "write"] and not made["administrator"]
    listed = run_hn(repository, "uhp", "key", "list")["keys"]
    assert [one["id"] for one in listed] == [made["id"]] and made["key"] not in json.dumps(listed)
    assert refused(repository, "uhp", "key", "create", "--principal", "robot:1")["code"] == "principal-invalid"
    arguments = ("uhp", "key", "create", "--principal", "person:a", "--privileges", "fly")
    assert refused(repository, *arguments)["code"] == "privilege-unknown"
    assert refused(repository, "uhp", "key", "revoke", "hkey_0")["code"] == "key-unknown"
    with Running(repository) as running:
        api = Api(running.client, made["key"])
        assert ok(api.get("/v1/memories")) == {"object": "list", "data": [], "next": None}
        run_hn(repository, "uhp", "key", "revoke", made["id"])
        assert api.get("/v1/memories").status_code == 401


def test_the_administrator_key_is_printed_once(repository: Path) -> None:
    with Running(repository) as running:
        first = running.administrator_key
        assert first is not None and first.startswith("hnk_")
        running.administrator_key = None
        running.restart()
        assert running.administrator_key is None
        assert ok(Api(running.client, first).get("/v1/memories"))
        assert first not in running.logs()
        # It is lost: who holds the machine makes another one, and ends the old one.
        another = run_hn(repository, "uhp", "key", "create", "--administrator")
        assert another["administrator"] and another["principal"] == "credential:administrator"
        (old,) = (one for one in run_hn(repository, "uhp", "key", "list")["keys"] if one["id"] != another["id"])
        run_hn(repository, "uhp", "key", "revoke", old["id"])
        assert Api(running.client, first).get("/v1/memories").status_code == 401
        attached = {"memories": []}
        assert (
            ok(Api(running.client, another["key"]).call("PUT", "/v1/harnesses/chrn_9/memories", json=attached))
            == attached
        )
        assert refused(repository, "uhp", "key", "create")["code"] == "usage"
        arguments = ("uhp", "key", "create", "--administrator", "--principal", "person:a")
        assert refused(repository, *arguments)["code"] == "usage"


def test_other_addresses_than_loopback_need_tls_or_a_word(repository: Path) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        assert refused(repository, "uhp", "serve", "--port", "0", "--host", host)["code"] == "tls-required"
    assert refused(repository, "uhp", "serve", "--tls-cert", "none.pem")["code"] == "tls-invalid"
    with Running(repository, "--host", "0.0.0.0", "--insecure-http") as running:
        assert running.client.get("/healthz").status_code == 200


def test_https(repository: Path, tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    command = [*COMMAND, "uhp", "serve", "--port", "0", "--json", "--tls-cert", str(certificate), "--tls-key", str(key)]
    process = subprocess.Popen(command, cwd=repository, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    url = json.loads(process.stdout.readline())["url"]
    assert url.startswith("https://127.0.0.1:")
    assert httpx.get(f"{url}/v1/uhp", verify=False, timeout=30).json()["protocol"] == "uhp"
    process.terminate()
    assert process.wait(30) == 0
    process.stdout.close()


def self_signed(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder / "cert.pem", folder / "key.pem"


def test_starts_that_are_refused(repository: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert refused(repository, "uhp", "serve", "--port", port)["code"] == "address-unavailable"
    subprocess.run(["git", "init", "-q", str(tmp_path / "empty")], check=True)
    assert refused(tmp_path / "empty", "uhp", "serve", "--port", "0")["code"] == "identity-missing"
    run_hn(tmp_path / "empty", "init", "--name", "Ada")
    assert refused(tmp_path / "empty", "uhp", "serve", "--port", "0")["code"] == "repository-empty"
    assert refused(repository, "uhp", "serve", "--state", "mysql://x/y")["code"] == "state-invalid"
    assert refused(tmp_path, "uhp", "key", "list")["code"] == "not-a-repository"


def test_without_the_extra_it_says_so(repository: Path) -> None:
    code = (
        "import sys; sys.modules['sqlalchemy'] = None; from hn_memory.cli.run import run; sys.exit(run(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "uhp", "key", "list", "--json"], cwd=repository, capture_output=True
    )
    assert json.loads(done.stdout)["error"]["code"] == "uhp-not-installed"


def test_what_is_under_way_is_finished(repository: Path) -> None:
    """On SIGTERM a request that has been begun still gets its answer."""
    with Running(repository) as running:
        api = running.api()
        memory = api.create("Finished")
        episodes = [{"content": f"Episode {number}"} for number in range(256)]
        answers: list[httpx.Response] = []
        thread = threading.Thread(
            target=lambda: answers.append(api.post(memory, "observe", json={"episodes": episodes}))
        )
        thread.start()
        time.sleep(0.05)
        running.process.send_signal(signal.SIGTERM)
        thread.join(30)
        assert running.process.wait(30) == 0
        assert len(ok(answers[0])["data"]) == 256
        running.restart()
        assert ok(running.api().get(memory))["records"] == {"count": 256}


def test_a_database_that_went_away_is_met_again(repository: Path, database: str) -> None:
    with Running(repository, state=database) as running:
        api = running.api()
        memory = api.create("Kept")
        for _ in range(2):
            with psycopg.connect(database, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            statuses = [api.post(memory, "records", json={"content": "x"}).status_code for _ in range(3)]
            headers = {"Idempotency-Key": "after"}
            statuses += [
                api.post(memory, "records", json={"content": "y"}, headers=headers).status_code for _ in range(4)
            ]
            assert set(statuses) <= {200, 503} and statuses[-1] == 200
        assert ok(api.get(memory))["name"] == "Kept"
        assert running.client.get("/readyz").status_code == 200


def test_a_key_that_could_not_be_shown_is_taken_back(repository: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        serve = [*COMMAND, "uhp", "serve", "--port", "0", "--json"]
        done = subprocess.run(serve, cwd=repository, stdout=full, stderr=subprocess.PIPE, timeout=60)
        assert done.returncode == 1 and b"Traceback" not in done.stderr
        assert run_hn(repository, "uhp", "key", "list")["keys"] == []
        create = [*COMMAND, "uhp", "key", "create", "--principal", "person:a", "--json"]
        done = subprocess.run(create, cwd=repository, stdout=full, stderr=subprocess.PIPE, timeout=60)
        assert done.returncode == 1
        assert [one["revokedAt"] is not None for one in run_hn(repository, "uhp", "key", "list")["keys"]] == [True]
    with Running(repository) as running:
        assert running.administrator_key is not None


def test_certificates_that_cannot_be_used_are_refused_before_anything_is_announced(
    repository: Path, tmp_path: Path
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    certificate, key = self_signed(tmp_path / "one")
    _, other = self_signed(tmp_path / "two")
    loaded = serialization.load_pem_private_key(key.read_bytes(), None)
    locked = tmp_path / "locked.pem"
    locked.write_bytes(
        loaded.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("no key")
    for private in (other, locked, garbage):
        arguments = ("uhp", "serve", "--port", "0", "--tls-cert", str(certificate), "--tls-key", str(private))
        assert refused(repository, *arguments)["code"] == "tls-invalid"
    assert refused(repository, "uhp", "serve", "--consolidate", "nan")["code"] == "usage"
    assert run_hn(repository, "uhp", "key", "list")["keys"] == []
