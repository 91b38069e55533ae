"""Estimates what each stage of a run over files reads, writes and works at, from a few facts about a corpus."""

from __future__ import annotations

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

# Bytes of text that take about as long to read and cut into shingles as it takes to compare two documents that were:
# fewer where bounds rule out most pairs, more where they rule out none.
PAIR_COST = 200


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


def stage_works(corpus: Corpus, bands: float) -> dict[str, Work]:
    """What each stage has to do, by its name, with signatures in so many bands."""
    documents, pairs, digests = corpus.documents, corpus.candidates, bands * corpus.documents
    signed = (DIGEST_BYTES * bands + HASH_BYTES + SIZE_BYTES) * documents
    hashes, by_range = HASH_BYTES * documents, DIGEST_BYTES * digests
    stars, decisions = STAR_BYTES * corpus.meeting, DECISION_BYTES * corpus.meeting
    members = (MEMBER_BYTES if corpus.meeting < 1 << 31 else MEMBER_OF_MANY_BYTES) * corpus.meeting
    texts_met = corpus.met * corpus.bytes
    compared = texts_met + ROUTED_PAIR_BYTES * pairs
    kept = (1 - corpus.dropped) * corpus.bytes
    return {
        "sign": Work(amount=corpus.bytes, inputs=corpus.bytes, written=signed),
        "copies": Work(amount=documents, read=hashes, gathered=hashes),
        "collide": Work(amount=digests, read=by_range, gathered=by_range, written=PAIR_BYTES * pairs + stars),
        "connect": Work(amount=corpus.meeting, read=2 * stars, gathered=stars, written=members),
        "route": Work(
            amount=pairs, read=PAIR_BYTES * pairs + members, gathered=members, written=ROUTED_PAIR_BYTES * pairs
        ),
        "gather": Work(amount=texts_met, inputs=corpus.bytes if texts_met else 0.0, written=texts_met),
        # With it what `compare` does in its place where a component is larger than a group.
        "verify": Work(amount=texts_met + PAIR_COST * pairs, read=compared, gathered=compared, written=decisions),
        "collect": Work(amount=corpus.meeting, read=decisions, gathered=decisions, written=decisions),
        "write": Work(amount=corpus.bytes, inputs=corpus.bytes, read=decisions, outputs=kept),
    }
