"""OUT behind a URL: a run works in a local folder, and uploads its results when all of them are made.

`report.json` comes last, so everything that it lists is there. During a run, `_unfinished.json` marks the place:
another run does not begin in it, and gpulsh knows the files of a killed run as its own. `--overwrite` leaves an earlier
run's results until the new ones are made, and then removes their `report.json` first. The mark holds a number of its
run. Before each upload, a run looks at the number, and ends with an error if it is another run's.

After a kill the local folder has the finished part, and `--resume --work FOLDER` continues it. Files that were uploaded
before are not uploaded again: a journal in the local folder lists them.
"""

from __future__ import annotations

import json
import logging
import os
import posixpath
import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from gpulsh.errors import Advice, GpulshError, OutputError
from gpulsh.io.file import File
from gpulsh.io.files.no_documents import MARK, REPORT
from gpulsh.io.urls import WEB, missing_package, store_reason
from gpulsh.run.output.folder import RESULTS, files_of, has_all_parts, listed_results, read_report, refuse_difference
from gpulsh.run.output.paths import not_empty_error
from gpulsh.run.output.work_folder import WORK
from gpulsh.store.durable import writing

UNFINISHED = "_unfinished.json"
JOURNAL = "_uploaded.jsonl"  # in the local folder: the name of each file that was uploaded
PARALLEL_UPLOADS = 8  # files

_log = logging.getLogger("gpulsh")


