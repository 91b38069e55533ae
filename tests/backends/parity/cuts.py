"""The cuts of each backend's work in which it is judged; `conftest.py` makes the backends."""

from __future__ import annotations

import pytest

from tests.kernels.cuts import WHERE, on_device

# Threads, and the bounds on bytes and on all else that is done at once: none, and some that cut everything.
CPU = {"cpu-whole": (1, None), "cpu-small": (5, (300, 7)), "cpu-ones": (2, (1, 20))}


def _marked(where: str) -> object:
    return pytest.param(where, marks=[pytest.mark.kernels, *([pytest.mark.device] if on_device(where) else [])])


EVERY = [*CPU, *map(_marked, WHERE)]
# For generated cases of what has many kinds: small cuts find what whole rows hide, and the default is what users run.
few_cuts = pytest.mark.parametrize(
    "ops",
    ["cpu-whole", "cpu-small", *(_marked(where) for where in WHERE if where in ("host-small", "device-default"))],
    indirect=True,
)
