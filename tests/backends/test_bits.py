"""The bits and the oracle: each definition is computed here a second time and pinned in a golden file."""

import json
import math
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import partial, reduce
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from llvmlite import ir
from numba import njit, types
from numpy.typing import NDArray

from gpulsh.arrays import Buckets, Tokens
from gpulsh.backends.cpu import CpuBackend, vectors
from gpulsh.backends.hashing import rolled
from gpulsh.backends.protocol import NO_DIGEST, Backend, prefix_lengths, sketched
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.backends.reference.hashing import IRREDUCIBLE, karp_rabin_hash, mix64, rabin_hash, shingle_hash, token_hash
from gpulsh.backends.reference.texts import classify, code_points
from gpulsh.backends.unicode_table import SEPARATOR, SINGLE, WORD, unicode_table
from gpulsh.params import BandShape, Family, Folding, Reading, Shingling
from gpulsh.permutations import coefficients
from tests.golden.write import FILE, bits
from tests.support import naive
from tests.support.rows import lists_of, table
from tests.support.texts import KEYS, SECRET, any_shingling, batch_of, known, raw_documents, shinglings, strings

REFERENCE = ReferenceBackend()
NAMES = {SEPARATOR: "separator", WORD: "word", SINGLE: "single"}
both = pytest.mark.parametrize("ops", [REFERENCE, CpuBackend(2)], ids=["reference", "cpu"])


@both
def test_all_bits_equal_the_golden_file(ops: Backend) -> None:
    wanted, found = json.loads(FILE.read_text()), json.loads(json.dumps(bits(ops)))
    assert wanted.keys() == found.keys()
    for name in wanted:
        assert found[name] == wanted[name], f"{name} changed: that is a new version of the scheme"


def test_the_protocols_test_vectors_hold() -> None:
    assert mix64(1) == naive.mix(1) == 0x3C02AA47758292BD
    assert token_hash([ord("a")]) == naive.token_hash("a") == 0x2EA5AFA350576653
    values = REFERENCE.shingle(batch_of([b"a b c d e"]), Shingling()).values.tolist()
    assert values == [naive.fingerprint(("a", "b", "c", "d", "e"))] == [0x58C61048EBDAA80C]
    tokens = [naive.token_hash(word) for word in "abcde"]
    assert (rabin(tokens), karp_rabin(tokens)) == (0xBB44B0B1F12CBB13, 0xE8AFC816EDF9E7FF)
    exact = REFERENCE.exact_hashes(batch_of([b"a b"]), Shingling(), KEYS)[0].tolist()
    assert exact == [list(naive.exact_hash(["a", "b"], SECRET))] == [[0xFF37C8B79C299BAC, 0xF2AF0406D2E81271]]


@pytest.mark.parametrize("register", [128, 256, 512])
def test_vectors_of_any_width_sum_products_alike(register: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "REGISTER", register)

    @vectors.llvm(types.void(types.int64, types.int64, types.int64))
    def summed(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, out: ir.Value) -> None:
        products = vectors.Products(builder, vectors.splat(7))
        products.add(vectors.load(builder, a), vectors.load(builder, b))
        products.add(vectors.load(builder, b), vectors.splat(2**63 + 5))
        vectors.store(builder, products.sum(), out)

    @njit
    def call(a, b, out):  # type: ignore[no-untyped-def]
        summed(a, b, out)

    a, b = np.random.default_rng(3).integers(0, 2**64, (2, vectors.LANES), np.uint64)
    a[:3], b[:3] = [0, 2**64 - 1, 2**32], [2**64 - 1, 2**64 - 1, 2**32 - 1]
    out = np.zeros_like(a)
    call(a.ctypes.data, b.ctypes.data, out.ctypes.data)
    assert out.tolist() == (np.uint64(7) + a * b + b * np.uint64(2**63 + 5)).tolist()


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=70))
def test_hashes_equal_the_defined_sums(values: list[int]) -> None:
    assert shingle_hash(values) == naive.hashed(naive.SHINGLE, values)
    points = [value % 0x110000 for value in values]
    assert token_hash(points) == naive.hashed(naive.TOKEN, points)
    assert mix64(values[0]) == naive.mix(values[0])


def times(a: int, b: int) -> int:
    """The product of polynomials over GF(2) modulo the one of `protocol`."""
    product = 0
    for bit in range(64):
        if b >> bit & 1:
            product ^= a << bit
    for power in range(126, 63, -1):
        if product >> power & 1:
            product ^= IRREDUCIBLE << power - 64
    return product


