"""`mortals`: who runs the command in processes that end at any call."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.mortal import Mortals


@pytest.fixture(scope="module")
def mortals() -> Iterator[Mortals]:
    with Mortals() as server:
        yield server
