"""No kernel takes more than the figures committed for it: registers, shared memory, stack, spills, instructions."""

from __future__ import annotations

from typing import Any

import pytest

from gpulsh.backends.cuda.launcher import expanded_source
from tests.kernels.host import signatures
from tests.soak.device_compiler import ARCHITECTURES, compiler_for, compilers
from tests.soak.disassembly import disassemble, parse
from tests.soak.figures import (
    ACCEPT,
    EVALUATION,
    FILES,
    HOT,
    changes,
    committed,
    compiled,
    hot,
    hot_path,
    measure,
    page,
    warps,
    worse,
)

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


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_paths_are_compared(architecture: int) -> None:
    """Where no disassembler reads the code, the summary says so and why; registers are compared all the same."""
    try:
        disassemble(compiled("minhash", architecture).cubin)
    except LookupError as error:
        pytest.skip(f"no paths are compared on sm_{architecture}: {error}")


def test_without_a_disassembler_registers_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: bytes) -> None:
        raise LookupError("no disassembler")

    monkeypatch.setattr("tests.soak.figures.disassemble", refuse)
    try:
        found = measure("minhash", 90)
    except LookupError as error:
        pytest.skip(str(error))
    assert found and all("registers" in one and "paths" not in one for one in found.values())


def test_figures_of_another_compiler_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    known = committed()
    known["compilers"]["sm_90"] = "1.0"
    monkeypatch.setattr("tests.soak.figures.committed", lambda: known)
    with pytest.raises(LookupError, match=r"compiler 1\.0, here is|no compiler here"):
        changes("minhash", 90)


def test_every_kernel_has_its_figures() -> None:
    kernels = {kernel for file in FILES for kernel in signatures(expanded_source(file))}
    known = committed()
    assert set(known["kernels"]) == kernels, ACCEPT
    names = [f"sm_{architecture}" for architecture in ARCHITECTURES]
    assert list(known["compilers"]) == names and list(known["sources"]) == FILES
    for kernel, figures in known["kernels"].items():
        assert list(figures) == names, kernel
        if hot(kernel):
            # The disassemblers that read the newest architectures no longer read sm_70.
            read = [at for at in names if "paths" in figures[at]]
            assert read in (names, names[1:]), kernel
            for at in read:
                assert list(figures[at]["paths"]) == [one.unit for one in hot(kernel)], ACCEPT
    for name in HOT:
        assert any(f"{kernel}_".startswith(f"{name}_") for kernel in kernels), f"HOT in figures.py: no file has {name}"
    for kernel in kernels:
        assert f"`{kernel}`" in page()


@pytest.mark.parametrize(
    ("registers", "architecture", "resident"),
    [(32, 90, 64), (33, 90, 48), (40, 90, 48), (41, 90, 40), (64, 90, 32), (168, 90, 12), (255, 90, 8), (16, 75, 32)],
)
def test_resident_warps(registers: int, architecture: int, resident: int) -> None:
    assert warps(registers, architecture) == resident


def figures(**changed: Any) -> dict[str, Any]:
    path = {"unit": {"instructions": 18, "units": 8, "IMAD": 8, "minima": 4, "loads": 2}}
    return {"registers": 37, "shared": 4096, "stack": 0, "spills": 0, "paths": path} | changed


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, []),
        ({"registers": 39}, []),
        ({"registers": 40}, ["registers 37 -> 40"]),
        ({"registers": 41}, ["registers 37 -> 41: 48 -> 40 resident warps"]),
        ({"registers": 20, "shared": 0, "paths": {"unit": {"instructions": 17, "units": 8}}}, []),
        ({"shared": 4097}, ["shared 4096 -> 4097"]),
        ({"stack": 8}, ["stack 0 -> 8"]),
        ({"spills": 4}, ["spills 0 -> 4"]),
        ({"paths": {"unit": {"instructions": 36, "units": 16}}}, []),
        (
            {"paths": {"unit": {"instructions": 37, "units": 16}}},
            ["instructions a unit 2.250 (18 / 8) -> 2.312 (37 / 16)"],
        ),
        (
            {"paths": {"unit": {"instructions": 18, "units": 4}}},
            ["instructions a unit 2.250 (18 / 8) -> 4.500 (18 / 4)"],
        ),
        ({"paths": {"unit": None}}, ["the way of a unit is not found"]),
    ],
)
def test_what_is_worse(changed: dict[str, Any], said: list[str]) -> None:
    found = worse(figures(), figures(**changed), 90)
    assert len(found) == len(said)
    assert all(one.startswith(start) for one, start in zip(found, said, strict=True))


