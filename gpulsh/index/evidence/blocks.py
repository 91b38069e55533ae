"""The sorted fingerprints of documents in blocks: delta-coded, one byte place after another, compressed by Zstandard.

Sorted hashes are nearly random, so a distance needs about log2 of the mean distance in bits. The upper bytes of the
distances are mostly zero and compress well together; the lower ones do not compress.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from gpulsh.arrays import Fingerprints, Numbers
from gpulsh.ragged import concat_rows, offsets, places_by_value, row_of, row_ranges, select_rows, total_size
from gpulsh.store.columns import MappedBatches, columns_file, damaged_file
from gpulsh.store.durable import FileFact

BLOCK_VALUES = 1 << 12  # fingerprints of a block, which is read as a whole; smaller ones take more bytes
CACHED_BLOCKS = 512  # decoded blocks in memory, of all files together
NO_SETS = Fingerprints(np.empty(0, np.uint64), np.zeros(1, np.int64))
SCHEMA = pa.schema([("first_row", pa.int64()), ("values", pa.int64()), ("coded", pa.large_binary())])


class BlockRows:
    """Rows of a mapped file of blocks; `sizes` int64 [n] are the numbers of fingerprints of the rows."""

    def __init__(self, path: Path, sizes: Numbers) -> None:
        self.mapped, self.sizes = MappedBatches(path), sizes
        blocks = pa.Table.from_batches(self.mapped.batches, SCHEMA)
        self.bounds, self.coded = np.append(blocks["first_row"].to_numpy(), len(sizes)), blocks["coded"]

    def read(self, rows: Numbers) -> Fingerprints:
        """The rows `rows` [m], in that order; each block is decoded once."""
        blocks, own = list(places_by_value(row_of(self.bounds, rows))), weakref.ref(self)
        parts = []
        for number, at in blocks:
            first, last = self.bounds[number : number + 2]
            is_large = self.sizes[first:last].sum() > BLOCK_VALUES  # one row: hundreds would take gigabytes
            block = self.block(number) if is_large else read_block(own, number)
            parts.append(select_rows(block, rows[at] - first))
        return rows_by_place(parts, [at for _, at in blocks])

    def block(self, number: int) -> Fingerprints:
        """The rows of a block."""
        first, last = self.bounds[number : number + 2].tolist()
        try:
            return decode(self.coded[number].as_buffer(), self.sizes[first:last])
        except OSError as error:  # of the codec
            raise damaged_file(self.mapped.path, str(error)) from error


@lru_cache(CACHED_BLOCKS)
def read_block(file: weakref.ref[BlockRows], number: int) -> Fingerprints:
    """The rows of a block. A few blocks stay in memory, without their file open."""
    rows = file()
    assert rows is not None  # the caller holds it
    return rows.block(number)


def write_blocks(path: Path, rows: Iterable[Fingerprints]) -> FileFact:
    """Write all parts of `rows` in blocks, with one part in memory at a time."""
    with columns_file(path, SCHEMA) as file:
        done = 0
        for part in rows:
            blocks = [part.slice(start, stop) for start, stop in row_ranges(part.offset, BLOCK_VALUES)]
            first = np.cumsum([done, *map(len, blocks)])
            counts = np.array([total_size(block) for block in blocks], np.int64)
            file.append([first[:-1], counts, pa.array([encode(block) for block in blocks], pa.large_binary())])
            done = int(first[-1])
        return file.finish()


def encode(rows: Fingerprints) -> bytes:
    """Rows of ascending fingerprints as bytes: differences within a row, transposed by byte place, compressed."""
    first, last = int(rows.offset[0]), int(rows.offset[-1])
    if first == last:
        return b""
    values = rows.values[first:last]
    deltas = values.astype("<u8")
    deltas[1:] -= values[:-1]
    starts = rows.offset[:-1][rows.lengths > 0] - first
    deltas[starts] = values[starts]
    planes = np.ascontiguousarray(deltas.view(np.uint8).reshape(len(deltas), 8).T)
    coded: bytes = pa.Codec("zstd").compress(planes.tobytes(), asbytes=True)
    return coded


def decode(coded: pa.Buffer, sizes: Numbers) -> Fingerprints:
    """The inverse of `encode`: rows of `sizes` [n]."""
    count = int(sizes.sum())
    raw = pa.Codec("zstd").decompress(coded, decompressed_size=count * 8) if count else b""
    planes = np.frombuffer(raw, np.uint8).reshape(8, count)
    deltas = np.ascontiguousarray(planes.T).view("<u8").reshape(count).astype(np.uint64, copy=False)
    offset = offsets(sizes)
    total = np.zeros(count + 1, np.uint64)
    np.cumsum(deltas, out=total[1:])  # modulo 2^64, as the differences from a row's start are
    return Fingerprints(total[1:] - np.repeat(total[offset[:-1]], sizes), offset)


def rows_by_place(parts: list[Fingerprints], places: list[Numbers]) -> Fingerprints:
    """Rows of several parts, in the order of their `places`, which together are 0 to n - 1."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return NO_SETS
    joined, order = concat_rows(parts), np.concatenate(places)
    return joined if bool((order[1:] > order[:-1]).all()) else select_rows(joined, np.argsort(order))
