"""Adding documents holds a bounded part of them in memory, whatever their number and the cuts of their keys."""

import errno
import gc
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from gpulsh import Index
from gpulsh.arrays import Fingerprints
from gpulsh.backends import reference
from gpulsh.backends.cpu import CpuBackend
from gpulsh.backends.select import select_backend
from gpulsh.cli import main
from gpulsh.decide import large_buckets, meeting
from gpulsh.decide.edges import Edges
from gpulsh.errors import DeviceMemoryError, OutputError, ParameterError
from gpulsh.index import collection, merging
from gpulsh.index.admission import HeldSets
from gpulsh.index.evidence import blocks
from gpulsh.index.evidence.texts import fingerprint_sets
from gpulsh.index.keys import KeyStream
from gpulsh.method import MeasureName
from gpulsh.params import Shingling
from gpulsh.ragged import offsets
from gpulsh.run.index import jobs
from gpulsh.store.columns import Column
from tests.support.command import Command
from tests.support.files import read_rows, write_rows
from tests.support.rows import same
from tests.support.texts import KEYS, batch_of
from tests.support.traced import at_most

SMALL = reference.SIZES._replace(batch=2000)


def text(number: int) -> str:
    return " ".join(f"{number}x{i}" for i in range(15))


def near_copies(count: int) -> list[str]:
    common = " ".join(f"w{number}" for number in range(60))
    return [f"{common} own{number}" for number in range(count)]


def test_keys_of_two_types_are_refused() -> None:
    for own, pieces in (("integer", [["a"]]), (None, [[1, 2], ["a"]])):
        stream = KeyStream([pa.array(piece) for piece in pieces], own)
        with pytest.raises(ParameterError, match="of kind string, and the index has keys of kind integer"):
            stream.take(3)


@contextmanager
def small_batches(spill: int) -> Iterator[None]:
    """Batches have 2000 bytes, and segments are written from `spill` bytes on."""
    with (
        mock.patch.object(reference, "SIZES", SMALL),
        mock.patch.object(merging, "SPILL_BYTES", spill),
        mock.patch.object(jobs, "KEYS_AT_ONCE", 7),
    ):
        yield


def max_held(path: Path, count: int, spill: int) -> tuple[int, int]:
    """The most bytes of segments in memory while `count` documents are added, and those of the largest join."""
    held, joins = [0], [0]
    settled, joined = merging.merge_small, merging.merge_in_memory

    def settles(*given: Any) -> Any:
        found = settled(*given)
        held.append(sum(segment.bytes for segment in found))
        return found

    def joins_parts(*given: Any) -> Any:
        whole = joined(*given)
        joins.append(whole.bytes)
        return whole

    with (
        small_batches(spill),
        mock.patch.object(collection, "merge_small", settles),
        mock.patch.object(merging, "merge_in_memory", joins_parts),
        Index.create(path, backend="reference") as index,
    ):
        index.add(range(count), [text(number) for number in range(count)])
        index.save()
    assert len(Index.open(path, backend="reference")) == count
    return max(held), max(joins)


def test_memory_does_not_grow_with_the_documents_added(tmp_path: Path) -> None:
    """Larger segments are merged while they are written."""
    (few, _), (many, join) = (max_held(tmp_path / str(count), count, 30_000) for count in (200, 700))
    assert few == pytest.approx(many, rel=0.2) and 10_000 < many <= 60_000 and 0 < join <= 30_000


def test_small_segments_of_several_calls_are_written_too(tmp_path: Path) -> None:
    """A call with a large batch and a small one makes two segments, and both count."""
    large, few = [text(number) for number in range(80)], ["one more text"]
    sizes = SMALL._replace(batch=sum(len(one) for one in large) + 1)
    with (
        mock.patch.object(reference, "SIZES", sizes),
        mock.patch.object(merging, "SPILL_BYTES", 50_000),
        Index.create(tmp_path / "i", backend="reference") as index,
    ):
        for call in range(5):
            index.insert(range(call << 10, (call << 10) + 81), [*large, *few])
            assert sum(segment.bytes for segment in index.collection.contents.segments) <= 50_000
        assert any(segment.files for segment in index.collection.contents.segments)


def test_the_spill_limit_follows_the_budget() -> None:
    assert merging.spill_bytes(None) == merging.spill_bytes(8 << 30) == 128 << 20
    assert merging.spill_bytes(512 << 20) == 32 << 20
    assert Index(memory="1GiB").collection.spill == Index(memory=1 << 30).collection.spill == 64 << 20
    for wrong in ("1 page", 0, 1 << 20):
        with pytest.raises(ParameterError, match="memory is"):
            Index(memory=wrong)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")  # of a file that nobody closes
