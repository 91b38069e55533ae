"""`gpulsh sign`: a table in which DuckDB finds the candidates that gpulsh finds."""

import errno
import re
from pathlib import Path
from unittest.mock import Mock, patch

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.backends import cpu
from gpulsh.errors import InputError, OutputError, ParameterError
from gpulsh.io.file import File
from gpulsh.io.formats.parquet import Parquet
from gpulsh.run import signatures
from gpulsh.run.signatures import sign_files
from tests.sketch.test_main_job import documents
from tests.support.command import Command, Printed
from tests.support.files import write_rows


@pytest.fixture
def texts(folder: Path) -> list[str | None]:
    found: list[str | None] = [*documents()[:60], None, "", "..."]
    rows = [{"text": text, "name": f"n{i}" if i < 40 else f"m{i - 40}"} for i, text in enumerate(found)]
    write_rows("a.parquet", rows[:40])
    write_rows("b.jsonl", rows[40:])
    return found


def test_ids_of_one_type_are_joined_and_of_several_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signatures, "PARTITION_BYTES", 1)
    rows = [[{"text": "one two three", "id": given} for given in ids] for ids in ((1, 2), (None, None), (3,), ("x",))]
    inputs = [write_rows(tmp_path / f"{number}.jsonl", some) for number, some in enumerate(rows)]
    out = tmp_path / "out.parquet"
    assert sign_files(inputs[:3], out, id_column="id", backend="reference") == 5
    assert pq.read_table(out)["id"].to_pylist() == [1, 2, None, None, 3]
    monkeypatch.setattr(signatures, "PARTITION_BYTES", 40)  # the third and the fourth file together
    with pytest.raises(InputError, match=r"3\.jsonl: column .id. is string, and int64 in earlier rows"):
        sign_files(inputs, out, id_column="id", backend="reference", overwrite=True)
    assert pq.read_table(out)["id"].to_pylist() == [1, 2, None, None, 3]
    assert sign_files(inputs[1:], out, id_column="id", backend="reference", overwrite=True) == 4
    assert pq.read_table(out)["id"].to_pylist() == [None, None, "3", "x"]


def test_ids_that_parquet_cannot_hold_are_refused(tmp_path: Path) -> None:
    table = pa.table({"text": ["a"], "id": pa.array([1 << 62], pa.timestamp("s"))})
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as file:
        file.write_table(table)
    with pytest.raises(InputError, match="column 'id' has a date that Parquet cannot hold; leave out id_column"):
        sign_files([str(tmp_path / "a.arrow")], tmp_path / "out.parquet", id_column="id", backend="reference")


def rows_that_join(condition: str) -> list[list[int]]:
    """The pairs of rows of out.parquet that DuckDB finds by a condition on `a` and `b`, or by a query."""
    query = condition if " JOIN " in condition else f"SELECT a.document, b.document FROM t a JOIN t b ON {condition}"
    with duckdb.connect() as connection:
        connection.execute("CREATE VIEW t AS SELECT * FROM 'out.parquet'")
        return sorted(map(list, connection.execute(query).fetchall()))


def test_duckdb_finds_the_candidates_by_values_and_bands(texts: list[str | None], command: Command) -> None:
    line = "sign a.parquet b.jsonl -o out.parquet --num-perm 12 --bands 4 --rows 3 --id-column name --backend cpu"
    printed = command(line)
    assert f"Signatures of {len(texts)} documents are in out.parquet" in printed.out
    size = sum(len(text.encode()) for text in texts if text)
    assert f"gpulsh: sign: {len(texts)} documents, {size / 1000:.1f} kB in " in printed.err
    table, others = pq.read_table("out.parquet"), range(len(texts) - 40)
    names = ["document", "file", "row", "id", *(f"v{i}" for i in range(12)), *(f"band{i}" for i in range(4))]
    assert table.column_names == names
    assert table["document"].to_pylist() == list(range(len(texts)))
    assert table["row"].to_pylist() == [*range(40), *others]
    assert table["file"].to_pylist() == ["a.parquet"] * 40 + ["b.jsonl" for _ in others]
    assert table["id"].to_pylist() == [f"n{i}" for i in range(40)] + [f"m{i}" for i in others]
    for name in ("v0", "band3"):
        assert table[name].to_pylist()[-3:] == [None] * 3

    signatures = gpulsh.MinHash(num_perm=12).from_texts(texts, backend="cpu")
    found = np.stack([table[f"v{i}"].to_numpy() for i in range(12)], axis=1)[:-3]
    np.testing.assert_array_equal(found.astype(np.uint32), signatures.values[:-3])
    digests = gpulsh.Banding(bands=4, rows=3)(signatures, backend="cpu")
    wanted = gpulsh.candidate_pairs(digests, backend="cpu").tolist()
    assert len(wanted) > 20

    equal = [" AND ".join(f"a.v{3 * band + row} = b.v{3 * band + row}" for row in range(3)) for band in range(4)]
    assert rows_that_join(f"a.document < b.document AND (({') OR ('.join(equal)}))") == wanted
    bands = " UNION ALL ".join(f"SELECT document, {i} AS band, band{i} AS digest FROM t" for i in range(4))
    joined = f"""WITH bands AS ({bands}) SELECT DISTINCT a.document, b.document FROM bands a JOIN bands b
        ON a.band = b.band AND a.digest = b.digest AND a.document < b.document"""
    assert rows_that_join(joined) == wanted


