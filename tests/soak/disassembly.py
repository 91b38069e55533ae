"""Machine code of the kernels and the loops in it: cubin -> instructions -> flow -> natural loops.

    python -m tests.soak.disassembly minhash 90 [--kernel NAME] [--listing]

prints each loop of kernels/minhash.cu on sm_90 with its instruction mix. A loop is found by its back edges: a branch to
an instruction that dominates it (Aho, Sethi, Ullman 1986, section 10.4), so that line numbers and the order in which
the compiler laid out the blocks do not matter.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from gpulsh.backends.cuda.launcher import expanded_source
from tests.soak.device_compiler import compiler_for

_SECTION = re.compile(r"\s*\.section\s+\.text\.(\w+),")
_LABEL = re.compile(r"(\.L_x_\d+):")
_INSTRUCTION = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(?:\{\s*)?(?:@(!?\w+)\s+)?([A-Z][A-Z0-9_.]*)\s*([^;]*);")
_TARGET = re.compile(r"`\((\.L_x_\d+)\)")
ALWAYS = "PT"  # the predicate that is true


class Instruction(NamedTuple):
    """One machine instruction."""

    address: int
    guard: str  # the predicate it runs under, "" where it always runs
    opcode: str
    operands: str
    target: int | None  # address of the label it names

    def __str__(self) -> str:
        guard = f"@{self.guard}" if self.guard else ""
        return f"{self.address:04x}  {guard:>5} {self.opcode} {self.operands}".rstrip()

    @property
    def name(self) -> str:
        """The opcode without its modifiers."""
        return self.opcode.partition(".")[0]


class Loop(NamedTuple):
    """A natural loop: what can run between two arrivals at its first instruction."""

    header: int
    instructions: tuple[Instruction, ...]  # by address, those of inner loops included
    latches: frozenset[int]  # the instructions that go back to the header
    depth: int  # loops around it
    innermost: bool
    flow: dict[int, tuple[int, ...]]

    def count(self, wanted: Callable[[Instruction], int]) -> int:
        """The sum over its instructions."""
        return sum(map(wanted, self.instructions))

    def mix(self) -> Counter[str]:
        """How often each opcode stands in it."""
        return Counter(instruction.opcode for instruction in self.instructions)

    def path(self, through: Callable[[Instruction], bool] = lambda _: True) -> list[Instruction]:
        """The fewest instructions of one iteration, among those that meet one that is wanted; [] where none does.

        In a loop without branches that is the loop. Where there are, it is the cheapest way round: what the common
        case costs when `through` names what only the common case does.
        """
        return _cheapest(self.header, self.instructions, self.flow, self.latches.__contains__, through)


@cache
def disassemblers() -> list[Path]:
    """Every nvdisasm: on the path, of a CUDA toolkit, of the nvidia-cuda-nvdisasm wheel, of Triton's."""
    found = [Path(path) for path in [shutil.which("nvdisasm")] if path]
    found += sorted(Path("/usr/local").glob("cuda*/bin/nvdisasm"))
    for package, pattern in (("nvidia", "*/bin/nvdisasm"), ("triton", "backends/nvidia/bin/nvdisasm")):
        spec = importlib.util.find_spec(package)
        for folder in spec.submodule_search_locations or () if spec else ():
            found += sorted(Path(folder).glob(pattern))
    return found


