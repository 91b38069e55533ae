"""Estimates the time, disk, network and memory of each stage on any machines, from a few facts about a corpus.

Bytes follow from what each stage reads and writes. Seconds are amounts divided by the measured rate of one worker.
rates.json holds those rates and their record; a rate that nobody measured stays open.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from gpulsh import budget
from gpulsh.errors import ParameterError
from gpulsh.stats.stages import COSTS
from gpulsh.theory import SCurve

# The largest facts about a corpus. Positions of documents have 63 bits.
LARGEST = {"documents": 1e18, "bytes": 1e24, "met": 1, "pairs": 1e18, "dropped": 1, "bytes_per_shingle": 1e24}
MIN_RATE, MAX_RATE, MAX_WORKERS = 1e-6, 1e24, 10**9
# Per second: amounts of a worker in the units of COSTS, bytes of a machine's disk and network. `gather` and `verify`
# count the documents in candidate pairs, and `verify` PAIR_COST for each pair.
RATES = (*COSTS, "disk", "network")

# Bytes of a row in the tables that stages pass on.
DIGEST_BYTES, HASH_BYTES, SIZE_BYTES, STAR_BYTES, DECISION_BYTES = 12, 20, 8, 20, 54
PAIR_BYTES, ROUTED_PAIR_BYTES = 16, 24
MEMBER_BYTES, MEMBER_OF_MANY_BYTES = 13, 17  # the latter of 2^31 or more
PAIR_COST = 200  # bytes of text that take as long to read and shingle as one comparison of two documents
TASK_BYTES = 64 << 20  # that a task which reads a partition holds at once
CONNECT_BYTES = 16  # in memory, for each document in a candidate pair, on the one machine that makes the groups
TEXT_STAGES = ("sign", "copies", "collide", "connect", "route", "gather")  # stages in which texts may wait in memory

INDEX_CODING = 1.04  # for pages; for 40 fingerprints 1.07
INDEX_BAND_BYTES = 18 + 12 / 8  # of a kept document and band: band, digest, document, and its share of a filter
INDEX_KEY_BYTES = 32  # of a key, such as a path and a row, or a URL
# Of a document: number, witness, similarity, size; hash, row, share of a filter; key, its end, its hash and row.
INDEX_ROW_BYTES = 32 + 24 + 12 / 8 + INDEX_KEY_BYTES + 24
# With evidence at the source: digest, document, share of a filter; number, witness, similarity, size; hash, row, share
# of a filter; hash and row of a key; place of the text. Numbers and rows take 4 bytes where all are below 2^32.
COMPACT_BAND_BYTES = 12 + 16 / 8
COMPACT_ROW_BYTES = 20 + 20 + 16 / 8 + 12 + 8
UNRELATED = (0.0, 0.001, 0.01, 0.05, 0.1)  # similarities of unrelated documents, for the count of false candidates


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """The documents, and assumptions about how they repeat one another."""

    documents: float
    bytes: float  # of text, UTF-8
    met: float  # share of documents that are in a candidate pair
    pairs: float  # compared, per document
    dropped: float  # share of documents
    bytes_per_shingle: float
    protected: float = 0.0  # share of documents, which are never dropped
    met_bytes: float | None = None  # share of the bytes that these documents have; None: as of the documents

    def __post_init__(self) -> None:
        for name, most in LARGEST.items():
            least = 1 if name == "bytes_per_shingle" else 0
            if not least <= getattr(self, name) <= most:
                raise ParameterError(f"{name} is {getattr(self, name):g}; give a number from {least} to {most:g}")

    @property
    def shingles(self) -> float:
        """Of a document, on average."""
        return self.bytes / max(self.documents, 1) / self.bytes_per_shingle

    @property
    def met_size(self) -> float:
        """Bytes of the documents in candidate pairs."""
        return self.bytes * (self.met if self.met_bytes is None else self.met_bytes)


class Work(NamedTuple):
    """The work of a stage; all but its amount in bytes."""

    amount: float  # in the stage's unit of cost (`stats.stages`)
    inputs: float = 0.0  # read from the input
    outputs: float = 0.0  # written to the results
    read: float = 0.0  # from OUT/_work
    written: float = 0.0  # to OUT/_work
    gathered: float = 0.0  # brought together, by digest or by group, from the machines that made it


def stage_works(corpus: Corpus, bands: float) -> dict[str, Work]:
    """The work of each stage, by its name, for signatures of so many bands."""
    documents, met, pairs = corpus.documents, corpus.met * corpus.documents, corpus.pairs * corpus.documents
    digests, hashes = bands * documents, HASH_BYTES * documents
    signed, stars, decisions = DIGEST_BYTES * digests, STAR_BYTES * met, DECISION_BYTES * met
    members = (MEMBER_BYTES if met < 1 << 31 else MEMBER_OF_MANY_BYTES) * met
    texts, every = corpus.met_size, corpus.bytes
    found, routed = PAIR_BYTES * pairs, ROUTED_PAIR_BYTES * pairs
    compared = texts + routed
    return {
        "sign": Work(every, inputs=every, written=signed + (HASH_BYTES + SIZE_BYTES) * documents),
        "copies": Work(documents, read=hashes, gathered=hashes),
        "collide": Work(digests, read=signed, gathered=signed, written=found + stars),
        "connect": Work(met, read=2 * stars, gathered=stars, written=members),
        "route": Work(pairs, read=found + members, gathered=members, written=routed),
        "gather": Work(texts, inputs=every if texts else 0.0, written=texts),
        "verify": Work(texts + PAIR_COST * pairs, read=compared, gathered=compared, written=decisions),
        "collect": Work(met, read=decisions, gathered=decisions, written=decisions),
        "write": Work(every, inputs=every, read=decisions, outputs=(1 - corpus.dropped) * every),
    }


def check_rates(rates: Mapping[str, float]) -> None:
    """ParameterError unless all are rates of RATES that a worker can have."""
    for name, rate in rates.items():
        if name not in RATES:
            raise ParameterError(f"there is no rate of {name}; give one of {', '.join(RATES)}")
        if not MIN_RATE <= rate <= MAX_RATE:
            raise ParameterError(f"the rate of {name} is {rate:g}; give a number above 0, {MIN_RATE:g} to {MAX_RATE:g}")


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of all workers together: bytes, and seconds where its rate is known."""

    name: str
    amount: float
    unit: str
    seconds: float | None
    bound: str | None  # the cause of these seconds: "work", "disk" or "network"
    disk_read: float
    disk_written: float
    network: float
    memory_each: float  # of a machine: within the budget, unless one machine has to hold more


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The stages and their sums."""

    stages: tuple[Stage, ...]
    start: float  # seconds outside of all stages
    work_disk: float  # greatest size of OUT/_work
    output: float
    index: float  # of the kept documents, for later crawls
    index_at_source: float  # the same with `evidence="source"`
    false_candidates: dict[float, float]  # expected pairs, by the similarity of unrelated documents
    false_seconds: dict[float, float | None]  # to compare them, if that rate is known

    @property
    def seconds(self) -> float | None:
        """The start and all stages, one after another; None if one is not known."""
        known = [stage.seconds for stage in self.stages if stage.seconds is not None]
        return self.start + sum(known) if len(known) == len(self.stages) else None

    def to_dict(self) -> Mapping[str, Any]:
        """The estimate as JSON values."""
        return {**asdict(self), "seconds": self.seconds}


@cache
def read_rates() -> Mapping[str, Any]:
    """rates.json: assumptions about a corpus; by kind of worker, thread or GPU, its rates and their record."""
    found: Mapping[str, Any] = json.loads((files("gpulsh.forecast") / "rates.json").read_bytes())
    return found


def estimate(
    corpus: Corpus,
    rates: Mapping[str, float],
    *,
    workers: int,
    nodes: int,
    bands: int,
    rows: int,
    start: float = 0.0,
    process: float = 0.0,
    remote: bool = False,
    memory: int = budget.MAX_DEFAULT,
) -> Estimate:
    """The stages on `workers` equal workers of `nodes` machines, which share the work evenly.

    `start` are the fixed seconds of the first stage, `process` those outside of all stages. Inputs and results are on
    the machines' disks, or with `remote` behind their networks. `memory` is the budget of a machine.

    >>> corpus = Corpus(documents=1e9, bytes=5e12, met=0.5, pairs=4, dropped=0.25, bytes_per_shingle=6)
    >>> found = estimate(corpus, {"sign": 1e9}, workers=10, nodes=1, bands=21, rows=6)
    >>> found.stages[0].seconds, found.stages[1].seconds, found.seconds
    (500.0, None, None)
    """
    works, stages = stage_works(corpus, bands), []
    for name, work in works.items():
        far, near = (work.inputs + work.outputs, 0.0) if remote else (0.0, 1.0)
        read, written = work.read + near * work.inputs, work.written + near * work.outputs
        network = work.gathered * (1 - 1 / nodes) + far
        known: dict[str, float] = {}  # seconds, by what takes them
        if name in rates:
            known["work"] = (start if name == "sign" else 0.0) + work.amount / (rates[name] * workers)
            for shared, amount in (("disk", read + written), ("network", network)):
                if shared in rates:
                    known[shared] = amount / (rates[shared] * nodes)
        bound = max(known, key=known.__getitem__, default=None)
        held = min(memory, budget.PROGRAM_BYTES + stage_memory(name, corpus, bands, workers, nodes, memory))
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
                memory_each=max(held, CONNECT_BYTES * corpus.met * corpus.documents if name == "connect" else 0),
            )
        )
    false = {similarity: false_candidates(corpus.documents, similarity, bands, rows) for similarity in UNRELATED}
    compared = rates.get("verify", 0.0) * workers
    return Estimate(
        stages=tuple(stages),
        start=process,
        work_disk=sum(work.written for work in works.values()),
        output=works["write"].outputs,
        index=index_bytes(corpus, bands),
        index_at_source=compact_index_bytes(corpus, bands),
        false_candidates=false,
        false_seconds={at: PAIR_COST * pairs / compared if compared else None for at, pairs in false.items()},
    )


def stage_memory(name: str, corpus: Corpus, bands: float, workers: int, nodes: int, memory: int) -> float:
    """Bytes that a stage holds at once on a machine, without the program, in a budget of `memory` (`gpulsh.budget`).

    On one machine, texts wait in memory from `sign` to `gather`.
    """
    documents, size = corpus.documents / nodes, corpus.bytes / nodes
    waits = budget.held_bytes(memory) if nodes == 1 and name in TEXT_STAGES else 0
    if name in ("copies", "collide"):
        digests = min(documents * (budget.EXACT_COST if name == "copies" else bands), budget.MAX_DIGESTS)
        return digests * budget.DIGEST_COST + min(size, waits)
    if name == "verify":
        return min(corpus.met_size / nodes, budget.MAX_GROUP)
    tasks = max(min(workers // nodes, memory // budget.TASK_MEMORY), 1)
    return min(size, tasks * TASK_BYTES + waits)


def workers_needed(seconds: float, estimated: Callable[[int], Estimate]) -> int | None:
    """The fewest workers whose estimate is at most `seconds`; None if no number of them is enough.

    `estimated` gives the estimate for a number of workers, which never grows with that number.
    """

    def enough(workers: int) -> bool:
        took = estimated(workers).seconds
        return took is not None and took <= seconds

    most = 1
    while not enough(most):
        if most > MAX_WORKERS:
            return None
        most *= 2
    return bisect_left(range(most + 1), True, lo=most // 2 + 1, key=enough)


def false_candidates(documents: float, similarity: float, bands: int, rows: int) -> float:
    """Expected candidate pairs among documents that all have `similarity` to each other: n (n - 1) / 2 times the
    probability of one pair. Band digests of 64 bits that agree by chance are included.

    >>> f"{false_candidates(1e11, 0, 21, 6):.0f} {false_candidates(1e11, 0.01, 21, 6):.2g}"
    '5692 1.1e+11'
    """
    chance = float(SCurve(bands=bands, rows=rows).probability(similarity)) + bands * 2.0**-64
    return documents * (documents - 1) / 2 * chance


def index_bytes(corpus: Corpus, bands: int) -> float:
    """Size of a persistent index: digests and delta-coded fingerprints of kept documents; hash and key of every one.

    m sorted 64-bit numbers have gaps of about 2^64 / m. So a gap takes 64 - log2(m) + log2(e) bits at best. In blocks
    of bytes it takes INDEX_CODING times as many.
    """
    shingles = min(max(corpus.shingles, 1), 2.0**64)
    bits = INDEX_CODING * (64 - np.log2(shingles) + np.log2(np.e))
    kept = (1 - corpus.dropped) * corpus.documents
    return float(kept * (INDEX_BAND_BYTES * bands + shingles * bits / 8) + corpus.documents * INDEX_ROW_BYTES)


def compact_index_bytes(corpus: Corpus, bands: int) -> float:
    """Size of a persistent index with evidence at the source: digests of kept documents; hash and place of every one.

    >>> corpus = Corpus(documents=1, bytes=5000, met=0, pairs=0, dropped=0, bytes_per_shingle=6)
    >>> compact_index_bytes(corpus, bands=21)
    356.0
    """
    kept = (1 - corpus.dropped) * corpus.documents
    row = COMPACT_ROW_BYTES + (8 if corpus.documents > 1 << 32 else 0)  # then number and witness have 64 bits
    return float(kept * COMPACT_BAND_BYTES * bands + corpus.documents * row)
