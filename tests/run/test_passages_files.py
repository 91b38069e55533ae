"""Passages of files equal those of `gpulsh.passages` on the same documents, whatever the files and the cuts."""

import gzip
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gpulsh
from gpulsh import budget
from gpulsh.backends import cpu
from gpulsh.errors import InputError
from gpulsh.io import normal_form
from gpulsh.repeats import copies, places, windows
from gpulsh.run.passages import documents, find, mark, parts
from tests.support.command import Command
from tests.support.files import damage_column, read_rows, record, rejected, write_rows
from tests.support.runs import small_partitions
from tests.support.texts import licences, pieces

SPANS = ["row", "start", "stop", "first_row", "first_start", "tokens", "occurrences"]


GIVEN: dict[str, Any] = {"backend": "cpu", "threads": 1, "tokens": 5}


def find_passages(inputs: Any, out: Path, **options: Any) -> pa.Table:
    return pq.read_table(gpulsh.passages_files(inputs, out, **{**GIVEN, **options}).passages)


def expected(texts: Sequence[str | None], **options: Any) -> pa.Table:
    return gpulsh.passages(texts, **{**GIVEN, **options}).select(SPANS)


def by_position(table: pa.Table, files: dict[str, int]) -> list[dict[str, Any]]:
    """Rows with documents by position; `files` gives the number of documents before each file."""
    rows = []
    for row in table.to_pylist():
        first = None if row["first_file"] is None else files[row["first_file"]] + row["first_row"]
        rows.append({**row, "row": files[row["file"]] + row["row"], "first_row": first})
    return [{name: row[name] for name in SPANS} for row in rows]


def each_alone(folder: Path, **columns: Sequence[str | None]) -> dict[str, int]:
    """Write each row to its own file, for `by_position`: small row groups of one file would be read as one batch."""
    files = {}
    for number in range(len(columns["text"])):
        row = {name: pa.array(values[number : number + 1], pa.string()) for name, values in columns.items()}
        files[write_rows(folder / f"{number}.parquet", pa.table(row))] = number
    return files


def cut_small(monkeypatch: pytest.MonkeyPatch, partition: int, digests: int) -> None:
    """Partitions have so many bytes, and ranges so many digests."""
    small_partitions(monkeypatch, partition)
    monkeypatch.setattr(budget, "MAX_DIGESTS", digests)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_small(monkeypatch, 8000, 1000)
    for name, size in (("RUN_SAMPLES", 100), ("RUN_WINDOWS", 300), ("RUN_MET", 50)):
        monkeypatch.setattr(find, name, size)
    monkeypatch.setattr(documents, "PLACES_AT_ONCE", 700)
    monkeypatch.setattr(mark, "RUN_FIRSTS", 30)


LONG_PIECES = [
    *("a", "a a ", "a b ", "é", "é ", "語", "ﬁ", "\ufdfa", "😀", " .", "\n", "\na b\n"),
    *("e\u0301 ", "\u0301", "a" * 40, "b a " * 20),
]
LONG_OPTIONS: list[dict[str, Any]] = [
    {"tokens": 2},
    {"tokens": 5, "bridge": 5},
    {"tokens": 3, "unit": "char"},
    {"bytes": 5},
    {"tokens": 1, "symbols": True},
    {"tokens": 2, "normalize": "NFC"},
    {"tokens": 2, "unit": "char", "normalize": "NFKC"},
    {"tokens": 2, "whole_lines": True},
    {"tokens": 3, "unit": "char", "symbols": True, "whole_lines": True},
    {"tokens": 2, "unit": "char", "normalize": "NFKC", "whole_lines": True},
    {"tokens": 50, "whole_lines": True},
]