def rabin(tokens: Sequence[int]) -> int:
    return naive.mix(reduce(lambda rolling, token: times(times(rolling, 1 << 63), 2) ^ token, tokens, 1))


def karp_rabin(tokens: Sequence[int]) -> int:
    base, count = 0x13198A2E03707344, len(tokens)
    powers = sum(token * base ** (count - 1 - place) for place, token in enumerate(tokens))
    return naive.mix((base**count + powers) % (2**61 - 1))


HASHES = {"mix64": partial(naive.hashed, naive.SHINGLE), "rabin": rabin, "karp_rabin": karp_rabin}


def fingerprints(words: list[str], shingling: Shingling) -> list[int]:
    """The fingerprints of a document's tokens, as the protocol defines them."""
    listed = [naive.tokens(word, "word", shingling.symbols) for word in shingling.stop_words]
    stop = {word[0] for word in listed if len(word) == 1}
    is_stop = ["".join(map(naive.folded, word)) in stop for word in words]
    tokens = [naive.token_hash(word) for word in words]
    if shingling.anchor:
        tokens = [HASHES["mix64"](tokens[i : i + 3]) for i in range(len(words) - 2) if is_stop[i]]
    else:
        tokens = [token for token, left_out in zip(tokens, is_stop, strict=True) if not left_out]
    found = [HASHES[shingling.hash](shingle) for shingle in naive.shingles(tokens, shingling.size)]
    earlier: list[int] = [found[:place].count(x) if shingling.labels else 0 for place, x in enumerate(found)]
    return [naive.mix(x + label * naive.GOLDEN) if label else x for x, label in zip(found, earlier, strict=True)]


@given(strings.map(known), any_shingling)
@example("... \n🙂", Shingling(unit="char").with_folding(Folding()))
@example("a a a a a a a", Shingling(size=5).with_folding(Folding()))
@example("a", Shingling(size=5).with_folding(Folding()))
@example("a c b", Shingling(unit="char", size=3).with_folding(Folding()))
@example("The quick, a Fox over THE dog the", Shingling(size=2, stop=["the", "A", "the dog"]).with_folding(Folding()))
@example("The dog of the", Shingling(size=1, stop=["the"]).with_folding(Folding(case=False)))
@example(
    "A word for it, for the Sudzo for it", Shingling(anchor="stopwords", stop=["a", "FOR"]).with_folding(Folding())
)
def test_fingerprints_and_exact_hashes_follow_the_definition(text: str, shingling: Shingling) -> None:
    words, batch = naive.tokens(text, shingling.unit, *shingling.reading), batch_of([text.encode()])
    assert [[ord(c) for c in word] for word in words] == code_points(text.encode(), shingling.unit, shingling.reading)
    wanted = fingerprints(words, shingling)
    for ops in (REFERENCE, CpuBackend(1)):
        assert ops.shingle(batch, shingling).values.tolist() == wanted
        assert ops.exact_hashes(batch, shingling, KEYS)[0].tolist() == [list(naive.exact_hash(words, SECRET))]


@given(strings.map(known), shinglings)
def test_evidence_signatures_and_digests_follow_the_definition(text: str, shingling: Shingling) -> None:
    words, batch = naive.tokens(text, shingling.unit, *shingling.reading), batch_of([text.encode()])
    evidence = [naive.evidence(shingle, SECRET) for shingle in naive.shingles(words, shingling.size)]
    assert REFERENCE.shingle_sets(batch, shingling, KEYS).values.tolist() == sorted(set(evidence))
    found = REFERENCE.shingle(batch, shingling)
    signatures = sketched(REFERENCE, found, Family(num_perm=12, seed=7))
    assert signatures.tolist() == [naive.signature(found.values.tolist(), 12, 7)]
    digests = REFERENCE.band_digests(signatures, BandShape(bands=4, rows=3))
    assert digests.tolist() == [naive.band_digests(signatures[0].tolist(), 4, 3)]


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**64 - 1])
def test_coefficients_follow_the_definition(seed: int) -> None:
    drawn = coefficients(Family(num_perm=300, seed=seed))
    pairs = list(zip(drawn.multiplier.tolist(), drawn.addend.tolist(), strict=True))
    assert pairs == naive.functions(300, seed)
    assert all(a % 2 == 1 for a, _ in pairs) and len(set(pairs)) == 300
    shorter = coefficients(Family(num_perm=7, seed=seed))
    assert (shorter.multiplier == drawn.multiplier[:7]).all() and (shorter.addend == drawn.addend[:7]).all()
    assert drawn.multiplier.dtype == drawn.addend.dtype == np.uint32


