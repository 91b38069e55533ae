"""Which tasks of a job are done: the steps of its manifest. One whose files are damaged is to be done again."""

from __future__ import annotations

import logging

from gpulsh.account.progress import Progress
from gpulsh.facts import Facts
from gpulsh.run.job.task import Made
from gpulsh.store.manifest import Manifest, Step

ADMIT = "admit"  # the step that decides by an index; the index may have taken in what was decided
WORTH_BYTES = 256 << 20  # of signed text: so much work outlives an error; an interrupted run keeps all of it

_log = logging.getLogger("gpulsh")


class Steps:
    """The steps of a manifest, as whoever runs tasks asks for them."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest

    @property
    def secret(self) -> bytes:
        """That the run's evidence is computed under."""
        return self._manifest.secret

    def finished(self, step: str) -> Facts | None:
        """The facts of a finished step, its files intact; None where it must be done, or done again."""
        found = self.recorded(step)
        return found.facts if found and self.intact(self._manifest.damaged(found)) else None

    def recorded(self, step: str) -> Step | None:
        """The step if it was finished; its files may be damaged since."""
        return self._manifest.find(step)

    def intact(self, damaged: str | None) -> bool:
        """Whether a finished step counts; warns of the file of it that is `damaged`."""
        if damaged is not None:
            _log.warning("%s is missing or damaged; what it held is computed again", damaged)
        return damaged is None

    def finish(self, step: str, made: Made) -> None:
        """Record a finished step."""
        self._manifest.add(step, made.files, made.facts, brief=made.brief)


def tell(facts: Facts, unit: str, progress: Progress, *, before: bool = False) -> None:
    """Report a task, of a stage in `unit`, that was done elsewhere, or `before` by a run that this one resumes."""
    progress.advance(facts.get("amount", 0))
    documents, size = (
        0 if unit == own else facts.get(name, 0) for name, own in (("documents", "documents"), ("bytes", "B"))
    )
    progress.count(documents=documents, size=size, dropped=facts.get("dropped", 0))
    if before:
        progress.done_before(facts.get("amount", 0), documents=documents, size=size)


def anything_finished(manifest: Manifest) -> bool:
    """Whether there is a step to resume from, which a run keeps when it is asked to end."""
    return any(step.files for _, step in manifest.steps())


def worth_resuming(manifest: Manifest) -> bool:
    """Whether finished steps took so long that they should outlive an error, too, although it may come again."""
    signed = sum(step.facts.get("bytes", 0) for name, step in manifest.steps() if name.startswith("sign-"))
    return bool(signed >= WORTH_BYTES) or manifest.find(ADMIT) is not None
