"""The bounds on the work done at once, found by their names in the modules: no bit may depend on them."""

import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest

import gpulsh.backends.cpu
import gpulsh.decide
import gpulsh.lsh
import gpulsh.sketch
import gpulsh.text
from gpulsh.backends.protocol import Sizes

PACKAGES = [gpulsh.backends.cpu, gpulsh.decide, gpulsh.lsh, gpulsh.sketch, gpulsh.text]
# Not SMALL_BUCKET, which is part of the decision's definition, nor the blocks by which `content` is hashed.
# Nor BLOCK, the width of a kernel's bit mask: a kernel compiled while a test changes its constant would be kept so.
BOUND = re.compile(
    r"(?:[A-Z]+_)*(?:BYTES|SHINGLES|FINGERPRINTS|WINDOWS|PAIRS|DOCUMENTS|NEIGHBOURS|[A-Z]+_BLOCK|JOIN|AT_ONCE)|FEW_KEPT|GROUP|ROUNDS|SAMPLE"
)
MIN_PIECE = 100


def bounds() -> Iterator[str]:
    """The full name of each bound."""
    yield "gpulsh.io.memory.texts.GROUP"
    inside = [pkgutil.iter_modules(package.__path__, f"{package.__name__}.") for package in PACKAGES]
    for module in ["gpulsh.budget", *(found.name for modules in inside for found in modules)]:
        for name, value in vars(importlib.import_module(module)).items():
            if BOUND.fullmatch(name) and isinstance(value, (int, float)) and not module.endswith(".content"):
                yield f"{module}.{name}"


def set_bounds(patch: pytest.MonkeyPatch, size: int, items: int) -> None:
    """Give every bound on bytes `size`, every other one `items`."""
    for name in bounds():
        value = size if "BYTES" in name else items
        if name.endswith("PIECE_BYTES"):  # a call of Python each, and text has many bytes; test_giants has smaller ones
            value = max(size, MIN_PIECE)
        patch.setattr(name, value)
    for module in ("cpu", "reference"):
        patch.setattr(f"gpulsh.backends.{module}.SIZES", Sizes(size, size, size, whole=max(2 * size, 1 << 14)))
