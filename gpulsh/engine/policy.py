"""Who is kept of two duplicates, and who may be dropped for whom: `--keep`, `--protect`, `--within` on files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsh.dedup.relation import Relation
from gpulsh.engine.order import by_source, highest_first, key_column, longest_first, source_ranks
from gpulsh.io.file_texts import FileTexts
from gpulsh.io.format import File


@dataclass(frozen=True)
class Policy:
    """The policy of a run over `inputs`; ParameterError where `keep` names nothing that could be kept by."""

    keep: str
    inputs: tuple[str, ...]
    protect: tuple[str, ...] = ()  # their files come before those of the inputs, and are only read
    within: bool = False
    key: str | None = field(init=False)  # the column that `keep` names
    ranks: dict[str, int] | None = field(init=False)  # the inputs' places, where `keep` lists them

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", key_column(self.keep))
        object.__setattr__(self, "ranks", source_ranks(self.keep, self.inputs))

    def to_json(self) -> dict[str, Any]:
        """What of it a report tells, and another run is compared by."""
        return {"keep": self.keep, "protect": list(self.protect), "within": self.within}

    def protects(self, file: File) -> bool:
        """Whether the documents of a file are never dropped, nor written."""
        return file.source in self.protect

    def order(self, texts: FileTexts) -> NDArray[np.int64] | None:
        """int64 [n]: positions in decision order, those of protected documents first; None: as they come."""
        order = self._order(texts)
        protected = self._protected(texts)
        if order is None or protected == 0:
            return order
        return np.concatenate([np.arange(protected, dtype=np.int64), order[order >= protected]])

    def relation(self, texts: FileTexts) -> Relation:
        """Who may be dropped for whom."""
        if not self.within:
            return Relation(None, self._protected(texts))
        numbers = {source: number for number, source in enumerate(dict.fromkeys(file.source for file in texts.files))}
        source = np.repeat([numbers[file.source] for file in texts.files], np.diff(texts.starts))
        return Relation(source, self._protected(texts))

    def _protected(self, texts: FileTexts) -> int:
        return int(texts.starts[sum(map(self.protects, texts.files))])

    def _order(self, texts: FileTexts) -> NDArray[np.int64] | None:
        if self.keep == "first":
            return None
        if self.ranks is not None:
            return by_source(
                np.repeat([self.ranks.get(file.source, -1) for file in texts.files], np.diff(texts.starts))
            )
        if self.key is None:
            return longest_first(texts.sizes)

        def where(position: int) -> str:
            (number,), (row,) = texts.locate(np.array([position]))
            return f"{texts.files[number].name}: row {row}"

        return highest_first(texts.keys, self.key, where)
