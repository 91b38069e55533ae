"""`--index`: new documents get the marks of one run over all documents, earlier ones first."""

import gzip
import json
import os
import re
import shutil
import stat
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gpulsh
from gpulsh import budget
from gpulsh.errors import InputError, OutputError, ParameterError
from gpulsh.run.passages import find
from tests.run.test_passages_files import GIVEN, any_texts, by_position, expected, find_passages, small
from tests.support.command import Command
from tests.support.files import flipped, write_rows
from tests.support.texts import licences


def run_days(folder: Path, runs: Sequence[Sequence[str | None]], **options: Any) -> list[list[dict[str, Any]]]:
    """The passages of successive runs, with documents by position over all of them."""
    starts: dict[str, int] = {}
    tables, before = [], 0
    for number, texts in enumerate(runs):
        path = write_rows(folder / f"{number}.jsonl", texts)
        starts[str(path)], before = before, before + len(texts)
        table = find_passages(path, folder / f"out{number}", index=folder / "index", **options)
        tables.append(by_position(table, starts))
    return tables


def run_in_memory(runs: Sequence[Sequence[str | None]], **options: Any) -> list[list[dict[str, Any]]]:
    """For each run, the new documents' passages from a run in memory over all documents so far."""
    texts: list[str | None] = []
    tables = []
    for new in runs:
        before, texts = len(texts), [*texts, *new]
        tables.append([row for row in expected(texts, **options).to_pylist() if row["row"] >= before])
    return tables


