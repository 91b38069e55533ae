"""`gpulsh.passages` and `gpulsh.cut` on CUDA: the tables of the reference, in every cut of the work."""

from typing import Any

import numpy as np
import pytest

import gpulsh
from gpulsh.arrays import Tokens
from gpulsh.backends.cuda import CudaBackend
from tests.kernels.device_arrays import DeviceModule
from tests.kernels.host import HostLauncher
from tests.support.texts import KEYS

TEXTS = [
    "one two three four five six seven eight",
    "Zero. One two, three; four! five?\nzero nine\nx",
    None,
    "",
    "漢字かな交じり文 漢字かな交じり文 e\u0301te\u0301 one two three four",
    "ha ha ha ha ha ha ha ha",
    "two three four five six + C++ one two three four",
]


@pytest.mark.kernels
@pytest.mark.parametrize("unit", ["word", "char"])
@pytest.mark.parametrize("keep", ["first", "minimal", "none"])
def test_passages_are_those_of_the_reference(selected: CudaBackend, unit: Any, keep: Any) -> None:
    for size, form in ((1, None), (3, "NFC")):
        options: dict[str, Any] = {"tokens": size, "keep": keep, "unit": unit, "normalize": form}
        options["whole_lines"] = size > 1
        wanted = gpulsh.passages(TEXTS, **options, backend="reference")
        found = gpulsh.passages(TEXTS, **options, backend="cuda")
        assert found == wanted and found.num_rows > 0
        left = gpulsh.cut(TEXTS, found, min_left=2, backend="cuda")
        assert left == gpulsh.cut(TEXTS, wanted, min_left=2, backend="reference")


@pytest.mark.kernels
@pytest.mark.usefixtures("kernels_built")
def test_tokens_of_windows_are_copied_once_for_both_hashes() -> None:
    launcher = HostLauncher()
    ops = CudaBackend(DeviceModule(), launcher)
    values = np.random.default_rng(1).integers(0, 2**64, 100, np.uint64)
    tokens = Tokens(values, np.array([0, 60, 100])).moved(ops.asarray)
    public, secret = ops.window_hashes(tokens, *map(ops.asarray, (np.array([3, 70]), np.array([9, 4]))), 20, KEYS)
    assert launcher.launches["gather"] == 1 and len(public) == len(secret) == 13