class RemoteFolder:
    """A context: entered, OUT is this run's, and `local` is where it works. Left by an exception, OUT is as it was
    before, unless `local` has an unfinished run to continue.

    Raises OutputError if OUT is in use, or cannot be reached or written.
    """

    def __init__(self, url: str, work: str | None, *, overwrite: bool, resume: bool) -> None:
        self._overwrite, self._resume = overwrite, resume
        if resume and work is None:
            raise OutputError(f"{url}: is a URL; to continue a run, give its local folder as --work")
        self._there = UrlFolder(url)
        self.url = self._there.url  # of OUT
        if self._there.is_local:
            raise OutputError(f"{url}: is a folder of this machine; give its path")
        if url.startswith(WEB):
            raise OutputError(f"{url}: is a web address, which takes no files; give a folder, or s3://, gs:// or hf://")
        self._made = work is None or not os.path.lexists(work)  # `local`
        self._given, self._run = work, secrets.token_hex(8)
        self._replaced: set[str] = set()  # results of earlier runs
        self._report: Mapping[str, Any] = {}  # the report that OUT has

    def __enter__(self) -> Self:
        there = self._there.names()
        claim = self._there.read(UNFINISHED) if UNFINISHED in there else {}
        self._report = self._there.read(REPORT) if REPORT in there else {}
        own = {UNFINISHED} if MARK in claim else set()
        known = own | listed_results(self._report) | listed_results(claim) | listed_results(claim, "replaced")
        if there and not (self._resume and (claim or has_all_parts(self._report))):
            if MARK in claim and not self._overwrite:
                raise OutputError(
                    f"{self.url}: holds an unfinished run, which worked in {claim.get('work')}; give --resume and that"
                    " folder as --work, or --overwrite"
                )
            if not self._overwrite:
                raise not_empty_error(self.url, "an earlier run's results" if MARK in self._report else None)
            if strange := sorted(there - known):
                raise OutputError(f"{self.url}: holds {strange[0]}, which gpulsh did not write; move it away first")
        self._replaced = (there & known) - own
        self._made = self._made or (self._resume and claim.get("made") is True)
        with writing(tempfile.gettempdir()):
            self.local = Path(self._given or tempfile.mkdtemp(prefix="gpulsh-"))
        try:
            if not (self._overwrite or self._resume) and self.local.is_dir() and any(self.local.iterdir()):
                raise OutputError(f"{self.local}: is not empty; give another folder as --work, --resume or --overwrite")
            if not self._resume:
                (self.local / JOURNAL).unlink(missing_ok=True)
            self._claim([])
        except BaseException:
            self._forget()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        if kind is None:
            return
        if os.path.lexists(self.local / WORK) or os.path.lexists(self.local / REPORT):
            _log.warning(Advice(f"{self.url}: --resume with --work {self.local} continues the finished part"))
            return
        with suppress(OutputError):
            self._refuse_other_run()
            self._there.remove([UNFINISHED])
        self._forget()

    def finished(self, job: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The report there of this job, unless local results are to replace it; OutputError if it is of another job."""
        at_work = os.path.lexists(self.local / WORK) or has_all_parts(read_report(self.local / REPORT))
        if at_work and self._report != read_report(self.local / REPORT):
            return None
        if not has_all_parts(self._report):
            return None
        refuse_difference(self.url, self._report["job"], job)
        self._end(self._report)
        return self._report

    def put(self, report: Mapping[str, Any]) -> None:
        """Replace an earlier run's results by the results in `local`, the report last, and empty `local`."""
        outputs = [name for name in report["outputs"] if name != REPORT]
        strange = self._there.names() - {UNFINISHED, REPORT, *outputs} - self._replaced
        if strange:
            raise OutputError(
                f"{self.url}: {min(strange)} appeared during the run, and gpulsh did not write it; move it away first"
            )
        self._refuse_other_run()
        self._claim(outputs)
        self._there.remove([REPORT])
        self._upload(outputs)
        self._refuse_other_run()
        self._there.remove(sorted(self._replaced - {REPORT, *outputs}))
        self._there.put(REPORT, self.local / REPORT)
        self._end(report)

    def _upload(self, outputs: Sequence[str]) -> None:
        done = set()
        with suppress(OSError), open(self.local / JOURNAL, encoding="ascii") as lines:
            for line in lines:
                with suppress(ValueError):  # of an incomplete line
                    done.add(json.loads(line))
        with open(self.local / JOURNAL, "a", encoding="ascii") as journal, ThreadPoolExecutor(PARALLEL_UPLOADS) as pool:

            def upload(name: str) -> str:
                if name not in done or not self._there.exists(name):
                    self._refuse_other_run()
                    self._there.put(name, self.local / name)
                return name

            try:
                for name in pool.map(upload, outputs):
                    journal.write(json.dumps(name) + "\n")
                    journal.flush()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _end(self, report: Mapping[str, Any]) -> None:
        """Remove the mark of an unfinished run, and the local files."""
        self._there.remove([UNFINISHED])
        ours = {JOURNAL, *listed_results(report)}
        for name in (JOURNAL, *RESULTS):
            for path in ours.intersection(files_of(self.local / name, name)):
                with suppress(OSError):
                    (self.local / path).unlink()
        for folder, _, _ in os.walk(self.local / "data", topdown=False):
            with suppress(OSError):
                os.rmdir(folder)
        self._forget()

    def _forget(self) -> None:
        if self._made:
            with suppress(OSError):
                self.local.rmdir()

    def _refuse_other_run(self) -> None:
        """OutputError if another run has begun in OUT, or ended there, since this one did."""
        if self._there.read(UNFINISHED).get("run") != self._run:
            raise OutputError(
                f"{self.url}: another run began there; wait until it ends, then give --overwrite, or another folder"
            )

    def _claim(self, outputs: Sequence[str]) -> None:
        claim = {MARK: "unfinished", "run": self._run, "work": str(self.local.absolute()), "made": self._made}
        claim |= {"outputs": [*outputs, REPORT], "replaced": sorted(self._replaced)}
        with (
            writing(tempfile.gettempdir()),
            tempfile.NamedTemporaryFile("w", suffix=".json", encoding="ascii") as file,
        ):
            json.dump(claim, file)
            file.flush()
            self._there.put(UNFINISHED, Path(file.name))


class UrlFolder:
    """Every error is an OutputError, since the exceptions of storage services have no common base."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        with self.output_errors():
            import fsspec

            self._filesystem, path = fsspec.core.url_to_fs(self.url)
            self._path: str = path.rstrip("/")
        found = self._filesystem.protocol
        self.is_local = not {"file", "local"}.isdisjoint((found,) if isinstance(found, str) else found)

    def names(self) -> set[str]:
        """The names of the files there."""
        with self.output_errors():
            self._filesystem.invalidate_cache()
            if self._filesystem.isfile(self._path):
                raise OutputError(f"{self.url}: is a file; give a folder")
            try:
                found = self._filesystem.find(self._path)
            except FileNotFoundError:
                return set()
        return {posixpath.relpath(path, self._path) for path in found if not path.endswith("/")}

    def file(self, name: str) -> File:
        """A file there, whether it exists or not."""
        return File(f"{self.url}/{name}", name, f"{self._path}/{name}", self._filesystem)

    def exists(self, name: str) -> bool:
        """Whether there is a file of that name."""
        with self.output_errors(name):
            return bool(self._filesystem.exists(self.file(name).path))

    def read(self, name: str) -> Mapping[str, Any]:
        """The content of a JSON file; empty if there is none."""
        content = b""
        with self.output_errors(name), suppress(FileNotFoundError):
            content = self._filesystem.cat_file(self.file(name).path)
        with suppress(ValueError, RecursionError):
            found = json.loads(content)
            return found if isinstance(found, dict) else {}
        return {}

    def put(self, name: str, file: Path) -> None:
        """Write a local file there."""
        with self.output_errors(name):
            self._filesystem.put_file(str(file), self.file(name).path)

    def remove(self, names: Sequence[str]) -> None:
        """Remove the files, if they exist."""
        for name in names:
            with self.output_errors(name), suppress(FileNotFoundError):
                self._filesystem.rm_file(self.file(name).path)

    @contextmanager
    def output_errors(self, name: str = "") -> Iterator[None]:
        """Turn any error with the file of that name into an OutputError."""
        try:
            yield
        except GpulshError:
            raise
        except Exception as error:
            at = f"{self.url}/{name}".rstrip("/")
            reason = missing_package(self.url) or f"{at}: cannot be reached or written: {store_reason(error)}"
            raise OutputError(reason) from error
