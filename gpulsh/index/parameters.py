"""What decides the contents of an index, and how two of it differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from gpulsh.errors import ParameterError
from gpulsh.params import BandShape, Family, Folding, Parameters, Shingling, checked_text_parameters
from gpulsh.theory import default_banding


@dataclass(frozen=True, kw_only=True)
class IndexParameters(Parameters):
    """All that decides which documents meet and which are duplicates."""

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
    ) -> Self:
        """As `deduplicate` checks them and chooses what is left open; ParameterError names what is wrong."""
        shingling, folding = checked_text_parameters(shingling, folding)
        family = Family(num_perm=num_perm, seed=seed)
        chosen_bands, chosen_rows = default_banding(family.num_perm, threshold, bands=bands, rows=rows)
        return cls(
            threshold=float(threshold),
            shingling=shingling,
            folding=folding,
            family=family,
            banding=BandShape(bands=chosen_bands, rows=chosen_rows),
        )

    @classmethod
    def restored(cls, told: Mapping[str, Any]) -> Self:
        """From what `asdict` gave."""
        return cls(
            threshold=told["threshold"],
            shingling=Shingling(**told["shingling"]),
            folding=Folding(**told["folding"]),
            family=Family(**told["family"]),
            banding=BandShape(**told["banding"]),
        )

    def refuse_others(self, where: object, given: Mapping[str, Any]) -> None:
        """ParameterError that names each difference from `given`: parameters as `chosen` takes them, None where open.

        Bands and rows that follow from another threshold or num_perm are no difference of their own.
        """
        own = {
            "threshold": self.threshold,
            "shingling": self.shingling,
            "folding": self.folding,
            "num_perm": self.family.num_perm,
            "bands": self.banding.bands,
            "rows": self.banding.rows,
            "seed": self.family.seed,
        }
        differences = [
            f"{name} {_shown(own[name])} and {_shown(value)} was given"
            for name, value in given.items()
            if value is not None and value != own[name]
        ]
        if differences:
            raise ParameterError(
                f"{where}: the index was made with {', with '.join(differences)}; give the index's own parameters, or"
                " none, or build another index"
            )


def _shown(value: Any) -> str:
    if isinstance(value, Shingling):
        return f"{value.unit}:{value.size}"
    return str(value.form) if isinstance(value, Folding) else str(value)


def as_told(parameters: IndexParameters) -> dict[str, Any]:
    """As the manifest holds them."""
    return asdict(parameters)