@cache
def disassemble(cubin: bytes) -> dict[str, list[Instruction]]:
    """Each kernel's instructions in order of address; a LookupError says why there are none."""
    refusals = []
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder) / "kernel.cubin"
        code.write_bytes(cubin)
        for path in disassemblers():
            done = subprocess.run([str(path), "--print-code", str(code)], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return parse(done.stdout)
            refusals.append(done.stderr.strip())
    raise LookupError("; ".join(refusals) or "no disassembler: the nvidia-cuda-nvdisasm wheel brings one")


def parse(listing: str) -> dict[str, list[Instruction]]:
    """What nvdisasm printed."""
    lines: dict[str, list[tuple[int, str, str, str]]] = {}
    labels: dict[str, int] = {}
    waiting: list[str] = []
    current: list[tuple[int, str, str, str]] = []
    for line in listing.splitlines():
        if section := _SECTION.match(line):
            current = lines.setdefault(section[1], [])
        elif label := _LABEL.match(line):
            waiting.append(label[1])
        elif code := _INSTRUCTION.match(line):
            address = int(code[1], 16)
            labels |= dict.fromkeys(waiting, address)
            waiting.clear()
            current.append((address, code[2] or "", code[3], code[4].strip()))
    return {
        kernel: [
            Instruction(*one, labels.get(named[1]) if (named := _TARGET.search(one[3])) else None) for one in found
        ]
        for kernel, found in lines.items()
    }


def flow(code: list[Instruction]) -> dict[int, tuple[int, ...]]:
    """The addresses that each instruction may be followed by. A call returns; a barrier goes on where BSSY said."""
    following = dict(zip((one.address for one in code), [one.address for one in code[1:]] + [-1], strict=True))
    found: dict[int, tuple[int, ...]] = {}
    for one in code:
        after = () if following[one.address] < 0 else (following[one.address],)
        name, always = one.name, one.guard in ("", ALWAYS)
        if name == "BRA" and one.target is not None:
            # Behind a second predicate, or of the kind that asks whether the warp is together, it may fall through.
            plain = always and one.operands.startswith("`") and one.opcode in ("BRA", "BRA.U")
            found[one.address] = (one.target,) if plain else (*after, one.target)
        elif name in ("EXIT", "RET", "BRX", "JMX", "KILL") and always:
            found[one.address] = ()
        else:
            found[one.address] = after
    # BSYNC Bn goes where the BSSY Bn that was met last said. Each round may open the way to further ones.
    barriers = {one.address: one for one in code if one.name in ("BSSY", "BSYNC")}
    changed = True
    while changed:
        changed = False
        for one in barriers.values():
            if one.name != "BSSY" or one.target is None:
                continue
            register = one.operands.partition(",")[0]
            seen, stack = {one.address}, list(found[one.address])
            while stack:
                address = stack.pop()
                if address in seen:
                    continue
                seen.add(address)
                other = barriers.get(address)
                if other and other.operands.partition(",")[0] == register:
                    if other.name == "BSYNC" and one.target not in found[address]:
                        # What stands behind it is not met, unless it is the place meant.
                        known = [way for way in found[address] if way != following[address]]
                        found[address] = (*known, one.target)
                        changed = True
                    continue
                stack += found[address]
    return found


def loops(code: list[Instruction]) -> list[Loop]:
    """The natural loops, by address of their first instruction."""
    if not code:
        return []
    after = flow(code)
    dominated_by = _dominators(after, code[0].address)
    before: dict[int, list[int]] = {}
    for address in dominated_by:
        for successor in after[address]:
            before.setdefault(successor, []).append(address)
    bodies: dict[int, set[int]] = {}
    latches: dict[int, set[int]] = {}
    for address, dominators in dominated_by.items():
        for header in after[address]:
            if header in dominators:
                body, stack = bodies.setdefault(header, {header}), [address]
                latches.setdefault(header, set()).add(address)
                while stack:
                    one = stack.pop()
                    if one not in body:
                        body.add(one)
                        stack += before[one]
    by_address = {one.address: one for one in code}
    return [
        Loop(
            header,
            tuple(by_address[address] for address in sorted(body)),
            frozenset(latches[header]),
            sum(header in other for other in bodies.values()) - 1,
            not any(other in body for other in bodies if other != header),
            after,
        )
        for header, body in sorted(bodies.items())
    ]


def way(code: list[Instruction], through: Callable[[Instruction], bool] = lambda _: True) -> list[Instruction]:
    """The fewest instructions of a thread that meets one that is wanted: a kernel's `Loop.path`."""
    ends = {one.address for one in code if one.name == "EXIT"}
    return _cheapest(code[0].address, code, flow(code), ends.__contains__, through)


def _cheapest(
    first: int,
    code: Sequence[Instruction],
    after: dict[int, tuple[int, ...]],
    ends: Callable[[int], bool],
    through: Callable[[Instruction], bool],
) -> list[Instruction]:
    """From an instruction to an end, staying in the code, without going back to where it begins."""
    by_address = {one.address: one for one in code}
    # Breadth first over two copies of the code: before and after a wanted instruction was met.
    start = (first, through(by_address[first]))
    before: dict[tuple[int, bool], tuple[int, bool] | None] = {start: None}
    for state in (queue := [start]):
        address, met = state
        if met and ends(address):
            back, found = state, [by_address[address]]
            while (earlier := before[back]) is not None:
                back = earlier
                found.append(by_address[back[0]])
            return found[::-1]
        for successor in after[address]:
            if successor in by_address and successor != start[0]:
                reached = (successor, met or through(by_address[successor]))
                if reached not in before:
                    before[reached] = state
                    queue.append(reached)
    return []


def _dominators(after: dict[int, tuple[int, ...]], entry: int) -> dict[int, set[int]]:
    """What every way from the entry to an address passes, itself included; without what cannot be reached."""
    order, stack = dict.fromkeys([entry]), [entry]
    while stack:
        for successor in after[stack.pop()]:
            if successor not in order:
                order[successor] = None
                stack.append(successor)
    before: dict[int, list[int]] = {}
    for address in order:
        for successor in after[address]:
            before.setdefault(successor, []).append(address)
    found = {address: set(order) for address in order}
    found[entry] = {entry}
    changed = True
    while changed:
        changed = False
        for address in sorted(order):
            if address != entry:
                new = set.intersection(*(found[one] for one in before[address])) | {address}
                if new != found[address]:
                    found[address], changed = new, True
    return found


def describe(kernel: str, code: list[Instruction]) -> Iterable[str]:
    """A line a loop, with its instruction mix."""
    yield f"{kernel}: {len(code)} instructions"
    for loop in loops(code):
        indent = "  " * (loop.depth + 1)
        last = loop.instructions[-1].address
        kind = "innermost" if loop.innermost else "around others"
        yield (
            f"{indent}loop {loop.header:04x}..{last:04x}, {kind}: {len(loop.instructions)} instructions,"
            f" at least {len(loop.path())} an iteration"
        )
        yield f"{indent}  " + ", ".join(f"{count} {opcode}" for opcode, count in loop.mix().most_common())


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.disassembly")
    parser.add_argument("file", help="a kernel file without its suffix: minhash")
    parser.add_argument("architecture", type=int, help="90 for sm_90")
    parser.add_argument("--kernel", help="only this one of the file's kernels")
    parser.add_argument("--listing", action="store_true", help="all instructions; headers of loops are marked")
    given = parser.parse_args()
    compiler = compiler_for(given.architecture)
    if compiler is None:
        parser.exit(1, f"no compiler here knows sm_{given.architecture}\n")
    compiled = compiler.compile(expanded_source(given.file), given.architecture)
    try:
        kernels = disassemble(compiled.cubin)
    except LookupError as error:
        parser.exit(1, f"{error}\n")
    for kernel, code in sorted(kernels.items()):
        if given.kernel in (None, kernel):
            usage = compiled.usage[kernel]
            print(f"sm_{given.architecture} by ptxas {compiled.version}: {usage}")
            print(*describe(kernel, code), sep="\n")
            if given.listing:
                headers = {loop.header for loop in loops(code)}
                print(*(f"{'>' if one.address in headers else ' '} {one}" for one in code), sep="\n")


if __name__ == "__main__":
    main()
