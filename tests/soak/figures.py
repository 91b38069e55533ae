"""What each kernel takes on each architecture, proven without a device and committed in figures.json.

    python -m tests.soak.figures             what is worse than committed; exit status 1 where something is
    python -m tests.soak.figures --write     accept: write figures.json (`ci/figures` also writes the page)
    python -m tests.soak.figures --page      figures.json as a page for benchmarks/record/nvrtc/<date>/

Of every kernel: registers, static shared memory, stack and spills, as ptxas tells them. Of the hot ones also their
path: the instructions of one iteration of the hot loop and the units of work that they do, both counted in the machine
code.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from gpulsh.backends.cuda.launcher import OPTIONS, expanded_source, kernel_folder
from tests.soak.device_compiler import ARCHITECTURES, Compiled, compiler_for, compilers
from tests.soak.disassembly import Instruction, Loop, disassemble, loops, way

FILE = Path(__file__).with_name("figures.json")
FILES = sorted(path.stem for path in kernel_folder().glob("*.cu"))
ACCEPT = "to accept it: ci/figures, or python -m tests.soak.figures --write"
ALLOWED_REGISTERS = 2  # that a change may add unnoticed, where as many warps stay resident
WARPS = {70: 64, 75: 32, 80: 64, 86: 48, 89: 48, 90: 64, 100: 64, 120: 48}  # resident on a multiprocessor, at most
REGISTERS_OF_A_SCHEDULER, SCHEDULERS = 16384, 4

Figures = dict[str, Any]  # of one kernel on one architecture, as in figures.json


def minima(one: Instruction) -> int:
    """How many values an instruction folds into a minimum."""
    return {"IMNMX": 1, "VIMNMX": 1, "VIMNMX3": 2}.get(one.name, 0)


def products(one: Instruction) -> int:
    """A product of two 64-bit numbers modulo 2^64 takes one full 32-bit product; addresses multiply by constants."""
    return int(one.opcode == "IMAD.WIDE.U32" and "0x" not in one.operands)


def loads(*kinds: str) -> Callable[[Instruction], int]:
    """One for each load of these opcodes, however it is cached."""
    return lambda one: int(one.opcode.replace(".CONSTANT", "").replace(".SYS", "").replace(".U.", ".") in kinds)


def stores(one: Instruction) -> int:
    """One for what writes to global memory."""
    return int(one.name in ("STG", "RED", "REDG"))


class Hot(NamedTuple):
    """Where a kernel spends its time: the deepest loop in which work is done, or all of a thread."""

    unit: str
    units: Callable[[Instruction], int]  # of work that an instruction does
    beside: Callable[[Instruction], int] = lambda _: 1  # what else stands in that loop
    whole: bool = False  # a thread does one unit: not a loop, but the cheapest way through the kernel


# By name, or by the beginning of a name that goes on with an underscore: variants do the same work.
EVALUATION = Hot("fingerprint and column", minima)
TERM = Hot("token of a shingle", products, beside=loads("LDS.64", "LDS.128"))
HOT = {
    "minhash": (EVALUATION,),
    **{f"sketch_{n}_columns": (EVALUATION, TERM) for n in (2, 4, 8)},
    "shingle": (TERM,),
    "band_digests": (Hot("minimum of a signature", products, beside=loads("LDG.E")),),
    "tokens_count": (
        Hot("strip of ASCII text", stores, whole=True),
        Hot("code point beyond ASCII", loads("LDG.E.U16")),
    ),
    "tokens_sum": (Hot("code point of a word", loads("LDS.64")),),
    "exact_hashes": (Hot("product of a packed token", products, beside=loads("LDG.E.64")),),
    "overlap_bounds": (Hot("pair", stores, whole=True),),
    "intersect_rows": (Hot("step of a search", loads("LDS.64")),),
    "intersect_spread": (Hot("step of a search", loads("LDG.E.64")),),
    "unique": (Hot("fingerprint compared", loads("LDS.64")),),
}


def hot(kernel: str) -> tuple[Hot, ...]:
    """What to look for in it; nothing in one that is not hot."""
    return next((found for name, found in HOT.items() if f"{kernel}_".startswith(f"{name}_")), ())


@cache
def compiled(file: str, architecture: int) -> Compiled:
    """By the newest compiler that knows the architecture; a LookupError where none does."""
    compiler = compiler_for(architecture)
    if compiler is None:
        raise LookupError(f"no compiler here knows sm_{architecture}: {', '.join(map(str, compilers()))}")
    return compiler.compile(expanded_source(file), architecture)


def hot_path(wanted: Hot, code: list[Instruction]) -> dict[str, int] | None:
    """The cheapest way round the hot loop: of the loops that do most units the dearest, so that no copy hides.

    None where no loop does any, or no thread.
    """
    found: list[tuple[int, int, list[Instruction]]] = []
    if wanted.whole:
        path = way(code, lambda one: wanted.units(one) > 0)
        found = [(1, len(path), path)] if path else []
    every = [] if wanted.whole else [one for one in loops(code) if one.count(wanted.units) and one.count(wanted.beside)]
    for loop in every:
        if not any(_inside(other, loop) for other in every):
            path = loop.path(lambda one: wanted.units(one) > 0)
            found.append((sum(map(wanted.units, path)), len(path), path))
    if not found:
        return None
    units, instructions, path = max(found, key=lambda one: one[:2])
    return {
        "instructions": instructions,
        "units": units,
        "IMAD": sum(one.name == "IMAD" for one in path),
        "minima": sum(minima(one) > 0 for one in path),
        "loads": sum(one.name in ("LDS", "LDG") for one in path),
    }


def _inside(inner: Loop, outer: Loop) -> bool:
    addresses = {one.address for one in outer.instructions}
    return inner.header != outer.header and inner.header in addresses


def measure(file: str, architecture: int) -> dict[str, Figures]:
    """Of each of a file's kernels. Without a disassembler that knows the architecture there are no paths."""
    code = compiled(file, architecture)
    found = {kernel: dict(usage._asdict()) for kernel, usage in code.usage.items()}
    if any(map(hot, found)):
        try:
            machine = disassemble(code.cubin)
        except LookupError:
            return found
        for kernel in found:
            if wanted := hot(kernel):
                found[kernel]["paths"] = {one.unit: hot_path(one, machine[kernel]) for one in wanted}
    return found


