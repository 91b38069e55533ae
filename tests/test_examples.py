"""The examples give on real licence texts the results that their docstrings promise."""

import gzip
import json
import re
import runpy
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import gpulsh
from tests.support.files import write_rows
from tests.support.texts import licences

EXAMPLES = Path(__file__).parents[1] / "examples"
FEW = 900
SOURCES = "abc"
GO_ON = {"files", "index_over_days"}  # with what an earlier run left in OUT


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Whole families of licences, which hold near-duplicates."""
    return licences()[-FEW:]


ALONE = {"in_memory", "files", "index_over_days", "choose", "after_deduplication"}
NEEDS = {"datatrove_pipeline": "datatrove", "duckdb_sql": "duckdb", "hugging_face": "datasets", "ray_data": "ray"}
NEEDS |= {"polars_frames": "polars", "scikit_learn": "sklearn"}
Example = Callable[..., str]


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Example:
    """The output of an example, by its name and arguments."""

    def run(name: str, *arguments: object) -> str:
        if name in NEEDS:
            pytest.importorskip(NEEDS[name], reason=f"{NEEDS[name]} is not installed")
        path = EXAMPLES / f"{name}.py"
        monkeypatch.setattr(sys, "argv", [str(path), *map(str, arguments)])
        runpy.run_path(str(path), run_name="__main__")
        return capsys.readouterr().out

    return run


def write(path: Path, texts: list[str]) -> str:
    rows = enumerate(texts)
    return write_rows(path, [{"text": text, "id": row, "source": SOURCES[row % 3]} for row, text in rows])


def candidates(texts: list[str]) -> NDArray[np.int64]:
    """The pairs that the examples' sketch and banding find."""
    signatures = gpulsh.MinHash(num_perm=128).from_texts(texts)
    return gpulsh.candidate_pairs(gpulsh.Banding(bands=21, rows=6)(signatures))


@pytest.fixture(scope="module")
def result(texts: list[str]) -> gpulsh.Decision:
    return gpulsh.deduplicate(texts, source_column=[SOURCES[number % 3] for number in range(FEW)])


@pytest.mark.parametrize("name", sorted(ALONE | NEEDS.keys()))
def test_examples_check_their_arguments(name: str, example: Example, tmp_path: Path) -> None:
    assert (ALONE | NEEDS.keys()) == {path.stem for path in EXAMPLES.glob("*.py")}
    for few in ((), ("only-one",)):
        with pytest.raises(SystemExit, match=rf"^usage: python examples/{name}\.py INPUT\.\.\. OUT$"):
            example(name, *few)
    if name not in GO_ON:
        with pytest.raises(SystemExit, match=r" exists already; give another OUT$"):
            example(name, tmp_path / "texts.parquet", tmp_path)


def test_the_example_in_memory(example: Example, texts: list[str], result: gpulsh.Decision, tmp_path: Path) -> None:
    keep = result.keep
    parts = [write(tmp_path / f"{part}.parquet", half) for part, half in enumerate((texts[:500], texts[500:]))]
    head, *lines = example("in_memory", *parts, tmp_path / "out.parquet").splitlines()
    assert pq.read_table(tmp_path / "out.parquet")["text"].to_pylist() == [texts[row] for row in np.flatnonzero(keep)]
    assert head == f"{keep.sum():,} of {FEW:,} kept" and 100 < keep.sum() < FEW - 100
    assert len(lines) == 5
    for line, row in zip(lines, np.flatnonzero(~keep)[:5], strict=True):
        assert float(line[:5]) >= 0.8 and repr(texts[row][:40]) in line


