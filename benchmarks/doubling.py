"""Processor time of `deduplicate_files` on files whose parts are doubled twice: linear work doubles with them.

    python -m benchmarks.doubling FOLDER [--other TREE] [--rounds 3] [--cases "text files,..."]

Each case of `benchmarks.corpora.many_parts` is made with n, 2n and 4n parts in FOLDER, a new one. It is removed only at
the end: for five minutes after many files were removed, ext4 may take 0.5 ms to make one. A fresh interpreter warms up,
then takes the three in turn, round by round. The least processor time of all threads counts, including system time.
Costs that do not depend on the parts cancel out in the differences: "growth" is (t(4n) - t(2n)) /
(t(2n) - t(n)), 2 where the work is linear and 4 where it grows with the square. "ms a part" is (t(4n) - t(n)) / 3n. It
holds where growth is at most 2.7, or a part costs less than 20 microseconds, where the differences are noise. With
--other, the same is measured in a second checkout, in turns.

Row groups of 100 rows are compared with row groups of 10,000 on the same 40,000 rows. pyarrow alone also reads the
texts, then every column, and writes the same row groups.

The record is written to record/<device>/<date>/doubling.json and .md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from time import process_time
from typing import Any

from benchmarks import machine
from benchmarks.corpora.many_parts import FILES, groups_of
from benchmarks.record import FOLDER, table

MAX_GROWTH, NOISE_MS = 2.7, 0.02
ROWS, FEW, MANY = 40_000, 100, 10_000


def _run(path: Path, out: Path) -> float:
    import gpulsh

    began = process_time()
    gpulsh.deduplicate_files([str(path)], out, backend="cpu")
    return process_time() - began


def _arrow(path: Path, out: Path) -> float:
    import pyarrow.parquet as pq

    began = process_time()
    source = pq.ParquetFile(path, pre_buffer=False)
    groups = range(source.num_row_groups)
    with pq.ParquetWriter(out, source.schema_arrow) as writer:
        for number in groups:
            for _ in source.iter_batches(1000, row_groups=[number], columns=["text"], use_threads=False):
                pass
        for number in groups:
            group = source.read_row_group(number, use_threads=False)
            writer.write_table(group, row_group_size=len(group))
    out.unlink()
    return process_time() - began


def measure(paths: list[Path], rounds: int, work: Callable[[Path, Path], float]) -> list[float]:
    """The least of each time, of each path."""
    outs = paths[0].parent / f"out-{os.getpid()}"
    outs.mkdir()
    work(paths[0], outs / "warm")
    found = [[work(path, outs / f"{turn}-{path.name}") for path in paths] for turn in range(rounds)]
    return [min(times) for times in zip(*found, strict=True)]


def _child(tree: Path, kind: str, paths: list[Path], rounds: int) -> list[float]:
    command = [sys.executable, __file__, "--child", kind, *map(str, paths), "--rounds", str(rounds)]
    environment = {**os.environ, "PYTHONPATH": f"{tree}{os.pathsep}{Path(__file__).parents[1]}"}
    told = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(told.splitlines()[-1])  # type: ignore[no-any-return]


def doubled(folder: Path, name: str, trees: dict[str, Path], rounds: int) -> list[dict[str, Any]]:
    """A row for each tree."""
    make, ending, parts = FILES[name]
    counts = [parts, 2 * parts, 4 * parts]
    paths = [folder / f"{count}-{name}{ending}".replace(" ", "-") for count in counts]
    for path, count in zip(paths, counts, strict=True):
        make(path, count)
    rows = []
    for tree, where in trees.items():
        whole = _child(where, "gpulsh", paths, rounds)
        first, second = whole[1] - whole[0], whole[2] - whole[1]
        each = 1000 * (whole[2] - whole[0]) / (3 * parts)
        growth = second / first if first > 0 else None
        rows.append(
            {
                "tree": tree,
                "parts": name,
                **{f"{count} s": round(time, 2) for count, time in zip(("n", "2n", "4n"), whole, strict=True)},
                "n": parts,
                "growth": None if growth is None else round(growth, 2),
                "ms a part": round(each, 3),
                "holds": each < NOISE_MS or (growth is not None and growth <= MAX_GROWTH),
            }
        )
    return rows


def row_groups(folder: Path, trees: dict[str, Path], rounds: int) -> list[dict[str, Any]]:
    """Row groups of few rows against row groups of many."""
    paths = [folder / f"{rows}-rows.parquet" for rows in (FEW, MANY)]
    for path, rows in zip(paths, (FEW, MANY), strict=True):
        groups_of(rows)(path, ROWS)
    found = []
    for who, where in {**trees, "pyarrow": Path()}.items():
        few, many = _child(where, "arrow" if who == "pyarrow" else "gpulsh", paths, rounds)
        found.append(
            {
                "who": who,
                f"{FEW} rows s": round(few, 2),
                f"{MANY} rows s": round(many, 2),
                "ratio": round(few / many, 2),
                "ms a row group": round(1000 * (few - many) / (ROWS // FEW), 2),
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--other", type=Path, help="a second checkout")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", default=",".join(FILES))
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--no-record", action="store_true")
    given = parser.parse_args()
    if given.child:
        kind, *paths = given.child
        print(json.dumps(measure(list(map(Path, paths)), given.rounds, _arrow if kind == "arrow" else _run)))
        return
    given.folder.mkdir(parents=True)
    described, today = machine.describe(), date.today().isoformat()
    trees = {"this": Path(__file__).parents[1], **({"other": given.other.absolute()} if given.other else {})}
    rows = []
    # A name may hold a comma and a space.
    for name in (name for name in FILES if name in given.cases):
        rows += doubled(given.folder, name, trees, given.rounds)
        print(table(rows[-len(trees) :]), flush=True)
    groups = row_groups(given.folder, trees, given.rounds)
    print(table(groups))
    shutil.rmtree(given.folder)
    if not given.no_record:
        record = FOLDER / machine.device_name() / today / "doubling.json"
        record.parent.mkdir(parents=True, exist_ok=True)
        facts = {"date": today, "machine": described, "rows": rows, "row groups": groups}
        record.write_text(json.dumps(facts, indent=1) + "\n")
        versions = ", ".join(f"{name} {version}" for name, version in described["versions"].items())
        record.with_suffix(".md").write_text(
            f"# {described['cpu']}, {described['cores']} cores, {today}: what a part of a file costs\n\n"
            f"`python -m benchmarks.doubling FOLDER{' --other TREE' if given.other else ''} --rounds {given.rounds}`,"
            f" commit {described['commit']}, Python {described['python']}, {versions}. Load before:"
            f" {described['load_before']}.\nProcessor time of all threads, the least of {given.rounds} rounds in a warm"
            f" interpreter.\n\n{table(rows)}\n\n## Row groups, {ROWS:,} rows\n\n{table(groups)}\n"
        )
    if not all(row["holds"] for row in rows if row["tree"] == "this"):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
