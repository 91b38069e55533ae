"""What a job will take before it is run: time, disk, network and memory of each stage, and false candidates.

Bytes follow from what the stages read and write. Seconds are amounts divided by measured rates of one worker, which
lie in rates.json beside this file with their source; what was not measured is told as such, not guessed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gpulsh.errors import ParameterError
from gpulsh.theory import SCurve

STAGES = ("sign", "collide", "read", "verify", "resolve", "write")
STATE_BYTES = 32  # resident, of a document: the bound that the work keeps to
ROW_BYTES = 32  # of a signed document on disk beside its digests: 128-bit hash, shingle count, size
DECISION_BYTES = 21  # keep, witness, similarity, cluster
UNRELATED = (0.0, 0.001, 0.01, 0.05, 0.1)  # similarities of unrelated documents that are looked at
EVERY_PAIR_BITS = 64  # of a band digest


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """The documents, and what is assumed of how they repeat one another."""

    documents: float
    bytes: float  # of text, UTF-8
    met: float  # share of documents that are in a candidate pair
    pairs: float  # compared, a document
    dropped: float  # share of documents
    bytes_per_shingle: float

    def __post_init__(self) -> None:
        for name in ("documents", "bytes", "bytes_per_shingle"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 1):
                raise ParameterError(f"{name} is {getattr(self, name):g}; give a number of at least 1")
        for name in ("met", "dropped"):
            if not 0 <= getattr(self, name) <= 1:
                raise ParameterError(f"{name} is {getattr(self, name):g}; give a share from 0 to 1")
        if not (math.isfinite(self.pairs) and self.pairs >= 0):
            raise ParameterError(f"pairs is {self.pairs:g}; give the pairs compared a document, 0 or more")


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Amounts a second of one worker; None where it was not measured."""

    sign: float | None = None  # bytes of text, read and signed
    collide: float | None = None  # band digests, of every document in every band
    read: float | None = None  # bytes of text, of documents that met
    verify: float | None = None  # pairs
    resolve: float | None = None  # documents that met
    write: float | None = None  # bytes of text, of all documents
    disk: float | None = None  # bytes read or written
    network: float | None = None  # bytes received

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ParameterError(f"the rate of {field.name} is {value:g}; give a number above 0")


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of all workers together; bytes, and seconds where its rate is known."""

    name: str
    amount: float
    unit: str
    seconds: float | None
    bound: str | None  # what the seconds are those of: "work", "disk" or "network"
    disk_read: float
    disk_written: float
    network: float
    memory_each: float  # resident state of a machine; the texts under way come on top, as the budget allows


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The stages and what they add up to."""

    stages: tuple[Stage, ...]
    work_disk: float  # greatest size of OUT/_work
    output: float
    index: float  # of the kept documents, for later crawls
    false_candidates: dict[float, float]  # expected pairs, by the similarity of unrelated documents

    @property
    def seconds(self) -> float | None:
        """All stages one after another; None where one is not known."""
        known = [stage.seconds for stage in self.stages if stage.seconds is not None]
        return sum(known) if len(known) == len(self.stages) else None

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {**asdict(self), "stages": [asdict(stage) for stage in self.stages], "seconds": self.seconds}


@cache
def recorded() -> Mapping[str, Any]:
    """rates.json: rates of a worker, the corpus they were measured on, and the record they are taken from."""
    found: dict[str, Any] = json.loads(Path(__file__).with_name("rates.json").read_bytes())
    return found


def estimate(
    corpus: Corpus, rates: Rates, *, workers: int, nodes: int, bands: int, rows: int, start: float = 0.0
) -> Estimate:
    """The stages on `workers` equal workers on `nodes` machines, whose work is divided evenly.

    `start` are seconds that the first stage takes however little there is to do.

    >>> corpus = Corpus(documents=1e9, bytes=5e12, met=0.5, pairs=4, dropped=0.25, bytes_per_shingle=6)
    >>> found = estimate(corpus, Rates(sign=1e9), workers=10, nodes=1, bands=21, rows=6)
    >>> found.stages[0].seconds, found.stages[1].seconds, found.seconds
    (500.0, None, None)
    """
    n, size, met = corpus.documents, corpus.bytes, corpus.met * corpus.bytes
    elsewhere = 1 - 1 / nodes  # share of what is brought together that comes from another machine
    row = 8 * bands + ROW_BYTES
    edges = 24 * corpus.pairs * n
    plans: dict[str, tuple[float, str, float, float, float]] = {
        # amount, unit, bytes read from disk, written to it, through the network
        "sign": (size, "bytes of text", size, n * row, 0),
        "collide": (n * bands, "digests", n * (row - 8), 0, n * bands * 16 * elsewhere),
        "read": (met, "bytes of text", size if met else 0, met, met * elsewhere),
        "verify": (corpus.pairs * n, "pairs", met, edges, 0),
        "resolve": (corpus.met * n, "documents", edges, n * DECISION_BYTES, edges * elsewhere),
        "write": (size, "bytes of text", size, (1 - corpus.dropped) * size, 0),
    }
    stages = []
    for name, (amount, unit, read, written, network) in plans.items():
        bounds = {
            "work": _seconds(amount, getattr(rates, name), workers),
            "disk": _seconds(read + written, rates.disk, nodes),
            "network": _seconds(network, rates.network, nodes),
        }
        if name == "sign" and bounds["work"] is not None:
            bounds["work"] += start
        known = {bound: seconds for bound, seconds in bounds.items() if seconds is not None}
        bound = max(known, key=lambda name: known[name]) if bounds["work"] is not None else None
        stages.append(
            Stage(
                name=name,
                amount=amount,
                unit=unit,
                seconds=known[bound] if bound else None,
                bound=bound,
                disk_read=read,
                disk_written=written,
                network=network,
                memory_each=STATE_BYTES * n / nodes,
            )
        )
    return Estimate(
        stages=tuple(stages),
        work_disk=n * (row + DECISION_BYTES) + met + edges,
        output=(1 - corpus.dropped) * size,
        index=index_bytes(corpus, bands),
        false_candidates={s: false_candidates(n, s, bands, rows) for s in UNRELATED},
    )


def false_candidates(documents: float, similarity: float, bands: int, rows: int) -> float:
    """Expected candidate pairs among documents that are all of `similarity` to each other, and of digests that agree
    by chance: n (n - 1) / 2 times the probability of each.

    >>> f"{false_candidates(1e11, 0, 21, 6):.0f} {false_candidates(1e11, 0.01, 21, 6):.2g}"
    '5692 1.1e+11'
    """
    pairs = documents * (documents - 1) / 2
    return pairs * (float(SCurve(bands=bands, rows=rows).probability(similarity)) + bands * 2.0**-EVERY_PAIR_BITS)


def index_bytes(corpus: Corpus, bands: int) -> float:
    """Size of a persistent index: digests and delta-coded fingerprints of what is kept, a hash of every document.

    m sorted 64-bit numbers have gaps of about 2^64 / m, so that a gap takes 64 - log2(m) + log2(e) bits at best.
    """
    shingles = max(corpus.bytes / corpus.documents / corpus.bytes_per_shingle, 1)
    bits = 64 - np.log2(shingles) + np.log2(np.e)
    kept = (1 - corpus.dropped) * corpus.documents
    return float(kept * (8 * bands + shingles * bits / 8) + corpus.documents * 24)


def _seconds(amount: float, rate: float | None, workers: int) -> float | None:
    return None if rate is None else amount / (rate * workers)