def warps(registers: int, architecture: int) -> int:
    """Warps whose registers fit a multiprocessor: allocated in eights a thread, a quarter of them a scheduler."""
    each = -(-registers // 8) * 8 * 32
    return min(WARPS[architecture], REGISTERS_OF_A_SCHEDULER // each * SCHEDULERS)


def worse(before: Figures, after: Figures, architecture: int) -> list[str]:
    """In which figures, each with its value before and after."""
    found = []
    old, new = before["registers"], after["registers"]
    if warps(new, architecture) < warps(old, architecture):
        found.append(
            f"registers {old} -> {new}: {warps(old, architecture)} -> {warps(new, architecture)} resident warps"
        )
    elif new > old + ALLOWED_REGISTERS:
        found.append(f"registers {old} -> {new}")
    found += [f"{name} {before[name]} -> {after[name]}" for name in ("shared", "stack") if after[name] > before[name]]
    if after["spills"] > 0:
        found.append(f"spills {before['spills']} -> {after['spills']}")
    known: dict[str, dict[str, int]] = before.get("paths", {})
    for unit, was in known.items():
        now = after.get("paths", known).get(unit)  # without a disassembler nothing is compared
        if now is None:
            found.append(f"the way of a {unit} is not found: does HOT in figures.py still describe it?")
        elif now["instructions"] * was["units"] > was["instructions"] * now["units"]:
            ratios = [f"{_each(one):.3f} ({one['instructions']} / {one['units']})" for one in (was, now)]
            found.append(f"instructions a {unit} {' -> '.join(ratios)}")
    return found


def committed() -> dict[str, Any]:
    """figures.json."""
    found: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return found


def source_hash(file: str) -> str:
    """The hash of a file's code and options, without comments."""
    code = re.sub(r"\s*//[^\n]*", "", expanded_source(file))
    return hashlib.sha256("\0".join([*OPTIONS, code]).encode()).hexdigest()[:16]


def changes(file: str, architecture: int) -> list[str]:
    """What is worse than committed in one file, a line each; a LookupError says why nothing can be compared."""
    known = committed()
    version, at = compiled(file, architecture).version, f"sm_{architecture}"
    if known["compilers"][at] != version:
        raise LookupError(f"the figures of {at} are of compiler {known['compilers'][at]}, here is {version}")
    found = []
    for kernel, after in measure(file, architecture).items():
        before = known["kernels"].get(kernel, {}).get(at)
        if before is None:
            found.append(f"{kernel} on {at} has no figures")
        else:
            found += [f"{kernel} on {at}: {one}" for one in worse(before, after, architecture)]
    return found


def write() -> None:
    """Everything, a line a kernel and architecture."""
    kernels: dict[str, dict[str, Figures]] = {}
    for file in FILES:
        for architecture in ARCHITECTURES:
            for kernel, figures in measure(file, architecture).items():
                kernels.setdefault(kernel, {})[f"sm_{architecture}"] = figures
    lost = [
        f"{kernel} on {at}: {unit}"
        for kernel, by in kernels.items()
        for at, one in by.items()
        for unit, path in one.get("paths", {}).items()
        if path is None
    ]
    lost += [name for name, by in kernels.items() if hot(name) and not any("paths" in one for one in by.values())]
    if lost:
        raise LookupError(f"not found: {', '.join(lost)}; is a disassembler there, does HOT still describe them?")
    versions = {f"sm_{architecture}": compiled(FILES[0], architecture).version for architecture in ARCHITECTURES}
    sources = ",\n".join(f'  "{file}": "{source_hash(file)}"' for file in FILES)
    rows = ",\n".join(
        f'  "{kernel}": {{\n' + ",\n".join(f'   "{at}": {json.dumps(one)}' for at, one in by.items()) + "\n  }"
        for kernel, by in sorted(kernels.items())
    )
    told = f' "compilers": {json.dumps(versions)},\n "sources": {{\n{sources}\n }},\n "kernels": {{\n{rows}\n }}'
    FILE.write_text(f"{{\n{told}\n}}\n", "utf-8")


def page() -> str:
    """figures.json in Markdown."""
    known = committed()
    kernels = known["kernels"]
    names = list(known["compilers"])
    head = ["| kernel | " + " | ".join(names) + " |", "| --- |" + " --- |" * len(names)]
    usage = [
        f"| `{kernel}` | "
        + " | ".join(
            f"{one['registers']} / {warps(one['registers'], int(at[3:]))} / {one['shared']} / {one['spills']}"
            for at, one in by.items()
        )
        + " |"
        for kernel, by in kernels.items()
    ]
    around, bound = (
        [
            f"| `{kernel}`, a {one.unit} | "
            + " | ".join(cell(by["paths"][one.unit]) if "paths" in by else "" for by in kernels[kernel].values())
            + " |"
            for kernel in kernels
            for one in hot(kernel)
            if one is EVALUATION or cell is _ratio
        ]
        for cell in (_ratio, _evaluations)
    )
    return "\n".join(
        [
            "# What the kernels take",
            "",
            "Compiled without a device; `python -m tests.soak.figures --page` prints this page from"
            " `tests/soak/figures.json`, which `tests/soak/test_figures.py` compares with the code.",
            "",
            "Compilers: " + ", ".join(f"{at} {version}" for at, version in known["compilers"].items()) + ".",
            "",
            "## Every kernel",
            "",
            "Registers a thread / warps that these leave resident on a multiprocessor / static shared bytes a block /"
            " spilled bytes.",
            "",
            *head,
            *usage,
            "",
            "## Hot paths",
            "",
            "Instructions / units of work in them = instructions a unit, and how many are multiply-adds (IMAD in all"
            " forms), minima and loads: one iteration of the hot loop, the cheapest way round that does the work where"
            " it branches; of a kernel whose threads do one unit each, the cheapest way through it. No disassembler for"
            " sm_70.",
            "",
            *head,
            *around,
            "",
            "## The bound of minhash",
            "",
            "An evaluation, one fingerprint in one column, takes one multiply-add and one minimum, or half a three-way"
            " minimum where the architecture has one. A multiprocessor does 64 integer multiply-adds a clock (CUDA C++"
            " Programming Guide, throughput of native arithmetic instructions), hence at most 64 evaluations; it issues"
            " an instruction for 4 x 32 lanes a clock, hence at most 128 / instructions an evaluation. The lower of the"
            " two, evaluations a clock and multiprocessor:",
            "",
            *head,
            *bound,
        ]
    )


def _each(path: dict[str, int]) -> float:
    return path["instructions"] / path["units"]


def _evaluations(path: dict[str, int]) -> str:
    return f"{min(64.0, 64 * path['units'] / path['IMAD'], 128 / _each(path)):.1f}"


def _ratio(path: dict[str, int]) -> str:
    counts = f"{path['IMAD']} IMAD, {path['minima']} minima, {path['loads']} loads"
    return f"{path['instructions']} / {path['units']} = {_each(path):.2f}: {counts}"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.figures")
    parser.add_argument("--write", action="store_true", help="accept what is, in figures.json")
    parser.add_argument("--page", action="store_true", help="print figures.json as Markdown")
    given = parser.parse_args()
    if given.write:
        write()
    elif given.page:
        print(page())
    else:
        found = [line for file in FILES for architecture in ARCHITECTURES for line in changes(file, architecture)]
        print(*[*found, ACCEPT] if found else ["no figure is worse than committed"], sep="\n")
        sys.exit(bool(found))


if __name__ == "__main__":
    main()
