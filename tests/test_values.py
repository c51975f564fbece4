"""Our `NamedTuple` behaves as the standard one, for all that the project does with values."""

from __future__ import annotations

import copy
import pickle
from typing import Any
from typing import NamedTuple as Standard

import pytest

from hn_memory.values import NamedTuple as Ours


class OurPoint(Ours):
    """A point."""

    x: int
    y: int = 2
    name: str = "p"

    @property
    def total(self) -> int:
        return self.x + self.y


class StandardPoint(Standard):
    """A point."""

    x: int
    y: int = 2
    name: str = "p"

    @property
    def total(self) -> int:
        return self.x + self.y


class OftenMade(Ours):
    """A point."""

    x: int
    y: int = 2
    name: str = "p"

    @property
    def total(self) -> int:
        return self.x + self.y


for _number in range(100):
    # From some number on the class has a constructor of its own; it must be as good.
    assert OftenMade(_number, name="q") == (_number, 2, "q")


BOTH = pytest.mark.parametrize("make", [OurPoint, OftenMade, StandardPoint])


@BOTH
def test_fields_defaults_and_methods(make: Any) -> None:
    assert make(1) == (1, 2, "p")
    assert make(1, 5) == make(y=5, x=1) == make(1, y=5, name="p") == (1, 5, "p")
    point = make(3, 4, "q")
    assert (point.x, point.y, point.name, point.total) == (3, 4, "q", 7)
    assert make._fields == make.__match_args__ == ("x", "y", "name")
    assert make._field_defaults == {"y": 2, "name": "p"}
    assert point._asdict() == {"x": 3, "y": 4, "name": "q"}
    assert make.__doc__ == "A point."


@BOTH
@pytest.mark.parametrize(
    ("values", "named"), [((), {}), ((1, 2, "p", 4), {}), ((1,), {"x": 2}), ((1,), {"z": 2}), ((), {"y": 1})]
)
def test_wrong_values_are_refused(make: Any, values: tuple[Any, ...], named: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        make(*values, **named)


@BOTH
def test_values_are_immutable_hashable_and_ordered(make: Any) -> None:
    point = make(1)
    with pytest.raises(AttributeError):
        point.x = 2
    with pytest.raises(AttributeError):
        point.other = 2
    assert hash(point) == hash((1, 2, "p"))
    assert make(1) < make(2)
    assert len({make(1), make(1), make(2)}) == 2
    assert not hasattr(point, "__dict__")


@BOTH
def test_values_are_copied_changed_and_pickled(make: Any) -> None:
    point = make(1)
    assert point._replace(name="r", x=9) == make(9, 2, "r")
    with pytest.raises((TypeError, ValueError)):
        point._replace(z=1)
    assert make._make(iter([7, 8, "s"])) == make(7, 8, "s")
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(point, protocol))
        assert again == point
        assert type(again) is make
    assert copy.deepcopy(point) == point
    assert type(copy.copy(point)) is make


@BOTH
def test_values_match_by_position_and_unpack(make: Any) -> None:
    match make(1, 2, "z"):
        case OurPoint(x, y, name) | OftenMade(x, y, name) | StandardPoint(x, y, name):
            assert (x, y, name) == (1, 2, "z")
        case _:
            pytest.fail("did not match")
    x, *rest = make(4)
    assert (x, rest) == (4, [2, "p"])


def test_both_are_shown_alike() -> None:
    assert repr(OurPoint(1)).replace("OurPoint", "StandardPoint") == repr(StandardPoint(1))
