"""`measure="containment"`: a document goes where a kept one contains enough of it, exactly, against naive sets."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulsh

SHINGLING = gpulsh.Shingling(size=2)
words = st.sampled_from(list("abcdef"))
some_texts = st.lists(st.lists(words, max_size=12).map(" ".join) | st.none(), max_size=12)
every_backend = pytest.mark.parametrize("backend", ["reference", "cpu"])


def naive(
    texts: list[str | None], threshold: float, priority: list[float] | None, either: bool = False
) -> tuple[list[int], list[float]]:
    """`duplicate_of` and `similarity`, one document after another; with `either` by the share of the smaller one."""
    tokens = [(text or "").split() for text in texts]
    sets = [{tuple(one[i : i + 2]) for i in range(max(len(one) - 1, min(len(one), 1)))} for one in tokens]
    ranks = [len((text or "").encode()) for text in texts] if priority is None else priority
    order = sorted(range(len(texts)), key=lambda i: (-ranks[i], i))
    target, similarity = list(range(len(texts))), [1.0] * len(texts)
    kept: list[int] = []
    seen: dict[tuple[str, ...], int] = {}
    for i in order:
        if not tokens[i]:
            continue
        first = seen.setdefault(tuple(tokens[i]), i)
        if first != i:
            target[i], similarity[i] = target[first], similarity[first]
            continue
        least = [min(len(sets[i]), len(sets[j])) if either else len(sets[i]) for j in kept]
        shares = [(len(sets[i] & sets[j]) / least[place], -place, j) for place, j in enumerate(kept)]
        best = max(shares, default=(0.0, 0, i))
        if best[0] >= threshold:
            target[i], similarity[i] = best[2], best[0]
        else:
            kept.append(i)
    return target, similarity


@every_backend
@settings(deadline=None)
@given(texts=some_texts, threshold=st.sampled_from([0.3, 0.5, 0.8, 1.0]), either=st.booleans(), data=st.data())
def test_decides_as_naive_sets_do(
    backend: Any, texts: list[str | None], threshold: float, either: bool, data: st.DataObject
) -> None:
    ranks = st.lists(st.integers(0, 3).map(float), min_size=len(texts), max_size=len(texts))
    priority = data.draw(st.none() | ranks)
    options: dict[str, Any] = {"threshold": threshold, "shingling": SHINGLING, "drop_contained_only": not either}
    found = gpulsh.deduplicate(texts, measure="containment", priority=priority, backend=backend, **options)
    target, similarity = naive(texts, threshold, priority, either)
    assert found.duplicate_of.tolist() == target
    np.testing.assert_array_equal(found.similarity, np.array(similarity, np.float32))


def test_a_quoted_page_goes_whichever_comes_first() -> None:
    page = " ".join(f"word{i}" for i in range(400))
    quote = " ".join(f"word{i}" for i in range(100, 160))
    for texts in ([quote, page, "other words here"], [page, "other words here", quote]):
        found = gpulsh.deduplicate(texts, measure="containment", backend="cpu")
        assert [texts[i] for i in np.flatnonzero(~found.keep)] == [quote]
        assert found.pair_similarity.tolist() == [1.0]
        assert gpulsh.deduplicate(texts, backend="cpu").keep.all()  # their Jaccard similarity is small
    best = gpulsh.deduplicate([page, quote], measure="containment", priority=[0, 1], backend="cpu")
    assert best.keep.all()  # a worse longer copy does not win, and the better short one does not contain it
    given: dict[str, Any] = {"measure": "containment", "priority": [0, 1], "backend": "cpu"}
    best = gpulsh.deduplicate([page, quote], **given, drop_contained_only=False)
    assert best.keep.tolist() == [False, True] and best.similarity.tolist() == [1.0, 1.0]
    with pytest.raises(gpulsh.ParameterError, match="drop_contained_only is False, and measure is 'jaccard'"):
        gpulsh.deduplicate([page, quote], drop_contained_only=False)


@every_backend
def test_tiles_and_joins_of_any_size(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(5)
    texts = []
    for _ in range(60):
        text = [f"w{i}" for i in generator.integers(0, 200, 40)]
        texts += [" ".join(text), " ".join(text[5:25]), " ".join([*text[:20], "more"])]
    wanted = gpulsh.deduplicate(texts, threshold=0.7, shingling=SHINGLING, measure="containment", backend=backend)
    assert (~wanted.keep).sum() >= 100
    monkeypatch.setattr("gpulsh.decide.prefixes.LARGEST_JOIN", 7)
    again = gpulsh.deduplicate(texts, threshold=0.7, shingling=SHINGLING, measure="containment", backend=backend)
    np.testing.assert_array_equal(wanted.duplicate_of, again.duplicate_of)
    np.testing.assert_array_equal(wanted.pairs, again.pairs)
