"""`reader="cudf"`: Parquet decoded on the device gives what Arrow's reader gives; errors name the file."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.backends.cuda import CudaBackend
from gpulsh.errors import BackendError, GpulshError, InputError, ParameterError
from gpulsh.io.files import readers
from tests.kernels.cuts import DEFAULT_CUT, HOST_DEFAULT, texts
from tests.kernels.test_device_texts import column
from tests.support.files import read_rows, write_rows
from tests.support.runs import evidence

pytestmark = [pytest.mark.kernels, pytest.mark.usefixtures("in_one_order")]


class Options:
    """pylibcudf's reader options, with the names of 26.10 or, where `old`, of 25.02."""

    def __init__(self, path: str, old: bool) -> None:
        self.path = path
        setattr(self, "set_columns" if old else "set_column_names", lambda names: setattr(self, "names", names))

    def build(self) -> Options:
        return self

    def set_row_groups(self, groups: list[list[int]]) -> None:
        (self.groups,) = groups


def pylibcudf(ops: CudaBackend, read: list[Any], old: bool = False, fails: Exception | None = None) -> Any:
    """A pylibcudf whose reader is Arrow's; `read` records the reader's arguments."""

    def read_parquet(options: Options) -> Any:
        read.append((options.path, options.names, options.groups))
        if fails is not None:
            raise fails
        with pq.ParquetFile(options.path) as source:
            table = source.read_row_groups(options.groups, columns=options.names)
        columns = [part.combine_chunks().cast(pa.large_string()) for part in table.columns]
        return SimpleNamespace(tbl=SimpleNamespace(columns=lambda: tuple(column(ops, part) for part in columns)))

    parquet = SimpleNamespace(
        ParquetReaderOptions=SimpleNamespace(builder=lambda source: Options(source, old)), read_parquet=read_parquet
    )
    return SimpleNamespace(io=SimpleNamespace(parquet=parquet, SourceInfo=lambda paths: paths[0]))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Three files: one in many row groups, one in a single row group, and one without a row."""
    given = texts(60)
    table = pa.table({"text": given, "id": range(len(given)), "rank": [i % 7 for i in range(len(given))]})
    write_rows(tmp_path / "in/a[1].parquet", table[:40], group=6)
    write_rows(tmp_path / "in/b.parquet", table[40:])
    write_rows(tmp_path / "in/c.parquet", table[:0])
    return tmp_path / "in"


def outcome(folder: Path) -> list[Any]:
    return [[read_rows(path) for path in sorted((folder / "data").iterdir())], evidence(folder)]


@DEFAULT_CUT
@pytest.mark.parametrize(("keep", "old"), [("first", False), ("rank", True)])
def test_reader_cudf_gives_the_results_of_arrow(
    selected: CudaBackend, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: str, old: bool
) -> None:
    monkeypatch.setattr(readers, "GROUP_BYTES", 9000)
    read: list[Any] = []
    monkeypatch.setitem(sys.modules, "pylibcudf", pylibcudf(selected, read, old))
    options: dict[str, Any] = {"keep": keep, "id_column": "id"}
    found = gpulsh.deduplicate_files(files, tmp_path / "cudf", reader="cudf", **options)
    monkeypatch.undo()
    wanted = gpulsh.deduplicate_files(files, tmp_path / "arrow", backend="reference", **options)
    assert outcome(tmp_path / "cudf") == outcome(tmp_path / "arrow")
    assert len(outcome(tmp_path / "arrow")[1]) > 5
    assert found.report["parameters"]["reader"] == "cudf" and wanted.report["parameters"]["reader"] == "arrow"
    for name in ("documents", "nulls", "bytes", "shingles", "kept"):
        assert found.funnel[name] == wanted.funnel[name]
    first = [groups for path, names, groups in read if path.endswith("a[1].parquet") and names == ["text"]]
    assert [group for groups in first for group in groups] == list(range(7)) and 1 < len(first) < 7


def check_error(files: Path, tmp_path: Path, error: type[GpulshError], message: str) -> None:
    with pytest.raises(error, match=message):
        gpulsh.deduplicate_files(files, tmp_path / "out", reader="cudf")
    assert not (tmp_path / "out").exists()


@DEFAULT_CUT
def test_unreadable_files_are_named_by_reader_cudf(
    selected: CudaBackend, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pylibcudf", None)
    check_error(files, tmp_path, BackendError, r"reader is 'cudf', and cuDF cannot be imported .*gpulsh\[cudf\]")
    for fails, error, message in [
        (RuntimeError("CUDF failure at: x.cu\nmore"), InputError, r"a\[1\].parquet: cannot be read by cuDF: CUDF fail"),
        (MemoryError("std::bad_alloc"), BackendError, r"a\[1\].parquet: a row group exceeds the device"),
    ]:
        monkeypatch.setitem(sys.modules, "pylibcudf", pylibcudf(selected, [], fails=fails))
        check_error(files, tmp_path, error, message)

    def short(*given: Any) -> Any:
        return readers_read(*given[:2], given[2][:1], *given[3:])

    monkeypatch.setitem(sys.modules, "pylibcudf", pylibcudf(selected, []))
    from gpulsh.io.memory import cudf

    readers_read = cudf.read_row_groups
    monkeypatch.setattr(cudf, "read_row_groups", short)
    check_error(files, tmp_path, InputError, r"a\[1\].parquet: changed while it was read")
    monkeypatch.setattr(cudf, "read_row_groups", readers_read)
    module = pylibcudf(selected, [])
    module.io.parquet.read_parquet = lambda options: SimpleNamespace(tbl=SimpleNamespace(columns=lambda: ()))
    monkeypatch.setitem(sys.modules, "pylibcudf", module)
    check_error(files, tmp_path, InputError, r"a\[1\].parquet: cannot be read by cuDF: cuDF reads 0 columns for 'text'")
    (files / "d.jsonl").write_text('{"text": "words"}\n')
    check_error(files, tmp_path, InputError, r"d.jsonl: is no Parquet file, and cuDF reads only")


@HOST_DEFAULT
def test_reader_cudf_needs_the_backend_cuda(cuda: CudaBackend, files: Path, tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="reader 'cudf' needs the backend 'cuda', and this run has 'cpu'"):
        gpulsh.deduplicate_files(files, tmp_path / "out", reader="cudf", backend="cpu")
    with pytest.raises(ParameterError, match="reader is 'gpu'"):
        gpulsh.deduplicate_files(files, tmp_path / "out", reader="gpu")  # type: ignore[arg-type]
