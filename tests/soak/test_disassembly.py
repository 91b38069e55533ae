"""The loop finder, on machine code written for the purpose, and on a kernel whose loops are known from its source."""

from __future__ import annotations

import pytest

from tests.soak.device_compiler import compiler_for
from tests.soak.disassembly import disassemble, loops, parse, way

pytestmark = pytest.mark.kernels


def listing(*lines: str) -> str:
    """What nvdisasm would print: labels as they are, an address for each of the others."""
    text, address = ['\t.section\t.text.made,"ax",@progbits', "made:", ".text.made:"], 0
    for line in lines:
        if line.endswith(":"):
            text.append(line)
        else:
            guard, _, rest = line.partition(" ") if line.startswith("@") else ("", "", line)
            text.append(f"        /*{address:04x}*/    {guard:>5} {rest} ;")
            address += 16
    return "\n".join(text)


def test_instructions_are_read() -> None:
    code = parse(listing(".L_x_1:", "IMAD R4, R2.reuse, R3, RZ", "@!P0 BRA `(.L_x_1)", "EXIT"))["made"]
    assert [(one.address, one.guard, one.name, one.target) for one in code] == [
        (0, "", "IMAD", None),
        (16, "!P0", "BRA", 0),
        (32, "", "EXIT", None),
    ]
    assert code[0].operands == "R4, R2.reuse, R3, RZ"


def test_nested_loops() -> None:
    found = loops(
        parse(
            listing(
                "MOV R1, RZ",
                ".L_x_0:",  # 0x10
                "MOV R2, RZ",
                ".L_x_1:",  # 0x20
                "IMAD R2, R2, R3, R4",
                "@P0 BRA `(.L_x_1)",
                "@P1 BRA `(.L_x_0)",
                "EXIT",
                ".L_x_2:",
                "BRA `(.L_x_2)",  # the trap behind the end, which nothing reaches
            )
        )["made"]
    )
    assert [(loop.header, len(loop.instructions), loop.depth, loop.innermost) for loop in found] == [
        (0x10, 4, 0, False),
        (0x20, 2, 1, True),
    ]


def test_a_way_round_out_of_line_is_part_of_its_loop_and_no_loop_itself() -> None:
    (loop,) = loops(
        parse(
            listing(
                ".L_x_0:",
                "BRA.DIV UR4, `(.L_x_2)",
                ".L_x_1:",  # 0x10
                "VIADD R1, R1, 0x1",
                "@!P0 BRA `(.L_x_0)",
                "EXIT",
                ".L_x_2:",  # 0x40
                "NOP",
                "BRA `(.L_x_1)",  # backwards, but what it goes to does not dominate it
            )
        )["made"]
    )
    assert [one.address for one in loop.instructions] == [0x00, 0x10, 0x20, 0x40, 0x50]
    assert [one.address for one in loop.path()] == [0x00, 0x10, 0x20]
    assert [one.address for one in loop.path(lambda one: one.name == "NOP")] == [0x00, 0x40, 0x50, 0x10, 0x20]
    assert loop.path(lambda one: one.name == "IMAD") == []


def test_a_barrier_goes_on_where_its_own_bssy_said() -> None:
    (loop,) = loops(
        parse(
            listing(
                ".L_x_0:",
                "BSSY B0, `(.L_x_2)",
                "@P0 BRA `(.L_x_1)",
                "BSSY B1, `(.L_x_3)",  # 0x20
                "BSYNC B1",
                ".L_x_3:",  # 0x40
                "BSYNC B0",
                ".L_x_1:",  # 0x50
                "BSYNC B0",  # not through what is laid out behind it
                "NOP",
                "EXIT",
                ".L_x_2:",  # 0x80
                "@P1 BRA `(.L_x_0)",
                "EXIT",
            )
        )["made"]
    )
    assert [one.address for one in loop.instructions] == [0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x80]


def test_two_ways_back_are_one_loop() -> None:
    (loop,) = loops(
        parse(listing(".L_x_0:", "@P0 BRA `(.L_x_0)", "NOP", "@P1 BRA P2, `(.L_x_0)", "EXIT"))["made"],
    )
    assert loop.latches == {0x00, 0x20} and loop.innermost
    assert len(loop.path()) == 1 and len(loop.path(lambda one: one.name == "NOP")) == 3


def test_a_loop_may_be_entered_below_its_first_address() -> None:
    (loop,) = loops(
        parse(
            listing(
                "BRA `(.L_x_1)",
                ".L_x_0:",  # 0x10
                "NOP",
                ".L_x_1:",  # 0x20
                "VIADD R1, R1, 0x1",
                "@!P0 BRA `(.L_x_0)",
                "EXIT",
            )
        )["made"]
    )
    assert loop.header == 0x20 and [one.address for one in loop.path()] == [0x20, 0x30, 0x10]


def test_the_way_through_a_kernel() -> None:
    code = parse(
        listing(
            "@P0 EXIT",
            "@P1 BRA `(.L_x_0)",
            "NOP",
            "NOP",
            ".L_x_0:",  # 0x40
            "STG.E [R2], R3",
            "EXIT",
        )
    )["made"]
    assert [one.address for one in way(code)] == [0x00]
    assert [one.address for one in way(code, lambda one: one.name == "STG")] == [0x00, 0x10, 0x40, 0x50]
    assert [one.address for one in way(code, lambda one: one.name == "NOP")] == [0x00, 0x10, 0x20, 0x30, 0x40, 0x50]


def test_loops_of_compiled_code() -> None:
    source = """
    extern "C" __global__ void nested(const unsigned* in, unsigned* out, int n, int m) {
        unsigned sum = 0;
    #pragma unroll 1
        for (int i = 0; i < n; ++i) {
    #pragma unroll 1
            for (int j = 0; j < m; ++j) sum = sum * sum + in[j];
            out[i] = sum;
        }
    }"""
    compiler = compiler_for(90)
    if compiler is None:
        pytest.skip("no compiler here knows sm_90")
    try:
        code = disassemble(compiler.compile(source, 90).cubin)["nested"]
    except LookupError as error:
        pytest.skip(str(error))
    inner = [loop for loop in loops(code) if loop.innermost and loop.count(lambda one: one.opcode == "IMAD") == 1]
    assert len(inner) == 1 and inner[0].depth == 1
    assert inner[0].count(lambda one: one.name == "LDG") == 1 and inner[0].count(lambda one: one.name == "STG") == 0
