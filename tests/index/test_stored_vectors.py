"""Vectors as the index stores them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hn_memory import HnError
from hn_memory.index.vectors import pack

PARTS = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=40)


@given(PARTS)
def test_any_finite_vector_is_stored(vector: list[float]) -> None:
    assert len(pack(vector)) == 4 + len(vector)


def test_the_smallest_of_numbers_have_a_direction_too() -> None:
    assert pack([1e-320, 0]) == pack([5e-324, 0]) == pack([1, 0])


@pytest.mark.parametrize("vector", [[], [math.nan], [1.0, math.inf], [1.0, math.nan]])
def test_what_is_no_vector_is_refused(vector: list[float]) -> None:
    with pytest.raises(HnError) as refused:
        pack(vector)
    assert refused.value.code == "embedder-failed"
