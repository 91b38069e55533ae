"""Tasks run one after another in this process; the backend works on all its threads and devices at each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpulsh.dedup.task import Stage, Workplace
from gpulsh.engine.steps import Steps, tell


class InProcess:
    """`dedup.task.Runner` at one workplace."""

    def __init__(self, place: Workplace, steps: Steps) -> None:
        self._place, self._steps = place, steps

    def run(self, stage: Stage) -> list[Mapping[str, Any]]:
        """The facts of each task; one that was finished before is not done again."""
        facts = []
        for task in stage.tasks:
            found = self._steps.finished(task.step)
            if found is None:
                made = task.work(self._place, *task.arguments)
                self._steps.finish(task.step, made)
                found = made.facts
            else:
                tell(found, stage.unit, self._place.progress)
            facts.append(found)
        return facts
