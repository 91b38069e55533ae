"""Who is kept of two duplicates, and who may be dropped for whom, on files: `--keep`, `--protect`, `--within`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpulsh.errors import Advice, ParameterError
from gpulsh.facts import Facts
from gpulsh.io.file import File
from gpulsh.io.files.file_texts import PartitionFacts
from gpulsh.run.job.order import Order, by_place, highest_first, key_column, longest_first, source_ranks

_log = logging.getLogger("gpulsh")


@dataclass(frozen=True)
class Policy:
    """The policy of a run over `inputs`; ParameterError where `keep` names nothing that could be kept by."""

    keep: str
    inputs: tuple[str, ...]
    protect: tuple[str, ...] = ()  # their files come before those of the inputs, and are only read
    within: bool = False
    across: bool = False
    key: str | None = field(init=False)  # the column that `keep` names
    ranks: dict[str, int] | None = field(init=False)  # the inputs' places, where `keep` lists them

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", key_column(self.keep))
        object.__setattr__(self, "ranks", source_ranks(self.keep, self.inputs))
        if self.within and self.across:
            raise ParameterError("within and across are both given; give one, or none for duplicates of both kinds")

    def warn_of(self, files: Sequence[File]) -> None:
        """Say where none of the files' documents can be dropped for another."""
        if self.across and len({file.source for file in files}) < 2:
            _log.warning(Advice("--across, and all documents are of one INPUT: none is dropped; give several INPUTs"))

    def to_json(self) -> Facts:
        """What of it a report tells, and another run is compared by."""
        protect = list(self.protect)
        return {"keep": self.keep, "protect": protect, "within": self.within, "across": self.across}

    def protects(self, file: File) -> bool:
        """Whether the documents of a file are never dropped, nor written."""
        return file.source in self.protect

    def by_source(self) -> bool:
        """Whether it matters which INPUT a document is of."""
        return self.within or self.across

    def order(self, facts: PartitionFacts, files: Sequence[File], where: Callable[[int], str]) -> Order | None:
        """The decision order of the documents of a partition of `files`; None where that is their position."""
        if self.keep == "first":
            return None
        if self.ranks is not None:
            places = [self.ranks.get(files[number].source, 0) for number in facts.rows]
            return by_place(np.repeat(places, list(facts.rows.values())).astype(np.int64))
        if self.key is None:
            return longest_first(np.concatenate([np.empty(0, np.int64), *facts.sizes]))
        found, start = [], 0
        for keys in facts.keys:
            found.append(highest_first(keys, self.key, lambda row, start=start: where(start + row)))  # type: ignore[misc]
            start += len(keys)
        none = np.empty(0, np.uint64)
        return Order(*map(np.concatenate, zip((none, none), *found, strict=True)))
