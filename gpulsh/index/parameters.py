"""What decides the contents of an index, and how two of it differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Self

from gpulsh.errors import ParameterError
from gpulsh.method import Matching
from gpulsh.params import BandShape, Family, Folding, Shingling, chosen_family


class IndexParameters(Matching):
    """As the manifest of an index holds them."""

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
            "sketch": self.family,
            "num_perm": self.family.num_perm,
            "bands": self.banding.bands,
            "rows": self.banding.rows,
            "seed": self.family.seed,
        }
        given = {name: value for name, value in given.items() if value is not None}
        if "sketch" in given:
            given["sketch"] = chosen_family(given["sketch"], self.family.num_perm, self.family.seed)
        differences = [
            f"{name} {_shown(own[name])} and {_shown(value)} was given"
            for name, value in given.items()
            if value != own[name]
        ]
        if differences:
            raise ParameterError(
                f"{where}: the index was made with {', with '.join(differences)}; give the index's own parameters, or"
                " none, or build another index"
            )


def _shown(value: Any) -> str:
    if isinstance(value, Shingling):
        return f"{value.unit}:{value.size}"
    if isinstance(value, Family):
        return f"{value.name}:{value.num_perm} of seed {value.seed}"
    return str(value.form) if isinstance(value, Folding) else str(value)


def as_told(parameters: IndexParameters) -> dict[str, Any]:
    """As the manifest holds them."""
    return asdict(parameters)
