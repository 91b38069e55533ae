"""Estimates what each stage of a run over files reads, writes and works at, from a few facts about a corpus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpulsh.errors import ParameterError

# Positions of documents have 63 bits; anything larger is a slip of the hand that no float or column has room for.
MOST = {"documents": 1e18, "bytes": 1e24, "bytes_per_shingle": 1e24}

# Bytes of a row of the tables that the stages hand on.
DIGEST_BYTES, HASH_BYTES, SIZE_BYTES = 12, 20, 8
PAIR_BYTES, ROUTED_PAIR_BYTES = 16, 24
STAR_BYTES = 20
MEMBER_BYTES, MEMBER_OF_MANY_BYTES = 13, 17  # the latter of 2^31 or more
DECISION_BYTES = 29


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """The documents, and assumptions about how they repeat one another."""

    documents: float
    bytes: float  # of text, UTF-8
    met: float  # share of documents that are in a candidate pair
    pairs: float  # compared, a document
    dropped: float  # share of documents
    bytes_per_shingle: float

    def __post_init__(self) -> None:
        for name, most in MOST.items():
            if not 1 <= getattr(self, name) <= most:
                raise ParameterError(f"{name} is {getattr(self, name):g}; give a number from 1 to {most:g}")
        for name in ("met", "dropped"):
            if not 0 <= getattr(self, name) <= 1:
                raise ParameterError(f"{name} is {getattr(self, name):g}; give a share from 0 to 1")
        if not 0 <= self.pairs <= MOST["documents"]:
            raise ParameterError(
                f"pairs is {self.pairs:g}; give the pairs compared a document, from 0 to {MOST['documents']:g}"
            )

    @property
    def meeting(self) -> float:
        """Documents in candidate pairs."""
        return self.met * self.documents

    @property
    def candidates(self) -> float:
        """Candidate pairs."""
        return self.pairs * self.documents


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a stage has to do, in bytes but for its amount."""

    amount: float  # in the unit of cost of the table of stages
    inputs: float = 0.0  # read of the input
    outputs: float = 0.0  # written of the results
    read: float = 0.0  # of OUT/_work
    written: float = 0.0  # to it
    gathered: float = 0.0  # brought together from where it was made, by digest or by group


@dataclass(frozen=True)
class Cost:
    """The unit that a stage's time grows with, in the planner's words, and its work for a corpus and so many bands."""

    unit: str
    work: Callable[[Corpus, int], Work]


def sign(corpus: Corpus, bands: int) -> Work:
    """Text to digests, exact hash and size."""
    row = DIGEST_BYTES * bands + HASH_BYTES + SIZE_BYTES
    return Work(amount=corpus.bytes, inputs=corpus.bytes, written=row * corpus.documents)


def copies(corpus: Corpus, bands: int) -> Work:
    """Hashes, brought together by range."""
    hashes = HASH_BYTES * corpus.documents
    return Work(amount=corpus.documents, read=hashes, gathered=hashes)


def collide(corpus: Corpus, bands: int) -> Work:
    """Candidates by digest, and who is connected by them."""
    amount = bands * corpus.documents
    read, written = DIGEST_BYTES * amount, PAIR_BYTES * corpus.candidates + STAR_BYTES * corpus.meeting
    return Work(amount=amount, read=read, gathered=read, written=written)


def connect(corpus: Corpus, bands: int) -> Work:
    """Stars to members."""
    stars = STAR_BYTES * corpus.meeting
    return Work(amount=corpus.meeting, read=2 * stars, gathered=stars, written=_members(corpus))


def route(corpus: Corpus, bands: int) -> Work:
    """Each pair to the group that it is decided in."""
    pairs, members = corpus.candidates, _members(corpus)
    return Work(amount=pairs, read=PAIR_BYTES * pairs + members, gathered=members, written=ROUTED_PAIR_BYTES * pairs)


def gather(corpus: Corpus, bands: int) -> Work:
    """The texts of documents in candidate pairs, in order of their groups."""
    met = corpus.met * corpus.bytes
    return Work(amount=met, inputs=corpus.bytes if met else 0.0, written=met)


def verify(corpus: Corpus, bands: int) -> Work:
    """With it what `compare` does in its place where a component is larger than a group."""
    read = corpus.met * corpus.bytes + ROUTED_PAIR_BYTES * corpus.candidates
    return Work(amount=corpus.candidates, read=read, gathered=read, written=DECISION_BYTES * corpus.meeting)


def collect(corpus: Corpus, bands: int) -> Work:
    """Decisions back to where the documents lie."""
    decisions = DECISION_BYTES * corpus.meeting
    return Work(amount=corpus.meeting, read=decisions, gathered=decisions, written=decisions)


def write(corpus: Corpus, bands: int) -> Work:
    """Kept rows."""
    outputs = (1 - corpus.dropped) * corpus.bytes
    return Work(amount=corpus.bytes, inputs=corpus.bytes, read=DECISION_BYTES * corpus.meeting, outputs=outputs)


def _members(corpus: Corpus) -> float:
    return (MEMBER_BYTES if corpus.meeting < 1 << 31 else MEMBER_OF_MANY_BYTES) * corpus.meeting
