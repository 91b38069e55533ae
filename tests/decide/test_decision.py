"""The decision equals a naive greedy one, document by document: on real and random text, in buckets of every size."""

from collections.abc import Sequence
from functools import cache
from itertools import combinations
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import gpulsh
from gpulsh import Decision, Shingling
from gpulsh.theory import default_banding
from tests.support import naive
from tests.support.bounds import set_bounds
from tests.support.texts import WORDS, licences

# --- the oracle's input


def sets_of(sequences: Sequence[Sequence[str]], size: int) -> list[set[int]]:
    """Shingle sets, with shingles numbered in order of appearance, for speed."""
    numbers: dict[tuple[str, ...], int] = {}
    return [{numbers.setdefault(s, len(numbers)) for s in naive.shingles(words, size)} for words in sequences]


def exact_similarity(sets: Sequence[set[int]]) -> Any:
    return lambda i, j: naive.jaccard(sets[i], sets[j])  # type: ignore[arg-type]


def naive_documents(
    texts: Sequence[str | None], shingling: Shingling, num_perm: int, bands: int, rows: int
) -> naive.Documents:
    """Documents by the naive definitions alone, hashes included."""
    words = [naive.tokens(text or "", shingling.unit) for text in texts]
    digests = []
    for document in words:
        fingerprints = [naive.fingerprint(shingle) for shingle in naive.shingles(document, shingling.size)]
        digests.append(naive.band_digests(naive.signature(fingerprints, num_perm, 1), bands, rows))
    return naive.Documents(list(map(tuple, words)), digests, exact_similarity(sets_of(words, shingling.size)))


def estimated_similarity(texts: Sequence[str | None], shingling: Shingling, num_perm: int) -> NDArray[np.float64]:
    """The shares of equal signature values, [n, n]."""
    rows = []
    for text in texts:
        shingles = naive.shingles(naive.tokens(text or "", shingling.unit), shingling.size)
        rows.append(naive.signature([naive.fingerprint(s) for s in shingles], num_perm, 1))
    values = np.array(rows)
    return np.array((values[:, None] == values[None]).mean(axis=2))


def assert_decision(result: Decision, wanted: naive.Decision) -> None:
    assert result.duplicate_of.tolist() == wanted.duplicate_of
    assert result.keep.tolist() == [i == target for i, target in enumerate(wanted.duplicate_of)]
    np.testing.assert_array_equal(result.similarity, np.array(wanted.similarity, np.float32))
    assert [tuple(pair) for pair in result.pairs.tolist()] == sorted(wanted.pairs)
    similarity = np.array([wanted.pairs[pair] for pair in sorted(wanted.pairs)], np.float32)
    np.testing.assert_array_equal(result.pair_similarity, similarity)
    assert result.cluster.tolist() == wanted.cluster
    assert result.funnel.dropped == int((~result.keep).sum()) and result.funnel.verified == len(wanted.pairs)
    kinds = {"keep": bool, "duplicate_of": np.int64, "similarity": np.float32, "cluster": np.int64, "pairs": np.int64}
    assert all(getattr(result, name).dtype == kind for name, kind in kinds.items())
    assert result.pairs.shape == (len(wanted.pairs), 2)


def decide_as_naively(
    texts: Sequence[str | None], shape: tuple[int, int, int], small_bucket: int = 256, **options: Any
) -> tuple[Decision, naive.Documents]:
    """Decide with signatures of `shape` (num_perm, bands, rows), equal to the naive decision; also the documents."""
    num_perm, bands, rows = shape
    given = {"backend": "cpu", "threshold": 0.8, "shingling": Shingling(size=1), "verify": "exact", **options}
    result = gpulsh.deduplicate(texts, num_perm=num_perm, bands=bands, rows=rows, **given)
    documents = naive_documents(texts, given["shingling"], *shape)
    if given["verify"] == "signature":
        estimate = estimated_similarity(texts, given["shingling"], num_perm)
        documents.similarity = lambda i, j: float(estimate[i, j])
    if given["verify"] == "none":
        documents.similarity = lambda i, j: 1.0  # every compared pair counts
    how = {"resolve": options.get("resolve", "kept"), "small_bucket": small_bucket}
    wanted = naive.greedy(documents, given["threshold"], options.get("priority"), **how)
    if given["verify"] == "none":  # then only exact copies have a known similarity

        def known(i: int, j: int) -> float:
            return 1.0 if documents.sequences[i] == documents.sequences[j] else np.nan

        wanted.similarity = [known(*pair) for pair in enumerate(wanted.duplicate_of)]
        wanted.pairs = {pair: known(*pair) for pair in wanted.pairs}
    assert_decision(result, wanted)
    return result, documents


