"""Lines and paragraphs of files: those that `gpulsh.passages` marks in the same documents."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gpulsh
from gpulsh.run.passages import parts
from tests.run.test_passages_files import SPANS, by_position, cut_small
from tests.support.files import read_rows, write_rows
from tests.support.texts import licences

GIVEN: dict[str, Any] = {"backend": "cpu", "threads": 1}


def found(inputs: Any, out: Path, **options: Any) -> pa.Table:
    return pq.read_table(gpulsh.passages_files(inputs, out, **GIVEN, **options).passages)


def expected(texts: Sequence[str | None], **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = gpulsh.passages(texts, **GIVEN, **options).select(SPANS).to_pylist()
    return rows


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many partitions, ranges and runs."""
    cut_small(monkeypatch, 4000, 200)
    monkeypatch.setattr(parts, "RUN_PARTS", 20)


@pytest.mark.parametrize(
    ("unit", "most", "within"),
    [("line", 1, False), ("paragraph", 1, True), ("line", None, True), ("paragraph", 3, False)],
)
def test_licences_in_many_pieces(tmp_path: Path, small: None, unit: str, most: int | None, within: bool) -> None:
    texts: list[str | None] = [*[text[:1500] for text in licences()[:24]], None, "", "few\nwords"]
    texts += [*texts[3:9], *texts[3:9]] * 4
    hosts = [None if number % 5 == 0 else f"host {number % 3}" for number in range(len(texts))]
    cut = len(texts) // 2
    table = pa.table({"text": texts[:cut], "host": hosts[:cut]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=4)
    both = zip(texts[cut:], hosts[cut:], strict=True)
    write_rows(tmp_path / "b.jsonl", [{"text": text, "host": host} for text, host in both])
    inputs = [tmp_path / "a.parquet", tmp_path / "b.jsonl"]
    table = found(inputs, tmp_path / "out", unit=unit, max_copies=most, within="host" if within else None)
    whole = expected(texts, unit=unit, max_copies=most, within=hosts if within else None)
    assert len(whole) >= 3
    assert by_position(table, {str(inputs[0]): 0, str(inputs[1]): cut}) == whole


any_lines = st.lists(st.sampled_from(["a b", "A, b", "c", "", " ", ".", "漢字", "e\u0301", "\0", "क्‍ष"]), max_size=9)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(any_lines.map("\n".join), max_size=9), st.sampled_from(["line", "paragraph"]), st.integers(1, 3))
def test_awkward_texts(
    tmp_path_factory: pytest.TempPathFactory, small: None, texts: list[str], unit: str, most: int
) -> None:
    folder = tmp_path_factory.mktemp("parts")
    path = write_rows(folder / "a.jsonl", [{"text": text} for text in texts])
    table = found(path, folder / "out", unit=unit, max_copies=most)
    assert by_position(table, {str(path): 0}) == expected(texts, unit=unit, max_copies=most)


def test_the_report_and_the_cut(tmp_path: Path) -> None:
    """One line in every document; those beyond the second go."""
    lines = "page {0} has words\nall rights reserved\nand more {0}"
    rows = [{"text": lines.format(number), "n": number} for number in range(9)]
    path = write_rows(tmp_path / "a.jsonl", rows)
    options = {"unit": "line", "max_copies": 2, "cut": True, "min_left": 1}
    result = gpulsh.passages_files(path, tmp_path / "out", **GIVEN, **options)
    report = result.report
    assert report["parameters"]["part"] == "line" and "keep" not in report["parameters"]
    assert report["passages"]["passages"] == report["passages"]["cut_passages"] == 7
    assert report["windows"] == [{"least": 9, "most": 16, "distinct": 1, "before": 8, "after": 1}]
    assert [(one["occurrences"], one["text"]) for one in report["frequent"]] == [(9, "all rights reserved\n")]
    kept = [row["text"] for row in read_rows(result.data / "a.jsonl")]
    assert [text.count("reserved") for text in kept] == [1, 1, *[0] * 7]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "The first 2 of equal lines stay." in page and "How often lines occur" in page
    again = gpulsh.cut_files(path, tmp_path / "cut", passages=result.passages, min_left=1)
    assert (again.data / "a.jsonl").read_bytes() == (result.data / "a.jsonl").read_bytes()


def test_a_line_that_is_everywhere_takes_a_row_a_run(tmp_path: Path, small: None) -> None:
    path = write_rows(tmp_path / "a.jsonl", [{"text": "the same line\n" * 7}] * 300)
    table = found(path, tmp_path / "out", unit="line", max_copies=5)
    assert len(table) == 2095 and set(table["occurrences"].to_pylist()) == {2100}
    assert table.slice(0, 1).to_pylist()[0]["start"] == 5 * 14
    assert set(table["first_row"].to_pylist()) == {0}
