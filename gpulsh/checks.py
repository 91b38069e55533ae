"""Checks of the values that a user gives, and how messages show them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable
from functools import wraps
from inspect import signature
from operator import index
from types import NoneType
from typing import ParamSpec, TypeGuard, TypeVar

from gpulsh.errors import ParameterError, UnknownParameterError, nearest_name

MAX_SHOWN = 80  # characters of a value in a message
MAX_BITS_SHOWN = 256  # of an integer, which then has at most 78 characters
MAX_INT64 = 2**63 - 1

# Parameters by their names in other libraries.
FOREIGN_KEYWORDS = {
    **dict.fromkeys(("num_hashes", "num_permutations"), "num_perm"),
    **dict.fromkeys(("ngram", "ngram_size", "n_grams", "char_ngrams"), "shingling"),
    **dict.fromkeys(("num_bands", "num_buckets"), "bands"),
    **dict.fromkeys(("minhashes_per_band", "hashes_per_bucket"), "rows"),
    **dict.fromkeys(("text_field", "text_key", "column"), "text_column"),
}

Given = ParamSpec("Given")
Result = TypeVar("Result")


def shown(value: object) -> str:
    """A value as messages show it: its repr if that is one short line, otherwise its type, or its size if an int."""
    if isinstance(value, int) and value.bit_length() > MAX_BITS_SHOWN:  # Python does not write very long ones
        return f"an integer of {value.bit_length()} bits"
    try:
        text = repr(value)
    except ValueError:  # it holds such an integer
        text = "\n"
    return text if len(text) <= MAX_SHOWN and "\n" not in text else f"of type {type(value).__name__}"


def refuse_unknown(call: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise UnknownParameterError at a keyword that is not `known`, with the most similar one."""
    for name in given:
        if name not in known:
            meant = FOREIGN_KEYWORDS.get(name, nearest_name(name, known))
            shown_names = f"its parameters are {', '.join(known)}" if meant not in known else f"did you mean {meant}?"
            raise UnknownParameterError(f"{call} has no parameter {name!r}; {shown_names}")


def known_keywords(call: Callable[Given, Result]) -> Callable[Given, Result]:
    """Decorate a public function so that it refuses unknown keywords, as `refuse_unknown` does.

    It takes NumPy's bool as Python's.
    """
    known = [name for name in signature(call).parameters if name not in ("self", "cls")]
    name = call.__qualname__.removesuffix(".__init__")

    @wraps(call)
    def checked(*args: Given.args, **keywords: Given.kwargs) -> Result:
        refuse_unknown(name, keywords, known)
        for given, value in keywords.items():
            keywords[given] = _plain(value)
        return call(*args, **keywords)

    return checked


def _plain(value: object) -> object:
    """NumPy's bool as Python's; any other value as it is."""
    return bool(value) if type(value).__name__ == "bool" else value


def set_flag(owner: object, name: str) -> None:
    """Make the field `name` of a frozen object a bool; raises ParameterError for any other value."""
    value = _plain(getattr(owner, name))
    check_type(name, value, bool)
    object.__setattr__(owner, name, value)


def check_integer(name: str, value: object, low: int, high: int) -> int:
    """`value` as an int within [low, high]; raises ParameterError with the name of the parameter."""
    try:
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise ParameterError(f"{name} is {shown(value)}; give an integer from {low} to {high}")
    if not low <= number <= high:
        raise ParameterError(f"{name} is {shown(number)}; give an integer from {low} to {high}")
    return number


def set_integer(owner: object, name: str, low: int, high: int) -> None:
    """Make the field `name` of a frozen object an int within [low, high], as `check_integer` does."""
    object.__setattr__(owner, name, check_integer(name, getattr(owner, name), low, high))


def set_one_of(owner: object, name: str, allowed: Collection[int], rule: str = "") -> None:
    """Make the field `name` of a frozen object an int of `allowed`, or raise ParameterError; `rule` describes them."""
    value = getattr(owner, name)
    try:
        number = check_integer(name, value, min(allowed), max(allowed))
    except ParameterError:
        number = None
    if number not in allowed:
        rule = rule or f"one of {', '.join(map(str, allowed))}"
        raise ParameterError(f"{name} is {shown(value)}; give {rule}")
    object.__setattr__(owner, name, number)


def check_choice(name: str, value: object, allowed: tuple[object, ...]) -> None:
    """Raise ParameterError unless `value` is one of `allowed`."""
    if not isinstance(value, (str, int, NoneType)) or value not in allowed:  # an array compares value by value
        raise ParameterError(f"{name} is {shown(value)}; give one of {', '.join(map(repr, allowed))}")


def check_type(name: str, value: object, *allowed: type) -> None:
    """Raise ParameterError unless `value` is an instance of one of `allowed`."""
    if not isinstance(value, allowed):
        is_scalar = isinstance(value, (str, int, float, NoneType)) or type(value).__name__ == "bool"  # also NumPy's
        given = shown(value) if is_scalar else f"of type {type(value).__name__}"
        rule = "True or False" if bool in allowed else f"an object of {' or '.join(kind.__name__ for kind in allowed)}"
        raise ParameterError(f"{name} is {given}; give {rule}")


def is_url(path: str) -> bool:
    """Whether a path is a URL, which `pathlib.Path` would take for a local path."""
    return "://" in path


def checked_folder(name: str, path: object) -> str:
    """The path of a folder as a str; raises ParameterError with the name of the parameter."""
    if not is_path(path) or path == "":
        raise ParameterError(f"{name} is {shown_type(path)}; give the path of a folder")
    folder = os.fspath(path)
    if not isinstance(path, str) and re.match("[a-z][a-z0-9]+:/", folder):
        raise ParameterError(f"{name} is {shown(folder)}, a URL that `pathlib` has shortened; give it as a str")
    try:
        named = os.fsencode(folder)
    except UnicodeEncodeError:
        named = b"\0"
    if b"\0" in named:
        raise ParameterError(
            f"{name} is {shown(folder)}, which no file can have as its name; give the path of a folder"
        )
    return folder


def is_path(value: object) -> TypeGuard[str | os.PathLike[str]]:
    """Whether it is a path of characters, not of bytes."""
    return isinstance(value, (str, os.PathLike)) and isinstance(os.fspath(value), str)


def plural(count: int, noun: str) -> str:
    """A count with its noun.

    >>> plural(1, "file"), plural(2500, "file")
    ('1 file', '2,500 files')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def banding_name(bands: int, rows: int) -> str:
    """A banding as messages and reports name it.

    >>> banding_name(128, 1)
    '128 bands of 1 row'
    """
    return f"{plural(bands, 'band')} of {plural(rows, 'row')}"


def shown_type(value: object) -> str:
    """A value that is no path, as messages show it."""
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return "empty" if isinstance(value, str) and not value else f"of type {type(value).__name__}"
