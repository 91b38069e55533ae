"""What is to be done: every parameter checked and every choice made before work begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from gpulsh.lsh.matching import Matching
from gpulsh.params import Folding, Shingling, check_choice

Verify = Literal["exact", "signature", "none"]
Resolve = Literal["kept", "components"]


@dataclass(frozen=True, kw_only=True)
class Plan(Matching):
    """All that decides the result beside the documents and their priority."""

    verify: Verify
    resolve: Resolve


def make_plan(
    *,
    threshold: float = 0.8,
    shingling: Shingling | None = None,
    folding: Folding | None = None,
    num_perm: int = 128,
    bands: int | None = None,
    rows: int | None = None,
    seed: int = 1,
    verify: Verify = "exact",
    resolve: Resolve = "kept",
) -> Plan:
    """Check the parameters of `deduplicate` and choose what was left open; ParameterError names what is wrong.

    >>> make_plan(threshold=0.8).banding
    BandShape(bands=21, rows=6)
    """
    check_choice("verify", verify, get_args(Verify))
    check_choice("resolve", resolve, get_args(Resolve))
    return Plan.chosen(
        threshold=threshold,
        shingling=shingling,
        folding=folding,
        num_perm=num_perm,
        bands=bands,
        rows=rows,
        seed=seed,
        verify=verify,
        resolve=resolve,
    )
