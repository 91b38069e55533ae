"""Whether a finished run's results are what it promises, found out from its files and its input alone."""

from __future__ import annotations

import json
import os
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzz.reader import READERS, Broken, Rows, Unknown, read
from tests.support import naive

Fault = tuple[str, str]
Place = tuple[str, int]  # file and row
COLUMNS = ["file", "row", "id", "duplicate_of_file", "duplicate_of_row", "duplicate_of_id", "similarity", "cluster"]
MOST_SHINGLED = 1 << 20  # bytes of a text beyond which similarity is not computed again


@dataclass
class Asked:
    """What the command line asked for."""

    inputs: list[str]
    options: dict[str, str]
    flags: set[str]

    @classmethod
    def of(cls, arguments: list[str]) -> Asked:
        inputs: list[str] = []
        options: dict[str, str] = {}
        flags: set[str] = set()
        given = iter(arguments[1:])
        for each in given:
            if each == "--":
                inputs += given
            elif each in ("--json", "--resume", "--overwrite", "--within", "--across"):
                flags.add(each)
            elif each.startswith("-"):
                options[each] = next(given)
            else:
                inputs.append(each)
        return cls(inputs, options, flags)

    def shingles(self, text: bytes) -> set[Any] | None:
        """The text as a set; None where Python's Unicode may be another than the library's."""
        characters = text.decode("utf-8", "replace")
        if len(text) > MOST_SHINGLED or any(unicodedata.category(each) == "Cn" for each in set(characters)):
            return None
        unit, _, size = self.options.get("--shingle", "word:5").partition(":")
        return set(naive.shingles(naive.tokens(characters, unit), int(size)))

    def files(self, folder: Path) -> dict[str, str]:
        """Input files in order, and where what is kept of each lies in data/."""
        found = {}
        for given in self.inputs:
            if not (folder / given).is_dir():
                found[given] = os.path.join(self._own_folder(given), os.path.basename(given))
                continue
            inside = [os.path.join(at, name) for at, _, names in os.walk(folder / given) for name in names]
            relative = [os.path.relpath(path, folder / given) for path in inside]
            for path in sorted(relative, key=os.fsencode):
                hidden = any(part.startswith(("_", ".")) for part in path.split(os.sep))
                if not hidden and path.lower().endswith(tuple(READERS)):
                    found[os.path.join(given, path)] = path
        return found

    def _own_folder(self, given: str) -> str:
        """Where names clash, a file has a folder named by the shortest end of its own that no other folder shares."""
        names = [os.path.basename(each) for each in self.inputs]
        folders = {os.path.dirname(each) for each in self.inputs}
        above = os.path.commonpath(folders)
        own = os.path.dirname(given)
        if len(set(names)) == len(names) or own == above:  # files of the folder above all others need none
            return ""
        others = [_ends(each) for each in folders - {own, above}]
        return next(end for end in _ends(own) if not any(end in ends for ends in others))


def _ends(path: str) -> list[str]:
    """The ends of a path, the shortest first."""
    parts = path.split(os.sep)
    return [os.sep.join(parts[at:]) for at in range(len(parts) - 1, -1, -1)]


def faults(folder: Path, arguments: list[str], large: bool = False) -> Iterator[Fault]:
    """All that is wrong; nothing where all is well. Of a `large` case the evidence is judged and no text is read."""
    asked = Asked.of(arguments)
    out = folder / asked.options["-o"]
    try:
        report = json.loads((out / "report.json").read_text())
        dropped = pq.read_table(out / "duplicates.parquet")
        dropped.validate(full=True)
        listed = [name for name in report["outputs"] if not (out / name).exists()]
        rejected, torn = _rejected(out / "rejected.parquet")
        counts = {entry["file"]: entry["rows"] for entry in report["files"]}
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        yield "results", f"cannot be read: {type(error).__name__}: {error}"
        return
    if listed or (out / "_work").exists():
        yield "results", f"listed and not there: {listed}" if listed else "_work was left"
    if dropped.column_names != COLUMNS or not _typed(dropped.schema):
        yield "results", f"duplicates.parquet has {dropped.schema}"
        return
    names = asked.files(folder)
    if list(counts) != list(names):
        yield "results", f"the report has the files {list(counts)}, which are {list(names)}"
        return
    rows = dropped.select(["file", "row", "duplicate_of_file", "duplicate_of_row", "similarity"]).to_pylist()
    wrong = list(_evidence(asked, rows, rejected, counts, list(names)))
    yield from wrong
    if wrong:
        return
    gone = {(row["file"], row["row"]) for row in rows} | rejected
    yield from _counted(report["funnel"], counts, rows, rejected)
    strict = asked.options.get("--on-error") != "skip"
    readings: dict[str, Rows] = {}
    for name in names:
        if large or name in torn:
            continue
        try:
            readings[name] = found = read(folder / name)
        except Unknown:
            continue
        except Broken as error:
            if strict:
                yield "accepted", f"{name}: {error}"
            continue
        if len(found) != counts[name]:
            yield "rows", f"{name} has {len(found)} rows and the report says {counts[name]}"
            del readings[name]
    yield from _similar(asked, rows, readings)
    if asked.options.get("--write", "data") == "data":
        for name, target in names.items() if not large else ():
            kept = [row for row in range(counts[name]) if (name, row) not in gone]
            yield from _written(out / "data" / target, name, kept, readings.get(name))
    if not large and len(readings) == len(names) and not {"--within", "--across"} & asked.flags:
        yield from _copies(asked, readings, gone)


