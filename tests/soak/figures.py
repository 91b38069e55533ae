"""What each kernel takes on each architecture, measured without a device and committed in figures.json.

    python -m tests.soak.figures --write     accepts: writes figures.json (`ci/figures` also writes the page)
    python -m tests.soak.figures --page      prints figures.json as a page for benchmarks/record/nvrtc/<date>/

Registers, static shared memory and spills of every kernel are those that ptxas reports. Kernels of MinHash also have
instructions an evaluation, of one fingerprint in one column, counted in the machine code of the hot loop.
"""

import argparse
import hashlib
import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from gpulsh.backends.cuda.launcher import OPTIONS, expanded_source, kernel_folder
from tests.soak.device_compiler import ARCHITECTURES, Compiled, compiler_for, listing

FILE = Path(__file__).with_name("figures.json")
FILES = sorted(path.stem for path in kernel_folder().glob("*.cu"))
ACCEPT = "to accept it: ci/figures, or python -m tests.soak.figures --write"
ALLOWED_REGISTERS = 2  # that a change may add if as many warps stay resident
WARPS = {70: 64, 75: 32, 80: 64, 86: 48, 89: 48, 90: 64, 100: 64, 120: 48}  # resident on a multiprocessor, at most
REGISTERS_OF_A_SCHEDULER, SCHEDULERS = 16384, 4
HOT = re.compile(r"(minhash|sketch)_\d_columns")
MINIMA = {"IMNMX": 1, "VIMNMX": 1, "VIMNMX3": 2}  # values that an instruction folds into a minimum

Figures = dict[str, Any]  # of one kernel on one architecture


@cache
def compiled(file: str, architecture: int) -> Compiled:
    """Compile by the newest compiler that knows the architecture; raises LookupError without one."""
    compiler = compiler_for(architecture)
    if compiler is None:
        raise LookupError(f"no compiler here knows sm_{architecture}")
    return compiler.compile(expanded_source(file), architecture)


def instructions(text: str, kernel: str) -> float | None:
    """Instructions an evaluation: those of the innermost loop with most minima, by the number of its minima.

    A loop is what a branch backwards encloses. None without a loop that takes minima.
    """
    _, _, section = text.partition(f".text.{kernel}:")
    code = re.findall(r"^(\.L_x_\d+):|/\*[0-9a-f]{4,}\*/\s+(?:\{\s*)?(?:@!?\w+\s+)?([A-Z][A-Z0-9_.]*)([^;]*);",
                      section.partition(".section")[0], re.MULTILINE)  # fmt: skip
    places: dict[str, int] = {}
    names: list[str] = []
    ranges: list[tuple[int, int]] = []
    for label, opcode, operands in code:
        if label:
            places[label] = len(names)
            continue
        target = re.search(r"`\((\.L_x_\d+)\)", operands)
        names.append(opcode.partition(".")[0])
        if names[-1] == "BRA" and target and target[1] in places:
            ranges.append((places[target[1]], len(names)))
    found = []
    for start, stop in ranges:
        minima = sum(MINIMA.get(name, 0) for name in names[start:stop])
        inner = any(start <= low and high <= stop and (low, high) != (start, stop) for low, high in ranges)
        if minima and not inner:
            found.append((minima, stop - start))
    minima, length = max(found, default=(0, 0))
    return round(length / minima, 3) if minima else None


def measure(file: str, architecture: int) -> dict[str, Figures]:
    """The figures of each of a file's kernels. Without a disassembler, there are no instructions."""
    code = compiled(file, architecture)
    found: dict[str, Figures] = {kernel: dict(usage._asdict()) for kernel, usage in code.usage.items()}
    for kernel in filter(HOT.fullmatch, found):
        try:
            found[kernel]["instructions"] = instructions(listing(code.cubin), kernel)
        except LookupError:
            break
    return found


