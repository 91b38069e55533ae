"""The method: every parameter that decides a result, checked once, and every choice made before work begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

from gpulsh.params import (
    BandShape,
    Family,
    Folding,
    Parameters,
    Shingling,
    Sketch,
    check_choice,
    checked_text_parameters,
    chosen_family,
)
from gpulsh.theory import default_banding

Verify = Literal["exact", "signature", "none"]
Resolve = Literal["kept", "components"]


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
        sketch: Sketch | None = None,
        num_perm: int = 128,
        bands: int | None = None,
        rows: int | None = None,
        seed: int = 1,
        **others: Any,
    ) -> Self:
        """What was left open is chosen; `others` are a subclass's fields. ParameterError names what is wrong."""
        shingling, folding = checked_text_parameters(shingling, folding)
        family = chosen_family(sketch, num_perm, seed)
        chosen_bands, chosen_rows = default_banding(family.num_perm, threshold, bands=bands, rows=rows)
        return cls(
            threshold=float(threshold),
            shingling=shingling,
            folding=folding,
            family=family,
            banding=BandShape(bands=chosen_bands, rows=chosen_rows),
            **others,
        )


@dataclass(frozen=True, kw_only=True)
class Method(Matching):
    """All that decides the result beside the documents and their priority.

    >>> Method.chosen(threshold=0.8).banding
    BandShape(bands=21, rows=6)
    """

    kind = "Plan"

    verify: Verify = "exact"
    resolve: Resolve = "kept"

    def __post_init__(self) -> None:
        check_choice("verify", self.verify, get_args(Verify))
        check_choice("resolve", self.resolve, get_args(Resolve))
