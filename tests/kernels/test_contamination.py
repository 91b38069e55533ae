"""`gpulsh.contamination` and `Index.find` on CUDA: the answers of the reference."""

from typing import Any

import pytest

import gpulsh
from gpulsh.backends.cuda import CudaBackend

ITEMS = ["one two three four five six", "four five", None, "漢字 仮名 one two"]
TEXTS = ["", "x one two three four y four five z", "漢字 仮名, one. two", None, "Two three four: five six!"]


@pytest.mark.kernels
@pytest.mark.parametrize("most", [None, 1])
def test_items_are_those_of_the_reference(selected: CudaBackend, most: int | None) -> None:
    options: dict[str, Any] = {"tokens": 4, "coverage": 0.5, "ignore_common": most, "normalize": "NFC"}
    found, wanted = (gpulsh.contamination(TEXTS, ITEMS, **options, backend=name) for name in ("cuda", "reference"))
    assert found.equals(wanted) and found["item"].to_pylist() == [0, 1, 3, 0, 1]
    assert not gpulsh.contamination(TEXTS, [], backend="cuda").num_rows


@pytest.mark.kernels
@pytest.mark.parametrize("measure", ["jaccard", "containment"])
def test_stretches_are_those_of_the_reference(selected: CudaBackend, measure: str) -> None:
    answers = []
    for backend in ("cuda", "reference"):
        index = gpulsh.Index(shingling="word:2", measure=measure, backend=backend)
        index.insert(list(range(5)), TEXTS)
        answers.append(list(index.find("four five six: one two three 漢字 仮名")))
    assert answers[0] == answers[1] and answers[0]
