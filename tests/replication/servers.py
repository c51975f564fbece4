"""Real Git servers on loopback: `git daemon`, and smart HTTP through `git http-backend` with basic authentication."""

from __future__ import annotations

import base64
import os
import select
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

USER, PASSWORD = "ada", "s3cret-word"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def git_daemon(top: Path) -> Iterator[str]:
    """`git daemon` over everything below `top`; its URL."""
    port = free_port()
    child = subprocess.Popen(
        [
            "git", "daemon", "--reuseaddr", "--export-all", "--enable=receive-pack", f"--base-path={top}",
            "--listen=127.0.0.1", f"--port={port}",
        ],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield f"git://127.0.0.1:{port}"
    finally:
        os.killpg(child.pid, 15)
        child.wait()


@contextmanager
def smart_http(top: Path, *, cut_after: int | None = None) -> Iterator[str]:
    """Smart HTTP over everything below `top`; its URL without credentials.

    Args:
        cut_after: end the connection after that many bytes of a pack, as a broken line does.
    """

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            return

        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def _serve(self) -> None:
            expected = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            if self.headers.get("Authorization") != expected:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            path, _, query = self.path.partition("?")
            env = {
                "PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "GIT_PROJECT_ROOT": str(top),
                "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query, "REMOTE_USER": USER,
                "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            }  # fmt: skip
            done = subprocess.run(
                ["git", "http-backend"], input=self._body(), capture_output=True, env=env, check=False
            )
            head, _, body = done.stdout.partition(b"\r\n\r\n")
            headers = [line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line]
            status = next((value for name, value in headers if name == "Status"), "200 OK")
            self.send_response(int(status.split()[0]))
            for name, value in headers:
                if name != "Status":
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if cut_after is not None and b"PACK" in body:
                self.wfile.write(body[: body.index(b"PACK") + cut_after])
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            with suppress(OSError):  # the client has left
                self.wfile.write(body)

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "") == "chunked":
                data = b""
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    data += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return data
            return self.rfile.read(int(self.headers.get("Content-Length", "0")))

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Line:
    """A line to a server that is cut after so many bytes, both ways together, and stays cut until it is mended."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._lock = threading.Lock()
        self._ends: set[socket.socket] = set()
        self.carried = 0
        self.cut_after: int | None = None
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def mend(self, cut_after: int | None = None) -> None:
        with self._lock:
            self.carried, self.cut_after = 0, cut_after

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        with near, suppress(OSError), socket.socket() as far:
            if self._share(1) == 0:
                return
            far.connect(("127.0.0.1", self._target))
            with self._lock:
                self._ends |= {near, far}
            try:
                other = {near: far, far: near}
                while ready := select.select(list(other), [], [])[0]:
                    for end in ready:
                        data = end.recv(1 << 12)
                        share = self._share(len(data))
                        other[end].sendall(data[:share])
                        if share < len(data):
                            self._cut()
                        if not data or share < len(data):
                            return
            finally:
                with self._lock:
                    self._ends -= {near, far}

    def _share(self, wanted: int) -> int:
        """How many of those bytes still get through."""
        with self._lock:
            share = wanted if self.cut_after is None else min(wanted, max(0, self.cut_after - self.carried))
            self.carried += share
            return share

    def _cut(self) -> None:
        with self._lock:
            for end in self._ends:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)


@contextmanager
def line_to(url: str) -> Iterator[Line]:
    """A line before the server of that URL."""
    line = Line(int(url.rpartition(":")[2]))
    try:
        yield line
    finally:
        line.close()