OPTIONS: list[dict[str, Any]] = [
    {},
    {"keep": "minimal"},
    {"keep": "none", "bridge": 3},
    {"whole_lines": True, "bridge": 5},
    {"tokens": 1, "unit": "char"},
    {"tokens": 50, "normalize": "NFC", "symbols": True},
    {"tokens": 50, "bytes": 20},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_three_runs_over_licences_equal_one_in_memory(tmp_path: Path, small: None, options: dict[str, Any]) -> None:
    size = 300 if options.get("tokens") == 1 else 600 if "bytes" in options else 1200
    texts: list[str | None] = [*[text[:size] for text in licences()[:18]], None, "", "few words"]
    runs = [[*texts[:7], texts[2]], [*texts[7:12], texts[3], texts[8]], [*texts[12:], *texts[1:3]]]
    tables = run_days(tmp_path, runs, **options)
    assert tables == run_in_memory(runs, **options)
    assert all(map(len, tables))


def test_parts_of_an_earlier_file_are_read_again(tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later run did not find them: it looks for parts only in its own files."""
    monkeypatch.setattr(budget, "PART_BYTES", 1000)
    monkeypatch.setattr("gpulsh.run.job.MIN_PARTS", 1)
    texts = [text[:600] for text in licences()[:9]]
    runs = [texts[:7], [texts[0], texts[6], *texts[7:]]]
    tables = run_days(tmp_path, runs)
    assert tables == run_in_memory(runs)
    assert tables[1]


repeating = st.lists(st.lists(st.sampled_from("aab"), max_size=14).map(" ".join), min_size=1, max_size=4)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.one_of(any_texts, repeating), min_size=2, max_size=3),
    st.sampled_from([1, 2, 5]),
    st.sampled_from(["first", "minimal", "none"]),
    st.booleans(),
)
def test_runs_through_an_index_equal_one_in_memory(
    tmp_path_factory: pytest.TempPathFactory, small: None, runs: Any, tokens: int, keep: str, lines: bool
) -> None:
    options = {"tokens": tokens, "keep": keep, "whole_lines": lines, "backend": "reference"}
    assert run_days(tmp_path_factory.mktemp("index"), runs, **options) == run_in_memory(runs, **options)


def test_runs_of_other_formats_find_earlier_passages(tmp_path: Path, small: None) -> None:
    """The runs have ids, counts and cut texts."""
    texts = [text[:1500] for text in licences()[:16]]
    write_rows(tmp_path / "a.parquet", [{"text": text, "id": n} for n, text in enumerate(texts)], 3)
    others = [*texts[4:9], "words that only one file has"]
    write_rows(tmp_path / "b.jsonl.gz", [{"text": text, "id": f"n{n}"} for n, text in enumerate(others)])
    given: dict[str, Any] = {"index": tmp_path / "index", **GIVEN, "id_column": "id"}
    first = gpulsh.passages_files(tmp_path / "a.parquet", tmp_path / "one", **given)
    assert first.report["passages"]["earlier_documents"] == first.report["passages"]["first_earlier"] == 0
    result = gpulsh.passages_files(tmp_path / "b.jsonl.gz", tmp_path / "two", **given, cut=True, min_left=0)
    rows = pq.read_table(result.passages).to_pylist()
    assert {row["file"] for row in rows} == {str(tmp_path / "b.jsonl.gz")} and {"n0"} <= {row["id"] for row in rows}
    assert {row["first_file"] for row in rows} == {str(tmp_path / "a.parquet")}
    assert {(row["row"], row["first_row"]) for row in rows} >= {(0, 4)} and max(row["row"] for row in rows) == 4
    counts = result.report["passages"]
    assert (counts["earlier_documents"], counts["documents"], counts["first_earlier"]) == (16, 6, len(rows))
    assert [entry["file"] for entry in result.report["files"]] == [str(tmp_path / "b.jsonl.gz")]
    left = gzip.decompress((result.data / "b.jsonl.gz").read_bytes()).decode().splitlines()
    assert json.loads(left[0])["text"] == "" and json.loads(left[-1])["text"] == "words that only one file has"
    write_rows(tmp_path / "c.jsonl", ["here are words that only one file has", texts[15]])
    given.pop("id_column")
    third = gpulsh.passages_files(tmp_path / "c.jsonl", tmp_path / "three", **given)
    places = {(row["first_file"][-10:], row["first_row"]) for row in pq.read_table(third.passages).to_pylist()}
    assert places >= {("b.jsonl.gz", 5), (str(tmp_path / "a.parquet")[-10:], 15)}
    index = tmp_path / "index"
    assert stat.S_IMODE(index.stat().st_mode) == 0o700 and {path.name for path in index.iterdir()} > {"passages.json"}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in index.iterdir())


def two_days(folder: Path, **options: Any) -> dict[str, Any]:
    """Two files of equal texts, the first of which has joined an index; the parameters of the second run."""
    for name in "ab":
        write_rows(folder / f"{name}.jsonl", ["one two three four five six", f"{name} other words"])
    find_passages(folder / "a.jsonl", folder / "out", index=folder / "index", **options)
    return {"inputs": folder / "b.jsonl", "out": folder / "new", "index": folder / "index", **options}


@pytest.mark.parametrize("how", ["gone", "changed"])
def test_an_earlier_file_must_stay_unchanged(tmp_path: Path, how: str) -> None:
    given, path = two_days(tmp_path), tmp_path / "a.jsonl"
    before = shutil.copytree(tmp_path / "index", tmp_path / "copy")
    path.rename(tmp_path / "aside")
    if how == "changed":
        write_rows(path, ["something else"])
    needed = f"{path}: is gone or changed, and {tmp_path / 'index'} needs it; restore it with its modification time"
    with pytest.raises(InputError, match=f"^{re.escape(needed)}, or start a new index$"):
        find_passages(**given)
    assert not (tmp_path / "new").exists() and sorted(os.listdir(before)) == sorted(os.listdir(tmp_path / "index"))
    write_rows(tmp_path / "c.jsonl", ["nothing of it", "nothing of it here again, nothing of it here again"])
    other = find_passages(tmp_path / "c.jsonl", tmp_path / "other", index=shutil.copytree(before, tmp_path / "apart"))
    assert [row["first_row"] for row in other.to_pylist()] == [1]  # for which the file is not needed
    shutil.copy2(tmp_path / "aside", path)  # the time is the same, the inode is not
    assert len(find_passages(**given)) == 1


def test_other_parameters_and_indexes_are_refused(tmp_path: Path) -> None:
    given = two_days(tmp_path)
    index = tmp_path / "index"
    cases: list[tuple[type[Exception], dict[str, Any], str]] = [
        (ParameterError, {"tokens": 6}, f"{index}: has tokens 5, and this run 6; give the same, or another index"),
        (ParameterError, {"unit": "char"}, f"{index}: has unit 'word', and this run 'char'"),
        (ParameterError, {"text_column": "n"}, f"{index}: has text_column 'text', and this run 'n'"),
        (ParameterError, {"tokens": 50, "bytes": 9}, f"{index}: has tokens 5, and this run None"),
        (ParameterError, {"tokens": 50, "unit": "line"}, "index and unit='line' cannot be combined"),
        (ParameterError, {"protect": "a.jsonl", "passages": 3, "tokens": 50}, "index and protect cannot be combined"),
        (InputError, {"inputs": tmp_path / "a.jsonl"}, f"{index}: holds {tmp_path / 'a.jsonl'} already; leave it"),
        (OutputError, {"index": tmp_path / "new" / "index"}, f"{tmp_path / 'new' / 'index'}: is inside the output"),
        (OutputError, {"index": tmp_path / "out"}, f"{tmp_path / 'out'}: is not an index of passages, it holds "),
    ]
    for kind, options, message in cases:
        with pytest.raises(kind) as caught:
            find_passages(**{**given, **options})
        assert message in str(caught.value) and "\n" not in str(caught.value)
        assert not (tmp_path / "new").exists()
    assert len(find_passages(**given)) == 1
    for use in (gpulsh.Index.open, gpulsh.Index.create):
        with pytest.raises(InputError, match="is an index of passages"):
            use(index)


def test_a_damaged_index_file_is_named(tmp_path: Path) -> None:
    given, index = two_days(tmp_path), tmp_path / "index"
    (samples,) = index.glob("samples-*")
    whole = samples.read_bytes()
    for content, how in ((whole[:-1], "it has .* bytes"), (flipped(whole, len(whole) // 2), "its CRC-32 differs")):
        samples.write_bytes(content)
        with pytest.raises(InputError, match=f"samples-.*: is damaged, {how}"):
            find_passages(**given)
    samples.write_bytes(whole)
    (index / "passages.json").write_bytes(b"crc32 00000000\n{}")
    with pytest.raises(InputError, match=r"passages\.json: is damaged, its checksum differs"):
        find_passages(**given)


def test_two_runs_may_not_use_an_index_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = two_days(tmp_path)
    write_rows(tmp_path / "c.jsonl", ["one two three four five six"])
    messages = []

    def beside(*_: Any) -> None:
        with pytest.raises(OutputError) as error:
            find_passages(tmp_path / "c.jsonl", tmp_path / "third", index=tmp_path / "index")
        messages.append(str(error.value))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("gpulsh.run.file_run.write_report", beside)
        with pytest.raises(KeyboardInterrupt):
            find_passages(**given)
    assert messages == [f"{tmp_path / 'index'}: another run uses this index; wait until it has ended"]
    find_passages(tmp_path / "c.jsonl", tmp_path / "third", index=tmp_path / "index")
    with pytest.raises(OutputError, match="is not as it was when this run began; start again with"):
        find_passages(**given, resume=True)
    assert len(find_passages(**given, overwrite=True)) == 1


def test_a_stream_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    end = os.open(tmp_path / "pipe.jsonl", os.O_RDWR)
    os.write(end, b'{"text": "a"}\n')
    writer = threading.Timer(0.5, os.close, [end])
    writer.start()
    with pytest.raises(ParameterError, match="is a stream, which an index cannot read again; give files"):
        find_passages(tmp_path / "pipe.jsonl", tmp_path / "out", index=tmp_path / "index")
    writer.join()
    assert sorted(os.listdir(tmp_path)) == ["pipe.jsonl"]


def test_bad_records_do_not_enter_the_index(tmp_path: Path, small: None) -> None:
    """A run that fails on one leaves no index."""
    text = "one two three four five six"
    (tmp_path / "a.jsonl").write_text(f'{{"text": "{text}"}}\n{{\n{{"text": "x {text} y"}}\n')
    write_rows(tmp_path / "b.jsonl", [f"z {text} y"])
    with pytest.raises(InputError):
        find_passages(tmp_path / "a.jsonl", tmp_path / "one", index=tmp_path / "index")
    assert not (tmp_path / "index").exists() and not (tmp_path / "one").exists()
    find_passages(tmp_path / "a.jsonl", tmp_path / "one", index=tmp_path / "index", on_error="skip")
    rows = find_passages(tmp_path / "b.jsonl", tmp_path / "two", index=tmp_path / "index").to_pylist()
    assert [(row["first_row"], row["occurrences"]) for row in rows] == [(0, 3), (2, 2)]


def test_the_command_counts_earlier_documents(folder: Path, command: Command) -> None:
    two_days(folder)
    out = command("passages b.jsonl -o new --index index --tokens 5 --backend reference").out
    assert "First occurrence in the 2 documents of earlier runs: 1 passage." in out
    page = Path("new/report.html").read_text()
    assert "1 passage first found in the 2 documents of earlier runs." in page and "New windows" in page


def test_ranges_follow_the_samples_of_all_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MAX_DIGESTS", 30)
    ranges = []
    meet = find.find_repeated_samples

    def counted(place: Any, places: Any, part: int, parts: int) -> Any:
        ranges.append(parts)
        return meet(place, places, part, parts)

    monkeypatch.setattr("gpulsh.run.passages.driver.find_repeated_samples", counted)
    texts = [text[:1000] for text in licences()[:6]]
    runs = [texts[:5], texts[4:]]
    assert run_days(tmp_path, runs) == run_in_memory(runs)
    assert ranges[0] > 3 and ranges[-1] > ranges[0]
