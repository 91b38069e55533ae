"""Any operation of any backend, in any cut of its work, on generated arguments: the reference's result, bit for bit.

A case judges the operations on one kind of arguments; it has a strategy of them. Hypothesis draws the cut, the case and
the arguments. The other files of this folder give the same cases the arguments that are rarely drawn.
"""

import itertools
import os
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulsh.arrays import Array, Buckets, Fingerprints, Numbers, TextBatch, Tokens, Values
from gpulsh.backends.protocol import INSTEAD_OF_NO_DIGEST, NO_DIGEST, NO_VALUE, Backend, prefix_lengths, sketched
from gpulsh.params import FOREIGN_SKETCHES, SKETCHES, BandShape, Family, Shingling
from tests.backends.parity.agreement import CPU, DEVICE, HOST, PIECES, REFERENCE, agree, backend, expected, moved, param
from tests.support.rows import EDGES, hashes, numbers, same, table, tables, weighted_of, weighted_tables
from tests.support.texts import KEYS, all_shinglings, any_shingling, any_text, batch_of, documents_of, shinglings

Case = Callable[..., Any]
CASES: dict[str, tuple[Case, st.SearchStrategy[tuple[Any, ...]]]] = {}
SIMHASH_KEYS = np.array([0, 2**64 - 1, 0x9E3779B97F4A7C15], np.uint64)
MORE = 3 if os.environ.get("GPULSH_EVERY_CUT") else 1  # ./ci/soak draws more of them


def case(*arguments: st.SearchStrategy[Any]) -> Callable[[Case], Case]:
    """Turn a function of a backend and arguments into a case."""

    def of(function: Case) -> Case:
        CASES[function.__name__] = function, st.tuples(*arguments)
        return function

    return of


# --- texts

# Sixty-four characters at a time: symbols and gaps at the edges of a block, and what interrupts it.
ascii_blocks = st.builds(
    lambda rows, between: batch_of([row.encode() for row in (*rows, between.join(rows))]),
    st.lists(st.text("aBz09 \n\t\x7f!/:@[_`{~", max_size=200), max_size=4),
    st.sampled_from(["", "é", "“", "語"]),
)
code_points = st.lists(st.text(max_size=30).map(lambda text: text.encode("utf-8", "surrogatepass")), max_size=8)


