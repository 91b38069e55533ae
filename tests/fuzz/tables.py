"""Arrow tables with a column of text and others of every type, whose values are at the edges of it."""

from __future__ import annotations

import datetime
import decimal
from random import Random
from typing import Any

import pyarrow as pa

from tests.fuzz.damage import integer
from tests.fuzz.documents import documents

NAMES = ["id", "score", "extra", "nested"]
ODD_NAMES = [
    "",
    "text.list",
    "a\0b",
    "\x1b[2J",
    "\u202e",
    "Text",
    "x" * 10_000,
    "__index_level_0__",
    "first",
    "longest",
    "id",
]
TEXT_TYPES = ["string"] * 5 + ["large_string", "string_view", "binary", "large_binary", "binary_view", "dictionary"]


def table(source: Random, parquet: bool) -> Any:
    """Up to 24 rows; what a Parquet file cannot hold is left out of one."""
    texts = documents(source)
    columns: dict[str, Any] = {"text": _texts(source, texts, parquet)}
    for name in source.sample(NAMES, source.randint(0, len(NAMES))):
        columns[name] = _column(source, len(texts), parquet)
    names = list(columns)
    if source.random() < 0.1:
        names[-1] = source.choice(ODD_NAMES)
    order = source.sample(range(len(names)), len(names))
    fields = list(columns.values())
    made = pa.table([fields[place] for place in order], names=[names[place] for place in order])
    if source.random() < 0.1:
        made = made.replace_schema_metadata(
            {source.choice(["pandas", "a", ""]): source.choice(["{}", "", "x" * 1000, "\0"])}
        )
    return made


def _texts(source: Random, texts: list[str | None], parquet: bool) -> Any:
    kind = source.choice(TEXT_TYPES)
    if parquet and kind == "binary_view":
        kind = "binary"
    if "binary" in kind:
        raw = [
            None if text is None else text.encode() + source.choice([b"", b"", b"\xff", b"\xed\xa0\x80"])
            for text in texts
        ]
        return pa.array(raw, getattr(pa, kind)())
    whole = pa.array(texts, pa.string())
    return whole.dictionary_encode() if kind == "dictionary" else whole.cast(getattr(pa, kind)())


def _column(source: Random, count: int, parquet: bool) -> Any:
    makers = [*BOTH, *([] if parquet else ONLY_ARROW)]
    while True:
        kind, value = source.choice(makers)(source)
        values = [None if source.random() < 0.15 else value() for _ in range(count)]
        try:
            made = pa.array(values, kind)
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            continue
        return made


def _nested(source: Random) -> Any:
    kind, value = source.choice(SIMPLE)(source)

    def some() -> list[Any]:
        return [value() for _ in range(source.randint(0, 3))]

    return source.choice(
        [
            lambda: (pa.list_(kind), some),
            lambda: (pa.large_list(kind), some),
            lambda: (pa.struct([("a", kind), ("b", pa.list_(kind))]), lambda: {"a": value(), "b": some()}),
            lambda: (pa.map_(pa.string(), kind), lambda: [(str(key), item) for key, item in enumerate(some())]),
            lambda: (pa.list_(kind, 2), lambda: [value(), value()]),
        ]
    )()


def _integers(source: Random) -> Any:
    bits = source.choice([8, 16, 32, 64])
    signed = source.random() < 0.7
    kind = getattr(pa, f"{'' if signed else 'u'}int{bits}")()
    return kind, lambda: integer(source, bits) if signed else integer(source, bits) & (1 << bits) - 1


def _floats(source: Random) -> Any:
    values = [
        0.0,
        -0.0,
        1.5,
        float("inf"),
        float("-inf"),
        5e-324,
        1e308,
        *([float("nan")] if source.random() < 0.3 else []),
    ]
    return source.choice([pa.float64(), pa.float32()]), lambda: source.choice(values)


def _times(source: Random) -> Any:
    unit, zone = source.choice(["s", "ms", "us", "ns"]), source.choice([None, "UTC", "+14:00", "Europe/Berlin"])
    return source.choice(
        [
            lambda: (pa.timestamp(unit, zone), lambda: source.choice([0, -1, 10**18, -(10**18), 1, 2**62])),
            lambda: (pa.date32(), lambda: datetime.date(source.choice([1, 1970, 9999]), 1, 1)),
            lambda: (pa.date64(), lambda: 86_400_000 * source.randrange(-10, 10)),
            lambda: (pa.time64("us"), lambda: source.randrange(86_400_000_000)),
            lambda: (pa.duration("s"), lambda: integer(source, 62)),
        ]
    )()


def _strings(source: Random) -> Any:
    values = ["", "a", "\0", "é" * 100, "x" * 5000, "\u202e", "漢"]
    return source.choice([pa.string(), pa.large_string()]), lambda: source.choice(values)


def _views(source: Random) -> Any:
    return pa.string_view(), lambda: source.choice(["", "short", "a string that is not inlined in a view", "x" * 3000])


def _others(source: Random) -> Any:
    return source.choice(
        [
            lambda: (pa.bool_(), lambda: source.random() < 0.5),
            lambda: (pa.binary(), lambda: source.randbytes(source.choice([0, 1, 40]))),
            lambda: (pa.binary(3), lambda: source.randbytes(3)),
            lambda: (pa.null(), lambda: None),
            lambda: (pa.decimal128(38, 5), lambda: decimal.Decimal(integer(source))),
            lambda: (pa.decimal256(60, 0), lambda: decimal.Decimal(integer(source))),
            lambda: (pa.dictionary(pa.int8(), pa.string()), lambda: source.choice(["a", "b", ""])),
            lambda: (pa.dictionary(pa.int32(), pa.large_string()), lambda: source.choice(["a", "b" * 500, ""])),
        ]
    )()


def _intervals(source: Random) -> Any:
    return pa.month_day_nano_interval(), lambda: (1, 2, source.randrange(9))


def _list_views(source: Random) -> Any:
    return source.choice([pa.list_view(pa.int32()), pa.large_list_view(pa.string())]), list


SIMPLE = [_integers, _floats, _strings, _strings]
BOTH = [*SIMPLE, _times, _others, _others, _nested]
ONLY_ARROW = [_views, _intervals, _list_views]
