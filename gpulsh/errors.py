"""The exceptions of gpulsh, one small tree.

::

    GpulshError
    ├── ParameterError        (ValueError)    a value that a parameter does not allow
    │   └── UnknownParameterError (TypeError)   a keyword that is not a parameter
    ├── InputError            (ValueError)    an unusable text, file, record or column
    │   ├── InputTypeError    (TypeError)     a value whose type is not text
    │   ├── ChangedInputError                 a file that changed during the run
    │   ├── DamagedInputError                 a file or record that is damaged, cut short, or misnamed
    │   └── LargeDocumentError                a document too large for the memory budget
    ├── MemoryLimitError      (MemoryError)   work that needs more memory than the process may allocate
    ├── OutputError           (OSError)       an output folder that gpulsh cannot or must not write
    └── BackendError          (RuntimeError)  a requested backend that does not work
        └── DeviceMemoryError (MemoryError)   work that does not fit into device memory, even divided

All are public, such as `gpulsh.DamagedInputError`. A message says what happened, what is allowed and what to do, in
the options of the command. `str` of an error has the keywords and functions of Python instead. If a package is missing,
the message names the extra of pyproject.toml to install.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Literal

Extra = Literal["cuda12", "cuda13", "cudf", "ray", "warc", "report", "compat", "text", "s3", "gs", "http", "hf", "url"]

# Options whose keyword is True; other options may have a value after them in a message.
SWITCHES = (
    *("overwrite", "resume", "dry-run", "across", "lines", "add-counts", "key-only", "normalize-url"),
    *("cut", "whole-lines", "symbols"),
)
# Options whose keyword has another name.
RENAMED = {"and": "also", "by": "column", "shingle": "shingling", "drop-containing": "drop_contained_only=False"}
_VALUE = r"\d[\w.]*|[a-z]+:\d+|arrow|cpu|cuda|exact|ray|tab|'[^']+'"  # any other word belongs to the sentence
QUOTE = "'"
_OPTION = re.compile(rf"`(?:gpulsh|ray) [^`]*`|(?<![\w'-])--([a-z]+(?:-[a-z]+)*)(?![\w-])(?: ({_VALUE})(?!\w))?")


def python_message(message: str) -> str:
    """The message with keywords for options, unless a command in backquotes has them.

    >>> python_message("start again with --overwrite, or give --memory 2GiB")
    "start again with overwrite=True, or give memory='2GiB'"
    >>> python_message("give --num-perm 64, or --shingle word:1")
    "give num_perm=64, or shingling='word:1'"
    >>> python_message("give --as-text '*.py' or --delimiter tab")
    "give as_text='*.py' or delimiter='tab'"
    >>> python_message("give the OUT of `gpulsh dedup`")
    'give the OUT of `gpulsh.deduplicate_files`'
    >>> python_message("give --resume, or `gpulsh dedup --resume`")
    'give resume=True, or `gpulsh dedup --resume`'
    """

    def keyword(found: re.Match[str]) -> str:
        option, value = found.groups()
        if option is None:
            return "`gpulsh.deduplicate_files`" if found[0] == "`gpulsh dedup`" else found[0]
        name = RENAMED.get(option, option.replace("-", "_"))
        if option in SWITCHES:
            return f"{name}=True" + (f" {value}" if value else "")
        return name if value is None else f"{name}={value if value.isdigit() or value[0] == QUOTE else repr(value)}"

    return _OPTION.sub(keyword, message)


def option_name(keyword: str) -> str:
    """The option of the command for a keyword of Python, in a message.

    >>> option_name("min_cluster"), python_message(option_name("min_cluster"))
    ('--min-cluster', 'min_cluster')
    """
    return "--" + {name: given for given, name in RENAMED.items()}.get(keyword, keyword).replace("_", "-")


def install_command(extra: Extra) -> str:
    """The command that installs an extra, in every shell: some need quotes around brackets, some know one kind.

    >>> print(install_command("warc"))
    pip install "gpulsh[warc]"
    """
    return f'pip install "gpulsh[{extra}]"'


def nearest_name(name: str, known: Iterable[object]) -> str | None:
    """The one of `known` most like `name`, if any is.

    >>> nearest_name("Titel", ["id", "title", "text"]), nearest_name("x", ["id"])
    ('title', None)
    """
    folded = {str(each).lower(): str(each) for each in reversed(list(known))}
    found = get_close_matches(name.lower(), folded, 1)
    return folded[found[0]] if found else None


def first_line(error: object) -> str:
    """The first line of a library's error, without the full stop; its type where it has no message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip().rstrip(".")


class Advice:
    """The message of a warning, in options of the command; `str` has it for Python."""

    def __init__(self, message: str) -> None:
        self.message = message

    def __str__(self) -> str:
        return python_message(self.message)


class GpulshError(Exception):
    """Base of every exception that gpulsh raises on purpose."""

    @property
    def message(self) -> str:
        """The message, with options of the command instead of keywords."""
        return str(self.args[0]) if self.args else ""

    def __str__(self) -> str:
        return python_message(self.message)


class ParameterError(GpulshError, ValueError):
    """A value that a parameter does not allow."""


def refuse_given(given: Mapping[str, object], message: str) -> None:
    """ParameterError if a keyword in `given` has a true value; the first one's option replaces {} in `message`.

    >>> refuse_given({"min_cluster": 3}, "{} is given without --protect")
    Traceback (most recent call last):
    gpulsh.errors.ParameterError: min_cluster is given without protect
    """
    for name, is_given in given.items():
        if is_given:
            raise ParameterError(message.replace("{}", option_name(name)))


class UnknownParameterError(ParameterError, TypeError):
    """A keyword that is not a parameter of the call; the message suggests the nearest one."""


class InputError(GpulshError, ValueError):
    """An unusable text, file, record or column."""


class InputTypeError(InputError, TypeError):
    """A value whose type is not text."""


class ChangedInputError(InputError):
    """A file that changed since the run began, or since it was first read."""


class DamagedInputError(InputError):
    """A file or record that is damaged, cut short, or of another format than its name says."""


class LargeDocumentError(InputError):
    """A document that is larger than the memory budget allows."""


class MemoryLimitError(GpulshError, MemoryError):
    """Work that needs more memory than the process may allocate."""


class OutputError(GpulshError, OSError):
    """An output folder that gpulsh cannot, or must not, write."""


class BackendError(GpulshError, RuntimeError):
    """A requested backend that does not work on this machine."""


class DeviceMemoryError(BackendError, MemoryError):
    """Too little device memory for the work, even if it is divided into its smallest parts."""