def test_a_step_of_occupancy_counts_however_few_the_registers() -> None:
    assert worse(figures(registers=40), figures(registers=41), 90) == [
        "registers 40 -> 41: 48 -> 40 resident warps",
    ]


def test_without_a_disassembler_the_rest_is_compared() -> None:
    after = figures(registers=48)
    del after["paths"]
    assert worse(figures(), after, 90) == ["registers 37 -> 48: 48 -> 40 resident warps"]


KERNEL = """
extern "C" __global__ void least(const unsigned* in, unsigned* out, unsigned a, int n) {
    unsigned found = ~0u;
    for (int i = 0; i < n; ++i) {
        const unsigned value = in[i] * a + 7;
        found = min(found, value ^ (EXTRA));
    }
    *out = found;
}"""


def path_of(extra: str, architecture: int) -> dict[str, int]:
    compiler = compiler_for(architecture)
    if compiler is None:
        pytest.skip(f"no compiler here knows sm_{architecture}: {compilers()}")
    try:
        code = disassemble(compiler.compile(KERNEL.replace("EXTRA", extra), architecture).cubin)
    except LookupError as error:
        pytest.skip(str(error))
    found = hot_path(EVALUATION, code["least"])
    assert found is not None
    return found


@pytest.mark.parametrize("architecture", [75, 90, 120])
def test_an_instruction_more_in_the_hot_path_is_seen(architecture: int) -> None:
    plain, more = path_of("0", architecture), path_of("value >> 3", architecture)
    assert plain["units"] > 1, "the compiler unrolls, and the unrolled copy is the hot one"
    assert plain["IMAD"] >= plain["units"] and plain["loads"] >= plain["units"] // 4
    assert worse(figures(paths={"unit": plain}), figures(paths={"unit": more}), architecture)
    assert not worse(figures(paths={"unit": more}), figures(paths={"unit": plain}), architecture)


def test_a_loop_without_units_is_not_hot() -> None:
    code = parse(
        '\t.section\t.text.made,"ax"\n.L_x_0:\n        /*0000*/ IMAD R1, R1, R2, R3 ;\n'
        "        /*0010*/ @P0 BRA `(.L_x_0) ;\n        /*0020*/ EXIT ;\n"
    )
    assert hot_path(EVALUATION, code["made"]) is None


def test_of_the_loops_that_do_work_the_one_that_does_most_counts() -> None:
    def loop(label: int, *opcodes: str) -> list[str]:
        return [f".L_x_{label}:", *opcodes, f"@P0 BRA `(.L_x_{label})"]

    lines = [*loop(0, "LDS R1, [R2]", "IMNMX R3, R1"), *loop(1, *["VIMNMX3 R3, R1, R2"] * 2, "NOP"), *loop(2, "NOP")]
    text = ['\t.section\t.text.made,"ax"']
    for address, line in enumerate([*lines, "EXIT"]):
        text.append(line if line.startswith(".L") else f"        /*{address:04x}*/ {line} ;")
    counts = {"instructions": 4, "units": 4, "IMAD": 0, "minima": 2, "loads": 0}
    assert hot_path(EVALUATION, parse("\n".join(text))["made"]) == counts


def test_a_thread_that_does_one_unit_is_counted_whole() -> None:
    code = parse(
        '\t.section\t.text.made,"ax"\n        /*0000*/ @P0 EXIT ;\n        /*0010*/ STG.E.64 [R2], R4 ;\n'
        "        /*0020*/ EXIT ;\n"
    )
    found = hot_path(HOT["overlap_bounds"][0], code["made"])
    assert found and (found["instructions"], found["units"]) == (3, 1)
