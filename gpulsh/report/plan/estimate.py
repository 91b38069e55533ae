"""Estimates what a job will take: time, disk, network and memory of each stage, and false candidates.

Bytes follow from what the stages read and write. Seconds are amounts divided by measured rates of one worker, which
lie in rates.json beside this file with their source; what was not measured is left open, not guessed.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path

import numpy as np

from gpulsh.account.costs import PAIR_COST, Corpus, stage_works
from gpulsh.account.stages import COSTS
from gpulsh.budget import (
    DIGEST_COST,
    EXACT_COST,
    MOST_CHOSEN,
    MOST_DIGESTS,
    MOST_GROUP,
    PARTITION_BYTES,
    PROGRAM,
    TASK_MEMORY,
    held_bytes,
)
from gpulsh.errors import ParameterError
from gpulsh.facts import Facts
from gpulsh.theory import SCurve

CONNECT_BYTES = 28  # resident, of a document that met others, on the one machine that makes the groups
INDEX_BAND_BYTES = 18 + 12 / 8  # of a kept document and band: band, digest, document, and its share of a filter
INDEX_KEY_BYTES = 32  # of a key, about, as a path and a row or a URL are
# Of a document: number, witness, similarity, size; hash, row, share of a filter; key, its end, its hash and row.
INDEX_ROW_BYTES = 32 + 24 + 12 / 8 + INDEX_KEY_BYTES + 24
UNRELATED = (0.0, 0.001, 0.01, 0.05, 0.1)  # similarities of unrelated documents that are looked at
EVERY_PAIR_BITS = 64  # of a band digest
WAITING = ("sign", "copies", "collide", "connect", "route", "gather")  # stages in which texts may wait in memory
MOST_WORKERS = 10**9
LEAST_RATE, MOST_RATE = 1e-6, 1e24  # a second


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Amounts a second of one worker; None where it was not measured."""

    sign: float | None = None  # bytes of text, read and signed
    copies: float | None = None  # documents
    collide: float | None = None  # band digests, of every document in every band
    connect: float | None = None  # documents that met
    route: float | None = None  # pairs
    gather: float | None = None  # bytes of text, of documents that met
    verify: float | None = None  # bytes of text, of documents that met, and PAIR_COST for each pair
    collect: float | None = None  # documents that met
    write: float | None = None  # bytes of text, of all documents
    disk: float | None = None  # bytes read or written
    network: float | None = None  # bytes received or sent

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not LEAST_RATE <= value <= MOST_RATE:
                raise ParameterError(
                    f"the rate of {field.name} is {value:g}; give a number above 0, {LEAST_RATE:g} to {MOST_RATE:g}"
                )


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
    memory_each: float  # of a machine: what is held at once, of the budget, unless one machine has to hold more


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The stages and what they add up to."""

    stages: tuple[Stage, ...]
    start: float  # seconds of a run that are no stage's
    work_disk: float  # greatest size of OUT/_work
    output: float
    index: float  # of the kept documents, for later crawls
    false_candidates: dict[float, float]  # expected pairs, by the similarity of unrelated documents
    false_seconds: dict[float, float | None]  # to compare them, where that rate is known

    @property
    def seconds(self) -> float | None:
        """The start and all stages one after another; None where one is not known."""
        known = [stage.seconds for stage in self.stages if stage.seconds is not None]
        return self.start + sum(known) if len(known) == len(self.stages) else None

    def to_dict(self) -> Facts:
        """As JSON values."""
        return {**asdict(self), "stages": [asdict(stage) for stage in self.stages], "seconds": self.seconds}


@cache
def recorded() -> Facts:
    """rates.json: what is assumed of a corpus; by kind of worker, thread or GPU, its rates and the record of them."""
    found: Facts = json.loads(Path(__file__).with_name("rates.json").read_bytes())
    return found


def estimate(
    corpus: Corpus,
    rates: Rates,
    *,
    workers: int,
    nodes: int,
    bands: int,
    rows: int,
    start: float = 0.0,
    process: float = 0.0,
    remote: bool = False,
    memory: int = MOST_CHOSEN,
) -> Estimate:
    """The stages on `workers` equal workers on `nodes` machines, whose work is divided evenly.

    `start` are seconds that the first stage takes however little there is to do, `process` those that no stage has: to
    load the program, find and check files, sum up the evidence. Inputs and results lie on the
    machines' disks, or with `remote` behind their networks; `memory` is the budget of a machine.

    >>> corpus = Corpus(documents=1e9, bytes=5e12, met=0.5, pairs=4, dropped=0.25, bytes_per_shingle=6)
    >>> found = estimate(corpus, Rates(sign=1e9), workers=10, nodes=1, bands=21, rows=6)
    >>> found.stages[0].seconds, found.stages[1].seconds, found.seconds
    (500.0, None, None)
    """
    works = stage_works(corpus, bands)
    abreast = max(min(workers // nodes, memory // TASK_MEMORY), 1)
    elsewhere = 1 - 1 / nodes  # share of what is brought together that comes from another machine
    stages = []
    for name, work in works.items():
        read = work.read + (0.0 if remote else work.inputs)
        written = work.written + (0.0 if remote else work.outputs)
        network = work.gathered * elsewhere + (work.inputs + work.outputs if remote else 0.0)
        bounds = {
            "work": _seconds(work.amount, getattr(rates, name), workers),
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
                amount=work.amount,
                unit=COSTS[name],
                seconds=known[bound] if bound else None,
                bound=bound,
                disk_read=read,
                disk_written=written,
                network=network,
                memory_each=max(
                    min(memory, PROGRAM + held_at_once(name, corpus, bands, nodes, abreast, memory)),
                    CONNECT_BYTES * corpus.met * corpus.documents if name == "connect" else 0,
                ),
            )
        )
    false = {similarity: false_candidates(corpus.documents, similarity, bands, rows) for similarity in UNRELATED}
    return Estimate(
        stages=tuple(stages),
        start=process,
        work_disk=sum(work.written for work in works.values()),
        output=works["write"].outputs,
        index=index_bytes(corpus, bands),
        false_candidates=false,
        false_seconds={
            similarity: _seconds(PAIR_COST * pairs, rates.verify, workers) for similarity, pairs in false.items()
        },
    )


def held_at_once(name: str, corpus: Corpus, bands: float, nodes: int, abreast: int, memory: int) -> float:
    """Bytes that a machine holds at once in a stage, beside the program, as `budget` cuts it; `abreast` tasks run
    side by side where each is of one part of the text. On one machine, texts that were signed wait to be gathered.
    """
    documents, size = corpus.documents / nodes, corpus.bytes / nodes
    waits = held_bytes(memory) if nodes == 1 and name in WAITING else 0
    if name in ("copies", "collide"):
        digests = min(documents * (EXACT_COST if name == "copies" else bands), MOST_DIGESTS)
        return digests * DIGEST_COST + min(size, waits)
    if name == "verify":
        return min(corpus.met * size, MOST_GROUP)
    return min(size, abreast * PARTITION_BYTES + waits)


def workers_needed(seconds: float, estimated: Callable[[int], Estimate]) -> int | None:
    """The fewest workers whose estimate is at most `seconds`; None where no number of them is enough.

    `estimated` gives the estimate of a number of workers. Of two or more, further ones never take longer.
    """

    def enough(workers: int) -> bool:
        took = estimated(workers).seconds
        return took is not None and took <= seconds

    most = 1
    while not enough(most):
        if most > MOST_WORKERS:
            return None
        most *= 2
    return bisect_left(range(most + 1), True, lo=most // 2 + 1, key=enough)


def false_candidates(documents: float, similarity: float, bands: int, rows: int) -> float:
    """Expected candidate pairs among documents that are all of `similarity` to each other, and of digests that agree
    by chance: n (n - 1) / 2 times the probability of each.

    >>> f"{false_candidates(1e11, 0, 21, 6):.0f} {false_candidates(1e11, 0.01, 21, 6):.2g}"
    '5692 1.1e+11'
    """
    pairs = documents * (documents - 1) / 2
    return pairs * (float(SCurve(bands=bands, rows=rows).probability(similarity)) + bands * 2.0**-EVERY_PAIR_BITS)


def index_bytes(corpus: Corpus, bands: int) -> float:
    """Size of a persistent index: digests and delta-coded fingerprints of what is kept, hash and key of every document.

    m sorted 64-bit numbers have gaps of about 2^64 / m, so that a gap takes 64 - log2(m) + log2(e) bits at best.
    """
    shingles = min(max(corpus.bytes / corpus.documents / corpus.bytes_per_shingle, 1), 2.0**64)
    bits = 64 - np.log2(shingles) + np.log2(np.e)
    kept = (1 - corpus.dropped) * corpus.documents
    return float(kept * (INDEX_BAND_BYTES * bands + shingles * bits / 8) + corpus.documents * INDEX_ROW_BYTES)


def _seconds(amount: float, rate: float | None, workers: int) -> float | None:
    return None if rate is None else amount / (rate * workers)