# --- invalid UTF-8


@given(raw_documents, st.sampled_from(["word", "char"]))
def test_invalid_bytes_are_replaced_as_python_does(document: bytes, unit: str) -> None:
    """The text that `decode` makes of the bytes, encoded again, has the same tokens on both backends."""
    replaced = document.decode("utf-8", "replace").encode()
    both = batch_of([document, replaced])
    for ops in (REFERENCE, CpuBackend(1)):
        found = ops.exact_hashes(both, Shingling(unit=unit, size=2), KEYS)[0]  # type: ignore[arg-type]
        assert (found[0] == found[1]).all()


@both
def test_a_character_cut_by_the_end_of_a_document_is_invalid(ops: Backend) -> None:
    """The bytes of the next document do not complete a document's last character."""
    for character in ("é", "漢", "𝒜"):
        raw = character.encode()
        for cut in range(1, len(raw)):
            batch = batch_of([b"a" + raw[:cut], raw[cut:] + b"b"])
            alone = [ops.exact_hashes(batch_of([d]), Shingling(), KEYS)[0][0] for d in (b"a", b"b")]
            assert (ops.exact_hashes(batch, Shingling(), KEYS)[0] == np.array(alone)).all()


@given(st.lists(st.sampled_from([0, 1, 2**61 - 2, 2**61 - 1, 2**61, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)))
def test_rolling_hashes_equal_the_hash_of_each_shingle(values: list[int]) -> None:
    tokens = Tokens(np.array(values, np.uint64), np.array([0, len(values)]))
    for keys in (None, KEYS):
        for shingling in (Shingling(hash="rabin", size=3), Shingling(hash="karp_rabin", size=3)):
            found = rolled(tokens, shingling, keys).values.tolist()
            is_rabin = shingling.hash == "rabin"
            shingles = map(list, naive.shingles(values, 3))
            assert found == [rabin_hash(one) if is_rabin else karp_rabin_hash(one, keys) for one in shingles]


# --- Unicode table

# Where Unicode changed the folding of a character that older releases already had.
FOLDED_SINCE_15_1 = {0x0390: 0x1FD3, 0x1FD3: 0x0390, 0x03B0: 0x1FE3, 0x1FE3: 0x03B0, 0xFB05: 0xFB06, 0xFB06: 0xFB05}


def test_characters_are_classed_and_folded_as_in_unicodedata() -> None:
    points = np.arange(0x110000, dtype=np.uint32)
    entries, symbols = (unicode_table(Reading(symbols=symbols)).entries(points) for symbols in (False, True))
    kinds, folded = entries & 3, points + (entries >> 2)
    assert [*map(classify, points[::97].tolist())] == [*zip(kinds[::97].tolist(), folded[::97].tolist(), strict=True)]
    again = (folded != points) & ~np.isin(points, list(FOLDED_SINCE_15_1))
    assert (folded[folded[again]] == folded[again]).all() and (kinds[folded[again]] == kinds[again]).all()
    for code_point in range(0x110000):
        character = chr(code_point)
        category = unicodedata.category(character)
        if category in ("Cn", "Cs"):
            continue
        kind, point = int(kinds[code_point]), int(folded[code_point])
        wanted_kind, wanted = naive.classed(character)
        assert NAMES[kind] == wanted_kind, f"{code_point:04X} {unicodedata.name(character, '')}"
        if wanted_kind != "separator" and point != ord(wanted):
            assert FOLDED_SINCE_15_1.get(code_point) == point, f"{code_point:04X} folds to {point:04X}"
        if symbols[code_point] != entries[code_point] or category[0] in "PS":
            assert (symbols[code_point] & 3 == SINGLE) == (character != "\ufffd") and category[0] in "PS"


TOKENS = [
    ("漢〇々ひカｶ\U00020000กัກកក๑", list("漢〇々ひカｶ\U00020000กัກកក๑"), "漢〇々ひカｶ\U00020000กัກកក๑"),
    # Script=Common or Inherited, though Script_Extensions names Hiragana and Katakana, and letters, marks and numbers.
    ("ーｰ\u3099aйहि\u094d한\u0301²", ["ーｰ\u3099aйहि\u094d한\u0301²"], "ーｰ\u3099aйहि\u094d한\u0301²"),
    ("🙂_\u200d\0\ufffdⓐ\U0010ffff", [], ""),
    ("हिन्दी में", ["हिन्दी", "में"], "हिन्दी में"),
    ("漢字かなカナ", list("漢字かなカナ"), "漢字かなカナ"),
    ("カー", ["カ", "ー"], "カー"),
    ("ab漢cd", ["ab", "漢", "cd"], "ab漢cd"),
    ("ไทย", list("ไทย"), "ไทย"),
    ("don't STOP", ["don", "t", "stop"], "don t stop"),
    ("Straße STRASSE ẞ", ["straße", "strasse", "ß"], "straße strasse ß"),
    ("ΣΑΣ ς", ["σασ", "σ"], "σασ σ"),
    ("İI", ["İi"], "İi"),
    ("e\u0301a", ["e\u0301a"], "e\u0301a"),
    ("K ſ", ["k", "s"], "k s"),
    (" A,  b\n", ["a", "b"], "a b"),
    ("漢 字", ["漢", "字"], "漢 字"),
    ("...", [], ""),
    ("", [], ""),
    ("\u3000x\u00a0\ufffdy🙂", ["x", "y"], "x y"),
]
SYMBOLS = [
    ("C++, C#!", ["C", "+", "+", ",", "C", "#", "!"], "C++, C#!"),
    ("!!!", ["!", "!", "!"], "!!!"),
    ("a_b $5", ["a", "_", "b", "$", "5"], "a_b $5"),
    ("👍🏽 漢。\u200d", ["👍", "🏽", "漢", "。"], "👍🏽 漢。"),
    ("Ⓐ ∑=İ", ["Ⓐ", "∑", "=", "İ"], "Ⓐ ∑=İ"),
    ("\ufffd \n", [], ""),
]


@pytest.mark.parametrize(("text", "words", "characters"), TOKENS)
def test_text_splits_into_tokens(text: str, words: list[str], characters: str) -> None:
    assert code_points(text.encode(), "word") == [[*map(ord, token)] for token in words]
    assert code_points(text.encode(), "char") == [[ord(c)] for c in characters]


@pytest.mark.parametrize(("text", "words", "characters"), SYMBOLS)
def test_symbols_are_tokens_if_the_reading_says_so(text: str, words: list[str], characters: str) -> None:
    for case in (True, False):
        reading, fold = Reading(symbols=True, case=case), naive.folded if case else str
        for unit, tokens in (("word", words), ("char", [*characters])):
            wanted = [[ord(fold(c)) for c in token] for token in tokens]
            assert code_points(text.encode(), unit, reading) == wanted  # type: ignore[arg-type]


# --- the other operations of the reference, against plain Python sets

small = st.lists(st.lists(st.integers(0, 30), max_size=12), max_size=8)


def pairs_of(rows: list[list[int]], data: st.DataObject) -> NDArray[np.int64]:
    ids = st.integers(0, max(len(rows) - 1, 0))
    pairs = data.draw(st.lists(st.tuples(ids, ids), max_size=10)) if rows else []
    return np.array(pairs, np.int64).reshape(-1, 2)


@given(small, st.data())
def test_unique_rows_and_intersections_equal_those_of_sets(rows: list[list[int]], data: st.DataObject) -> None:
    pairs, unique = pairs_of(rows, data), REFERENCE.unique(table(rows))
    assert lists_of(unique) == [sorted(set(row)) for row in rows]
    both, either = REFERENCE.intersect(pairs, unique)
    assert both.tolist() == [len(set(rows[i]) & set(rows[j])) for i, j in pairs.tolist()]
    assert either.tolist() == [len(set(rows[i]) | set(rows[j])) for i, j in pairs.tolist()]
    assert both.dtype == either.dtype == np.int64


@given(st.lists(st.tuples(st.sampled_from([0, 1, 5, NO_DIGEST - 1, NO_DIGEST]), st.integers(0, 99)), max_size=20))
def test_collisions_and_candidates_equal_a_search_of_all_pairs(drawn: list[tuple[int, int]]) -> None:
    digest_of = {document: digest for digest, document in drawn}
    ids = np.array(list(digest_of), np.int64)
    buckets = REFERENCE.collisions(np.array(list(digest_of.values()), np.uint64), ids)
    wanted = [
        (i, j)
        for i, j in combinations(sorted(digest_of), 2)
        if digest_of[i] == digest_of[j] and digest_of[i] != NO_DIGEST
    ]
    assert REFERENCE.candidates(buckets).tolist() == [list(pair) for pair in wanted]
    members = [buckets.ids[a:b].tolist() for a, b in pairwise(buckets.offset)]
    assert all(len(bucket) > 1 and bucket == sorted(bucket) for bucket in members)
    digests = [{digest_of[i] for i in bucket} for bucket in members]
    assert all(len(shared) == 1 for shared in digests) and sorted(map(min, digests)) == list(map(min, digests))


def test_a_pair_in_two_buckets_is_one_candidate() -> None:
    buckets = Buckets(np.array([1, 4, 9, 4, 9, 0, 1], np.int64), np.array([0, 3, 5, 7]))
    assert REFERENCE.candidates(buckets).tolist() == [[0, 1], [1, 4], [1, 9], [4, 9]]


edges = st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), max_size=25)


