"""`gpulsh.deduplicate`: near-duplicates of texts in memory.

sign     text -> fingerprints -> signature -> band digests, 128-bit hash of the tokens
decide   drop exact copies; digests -> buckets -> candidate pairs; then compare and resolve, as `decide.decide` does

Between the two steps, each document takes the memory of its digests, its hash and its number of shingles.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Numbers, SignedBatch, TextBatch
from gpulsh.backends.parts import in_part
from gpulsh.backends.protocol import NO_DIGEST, Backend
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.checks import check_choice, known_keywords
from gpulsh.decide.copies import first_copies, with_key_copies
from gpulsh.decide.counts.counts import Sightings
from gpulsh.decide.counts.retention import NO_POLICIES, Retention
from gpulsh.decide.decide import UndecidedDocuments, documents_in_buckets, reads_texts
from gpulsh.decide.decision import Decision
from gpulsh.decide.edges import NO_RULES
from gpulsh.decide.fingerprint_source import ShingledTexts
from gpulsh.decide.prefixes import containing_pairs
from gpulsh.decide.priority import decision_order
from gpulsh.errors import DeviceMemoryError, ParameterError
from gpulsh.io.memory.device import DeviceTexts, ResidentTexts
from gpulsh.io.memory.tables import collect_columns, has_columns, table_texts
from gpulsh.io.memory.texts import MemoryTexts, open_texts
from gpulsh.lsh.collisions import Collisions, Memberships, find_buckets
from gpulsh.lsh.pairs import pair_order
from gpulsh.lsh.signing import sign_batches, sign_by_method
from gpulsh.method import MeasureName, Method, Resolve, Verify
from gpulsh.params import BitSketch, Folding, NormalForm, Shingling, Sketch, with_form
from gpulsh.ragged import offsets, total_size
from gpulsh.run.key_rule import KeyHashes, check_flags, decide_by_key, refuse_with_key
from gpulsh.run.progress import open_progress
from gpulsh.secret import EvidenceKeys, chosen_secret, evidence_keys
from gpulsh.sketch.named import sketches_by_name
from gpulsh.stats.hints import give_hints
from gpulsh.stats.stages import MEMORY_STAGES, Funnel, Progress


@known_keywords
def deduplicate(
    texts: object,
    *,
    text_column: str | Sequence[str] | None = None,
    threshold: float = 0.8,
    shingling: Shingling | str | None = None,
    folding: Folding | None = None,
    normalize: NormalForm | None = None,
    sketch: Sketch | BitSketch | str | None = None,
    num_perm: int = 128,
    bands: int | None = None,
    rows: int | None = None,
    seed: int = 1,
    verify: Verify = "exact",
    resolve: Resolve = "kept",
    measure: MeasureName = "jaccard",
    drop_contained_only: bool = True,
    also: BitSketch | str | None = None,
    distance: int | None = None,
    priority: object = None,
    keep: Literal["first", "longest"] | None = None,
    source_column: object = None,
    date_column: object = None,
    min_cluster: int | None = None,
    max_copies: int | None = None,
    min_sources: int | None = None,
    key: object = None,
    normalize_url: bool = False,
    key_only: bool = False,
    backend: BackendName = "auto",
    threads: int | None = None,
    devices: Sequence[int] | None = None,
    progress: bool = False,
    secret: bytes | None = None,
) -> Decision:
    """Find near-duplicate documents and decide which to keep.

    A document is dropped if and only if an earlier kept document shares a band with it, and the exact Jaccard
    similarity of their shingles is at least `threshold`.

    texts         list of str, NumPy str or object array, pyarrow Array or ChunkedArray, pandas, polars or cuDF Series,
                  column of a Hugging Face Dataset, a TextBatch, any object with the Arrow C interface (host or device),
                  or an iterator of str or of these. With `text_column`, a table. None (null) is kept
    text_column   the column of the texts in a table of pyarrow, pandas, polars (a LazyFrame is collected), cuDF or
                  `datasets`, or one that is an Arrow stream, such as a relation of DuckDB. "meta.body" is a field of a
                  column. ["title", "body"] and "title,body" join several columns by a line end and leave out nulls
    threshold     above 0, at most 1
    shingling     the units to compare: Shingling(unit="word", size=5), the default, or "word:5" for short
    folding       applied to texts first; None: Folding(), which folds case
    normalize     "NFC" or "NFKC", short for folding=Folding(form=...)
    sketch        finds the candidates: OnePermutation(num_perm=256), or "one-permutation:256". None: MinHash with
                  num_perm and seed. SimHash(...), or "simhash:64:12" with the distance, finds documents whose
                  signatures share all but `distance` blocks of bits
    num_perm      number of values in a signature, 1 to 65,536
    bands, rows   of signatures. None: the most rows (bands = num_perm // rows) that find a pair at `threshold` with
                  probability at least 0.995
    seed          of the hash functions of MinHash, 0 to 2^64 - 1; `sketch` and `also` have their own
    verify        "exact", "signature" (the estimate instead of the Jaccard similarity) or "none" (every compared pair
                  counts; similarities are NaN)
    resolve       "kept", or "components" to keep one document of each connected component of the verified pairs
    measure       "jaccard", or "containment": drop a document if a kept one contains at least `threshold` of its
                  shingles, exactly, for any `sketch`. The time and the memory grow with the square of the number of
                  near-copies of a page. With thousands of these, first remove near-duplicates by Jaccard similarity
    drop_contained_only
                  with measure="containment". False: two documents are duplicates if either contains `threshold` of the
                  other's shingles. The later in decision order is dropped, even if it is longer, and `similarity` is
                  the larger of the two shares
    also          SimHash(...), or "simhash:64": count only candidates whose signatures differ in at most
                  `distance` bits
    distance      bits, of `sketch` and `also` if their names have none. None: for each, the smallest that finds a pair
                  of equally large documents at `threshold` with probability at least 0.995
    priority      float, integer or datetime64 array [n], or datetimes: the highest is kept first and a missing date
                  last; ties go by position
    keep          instead of `priority`: "first", by position, or "longest", by bytes of UTF-8. None: "first", or
                  "longest" with measure="containment"
    source_column sources of documents, for `Decision.counts`: the name of a column of the table `texts`, or n values.
                  None: all documents are from one source
    date_column   dates of documents, likewise: dates, datetimes, or strings of ISO 8601; UTC without an offset
    min_cluster   drop documents only from clusters (connected components of verified pairs) of at least this size.
                  None: 1
    max_copies    keep up to this many of a kept document and its duplicates, the first in order. None: 1
    min_sources   leave out a kept document and its duplicates if they have fewer different values of `source_column`.
                  None: 1. Not with `min_cluster` or `max_copies`
    key           the name of a column of the table `texts`, or n strings, bytes or integers, such as URLs. Documents
                  with equal values are copies: the first in decision order stays, before texts are compared. None and
                  empty values equal no other value. The similarity of these copies is NaN, and they are not in any pair
    normalize_url compare the values of `key` as URLs, in the canonical form of w3lib (the extra `url`)
    key_only      compare only keys, not texts
    backend       "auto" (CUDA if it works, otherwise "cpu"), "cpu", "cuda" or "reference" (NumPy)
    threads       of the CPU backend; None: all processors
    devices       numbers of the CUDA devices that share the work; None: all visible devices
    progress      show progress bars
    secret        32 bytes that key the evidence, for tests; no result depends on them. None: random for each call, so
                  nobody can write a text with the hashes of another

    Returns a Decision. Raises ParameterError, InputTypeError, or BackendError if CUDA was requested and does not work.
    Source: MinHash, Broder, Charikar, Frieze, Mitzenmacher 2000; banding, Leskovec, Rajaraman, Ullman,
    section 3.4.

    >>> result = deduplicate(["One, two, three.", "one two three", "four"], backend="cpu")
    >>> result.keep, result.duplicate_of
    (array([ True, False,  True]), array([0, 0, 2]))
    """
    if keep is not None:
        check_choice("keep", keep, ("first", "longest"))
        if priority is not None:
            raise ParameterError(f"keep is {keep!r} and priority is given; give one of them")
    check_flags(key, normalize_url, key_only)
    folding = with_form(folding, normalize)
    sketch, also = sketches_by_name(sketch, also, num_perm, seed, distance)
    asked = threshold, shingling, folding, sketch, num_perm, bands, rows, seed, verify, resolve, measure, also, distance
    method = Method.choose(*asked, drop_contained_only)
    retention = Retention.from_arguments(min_cluster, max_copies, min_sources)
    if key is not None:
        refuse_with_key(retention.to_json())
    if retention.min_sources > 1 and source_column is None:
        raise ParameterError(
            f"min_sources is {retention.min_sources}, and all documents are of one source; give source_column"
        )
    keys = evidence_keys(chosen_secret(secret))
    ops = select_backend(backend, threads=threads, devices=devices)
    if text_column is not None:
        texts = collect_columns(texts, text_column, key, source_column, date_column)
    source = open_texts(texts if text_column is None else table_texts(texts, text_column), ops)
    if priority is None and (keep == "longest" or (keep is None and measure == "containment")):
        priority = source.choose(np.arange(len(source))).sizes
    order = None if priority is None else decision_order(priority, len(source))
    sightings = None
    if source_column is not None or date_column is not None:
        from gpulsh.run.records.sightings import sightings_in_memory  # loads modules that only runs over files need

        sightings = sightings_in_memory(texts, len(source), source_column, date_column)
    shown = open_progress(progress)
    keyed = None
    if key is not None:
        from gpulsh.io.arrow.copy_keys import checked_copy_keys

        hashes = KeyHashes(keys, normalize_url)
        values = table_texts(texts, [key], "key") if isinstance(key, str) and has_columns(texts) else key
        hashes.append(checked_copy_keys(values, len(source)))
        keyed = hashes.non_null()
        if key_only:
            with ops.use_device():
                rank = None if order is None else _ranks(ops.asarray(order))
                by_key = decide_by_key(len(source), *_key_copies(keyed, rank, ops), ops)
            return replace(by_key, sightings=sightings)
    signed = sign(source, method, keys, ops, shown)
    decision = decide(signed, source, order, method, keys, ops, shown, retention, sightings, keyed)
    give_hints(method, decision.funnel)
    return decision


HashedKeys = tuple[NDArray[np.uint64], Numbers]  # `KeyHashes.non_null`


def sign(source: MemoryTexts, method: Method, keys: EvidenceKeys, ops: Backend, progress: Progress) -> SignedDocuments:
    """Sign all documents in one pass."""
    digests, exact, shingles = list[Array](), list[Array](), list[Array]()
    # Comparing would normalize a text again, and on the host.
    texts = ResidentTexts(source, ops, wanted=method.folding.form is None and reads_texts(method, in_large=0))
    funnel, sizes = Funnel(), ops.sizes()
    most = sizes.resident if isinstance(source, DeviceTexts) and sizes.resident else sizes.batch

    def sign_staged(
        batch: TextBatch, method: Method, keys: EvidenceKeys, lane: Backend
    ) -> tuple[SignedBatch, TextBatch | None]:
        fits = isinstance(batch.offset, np.ndarray) and total_size(batch) <= most
        there = lane.stage(batch) if fits and not texts.is_full else None
        return sign_by_method(batch if there is None else there, method, keys, lane), there

    with funnel.stage(progress, MEMORY_STAGES["sign"], None):
        for part, text in sign_batches(source.batches(most), method, keys, ops, funnel, progress, sign_staged):
            kept = ops.keep(part.digests, part.exact, part.shingles)
            for pieces, rows in zip((digests, exact, shingles), kept, strict=True):
                pieces.append(rows)
            texts.append(text)
    with ops.use_device():
        counts = _concatenated(shingles, np.empty(0, np.int64), ops)
        filled = counts > 0
        funnel.documents, funnel.nulls, funnel.shingles = len(counts), source.nulls(), int(counts.sum())
        funnel.empty = len(counts) - int(filled.sum())
        funnel.wordless = funnel.empty - funnel.nulls
    return SignedDocuments(digests, exact, filled, funnel, texts)


def decide(
    signed: SignedDocuments,
    source: MemoryTexts,
    order: Numbers | None,
    method: Method,
    keys: EvidenceKeys,
    ops: Backend,
    progress: Progress,
    retention: Retention = NO_POLICIES,
    sightings: Sightings | None = None,
    keyed: HashedKeys | None = None,
) -> Decision:
    """Decide about all documents; `order` int64 [n] are their positions in decision order, None for input order.

    This consumes the digests of `signed`. Of documents with equal keys in `keyed`, only the first takes part.
    """
    funnel = signed.funnel
    with ops.use_device(), funnel.stage(progress, MEMORY_STAGES["collide"], method.banding.bands):
        rank, filled = None, np.flatnonzero(signed.has_shingle)
        if order is not None:
            filled = ops.asarray(order)
            rank, filled = _ranks(filled), filled[signed.has_shingle[filled]]
        same, of = _key_copies(keyed, rank, ops)
        if len(same):
            has_key_before = np.zeros(funnel.documents, bool, like=same)
            has_key_before[same] = True
            filled = filled[~has_key_before[filled]]
        copies, first = first_copies(_concatenated(signed.exact, np.empty((0, 2), np.uint64), ops), filled, None, ops)
        if method.measure == "containment":
            documents = np.setdiff1d(ops.asnumpy(filled), ops.asnumpy(copies))
            met = _containment_collisions(documents, order, source, method, ops)
        else:
            left_out = np.sort(np.concatenate([copies, same]))
            digests = DigestsByBand(signed.digests, left_out, method.banding.bands, funnel.documents, ops)
            large = list[Memberships]()
            small = find_buckets(digests, ops, progress.advance, large.append)
            is_whole = method.verify != "exact" or small.count <= small.most_held
            pairs = small.pairs() if is_whole else ops.asarray(np.empty((0, 2), np.int64))
            met = Collisions.from_buckets(pairs, large, method.banding.bands, None if is_whole else small)
            del small, large, pairs  # as large as the collisions
        signed.digests.clear()
        funnel.crowded = len(met.in_large)
    with ops.use_device():
        involved = documents_in_buckets(met, funnel.documents, ops)
        with funnel.stage(progress, MEMORY_STAGES["read"], len(involved)):
            chosen = signed.texts.choose(involved if reads_texts(method, len(met.in_large)) else involved[:0])
            progress.count(size=int(chosen.sizes.sum()))
    found = funnel.documents, met, copies, first, rank
    case = UndecidedDocuments(*found, NO_RULES, chosen, method, keys, ops, retention=retention, sightings=sightings)
    decision = replace(case.decide(funnel, progress), sightings=sightings)
    if len(same):
        with ops.use_device():
            return with_key_copies(decision, same, of, ops)
    return decision


def _key_copies(keyed: HashedKeys | None, rank: Array | None, ops: Backend) -> tuple[Array, Array]:
    """The documents that share a key with an earlier one, ascending, and the first of each."""
    if keyed is None:
        none = ops.asarray(np.empty(0, np.int64))
        return none, none
    hashes, rows = map(ops.asarray, keyed)
    by_rank = None if rank is None else lambda some: rank[rows[some]]
    later, first = first_copies(hashes, np.arange(len(rows), like=rows), by_rank, ops)
    return rows[later], rows[first]


def _containment_collisions(
    documents: Numbers, order: Numbers | None, source: MemoryTexts, method: Method, ops: Backend
) -> Collisions:
    """Which of `documents` [p], ascending, may contain which: no sketch finds them, but a join over their shingles."""
    ordered = np.arange(len(documents)) if order is None else np.argsort(_ranks(order)[documents], kind="stable")
    texts = ShingledTexts(ordered, ops, source.choose(documents), method, None)  # proposals are not evidence
    either = not method.drop_contained_only
    pairs, _ = containing_pairs(texts, method.threshold, ops, either=either)
    pairs = np.sort(documents[ordered][pairs], axis=1)
    pairs = pairs[pair_order(pairs[:, 0], pairs[:, 1])]
    return Collisions.from_buckets(ops.asarray(pairs), [], method.banding.bands)


def _ranks(order: Array) -> Array:
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order), like=order)
    return rank


@dataclass(frozen=True)
class SignedDocuments:
    """The digests and hashes of n documents, in pieces, in the memory of the backend that made them; and the counts."""

    digests: list[Array]  # uint64 [m, bands] each
    exact: list[Array]  # uint64 [m, 2] each
    has_shingle: Array  # bool [n] in the backend's memory: whether a document has a shingle
    funnel: Funnel
    texts: ResidentTexts


def _concatenated(pieces: Sequence[Array], empty: NDArray[np.generic], ops: Backend) -> Array:
    """All rows in the backend's memory, without a copy if they are one piece there; `empty` if there are none."""
    moved = [ops.asarray(piece) for piece in pieces]
    return moved[0] if len(moved) == 1 else np.concatenate(moved or [ops.asarray(empty)])


class DigestsByBand:
    """`lsh.collisions.Digests` of all `documents`, from pieces of digests; those `left_out`, ascending, lose theirs.

    Documents without a digest are in no candidate pair.
    """

    ascending = True

    def __init__(self, pieces: list[Array], left_out: Array, bands: int, documents: int, ops: Backend) -> None:
        self._pieces, self._ops = pieces, ops
        self.documents, self.bands = documents, bands
        if len(pieces) > 1 and not any(isinstance(piece, np.ndarray) for piece in pieces):
            # Column by column, since each costs calls to the device.
            with suppress(DeviceMemoryError), ops.use_device():
                pieces[:] = [np.concatenate([piece.T for piece in pieces], axis=1).T]
        starts = offsets([len(piece) for piece in pieces])
        cuts = ops.asnumpy(np.searchsorted(left_out, ops.asarray(starts))).tolist()
        for piece, start, (first, last) in zip(pieces, starts.tolist(), pairwise(cuts), strict=False):
            here = left_out[first:last] - np.int64(start)
            piece[ops.asnumpy(here) if isinstance(piece, np.ndarray) else here] = np.uint64(NO_DIGEST)

    def band(self, band: int, part: int, parts: int) -> tuple[Array, Array]:
        """The digests of a band that are in one of `parts` ranges, and the documents' numbers, ascending."""
        none = np.empty(0, np.uint64)
        columns = [self._ops.asarray(piece[:, band]) for piece in self._pieces]
        if parts == 1:
            whole = _concatenated(columns, none, self._ops)
            return whole, np.arange(self.documents, like=whole)
        digests, ids, start = [self._ops.asarray(none)], [self._ops.asarray(none.view(np.int64))], 0
        for column in columns:
            rows = np.flatnonzero((column != np.uint64(NO_DIGEST)) & in_part(column, part, parts))
            digests.append(column[rows])
            ids.append(rows + np.int64(start))
            start += len(column)
        return np.concatenate(digests), np.concatenate(ids)
