"""What no run may do, whatever its input. Each finding is a kind and an observation."""

import json
import os
import re
import stat
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzz.case import Case
from tests.fuzz.reader import READERS, Broken, Rows, Unknown, read
from tests.fuzz.server import Ended
from tests.support import naive

BUDGET = 512 << 20  # every case gives it as --memory
MAX_MEMORY = BUDGET * 11 // 10
REFUSED = "that this process may allocate"  # the kernel's limit, which is a little above the budget
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
DEFECT = re.compile(r"error: unexpected \w+:|Traceback \(most recent call last\)|Exception ignored|Fatal Python error")
State = dict[str, tuple[int, ...]]


class Finding(NamedTuple):
    kind: str
    what: str


def state(folder: Path, case: Case) -> State:
    """The kind, size and time of change of every path in the case's folder that must not change."""
    found: State = {}
    waiting = [folder]
    while waiting:
        for entry in os.scandir(waiting.pop()):
            name = os.path.relpath(entry.path, folder)
            if name in case.writes:
                continue
            facts = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(facts.st_mode):
                found[name] = (facts.st_mode,)
                waiting.append(Path(entry.path))
            else:
                found[name] = (facts.st_mode, facts.st_size, facts.st_ctime_ns)
    return found


def conduct(case: Case, folder: Path, before: State, ended: Ended) -> list[Finding]:
    found: list[Finding] = []
    lines = f"{ended.error}\n{ended.out}".split("\n")
    last = (ended.error.strip().splitlines() or [""])[-1]
    if ended.killed:
        found.append(Finding("memory" if "MiB" in ended.killed else "hang", ended.killed))
    elif ended.status < 0:
        found.append(Finding("signal", f"killed by signal {-ended.status}"))
    elif DEFECT.search(ended.error):
        found.append(Finding("unexpected", next(filter(DEFECT.search, lines))))
    elif ended.status not in (0, 1, 2):
        found.append(Finding("status", f"exit status {ended.status}"))
    elif ended.status and not last.startswith("gpulsh: error: "):
        found.append(Finding("message", f"exit status {ended.status} and {last[:200]!r}"))
    if not ended.killed and ended.memory > MAX_MEMORY and REFUSED not in last:
        found.append(Finding("memory", f"{ended.memory / (1 << 20):.0f} MiB of {BUDGET >> 20}"))
    if not ended.killed and (control := next(filter(CONTROL.search, lines), None)) is not None:
        found.append(Finding("control", ascii(control[:300])))
    found += [Finding("outside", act) for act in ended.broke]
    after = state(folder, case)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            how = "made" if name not in before else "gone" if name not in after else "changed"
            found.append(Finding("outside", f"{name} was {how}"))
    if ended.status > 0 and case.honest and (folder / "out").exists():
        left = sorted(os.listdir(folder / "out"))
        if left != ["_work"]:
            found.append(Finding("left", f"exit status {ended.status}, and out holds {left}"))
    return found


def results(case: Case, folder: Path) -> list[Finding]:
    if case.arguments[0] != "dedup":
        return []
    no_text = case.large and case.format == "parquet"
    return [Finding(kind, what) for kind, what in faults(folder, case.arguments, no_text)]


# --- whether a finished run's results are as promised, judged from its files and its input alone ---


Fault = tuple[str, str]
Place = tuple[str, int]  # file and row
TYPES = {
    **dict.fromkeys(("file", "row", "id", "duplicate_of_file", "duplicate_of_row", "duplicate_of_id"), None),
    "row": pa.int64(),
    "duplicate_of_row": pa.int64(),
    "similarity": pa.float32(),
    "cluster": pa.int64(),
}
MAX_SHINGLED = 1 << 20  # bytes of a text whose similarity is computed again
FLAGS = ("--json", "--resume", "--overwrite", "--within", "--across")


def faults(folder: Path, arguments: list[str], no_text: bool = False) -> Iterator[Fault]:
    """All faults of the results. With `no_text`, only the evidence is judged and no text is read."""
    judge = Judge(folder, arguments)
    try:
        judge.load()
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        yield "results", f"cannot be read: {type(error).__name__}: {error}"
        return
    for step in (judge.form, judge.evidence):
        wrong = list(step())
        yield from wrong
        if wrong:
            return
    yield from judge.counted()
    if not no_text:
        yield from judge.read_inputs()
        yield from judge.similarities()
        yield from judge.kept()
        yield from judge.copies()


