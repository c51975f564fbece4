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

from hn_memory.errors import HnError
from hn_memory.protocol.hashing import sha256
from hn_memory.service.environment import Environment

if TYPE_CHECKING:
    from queue import Queue

KEY_VARIABLE: Final = "HN_EMBED_KEY"
TIMEOUT_VARIABLE: Final = "HN_EMBED_TIMEOUT"
WORDLLAMA: Final = "wordllama"

_TIMEOUT: Final = 60.0
_ANSWER_BYTES: Final = 256 * 1024 * 1024

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

    def close(self) -> None:  # noqa: B027 - most start nothing
        """End what was started."""


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
        self._reader: Any = None

    def embed(self, texts: Sequence[str], role: Role) -> list[Sequence[float]]:
        import json
        from queue import Empty
        from threading import Thread

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
                line = lines.get(timeout=timeout())
            except Empty:
                self._fail(f"did not answer within {timeout():g} seconds")
            if not line:
                self._fail("ended before it had answered")
            found.append(_vector(_json(line, "the command of hn.embedCommand"), "the command of hn.embedCommand"))
        return found

    def _start(self) -> None:
        import subprocess
        from queue import Queue
        from threading import Thread

        try:
            self._process = subprocess.Popen(
                self._arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError as error:
            raise HnError(
                "embedder-missing", f"the command of hn.embedCommand cannot be run: {error.strerror}"
            ) from None
        self._lines = Queue()

        def read(stream: Any, lines: Queue[bytes]) -> None:
            while line := stream.readline(_ANSWER_BYTES):
                lines.put(line)
            lines.put(b"")

        self._reader = Thread(target=read, args=(self._process.stdout, self._lines), daemon=True)
        self._reader.start()

    def _fail(self, what: str) -> NoReturn:
        self.close()
        raise HnError("embedder-failed", f"the command of hn.embedCommand {what}")

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        import subprocess

        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(1)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        # What the program started itself may keep the pipe open, and is not waited for.
        self._reader.join(1)
        if not self._reader.is_alive():
            process.stdout.close()


class UrlEmbedder(Embedder):
    """An OpenAI-compatible endpoint. A key, if it wants one, stands in `HN_EMBED_KEY`, never in a configuration."""

    def __init__(self, url: str, model: str, key: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise HnError("embedder-failed", "hn.embedUrl must begin with http:// or https://")
        if not model:
            raise HnError("embedder-failed", "hn.embedUrl needs hn.embedModel beside it")
        self._url, self._key = url, key
        self._name = model
        self.model = f"url:{model}"

    def embed(self, texts: Sequence[str], role: Role) -> list[Sequence[float]]:
        import json
        from urllib.error import HTTPError, URLError
        from urllib.request import Request, build_opener

        headers = {"Content-Type": "application/json", "User-Agent": "hn-memory"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        body = json.dumps({"model": self._name, "input": list(texts), "encoding_format": "float"}).encode()
        try:
            request = Request(self._url, body, headers, method="POST")  # noqa: S310 - checked above
            with build_opener(_no_redirects()).open(request, timeout=timeout()) as answer:
                data = answer.read(_ANSWER_BYTES)
        except HTTPError as error:
            error.close()
            raise HnError("embedder-failed", f"the server of hn.embedUrl answered with status {error.code}") from None
        except (URLError, OSError, ValueError) as error:
            reason = getattr(error, "reason", None)
            why = (
                getattr(reason, "strerror", None) or getattr(error, "strerror", None) or type(reason or error).__name__
            )
            raise HnError("embedder-failed", f"the server of hn.embedUrl cannot be reached: {why}") from None
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
    """Seconds that an embedder may take for one answer."""
    try:
        given = float(os.environ.get(TIMEOUT_VARIABLE, ""))
    except ValueError:
        return _TIMEOUT
    return given if 0 < given < 86_400 else _TIMEOUT


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
