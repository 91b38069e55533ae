"""The OUT of a finished run, a folder or a URL: read its results, or make its page again."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from gpulsh.errors import OutputError
from gpulsh.io.file import File
from gpulsh.io.files.no_documents import EVIDENCE, REPORT
from gpulsh.report.originals import listed, shares
from gpulsh.report.page import missing, render, write_page
from gpulsh.run.output.folder import PAGE, is_whole, read_report, write_report
from gpulsh.run.output.paths import is_url
from gpulsh.run.output.remote import UNFINISHED, UrlFolder
from gpulsh.run.output.work_folder import WORK, is_work
from gpulsh.store.durable import open_file, unfinished, writing

NO_REPORT = f"holds no {REPORT} of a finished run that this version reads"


@dataclass(frozen=True)
class Finished:
    """Its report, and the place of its results."""

    out: str
    report: Mapping[str, Any]
    folder: UrlFolder | None  # None: of this machine

    @classmethod
    def of(cls, out: str) -> Self:
        """That in OUT; OutputError where there is none, or it cannot be reached."""
        folder = UrlFolder(out) if is_url(out) else None
        report = folder.read(REPORT) if folder else read_report(Path(out) / REPORT)
        if not is_whole(report):
            begun = folder.is_there(UNFINISHED) if folder else is_work(Path(out) / WORK)
            if begun and not report:
                raise OutputError(f"{out}: holds an unfinished run; `gpulsh dedup --resume` continues it")
            raise OutputError(f"{out}: {_seen(out) if folder is None else NO_REPORT}; give the OUT of `gpulsh dedup`")
        return cls(out, report, folder)

    def file(self, name: str) -> File:
        """One of the results."""
        return self.folder.file(name) if self.folder else File(self._at(name), name, self._at(name))

    def shares(self, column: str) -> pa.Table:
        """Of each value of a column how many documents there were, and how many were dropped; as `report.shares`."""
        rejected = self.file("rejected.parquet") if "rejected.parquet" in self.report["outputs"] else None
        return shares(self.report, self.file(EVIDENCE), rejected, column)

    def remake_page(self, by: Sequence[str] = ()) -> str:
        """Makes report.html from report.json, and lists it there, with shares `by` columns; gives its path or URL.

        Raises OutputError where the page cannot be made, and what `shares` raises.
        """
        page = self.file(PAGE).name
        if not isinstance(self.report.get("outputs"), list):
            raise OutputError(f"{self.out}: holds no report.json that gpulsh can make a page of")
        if reason := missing():
            raise OutputError(reason)
        if PAGE not in self.report["outputs"] and self._is_there(PAGE):
            raise OutputError(f"{page}: was not written by gpulsh; move it away first")
        outputs = [name for name in self.report["outputs"] if name != PAGE]
        report = {**self.report, "outputs": [*outputs, PAGE], "page": {"written": True, "reason": None}}
        if by:
            before = [entry for entry in self.report.get("shares", ()) if entry["column"] not in by]
            report["shares"] = [*before, *(listed(column, self.shares(column)) for column in by)]
        try:
            render(report)
        except Exception as error:  # whatever a page misses that is made of a report gpulsh did not write
            reason = f"is not as gpulsh wrote it, {type(error).__name__}: {error}"
            raise OutputError(f"{self.file(REPORT).name}: {reason}") from error
        # Listed before it is there: nothing of gpulsh's is ever strange to it.
        for name, write in ((REPORT, write_report), (PAGE, write_page)):
            with self._replaced(name) as path:
                write(path, report)
        return page

    def _at(self, name: str) -> str:
        return os.path.join(self.out, name)

    def _is_there(self, name: str) -> bool:
        return self.folder.is_there(name) if self.folder else os.path.lexists(self._at(name))

    @contextmanager
    def _replaced(self, name: str) -> Iterator[Path]:
        """A path to write at, whose file then takes the place of that result, at once."""
        if self.folder is None:
            with writing(self.out), unfinished(Path(self._at(name))) as beside:
                yield beside
                os.replace(beside, self._at(name))
            return
        with writing(tempfile.gettempdir()), tempfile.TemporaryDirectory(prefix="gpulsh-") as made:
            yield Path(made, name)
            self.folder.put(name, Path(made, name))


def _seen(out: str) -> str:
    """Why a folder of this machine has no report of a finished run."""
    try:
        open_file(Path(out, REPORT)).close()
    except FileNotFoundError:
        return NO_REPORT if os.path.exists(out) else "no such folder"
    except NotADirectoryError:
        return "is no folder"
    except OSError as error:
        return f"{REPORT} in it cannot be read: {os.strerror(error.errno or 0)}"
    return NO_REPORT