@given(edges)
def test_components_equal_the_naive_ones(pairs: list[tuple[int, int]]) -> None:
    assert REFERENCE.components(20, np.array(pairs, np.int64).reshape(-1, 2)).tolist() == naive.components(20, pairs)


@given(small)
def test_prefixes_hold_the_rarest_values(rows: list[list[int]]) -> None:
    """Values differ in the upper bits, so that each has its own slot and counts are exact."""
    spread = [sorted({value << 59 for value in row}) for row in rows]
    counts = REFERENCE.frequencies(table(spread), np.zeros(32, np.uint8))
    flat = [value >> 59 for row in spread for value in row]
    assert counts.tolist() == [flat.count(value) for value in range(32)] and counts.dtype == np.uint8
    full = np.full(32, 250, np.uint8)
    assert REFERENCE.frequencies(table(spread), full).tolist() == [min(250 + count, 255) for count in counts.tolist()]
    lengths = np.array([(len(row) + 1) // 2 for row in spread], np.int64)
    prefixes = lists_of(REFERENCE.prefixes(table(spread), counts, lengths))
    for row, found, length in zip(spread, prefixes, lengths, strict=True):
        rarest = sorted(row, key=lambda value: (flat.count(value >> 59), value))[:length]
        assert found == sorted(value for value in rarest if flat.count(value >> 59) > 1)


@given(st.lists(strings.map(known), max_size=4), shinglings)
def test_prefixes_of_texts_hold_the_rarest_shingles(texts: list[str], shingling: Shingling) -> None:
    batch, counts = batch_of([text.encode() for text in texts]), np.arange(8, dtype=np.uint8)
    sets = REFERENCE.shingle_sets(batch, shingling)
    rows = lists_of(sets)
    for rare, share in ((0, 0.8), (0, 0.0), (4, 0.8), (256, 0.8)):
        found = REFERENCE.prefixes(sets, counts, prefix_lengths(sets.lengths, share), rare)
        for row, prefix in zip(rows, lists_of(found), strict=True):
            order = sorted((value >> 61, value) for value in row)
            few = sum(count < rare for count, _ in order)
            first = order[: max(few, len(row) - math.ceil(share * len(row)) + 1)]
            assert prefix == sorted(value for count, value in first if count > 1)


@given(small, st.sampled_from([16, 32]), st.data())
def test_bitmaps_bound_intersections_tightly(rows: list[list[int]], words: int, data: st.DataObject) -> None:
    """Some values share a bit; the bound is never below the intersection, and it is tight."""
    sets = [{value << 54 | value % 3 for value in row} | {value << 53 for value in row[:2]} for row in rows]
    unique = table([sorted(one) for one in sets])
    shift = {16: 54, 32: 53}[words]
    odd = [{bit for bit, count in Counter(x >> shift for x in one).items() if count % 2} for one in sets]
    bitmaps = REFERENCE.bitmaps(unique, words)
    assert (bitmaps.shape, bitmaps.dtype) == ((len(rows), words), np.uint64)
    for wanted, row in zip(odd, bitmaps.tolist(), strict=True):
        assert {64 * w + b for w in range(words) for b in range(64) if row[w] >> b & 1} == wanted
    pairs = pairs_of(rows, data)
    bounds = REFERENCE.overlap_bounds(pairs, bitmaps, np.diff(unique.offset)).tolist()
    for (i, j), bound in zip(pairs.tolist(), bounds, strict=True):
        smaller, together = min(len(sets[i]), len(sets[j])), len(sets[i]) + len(sets[j])
        assert len(sets[i] & sets[j]) <= bound == min(smaller, (together - len(odd[i] ^ odd[j])) // 2)
