"""No kernel exceeds the committed figures, on any architecture; and worse figures are found."""

from typing import Any

import pytest

from gpulsh.backends.cuda.launcher import expanded_source
from tests.kernels.host import signatures
from tests.soak.device_compiler import ARCHITECTURES, compiler_for, listing
from tests.soak.figures import ACCEPT, FILES, HOT, changes, committed, instructions, page, warps, worse_figures

pytestmark = pytest.mark.kernels


@pytest.mark.parametrize("file", FILES)
def test_no_figure_is_worse_than_committed(file: str) -> None:
    found, refused = [], []
    for architecture in ARCHITECTURES:
        try:
            found += changes(file, architecture)
        except LookupError as error:
            refused.append(str(error))
    assert not found, "\n".join([*found, ACCEPT])
    if refused:
        pytest.skip("; ".join(refused))


def test_every_kernel_has_its_figures() -> None:
    kernels = {kernel for file in FILES for kernel in signatures(expanded_source(file))}
    known, text = committed(), page()
    assert set(known["kernels"]) == kernels and list(known["sources"]) == FILES, ACCEPT
    assert list(known["compilers"]) == [str(architecture) for architecture in ARCHITECTURES]
    for kernel, by in known["kernels"].items():
        assert list(by) == list(ARCHITECTURES) and f"`{kernel}`" in text
        # The disassemblers that read the newest architectures no longer read sm_70.
        assert not HOT.fullmatch(kernel) or all(of["instructions"] for at, of in by.items() if at > 70), kernel


@pytest.mark.parametrize(
    ("registers", "architecture", "resident"),
    [(32, 90, 64), (33, 90, 48), (40, 90, 48), (41, 90, 40), (64, 90, 32), (168, 90, 12), (255, 90, 8), (16, 75, 32)],
)
def test_warps_follow_from_registers(registers: int, architecture: int, resident: int) -> None:
    assert warps(registers, architecture) == resident


BEFORE = {"registers": 37, "shared": 4096, "spills": 0, "instructions": 2.25}


@pytest.mark.parametrize(
    ("changed", "start"),
    [
        ({}, None),
        ({"registers": 39}, None),
        ({"registers": 40}, "registers 37 -> 40"),
        ({"registers": 41}, "registers 37 -> 41, resident warps [48, 40]"),
        ({"registers": 20, "shared": 0, "instructions": 2.0}, None),
        ({"shared": 4097}, "shared 4096 -> 4097"),
        ({"spills": 4}, "spills 0 -> 4"),
        ({"instructions": 2.3}, "instructions an evaluation 2.25 -> 2.3"),
        ({"instructions": None}, "instructions an evaluation 2.25 -> None"),
    ],
)
def test_worse_figures_are_found(changed: dict[str, Any], start: str | None) -> None:
    found = worse_figures(BEFORE, BEFORE | changed, 90)
    assert len(found) == (start is not None) and all(one.startswith(str(start)) for one in found)
    assert worse_figures({**BEFORE, "registers": 40}, {**BEFORE, "registers": 41}, 90), "a step of occupancy counts"


def test_the_innermost_loop_with_most_minima_is_counted() -> None:
    lines = [".L_x_0:", "NOP", ".L_x_1:", "LDS R1, [R2]", "IMNMX R3, R1", "@P0 BRA `(.L_x_1)", ".L_x_2:", "NOP"]
    lines += ["VIMNMX3 R3, R1, R2", "@P0 BRA `(.L_x_2)", "@P1 BRA `(.L_x_0)", ".L_x_3:", "NOP", "BRA `(.L_x_3)"]
    text = ".text.made:\n" + "\n".join(line if line[0] == "." else f"  /*0000*/ {line} ;" for line in lines)
    assert instructions(text, "made") == 1.5 and instructions(text, "other") is None
