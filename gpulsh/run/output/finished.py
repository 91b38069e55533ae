"""The OUT of a finished run, a folder or a URL: read its results, make its page again, or add weights to its rows.

The counts behind weights come from `clusters.parquet`. A kept row that is not listed there is alone, so its size is 1.
Which rows were kept follows from `duplicates.parquet` and `rejected.parquet`, so neither INPUT nor texts are read.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.checks import checked_folder, is_url
from gpulsh.decide.counts.counts import Counts
from gpulsh.decide.counts.weights import Recipe, WeightBy, parse_recipe, sizes_by
from gpulsh.errors import OutputError
from gpulsh.io.arrow.buffers import to_arrow
from gpulsh.io.columns import Columns
from gpulsh.io.file import File, reading
from gpulsh.io.files.no_documents import COUNTED, DATA, EVIDENCE, REPORT
from gpulsh.io.files.places import Targets
from gpulsh.io.files.rejected import REJECTED
from gpulsh.io.format import AddedColumns
from gpulsh.io.formats.endings import format_of
from gpulsh.io.output_codec import NewFile
from gpulsh.report.evidence import Evidence
from gpulsh.report.originals import Originals, rejected_rows, shares_to_json, value_shares
from gpulsh.report.page import missing_requirement, render, write_page
from gpulsh.run.output.folder import PAGE, has_all_parts, read_report, write_report
from gpulsh.run.output.paths import refuse_overlap, refuse_url
from gpulsh.run.output.remote import UNFINISHED, UrlFolder
from gpulsh.run.output.work_folder import WORK, clear, is_work_folder
from gpulsh.run.policy import refuse_without_columns
from gpulsh.stats.counts import WEIGHT
from gpulsh.store.durable import DurableFiles, open_file, sync, temporary_path, writing

SCHEMA = pa.schema([(WEIGHT.name, pa.float64())])  # of the added column
NO_REPORT = f"holds no {REPORT} of a finished run that this version reads"


@dataclass(frozen=True)
class Finished:
    """A finished run: its report, and the place of its results."""

    out: str
    report: Mapping[str, Any]
    folder: UrlFolder | None  # None: of this machine

    @classmethod
    def of(cls, out: str) -> Self:
        """The finished run in OUT; OutputError if there is none, or it cannot be reached."""
        folder = UrlFolder(out) if is_url(out) else None
        report = folder.read(REPORT) if folder else read_report(Path(out) / REPORT)
        if not has_all_parts(report):
            begun = folder.exists(UNFINISHED) if folder else is_work_folder(Path(out) / WORK)
            if begun and not report:
                raise OutputError(f"{out}: holds an unfinished run; repeat that run with --resume to continue it")
            raise OutputError(
                f"{out}: {_why_unfinished(out) if folder is None else NO_REPORT}; give the OUT of `gpulsh dedup`"
            )
        return cls(out, report, folder)

    def file(self, name: str) -> File:
        """The result of this name, such as `duplicates.parquet`."""
        return self.folder.file(name) if self.folder else File(self._path_or_url(name), name, self._path_or_url(name))

    def shares(self, column: str) -> pa.Table:
        """The number of documents, and of dropped ones, for each value of a column (`originals.value_shares`)."""
        lists = [name for name in (EVIDENCE, "contamination.parquet") if name in self.report["outputs"]]
        return value_shares(self.report, [*map(self.file, lists)], self.rejected(), column)

    def rejected(self) -> File | None:
        """The file of bad records, if the run skipped some."""
        return self.file(REJECTED) if REJECTED in self.report["outputs"] else None

    def remake_page(self, by: Sequence[str]) -> str:
        """Make report.html from report.json, with shares `by` columns, and list it there; its path or URL."""
        page = self.file(PAGE).name
        if reason := missing_requirement():
            raise OutputError(reason)
        is_there = self.folder.exists(PAGE) if self.folder else os.path.lexists(self._path_or_url(PAGE))
        if PAGE not in self.report["outputs"] and is_there:
            raise OutputError(f"{page}: was not written by gpulsh; move it away first")
        outputs = [name for name in self.report["outputs"] if name != PAGE]
        report = {**self.report, "outputs": [*outputs, PAGE], "page": {"written": True, "reason": None}}
        if by:
            before = [entry for entry in self.report.get("shares", ()) if entry["column"] not in by]
            report["shares"] = [*before, *(shares_to_json(column, self.shares(column)) for column in dict.fromkeys(by))]
        try:
            render(report)
        except Exception as error:  # a report that gpulsh did not write may lack any field of the page
            reason = f"is not as gpulsh wrote it, {type(error).__name__}: {error}"
            raise OutputError(f"{self.file(REPORT).name}: {reason}") from error
        # Listed before it is there: nothing of gpulsh's is ever strange to it.
        for name, write in ((REPORT, write_report), (PAGE, write_page)):
            with self._replacing(name) as path:
                write(path, report)
        return page

    def _path_or_url(self, name: str) -> str:
        return os.path.join(self.out, name)

    @contextmanager
    def _replacing(self, name: str) -> Iterator[Path]:
        """A path to write at, whose file then takes the place of that result, at once."""
        if self.folder is None:
            with writing(self.out), temporary_path(Path(self._path_or_url(name))) as part:
                yield part
                os.replace(part, self._path_or_url(name))
            return
        with writing(tempfile.gettempdir()), tempfile.TemporaryDirectory(prefix="gpulsh-") as made:
            yield Path(made, name)
            self.folder.put(name, Path(made, name))


def _why_unfinished(out: str) -> str:
    """Why a folder of this machine has no report of a finished run."""
    try:
        open_file(Path(out, REPORT)).close()
    except FileNotFoundError:
        return NO_REPORT if os.path.exists(out) else "no such folder"
    except NotADirectoryError:
        return "is not a folder"
    except OSError as error:
        return f"{REPORT} in it cannot be read: {os.strerror(error.errno or 0)}"
    return NO_REPORT


def weigh_run(
    out: str | os.PathLike[str],
    output: str | os.PathLike[str],
    weights: str | Mapping[int, float],
    *,
    weight_by: WeightBy,
) -> int:
    """Write the rows of a finished run in `out` to a new folder, with a column `weight`; returns how many rows.

    The folder `output` has the files of `out/data`. `weights` and `weight_by` are as in `deduplicate_files`. A row
    that is marked as not kept has the weight 0. Raises ParameterError for a wrong recipe. Raises OutputError if `out`
    holds no such run, or `output` is not empty or inside `out/data`. Raises InputError if a file has the column
    already, or takes none.
    """
    recipe = parse_recipe(weights)
    output = checked_folder("output", output)
    refuse_url(output)
    finished, target = Finished.of(os.fspath(out)), Path(output)
    report = finished.report
    wrong = None
    if COUNTED not in report["outputs"] or report["parameters"]["write"] == "duplicates":
        wrong = "holds no rows with counts; give OUT of a run that wrote rows, without an index"
    elif "weights" in report["parameters"]:
        wrong = "its rows have a column 'weight' already; give OUT of a run without --weights"
    elif "passages" in report["parameters"]:
        wrong = "comes from a run with --passages; give --weights to that run"
    if wrong:
        raise OutputError(f"{finished.out}: {wrong}")
    written = {number: name for number, name in enumerate(report["written"]) if name is not None}
    files = {number: finished.file(name) for number, name in written.items()}
    refuse_overlap(output, [finished.file(DATA).name], list(files.values()))
    refuse_without_columns(list(files.values()), None)
    columns = Columns(report["parameters"]["text_column"], added=frozenset(SCHEMA.names))
    for file in files.values():
        format_of(file).check(file, columns)
    found = _weights(finished, recipe, weight_by)
    if os.path.lexists(target) and (not target.is_dir() or any(target.iterdir())):
        raise OutputError(f"{target}: is not empty; give another folder")
    with writing(target):
        made, rows = not target.exists(), 0
        target.mkdir(exist_ok=True, parents=True)
        try:
            targets = Targets(target)
            with DurableFiles(target) as written_files:
                for number, file in files.items():
                    place = targets.of(replace(file, relative=written[number].removeprefix(f"{DATA}/")))
                    # A killed attempt leaves no file that looks finished.
                    rows += _write(file, written_files.part(f"{target}/{number}", place), found[number])
                for folder in {os.path.dirname(place) for place in written_files.complete()}:
                    sync(Path(folder))
        except BaseException:
            shutil.rmtree(target) if made else clear(target, ())
            raise
    return rows


def _write(file: File, target: NewFile, weight: NDArray[np.float64]) -> int:
    """Write a file again with the weights of its rows."""

    def column(rows: Numbers) -> pa.RecordBatch:
        return pa.record_batch([to_arrow(weight[rows])], schema=SCHEMA)

    added = AddedColumns(SCHEMA, np.arange(len(weight)), column)
    format_of(file).write_kept(file, np.ones(len(weight), bool), target, added=added)
    return len(weight)


def _weights(finished: Finished, recipe: Recipe, weight_by: WeightBy) -> list[NDArray[np.float64]]:
    """The weights of the rows that each file of INPUT has in `data/`, in order."""
    report = finished.report
    named, parameters = Originals(report).named, report["parameters"]

    def open_input(name: str) -> Evidence:
        file = finished.file(name)
        with reading(file):
            return Evidence(file, named)

    clusters = open_input(COUNTED)
    dropped, listed = open_input(EVIDENCE).rows_by_file(), clusters.rows_by_file()
    counts = Counts(*(clusters.column(name) for name in Counts._fields))
    ends = np.cumsum([len(rows) for rows in listed])
    sizes = np.split(sizes_by(weight_by, counts), ends[:-1])
    bad = rejected_rows(finished.rejected())
    found = []
    for number, (file, entry) in enumerate(zip(named, report["files"], strict=True)):
        document = np.ones(entry["rows"], bool)
        for rows in bad[file.name]:
            document[rows] = False
        kept = document & (parameters.get("min_sources", 1) == 1)
        kept[dropped[number]] = False
        kept[listed[number]] = True
        weight = np.where(kept, recipe.weights(np.ones(1, np.int64)), 0.0)
        weight[listed[number]] = recipe.weights(sizes[number])
        found.append(weight[document if parameters["write"] == "marked" else kept])
    return found
