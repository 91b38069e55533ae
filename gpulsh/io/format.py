"""The contract of a file format: it reads the text of a file in blocks of rows, and writes a copy of the kept rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import (
    Any,
    BinaryIO,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    runtime_checkable,
)

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.errors import (
    ChangedInputError,
    DamagedInputError,
    GpulshError,
    InputError,
    LargeDocumentError,
    ParameterError,
)
from gpulsh.io.compression.packing import Packing
from gpulsh.io.rows import Rows

Mask = NDArray[np.bool_]
Item = TypeVar("Item")
Keys: TypeAlias = "pa.Array | list[int | float | None]"  # to keep documents by; a list where no one type holds them
Stamp = list[int | str | None]  # of a file: its size, and what tells of its last change; as JSON has it
Seen = Callable[[int, "pa.RecordBatch"], None]  # is shown a row's number, and the batch that begins with it

BLOCK_BYTES = 8 << 20  # of text that a reader aims at holding at once
# What remote stores tell of a file that is another when it is written to.
VERSIONS: tuple[str, ...] = (
    *("ETag", "etag", "md5Hash", "Content-MD5", "blob_id", "generation", "VersionId"),
    *("LastModified", "last_modified", "Last-Modified", "updated", "mtime"),
)
COPIES = 4  # of the largest document that fit into a memory budget
LEAST_MEMORY = 512 << 20


@dataclass(frozen=True)
class File:
    """One input file: `name` as reports and messages call it, `relative` its path below `data/`."""

    name: str
    relative: str
    path: str
    filesystem: Any = None  # of fsspec; None for a local path
    source: str = ""  # the INPUT that named it
    lines: bool = False  # of a text file: each line is a document
    unit: str = "line"  # what messages call a record of it
    intact_only: bool = False  # a compressed member is read when it is known to be intact, and passed over otherwise

    def open(self) -> BinaryIO:
        """The file for reading bytes."""
        if self.filesystem is None:
            return open(self.path, "rb")
        return self.filesystem.open(self.path, "rb")  # type: ignore[no-any-return]

    def size(self) -> int | None:
        """Bytes of the file, None where a remote store does not tell."""
        with reading(self):
            return os.path.getsize(self.path) if self.filesystem is None else self.filesystem.size(self.path)

    def stamp(self) -> Stamp:
        """Size and time of change: what differs when somebody wrote to the file."""
        with reading(self):
            if self.filesystem is None:
                found = os.stat(self.path)
                return [found.st_size, found.st_mtime_ns]
            self.filesystem.invalidate_cache(self.path)
            told = self.filesystem.info(self.path)
            version = [f"{name} {told[name]}" for name in VERSIONS if told.get(name) is not None]
            if not version:
                with suppress(NotImplementedError, AttributeError):
                    version.append(str(self.filesystem.modified(self.path)))
            return [told.get("size"), ", ".join(version) or None]

    def identity(self) -> tuple[object, ...] | None:
        """What a local file is now; None of others, which it takes long to ask."""
        return (self.path, *self.stamp()) if self.filesystem is None else None


Place = tuple[str, ...]  # of a value: its column, and the fields that lie within one another in it
WHOLE = "column:"  # before the name of one column, whatever is in it
BETWEEN = b"\n"  # texts of several columns


def text_places(given: str) -> tuple[Place, ...]:
    """Where the texts lie that are joined to a document: NAME, NAME.FIELD, or several with commas between them.

    >>> text_places("title,meta.body"), text_places("column:a.b")
    ((('title',), ('meta', 'body')), (('a.b',),))
    """
    if given.startswith(WHOLE):
        return ((given.removeprefix(WHOLE),),)
    places = tuple(tuple(name.split(".")) for name in given.split(","))
    if given and not all(map(all, places)):
        raise ParameterError(
            f"text_column is {given!r}, of which a part is empty; give NAME, NAME.FIELD for a field of objects, several"
            " with commas between them, or column:NAME where a name has a dot or comma of its own"
        )
    return places


def place_named(name: str, present: Container[str]) -> Place:
    """The column of that name where it is `present`, otherwise the field whose path it is.

    >>> place_named("a.b", ["a.b", "a"]), place_named("a.b", ["a"])
    (('a.b',), ('a', 'b'))
    """
    return (name,) if name in present else tuple(name.split("."))


@dataclass(frozen=True)
class Columns:
    """The columns that gpulsh reads; it only copies all others. `text` is as `text_places` takes it; where there is no
    column of the name of another, a name with dots is that of a field of objects.
    """

    text: str
    key: str | None = None  # that --keep orders by
    id: str | None = None
    texts: tuple[Place, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "texts", text_places(self.text))

    @property
    def whole(self) -> str | None:
        """The column that is the text; None where fields or several columns make it."""
        return self.texts[0][0] if len(self.texts) == len(self.texts[0]) == 1 else None

    def places(self) -> tuple[Place, ...]:
        """Everything that must exist, for other names than those of texts as `place_named` takes them."""
        return tuple(dict.fromkeys((*self.texts, *((name,) for name in self._others()))))

    def depth(self) -> int:
        """Objects within one another, the record itself included, in which a value may lie."""
        return max(*map(len, self.texts), *(name.count(".") + 1 for name in self._others()), 1)

    def _others(self) -> list[str]:
        return [name for name in (self.key, self.id) if name is not None]


@dataclass(frozen=True)
class Limit:
    """What a memory budget allows. A document may take a quarter of what each of `abreast` readers has, because reading
    and comparing hold a few copies of it.
    """

    memory: int  # bytes, of the whole run
    abreast: int = 1  # how many read at the same time

    @property
    def document(self) -> int:
        """The most bytes that a document may have."""
        return self.memory // (COPIES * self.abreast)


@dataclass(frozen=True)
class Rules:
    """What readers do with records that they cannot use."""

    skip: bool = False  # bad ones are rejected where rows behind them can still be read
    limit: Limit | None = None  # a larger document stops the run also with `skip`: no record is bad for a small budget


STRICT = Rules()


class Rejection(NamedTuple):
    """Where a bad record is, and why: rows that cannot be used, or a stretch of a file in which no row can be found."""

    row: int  # the first of the rows, or the row that the stretch stands before
    rows: int  # 0 for a stretch
    unit: Literal["row", "line", "byte"]  # what `offset` counts: rows and bytes from 0, lines from 1
    offset: int
    reason: str


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a file, from row `start`. Rejected ones are null."""

    start: int
    texts: Rows
    key: Keys | None = None
    rejected: tuple[Rejection, ...] = ()


