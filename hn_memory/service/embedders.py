"""What turns text into vectors for the meaning signal of search: a command, a URL, or a model inside a package.

None is used until the repository's own configuration names one (`repository.settings` says why only that):

    hn.embedCommand   a program with its arguments, run without a shell
    hn.embedUrl       where an OpenAI-compatible `/v1/embeddings` answers
    hn.embedModel     the model: sent to the URL, and the name under which vectors are kept for both
    hn.embedder       `wordllama`: the model that `hn-memory[semantic]` installs, which needs no network

Contents of all verified records are handed to it, and every question. An embedder that fails costs the meaning
signal, never the search.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

from hn_memory.errors import HnError, UsageError
from hn_memory.protocol.hashing import sha256
from hn_memory.service.environment import Environment, seconds_of

if TYPE_CHECKING:
    from queue import Queue

KEY_VARIABLE: Final = "HN_EMBED_KEY"
TIMEOUT_VARIABLE: Final = "HN_EMBED_TIMEOUT"
WORDLLAMA: Final = "wordllama"

_TIMEOUT: Final = 60.0
_TIMEOUT_MAX: Final = 86_400
_ANSWER_BYTES: Final = 256 * 1024 * 1024
# What a receipt may quote of a program, and what is kept of it for that.
_QUOTED: Final = 200
_ERRORS_KEPT: Final = 4096

Role = Literal["question", "content"]


class Embedder(ABC):
    """Makes vectors.

    Attributes:
        model: the name that its vectors are kept under; another model has another.
        batch: how many texts it is handed at once.
    """

    model: str
    batch: int = 64

    @abstractmethod
    def embed(self, texts: Sequence[str], role: Role) -> list[Sequence[float]]:
        """One vector for each text.

        Raises:
            HnError `embedder-failed`, `embedder-missing`.
        """

    def close(self) -> object:
        """End what was started; most start nothing."""
        return None


def configured(environment: Environment, settings: dict[str, str]) -> Embedder | None:
    """The embedder that the settings name, or None. It is kept as long as the environment and the settings.

    Raises:
        HnError `embedder-missing`, `embedder-failed`: what it names cannot serve.
    """
    if environment.embedder is not None and environment.embedder[0] == settings:
        return environment.embedder[1]
    discard(environment)
    embedder = _make(settings)
    if embedder is not None:
        environment.embedder = (settings, embedder)
    return embedder


def discard(environment: Environment) -> None:
    """End the embedder of an environment, which may be in the midst of an answer."""
    kept, environment.embedder = environment.embedder, None
    if kept is not None:
        kept[1].close()


def _make(settings: dict[str, str]) -> Embedder | None:
    named = [name for name in ("embedcommand", "embedurl", "embedder") if settings.get(name)]
    if not named:
        return None
    if len(named) > 1:
        raise HnError(
            "embedder-failed",
            "the configuration names more than one of hn.embedCommand, hn.embedUrl and hn.embedder",
        )
    model = settings.get("embedmodel", "")
    if named == ["embedcommand"]:
        return CommandEmbedder(settings["embedcommand"], model)
    if named == ["embedurl"]:
        return UrlEmbedder(settings["embedurl"], model, os.environ.get(KEY_VARIABLE, ""))
    if settings["embedder"] != WORDLLAMA:
        raise HnError("embedder-failed", f"hn.embedder may be {WORDLLAMA} and nothing else")
    return WordllamaEmbedder()


class CommandEmbedder(Embedder):
    """A program that reads one JSON object a line, `{"text": ..., "role": "question" | "content"}`, and for each
    writes one line, `{"embedding": [numbers]}`, in the same order. It is started once and ends with its input."""

    def __init__(self, command: str, model: str) -> None:
        import shlex

        try:
            self._arguments = shlex.split(command)
        except ValueError:
            self._arguments = []
        if not self._arguments:
            raise HnError("embedder-failed", "hn.embedCommand is no command line")
        # The name goes into receipts, and a command line may hold paths and keys.
        self.model = f"command:{model or sha256(command.encode()).hexdigest()[:16]}"
        self._process: Any = None
        self._lines: Queue[bytes] | None = None
        self._errors = bytearray()
        self._readers: list[tuple[Any, Any]] = []

    def embed(self, texts: Sequence[str], role: Role) -> list[Sequence[float]]:
        import json
        from queue import Empty
        from threading import Thread

        limit = timeout()
        if self._process is None:
            self._start()
        process, lines = self._process, self._lines
        assert lines is not None
        asked = b"".join(json.dumps({"text": text, "role": role}).encode() + b"\n" for text in texts)

        def write() -> None:
            try:
                process.stdin.write(asked)
                process.stdin.flush()
            except (OSError, ValueError):
                return

        # Beside the reading, so that neither side waits for the other to empty its pipe.
        Thread(target=write, daemon=True).start()
        found: list[Sequence[float]] = []
        for _ in texts:
            try:
                line = lines.get(timeout=limit)
            except Empty:
                self.close()
                self._fail(f"did not answer within {limit:g} seconds")
            if not line:
                status = self.close()
                how = "" if status is None else f" by signal {-status}" if status < 0 else f" with status {status}"
                self._fail(f"ended{how} before it had answered")
            found.append(_vector(_json(line, "the command of hn.embedCommand"), "the command of hn.embedCommand"))
        return found

    def _start(self) -> None:
        import subprocess
        from queue import Queue
        from threading import Thread

        try:
            self._process = process = subprocess.Popen(
                self._arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "its name holds what no name may hold"
            raise HnError("embedder-missing", f"the command of hn.embedCommand cannot be run: {why}") from None
        self._lines, self._errors = Queue(), bytearray()

        def read(stream: Any, lines: Queue[bytes]) -> None:
            while line := stream.readline(_ANSWER_BYTES):
                lines.put(line)
            lines.put(b"")

        def listen(stream: Any, errors: bytearray) -> None:
            while data := stream.read1(_ERRORS_KEPT):
                errors += data
                del errors[:-_ERRORS_KEPT]

        self._readers = [
            (Thread(target=read, args=(process.stdout, self._lines), daemon=True), process.stdout),
            (Thread(target=listen, args=(process.stderr, self._errors), daemon=True), process.stderr),
        ]
        for thread, _ in self._readers:
            thread.start()

    def _fail(self, what: str) -> NoReturn:
        said = _last_line(bytes(self._errors))
        raise HnError("embedder-failed", f"the command of hn.embedCommand {what}{said and f': {said}'}")

    def close(self) -> int | None:
        """End the program; its exit status where it ended by itself, minus a signal."""
        process, self._process = self._process, None
        if process is None:
            return None
        import subprocess

        status: int | None = None
        with suppress(OSError):
            process.stdin.close()
        try:
            status = process.wait(1)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        # What the program started itself may keep the pipes open, and is not waited for.
        for thread, stream in self._readers:
            thread.join(1)
            if not thread.is_alive():
                stream.close()
        return status


class UrlEmbedder(Embedder):
    """An OpenAI-compatible endpoint. A key, if it wants one, stands in `HN_EMBED_KEY`, never in a configuration."""

    def __init__(self, url: str, model: str, key: str) -> None:
        wrong = _wrong_url(url)
        if wrong:
            raise HnError("embedder-failed", f"hn.embedUrl {wrong}")
        if not model:
            raise HnError("embedder-failed", "hn.embedUrl needs hn.embedModel beside it")
        if not (key.isascii() and key.isprintable()):
            raise HnError("embedder-failed", f"{KEY_VARIABLE} holds what no HTTP header may hold")
        self._url, self._key = url, key
        self._name = model
        self.model = f"url:{model}"

    def embed(self, texts: Sequence[str], role: Role) -> list[Sequence[float]]:
        import json
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import Request, build_opener

        headers = {"Content-Type": "application/json", "User-Agent": "hn-memory"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        body = json.dumps({"model": self._name, "input": list(texts), "encoding_format": "float"}).encode()
        limit = timeout()
        who = "the server of hn.embedUrl"
        try:
            request = Request(self._url, body, headers, method="POST")  # noqa: S310 - checked above
            with build_opener(_no_redirects()).open(request, timeout=limit) as answer:
                data = answer.read(_ANSWER_BYTES)
        except HTTPError as error:
            error.close()
            raise HnError("embedder-failed", f"{who} answered with status {error.code}") from None
        except (HTTPException, OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, TimeoutError):
                raise HnError("embedder-failed", f"{who} did not answer within {limit:g} seconds") from None
            if isinstance(reason, HTTPException):
                raise HnError("embedder-failed", f"{who} did not answer as HTTP wants it") from None
            why = getattr(reason, "strerror", None) or type(reason).__name__
            raise HnError("embedder-failed", f"{who} cannot be reached: {why}") from None
        return self._read(data, len(texts))

    def _read(self, data: bytes, count: int) -> list[Sequence[float]]:
        who = "the server of hn.embedUrl"
        answer = _json(data, who)
        rows = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(rows, list) or len(rows) != count:
            raise HnError("embedder-failed", f"{who} did not answer with one vector for each text")
        found: dict[int, Sequence[float]] = {}
        for at, row in enumerate(rows):
            index = row.get("index", at) if isinstance(row, dict) else at
            found[index if isinstance(index, int) else at] = _vector(row, who)
        if sorted(found) != list(range(count)):
            raise HnError("embedder-failed", f"{who} did not answer with one vector for each text")
        return [found[at] for at in range(count)]


class WordllamaEmbedder(Embedder):
    """WordLlama's model as its wheel ships it; the directory of the package stands in for a cache, so that nothing
    is ever fetched."""

    batch = 1024

    def __init__(self) -> None:
        try:
            import wordllama
            from wordllama import WordLlama
        except ImportError:
            raise HnError(
                "embedder-missing", "hn.embedder is wordllama, and hn-memory[semantic] is not installed"
            ) from None
        try:
            directory = os.path.dirname(wordllama.__file__)  # noqa: PTH120 - the package wants a name
            self._model = WordLlama.load(cache_dir=directory, disable_download=True)
        except Exception as error:
            raise HnError("embedder-failed", f"wordllama cannot load its model: {type(error).__name__}") from None
        self.model = "wordllama:l2_supercat_256"

    def embed(self, texts: Sequence[str], role: Role) -> list[Sequence[float]]:
        try:
            vectors: list[Sequence[float]] = self._model.embed([text or " " for text in texts], norm=True).tolist()
        except Exception as error:
            raise HnError("embedder-failed", f"wordllama failed: {type(error).__name__}") from None
        return vectors


def timeout() -> float:
    """Seconds that an embedder may take for one answer.

    Raises:
        HnError `embedder-failed`: what is set is no such number.
    """
    try:
        return seconds_of(TIMEOUT_VARIABLE, _TIMEOUT, _TIMEOUT_MAX)
    except UsageError as error:
        raise HnError("embedder-failed", error.message) from None


def _wrong_url(url: str) -> str:
    """What is wrong with a URL, without a word of it; empty if nothing is."""
    from urllib.parse import urlsplit

    if not url.startswith(("http://", "https://")):
        return "must begin with http:// or https://"
    if not (url.isascii() and url.isprintable()) or " " in url:
        return "holds a space or another character that must be written as %XX"
    try:
        parts = urlsplit(url)
        if parts.port == 0 or not parts.hostname:
            return "names no host or no port"
    except ValueError:
        return "names no host or no port"
    return f"must hold no user name; a key stands in {KEY_VARIABLE}" if "@" in parts.netloc else ""


def _last_line(stderr: bytes) -> str:
    """The last line that a program complained with, as a receipt may quote it."""
    from hn_memory.replication.network import clean_lines
    from hn_memory.service.secrets import scan

    lines = [line for line in clean_lines(stderr) if line]
    if not lines:
        return ""
    line = "".join(character if character.isprintable() else " " for character in lines[-1]).strip()
    key = os.environ.get(KEY_VARIABLE)
    if scan([("stderr", line)]) or (key and key in line):
        return "its last words look like a credential"
    return line if len(line) <= _QUOTED else f"{line[:_QUOTED]}..."


def _no_redirects() -> Any:
    from urllib.request import HTTPRedirectHandler

    class Refusing(HTTPRedirectHandler):
        """A redirect would take the key, and what is asked, somewhere else."""

        def redirect_request(self, *_: Any) -> None:
            return None

    return Refusing()


def _json(data: bytes, who: str) -> Any:
    import json

    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise HnError("embedder-failed", f"{who} answered with something else than JSON") from None


def _vector(answer: Any, who: str) -> Sequence[float]:
    vector = answer.get("embedding") if isinstance(answer, dict) else answer
    if not isinstance(vector, list) or not all(type(part) in (int, float) for part in vector):
        raise HnError("embedder-failed", f"{who} answered with something else than a list of numbers")
    return vector
