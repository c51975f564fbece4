"""`typing.NamedTuple` at a sixth of its price.

The standard one builds two classes and compiles a constructor for each value class, 0.3 ms apiece; a short
command meets twenty of them before it has done anything. This one sets up the same tuple with the same field
descriptors and one constructor for all; a class of which many values are made gets its own after a while. Type
checkers are shown the standard one, and a test holds the two to the same behaviour.
"""

from __future__ import annotations

make = tuple.__new__
"""`make(Class, (value, ...))`: a value from all its fields in their order, which nobody checks.

A sixth of the price of calling the class, for the few places where some are made of every memory.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from _collections import _tuplegetter

    class _Maker(type):
        """Makes the annotations of a class body the fields of a tuple."""

        def __new__(mcs, name, bases, body):
            fields = tuple(body.get("__annotations__", ()))
            body["_fields"] = body["__match_args__"] = fields
            body["_field_defaults"] = {field: body[field] for field in fields if field in body}
            body["__slots__"] = ()
            body["_made"] = 0
            for at, field in enumerate(fields):
                body[field] = _tuplegetter(at, field)
            return super().__new__(mcs, name, bases or (tuple,), body)

    _MANY = 64

    def _compile_constructor(cls):
        """What `typing.NamedTuple` would have made at once: a constructor with the fields for parameters."""
        made = {"_new": tuple.__new__, "_defaults": cls._field_defaults}
        fields = [f"{field}=_defaults[{field!r}]" if field in cls._field_defaults else field for field in cls._fields]
        values = "".join(f"{field}, " for field in cls._fields)
        # Names of fields are the identifiers of a class body; nothing else goes into the text.
        exec(f"def __new__(_cls, {', '.join(fields)}): return _new(_cls, ({values}))", made)  # noqa: S102
        cls.__new__ = made["__new__"]

    class NamedTuple(tuple, metaclass=_Maker):
        """The base of values: immutable, compared and hashed by their fields."""

        def __new__(cls, *values, **named):
            missing = len(cls._fields) - len(values)
            if missing or named:
                values = cls._complete(values, named)
            return tuple.__new__(cls, values)

        @classmethod
        def _complete(cls, values, named):
            cls._made += 1
            if cls._made == _MANY:
                _compile_constructor(cls)
            rest = cls._fields[len(values) :]
            if len(values) > len(cls._fields) or not named.keys() <= set(rest):
                raise TypeError(f"{cls.__name__} has the fields {', '.join(cls._fields)}, each of which has one value")
            defaults = cls._field_defaults
            absent = [field for field in rest if field not in named and field not in defaults]
            if absent:
                raise TypeError(f"{cls.__name__} lacks a value for {', '.join(absent)}")
            return (*values, *(named[field] if field in named else defaults[field] for field in rest))

        @classmethod
        def _make(cls, values):
            return cls(*values)

        def _replace(self, **named):
            values = (named.pop(field, value) for field, value in zip(self._fields, self, strict=True))
            changed = self._make(values)
            if named:
                raise ValueError(f"{type(self).__name__} has no field {', '.join(named)}")
            return changed

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __getnewargs__(self):
            return tuple(self)

        def __repr__(self):
            shown = ", ".join(f"{field}={value!r}" for field, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({shown})"
