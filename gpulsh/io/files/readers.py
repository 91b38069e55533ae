"""Decoders of the text of files: Arrow on the host, or cuDF on the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import Literal

from gpulsh.arrays import TextBatch
from gpulsh.backends.protocol import Backend
from gpulsh.errors import BackendError, GpulshError, InputError, ParameterError, first_line, install_command
from gpulsh.io.columns import Columns
from gpulsh.io.file import File, wrong_row_count
from gpulsh.io.files.file_texts import FileTexts, HeldTexts, Partition, PartitionFacts, Piece
from gpulsh.io.formats.endings import format_of
from gpulsh.io.formats.parquet import Parquet
from gpulsh.io.limits import Limit, check_sizes
from gpulsh.io.memory.device import DeviceTexts
from gpulsh.io.stamps import Stamps
from gpulsh.ragged import offsets, row_ranges

Reader = Literal["arrow", "cudf"]

GROUP_BYTES = 256 << 20  # of text that is decoded at once, in whole row groups


def open_files(
    reader: Reader,
    files: Sequence[File],
    columns: Columns,
    ops: Backend,
    skip: bool,
    limit: Limit | None,
    stamps: Stamps | None,
    held: HeldTexts | None,
) -> FileTexts:
    """The documents of `files` as `reader` reads them; `skip` and `limit` are as in `FileTexts`.

    For cuDF, raises BackendError if cuDF or CUDA is missing, InputError for a file that is not local Parquet, and
    ParameterError for `skip` or several text columns.
    """
    if reader == "arrow":
        sizes = ops.sizes()
        return FileTexts(files, columns, sizes.readers, skip, limit, stamps, held, sizes.ahead)
    if skip:
        raise ParameterError("on_error is 'skip', which the reader 'cudf' does not support; give --reader arrow")
    from gpulsh.io.memory.cudf import why_no_reader

    if ops.name != "cuda":
        raise BackendError(
            f"reader 'cudf' needs the backend 'cuda', and this run has {ops.name!r}; give --reader arrow"
        )
    reason = why_no_reader()
    if reason is not None:
        raise BackendError(f"reader is 'cudf', and cuDF cannot be imported ({reason}); {install_command('cudf')}")
    if columns.text_column is None:
        raise ParameterError(f"text_column is {columns.text!r}, and cuDF reads one column; give --reader arrow")
    for file in files:
        if not isinstance(format_of(file), Parquet) or file.filesystem is not None:
            what = "no Parquet file" if file.filesystem is None else "not on this machine"
            raise InputError(f"{file.name}: is {what}, and cuDF reads only local Parquet files; give --reader arrow")
    return _DeviceFileTexts(files, columns, ops, limit)


class _DeviceFileTexts(FileTexts):
    """Parquet files whose texts are decoded on the device for the pass in order; Arrow reads chosen ones again."""

    def __init__(self, files: Sequence[File], columns: Columns, ops: Backend, limit: Limit | None) -> None:
        super().__init__(files, columns, limit=limit)
        self._ops = ops

    def partitions(self, target_bytes: int, first: int = 0, max_rows: float = inf) -> list[Partition]:
        """One for each file: cuDF decodes as many row groups together as the device holds."""
        return [Partition(at, (Piece(number, None),)) for at, number in enumerate(range(first, len(self.files)))]

    def read(self, pieces: Sequence[Piece], max_bytes: int, facts: PartitionFacts) -> Iterator[TextBatch]:
        """Batches on the device."""
        for number in dict.fromkeys(piece.file for piece in pieces):
            file = self.files[number]
            facts.rows[number] = 0
            if self.columns.order is not None:
                only = Columns(self.columns.text, order=self.columns.order, unread=True)
                facts.order += [block.order for block in Parquet().read(file, only) if block.order is not None]
            groups = Parquet().groups(file, self.columns)
            for first, last in row_ranges(offsets([size for _, size in groups]), GROUP_BYTES):
                rows = sum(count for count, _ in groups[first:last])
                texts = _decode_groups(file, self.columns.texts[0][0], range(first, last), rows, self._ops)
                facts.sizes.append(self._ops.asnumpy(texts.lengths()))
                check_sizes(file, facts.rows[number], facts.sizes[-1], self._rules.limit)
                facts.nulls += texts.nulls()
                facts.rows[number] += rows
                yield from texts.batches(max_bytes)


def _decode_groups(file: File, column: str, groups: Sequence[int], rows: int, ops: Backend) -> DeviceTexts:
    from gpulsh.io.memory.cudf import read_row_groups

    try:
        texts = read_row_groups(file.path, column, groups, ops)
    except MemoryError as error:
        raise BackendError(f"{file.name}: a row group exceeds the device's memory; give --reader arrow") from error
    except GpulshError as error:
        raise InputError(f"{file.name}: {error.message}") from error
    except Exception as error:  # libcudf's own types
        raise InputError(f"{file.name}: cannot be read by cuDF: {first_line(error)}; try --reader arrow") from error
    if len(texts) != rows:
        raise wrong_row_count(file)
    return texts