def test_partitions_of_a_file_change_nothing(texts: list[str | None], monkeypatch: pytest.MonkeyPatch) -> None:
    write_rows("c.parquet", pa.table({"text": texts, "name": range(len(texts))}), 7)
    monkeypatch.setattr("gpulsh.io.formats.parquet.RUN_ROWS", 7)
    for name, size in (("whole", 64 << 20), ("parts", 600)):
        monkeypatch.setattr("gpulsh.run.signatures.PARTITION_BYTES", size)
        sign_files(["c.parquet"], f"{name}.parquet", id_column="name", num_perm=12, bands=4)
    whole, parts = (pq.read_table(f"{name}.parquet") for name in ("whole", "parts"))
    assert pq.ParquetFile("parts.parquet").num_row_groups > 3 and whole.equals(parts)
    assert whole["id"].to_pylist() == whole["row"].to_pylist() == list(range(len(texts)))


def test_rows_of_one_large_file_are_signed_some_at_a_time(
    texts: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rows("c.jsonl", [{"text": text, "name": number} for number, text in enumerate(texts)])
    sign_files(["c.jsonl"], "whole.parquet", id_column="name", num_perm=12, bands=4, backend="cpu")
    monkeypatch.setattr(cpu, "SIZES", cpu.SIZES._replace(batch=200))
    monkeypatch.setattr(signatures, "ROWS_AT_ONCE", 7)
    sign_files(["c.jsonl"], "parts.parquet", id_column="name", num_perm=12, bands=4, backend="cpu")
    assert pq.read_table("parts.parquet").equals(pq.read_table("whole.parquet"))
    groups = pq.read_metadata("parts.parquet")
    assert max(groups.row_group(at).num_rows for at in range(groups.num_row_groups)) < 20
    columns = [groups.row_group(0).column(at) for at in range(groups.num_columns)]
    assert {c.path_in_schema for c in columns if c.dictionary_page_offset is not None} == {"file", "id"}  # not hashes


def test_the_ids_of_a_file_are_read_in_one_pass(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file was read from its beginning for each ROWS_AT_ONCE rows."""
    write_rows("c.jsonl", [{"text": f"text number {number}", "name": number} for number in range(60)])
    monkeypatch.setattr(cpu, "SIZES", cpu.SIZES._replace(batch=100))
    opened = []
    for rows in (7, 60):
        monkeypatch.setattr(signatures, "ROWS_AT_ONCE", rows)
        with patch.object(File, "open", autospec=True, side_effect=File.open) as opening:
            sign_files(["c.jsonl"], f"{rows}.parquet", id_column="name", num_perm=8, bands=2, backend="cpu")
        opened.append(opening.call_count)
        assert pq.read_table(f"{rows}.parquet")["id"].to_pylist() == list(range(60))
    assert pq.ParquetFile("7.parquet").num_row_groups > 3 and opened[0] == opened[1]


def test_the_type_of_ids_of_each_file_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signatures, "PARTITION_BYTES", 1)
    inputs = [write_rows(f"{number}.parquet", [{"text": "one two", "name": f"n{number}"}]) for number in range(4)]
    with patch.object(Parquet, "column_type", autospec=True, side_effect=Parquet.column_type) as asked:
        sign_files(inputs, "out.parquet", id_column="name", backend="reference")
    assert asked.call_count == 4 and pq.read_table("out.parquet")["id"].to_pylist() == ["n0", "n1", "n2", "n3"]


def test_other_sketches_and_empty_files_are_signed(folder: Path) -> None:
    write_rows("one.parquet", ["one two three four five six"])
    sign_files(["one.parquet"], "wide.parquet", sketch=gpulsh.MinHash(num_perm=9, family="affine61"))
    assert pq.read_schema("wide.parquet").field("v8").type == pa.uint64()
    write_rows("none.parquet", pa.table({"text": pa.array([], pa.string())}))
    assert sign_files(["none.parquet"], "out.parquet") == pq.read_table("out.parquet").num_rows == 0


def test_simhash_writes_words_and_table_digests(texts: list[str | None], command: Command) -> None:
    assert command("sign a.parquet b.jsonl -o out.parquet --sketch simhash:128:20 --backend cpu").status == 0
    table = pq.read_table("out.parquet")
    sketch = gpulsh.SimHash(bits=128)
    tables = len([name for name in table.column_names if name.startswith("band")])
    assert [name for name in table.column_names if name.startswith("v")] == ["v0", "v1"] and tables > 1
    wanted = sketch.from_texts(texts, backend="cpu")
    assert table["v1"].to_pylist() == [*wanted.values[:-3, 1].tolist(), None, None, None]

    near = gpulsh.HammingTables(bits=128, distance=20).pairs(wanted, backend="cpu")
    near = near[(near < len(texts) - 3).all(axis=1)]
    assert len(near) > 5
    bands = " OR ".join(f"a.band{i} = b.band{i}" for i in range(tables))
    apart = " + ".join(f"bit_count(xor(a.v{i}, b.v{i})::BIT)" for i in range(2))
    assert rows_that_join(f"a.document < b.document AND ({bands}) AND {apart} <= 20") == near.tolist()


def test_wrong_options_and_writes_are_named(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a.txt").write_text("some text")
    for line, message in (
        ("a.txt -o out.csv", "give a file that ends with .parquet"),
        ("none.txt -o o.parquet", "none.txt"),
        ("a.txt -o o.parquet --sketch minhush", "sketch is 'minhush'"),
    ):
        assert message in command(f"sign {line}").error
    with pytest.raises(ParameterError, match="measure is 'containment', which has no signatures"):
        sign_files(["a.txt"], "o.parquet", measure="containment")
    for error, message in (
        (OSError(errno.ENOSPC, "full"), "o.parquet: cannot be written: No space left on device"),
        (OutputError("elsewhere: cannot be written"), "^elsewhere: cannot be written$"),
    ):
        monkeypatch.setattr("gpulsh.run.signatures._make_table", Mock(side_effect=error))
        with pytest.raises(OutputError, match=message):
            sign_files(["a.txt"], "o.parquet", backend="cpu")
    assert not Path("o.parquet").exists()


def test_no_input_is_replaced(texts: list[str | None], folder: Path) -> None:
    before = Path("a.parquet").read_bytes()
    for given, message in (
        ("a.parquet", "a.parquet: is the input itself; give another path"),
        ("*.parquet", "a.parquet: is the input a.parquet; give another path"),
        (f"file://{folder}/a.parquet", "a.parquet: is the input itself; give another path"),
        (".", "a.parquet: is inside the input .; give a path outside of it"),
    ):
        with pytest.raises(OutputError, match=f"^{re.escape(message)}$"):
            sign_files([given], "a.parquet", backend="reference")
    assert Path("a.parquet").read_bytes() == before


# --- a file that a command writes never takes the place of one that gpulsh did not write ---


WRITERS = {
    "sign": "sign in.jsonl",
    "build": "index build index{} in.jsonl",
    "add": "index add index in{}.jsonl",
    "query": "index query index in.jsonl",
}


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
@pytest.mark.parametrize("name", WRITERS)
def test_only_files_of_gpulsh_are_replaced(name: str, ending: str, folder: Path, command: Command) -> None:
    if (name, ending) == ("sign", "jsonl"):
        return
    for number in ("", 0, 1, 2, 3, 4):
        write_rows(f"in{number}.jsonl", ["one two", "one two", "three"])
    if name in ("add", "query"):
        assert command("index build index in0.jsonl --backend reference").status == 0

    def write(number: int, more: str = "") -> Printed:
        return command(f"{WRITERS[name].format(number)} -o out.{ending} --backend reference {more}")

    assert write(1).status == 0
    assert "is there already; give another file, or --overwrite if gpulsh wrote it" in write(2).error
    assert write(3, "--overwrite").status == 0
    write_rows(f"out.{ending}", ["mine"])
    before = Path(f"out.{ending}").read_bytes()
    assert (write(4).status, write(4, "--overwrite").status) == (1, 1)
    assert Path(f"out.{ending}").read_bytes() == before
