"""What the tests of the protocol share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from hn_memory.protocol import jsonbytes

# A busy machine is no failure of the protocol.
settings.register_profile("protocol", deadline=None)
settings.load_profile("protocol")


@pytest.fixture(scope="module", params=["plain", "fast"])
def json_library(request: pytest.FixtureRequest) -> Iterator[None]:
    """A process that has handled few documents, and one that has handled many: both must answer alike."""
    before = jsonbytes._handled
    jsonbytes._handled = -(10**9) if request.param == "plain" else 10**9
    yield
    jsonbytes._handled = before