@pytest.mark.parametrize("whole", [False, True])
def test_segments_are_merged_in_bounded_runs(whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No run of rows is longer than it may be, and a full disk is an error that leaves the index unchanged."""
    count = 300
    max_held(tmp_path / "i", count, 15_000)
    runs: list[int] = []
    real = Column.append

    def append(column: Column, values: Any) -> None:
        runs.append(len(values))
        if not whole and len(runs) == 50:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(column, values)

    monkeypatch.setattr(Column, "append", append)
    monkeypatch.setattr(merging, "ROWS_AT_ONCE", 64)
    monkeypatch.setattr(merging, "SAMPLE_STEP", 4)
    before = sorted(os.listdir(tmp_path / "i"))
    with Index.open(tmp_path / "i", backend="reference") as index:
        if whole:
            index.compact()
            segments = sum(name.startswith("keys-") for name in before)
            assert segments > 4 and max(runs) <= 64 + 4 * segments and len(runs) > 150
            assert len(os.listdir(tmp_path / "i")) == 8
        else:
            with pytest.raises(OutputError, match="No space left"):
                index.compact()
            assert sorted(os.listdir(tmp_path / "i")) == before
            with warnings.catch_warnings(action="ignore", category=ResourceWarning):
                gc.collect()  # after an error, the collector closes the other files without a name
    index = Index.open(tmp_path / "i", backend="reference")
    assert len(index) == count and all(key in index for key in (0, 1, count - 1))
    assert index.query([text(7)]).keys.tolist() == [7]


@pytest.mark.parametrize("measure", get_args(MeasureName))
def test_many_similar_documents_are_paired_in_bounded_blocks(measure: MeasureName) -> None:
    """700 new documents are each similar to 700 held ones; a block has at most 2048 of these pairs."""
    texts = near_copies(1400)
    index = Index(threshold=0.5, backend="cpu", num_perm=32, measure=measure)
    index.insert(range(700), texts[:700])
    most, whole = [], meeting.distinct_edges

    def distinct(edges: Edges) -> Edges:
        most.append(len(edges.later))
        return whole(edges)

    with mock.patch.object(large_buckets, "LARGEST_JOIN", 2048), mock.patch.object(meeting, "distinct_edges", distinct):
        nearest = index.query(texts[700:], top=1)
        added = index.add(range(700, 1400), texts[700:])
    assert nearest.positions.tolist() == list(range(700)) and not nearest.keys.any()
    assert not added.keep.any() and set(added.duplicate_of.tolist()) == {0}
    assert 0 < max(most) <= 700 * 64


def test_near_copies_by_containment_take_linear_memory() -> None:
    """All pairs of a batch were held: 8,000 of these documents took 2.8 GB."""
    index = Index(measure="containment", backend="cpu")
    with at_most(60 << 20):
        added = index.add(range(4000), near_copies(4000))
    assert not added.duplicate_of.any() and added.keep.sum() == 1


@pytest.mark.parametrize("id_column", [None, "id"])
def test_keys_of_many_pieces_are_all_found(id_column: str | None, folder: Path) -> None:
    count, names = 40, ["a.jsonl", "b.jsonl"]
    for place, name in enumerate(names):
        write_rows(name, [{"text": text(100 * place + n // 2), "id": f"{name}:{n}"} for n in range(count)])
    options = ["--backend", "reference", *(["--id-column", id_column] if id_column else [])]
    with small_batches(4000):
        assert main(["index", "build", "i", *names, *options, "-o", "dropped.jsonl"]) == 0
    assert len(list(Path("i").glob("keys-*"))) > 2
    index = Index.open("i", backend="reference")
    assert all(f"{name}:{n}" in index for name in names for n in range(count))
    dropped = [(row["file"], row["row"], row["duplicate_of"]) for row in read_rows("dropped.jsonl")]
    assert dropped == [(name, n, f"{name}:{n - 1}") for name in names for n in range(1, count, 2)]


def test_a_repeated_id_in_a_later_piece_is_refused(folder: Path, command: Command) -> None:
    write_rows("a.jsonl", [{"text": text(n), "id": n % 38} for n in range(40)])
    with small_batches(4000):
        refused = command("index build i a.jsonl --id-column id --backend reference")
    assert refused.status == 1 and "a.jsonl: line 39: its key is 0, the same as a.jsonl: line 1;" in refused.error
    assert not os.path.exists("i")


def test_fingerprints_of_large_documents_are_not_held(tmp_path: Path) -> None:
    """512 documents were, of any size, and 8 bytes more for each fingerprint while two documents were compared."""
    rows = Fingerprints(np.arange(4_000_000, dtype=np.uint64) << np.uint64(42), offsets([100_000] * 40))
    blocks.write_blocks(tmp_path / "a", [rows])
    held = blocks.BlockRows(tmp_path / "a", rows.lengths)
    with at_most(8_000_000):  # 800,000 of each
        assert all(held.read(np.array([row])).offset.tolist() == [0, 100_000] for row in range(40))
    one, ops = Fingerprints(rows.values, offsets([4_000_000])), select_backend("reference")
    source = HeldSets(np.zeros(1, np.int64), ops, mock.Mock(), np.zeros(0, np.int64), one, one.lengths, None)
    with at_most(32_000_000):
        assert sum(len(part.values) for part in source.fingerprints_by_range(np.zeros(1, np.int64), 4)) == 4_000_000


class Scarce(CpuBackend):
    """A backend whose memory holds an eighth of the fingerprints of a document."""

    def shingle_sets(self, *given: Any, **named: Any) -> Fingerprints:
        raise DeviceMemoryError("too many")

    def shingle_part(self, text: Any, shingling: Any, part: int, parts: int, keys: Any = None) -> Fingerprints:
        if parts < 8:
            raise DeviceMemoryError("too many")
        return super().shingle_part(text, shingling, part, parts, keys)


@pytest.mark.parametrize("hash", ["mix64", "rabin"])
def test_sets_beyond_memory_are_read_range_by_range(hash: Any) -> None:
    text, shingling = batch_of([b"one two", " ".join(map(str, range(200))).encode()]), Shingling(size=3, hash=hash)
    rows = np.array([1, 0])
    wanted = fingerprint_sets(text, rows, shingling, KEYS, CpuBackend(1))
    same(fingerprint_sets(text, rows, shingling, KEYS, Scarce(1)), wanted)
