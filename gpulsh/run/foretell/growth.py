"""What a run of more documents takes, by what runs of two samples took.

The seconds of a stage grow with its amount (`gpulsh.account.costs`) behind a start that both have in common. How much
documents repeat one another grows with the corpus, too: of copies that stand close together a sample has them all, of
copies that stand anywhere it has a share of its own size. Which they are, the larger sample tells (`repeats`). Buckets
grow, too, and of one that becomes large no longer all pairs are compared: by templates of millions of pages, candidate
pairs of a sample foretell thousands a document, and there are few.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from gpulsh.account.costs import Corpus, stage_works
from gpulsh.arrays import Numbers
from gpulsh.lsh.collisions import SMALL_BUCKET
from gpulsh.report.plan.estimate import held_at_once

MEASURED = 0.1  # of the start's seconds, of which a stage that takes less tells little
BEGIN = 0.15  # of the start's seconds, that a stage takes at most however little there is to do
NEAR = 1 / 16  # of a sample: pairs so close to one another may be so because they stand together
START = "start"  # of the program, checks, evidence and the report, which no stage has


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What a run took; of one that is foretold, what it will take."""

    corpus: Corpus
    seconds: Mapping[str, float]  # by stage, and START
    processor: float  # seconds of all threads
    memory: float  # bytes at most
    data: float  # bytes of the kept rows
    evidence: float  # bytes of duplicates.parquet

    @property
    def all(self) -> float:
        """Seconds from start to end."""
        return sum(self.seconds.values())

    def or_less(self, again: Taken) -> Taken:
        """What another run of the same took at least: the lesser of the seconds of each stage."""
        seconds = {name: min(found, again.seconds[name]) for name, found in self.seconds.items()}
        return replace(
            again,
            seconds=seconds,
            processor=min(self.processor, again.processor),
            memory=max(self.memory, again.memory),
        )


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What the runs have in common."""

    bands: float  # digests of a document
    threads: int  # tasks side by side
    memory: int  # the budget
    usual: Mapping[str, float]  # amounts a second of stages that take too little of a sample to be measured


@dataclass(frozen=True, kw_only=True)
class Repeats:
    """How documents repeat one another: which part of the pairs stands close together, and by which power of the number
    of documents the shares of those that meet, and are dropped, grow by the others.
    """

    near: float
    met: float = 1.0
    dropped: float = 1.0
    buckets: Mapping[int, float] = field(default_factory=dict)  # pairs by the size, at most, of their smallest bucket

    def pairs(self, times: float) -> float:
        """How many times as many pairs a document has in a corpus so many times as large."""
        return self.near + (1 - self.near) * (1 + self._in_small(times) * (times - 1))

    def _in_small(self, times: float) -> float:
        """Share of the pairs that are in a small bucket even then.

        Of a bucket that holds both documents of a pair, the others are there with the probability of any.
        """
        known = sum(self.buckets.values())
        if not known:
            return 1.0
        at_most = 2 + (SMALL_BUCKET - 2) / times
        return float(np.interp(np.log2(at_most), np.log2([*self.buckets]), np.cumsum([*self.buckets.values()]) / known))


def repeats(dropped: Numbers, kept: Numbers, documents: float, buckets: Mapping[int, float] | None = None) -> Repeats:
    """Those of a sample, by the positions in it, int64 [m], of what was dropped and of what was kept in its place, and
    by the buckets of its pairs.

    The powers are those by which the shares grow from every second document to all: of a cluster of k documents, of
    which each is there with probability q, kq (1 - (1 - q)^(k - 1)) have another one with them, and kq - 1 + (1 - q)^k
    are dropped.
    """
    buckets = buckets or {}
    if not len(dropped):
        return Repeats(near=0.0, buckets=buckets)
    apart = 1 - NEAR
    anywhere = 1 - apart * apart  # as many of the pairs would be so close that stand anywhere
    close = float(np.mean(abs(dropped - kept) < NEAR * documents))
    _, others = np.unique(kept, return_counts=True)
    size, half = others + 1.0, 0.5
    met = (size * half * (1 - half ** (size - 1))).sum() / size.sum()
    left = (size * half - 1 + half**size).sum() / (size - 1).sum()
    return Repeats(
        near=max((close - anywhere) / (1 - anywhere), 0.0),
        met=-float(np.log2(met / half)),
        dropped=-float(np.log2(left / half)),
        buckets=buckets,
    )


@dataclass(frozen=True)
class Foretold:
    """What a run will take: most likely, and where documents repeat one another as rarely or often as they may."""

    likely: Taken
    least: Taken
    most: Taken


def foretold(small: Taken, large: Taken, repeats: Repeats, documents: float, size: float, machine: Machine) -> Foretold:
    """What so many documents and bytes of text take, by the runs of two samples; of one run twice, that run.

    `repeats` are those of the larger one.
    """

    def at(likely: Repeats) -> Taken:
        return _taken(small, large, _grown(large.corpus, likely, documents, size), machine)

    return Foretold(at(repeats), at(Repeats(near=1.0)), at(Repeats(near=0.0)))


def _grown(sample: Corpus, repeats: Repeats, documents: float, size: float) -> Corpus:
    """The corpus of which that is a sample."""
    times = max(documents / sample.documents, 1.0)

    def share(name: str, power: float) -> float:
        found: float = getattr(sample, name)
        return found * (repeats.near + (1 - repeats.near) * float(times**power))

    met = min(share("met", repeats.met), 1.0)
    dropped = min(share("dropped", repeats.dropped), 1.0)
    pairs = sample.pairs * repeats.pairs(times)
    return replace(sample, documents=documents, bytes=size, met=met, pairs=pairs, dropped=dropped)


def _taken(small: Taken, large: Taken, corpus: Corpus, machine: Machine) -> Taken:
    sizes = small.corpus.bytes, large.corpus.bytes
    begin = BEGIN * large.seconds[START]
    each = _each(sizes, (small.seconds["sign"], large.seconds["sign"]), begin)
    slower = each * machine.usual["sign"] if "sign" in machine.usual else 1.0  # than that of the record

    def seconds(name: str) -> float:
        if name == START:  # hardly grows
            return large.seconds[name]
        little, much, amount = (_amount(name, of, machine.bands) for of in (small.corpus, large.corpus, corpus))
        short, long = small.seconds[name], large.seconds[name]
        each = _each((little, much), (short, long), begin)
        if long < MEASURED * large.seconds[START] and name in machine.usual:
            each = min(slower / machine.usual[name], long / max(much, 1.0))
        return long + each * (amount - much)

    kept = corpus.documents * (1 - corpus.dropped) / max(large.corpus.documents * (1 - large.corpus.dropped), 1.0)
    dropped = corpus.documents * corpus.dropped / max(large.corpus.documents * large.corpus.dropped, 1.0)
    return Taken(
        corpus=corpus,
        seconds={name: seconds(name) for name in large.seconds},
        processor=large.processor
        + _each(sizes, (small.processor, large.processor), large.processor) * (corpus.bytes - large.corpus.bytes),
        memory=large.memory + max(_held(corpus, machine) - _held(large.corpus, machine), 0.0),
        data=large.data * kept,
        evidence=large.evidence * max(dropped, 1.0),
    )


def _amount(stage: str, corpus: Corpus, bands: float) -> float:
    """What the seconds of a stage grow with."""
    work = stage_works(corpus, bands)[stage]
    # It looks through all texts, which takes longer than to take those that met, of a sample a few.
    return work.inputs if stage == "gather" else work.amount


def _held(corpus: Corpus, machine: Machine) -> float:
    names = stage_works(corpus, machine.bands)
    return max(held_at_once(name, corpus, machine.bands, 1, machine.threads, machine.memory) for name in names)


def _each(amounts: tuple[float, float], seconds: tuple[float, float], begin: float) -> float:
    """What one more takes, by the seconds of two amounts, behind a start that both have and that is not below none.

    It is `begin` at most: a machine that was busy while it did the lesser amount would make the rest free.
    """
    (little, much), (short, long) = amounts, seconds
    if much <= little:
        return 0.0
    return min(max((long - short) / (much - little), (long - begin) / much, 0.0), long / much)
