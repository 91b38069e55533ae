"""The method: every parameter that decides a result, checked once, and all choices made before work begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, get_args

from gpulsh.checks import check_choice, check_integer, check_type, shown
from gpulsh.errors import ParameterError, refuse_given
from gpulsh.params import (
    MAX_NUM_PERM,
    MAX_SEED,
    OMITTED,
    BandShape,
    BitSketch,
    Family,
    Folding,
    NearBits,
    Parameters,
    Shingling,
    Sketch,
    checked_text_parameters,
    chosen_family,
)
from gpulsh.theory import (
    checked_number,
    checked_threshold,
    default_banding,
    default_distance,
    meeting_probability,
    near_probability,
)

Verify = Literal["exact", "signature", "none"]
Resolve = Literal["kept", "components"]
MeasureName = Literal["jaccard", "containment"]
SKETCH_PARAMETERS = ("sketch", "num_perm", "bands", "rows", "seed", "distance")  # without influence on containment


@dataclass(frozen=True, kw_only=True, repr=False)
class Method(Parameters):
    """All parameters that decide the result, apart from the documents and their priority.

    >>> Method.choose(threshold=0.8).banding
    BandShape(bands=21, rows=6)
    """

    kind = "Plan"

    threshold: float
    shingling: Shingling
    folding: Folding
    family: Family
    banding: BandShape
    verify: Verify = "exact"
    resolve: Resolve = "kept"
    measure: MeasureName = field(default="jaccard", metadata=OMITTED)
    # By containment: whether a document stays that contains the kept one, and is not contained in it.
    drop_contained_only: bool = field(default=True, metadata=OMITTED)
    # Bits that find candidates instead of the family's signatures, and bits that filter candidates.
    near: NearBits | None = field(default=None, metadata=OMITTED)
    also: NearBits | None = field(default=None, metadata=OMITTED)

    def __post_init__(self) -> None:
        check_choice("verify", self.verify, get_args(Verify))
        check_choice("resolve", self.resolve, get_args(Resolve))
        check_choice("measure", self.measure, get_args(MeasureName))
        check_type("drop_contained_only", self.drop_contained_only, bool)
        if self.measure != "containment" and not self.drop_contained_only:
            raise ParameterError("--drop-containing is given, and measure is 'jaccard'; give measure 'containment'")
        if self.measure == "containment" and self.verify != "exact":
            raise ParameterError(f"measure is 'containment' and verify is {self.verify!r}; give --verify exact")

    @classmethod
    def choose(
        cls,
        threshold: float = 0.8,
        shingling: Shingling | str | None = None,
        folding: Folding | None = None,
        sketch: Sketch | BitSketch | None = None,
        num_perm: int = 128,
        bands: int | None = None,
        rows: int | None = None,
        seed: int = 1,
        verify: Verify = "exact",
        resolve: Resolve = "kept",
        measure: MeasureName = "jaccard",
        also: BitSketch | None = None,
        distance: int | None = None,
        drop_contained_only: bool = True,
    ) -> Self:
        """The method, with a choice for every open parameter. Raises ParameterError for a wrong one."""
        check_choice("measure", measure, get_args(MeasureName))
        check_choice("verify", verify, get_args(Verify))
        num_perm, seed = check_integer("num_perm", num_perm, 1, MAX_NUM_PERM), check_integer("seed", seed, 0, MAX_SEED)
        shingling, folding = checked_text_parameters(shingling, folding)
        threshold = checked_threshold(threshold)
        if also is not None and not isinstance(also, NearBits) and distance is None and measure == "containment":
            raise ParameterError(
                "--and is given with measure 'containment', which has no default distance; give the distance"
            )
        filtered = None if also is None else _near_bits("also", also, distance, threshold, near_probability)
        near = None
        if hasattr(sketch, "near"):
            near = _near_bits("sketch", sketch, distance, threshold, meeting_probability)
        if distance is not None and near is None and filtered is None:
            raise ParameterError(
                f"distance is {shown(distance)} and no sketch has bits; give sketch=SimHash() or leave it out"
            )
        family = chosen_family(sketch, num_perm, seed) if near is None else Family()
        if measure == "containment":  # joins all shingles, without a sketch
            family, near, bands, rows = Family(num_perm=1, seed=family.seed), None, 1, 1
        chosen_bands, chosen_rows = default_banding(family.num_perm, threshold, bands=bands, rows=rows)
        if near is not None:
            of_sets = {"bands": bands, "rows": rows, "verify 'signature'": verify == "signature"}
            refuse_given(of_sets, "{} is given, and a sketch of bits has no bands or Jaccard estimate; leave it out")
            if num_perm != Family().num_perm:
                raise ParameterError(f"num_perm is {shown(num_perm)}, which a sketch of bits lacks; leave it out")
            if seed not in (Family().seed, near.seed):
                raise ParameterError(
                    f"seed is {shown(seed)} and the sketch has {near.seed}; give seed to the sketch alone"
                )
            chosen_bands, chosen_rows = near.tables, 1
        return cls(
            threshold=threshold,
            shingling=shingling,
            folding=folding,
            family=family,
            banding=BandShape(bands=chosen_bands, rows=chosen_rows),
            verify=verify,
            resolve=resolve,
            measure=measure,
            drop_contained_only=drop_contained_only,
            near=near,
            also=filtered,
        )

    @classmethod
    def from_matching(cls, stored: Mapping[str, Any]) -> Self:
        """The method whose `matching` gave these values."""
        kinds = {"shingling": Shingling, "folding": Folding, "family": Family, "banding": BandShape, "near": NearBits}
        return cls(**{name: kinds[name](**value) if name in kinds else value for name, value in stored.items()})

    @property
    def backend_shingling(self) -> Shingling:
        """The shingling as backends take it, for normalized texts."""
        return self.shingling.with_folding(self.folding)

    def matching(self) -> dict[str, Any]:
        """The parameters that decide which documents match, without `verify` and `resolve`, as JSON values."""
        return {name: value for name, value in self.json_fields().items() if name not in ("verify", "resolve")}

    def differences(self, given: Mapping[str, Any]) -> list[str]:
        """The differences from `given`, parameters of `choose` by name, in words.

        Bands and rows that follow from another threshold or num_perm do not count, nor does a sketch with the measure
        containment. Raises ParameterError for a value of a wrong type.
        """
        near = self.near
        own = {
            **vars(self),
            "sketch": near or self.family,
            "distance": None if near is None else near.distance,
            "num_perm": self.family.num_perm,
            "bands": self.banding.bands,
            "rows": self.banding.rows,
            "seed": (near or self.family).seed,
        }
        checked = dict(given)
        shingling, folding = checked_text_parameters(given.get("shingling"), given.get("folding"))
        checked |= {name: value for name, value in (("shingling", shingling), ("folding", folding)) if name in given}
        if "threshold" in given:
            checked["threshold"] = checked_number("threshold", given["threshold"])
        if "measure" in given:
            check_choice("measure", given["measure"], get_args(MeasureName))
        for name in ("num_perm", "bands", "rows", "seed", "distance"):
            if name in given:
                checked[name] = check_integer(name, given[name], 0, MAX_SEED)
        sketch = given.get("sketch")
        if hasattr(sketch, "near"):
            distance = checked.get("distance", near.distance if near else None)
            checked["sketch"] = _near_bits("sketch", sketch, distance, self.threshold, meeting_probability)
        elif sketch is not None:
            checked["sketch"] = chosen_family(sketch, self.family.num_perm, self.family.seed)
        if self.measure == "containment":
            checked = {name: value for name, value in checked.items() if name not in SKETCH_PARAMETERS}
        return [
            f"{name} {_parameter_text(own[name])} and {_parameter_text(value)} was given"
            for name, value in checked.items()
            if value != own[name]
        ]


def given_parameters(**parameters: Any) -> dict[str, Any]:
    """The parameters that are not None, by name, for `Method.choose` and `Method.differences`."""
    return {name: value for name, value in parameters.items() if value is not None}


def _near_bits(
    name: str, sketch: object, distance: int | None, threshold: float, found: Callable[[NearBits, float], float]
) -> NearBits:
    """The bits of a sketch; without a distance, the least at which pairs at the threshold are `found`."""
    if isinstance(sketch, NearBits):  # named with its own distance
        return sketch
    near = getattr(sketch, "near", None)
    if near is None:
        raise ParameterError(
            f"{name} is of type {type(sketch).__name__}; give a sketch of bits, such as gpulsh.SimHash()"
        )
    bits: NearBits = near(0 if distance is None else distance)
    return default_distance(bits, threshold, found) if distance is None else bits


def _parameter_text(value: object) -> str:
    if isinstance(value, Family):
        return f"{value.name}:{value.num_perm} of seed {value.seed}"
    if isinstance(value, NearBits):
        return f"simhash:{value.bits}:{value.distance} of seed {value.seed}, by {value.weights}"
    return f"{value.form}{'' if value.case else ', case left'}" if isinstance(value, Folding) else str(value)
