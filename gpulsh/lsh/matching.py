"""What decides which documents meet and which are duplicates, whoever asks: a run, or an index that outlives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from gpulsh.params import BandShape, Family, Folding, Parameters, Shingling, checked_text_parameters
from gpulsh.theory import default_banding


@dataclass(frozen=True, kw_only=True)
class Matching(Parameters):
    """Every parameter checked and every choice made; subclasses add what else decides."""

    threshold: float
    shingling: Shingling
    folding: Folding
    family: Family
    banding: BandShape

    @classmethod
    def chosen(
        cls,
        *,
        threshold: float = 0.8,
        shingling: Shingling | None = None,
        folding: Folding | None = None,
        num_perm: int = 128,
        bands: int | None = None,
        rows: int | None = None,
        seed: int = 1,
        **others: Any,
    ) -> Self:
        """What was left open is chosen; `others` are a subclass's fields. ParameterError names what is wrong."""
        shingling, folding = checked_text_parameters(shingling, folding)
        family = Family(num_perm=num_perm, seed=seed)
        chosen_bands, chosen_rows = default_banding(family.num_perm, threshold, bands=bands, rows=rows)
        return cls(
            threshold=float(threshold),
            shingling=shingling,
            folding=folding,
            family=family,
            banding=BandShape(bands=chosen_bands, rows=chosen_rows),
            **others,
        )