def test_the_example_files(example: Example, texts: list[str], tmp_path: Path) -> None:
    source = tmp_path / "in"
    for part in range(2):
        write(source / f"{part}.parquet", texts[part::2])
    printed = example("files", source, tmp_path / "out")
    kept = pq.read_table(tmp_path / "out/data")
    assert printed.startswith(f"{FEW:,} documents, {FEW - len(kept):,} dropped\n") and kept.column_names[1] == "id"
    lines = [line for line in printed.splitlines() if re.fullmatch(r"\S+:\d+ is [\d.]+% \S+:\d+", line)]
    assert len(lines) == 5 and all(str(source) in line for line in lines)
    assert example("files", source, tmp_path / "out") == printed  # finished: left as it is


def test_the_example_after_deduplication(
    example: Example, texts: list[str], result: gpulsh.Decision, tmp_path: Path
) -> None:
    printed = example("after_deduplication", write(tmp_path / "in.parquet", texts), tmp_path / "out")
    marked = result.mark(pa.table({"text": texts}))
    component, sources = (np.array(marked[name].fill_null(0)) for name in ("component", "sources"))
    assert f"{result.keep.sum()} of {FEW} documents stay\n" in printed
    assert f"{(result.keep | (component < 3)).sum()} stay if clusters of fewer than 3 are not cut\n" in printed
    assert f"{(sources >= 2).sum()} are held by 2 sources or more\n" in printed
    assert len(re.findall(r"^  \d+ copies and \d+ near-duplicates, from a, b", printed, re.MULTILINE)) == 3
    weight = result.weights("txt360", weight_by="component").sum()
    assert printed.endswith(f"{FEW} rows have weights, {weight:,.0f} in all\n")


def test_the_example_index_over_days(example: Example, texts: list[str], tmp_path: Path) -> None:
    parts = [texts[:300], texts[300:500], texts[100:350]]
    days = [write(tmp_path / f"day{number}.parquet", part) for number, part in enumerate(parts)]
    folder = tmp_path / "known"
    printed = example("index_over_days", *days[:2], folder) + example("index_over_days", days[2], folder)
    keep = gpulsh.deduplicate([text for part in parts for text in part]).keep
    starts = np.cumsum([0, *map(len, parts)])
    for number, (start, stop) in enumerate(pairwise(starts)):
        new, known = keep[start:stop].sum(), keep[:stop].sum()
        assert f"day{number}: {new:,} of {stop - start:,} are new, {known:,} are held" in printed
    assert example("index_over_days", days[1], folder) == "day1: is in the index already\n"
    assert "day2: 0 of 250 are new" in printed and re.search(r"  day2:0 is [\d.]+% day0:\d+", printed)


def test_the_example_choose(example: Example, texts: list[str], tmp_path: Path) -> None:
    printed = example("choose", write(tmp_path / "texts.parquet", texts), tmp_path / "out.parquet")
    dropped = [int(number.replace(",", "")) for number in re.findall(r"threshold 0\.\d: ([\d,]+) of", printed)]
    assert pq.read_table(tmp_path / "out.parquet")["dropped"].to_pylist() == dropped
    assert dropped == sorted(dropped) and dropped[1] == (~gpulsh.deduplicate(texts, threshold=0.8).keep).sum()
    found = re.search(r"(\d+) bands of (\d+) rows compare ([\d.]+)% of the pairs at 0\.8", printed)
    assert found and int(found[1]) * int(found[2]) <= 128 and float(found[3]) >= 99.5
    pattern = re.compile(r"^(\w+\(\d+\)): off by ([\d.]+) on", re.MULTILINE)
    errors = {name: float(error) for name, error in pattern.findall(printed)}
    assert set(errors) == {"MinHash(128)", "MinHash(512)", "OnePermutation(512)"}
    assert errors["MinHash(512)"] < errors["MinHash(128)"] < 0.05 and errors["OnePermutation(512)"] < 0.05


