"""A run of `passages_files` or `cut_files` in its output folder: from a job's terms to its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from gpulsh.backends.protocol import Backend
from gpulsh.budget import cut
from gpulsh.io.files.no_documents import REPORT
from gpulsh.report.page import missing
from gpulsh.report.passages import write_passages_page
from gpulsh.report.reproduce import machine, versions
from gpulsh.run.driver import Stages
from gpulsh.run.engines import Machine
from gpulsh.run.files import system_errors_as_output_errors
from gpulsh.run.job import FileJob
from gpulsh.run.output.folder import PAGE, OutputFolder, finished, read_report, write_report
from gpulsh.run.passages.index import PassagesIndex
from gpulsh.run.progress import Show, open_progress
from gpulsh.run.report import Start
from gpulsh.stats.stages import OF_PASSAGES

Made = TypeVar("Made", bound=FileJob)


@dataclass(frozen=True, kw_only=True)
class FileRun(Generic[Made]):
    """A run: its job, its place, and its stages, which give their part of the report."""

    job: Made
    output: Path
    given: Sequence[str]
    overwrite: bool
    resume: bool
    progress: Show
    secret: bytes
    machine: Machine
    stages: Callable[[Made, Backend, Stages, Path], Mapping[str, Any]]
    start: Start
    earlier: PassagesIndex | None = None  # only of a PassagesJob

    def report(self) -> dict[str, Any]:
        """Run, or finish, or find it finished; the report."""
        with ExitStack() as stack:
            stack.enter_context(system_errors_as_output_errors(self.output))
            if self.resume and (report := finished(self.output, self.job.to_json())) is not None:
                return report
            engine = stack.enter_context(self.machine.opened())
            own: Any = replace(self.job, cut=cut(engine.memory, engine.ops.sizes()))
            job = own
            folder = stack.enter_context(OutputFolder(self.output, overwrite=self.overwrite, resume=self.resume))
            manifest = folder.manifest(job.steps(), self.secret)
            if folder.is_committed():
                folder.commit()
                return read_report(self.output / REPORT)
            if self.earlier is not None:
                job = stack.enter_context(self.earlier).begin(own, manifest)
            work = folder.work.absolute() if engine.remote else folder.work
            progress = open_progress(self.progress)
            with engine.running(job, work, manifest, progress) as runner:
                stages = Stages(runner, progress)
                found = self.stages(job, engine.ops, stages, folder.work)
                if self.earlier is not None:
                    with stages.funnel.stage(progress, OF_PASSAGES["store"], 1):
                        self.earlier.prepare(job, manifest, folder.work)
                backend = {"name": engine.ops.name, "device": getattr(engine.ops, "device", None)}
                report = self._report(own, found, stages, backend, engine.to_json())
                if PAGE in report["outputs"]:
                    write_passages_page(folder.work / PAGE, report)
            write_report(folder.work / REPORT, report)
            own.stamps.check()
            if self.earlier is not None:
                self.earlier.commit(manifest)
            folder.commit()
            return report

    def _report(
        self, job: Made, found: Mapping[str, Any], stages: Stages, backend: object, engine: object
    ) -> dict[str, Any]:
        no_page = missing() if "frequent" in found else "a cut has no page"
        return {
            **self.start.facts(),
            "parameters": dict(job.parameters()),
            "backend": backend,
            "engine": engine,
            "versions": versions(),
            "machine": machine(),
            "inputs": list(self.given),
            **found,
            "stages": stages.funnel.seconds,
            "resumed": stages.funnel.resumed,
            "page": {"written": no_page is None, "reason": no_page},
            "outputs": [*found["outputs"], REPORT, *([] if no_page else [PAGE])],
            "job": job.to_json(),
        }
