"""python -m benchmarks.race CORPUS.parquet [PAIRS.parquet]: gpulsh and its rivals from files to decision.

CORPUS has a column `text`; PAIRS holds all its pairs with exact Jaccard of at least 0.5 (`i`, `j`, `jaccard`), which
are else found by brute force. Writes rivals.json, .md and .svg to benchmarks/record/DEVICE/DATE. See the README.
"""

from __future__ import annotations

import argparse
import datetime
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine
from benchmarks.bench import environment
from benchmarks.engines import DECIDERS
from benchmarks.race import page, picture
from benchmarks.race.course import Course, course
from benchmarks.race.decide import KEEP
from benchmarks.race.process import Taken, measure
from benchmarks.record import FOLDER
from benchmarks.score import score

DECIDE = (sys.executable, "-m", "benchmarks.race.decide")
FEW = 200  # documents that each library decides on before the race, so that whatever it keeps on disk is there
SIZES = [10_000, 50_000, 200_000]
ROUNDS = 3  # at least: a single round may be off by half
MAIN, OTHER = 0.8, 0.5  # thresholds: of every run, and of one more on all cores


@dataclass(frozen=True)
class Heat:
    """The task that all libraries get in turn."""

    course: Course
    threshold: float
    cores: int
    rounds: int


class Race:
    """Runs the libraries, each measured, and judges what they decide; who fails in a heat runs in no later one."""

    def __init__(self, libraries: list[str], work: Path, limit: float, decide: Sequence[str] = DECIDE) -> None:
        self.libraries, self.work, self.limit, self.decide = libraries, work, limit, decide
        self.out: dict[str, str] = {}

    def once(self, library: str, heat: Heat) -> tuple[Taken, dict[str, Any]]:
        """One run, and how good its decision is."""
        scratch = self.work / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        told = ["--threshold", str(heat.threshold), "--cores", str(heat.cores)]
        command = [*self.decide, library, str(heat.course.inputs), str(scratch), *told]
        taken = measure(command, scratch, heat.cores, self.limit, _environment(heat.cores, scratch))
        if taken.failed:
            return taken, {}
        return taken, score(heat.course.truth, heat.threshold, np.load(scratch / KEEP))

    def warm_up(self, few: Course) -> None:
        for library in self.libraries:
            taken, _ = self.once(library, Heat(few, MAIN, machine.cores(), 1))
            if taken.failed:
                self.out[library] = f"not run: {taken.failed}"
                print(f"{library} {self.out[library]}", flush=True)

    def run(self, heat: Heat) -> list[dict[str, Any]]:
        """All rounds, in rotating order: a row per library."""
        rows: dict[str, dict[str, Any]] = {}
        for library in self.libraries:
            told = {"documents": heat.course.documents, "threshold": heat.threshold, "cores": heat.cores}
            rows[library] = {**told, "library": library, "failed": self.out.get(library), "rounds": []}
        for turn in range(heat.rounds):
            first = turn % len(self.libraries)
            for library in [*self.libraries[first:], *self.libraries[:first]]:
                row = rows[library]
                if row["failed"]:
                    continue
                taken, quality = self.once(library, heat)
                row |= {"failed": taken.failed, **quality}
                row["rounds"].append(asdict(taken))
                asked = f"{heat.course.documents:,} at {heat.threshold}, x{heat.cores}"
                print(f"{asked}: {library:<20} {taken}", flush=True)
        for library, row in rows.items():
            if row["failed"]:
                asked = f"{row['documents']:,} documents at {heat.threshold}, cores: {heat.cores}"
                self.out.setdefault(library, f"not run: {row['failed']} with {asked}")
        return list(rows.values())


def _environment(cores: int, scratch: Path) -> dict[str, str]:
    """All files are in `scratch`, except Numba's compiled code."""
    folders = dict.fromkeys(("TMPDIR", "HF_HOME", "SPARK_LOCAL_DIRS"), str(scratch))
    known = {name: value for name, value in environment(cores).items() if name != "PYTHONDONTWRITEBYTECODE"}
    return known | folders


def _java() -> str:
    try:
        told = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    except FileNotFoundError:
        return "absent"
    return told.splitlines()[0]


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _rounds(text: str) -> int:
    if (rounds := int(text)) < ROUNDS:
        raise argparse.ArgumentTypeError(f"is {rounds}; give {ROUNDS} or more, whose median is recorded")
    return rounds


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="ci/bench --rivals", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path)
    parser.add_argument("pairs", type=Path, nargs="?")
    parser.add_argument("--sizes", type=_numbers, default=SIZES, help="documents")
    parser.add_argument("--rounds", type=_rounds, default=ROUNDS, help=f"of each heat, at least {ROUNDS}")
    parser.add_argument("--cores", type=_numbers, default=[1, 2])
    parser.add_argument("--libraries", type=lambda text: text.split(","), default=list(DECIDERS))
    parser.add_argument("--limit", type=float, default=120, help="seconds of a run, which then counts as not finished")
    parser.add_argument("--work", type=Path, help="keep the corpora and their true pairs here")
    parser.add_argument("--record", type=Path, help="folder of the record")
    given = parser.parse_args()
    described, today = machine.describe(), datetime.date.today().isoformat()
    described["java"] = _java()
    folder = given.record or FOLDER / machine.device_name() / today
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gpulsh-race-") as made:
        work = (given.work or Path(made)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        courses = [course(given.corpus, given.pairs, size, work, print) for size in (FEW, *given.sizes)]
        race = Race(given.libraries, work, given.limit)
        race.warm_up(courses[0])
        told: dict[str, Any] = {
            "date": today,
            "command": f"./ci/bench --rivals CORPUS PAIRS --sizes {','.join(map(str, given.sizes))} --rounds "
            f"{given.rounds} --cores {','.join(map(str, given.cores))} --limit {given.limit:g}",
            "machine": described,
            "truth": {each.documents: [each.origin, len(each.truth.at(OTHER)), len(each.truth.at(MAIN))]
                      for each in courses[1:]},
            "rows": [],
        }  # fmt: skip
        most, *fewer = sorted(given.cores, reverse=True)
        for each in courses[1:]:
            asked = [(MAIN, most), *((MAIN, cores) for cores in fewer), (OTHER, most)]
            heats = [Heat(each, threshold, cores, given.rounds) for threshold, cores in asked]
            for heat in heats:
                told["rows"] += race.run(heat)
                described["load_after"] = round(os.getloadavg()[0], 2)
                # After each, so that a race that is stopped leaves what it found.
                picture.draw(told["rows"], folder / "rivals.svg")
                print(f"record: {page.write(folder, told)}", flush=True)


if __name__ == "__main__":
    main()
