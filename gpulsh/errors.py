"""The exceptions of gpulsh, one small tree.

::

    GpulshError
    ├── ParameterError        (ValueError)    a parameter outside what is allowed
    │   └── UnknownParameterError (TypeError)   a keyword that is no parameter
    ├── InputError            (ValueError)    a text, file, record or column that cannot be used
    │   ├── InputTypeError    (TypeError)     a value of a type that is no text
    │   ├── ChangedInputError                 a file that was written to while it was read
    │   ├── DamagedInputError                 a file or record that is broken, cut short, or not what its name says
    │   └── LargeDocumentError                a document that the memory budget has no room for
    ├── MemoryLimitError      (MemoryError)   work that needs more memory than the process may allocate
    ├── OutputError           (OSError)       an output folder that cannot or must not be written
    └── BackendError          (RuntimeError)  a backend that was asked for and does not work
        └── DeviceMemoryError (MemoryError)   work that does not fit the device, however it is cut

All of them are public, as `gpulsh.DamagedInputError`. Each message says what was given, what is allowed and what to do,
written with the command's options; `str` of an error has them as the keywords that they are in Python, and a command in
backquotes as the function that does the same. Where a package is missing, what to do is to install one of the extras
that pyproject.toml names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Literal

Extra = Literal["cuda12", "cuda13", "cudf", "ray", "warc", "report", "compat", "text", "s3", "gs", "http", "hf"]

# Options that messages advise. Of SWITCHES the keyword is True; all others are followed by a value, or by none.
SWITCHES = ("overwrite", "resume", "dry-run", "across", "within", "lines")
OPTIONS = (
    *SWITCHES,
    *("and", "as-text", "backend", "compression", "delimiter", "encoding", "engine", "format", "id-column", "keep"),
    *("memory", "num-perm", "on-error", "reader", "shingle", "sketch", "text-column", "verify", "work"),
)
RENAMED = {"and": "also", "shingle": "shingling"}  # options whose keyword has another name
FUNCTIONS = {"dedup": "deduplicate_files", "sample": "sample"}  # by the command of the same deed; others have none
_VALUE = r"\d[\w.]*|[a-z]+:\d+|arrow|cpu|cuda|exact|ray|tab|'[^']+'"  # any other word goes on with the sentence
QUOTE = "'"
_OPTION = re.compile(rf"(?<![\w-])--({'|'.join(OPTIONS)})(?![\w-])(?: ({_VALUE})(?!\w))?")
_COMMAND = re.compile(rf"`gpulsh ({'|'.join(FUNCTIONS)})`")


def in_python(message: str) -> str:
    """A message with options as Python's keywords, and commands as functions.

    >>> in_python("begin again with --overwrite, or give --memory 2GiB")
    "begin again with overwrite=True, or give memory='2GiB'"
    >>> in_python("give --num-perm 64, or --shingle word:1")
    "give num_perm=64, or shingling='word:1'"
    >>> in_python("give --as-text '*.py' or --delimiter tab")
    "give as_text='*.py' or delimiter='tab'"
    >>> in_python("`gpulsh sample` helps to choose")
    '`gpulsh.sample` helps to choose'
    """

    def keyword(found: re.Match[str]) -> str:
        name, value = RENAMED.get(found[1], found[1].replace("-", "_")), found[2]
        if found[1] in SWITCHES:
            return f"{name}=True" + (f" {value}" if value else "")
        return name if value is None else f"{name}={value if value.isdigit() or value[0] == QUOTE else repr(value)}"

    return _COMMAND.sub(lambda found: f"`gpulsh.{FUNCTIONS[found[1]]}`", _OPTION.sub(keyword, message))


def install(extra: Extra) -> str:
    """The command that does it, in every shell: some take brackets without quotes for a pattern, some know one quote.

    >>> print(install("warc"))
    pip install "gpulsh[warc]"
    """
    return f'pip install "gpulsh[{extra}]"'


def nearest(name: str, known: Iterable[object]) -> str | None:
    """The one of `known` that was probably meant by `name`; None where none is like it.

    >>> nearest("Titel", ["id", "title", "text"]), nearest("x", ["id"])
    ('title', None)
    """
    folded = {str(each).lower(): str(each) for each in reversed(list(known))}
    found = get_close_matches(name.lower(), folded, 1)
    return folded[found[0]] if found else None


class Advice:
    """The message of a warning, written for the command as that of an error; `str` has it for Python."""

    def __init__(self, message: str) -> None:
        self.message = message

    def __str__(self) -> str:
        return in_python(self.message)


class GpulshError(Exception):
    """Base of every exception that gpulsh raises on purpose."""

    @property
    def message(self) -> str:
        """The message with the command's options."""
        return str(self.args[0]) if self.args else ""

    def __str__(self) -> str:
        return in_python(self.message)


class ParameterError(GpulshError, ValueError):
    """A parameter outside what is allowed."""


class UnknownParameterError(ParameterError, TypeError):
    """A keyword that is no parameter of the call; the message names the nearest."""


class InputError(GpulshError, ValueError):
    """A text, file, record or column that cannot be used."""


class InputTypeError(InputError, TypeError):
    """A value of a type that is no text."""


class ChangedInputError(InputError):
    """A file that is not what it was when the run began, or when it was read first."""


class DamagedInputError(InputError):
    """A file or record that is broken, cut short, or of another format than its name says."""


class LargeDocumentError(InputError):
    """A document that is larger than the memory budget allows."""


class MemoryLimitError(GpulshError, MemoryError):
    """Work that needs more memory than the process may allocate."""


class OutputError(GpulshError, OSError):
    """An output folder that cannot, or must not, be written."""


class BackendError(GpulshError, RuntimeError):
    """A backend that was asked for and does not work here."""


class DeviceMemoryError(BackendError, MemoryError):
    """Device memory that does not suffice; raised to the caller only where the work cannot be cut smaller."""
