"""Python strings as UTF-8: null among them, and what is no text."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpulsh.errors import InputTypeError


def is_null(value: object) -> bool:
    """None, NaN of any float type, pandas' NA, or a null Arrow scalar."""
    if value is None:
        return True
    kind = type(value)
    home = kind.__module__.partition(".")[0]
    if isinstance(value, (float, np.floating)):
        return math.isnan(value)
    if home == "pandas":
        return kind.__name__ == "NAType"
    return home == "pyarrow" and getattr(value, "is_valid", True) is False


def encoded(texts: Sequence[object], start: int) -> tuple[list[bytes], int]:
    """UTF-8 of each text, empty where null, and the number of nulls. `start` is the position of the first.

    A lone surrogate becomes the bytes it would have, which no decoder accepts and every stage reads as U+FFFD.
    """
    try:
        return list(map(str.encode, texts)), 0  # type: ignore[arg-type]
    except (TypeError, UnicodeEncodeError):
        pass  # nulls, lone surrogates or an error: one by one
    pieces: list[bytes] = []
    nulls = 0
    for place, text in enumerate(texts, start):
        if isinstance(text, str):
            pieces.append(text.encode("utf-8", "surrogatepass"))
        elif is_null(text):
            pieces.append(b"")
            nulls += 1
        else:
            raise InputTypeError(_no_text(text, place))
    return pieces, nulls


def fitting(texts: Sequence[object], max_bytes: int) -> int:
    """How many of the first texts have at most `max_bytes` characters together; at least one."""
    held = 0
    for count, text in enumerate(texts):
        held += len(text) if isinstance(text, str) else 0
        if held > max_bytes:
            return max(count, 1)
    return len(texts)


def _no_text(value: object, place: int) -> str:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return (
            f"texts[{place}] is {type(value).__name__}; give str or None,"
            " or an Arrow binary array, whose bytes are taken as UTF-8"
        )
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return f"texts[{place}] is {shown} ({type(value).__name__}); give str, or None for a missing text"