class Judge:
    """One run. Every method but `load` gives the faults that it finds."""

    def __init__(self, folder: Path, arguments: list[str]) -> None:
        self.folder = folder
        self.inputs: list[str] = []
        self.options: dict[str, str] = {}
        given = iter(arguments[1:])
        for each in given:
            if each == "--":
                self.inputs += given
            elif each in FLAGS:
                self.options[each] = ""
            elif each.startswith("-"):
                self.options[each] = next(given)
            else:
                self.inputs.append(each)
        self.out = folder / self.options["-o"]
        self.names = self._files()
        self.readings: dict[str, Rows] = {}

    def load(self) -> None:
        self.report = json.loads((self.out / "report.json").read_text())
        self.counts = {entry["file"]: entry["rows"] for entry in self.report["files"]}
        dropped = pq.read_table(self.out / "duplicates.parquet")
        dropped.validate(full=True)
        self.schema = dropped.schema
        names = ["file", "row", "duplicate_of_file", "duplicate_of_row", "similarity"]  # Python lacks types of some ids
        self.rows = dropped.select(names).to_pylist()
        self.rejected: set[Place] = set()
        self.torn: set[str] = set()  # files with a rejected stretch or row group: its number of rows is unknown
        if (self.out / "rejected.parquet").exists():
            rejected = pq.read_table(self.out / "rejected.parquet")
            rejected.validate(full=True)
            for each in rejected.select(["file", "row", "rows"]).to_pylist():
                self.rejected |= {(each["file"], each["row"] + step) for step in range(each["rows"])}
                self.torn |= {each["file"]} if each["rows"] != 1 else set()
        self.missing = [name for name in self.report["outputs"] if not (self.out / name).exists()]

    def form(self) -> Iterator[Fault]:
        if self.missing or (self.out / "_work").exists():
            yield "results", f"listed and not there: {self.missing}" if self.missing else "_work was left"
        types = {name: self.schema.field(name).type for name in self.schema.names}
        if list(types) != list(TYPES) or any(kind not in (None, types[name]) for name, kind in TYPES.items()):
            yield "results", f"duplicates.parquet has {self.schema}"
        if list(self.counts) != list(self.names):
            yield "results", f"the report has the files {list(self.counts)}, which are {list(self.names)}"

    def evidence(self) -> Iterator[Fault]:
        """Every dropped document once, in order, each with a kept one."""
        order = {name: number for number, name in enumerate(self.names)}
        self.dropped = {
            (row["file"], row["row"]): (row["duplicate_of_file"], row["duplicate_of_row"]) for row in self.rows
        }
        places = [(order.get(row["file"], -1), row["row"]) for row in self.rows]
        if places != sorted(set(places)):
            yield "evidence", "a dropped row is listed twice, or not in order"
        chained = self.options.get("--resolve") == "components"
        least = 0 if chained else np.float32(self.options.get("--threshold", "0.8"))
        for row, (here, of) in zip(self.rows, self.dropped.items(), strict=False):
            if not all(0 <= number < self.counts.get(name, 0) for name, number in (here, of)):
                yield "evidence", f"{here} or {of} is no row"
            elif here in self.rejected or of in self.rejected:
                yield "evidence", f"{here} is dropped for {of}, of which one was rejected"
            elif of in self.dropped:
                yield "evidence", f"{here} is dropped for {of}, which was dropped"
            elif not least <= row["similarity"] <= 1:
                yield "evidence", f"{here} is dropped for {of} with a similarity of {row['similarity']}"

    def counted(self) -> Iterator[Fault]:
        funnel, total = self.report["funnel"], sum(self.counts.values())
        sums = funnel["documents"] + len(self.rejected), funnel["protected"] + funnel["kept"] + funnel["dropped"]
        if funnel["dropped"] != len(self.rows) or sums != (total, funnel["documents"]):
            facts = f"{total} rows, {len(self.rows)} dropped, {len(self.rejected)} rejected"
            yield "counts", f"{facts}, and the funnel says {funnel}"

    def read_inputs(self) -> Iterator[Fault]:
        """Whether the inputs have as many rows, and are not broken."""
        for name in self.names.keys() - self.torn:
            try:
                found = read(self.folder / name)
            except Unknown:
                continue
            except Broken as error:
                if self.options.get("--on-error") != "skip":
                    yield "accepted", f"{name}: {error}"
                continue
            if len(found) == self.counts[name]:
                self.readings[name] = found
            else:
                yield "rows", f"{name} has {len(found)} rows and the report says {self.counts[name]}"

    def similarities(self) -> Iterator[Fault]:
        if self.options.get("--verify", "exact") != "exact":
            return
        for row, pair in zip(self.rows, self.dropped.items(), strict=True):
            if not all(name in self.readings for name, _ in pair):
                continue
            texts = [self.readings[name].texts[number] for name, number in pair]
            if None in texts:
                yield "evidence", f"{pair[0]} is dropped for {pair[1]}, and one of them is null"
                continue
            one, other = (self._shingles(text) for text in texts if text is not None)
            if one is None or other is None:
                continue
            true = naive.jaccard(one, other)
            if np.float32(true) != np.float32(row["similarity"]):
                yield "evidence", f"{pair[0]} is dropped for {pair[1]} with {row['similarity']}, and it is {true}"

    def kept(self) -> Iterator[Fault]:
        for name, target in self.names.items() if self.options.get("--write", "data") == "data" else ():
            kept = [row for row in range(self.counts[name]) if self._is_kept(name, row)]
            path, reading = self.out / "data" / target, self.readings.get(name)
            try:
                found = read(path) if path.exists() else Rows([], None)
            except Unknown:
                continue
            except Broken as error:
                yield "data", f"the kept rows of {name} cannot be read: {error}"
                continue
            if len(found) != len(kept):
                yield "data", f"{name}: {len(kept)} rows are kept, and its file has {len(found)}"
            elif reading is not None and kept and not _are_rows(found, reading, kept):
                yield "data", f"{name}: its kept rows are not those of the input"

    def copies(self) -> Iterator[Fault]:
        """Whether at most one document of the same tokens is kept."""
        if len(self.readings) < len(self.names) or "--within" in self.options or "--across" in self.options:
            return
        unit = self.options.get("--shingle", "word:5").partition(":")[0]
        kept = Counter(
            tuple(naive.tokens(text.decode("utf-8", "replace"), unit))
            for name, found in self.readings.items()
            for row, text in enumerate(found.texts)
            if text is not None and self._is_kept(name, row) and self._shingles(text)
        )
        for tokens, count in kept.items():
            if tokens and count > 1:
                yield "missed", f"{count} copies of {' '.join(tokens)[:100]!r} were kept"

    def _is_kept(self, name: str, row: int) -> bool:
        return (name, row) not in self.dropped and (name, row) not in self.rejected

    def _shingles(self, text: bytes) -> set[Any] | None:
        """The text as a set; None if Python's Unicode may differ from the library's."""
        characters = text.decode("utf-8", "replace")
        if len(text) > MAX_SHINGLED or any(unicodedata.category(each) == "Cn" for each in set(characters)):
            return None
        unit, _, size = self.options.get("--shingle", "word:5").partition(":")
        return set(naive.shingles(naive.tokens(characters, unit), int(size)))

    def _files(self) -> dict[str, str]:
        """The input files in order, and where data/ holds the kept rows of each."""
        found = {}
        bases = list(map(os.path.basename, self.inputs))
        clash = len(set(bases)) < len(bases)  # then files below in/ are in a folder of their own
        for given in self.inputs:
            top = self.folder / given
            if not top.is_dir():
                above, base = os.path.split(given)
                found[given] = os.path.join(os.path.basename(above), base) if clash and above != "in" else base
                continue
            relative = [os.path.relpath(path, top) for path in top.rglob("*") if path.is_file()]
            for path in sorted(relative, key=os.fsencode):
                hidden = any(part.startswith(("_", ".")) for part in path.split(os.sep))
                if not hidden and path.lower().endswith(tuple(READERS)):
                    found[os.path.join(given, path)] = path
        return found


def _are_rows(found: Rows, reading: Rows, kept: list[int]) -> bool:
    """Whether `found` has the rows `kept` of `reading`."""
    if isinstance(reading.whole, list):
        return bool(found.whole == [reading.whole[row] for row in kept])
    if found.texts != [reading.texts[row] for row in kept]:
        return False
    if reading.whole is None:
        return True
    try:
        return repr(_values(reading.whole.take(kept))) == repr(_values(found.whole))
    except (pa.ArrowException, ValueError, OverflowError, KeyError, AttributeError, TypeError):
        return True  # values without a type in Python


def _values(table: Any) -> list[list[Any]]:
    return [column.to_pylist() for column in table.columns]
