"""`key=`: of documents with equal keys the first stays, before texts are compared; against a dictionary of keys."""

import dataclasses
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulsh
from gpulsh.budget import Cut
from gpulsh.io.arrow.identities import normalized_urls, of_python
from tests.decide.test_decision import corpus
from tests.run.test_partitioned import (
    BANDING,
    MEMORY,
    SHINGLING,
    SMALL_BUCKET,
    URLS,
    Given,
    assert_rows,
    cut_as,
    cuts,
    givens,
    in_memory,
    keeps,
    resolves,
    run,
    thresholds,
)
from tests.support import naive

Key = str | int | bytes | None
every_backend = pytest.mark.parametrize("backend", ["reference", "cpu"])


def copies_by_key(
    keys: Sequence[Key], priority: Sequence[float], protected: int = 0, sources: Sequence[int] | None = None
) -> dict[int, int]:
    """Each document that an earlier one in decision order shares its key with, and the first of those."""
    first: dict[Any, int] = {}
    guarded: dict[str, int] = {}  # by key, for documents of any source
    found = {}
    for i in sorted(range(len(keys)), key=lambda i: (i >= protected, -priority[i], i)):
        if keys[i] not in (None, "", b""):
            key = str(keys[i])
            if i < protected:
                guarded.setdefault(key, i)
            elif key in guarded:
                found[i] = guarded[key]
            elif (of := first.setdefault((key, sources and sources[i]), i)) != i:
                found[i] = of
    return found


def by_definition(
    documents: naive.Documents,
    keys: Sequence[Key],
    priority: Sequence[float],
    threshold: float,
    *,
    only: bool = False,
    sources: Sequence[int] | None = None,
    protected: int = 0,
    **how: Any,
) -> tuple[list[int], list[float], list[int], naive.Decision]:
    """The first of each key are decided alone, and each other one goes with its first."""
    copies = copies_by_key(keys, priority, protected, sources)
    sequences = [() if i in copies or only else words for i, words in enumerate(documents.sequences)]
    left = dataclasses.replace(documents, sequences=sequences)
    decision = naive.greedy(left, threshold, priority, sources=sources, protected=protected, **how)
    target = [decision.duplicate_of[copies.get(i, i)] for i in range(len(keys))]
    similarity = [math.nan if i in copies else decision.similarity[i] for i in range(len(keys))]
    edges = [*decision.pairs, *((min(pair), max(pair)) for pair in copies.items())]
    return target, similarity, naive.components(len(keys), edges), decision


some_keys = st.sampled_from([None, "", *URLS, "a", "b"])


@every_backend
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0, 1, 12, 40]), thresholds, resolves, st.booleans(), st.data())
def test_memory_decides_as_the_definition(
    backend: Any, seed: int, size: int, threshold: float, resolve: Any, only: bool, data: st.DataObject
) -> None:
    documents = Given(corpus(seed, size, 2, 8, 0.05) if size else [], [0] * size, "int", seed)
    keys = data.draw(st.lists(some_keys, min_size=size, max_size=size))
    priority = data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    with cut_as(Cut(memory=MEMORY, partition=1, digests=1, group=1)):
        found = gpulsh.deduplicate(
            documents.texts,
            key=keys,
            key_only=only,
            priority=np.array(priority, np.int64),
            backend=backend,
            **{"threshold": threshold, "resolve": resolve, "shingling": SHINGLING, "threads": 1, **BANDING},
        )
    target, similarity, cluster, decision = by_definition(
        documents.documents, keys, priority, threshold, only=only, resolve=resolve, small_bucket=SMALL_BUCKET
    )
    assert found.duplicate_of.tolist() == target
    np.testing.assert_array_equal(found.similarity, np.array(similarity, np.float32))
    assert found.cluster.tolist() == cluster
    assert [tuple(pair) for pair in found.pairs.tolist()] == sorted(decision.pairs)
    assert found.keep.tolist() == [i == of for i, of in enumerate(target)]
    funnel = found.funnel
    assert funnel.key_copies == len(copies_by_key(keys, priority))
    assert funnel.dropped == int((~found.keep).sum()) == funnel.documents - funnel.kept
    assert funnel.dropped == (
        funnel.key_copies + funnel.copies_of_kept + funnel.copies_of_dropped + funnel.near_duplicates
    )
    for column in (found.keep[found.duplicate_of], found.keep == (found.duplicate_of == np.arange(size))):
        assert column.all()