@settings(max_examples=18, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(st.sampled_from(LONG_PIECES), min_size=10, max_size=80).map("".join), min_size=1, max_size=3),
    st.sampled_from(LONG_OPTIONS),
    st.sampled_from(["first", "minimal", "none"]),
    st.sampled_from([0, 1]),
    st.sampled_from(["cpu", "reference"]),
)
def test_passages_of_long_documents_depend_on_no_piece(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], how: Any, keep: str, bridge: int, backend: str
) -> None:
    """Each document is a partition, and has more tokens than are sampled, hashed and marked together."""
    options = {"backend": backend, "keep": keep, "bridge": bridge, **how}
    folder = tmp_path_factory.mktemp("long")
    files = each_alone(folder, text=texts)
    whole = gpulsh.passages_files(list(files), folder / "whole", **options)
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch, 1, 1000)
        patch.setattr(find, "GIANT_BYTES", 0)
        patch.setattr(windows, "PIECE", 4)
        patch.setattr(documents, "PLACES_AT_ONCE", 7)
        patch.setattr(mark, "LOOKAHEAD", 40)
        for module in (normal_form, places):
            patch.setattr(module, "PIECE_BYTES", 5)
        result = gpulsh.passages_files(list(files), folder / "out", **options)
    wanted = gpulsh.passages(texts, **options).select(SPANS)
    assert by_position(pq.read_table(result.passages), files) == wanted.to_pylist()
    assert result.passages.read_bytes() == whole.passages.read_bytes()
    assert all(result.report[name] == whole.report[name] for name in ("passages", "windows"))
    assert result.report["passages"]["documents_marked"] == len(wanted["row"].unique())


awkward = st.sampled_from(["a a a a a a", "漢字漢字", "e\u0301 \u0301", "\0", "क्‍ष 👍🏽"])
any_text = st.one_of(
    st.none(),
    st.lists(st.sampled_from("abc"), max_size=30).map(" ".join),
    st.lists(pieces, max_size=30).map("".join),
    st.lists(awkward, max_size=6).map("\n".join),
)
any_texts = st.lists(any_text, max_size=6)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(any_texts, st.sampled_from([1, 2, 5]), st.sampled_from(["first", "minimal", "none"]), st.booleans())
def test_passages_of_awkward_texts_equal_a_run_in_memory(
    tmp_path_factory: pytest.TempPathFactory, small: None, texts: list[str | None], tokens: int, keep: str, lines: bool
) -> None:
    folder = tmp_path_factory.mktemp("passages")
    path = write_rows(folder / "a.jsonl", texts)
    options = {"tokens": tokens, "keep": keep, "whole_lines": lines, "backend": "reference"}
    table = find_passages(path, folder / "out", **options)
    assert by_position(table, {str(path): 0}) == expected(texts, **options).to_pylist()


def test_passages_are_found_across_every_format(tmp_path: Path) -> None:
    texts = ["one two three four five six", "and one two three four five", "ONE, two; three four five six seven"]
    folder = tmp_path / "in"
    for name in ("a.parquet", "b.arrow", "c.csv", "d.jsonl", "e.json"):
        write_rows(folder / name, [{"name": "q", "text": text} for text in texts])
    (folder / "f.txt").write_text(texts[2])
    wet = b"".join(record(number, text.encode()) for number, text in enumerate(texts))
    (folder / "g.warc.wet.gz").write_bytes(gzip.compress(wet))
    starts = dict(zip("abcdefg", (0, 3, 6, 9, 12, 15, 16), strict=True))
    files = {str(path): starts[path.name[0]] for path in folder.iterdir()}
    wanted = expected([*texts * 5, texts[2], *texts])
    assert by_position(find_passages(folder, tmp_path / "out"), files) == wanted.to_pylist() and len(files) == 7