# --- real text


@cache
def real_text(unit: Any, size: int, every: int) -> tuple[list[str], list[tuple[str, ...]], list[set[int]], Any]:
    texts = licences()[::every]
    words = [tuple(naive.tokens(text, unit)) for text in texts]
    return texts, words, sets_of(words, size), gpulsh.shingle(texts, shingling=Shingling(unit=unit, size=size))


@pytest.mark.parametrize(
    ("threshold", "unit", "size", "every", "prioritized", "resolve"),
    [
        (0.5, "word", 5, 4, True, "kept"),
        (0.7, "word", 5, 4, False, "kept"),
        (0.7, "word", 5, 4, False, "components"),
        (0.8, "char", 9, 10, False, "kept"),
        (0.9, "word", 5, 4, True, "kept"),
        (1.0, "word", 5, 1, False, "kept"),
    ],
)
def test_decisions_on_real_text_equal_the_naive_greedy(
    threshold: float, unit: Any, size: int, every: int, prioritized: bool, resolve: Any
) -> None:
    texts, words, sets, fingerprints = real_text(unit, size, every)
    priority = [float(len(text) % 97) for text in texts] if prioritized else None
    bands, rows = default_banding(128, threshold)
    signatures = gpulsh.MinHash()(fingerprints, backend="cpu")
    digests = gpulsh.Banding(bands=bands, rows=rows)(signatures, backend="cpu").values.tolist()
    options: dict[str, Any] = {"threshold": threshold, "priority": priority, "resolve": resolve, "backend": "cpu"}
    result = gpulsh.deduplicate(texts, shingling=Shingling(unit=unit, size=size), **options)
    documents = naive.Documents(words, digests, exact_similarity(sets))
    assert_decision(result, naive.greedy(documents, threshold, priority, resolve=resolve))
    assert len(result) > 2800 // every and result.funnel.dropped > (15 if threshold < 1 else 10)
    assert every > 2 or result.funnel.exact_copies > 2
    if resolve == "components":
        assert result.funnel.kept == len(set(result.cluster.tolist()))
        assert result.similarity.min() < threshold  # chained: its similarity says so


# --- random text


def corpus(seed: int, count: int, families: int, length: int, edits: float) -> list[str | None]:
    """Documents of a few families: edited, cut, with other separators and cases, some null or without a token."""
    random = Random(seed)
    pages = [[random.choice(WORDS) for _ in range(length)] for _ in range(families)]
    texts: list[str | None] = []
    for _ in range(count):
        if random.random() < 0.05:
            texts.append(random.choice([None, "", "... ", " x ", "🙂"]))
            continue
        words = [random.choice(WORDS) if random.random() < edits else word for word in random.choice(pages)]
        if random.random() < 0.2:
            words = words[: random.randrange(len(words) + 1)]
        text = random.choice([" ", ", ", "\n", "\0"]).join(words)
        texts.append(text.upper().lower() if random.random() < 0.1 else text)
    return texts


