"""Standard modules that are imported on the way to a command and hardly used, loaded on their first real use.

`inspect` (with ast, dis, tokenize), `uuid` (with platform), `gettext` and `threading` come with click,
`urllib.parse` (with ipaddress) and `ntpath` with pathlib, `datetime` (whose classes Python 3.11 makes twice, in
Python and in C) with click and sqlite3, `collections` (with operator, keyword, reprlib), `functools` (with types) and
`contextlib` with nearly everything; together they are a third of the time that those imports take, and no
ordinary command needs more of them than is carried here. `install` puts stand-ins into `sys.modules`; the first
attribute that one does not have brings in the real module, which then takes its place. The few functions that
importers take out by name, or call for every option, are carried here, and a test holds them equal to the real
ones.

`importlib.util.LazyLoader` does not serve: an import statement looks at `__spec__`, which makes it load.
"""

from __future__ import annotations

import _collections  # type: ignore[import-not-found]
import _collections_abc
import _functools  # type: ignore[import-not-found]
import _thread
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import ModuleType
    from typing import Any
else:
    ModuleType = type(sys)


class _StandIn(ModuleType):
    """Answers with the real module's attributes from the first one on that it lacks itself."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            # The import machinery asks for these (`__path__`, `__file__`); they are no use of the module.
            raise AttributeError(name)
        return getattr(_real(self.__name__), name)


def _real(name: str) -> Any:
    if isinstance(sys.modules.get(name), _StandIn):
        del sys.modules[name]
    # With a name to take out of it, this answers with the module itself and not with its package.
    module = __import__(name, fromlist=("__name__",))
    if name == "collections":
        # Its submodule is loaded already, under the name of the module that holds all of it.
        vars(module).setdefault("abc", _collections_abc)
    return module


def cleandoc(doc: str) -> str:
    """As `inspect.cleandoc`: expand tabs, drop common indentation and blank lines at both ends."""
    lines = doc.expandtabs().split("\n")
    indents = [len(line) - len(line.lstrip()) for line in lines[1:] if line.lstrip()]
    margin = min(indents, default=0)
    lines = [lines[0].lstrip(), *(line[margin:] for line in lines[1:])]
    while lines and not lines[-1]:
        lines.pop()
    while lines and not lines[0]:
        lines.pop(0)
    return "\n".join(lines)


def isfunction(value: object) -> bool:
    """As `inspect.isfunction`."""
    return isinstance(value, type(isfunction))


def gettext(message: str) -> str:
    """As `gettext.gettext` without a catalogue: click ships none, and neither do we."""
    return message


def ngettext(singular: str, plural: str, n: int) -> str:
    """As `gettext.ngettext` without a catalogue."""
    return singular if n == 1 else plural


def quote_from_bytes(data: bytes, safe: str | bytes = "/") -> str:
    """As `urllib.parse.quote_from_bytes`, which this loads."""
    real = _real("urllib.parse")
    quoted: str = real.quote_from_bytes(data, safe)
    return quoted


class _LikeRealUUID(type):
    """Lets the carried class stand for the real one in `isinstance`."""

    def __instancecheck__(cls, value: object) -> bool:
        real: type = _real("uuid").UUID
        return isinstance(value, real)


class UUID(metaclass=_LikeRealUUID):
    """Stands for `uuid.UUID` where click names it in the base of a class; calling it makes a real one."""

    def __new__(cls, *arguments: Any, **options: Any) -> Any:
        return _real("uuid").UUID(*arguments, **options)


def cache(function: Callable[..., Any]) -> Any:
    """As `functools.cache`."""
    return _cached(function, None, False)


def lru_cache(maxsize: Any = 128, typed: bool = False) -> Any:
    """As `functools.lru_cache`."""
    if callable(maxsize):
        return _cached(maxsize, 128, typed)
    bound = None if maxsize is None else max(maxsize, 0)
    return lambda function: _cached(function, bound, typed)


def _cached(function: Callable[..., Any], bound: int | None, typed: bool) -> Any:
    made: Any = _functools._lru_cache_wrapper(function, bound, typed, _cache_info)
    made.cache_parameters = lambda: {"maxsize": bound, "typed": typed}
    for name in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
        # A connection of sqlite3 wraps itself, which has no name.
        if hasattr(function, name):
            setattr(made, name, getattr(function, name))
    made.__dict__.update(getattr(function, "__dict__", {}))
    made.__wrapped__ = function
    return made


def _cache_info(*numbers: int | None) -> Any:
    return _real("functools")._CacheInfo(*numbers)


class suppress:  # noqa: N801 - the name of what it stands for
    """As `contextlib.suppress`, which knows groups of exceptions, too."""

    def __init__(self, *exceptions: type[BaseException]) -> None:
        self._exceptions = exceptions

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, self._exceptions)


def contextmanager(function: Callable[..., Any]) -> Callable[..., Any]:
    """As `contextlib.contextmanager`, without the use of its result as a decorator."""

    def manager(*arguments: Any, **options: Any) -> _Managed:
        return _Managed(function(*arguments, **options))

    manager.__name__, manager.__qualname__, manager.__doc__ = function.__name__, function.__qualname__, function.__doc__
    manager.__module__, manager.__wrapped__ = function.__module__, function  # type: ignore[attr-defined]
    return manager


class _Managed:
    """A block around which a generator runs: up to its `yield` before, and from there on after it."""

    def __init__(self, generator: Generator[Any, None, None]) -> None:
        self._generator = generator

    def __enter__(self) -> Any:
        for value in self._generator:
            return value
        raise RuntimeError("generator didn't yield")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> bool:
        if kind is None:
            for _ in self._generator:
                self._end_twice()
            return False
        if error is None:
            error = kind()
        try:
            self._generator.throw(error)
        except StopIteration as stopped:
            # One that passed through the block on its way is not the generator's own end.
            return stopped is not error
        except RuntimeError as other:
            if other is error:
                error.__traceback__ = trace
                return False
            if isinstance(error, StopIteration) and other.__cause__ is error:
                # What a StopIteration becomes when a generator lets it out.
                error.__traceback__ = trace
                return False
            raise
        except BaseException as other:
            if other is not error:
                raise
            error.__traceback__ = trace
            return False
        self._end_twice()
        return False

    def _end_twice(self) -> None:
        try:
            raise RuntimeError("generator didn't stop")
        finally:
            self._generator.close()


_CARRIED: dict[str, dict[str, Any]] = {
    "inspect": {"cleandoc": cleandoc, "isfunction": isfunction},
    "uuid": {"UUID": UUID},
    "gettext": {"gettext": gettext, "ngettext": ngettext},
    "urllib.parse": {"quote_from_bytes": quote_from_bytes},
    "threading": {"local": _thread._local},
    "ntpath": {},
    "collections": {
        "abc": _collections_abc,
        "defaultdict": _collections.defaultdict,
        "deque": _collections.deque,
        "OrderedDict": _collections.OrderedDict,
    },
    "functools": {
        "cache": cache,
        "lru_cache": lru_cache,
        "partial": _functools.partial,
        "reduce": _functools.reduce,
    },
    "contextlib": {"contextmanager": contextmanager, "suppress": suppress},
}


def install() -> None:
    """Defer the modules that are not loaded already. Only the console script does this, never a library import."""
    for name, carried in _CARRIED.items():
        _stand_in(name, carried)
    if isinstance(sys.modules["collections"], _StandIn):
        # All that the module of that name does is to take everything out of this one.
        sys.modules.setdefault("collections.abc", _collections_abc)
    try:
        import _datetime  # type: ignore[import-not-found]
    except ImportError:
        # An interpreter that has these classes in Python alone.
        return
    _stand_in("datetime", {name: value for name, value in vars(_datetime).items() if not name.startswith("__")})


def _stand_in(name: str, carried: dict[str, Any]) -> None:
    if name not in sys.modules:
        module = _StandIn(name)
        vars(module).update(carried)
        sys.modules[name] = module
