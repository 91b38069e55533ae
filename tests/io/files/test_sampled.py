"""Samples of files: a share of the rows of every format, spread over the whole file and compressed like it."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpulsh.errors import GpulshError
from gpulsh.forecast.sample import sample_files, total_bytes
from gpulsh.io.file import File
from gpulsh.io.files.inputs import find_files
from gpulsh.io.files.read_options import ReadOptions
from gpulsh.io.formats import streamed
from gpulsh.io.formats.endings import format_of
from tests.support.files import new_file, record, texts_of, write_rows

ROWS = 3000
TEXTS = [f"page {number} has {'other ' * (number % 9)}words" for number in range(ROWS)]
TABLE = pa.table({"id": range(ROWS), "text": TEXTS})
LINED = [{"id": n, "text": text.replace(" has ", "\n")} for n, text in enumerate(TEXTS)]
RECORDS = [gzip.compress(record(row, text.encode())) for row, text in enumerate(TEXTS)]
MAKERS: dict[str, Callable[[Path], object]] = {
    "a.parquet": lambda path: pq.write_table(TABLE, path, row_group_size=100, compression="zstd"),
    "a.arrow": lambda path: write_rows(path, TABLE, 500),
    **dict.fromkeys(("a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a.json"), lambda path: write_rows(path, TEXTS)),
    "a.csv": lambda path: write_rows(path, LINED),
    "a.txt": lambda path: path.write_text("\n".join(TEXTS)),
    "a.wet.gz": lambda path: path.write_bytes(b"".join(RECORDS)),
}


def opened(path: Path) -> File:
    (file,) = find_files([str(path)], options=ReadOptions(lines=path.suffix == ".txt"))
    return file


@pytest.mark.parametrize("name", MAKERS)
def test_samples_take_a_share_of_each_format(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed, "STEP", 4096)
    monkeypatch.setattr("gpulsh.io.compression.PACKED_STEP", 4096)
    MAKERS[name](tmp_path / name)
    file, every = opened(tmp_path / name), texts_of(tmp_path / name)
    row = {text: number for number, text in enumerate(every)}
    assert len(row) == ROWS
    for share in (1e-9, 0.02, 0.3, 1.0):
        target = tmp_path / f"{share}-{name}"
        taken = format_of(file).write_sample(file, share, new_file(target))
        found = texts_of(target)
        places = [row[text] for text in found]
        assert places == sorted(set(places))  # rows of the file, in its order
        assert len(found) == pytest.approx(taken * ROWS, rel=0.06, abs=10)
        assert len(found) == pytest.approx(max(share * ROWS, 1), rel=0.06, abs=40)
        if share >= 0.3 and not name.endswith(("parquet", "arrow")):  # whose footers weigh much in so small a file
            assert target.stat().st_size <= 1.12 * share * total_bytes([file])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's")
@pytest.mark.parametrize("name", MAKERS)
def test_a_full_disk_while_sampling_is_an_os_error(name: str, tmp_path: Path) -> None:
    MAKERS[name](tmp_path / name)
    file = opened(tmp_path / name)
    with pytest.raises(OSError, match="No space left on device") as caught:
        format_of(file).write_sample(file, 0.3, new_file("/dev/full"))
    assert not isinstance(caught.value, GpulshError)


def test_samples_of_parquet_are_spread_over_row_groups(tmp_path: Path) -> None:
    MAKERS["a.parquet"](tmp_path / "a.parquet")
    file = opened(tmp_path / "a.parquet")
    assert format_of(file).write_sample(file, 0.08, new_file(tmp_path / "b.parquet")) == pytest.approx(0.08, rel=0.01)
    groups = np.array(pq.read_table(tmp_path / "b.parquet")["id"]) // 100
    assert len(set(groups.tolist())) == 16 and np.bincount(groups).max() == 15
    assert np.diff(np.unique(groups)).max() == 2  # of 30


def test_samples_are_spread_over_a_large_row_group(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": list(map(str, range(20_000)))}), path)
    for share, runs in ((0.2, 32), (0.02, 6), (0.0001, 1)):  # which are no shorter than 64 rows where there are several
        taken = format_of(opened(path)).write_sample(opened(path), share, new_file(tmp_path / "b"))
        assert taken == pytest.approx(share, rel=0.02)
        starts = np.flatnonzero(np.diff(pq.read_table(tmp_path / "b")["text"].to_numpy().astype(int), prepend=-2) > 1)
        assert len(starts) == runs


def test_samples_of_files_are_spread_and_keep_input_folders(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        for number in range(50):
            (tmp_path / folder / f"{number:02}.jsonl").write_bytes(b'{"text": "some words of a page"}\n' * 9000)
    given = [str(tmp_path / folder) for folder in ("one", "two")]
    files = find_files(given)
    sample = sample_files(files, 0.01, tmp_path / "sample")
    assert list(sample.folders) == given and sample.share == pytest.approx(0.01, rel=0.1)
    places = [[file.name for file in files].index(name) for name in sample.names.values()]
    assert len(places) == 16 and set(np.diff(places).tolist()) <= {6, 7}
    assert [file.name for file in find_files(list(sample.folders.values()))] == list(sample.names)
    protected = sample_files(files, 0.01, tmp_path / "protected", given[:1])
    assert len(protected.names) == 32 and protected.share == pytest.approx(0.01, rel=0.1)


def test_bytes_of_adds_up_file_sizes(tmp_path: Path) -> None:
    for name in ("a.parquet", "a.jsonl"):
        MAKERS[name](tmp_path / name)
    assert total_bytes(find_files([str(tmp_path)])) == sum(path.stat().st_size for path in tmp_path.iterdir())
