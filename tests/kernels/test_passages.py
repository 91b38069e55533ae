"""`gpulsh.passages` and `gpulsh.cut` on CUDA: the tables of the reference, in every cut of the work."""

from typing import Any

import pytest

import gpulsh
from gpulsh.backends.cuda import CudaBackend

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
