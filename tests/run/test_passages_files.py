"""Passages of files: what `gpulsh.passages` finds in the same documents, whatever the files, partitions and ranges."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gpulsh
from gpulsh import budget
from gpulsh.repeats import windows
from gpulsh.run.passages import documents, find, mark
from tests.support.files import record, write_rows
from tests.support.texts import licences, pieces

SPANS = ["row", "start", "stop", "first_row", "first_start", "tokens", "occurrences"]


def found(inputs: Any, out: Path, **options: Any) -> pa.Table:
    """The passages of files."""
    given: dict[str, Any] = {"backend": "cpu", "threads": 1, "tokens": 5, **options}
    return pq.read_table(gpulsh.passages_files(inputs, out, **given).passages)


def expected(texts: Sequence[str | None], **options: Any) -> pa.Table:
    """The same of texts in memory."""
    given: dict[str, Any] = {"backend": "cpu", "threads": 1, "tokens": 5, **options}
    return gpulsh.passages(texts, **given).select(SPANS)


def by_position(table: pa.Table, files: dict[str, int]) -> list[dict[str, Any]]:
    """Rows with documents by position, where `files` have so many documents before each."""
    rows = []
    for row in table.to_pylist():
        first = None if row["first_file"] is None else files[row["first_file"]] + row["first_row"]
        rows.append({**row, "row": files[row["file"]] + row["row"], "first_row": first})
    return [{name: row[name] for name in SPANS} for row in rows]


def cut_small(monkeypatch: pytest.MonkeyPatch, partition: int, digests: int) -> None:
    """Partitions of so many bytes, and ranges of so many digests."""
    monkeypatch.setattr(budget, "PARTITION_BYTES", partition)
    monkeypatch.setattr(budget, "PARTITION_BATCHES", 0)
    monkeypatch.setattr(budget, "PARALLEL_BYTES", partition)
    monkeypatch.setattr(budget, "MOST_DIGESTS", digests)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many partitions, ranges, runs and batches."""
    cut_small(monkeypatch, 8000, 1000)
    monkeypatch.setattr(find, "RUN_SAMPLES", 100)
    monkeypatch.setattr(find, "RUN_WINDOWS", 300)
    monkeypatch.setattr(find, "RUN_MET", 50)
    monkeypatch.setattr(documents, "PLACES_AT_ONCE", 700)
    monkeypatch.setattr(mark, "RUN_FIRSTS", 30)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"keep": "minimal"},
    {"keep": "none", "bridge": 3},
    {"whole_lines": True, "bridge": 5},
    {"tokens": 1, "unit": "char"},
    {"tokens": 50, "normalize": "NFC", "symbols": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_licences_in_many_pieces(tmp_path: Path, small: None, options: dict[str, Any]) -> None:
    texts: list[str | None] = [*[text[:2000] for text in licences()[:24]], None, "", "few words"]
    texts += texts[3:6]
    if options.get("tokens") == 1:
        texts = [text[:300] if text else text for text in texts]
    cut = len(texts) // 2
    pq.write_table(pa.table({"text": texts[:cut]}), tmp_path / "a.parquet", row_group_size=4)
    write_rows(tmp_path / "b.jsonl", texts[cut:])
    inputs = [tmp_path / "a.parquet", tmp_path / "b.jsonl"]
    table = found(inputs, tmp_path / "out", **options)
    places = {str(inputs[0]): 0, str(inputs[1]): cut}
    whole = expected(texts, **options)
    assert len(whole) >= 3
    assert by_position(table, places) == whole.to_pylist()


@pytest.mark.parametrize(
    "options",
    [
        {"tokens": 5, "bridge": 2},
        {"tokens": 5, "keep": "minimal", "bridge": 5},
        {"tokens": 3, "keep": "none"},
        {"tokens": 1, "unit": "char"},
        {"tokens": 6, "unit": "char"},
        {"tokens": 50, "whole_lines": True},
        {"bytes": 7},
    ],
    ids=str,
)
def test_documents_of_many_tokens_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    """Each document is a partition, and has more tokens than are sampled, hashed and marked together."""
    licence = licences()[0][:700]
    texts = [
        "a " * 400,
        "a b " * 150,
        "x\ny a\n" * 9 + "a " * 90,
        f"{licence} {licence[:300]} own\n{licence}",
        "b a " * 70,
    ]
    pq.write_table(pa.table({"text": texts}), path := tmp_path / "a.parquet", row_group_size=1)
    given = {"backend": "cpu", **options}
    whole = gpulsh.passages_files(path, tmp_path / "whole", **given)
    cut_small(monkeypatch, 1, 1000)
    monkeypatch.setattr(find, "GIANT_BYTES", 0)
    monkeypatch.setattr(windows, "PIECE", 11)
    monkeypatch.setattr(documents, "PLACES_AT_ONCE", 40)
    pieces = gpulsh.passages_files(path, tmp_path / "pieces", **given)
    assert pieces.passages.read_bytes() == whole.passages.read_bytes()
    assert [pieces.report[name] for name in ("passages", "windows")] == [
        whole.report[name] for name in ("passages", "windows")
    ]
    found = by_position(pq.read_table(pieces.passages), {str(path): 0})
    assert len(found) > 3 and found == gpulsh.passages(texts, **given).select(SPANS).to_pylist()


any_texts = st.lists(
    st.one_of(
        st.none(),
        st.lists(st.sampled_from("abc"), max_size=30).map(" ".join),
        st.lists(pieces, max_size=30).map("".join),
        st.lists(st.sampled_from(["a a a a a a", "漢字漢字", "e\u0301 \u0301", "\0", "क्‍ष 👍🏽"]), max_size=6).map(
            "\n".join
        ),
    ),
    max_size=6,
)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(any_texts, st.sampled_from([1, 2, 5]), st.sampled_from(["first", "minimal", "none"]), st.booleans())
def test_awkward_texts(
    tmp_path_factory: pytest.TempPathFactory, small: None, texts: list[str | None], tokens: int, keep: str, lines: bool
) -> None:
    folder = tmp_path_factory.mktemp("passages")
    path = write_rows(folder / "a.jsonl", texts)
    options = {"tokens": tokens, "keep": keep, "whole_lines": lines, "backend": "reference"}
    table = found(path, folder / "out", **options)
    assert by_position(table, {str(path): 0}) == expected(texts, **options).to_pylist()


def test_every_format(tmp_path: Path) -> None:
    texts = ["one two three four five six", "and one two three four five", "ONE, two; three four five six seven"]
    folder = tmp_path / "in"
    folder.mkdir()
    table = pa.table({"text": texts, "name": ["x", "y", "z"]})
    pq.write_table(table, folder / "a.parquet")
    with pa.OSFile(str(folder / "b.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as out:
        out.write_table(table)
    (folder / "c.csv").write_text("name,text\n" + "".join(f'q,"{text}"\n' for text in texts))
    write_rows(folder / "d.jsonl", texts)
    (folder / "e.json").write_text(json.dumps([{"text": text} for text in texts]))
    (folder / "f.txt").write_text(texts[2])
    wet = b"".join(record(number, text.encode()) for number, text in enumerate(texts))
    (folder / "g.warc.wet.gz").write_bytes(gzip.compress(wet))
    rows = found(folder, tmp_path / "out").to_pylist()
    whole = [*texts * 5, texts[2], *texts]
    starts = dict(zip("abcdefg", (0, 3, 6, 9, 12, 15, 16), strict=True))
    places = {str(path): starts[path.name[0]] for path in folder.iterdir()}
    assert len(places) == 7
    assert by_position(pa.Table.from_pylist(rows), places) == expected(whole).to_pylist()