@case(st.one_of(any_text, any_text, ascii_blocks, code_points.map(batch_of)), any_shingling)
def texts(ops: Backend, text: TextBatch, shingling: Shingling) -> None:
    size = shingling.size
    agree(ops, "shingle", text, shingling)
    for keys in (None, KEYS):
        tokens = agree(ops, "tokens", text, shingling, keys)
        shingles = agree(ops, "shingles", tokens, size, keys)
        for first in {min(1, len(text)), len(text) // 2}:
            start = shingles.offset[first]
            wanted = Fingerprints(shingles.values[start:], shingles.offset[first:] - start)
            same(ops.shingles(moved(ops, tokens.slice(first, len(text))), size, keys), wanted, ops.asnumpy)
        agree(ops, "shingle_sets", text, shingling, keys)
    agree(ops, "exact_hashes", text, shingling, KEYS)


@case(any_text, any_shingling)
def passes_over_text(ops: Backend, text: TextBatch, shingling: Shingling) -> None:
    for distinct in (False, True):
        agree(ops, "text_simhash", text, shingling, SIMHASH_KEYS, distinct)
    sets = expected("shingle_sets", text, shingling, KEYS)
    counts = agree(ops, "frequencies", sets, np.full(64, 250, np.uint8))
    for counted, rare in itertools.product((counts, np.arange(16, dtype=np.uint8)), (0, 7, 252)):
        agree(ops, "prefixes", sets, counted, prefix_lengths(sets.lengths, 0.7), rare)


@case(any_text, all_shinglings, st.integers(1, 5))
def bounds_of_tokens(ops: Backend, text: TextBatch, shingling: Shingling, step: int = 1) -> Any:
    """The byte bounds of each `step`-th token."""
    counts = expected("tokens", text, shingling).lengths
    row = np.repeat(np.arange(len(text)), counts)
    token = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    return agree(ops, "token_bounds", text, shingling, row[step // 2 :: step], token[step // 2 :: step])


@case(any_text, any_shingling, st.sampled_from([1, 2, 3, 7, 2**64]))
def parts(ops: Backend, text: TextBatch, shingling: Shingling, number: int) -> None:
    whole = REFERENCE.shingle_sets(text, shingling)
    chosen = range(number) if number < 8 else [whole.values[0].item() if len(whole.values) else 5, 2**64 - 1]
    found = [agree(ops, "shingle_part", text, shingling, part, number) for part in chosen]
    for row in range(len(text) if number < 8 else 0):
        joined = np.concatenate([one.values[one.offset[row] : one.offset[row + 1]] for one in found])
        # The parts of labelled fingerprints are ranges of fingerprints before labels.
        same(np.sort(joined), whole.values[whole.offset[row] : whole.offset[row + 1]])


families = st.builds(Family, name=st.sampled_from([*SKETCHES]), num_perm=st.integers(1, 20))


@case(any_text, any_shingling, families)
def signing(
    ops: Backend, text: TextBatch, shingling: Shingling, family: Family, shape: BandShape | None = None
) -> None:
    columns = family.num_perm
    shape = shape or BandShape(bands=max(columns // 3, 1), rows=min(columns, 3))
    signed = agree(ops, "sign", text, shingling, family, shape, KEYS)
    signatures = agree(ops, "text_signatures", text, shingling, family)
    same(signatures, expected(sketched, expected("shingle", text, shingling), family))
    same(signed.digests, expected("band_digests", signatures, shape))
    same(signed.exact, expected("exact_hashes", text, shingling, KEYS)[0])


@case(st.binary(max_size=700), st.lists(st.tuples(st.integers(0, 700), st.integers(0, 300)), max_size=40))
def bytes_of_texts(ops: Backend, data: bytes, spans: Sequence[tuple[int, int]]) -> None:
    cuts = [(min(start, len(data)), min(start + size, len(data))) for start, size in spans]
    begin, end = np.array(cuts, np.int64).reshape(-1, 2).T
    found = agree(ops, "gather", np.frombuffer(data, np.uint8), begin, end)
    assert documents_of(found) == [data[start:stop] for start, stop in cuts] and found.offset[0] == 0


# --- rows of fingerprints

any_gap = st.integers(0, 4)
any_rows = st.builds(table, tables, any_gap)


@case(any_rows, st.integers(1, 12))
def samples_of_windows(ops: Backend, rows: Fingerprints, size: int) -> None:
    agree(ops, "winnow", rows, size)
    agree(ops, "winnow", Fingerprints(rows.values % np.uint64(3), rows.offset), size)


@case(any_rows, st.integers(1, 40), st.data())
def hashes_of_windows(ops: Backend, tokens: Fingerprints, size: int, data: st.DataObject) -> None:
    last = np.maximum(tokens.lengths - size, -1)
    row = np.flatnonzero(last >= 0)
    first = np.array([data.draw(st.integers(0, int(most))) for most in last[row]], np.int64)
    windows = np.array([data.draw(st.integers(1, int(most))) for most in last[row] - first + 1], np.int64)
    given = Tokens(tokens.values, tokens.offset), tokens.offset[row] + first, windows
    agree(ops, "window_hashes", *given, size, KEYS)


some_counts = st.lists(st.sampled_from([0, 1, 2, 3, 250, 253, 254, 255]), min_size=64, max_size=64)


@case(
    st.builds(table, tables | tables.map(lambda rows: [[*row, *row[::2]] for row in rows]), any_gap),
    st.builds(lambda counts, bits: np.resize(np.array(counts, np.uint8), 1 << bits), some_counts, st.integers(2, 6))
    | st.integers(7, 16).map(lambda bits: np.zeros(1 << bits, np.uint8)),
)
def rows(ops: Backend, given: Fingerprints, counts: Values) -> None:
    """Run each operation that takes one row; prefixes follow `counts` and the frequencies made from them."""
    agree(ops, "bitmaps", given)
    agree(ops, "occurrences", given)
    agree(ops, "labelled", given)
    agree(ops, "frequencies", given, counts.copy())
    unique = agree(ops, "unique", given)
    sizes = unique.lengths
    several = [sizes, sizes + 1, sizes - sizes // 2, sizes // 3, np.minimum(sizes, 33), np.minimum(sizes, 1), sizes * 0]
    for counted, lengths in itertools.product((counts, expected("frequencies", unique, counts)), several):
        agree(ops, "prefixes", unique, counted, lengths)


@case(any_rows, st.integers(0, 50))
def simhash(ops: Backend, given: Fingerprints, bits: int = 50) -> None:
    """Some values count once; others count up to 2^bits - 1 times, over every order of magnitude."""
    generator, size = np.random.default_rng(bits), len(given.values)
    counts = generator.integers(0, 1 << bits, size) >> generator.integers(0, bits + 1, size)
    for how in ((SIMHASH_KEYS,), (SIMHASH_KEYS, counts), (SIMHASH_KEYS[:1], counts)):
        agree(ops, "simhash", given, *how)


@case(
    st.lists(st.lists(st.one_of(st.integers(0, 200), hashes), max_size=80), min_size=1, max_size=10),
    any_gap,
    st.sampled_from([16, 32, 64, 256]),
    st.data(),
)
def overlaps_of_any(ops: Backend, rows: list[list[int]], before: int, words: int, data: st.DataObject) -> None:
    row = st.integers(0, len(rows) - 1)
    pairs = np.array(data.draw(st.lists(st.tuples(row, row), max_size=30)), np.int64).reshape(-1, 2)
    overlaps(ops, pairs, table([sorted(set(row)) for row in rows], before), words)


def overlaps(ops: Backend, pairs: Numbers, unique: Fingerprints, *words: int) -> None:
    common, _ = agree(ops, "intersect", pairs, unique)
    for width in words:
        bounds = agree(ops, "overlap_bounds", pairs, agree(ops, "bitmaps", unique, width), unique.lengths)
        assert (bounds >= common).all()


# --- sketches of rows

any_seed = st.integers(0, 2**64 - 1)


@case(any_rows, st.sampled_from([*SKETCHES, *FOREIGN_SKETCHES]), st.integers(1, 140), any_seed)
def sketches_of_any(ops: Backend, rows: Fingerprints, name: Any, columns: int, seed: int) -> None:
    columns = 1 << columns.bit_length() - 1 if name == "splitmix_rounds" else columns
    sketches(ops, rows, Family(name=name, num_perm=columns, seed=seed))


def sketches(ops: Backend, rows: Fingerprints, family: Family) -> Array:
    found = agree(ops, sketched, rows, family)
    assert found.dtype == family.value_type
    assert (found[rows.lengths == 0] == np.iinfo(found.dtype).max).all()
    return found


@case(
    st.builds(lambda name: Family(name=name, num_perm=16, seed=3), st.sampled_from([*SKETCHES, *FOREIGN_SKETCHES])),
    st.lists(st.lists(st.lists(hashes, max_size=9), min_size=2, max_size=2), min_size=1, max_size=5),
)
def sketches_of_parts(ops: Backend, family: Family, parts: list[list[list[int]]]) -> None:
    whole = expected(sketched, table([list(itertools.chain(*rows)) for rows in zip(*parts, strict=True)]), family)
    for order in (parts, parts[::-1], [*parts, parts[0]], [*parts, parts[-1]]):
        same(agree(ops, joined, family, *(table(part, 1) for part in order)), whole)


def joined(ops: Backend, family: Family, *parts: Fingerprints) -> Array:
    """The signatures of sets whose values are spread over parts."""
    with ops.use_device():
        sketch = ops.set_sketch(family)
        return sketch.finish(reduce(sketch.merge, map(sketch.fold, parts), sketch.empty(len(parts[0]))))


@case(weighted_tables, any_gap, st.integers(1, 6), any_seed, st.data())
def weights(ops: Backend, rows: list[dict[int, float]], gap: int, count: int, seed: int, data: st.DataObject) -> None:
    found = agree(ops, "weighted_minhash", weighted_of(rows, gap), count, seed)
    empty = [all(weight < 2.0**-1022 for weight in row.values()) for row in rows]
    assert ((found == NO_VALUE).all(axis=1) == empty).all() and ((found == NO_VALUE).any(axis=1) == empty).all()
    place = st.integers(0, max(len(rows) - 1, 0))
    pairs = np.array(data.draw(st.lists(st.tuples(place, place), max_size=5 if rows else 0)), np.int64).reshape(-1, 2)
    agree(ops, "weighted_overlap", pairs, weighted_of(rows, gap))


@case(st.integers(1, 5).flatmap(lambda d: st.lists(st.lists(numbers, min_size=d, max_size=d), min_size=1)), any_seed)
def dense_rows(ops: Backend, given_rows: list[list[float]], seed: int) -> None:
    rows = np.array(given_rows)
    found = agree(ops, "kleinberg_tardos", rows, 5, seed)
    assert ((found == NO_VALUE).all(axis=1) == (rows < 2.0**-990).all(axis=1)).all()


# --- signatures to components


@case(st.integers(1, 20), st.data())
def band_digests(ops: Backend, columns: int, data: st.DataObject) -> None:
    value = st.one_of(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 2**31, NO_VALUE - 1, NO_VALUE, NO_VALUE]))
    row = st.one_of(st.lists(value, min_size=columns, max_size=columns), st.just([NO_VALUE] * columns))
    signatures = np.array(data.draw(st.lists(row, max_size=9)), np.uint32).reshape(-1, columns)
    width = data.draw(st.integers(1, columns))
    shape = BandShape(bands=data.draw(st.integers(1, columns // width)), rows=width)
    agree(ops, "band_digests", signatures, shape)
    agree(ops, "band_digests", np.repeat(signatures, 2, axis=0)[::2], shape)  # not contiguous


any_digest = st.one_of(
    st.sampled_from([*EDGES, 5, INSTEAD_OF_NO_DIGEST, NO_DIGEST]), st.integers(0, 2**64 - 1), st.integers(0, 30)
)
in_few_bits = st.builds(lambda upper, lower: upper << 62 | lower, st.integers(0, 3), st.integers(0, 9))


@case(
    st.one_of(
        st.lists(any_digest, min_size=1, max_size=6).flatmap(lambda pool: st.lists(st.sampled_from(pool), max_size=60)),
        st.lists(in_few_bits, max_size=60),
    ),
    st.sampled_from([0, 2**31, 2**32 - 3, 2**40]),
    st.sampled_from(["ascending", "descending", "any"]),
    st.randoms(use_true_random=False),
)
def collisions(ops: Backend, digests: list[int], first_id: int, order: str, chance: Any) -> None:
    ids = [*range(first_id, first_id + len(digests))]
    ids = {"ascending": ids, "descending": ids[::-1], "any": chance.sample(ids, len(ids))}[order]
    values = np.array(digests, np.uint64)
    buckets = agree(ops, "collisions", values, np.array(ids, np.int64))
    agree(ops, "collisions", np.repeat(values, 3)[::3], np.array(ids, np.int64))  # not contiguous
    agree(ops, "candidates", buckets)


@case(st.lists(st.tuples(any_digest, st.one_of(st.integers(0, 12), st.integers(0, 2**62))), max_size=50), st.booleans())
def collisions_of_ids_that_repeat(ops: Backend, members: list[tuple[int, int]], ascending: bool) -> None:
    if ascending:
        members = sorted(members, key=lambda member: member[1])
    values, ids = (np.array([member[i] for member in members], dtype) for i, dtype in enumerate((np.uint64, np.int64)))
    agree(ops, "collisions", values, ids)


def buckets_of(rows: Sequence[Sequence[int] | Values], before: int = 0) -> Buckets:
    """Buckets whose ids start at `before`; smaller ids are in none."""
    ids: Numbers = np.array([1] * before + [document for row in rows for document in row], np.int64)
    return Buckets(ids, before + np.cumsum([0, *map(len, rows)], dtype=np.int64))


@case(
    st.builds(
        lambda rows, before, shift, scale: buckets_of([[one * scale + shift for one in row] for row in rows], before),
        st.lists(st.lists(st.integers(0, 40), min_size=2, max_size=25).map(sorted), max_size=12),
        st.sampled_from([0, 3]),
        st.sampled_from([0, 2**32 - 20, 2**40]),
        st.sampled_from([1, 2**14, 2**21, 2**33]),
    )
)
def candidates(ops: Backend, buckets: Buckets) -> None:
    whole = agree(ops, "candidates", buckets)
    middle = int(np.median(buckets.ids)) if len(buckets.ids) else 0
    parts = [agree(ops, "candidates", buckets, first) for first in ((0, middle), (middle, 1 << 62))]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


@case(st.integers(1, 90), st.data())
def components(ops: Backend, count: int, data: st.DataObject) -> None:
    node = st.integers(0, count - 1)
    pairs = np.array(data.draw(st.lists(st.tuples(node, node), max_size=120)), np.int64).reshape(-1, 2)
    agree(ops, "components", count, pairs)


# Operations for documents beyond memory.
IN_PIECES = {
    "signing": (signing, st.tuples(any_text, shinglings, families)),
    "parts": (parts, st.tuples(any_text, shinglings, st.sampled_from([1, 2, 3, 7, 2**64]))),
}


@pytest.mark.parametrize(
    ("cuts", "cases", "examples"),
    [
        pytest.param(list(CPU), CASES, 250 * MORE, id="cpu"),
        pytest.param(HOST, CASES, 80 * MORE, id="host", marks=pytest.mark.kernels),
        pytest.param(PIECES, IN_PIECES, 50 * MORE, id="pieces", marks=pytest.mark.kernels),
        *(pytest.param([cut], CASES, 250, id=cut, marks=param(cut).marks) for cut in DEVICE),  # type: ignore[attr-defined]
    ],
)
def test_every_operation_agrees_with_the_reference(cuts: list[str], cases: dict[str, Any], examples: int) -> None:
    @settings(max_examples=examples)
    @given(st.sampled_from(cuts), st.sampled_from(sorted(cases)), st.data())
    def judge(cut: str, name: str, data: st.DataObject) -> None:
        function, arguments = cases[name]
        with backend(cut) as ops:
            function(ops, *data.draw(arguments, label=name))

    judge()