corpora = st.builds(
    corpus,
    st.integers(0, 2**32),
    st.sampled_from([1, 2, 9, 40, 80]),
    st.sampled_from([1, 2, 8]),
    st.sampled_from([3, 8, 25]),
    st.sampled_from([0.0, 0.02, 0.05, 0.2]),
)
all_options = st.fixed_dictionaries(
    {
        "threshold": st.sampled_from([0.1, 0.3, 0.5, 0.6, 2 / 3, 0.7, 0.75, 0.8, 0.9, 1.0]),
        "shingling": st.builds(Shingling, unit=st.sampled_from(["word", "char"]), size=st.sampled_from([1, 2, 3, 5])),
        "backend": st.sampled_from(["cpu", "cpu", "reference"]),
        "resolve": st.sampled_from(["kept", "components"]),
        "verify": st.sampled_from(["exact", "exact", "signature", "none"]),
    }
)


def priorities(texts: Sequence[str | None], seed: int) -> list[float] | None:
    random = Random(seed)
    values = [0.0, -0.0, 1.0, 2.5, float("inf"), -1e300]
    return None if seed % 2 else [random.choice(values) for _ in texts]


def set_tiny_bounds(patch: pytest.MonkeyPatch, seed: int) -> None:
    """Buckets are large from 5 documents on, and every bound on work, one of two by the seed, is met all the time."""
    set_bounds(patch, *[(300, 3), (1000, 20)][seed % 2])
    patch.setattr("gpulsh.lsh.collisions.SMALL_BUCKET", 4)


@settings(max_examples=30)
@given(corpora, st.integers(0, 99), all_options, st.booleans())
def test_decisions_on_random_text_equal_the_naive_greedy(
    texts: list[str | None], seed: int, options: dict[str, Any], large: bool
) -> None:
    """Small buckets by every measure; large ones by exact similarity, which the prefix filter needs."""
    shape = [(32, 16, 2), (16, 16, 1), (16, 4, 4)][seed % 3]
    with pytest.MonkeyPatch.context() as patch:
        if large:
            set_tiny_bounds(patch, seed)
            options = {**options, "verify": "exact"}
        how = {"small_bucket": 4 if large else 256, "priority": priorities(texts, seed), **options}
        result, documents = decide_as_naively(texts, shape, **how)
    empty = [not sequence for sequence in documents.sequences]
    assert result.keep[empty].all() and result.funnel.empty == sum(empty)
    assert result.funnel.nulls == sum(text is None for text in texts)


# --- large buckets


