"""Standard modules that are imported on the way to a command and hardly used, loaded on their first real use.

`inspect` (with ast, dis, tokenize), `uuid` (with platform), `gettext` and `threading` come with click,
`urllib.parse` (with ipaddress) and `ntpath` with pathlib, `datetime` (whose classes Python 3.11 makes twice, in
Python and in C) with click and sqlite3; together they are a third of the time that those imports take, and no
ordinary command needs more of them than is carried here. `install` puts stand-ins into `sys.modules`; the first
attribute that one does not have brings in the real module, which then takes its place. The few functions that
importers take out by name, or call for every option, are carried here, and a test holds them equal to the real
ones.

`importlib.util.LazyLoader` does not serve: an import statement looks at `__spec__`, which makes it load.
"""

from __future__ import annotations

import _thread
import sys
from types import FunctionType, ModuleType
from typing import Any


class _StandIn(ModuleType):
    """Answers with the real module's attributes from the first one on that it lacks itself."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            # The import machinery asks for these (`__path__`, `__file__`); they are no use of the module.
            raise AttributeError(name)
        return getattr(_real(self.__name__), name)


def _real(name: str) -> Any:
    from importlib import import_module

    if isinstance(sys.modules.get(name), _StandIn):
        del sys.modules[name]
    return import_module(name)


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
    return isinstance(value, FunctionType)


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


_CARRIED: dict[str, dict[str, Any]] = {
    "inspect": {"cleandoc": cleandoc, "isfunction": isfunction},
    "uuid": {"UUID": UUID},
    "gettext": {"gettext": gettext, "ngettext": ngettext},
    "urllib.parse": {"quote_from_bytes": quote_from_bytes},
    "threading": {"local": _thread._local},
    "ntpath": {},
}


def install() -> None:
    """Defer the modules that are not loaded already. Only the console script does this, never a library import."""
    for name, carried in _CARRIED.items():
        _stand_in(name, carried)
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