def warps(registers: int, architecture: int) -> int:
    """The warps whose registers fit a multiprocessor: allocated in eights a thread, a quarter of them a scheduler."""
    each = -(-registers // 8) * 8 * 32
    return min(WARPS[architecture], REGISTERS_OF_A_SCHEDULER // each * SCHEDULERS)


def worse_figures(before: Figures, after: Figures, architecture: int) -> list[str]:
    """The figures that are worse, each with its value before and after."""
    found = []
    resident = [warps(one["registers"], architecture) for one in (before, after)]
    if resident[1] < resident[0] or after["registers"] > before["registers"] + ALLOWED_REGISTERS:
        found.append(f"registers {before['registers']} -> {after['registers']}, resident warps {resident}")
    found += [f"{name} {before[name]} -> {after[name]}" for name in ("shared", "spills") if after[name] > before[name]]
    known = before.get("instructions")
    if known is not None and "instructions" in after:
        counted = after["instructions"]
        if counted is None or counted > known:
            found.append(f"instructions an evaluation {known} -> {counted}")
    return found


def committed() -> dict[str, Any]:
    """figures.json: `compilers` by architecture, `sources` by file, and the figures of `kernels` by architecture."""
    found: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    for kernel, columns in found["kernels"].items():
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        found["kernels"][kernel] = dict(zip(ARCHITECTURES, rows, strict=True))
    return found


def source_hash(file: str) -> str:
    code = re.sub(r"\s*//[^\n]*", "", expanded_source(file))
    return hashlib.sha256("\0".join([*OPTIONS, code]).encode()).hexdigest()[:16]


def changes(file: str, architecture: int) -> list[str]:
    """The worse figures of one file, a line each; a LookupError says why they cannot be compared."""
    known, version = committed(), compiled(file, architecture).version
    compiler = known["compilers"][str(architecture)]
    if compiler != version:
        raise LookupError(f"the figures of sm_{architecture} are of compiler {compiler}, here is {version}")
    found = []
    for kernel, after in measure(file, architecture).items():
        before = known["kernels"].get(kernel, {}).get(architecture)
        of_kernel = ["has no figures"] if before is None else worse_figures(before, after, architecture)
        found += [f"{kernel} on sm_{architecture}: {one}" for one in of_kernel]
    return found


def write() -> None:
    kernels: dict[str, dict[str, list[Any]]] = {}
    for file in FILES:
        by_architecture = [measure(file, architecture) for architecture in ARCHITECTURES]
        for kernel in by_architecture[0]:
            names = dict.fromkeys(name for by in by_architecture for name in by[kernel])
            kernels[kernel] = {name: [by[kernel].get(name) for by in by_architecture] for name in names}
    made = {
        "compilers": {str(at): compiled(FILES[0], at).version for at in ARCHITECTURES},
        "sources": {file: source_hash(file) for file in FILES},
        "kernels": dict(sorted(kernels.items())),
    }
    parts = [
        f' "{part}": {{\n'
        + ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in of.items())
        + "\n }"
        for part, of in made.items()
    ]
    FILE.write_text("{\n" + ",\n".join(parts) + "\n}\n", "utf-8")


def page() -> str:
    known = committed()

    def table(kernels: dict[str, dict[int, Figures]], cell: Callable[[int, Figures], str]) -> str:
        names = [f"sm_{architecture}" for architecture in ARCHITECTURES]
        rows = [["kernel", *names], ["---"] * (len(names) + 1)]
        rows += [[f"`{kernel}`", *(cell(at, of) for at, of in by.items())] for kernel, by in kernels.items()]
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)

    def usage(at: int, of: Figures) -> str:
        return f"{of['registers']} / {warps(of['registers'], at)} / {of['shared']} / {of['spills']}"

    hot = {kernel: by for kernel, by in known["kernels"].items() if HOT.fullmatch(kernel)}
    return f"""# What the kernels take

Compiled without a device; `python -m tests.soak.figures --page` prints this page from `tests/soak/figures.json`.
`tests/soak/test_figures.py` compares that file with the code.

Compilers: {", ".join(f"sm_{at} {version}" for at, version in known["compilers"].items())}.

## Every kernel

Registers a thread / warps that these leave resident on a multiprocessor / static shared bytes a block / spilled bytes.

{table(known["kernels"], usage)}

## Instructions an evaluation

Of one fingerprint in one column, in the hot loop. It takes at least one multiply-add, of which a multiprocessor does 64
a clock (CUDA C++ Programming Guide); it issues an instruction for 128 lanes a clock. No disassembler for sm_70.

{table(hot, lambda at, of: str(of["instructions"] or ""))}"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.figures")
    parser.add_argument("--write", action="store_true", help="accept the figures in figures.json")
    parser.add_argument("--page", action="store_true", help="print figures.json as Markdown")
    given = parser.parse_args()
    if given.write:
        write()
    if given.page:
        print(page())


if __name__ == "__main__":
    main()