def _typed(schema: Any) -> bool:
    wanted = {"row": pa.int64(), "duplicate_of_row": pa.int64(), "similarity": pa.float32(), "cluster": pa.int64()}
    return all(schema.field(name).type == kind for name, kind in wanted.items())


def _rejected(path: Path) -> tuple[set[Place], set[str]]:
    """The rows, and the files of which a stretch or a row group was rejected: nobody knows how many rows it has."""
    if not path.exists():
        return set(), set()
    found = pq.read_table(path)
    found.validate(full=True)
    places = found.select(["file", "row", "rows"]).to_pylist()
    rows = {(each["file"], each["row"] + step) for each in places for step in range(each["rows"])}
    return rows, {each["file"] for each in places if each["rows"] != 1}


def _counted(funnel: Any, counts: dict[str, int], rows: list[Any], rejected: set[Place]) -> Iterator[Fault]:
    total = sum(counts.values())
    if funnel["dropped"] != len(rows) or funnel["documents"] + len(rejected) != total:
        yield "counts", f"{total} rows, {len(rows)} dropped, {len(rejected)} rejected, and the funnel says {funnel}"
    if funnel["protected"] + funnel["kept"] + funnel["dropped"] != funnel["documents"]:
        yield "counts", f"the funnel says {funnel}"


def _evidence(
    asked: Asked, rows: list[Any], rejected: set[Place], counts: dict[str, int], names: list[str]
) -> Iterator[Fault]:
    """Every dropped document once, in order, each with a kept one."""
    places = [(names.index(row["file"]) if row["file"] in counts else -1, row["row"]) for row in rows]
    if places != sorted(set(places)):
        yield "evidence", "a dropped row is listed twice, or not in order"
    dropped = {(row["file"], row["row"]) for row in rows}
    threshold = float(asked.options.get("--threshold", "0.8"))
    chained = asked.options.get("--resolve") == "components"
    for row in rows:
        of = (row["duplicate_of_file"], row["duplicate_of_row"])
        here = (row["file"], row["row"])
        if not all(name in counts and 0 <= number < counts[name] for name, number in (here, of)):
            yield "evidence", f"{here} or {of} is no row"
        elif here in rejected or of in rejected:
            yield "evidence", f"{here} is dropped for {of}, of which one was rejected"
        elif of in dropped:
            yield "evidence", f"{here} is dropped for {of}, which was dropped"
        elif not (0 if chained else np.float32(threshold)) <= row["similarity"] <= 1:
            yield "evidence", f"{here} is dropped for {of} with a similarity of {row['similarity']}"


def _similar(asked: Asked, rows: list[Any], readings: dict[str, Rows]) -> Iterator[Fault]:
    """The similarity that is told is that of the texts."""
    if asked.options.get("--verify", "exact") != "exact":
        return
    for row in rows:
        sets = []
        for name, number in ((row["file"], row["row"]), (row["duplicate_of_file"], row["duplicate_of_row"])):
            text = readings[name].texts[number] if name in readings and 0 <= number < len(readings[name]) else None
            sets.append(None if text is None else asked.shingles(text))
        if sets[0] is None or sets[1] is None:
            if all(row[name] in readings for name in ("file", "duplicate_of_file")) and None in (
                readings[row["file"]].texts[row["row"]],
                readings[row["duplicate_of_file"]].texts[row["duplicate_of_row"]],
            ):
                yield "evidence", f"{row['file']} row {row['row']} is dropped, and it or its witness is null"
            continue
        true = naive.jaccard(sets[0], sets[1])
        if np.float32(true) != np.float32(row["similarity"]):
            told = (
                f"{row['duplicate_of_file']} row {row['duplicate_of_row']} with {row['similarity']}, and it is {true}"
            )
            yield "evidence", f"{row['file']} row {row['row']} is dropped for {told}"


def _copies(asked: Asked, readings: dict[str, Rows], gone: set[Place]) -> Iterator[Fault]:
    """Of documents with the same tokens one is kept at most."""
    unit = asked.options.get("--shingle", "word:5").partition(":")[0]
    kept = Counter(
        tuple(naive.tokens(text.decode("utf-8", "replace"), unit))
        for name, found in readings.items()
        for row, text in enumerate(found.texts)
        if text is not None and (name, row) not in gone and asked.shingles(text)
    )
    for tokens, count in kept.items():
        if tokens and count > 1:
            yield "missed", f"{count} copies of {' '.join(tokens)[:100]!r} were kept"


def _written(path: Path, name: str, kept: list[int], reading: Rows | None) -> Iterator[Fault]:
    """What is kept is what the input has, whole."""
    if not path.exists():
        if kept:
            yield "data", f"{name}: {len(kept)} rows are kept, and its file is not there"
        return
    try:
        found = read(path)
    except Unknown:
        return
    except Broken as error:
        yield "data", f"what is kept of {name} cannot be read: {error}"
        return
    if len(found) != len(kept):
        yield "data", f"{name}: {len(kept)} rows are kept, and its file has {len(found)}"
    elif reading is not None and isinstance(reading.whole, list):
        if found.whole != [reading.whole[row] for row in kept]:
            yield "data", f"{name}: its kept rows are not those of the input"
    elif reading is not None and reading.whole is not None:
        if found.texts != [reading.texts[row] for row in kept]:
            yield "data", f"{name}: the kept texts are not those of the input"
        try:
            was, now = _values(reading.whole.take(kept)), _values(found.whole)
        except (pa.ArrowException, ValueError, OverflowError, KeyError, AttributeError, TypeError):
            return  # values that Python has no type for
        if was != now:
            yield "data", f"{name}: its kept rows are not those of the input"


def _values(table: Any) -> list[str]:
    return [repr(column.to_pylist()) for column in table.columns]