class Part(NamedTuple):
    """Rows of a file that can be read without those before them."""

    number: int
    start: int
    rows: int
    size: int  # about how many bytes of text


@runtime_checkable
class Divisible(Protocol):
    """A format whose files have parts, for several threads to read."""

    def parts(self, file: File, columns: Columns) -> list[Part]:
        """All parts, in order."""

    def read_part(
        self,
        file: File,
        columns: Columns,
        part: Part,
        block_bytes: int,
        rules: Rules = STRICT,
        packed: Callable[[bytes], None] | None = None,
    ) -> Iterator[Block]:
        """The rows of a part, in blocks of about `block_bytes` of text; `rules` as in `Format.read`.

        `packed` is shown the bytes of the file that its texts are decoded from, piece by piece, before they are.
        """


def spread(items: Sequence[Item], count: int) -> list[Item]:
    """So many of the items, evenly spread over all, or all of them.

    >>> spread("abcdefghij", 3)
    ['b', 'f', 'i']
    """
    count = min(count, len(items))
    return [items[(2 * place + 1) * len(items) // (2 * count)] for place in range(count)]


def unseen(row: int, batch: pa.RecordBatch) -> None:
    """Do nothing with what is read."""


class Known(NamedTuple):
    """The texts where some parts of them are known, so that they need not be decoded."""

    columns: Columns
    texts: Callable[[Part, Iterable[bytes]], list[pa.Array] | None]  # of a part, which is decoded from these bytes


class Writing(TypedDict, total=False):
    """Options of writing kept rows."""

    seen: Seen  # called with all that a format reads, in order, before it is written, unless it reads `in_order`
    known: Known  # whose parts are written without having been seen
    limit: Limit | None  # a row with more in its other columns than it allows is a LargeDocumentError
    packing: Packing | None  # None: as the input, at the cheapest level at which the same rows take no more bytes


class Format(Protocol):
    """Reads and writes the files of one kind. Every error names the file. What most formats answer, they inherit."""

    in_order: bool = True  # whether each reading begins with the first byte and skips none before the last it needs
    natural_id: str | None = None  # the column that documents are called by where nothing else is said

    def check(self, file: File, columns: Columns) -> int | None:
        """About how many bytes of text to expect, None where the file does not tell.

        An InputError where its head already shows that it cannot be used.
        """

    def read(self, file: File, columns: Columns, wanted: Mask | None = None, rules: Rules = STRICT) -> Iterator[Block]:
        """The rows in order, or, where `wanted` [rows] is given, at least those.

        A bad record is a DamagedInputError or an InputTypeError; with `rules.skip` it is rejected where rows behind it
        can still be read, and the error means that none can. A document beyond `rules.limit` is an InputError, and is
        not in memory where the format tells its size before.
        """

    def kind(self, file: File, column: str) -> pa.DataType | None:
        """The column's pyarrow.DataType; None where the format declares none and the values alone have it."""
        return None

    def values(self, file: File, column: str, rows: Numbers, limit: Limit | None = None) -> pa.Array:
        """The column's values at `rows`, ascending, as a pyarrow.Array.

        A LargeDocumentError where they have more bytes together than `limit` allows a document.
        """

    def takes(self, packing: Packing) -> bool:
        """Whether that changes how `write_kept` compresses a file."""
        return False

    def write_kept(self, file: File, keep: Mask, target: str, **how: Unpack[Writing]) -> None:
        """Write a file of the same format with the rows where `keep` [rows] is true.

        `seen` may miss the rows of a part of which none is kept.
        """

    def kept(self, file: File, keep: Mask, **how: Unpack[Writing]) -> Iterator[pa.RecordBatch]:
        """The rows where `keep` [rows] is true, every column of them, for a file of another format.

        They come as pyarrow.RecordBatch, none without rows, all of one schema that follows from the file and `keep`.
        What is no column of its own is called "text".
        """

    def write_sample(self, file: File, share: float, target: str) -> float:
        """Write about that `share` of the rows, from 0 to 1, to a file of the same format, packed as the input is.

        They come from all over the file where it can be read from anywhere, otherwise from its beginning. At least one
        row is there, if the file has one. Returns what share of the file they are.
        """


@contextmanager
def reading(file: File) -> Iterator[None]:
    """Turn whatever goes wrong inside into an InputError that names the file."""
    try:
        yield
    except GpulshError:
        raise
    except (OSError, EOFError, ValueError, pa.ArrowException) as error:
        told = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
        kind = DamagedInputError if _is_damage(error) else InputError
        raise kind(f"{file.name}: cannot be read: {first_line(told)}") from error


def first_line(told: object) -> str:
    """What an error of a library says in its first line, without the full stop; its type where it says nothing."""
    return (str(told).strip() or type(told).__name__).splitlines()[0].rstrip(".")


def reason(file: File, error: InputError) -> str:
    """The error's message without the file's name."""
    return error.message.removeprefix(f"{file.name}: ")


def _is_damage(error: Exception) -> bool:
    # A failing system or network says nothing about the content. Arrow reports broken pages by a bare OSError.
    if isinstance(error, OSError):
        return type(error) is OSError and not error.errno
    return not isinstance(error, (MemoryError, pa.ArrowCancelled))


def missing_column(file: File, place: Place, columns: Columns, present: Sequence[str]) -> InputError:
    """The error of one of the `columns` that a file lacks; `present` are those that it has."""
    column = repr(".".join(place))
    if columns.key == ".".join(place):
        column += ", which --keep names beside its modes first, longest and source:INPUT,INPUT"
    shown = ", ".join(present[:20]) + (", ..." if len(present) > 20 else "")
    hint = ""
    if place in columns.texts:
        is_name = columns.text in present
        hint = f"; give column:{columns.text} for the one of that name" if is_name else "; name one by --text-column"
    return InputError(f"{file.name}: has no column {column}; its columns are: {shown or 'none'}{hint}")


def changed(file: File, how: str) -> ChangedInputError:
    """The error of a file that was written to while a run read it."""
    return ChangedInputError(
        f"{file.name}: changed while it was read: it {how}; bring it back as it was, or begin again when nothing writes"
        " to it"
    )


def wrong_length(file: File) -> ChangedInputError:
    """The error of a file whose rows are not those of the first reading."""
    return changed(file, "holds other rows than at first")


@dataclass
class Count:
    """How many rows were read."""

    rows: int = 0


@contextmanager
def counting(file: File, keep: Mask) -> Iterator[Count]:
    """A context in which rows are read and counted: `wrong_length` unless they are those of `keep`. Damage behind the
    last of them is none of theirs.
    """
    read = Count()
    try:
        yield read
    except DamagedInputError:
        if read.rows != len(keep):
            raise
    if read.rows != len(keep):
        raise wrong_length(file)


def too_large(file: File, place: str, size: int, limit: Limit) -> LargeDocumentError:
    """The error of a document of `size` bytes; `place` says which of the file it is, empty where there is one."""
    return LargeDocumentError(
        f"{file.name}: {place and place + ': '}has {size} bytes; a memory budget of {_exact(limit.memory)} allows"
        f" documents up to {_exact(limit.document)}: give --memory {_enough(COPIES * size)} or more"
    )


def too_costly(file: File, place: str, need: int, allowed: int, limit: Limit) -> LargeDocumentError:
    """The error of what takes about `need` bytes to read, where the limit makes that `allowed` at most."""
    return LargeDocumentError(
        f"{file.name}: {place}: about {need} bytes to read; a memory budget of {_exact(limit.memory)} allows"
        f" {_exact(allowed)}: give --memory {_enough(-(-need * limit.memory // allowed))} or more"
    )


class CostError(Exception):
    """What was to be parsed would take about `size` bytes beside what holds it."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


def check_sizes(file: File, start: int, sizes: Numbers, limit: Limit | None, unit: str = "row") -> None:
    """A LargeDocumentError where a row has more bytes than the limit allows; `unit` counts the first one as `start`."""
    if limit is not None and len(sizes) and int(sizes.max()) > limit.document:
        row = int(np.argmax(sizes > limit.document))
        raise too_large(file, f"{unit} {start + row}", int(sizes[row]), limit)


def check_values_fit(file: File, column: str, held: int, done: int, rows: int, limit: Limit | None) -> None:
    """LargeDocumentError where the first `done` of `rows` values of a column already take more bytes than allowed."""
    if limit is not None and held > limit.document:
        raise too_costly(
            *(file, f"{rows} values of column {column!r} together"), held * rows // max(done, 1), limit.document, limit
        )


def _exact(size: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{name}"
    return f"{size} bytes"


def _enough(size: int) -> str:
    """A round figure of at least `size` bytes that a budget may have."""
    size = max(size, LEAST_MEMORY)
    if size <= 1000 << 20:
        return f"{-(-size // (50 << 20)) * 50}MiB" if size > LEAST_MEMORY else _exact(size)
    halves = -(-size // (512 << 20))
    return f"{halves // 2}{'.5' if halves % 2 else ''}GiB"