def test_the_example_scikit_learn(example: Example, texts: list[str], tmp_path: Path) -> None:
    path = write(tmp_path / "texts.parquet", texts)
    head, *lines = example("scikit_learn", path, tmp_path / "out.parquet").splitlines()
    known = FEW * 9 // 10
    fingerprints = gpulsh.shingle(texts)
    pairs = np.stack(np.meshgrid(np.arange(known), np.arange(known, FEW)), -1).reshape(-1, 2)
    nearest = gpulsh.jaccard(fingerprints, pairs).reshape(-1, known).max(axis=1)
    similar = int(head.partition(" ")[0])
    assert (pq.read_table(tmp_path / "out.parquet")["similarity"].to_numpy() >= 0.8).sum() == similar
    assert head.endswith(f" of {FEW - known} new texts resemble a known one") and len(lines) == 5
    assert (nearest >= 0.9).sum() <= similar <= (nearest >= 0.7).sum() and 0 < similar < FEW - known


def test_the_example_datatrove_pipeline(example: Example, texts: list[str], tmp_path: Path) -> None:
    source = tmp_path / "in"
    rows = [{"id": f"d{number}", "text": text} for number, text in enumerate(texts[:300])]
    for part in range(2):
        write_rows(source / f"{part}.jsonl", rows[150 * part :][:150])
    example("datatrove_pipeline", source, tmp_path / "out")
    keep = gpulsh.deduplicate([row["text"] for row in rows]).keep
    kept, dropped = (np.flatnonzero(chosen).tolist() for chosen in (keep, ~keep))

    def written(folder: str) -> list[int]:
        files = (tmp_path / "out" / folder).iterdir()
        lines = [line for path in files for line in gzip.decompress(path.read_bytes()).splitlines()]
        return sorted(int(json.loads(line)["id"][1:]) for line in lines)

    assert written("stream/kept") == written("many/kept") == kept and written("stream/dropped") == dropped
    assert len(list((tmp_path / "out/many/kept").iterdir())) == 2 and len(dropped) > 30


def test_the_example_duckdb_sql(example: Example, texts: list[str], result: gpulsh.Decision, tmp_path: Path) -> None:
    path = write(tmp_path / "texts.parquet", texts)
    kept, similar = example("duckdb_sql", path, tmp_path / "out.parquet").splitlines()
    assert kept == f"{result.keep.sum():,} of {FEW:,} kept"
    assert sorted(pq.read_table(tmp_path / "out.parquet")["id"].to_pylist()) == np.flatnonzero(result.keep).tolist()
    pairs = candidates(texts)
    above = (gpulsh.jaccard(gpulsh.shingle(texts), pairs) >= 0.8).sum()
    assert similar == f"{above:,} of {len(pairs):,} candidate pairs are similar" and 0 < above < len(pairs)


def test_the_example_polars_frames(example: Example, texts: list[str], result: gpulsh.Decision, tmp_path: Path) -> None:
    path = write(tmp_path / "texts.parquet", texts)
    head, *lost, last = example("polars_frames", path, tmp_path / "out.parquet").splitlines()
    assert head == f"{result.keep.sum():,} of {FEW:,} kept"
    assert pq.read_table(tmp_path / "out.parquet")["id"].to_pylist() == np.flatnonzero(result.keep).tolist()
    found = Counter(
        f"{SOURCES[row % 3]} duplicate a text of source {SOURCES[result.duplicate_of[row] % 3]}"
        for row in np.flatnonzero(~result.keep)
    )
    assert sorted(lost) == sorted(f"{count} of source {between}" for between, count in found.items()) and len(lost) > 5
    alone = sum(gpulsh.deduplicate(texts[of::3]).keep.sum() for of in range(3))
    assert last == f"{alone:,} kept where each source is alone" and alone > result.keep.sum()


def test_the_example_hugging_face(
    example: Example, texts: list[str], result: gpulsh.Decision, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    printed = example("hugging_face", write(tmp_path / "texts.parquet", texts), tmp_path / "out")
    assert printed == f"{len(candidates(texts)):,} candidate pairs\n{result.keep.sum():,} of {FEW:,} kept\n"
    assert list(datasets.load_from_disk(tmp_path / "out")["id"]) == np.flatnonzero(result.keep).tolist()
