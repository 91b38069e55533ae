"""WARC and WET: archives of web crawls. A row is a record with a document; all other records describe documents.

A `conversion` record of text (WET) is a document: its content is UTF-8. So is a `response` or `resource` record of HTML
or plain text with any HTTP status; `web_text` extracts its text. Rows count documents from 0. Conversions need no
extra; the others need the extra `warc`.

Columns are the records' headers, by name in any case. The default id is WARC-Record-ID. `--keep WARC-Date` keeps the
latest document. gpulsh ignores the column of text.

Records are written byte for byte, each in the gzip member that it had. Records that shared a member get one each. A
request, revisit or metadata record is dropped with its document. It names the dropped document (WARC-Concurrent-To,
WARC-Refers-To, WARC-Segment-Origin-ID), or the document names it (WARC-Concurrent-To). All other records are kept,
above all `warcinfo`. gpulsh reads only the first segment of a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import BinaryIO, Unpack

import pyarrow as pa

from gpulsh.arrays import Numbers
from gpulsh.errors import DamagedInputError, InputError, first_line
from gpulsh.io.arrow.buffers import python_array
from gpulsh.io.arrow.texts import strings_of
from gpulsh.io.columns import Columns, missing_column
from gpulsh.io.compression import Compression
from gpulsh.io.file import File, reading, reason, wrong_row_count
from gpulsh.io.format import BLOCK_BYTES, STRICT, Block, Format, Mask, Rejection, Rules, WriteOptions
from gpulsh.io.formats.blocks import Instant, RecordRows, in_counted_runs, parse_instant
from gpulsh.io.formats.warc_records import Broken, Record, record_bytes, warc_records
from gpulsh.io.formats.web_text import UTF8, Page, charset_of, content_kind, http_page, require_extra
from gpulsh.io.limits import CostError, Limit, too_costly, too_large
from gpulsh.io.output_codec import NewFile, gzip_member
from gpulsh.io.rows import Bytes, join_texts
from gpulsh.io.urls import WEB
from gpulsh.memory_limit import memory_error

ID = "WARC-Record-ID"
DATE = "warc-date"
HEADERS = {"id": ID, "url": "WARC-Target-URI", "date": "WARC-Date"}  # columns of output in another format
BELONGS_TO = ("WARC-Concurrent-To", "WARC-Refers-To", "WARC-Segment-Origin-ID")
BLOCK_ROWS = 1 << 14
PAGE_COPIES = 2  # of the largest document: room for a page and its copies


class Warc(Format):
    """Files of records, plain or in gzip members."""

    natural_id = ID

    def __init__(self, compression: Compression) -> None:
        self.compression = compression

    def check(self, file: File, columns: Columns) -> None:
        """Check that the file opens and begins with a record."""
        if columns.order is not None and columns.order.lower() != DATE:
            raise InputError(f"{file.name}: is WARC; --keep takes its header WARC-Date, not {columns.order!r}")

        def broken(offset: int, detail: str) -> None:
            raise _damaged(file, offset, detail)

        for _ in self._records(file, broken):
            break

    def read(self, file: File, columns: Columns, wanted: Mask | None = None, rules: Rules = STRICT) -> Iterator[Block]:
        """Blocks of about BLOCK_BYTES of text. A header that no document has is a missing column."""
        missing = {*columns.others()} - {columns.order, ID}
        found: set[str] = set()
        row = size = 0
        rows = RecordRows(0, [])

        def broken(offset: int, detail: str) -> None:
            if wanted is None and not rules.skip:  # later passes find the same damage again
                raise _damaged(file, offset, detail)
            rows.rejected.append(Rejection(row, 0, "byte", offset, f"byte {offset}: {detail}"))

        for record, page in self._records(file, broken):
            if size >= BLOCK_BYTES or max(len(rows.texts), len(rows.rejected)) >= BLOCK_ROWS:
                yield rows.block(columns)
                rows, size = RecordRows(row, []), 0
            if page is None:
                continue
            if rules.limit is not None and record.size > rules.limit.document:
                raise too_large(file, f"byte {record.offset}: the record", record.size, rules.limit)
            found.update(record.headers)
            missing = {name for name in missing if name.lower() not in record.headers}
            text: Bytes | None = None
            copy_key = None if columns.copy_key is None else record.header(columns.copy_key)
            if wanted is None or (row < len(wanted) and wanted[row]):
                try:
                    text = b"" if columns.unread else self._text(file, record, page, rules.limit)
                except DamagedInputError as error:
                    if not rules.skip:
                        raise
                    rows.rejected.append(Rejection(row, 1, "byte", record.offset, reason(file, error)))
                    copy_key = None
            rows.texts.append(text)
            rows.copy_key.append(copy_key)
            rows.order.append(None if columns.order is None else _date(file, record))
            row += 1
            size += len(text or b"")
            del record, text  # each may be as large as a document may be
        yield rows.block(columns)
        if row and missing:
            raise missing_column(file, (min(missing),), columns, sorted(found))

    def column_type(self, file: File, column: str) -> pa.DataType:
        """Headers are strings."""
        return pa.string()

    def values(self, file: File, column: str, rows: Numbers) -> pa.Array:
        """The header of the documents at `rows`."""
        wanted, stop = set(rows.tolist()), int(rows[-1]) + 1 if len(rows) else 0
        found = [value for row, value in enumerate(self._headers(file, column, stop)) if row in wanted]
        return python_array(found).cast(pa.string())

    def value_runs(self, file: File, column: str, counts: Iterable[int]) -> Iterator[pa.Array]:
        """`values` in runs."""
        for run in in_counted_runs(file, self._headers(file, column, None), counts):
            yield python_array(run).cast(pa.string())

    def _headers(self, file: File, column: str, count: int | None) -> Iterator[str | None]:
        """The header of each of the first `count` documents, or of all."""
        documents, found = (record for record, page in self._records(file) if page is not None), 0
        for record in islice(documents, count):
            yield record.header(column)
            found += 1
        if count is not None and found != count:
            raise wrong_row_count(file)

    def row_begins(self, file: File) -> Iterator[tuple[int, int]]:
        """The row of the next document, at the beginning and at each record; not inside a gzip member."""
        yield 0, 0
        row = 0
        for record, page in self._records(file):
            if record.skip == 0:
                yield row, record.offset
            row += page is not None

    def write_kept(self, file: File, keep: Mask, target: NewFile, **how: Unpack[WriteOptions]) -> None:
        """Kept documents and the records that accompany them."""
        dropped: set[str] = set()  # ids of dropped documents
        named: set[str] = set()  # ids of records that they name as their own
        documents = (record for record, page in self._records(file) if page is not None)
        for row, record in enumerate(documents if not keep.all() else ()):
            if row >= len(keep) or not keep[row]:
                dropped.update(record.headers.get(ID.lower(), ()))
                named.update(record.headers.get("warc-concurrent-to", ()))
        row = 0
        with file.open() as packed, target() as out:
            for record, page in self._records(file):
                if page is not None:
                    row += 1
                    if row > len(keep) or not keep[row - 1]:
                        continue
                elif record.header(ID) in named or any(
                    of in dropped for name in BELONGS_TO for of in record.headers.get(name.lower(), ())
                ):
                    continue
                self._copy(file, record, packed, out)
        if row != len(keep):
            raise wrong_row_count(file)

    def kept_batches(self, file: File, keep: Mask, **how: Unpack[WriteOptions]) -> Iterator[pa.RecordBatch]:
        """Documents as their `HEADERS` and text; what accompanies them is left out."""
        limit, row, size = how.get("limit"), 0, 0
        found: list[tuple[str | None, ...]] = []
        texts: list[Bytes] = []

        def batch() -> pa.RecordBatch:
            headers = [pa.array(values, pa.large_string()) for values in zip(*found, strict=True)]
            return pa.record_batch([*headers, strings_of(join_texts(texts))], names=[*HEADERS, "text"])

        for record, page in self._records(file):
            if page is None:
                continue
            if row < len(keep) and keep[row]:
                text = self._text(file, record, page, limit)
                found.append(tuple(map(record.header, HEADERS.values())))
                texts.append(text)
                size += len(text)
                del text
            row += 1
            del record  # it may be as large as a document may be
            if size >= BLOCK_BYTES or len(found) == BLOCK_ROWS:
                yield batch()
                found, texts, size = [], [], 0
        if found:
            yield batch()
        if row != len(keep):
            raise wrong_row_count(file)

    def write_sample(self, file: File, share: float, target: NewFile) -> float:
        """The first records."""
        size, documents, end = max(file.size() or 0, 1), 0, None
        with file.open() as packed, target() as out:
            for record, page in self._records(file):
                if documents and record.offset >= share * size:
                    end = record.offset
                    break
                self._copy(file, record, packed, out)
                documents += page is not None
        return 1.0 if end is None else end / size

    def _copy(self, file: File, record: Record, packed: BinaryIO, out: BinaryIO) -> None:
        if record.span is None or (not self.compression and len(record.raw) == record.whole):
            pieces = self._pieces(file, record)
            out.writelines(gzip_member(pieces) if self.compression else pieces)
            return
        start, stop = record.span
        with reading(file):
            while file.path.startswith(WEB) and packed.read(min(start - packed.tell(), 1 << 20)):
                pass  # some servers send only the whole file
            packed.seek(start)
        while start < stop:
            with reading(file):
                step = packed.read(min(stop - start, 1 << 20))
            if not step:
                raise wrong_row_count(file)
            out.write(step)
            start += len(step)

    def _pieces(self, file: File, record: Record) -> Iterator[bytes]:
        """The bytes of a record; one that is not held is read again."""
        if len(record.raw) == record.whole:
            yield record.raw
            return
        left = record.whole
        with reading(file), file.open() as source:
            for piece in record_bytes(source, bool(self.compression), record):
                left -= len(piece)
                yield piece
        if left:
            raise wrong_row_count(file)

    def _text(self, file: File, record: Record, page: Page, limit: Limit | None) -> Bytes:
        if len(record.raw) < record.whole:
            record = record._replace(raw=b"".join(self._pieces(file, record)))
        if page is UTF8:
            return record.content
        place = f"byte {record.offset}: the record"
        most = None if limit is None else max(PAGE_COPIES * limit.document - record.size, 0)
        try:
            text = page.text(record.content, most)
        except CostError as error:
            assert limit is not None
            raise too_costly(file, place, record.size + error.size, PAGE_COPIES * limit.document, limit) from None
        except InputError:  # no process reads pages
            raise
        except MemoryError as error:
            raise memory_error(f"{file.name}: {place}") from error
        except (OSError, ValueError, LookupError) as error:
            of = record.header(ID) or "a record without a name"
            raise _damaged(file, record.offset, f"the content of {of} cannot be read: {first_line(error)}") from error
        if limit is not None and len(text) > limit.document:
            raise too_large(file, place, len(text), limit)
        return text

    def _records(self, file: File, broken: Broken | None = None) -> Iterator[tuple[Record, Page | None]]:
        """All records that are whole, each with its page if it is a document.

        Without `broken` nothing is done about damage: the first pass reported it.
        """
        broken = broken or (lambda offset, detail: None)
        with reading(file), file.open() as source:
            for record in warc_records(source, bool(self.compression), broken, checked=file.intact_only):
                found = record, _page(file, record)
                del record
                yield found
                del found


def _damaged(file: File, offset: int, detail: str) -> DamagedInputError:
    return DamagedInputError(f"{file.name}: byte {offset}: {detail}")


def _page(file: File, record: Record) -> Page | None:
    kind = (record.header("WARC-Type") or "").lower()
    content_type = record.header("Content-Type") or ""
    if kind == "conversion" and content_kind(content_type) != "html":
        return UTF8 if not content_type or content_type.lower().startswith("text/") else None
    if kind == "response" and content_type.lower().startswith("application/http"):
        require_extra(file.name)
        return http_page(record.raw, record.size, len(record.raw) == record.whole)
    if kind in ("conversion", "resource", "response") and (of_content := content_kind(content_type)) is not None:
        require_extra(file.name)
        return Page(of_content, charset=charset_of(content_type))
    return None


def _date(file: File, record: Record) -> Instant | None:
    value = record.header(DATE)
    try:
        return None if value is None else parse_instant(value)
    except ValueError as error:
        raise InputError(f"{file.name}: byte {record.offset}: WARC-Date is {value!r}, not a date") from error