def test_a_batch_has_few_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window takes 24 bytes, several batches are held, and each byte of a text may begin a window."""
    monkeypatch.setattr(cpu, "SIZES", cpu.SIZES._replace(batch=160_000))
    counts, write = list[int](), find._write_windows
    monkeypatch.setattr(
        find, "_write_windows", lambda run, *out: counts.extend(len(w.place) for w in run) or write(run, *out)
    )
    texts = [f"{number:040}" for number in range(5000)]
    find_passages(write_rows(tmp_path / "a.jsonl", texts), tmp_path / "out", bytes=5, tokens=50)
    assert sum(counts) == 36 * len(texts) and max(counts) <= 40_000


# --- lines and paragraphs equal those that `gpulsh.passages` marks ---


OF_PARTS: dict[str, Any] = {"tokens": 50, "backend": "cpu", "threads": 1}


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_small(monkeypatch, 4000, 200)
    monkeypatch.setattr(parts, "RUN_PARTS", 3)


any_lines = st.lists(st.sampled_from(["a b", "A, b", "c", "", " ", ".", "漢字", "e\u0301", "\0", "क्‍ष"]), max_size=9)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(any_lines.map("\n".join), st.sampled_from([None, "x", "y"])), min_size=1, max_size=9),
    st.sampled_from(["line", "paragraph"]),
    st.sampled_from([1, 2, 3, None]),
    st.booleans(),
    st.sampled_from([1, 2, 5, 1 << 20]),
)
def test_repeated_lines_of_awkward_texts_equal_a_run_in_memory(
    tmp_path_factory: pytest.TempPathFactory,
    small_parts: None,
    rows: list[tuple[str, str | None]],
    unit: str,
    most: int | None,
    within: bool,
    piece: int,
) -> None:
    """They come in whole batches, and as documents in pieces of so many bytes."""
    folder = tmp_path_factory.mktemp("parts")
    texts, hosts = [text for text, _ in rows], [host for _, host in rows]
    files = each_alone(folder, text=texts, host=hosts)
    options: dict[str, Any] = {"unit": unit, "max_copies": most, "tokens": 50}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copies, "PIECE_BYTES", piece)
        if piece < 9:
            cut_small(patch, 1, 200)
        table = find_passages(list(files), folder / "out", **options, within="host" if within else None)
    whole = expected(texts, **options, within=hosts if within else None)
    assert by_position(table, files) == whole.to_pylist()


def test_repeated_lines_are_reported_and_cut(tmp_path: Path) -> None:
    """Every document has one line; its copies after the second are cut."""
    lines = "page {0} has words\nall rights reserved\nand more {0}"
    rows = [{"text": lines.format(number), "n": number} for number in range(9)]
    path = write_rows(tmp_path / "a.jsonl", rows)
    options = {"unit": "line", "max_copies": 2, "cut": True, "min_left": 1}
    result = gpulsh.passages_files(path, tmp_path / "out", **OF_PARTS, **options)
    report = result.report
    assert report["parameters"]["part"] == "line" and "keep" not in report["parameters"]
    assert report["passages"]["passages"] == report["passages"]["cut_passages"] == 7
    assert report["windows"] == [{"least": 9, "most": 16, "distinct": 1, "before": 8, "after": 1}]
    assert [(one["occurrences"], one["text"]) for one in report["frequent"]] == [(9, "all rights reserved\n")]
    kept = [row["text"] for row in read_rows(result.data / "a.jsonl")]
    assert [text.count("reserved") for text in kept] == [1, 1, *[0] * 7]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "The first 2 of equal lines stay." in page and "How often lines occur" in page
    gpulsh.passages_files(write_rows(tmp_path / "no.jsonl", []), tmp_path / "none", **OF_PARTS, unit="line")
    assert "<h1>None of the text repeats</h1>" in (tmp_path / "none" / "report.html").read_text()
    again = gpulsh.cut_files(path, tmp_path / "cut", passages=result.passages, min_left=1)
    assert (again.data / "a.jsonl").read_bytes() == (result.data / "a.jsonl").read_bytes()


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "csv"])
def test_messages_name_the_option_within(tmp_path: Path, ending: str) -> None:
    path = write_rows(tmp_path / f"a.{ending}", [{"text": "a page", "n": 1.5}])
    messages = {"host": "has no column 'host', which within names"}
    messages |= {} if ending == "csv" else {"n": "within takes"}
    for within, message in messages.items():
        with pytest.raises(InputError, match=message):
            gpulsh.passages_files(path, tmp_path / "out", within=within, **OF_PARTS, unit="line")


def test_groups_match_their_files_when_read_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread may stop anywhere: files were read while values were taken, and documents got others' values."""
    rows = [{"text": f"line {row % 7}\nand {row % 5}", "host": f"{row % 3}"} for row in range(300)]
    for number in range(30):
        write_rows(tmp_path / "in" / f"{number:02}.jsonl", rows[10 * number : 10 * number + 10])
    concatenate = np.concatenate

    def slow(*arrays: Any, **options: Any) -> Any:
        joined = concatenate(*arrays, **options)
        if threading.current_thread() is not threading.main_thread():
            sleep(0.001)
        return joined

    monkeypatch.setattr(np, "concatenate", slow)
    monkeypatch.setattr(cpu, "SIZES", cpu.SIZES._replace(batch=200))
    options: dict[str, Any] = {"unit": "line", "max_copies": 1}
    table = find_passages(tmp_path / "in", tmp_path / "out", within="host", threads=2, tokens=50, **options)
    within = [row["host"] for row in rows]
    wanted = gpulsh.passages([row["text"] for row in rows], within=within, backend="cpu", **options)
    names = ["start", "stop", "first_start", "tokens", "occurrences"]
    assert table.select(names).equals(wanted.select(names))


