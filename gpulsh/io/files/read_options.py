"""Options of reading that the names of files do not show: lines, patterns of texts, delimiter and encoding."""

from __future__ import annotations

import codecs
import posixpath
from dataclasses import asdict, dataclass, fields, replace
from fnmatch import fnmatchcase
from typing import Any, Self

from gpulsh.checks import check_type, shown
from gpulsh.errors import ParameterError
from gpulsh.io.file import File

TABS = ("tab", "\\t")  # names that people type for a tab
QUOTING = '"\r\n'  # these and the delimiter separate fields and records


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How to read the files of INPUT.

    `lines`: each line of a text file is a document. `as_text`: patterns of names, or with a slash of paths, of files
    that are one text each. `delimiter` applies to CSV and TSV, `encoding` to these and to text.

    ParameterError for an invalid value.
    """

    lines: bool = False
    as_text: tuple[str, ...] = ()
    delimiter: str | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        check_type("lines", self.lines, bool)
        object.__setattr__(self, "as_text", _checked_patterns(self.as_text))
        object.__setattr__(self, "delimiter", _checked_delimiter(self.delimiter))
        object.__setattr__(self, "encoding", _checked_encoding(self.encoding, self.delimiter or ""))

    @classmethod
    def taken_from(cls, parameters: dict[str, Any]) -> Self:
        """The options in `parameters`; its names are removed from them."""
        return cls(**{own.name: parameters.pop(own.name) for own in fields(cls) if own.name in parameters})

    def facts(self) -> dict[str, Any]:
        """The values that are not defaults, as JSON values."""
        return {name: list(value) if name == "as_text" else value for name, value in asdict(self).items() if value}

    def is_text(self, path: str) -> bool:
        """Whether a pattern makes a file of that path one text."""
        return any(fnmatchcase(path if "/" in each else posixpath.basename(path), each) for each in self.as_text)

    def applied_to(self, file: File) -> File:
        """The file with these options."""
        if self == DEFAULTS:
            return file
        as_text = self.is_text(file.relative) or self.is_text(file.name)
        return replace(
            file, lines=self.lines and not as_text, as_text=as_text, delimiter=self.delimiter, encoding=self.encoding
        )


def _checked_patterns(given: object) -> tuple[str, ...]:
    patterns = tuple(given) if isinstance(given, (list, tuple)) else (given,)
    for each in patterns:
        if not isinstance(each, str) or not each:
            raise ParameterError(
                f"as_text is {shown(each)}; give a pattern of file names, such as '*.py', or a list of them"
            )
    return patterns


def _checked_delimiter(given: object) -> str | None:
    found = "\t" if isinstance(given, str) and given in TABS else given
    if found is None:
        return None
    if not isinstance(found, str) or len(found) != 1 or not found.isascii() or found in QUOTING + "\0":
        raise ParameterError(f"delimiter is {shown(given)}; give one ASCII character, such as ';', or tab")
    return found


def _checked_encoding(given: object, delimiter: str) -> str | None:
    """The codec's own name; None for UTF-8."""
    if given is None:
        return None
    try:
        name = codecs.lookup(given).name if isinstance(given, str) else ""
        plain = bytes(range(128)).decode(name, "replace") == bytes(range(128)).decode("ascii")
    except (LookupError, ValueError):  # an unknown codec, or one that is not for text
        raise ParameterError(
            f"encoding is {shown(given)}; give one that Python knows, such as latin-1 or cp1252"
        ) from None
    if name in ("utf-8", "utf-8-sig"):
        return None
    # Files are cut into records and lines by their bytes, so that kept ones are copied as they are.
    leads = [b"\x1b$B", *(bytes([lead]) for lead in range(256))]  # an escape makes later bytes Japanese, in JIS
    signs = [(2 * sign, lead + 2 * sign.encode()) for sign in f"{QUOTING},\t{delimiter}" for lead in leads]
    if not plain or not all(content.decode(name, "replace").endswith(sign) for sign, content in signs):
        raise ParameterError(f"encoding is {given!r}, whose files cannot be cut at single bytes; write them as UTF-8")
    return name


DEFAULTS = ReadOptions()