@pytest.mark.parametrize("size", [256, 257])
def test_a_bucket_is_large_above_256_distinct_documents(size: int) -> None:
    """Up to 256, all similar pairs are reported; above, only pairs with a kept document. Copies do not count."""
    words = [f"w{i}" for i in range(60)]
    texts = [" ".join([*words[:i], f"own{i}", *words[i:]]) for i in range(350)]
    digests = [digest for (digest,) in naive_documents(texts, Shingling(size=1), 1, 1, 1).digests]
    common = max(digests, key=digests.count)
    texts = [text for text, digest in zip(texts, digests, strict=True) if digest == common][:size]
    texts += texts[:40]
    assert len(texts) == size + 40
    result, _ = decide_as_naively(texts, (1, 1, 1))
    assert result.funnel.kept == 1
    assert len(result.pairs) == 40 + (size * (size - 1) // 2 if size <= 256 else size - 1)


@pytest.mark.parametrize(("seed", "verify"), [(0, "signature"), (1, "none"), (2, "signature"), (3, "none")])
def test_large_buckets_keep_no_similar_pair_unverified(verify: Any, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept documents that share a bucket are not similar, and each reported pair passed the chosen check."""
    set_tiny_bounds(monkeypatch, seed)
    texts = corpus(seed, 80, 2, 20, 0.04)
    shingling, threshold = Shingling(size=2), 0.6
    options: dict[str, Any] = {"num_perm": 24, "bands": 12, "rows": 2}
    result = gpulsh.deduplicate(
        texts, threshold=threshold, shingling=shingling, verify=verify, backend="cpu", **options
    )
    documents, estimate = naive_documents(texts, shingling, **options), estimated_similarity(texts, shingling, 24)
    assert result.keep[result.duplicate_of].all() and not result.keep.all()

    def share_a_bucket(i: int, j: int) -> bool:
        return any(a == b for a, b in zip(documents.digests[i], documents.digests[j], strict=True))

    for i, j in result.pairs.tolist():
        assert share_a_bucket(i, j) and (verify == "none" or estimate[i, j] >= threshold)
    for i, j in combinations(np.flatnonzero(result.keep).tolist(), 2):
        if documents.sequences[i] and documents.sequences[j] and share_a_bucket(i, j):
            assert documents.similarity(i, j) < threshold or (verify == "signature" and estimate[i, j] < threshold)


# --- hand-made cases, which judge the oracle, too


def words_of(start: int, stop: int) -> str:
    return " ".join(f"w{i}" for i in range(start, stop))


CHAIN = [words_of(0, 90), words_of(5, 95), words_of(10, 100)]
LONG_CHAIN = [words_of(3 * i, 3 * i + 30) for i in range(301)]
# J(0, 1) = 60 / 100; 2 is 70 / 90 like both; 3 is 75 / 85 like 1 and 65 / 95 like 0.
TIES = [words_of(0, 80), words_of(20, 100), words_of(10, 90), words_of(15, 95)]
FIRST, LIKE = words_of(0, 100), words_of(2, 100)
COPIES = [LIKE, FIRST, FIRST.upper(), LIKE.replace(" ", " -- "), FIRST]


@pytest.mark.parametrize(
    ("texts", "threshold", "options", "duplicate_of"),
    [
        # A is like B and B like C, but A is not like C: B goes, C stays; as a component, both go.
        (CHAIN, 0.85, {}, [0, 0, 2]),
        (CHAIN, 0.85, {"resolve": "components"}, [0, 0, 0]),
        (CHAIN, 0.85, {"priority": [0, 1, 0]}, [1, 1, 1]),
        # Each is like its neighbours alone, so every other one stays: a round of decisions settles one document.
        (LONG_CHAIN, 0.8, {}, [i - i % 2 for i in range(301)]),
        (LONG_CHAIN, 0.8, {"priority": np.arange(301)}, [i + i % 2 for i in range(301)]),
        # The witness is the most similar one, and ties go to the earlier.
        (TIES, 0.7, {}, [0, 1, 0, 1]),
        (TIES, 0.7, {"priority": [0, 1, -1, -1]}, [0, 1, 1, 1]),
        # A copy follows its first copy; with another order another copy is the first.
        (COPIES, 0.8, {}, [0, 0, 0, 0, 0]),
        (COPIES, 0.8, {"priority": [0, 1, 2, 3, 4]}, [4, 4, 4, 4, 4]),
        # Equal sets of other sequences are no copies: their Jaccard is 1.0, and they are compared.
        (["a b a b a", "b a b a b a", "a b"], 1.0, {}, [0, 0, 0]),
    ],
)
def test_hand_made_cases_are_decided_as_expected(
    texts: list[str], threshold: float, options: dict[str, Any], duplicate_of: list[int]
) -> None:
    result, _ = decide_as_naively(texts, (64, 64, 1), threshold=threshold, **options)
    assert result.duplicate_of.tolist() == duplicate_of
    assert result.funnel.exact_copies == (3 if texts is COPIES else 0)


def test_a_pair_at_the_threshold_is_a_duplicate() -> None:
    """Quotients are compared as float64: 4 / 5 is 0.8, 2 / 3 is 2 / 3."""
    for part, whole in ((4, 5), (2, 3), (9, 10), (7, 10), (1, 3), (3, 7)):
        texts = [words_of(0, 30 * part), words_of(0, 30 * whole)]
        at, _ = decide_as_naively(texts, (64, 64, 1), threshold=part / whole)
        assert at.duplicate_of.tolist() == [0, 0] and at.similarity[1] == np.float32(part / whole)
        above, _ = decide_as_naively(texts, (64, 64, 1), threshold=float(np.nextafter(part / whole, 2)))
        assert above.keep.all()