def test_a_line_in_every_document_takes_one_row_an_occurrence(tmp_path: Path, small_parts: None) -> None:
    path = write_rows(tmp_path / "a.jsonl", [{"text": "the same line\n" * 7}] * 300)
    table = find_passages(path, tmp_path / "out", unit="line", max_copies=5, tokens=50)
    assert len(table) == 2095 and set(table["occurrences"].to_pylist()) == {2100}
    assert table.slice(0, 1).to_pylist()[0]["start"] == 5 * 14
    assert set(table["first_row"].to_pylist()) == {0}


def test_a_document_in_pieces_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_parts: None) -> None:
    monkeypatch.setattr(copies, "PIECE_BYTES", 50)
    path = write_rows(tmp_path / "a.jsonl", ["the same line\n" * 40])
    found = gpulsh.passages_files(path, tmp_path / "out", **OF_PARTS, unit="line", max_copies=1).report["passages"]
    assert (found["passages"], found["documents_marked"]) == (39, 1)


# --- bad records: `on_error="skip"` lists them, and no result holds them ---


SAME = "one two three four five six seven"
WITH_BAD = [f"a {SAME}", None, f"b {SAME}", "c", None, f"d\n{SAME}\n{SAME}", f"e\n{SAME}"]
BAD = {1: '{"text": "no end', 4: '{"text": 7}'}
CUT: dict[str, Any] = {"backend": "cpu", "threads": 1, "cut": True, "min_left": 0}


@pytest.fixture(params=[False, True], ids=["plain", "gzip"])
def bad_records(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    rows = [BAD.get(number, json.dumps({"text": text})) for number, text in enumerate(WITH_BAD)]
    content = "".join(f"{row}\n" for row in rows).encode()
    path = tmp_path / ("a.jsonl.gz" if request.param else "a.jsonl")
    path.write_bytes(gzip.compress(content) if request.param else content)
    return path


@pytest.mark.parametrize("options", [{"tokens": 5}, {"unit": "line", "max_copies": 1}], ids=str)
def test_bad_records_are_listed_and_left_out(
    bad_records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    path = bad_records
    small_partitions(monkeypatch, 40)
    with pytest.raises(InputError, match=r"a\.jsonl"):
        gpulsh.passages_files(path, tmp_path / "failed", **CUT, **options)
    result = gpulsh.passages_files(path, tmp_path / "out", **CUT, **options, on_error="skip")
    columns = [*SPANS[:3], "first_row", *SPANS[4:]]
    wanted = gpulsh.passages(WITH_BAD, backend="cpu", **options).select(columns)
    assert pq.read_table(result.passages).select(columns).to_pylist() == wanted.to_pylist() != []
    assert [row["row"] for row in rejected(tmp_path / "out")] == [1, 4]
    found = result.report["passages"]
    assert (found["documents"], found["nulls"], found["rejected"]) == (5, 0, 2)
    assert "rejected.parquet" in result.report["outputs"] and result.report["parameters"]["on_error"] == "skip"
    data = (result.data / path.name).read_bytes()
    kept = [row["text"] for row in read_rows(result.data / path.name)]
    expected = gpulsh.cut(WITH_BAD, gpulsh.passages(WITH_BAD, backend="cpu", **options), min_left=0, backend="cpu")
    assert kept == [text for number, text in enumerate(expected.texts.to_pylist()) if number not in BAD]
    again = gpulsh.cut_files(path, tmp_path / "cut", passages=result.passages, min_left=0, backend="cpu")
    assert (again.data / path.name).read_bytes() == data


def test_a_damaged_row_group_is_skipped(tmp_path: Path) -> None:
    path = Path(write_rows(tmp_path / "a.parquet", [f"{number} {SAME}" for number in range(6)], 2))
    damage_column(path, 1, "text")
    result = gpulsh.passages_files(path, tmp_path / "out", **CUT, tokens=5, on_error="skip")
    assert [row["row"] for row in read_rows(result.passages)] == [1, 4, 5]
    assert [(row["row"], row["rows"]) for row in rejected(tmp_path / "out")] == [(2, 2)]
    assert pq.read_table(result.data / "a.parquet").num_rows == 4


def test_the_command_lists_bad_records(bad_records: Path, tmp_path: Path, command: Command) -> None:
    printed = command(f"passages {bad_records} -o {tmp_path}/out --tokens 5 --on-error skip")
    assert printed.status == 0 and "Bad records are in rejected.parquet: 2." in printed.out