@settings(max_examples=7)
@given(
    st.one_of(givens(("int",)), givens(("int", "date"), protecting=True)),
    cuts,
    thresholds,
    resolves,
    st.integers(0, 4),
    st.booleans(),
    st.booleans(),
)
def test_any_cut_decides_as_the_definition(
    documents: Given, cut: Cut, threshold: float, resolve: Any, policy: int, within: bool, only: bool
) -> None:
    keep = keeps(documents)[policy]
    options: dict[str, Any] = {"threshold": threshold, "resolve": resolve}
    asked = {"keep": keep, "id_column": "id", "key": "url", "key_only": only, "within": within}
    with tempfile.TemporaryDirectory() as folder:
        _, rows = run(documents, Path(folder), cut, **asked, **options)
    priority = list(map(float, documents.priority(keep)))
    shape = {"protected": documents.guarded, "sources": documents.sources if within else None}
    wanted = by_definition(
        documents.documents, documents.urls, priority, threshold, only=only, resolve=resolve, small_bucket=4, **shape
    )
    assert_rows(rows, wanted[:3])
    copies, words = copies_by_key(documents.urls, priority, **shape), documents.documents.sequences
    assert [row["reason"] for row in rows] == [
        "key" if row["id"] in copies else "exact" if words[row["id"]] == words[row["duplicate_of_id"]] else "near"
        for row in rows
    ]
    if not within and not documents.protected:
        known = {"key": documents.urls, "key_only": only, "shingling": SHINGLING}
        assert_rows(rows, in_memory(documents, keep, **known, **options, **BANDING)[0])


@settings(max_examples=5)
@given(givens(("int",)), cuts, st.sampled_from([0.3, 0.8]), st.integers(0, 2))
def test_containment_and_keys(documents: Given, cut: Cut, threshold: float, policy: int) -> None:
    keep = keeps(documents)[policy]
    options = {"threshold": threshold, "measure": "containment"}
    with tempfile.TemporaryDirectory() as folder:
        _, rows = run(documents, Path(folder), cut, keep=keep, id_column="id", key="url", **options)
    assert_rows(rows, in_memory(documents, keep, key=documents.urls, shingling=SHINGLING, **options)[0])
    # The same documents with those left out that a key drops: each of the others is decided alike.
    copies = copies_by_key(documents.urls, list(map(float, documents.priority(keep))))
    alone = Given([None if i in copies else text for i, text in enumerate(documents.texts)], [], "int", 0)
    alone.keys = documents.keys
    alone.sources = documents.sources
    target = in_memory(alone, "first" if keep == "first" else "key", shingling=SHINGLING, **options)[0][0]
    if keep != "longest":
        found = {row["id"]: row["duplicate_of_id"] for row in rows if row["reason"] != "key"}
        assert found == {i: of for i, of in enumerate(target) if i != of}


def test_urls_in_their_canonical_form() -> None:
    urls = [
        *["http://Example.com/a?x=1&y=2", "HTTP://example.com/b/../a?y=2&x=1#top", "http://[::1", "http://a:99999/"],
        *["http://example.com/a?x=2", None, "", "日本 😀", "日本%20😀"],
    ]
    found = gpulsh.deduplicate([f"text {i}" for i in range(9)], key=urls, normalize_url=True, backend="reference")
    assert found.duplicate_of.tolist() == [0, 0, 2, 3, 4, 5, 6, 7, 7]
    assert normalized_urls(of_python(["http://a:99999/"])).to_pylist() == [b"http://a:99999/"]


def test_counts_and_policies_of_counts() -> None:
    texts = ["one two three", "One two three!", "four five", "six seven"]
    for only, copies in ((False, 2), (True, 1)):
        found = gpulsh.deduplicate(texts, key=["u", None, None, "u"], key_only=only, backend="reference")
        counted = found.counts().to_pydict()
        assert [1 + sum(row) for row in zip(counted["copies"], counted["near"], strict=True)] == counted["component"]
        assert sum(counted["component"]) == 4 and counted["copies"][0] == copies and sum(counted["near"]) == 0
    for policy in ("min_cluster", "max_copies"):
        with pytest.raises(gpulsh.ParameterError, match=f"key and {policy} cannot be combined"):
            gpulsh.deduplicate(texts, key=["u"] * 4, backend="reference", **{policy: 2})


def test_a_key_by_name() -> None:
    table = pa.table({"text": ["one", "two", "three"], "url": ["a", "b", "a"]})
    found = gpulsh.deduplicate(table, text_column="text", key="url", backend="reference")
    assert found.keep.tolist() == [True, True, False]


def test_large_groups_and_chains() -> None:
    """A hundred documents of one key, of which the first is a near-copy of another document."""
    source = Random(1)
    words = [f"w{number}" for number in range(60)]
    texts = [" ".join(words), " ".join([*words, "more"]), *(" ".join(source.sample(words, 30)) for _ in range(99))]
    keys = ["x", *["y"] * 100]
    found = gpulsh.deduplicate(texts, key=keys, backend="cpu")
    assert found.duplicate_of.tolist() == [0] * 101 and found.cluster.tolist() == [0] * 101
    assert np.isnan(found.similarity[2:]).all() and found.similarity[1] > 0.9
    assert found.funnel.key_copies == 99 and found.funnel.near_duplicates == 1
