"""Sampling weights for the rows of a finished run: its files again, with a column `weight`.

The counts come from `clusters.parquet`. A kept row that is not listed there is alone, so its size is 1. Which rows were
kept follows from `duplicates.parquet` and `rejected.parquet`, so neither INPUT nor texts are read.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.decide.counts.counts import Counts
from gpulsh.decide.counts.weights import Recipe, WeightBy, chosen_recipe, sizes_by
from gpulsh.errors import OutputError
from gpulsh.io.added import AddedColumns
from gpulsh.io.arrow.buffers import to_arrow
from gpulsh.io.columns import Columns
from gpulsh.io.file import File, reading
from gpulsh.io.files.no_documents import COUNTED, DATA, EVIDENCE
from gpulsh.io.files.places import Targets
from gpulsh.io.formats.endings import format_of
from gpulsh.report.evidence import Evidence
from gpulsh.report.originals import Originals, rejected_rows
from gpulsh.run.counting import refuse_without_columns
from gpulsh.run.output.finished import Finished
from gpulsh.run.output.paths import not_empty, refuse_url
from gpulsh.stats.counts import WEIGHT
from gpulsh.store.durable import completed, unfinished, writing

SCHEMA = pa.schema([(WEIGHT.name, pa.float64())])


def weigh_run(
    out: str | os.PathLike[str],
    output: str | os.PathLike[str],
    weights: str | Mapping[int, float],
    *,
    weight_by: WeightBy = "verified",
) -> int:
    """Write the rows of a finished run in `out` to a new folder, with a column `weight`; returns how many rows.

    The folder `output` has the files of `out/data`. `weights` and `weight_by` are those of `deduplicate_files`. A row
    that is marked as not kept has the weight 0. Raises ParameterError for a wrong recipe, OutputError where `out` holds
    no such run or `output` is not empty, InputError where a file has the column already, or takes none.
    """
    recipe = chosen_recipe(weights)
    refuse_url(os.fspath(output))
    finished, target = Finished.of(os.fspath(out)), Path(output)
    report = finished.report
    if COUNTED not in report["outputs"] or report["parameters"]["write"] == "duplicates":
        raise OutputError(
            f"{finished.out}: holds no rows with counts; give OUT of a run that wrote rows, without an index"
        )
    if "weights" in report["parameters"]:
        raise OutputError(
            f"{finished.out}: its rows have a column 'weight' already; give OUT of a run without --weights"
        )
    if "passages" in report["parameters"]:
        raise OutputError(f"{finished.out}: is of a run with --passages; give --weights to that run")
    written = {number: name for number, name in enumerate(report["written"]) if name is not None}
    files = {number: finished.file(name) for number, name in written.items()}
    refuse_without_columns(list(files.values()), None)
    columns = Columns(report["parameters"]["text_column"], added=frozenset(SCHEMA.names))
    for file in files.values():
        format_of(file).check(file, columns)
    found = _weights(finished, recipe, weight_by)
    if os.path.lexists(target) and (not target.is_dir() or any(target.iterdir())):
        raise not_empty(target, None)
    made, rows = not target.exists(), 0
    with writing(target):
        target.mkdir(exist_ok=True, parents=True)
        try:
            targets = Targets(target)
            for number, file in files.items():
                place = targets.of(replace(file, relative=written[number].removeprefix(f"{DATA}/")))
                rows += _write(file, Path(place), found[number])
        except BaseException:
            for entry in [target] if made else target.iterdir():
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            raise
    return rows


def _write(file: File, target: Path, weight: NDArray[np.float64]) -> int:
    """Write a file again with the weights of its rows."""

    def column(rows: Numbers) -> pa.RecordBatch:
        return pa.record_batch([to_arrow(weight[rows])], schema=SCHEMA)

    with unfinished(target) as part:
        added = AddedColumns(SCHEMA, np.arange(len(weight)), column)
        format_of(file).write_kept(file, np.ones(len(weight), bool), str(part), added=added)
        completed(part, target)
    return len(weight)


def _weights(finished: Finished, recipe: Recipe, weight_by: WeightBy) -> list[NDArray[np.float64]]:
    """The weights of the rows that each file of INPUT has in `data/`, in order."""
    report = finished.report
    named, parameters = Originals(report).named, report["parameters"]
    dropped = _opened(finished, EVIDENCE, named).rows_by_file()
    clusters = _opened(finished, COUNTED, named)
    listed = clusters.rows_by_file()
    counts = Counts(*(clusters.column(name) for name in Counts._fields))
    ends = np.cumsum([len(rows) for rows in listed])
    sizes = np.split(sizes_by(weight_by, counts), ends[:-1])
    has_rejected = "rejected.parquet" in report["outputs"]
    bad = rejected_rows(finished.file("rejected.parquet") if has_rejected else None)
    found = []
    for number, (file, entry) in enumerate(zip(named, report["files"], strict=True)):
        document = np.ones(entry["rows"], bool)
        for rows in bad[file.name]:
            document[rows] = False
        kept = document & (parameters.get("min_sources", 1) == 1)
        kept[dropped[number]] = False
        kept[listed[number]] = True
        weight = np.where(kept, recipe.of(np.ones(1, np.int64)), 0.0)
        weight[listed[number]] = recipe.of(sizes[number])
        found.append(weight[document if parameters["write"] == "marked" else kept])
    return found


def _opened(finished: Finished, name: str, named: Sequence[File]) -> Evidence:
    file = finished.file(name)
    with reading(file):
        return Evidence(file, named)
