"""The documents that each kept one represents equal a naive count over the pairs, on real and random text."""

import json
import math
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulsh
from gpulsh import Decision, InputError, InputTypeError, ParameterError, Shingling
from tests.support import naive, naive_counts
from tests.support.texts import licences

EPOCH = datetime(2020, 1, 1, tzinfo=UTC)
NAMES = ["crawl-1", "crawl-2", "é", ""]


def words_of(texts: list[str | None]) -> list[tuple[str, ...]]:
    return [tuple(naive.tokens(text or "", "word")) for text in texts]


@cache
def near_copies() -> tuple[str | None, ...]:
    """Near-copies of a few pages, and texts without a token."""
    random = Random(5)
    pages = [[random.choice("abcdefghij") * random.randrange(1, 4) for _ in range(30)] for _ in range(6)]
    found: list[str | None] = []
    for _ in range(500):
        page = list(random.choice(pages))
        for _ in range(random.randrange(3)):
            page[random.randrange(len(page))] = random.choice("xyz")
        found.append(random.choice([" ".join(page), ", ".join(page).upper(), None, "?!"]))
    return tuple(found)


def sightings(count: int, seed: int = 3) -> dict[str, Any]:
    random = Random(seed)
    days = [EPOCH + timedelta(hours=random.randrange(5000)) for _ in range(count)]
    return {
        "source_column": [random.choice([*NAMES, None]) for _ in range(count)],
        "date_column": [random.choice([day, None]) for day in days],
    }


def check(result: Decision, texts: list[str | None], source_column: Any = None, date_column: Any = None) -> None:
    pairs = [tuple(pair) for pair in result.pairs.tolist()]
    kept = np.flatnonzero(result.keep).tolist()
    wanted = naive_counts.counts(pairs, result.duplicate_of.tolist(), words_of(texts), source_column, date_column, kept)
    found = result.counts()
    assert found.to_pylist() == [{"row": row, **columns} for row, columns in wanted.items()]
    represented = found["copies"].to_numpy() + found["near"].to_numpy() + 1
    assert represented.sum() == len(texts) - result.funnel.few_sources
    assert result.exact_copy.sum() == sum(row["copies"] for row in wanted.values())


@pytest.mark.parametrize("options", [{}, {"resolve": "components"}, {"verify": "none"}, {"measure": "containment"}])
@pytest.mark.parametrize("name", ["licences", "near-copies"])
def test_counts_equal_a_naive_count_over_the_pairs(name: str, options: dict[str, Any]) -> None:
    texts = licences()[::6] if name == "licences" else list(near_copies())
    seen = sightings(len(texts))
    result = gpulsh.deduplicate(texts, threshold=0.6, shingling="word:2", backend="cpu", **options, **seen)
    check(result, texts, **seen)
    counts = result.counts()
    represented = 1 + counts["copies"].to_numpy() + counts["near"].to_numpy()
    assert (represented <= counts["component"].to_numpy()).all() and result.funnel.dropped > 5
    if options.get("resolve") == "components":
        assert (represented == counts["component"].to_numpy()).all()


pages = st.lists(st.sampled_from(["a", "b", "c", "d", "é", "漢字", "हिन्दी"]), min_size=1, max_size=7).map(" ".join)
awkward = st.sampled_from([None, "", "?!", "🙂", "\0", "e\u0301", "\ud800", "A b c", "a, B c!"])


@given(
    texts=st.lists(st.one_of(pages, awkward), max_size=40),
    seed=st.integers(0, 9),
    resolve=st.sampled_from(["kept", "components"]),
    policy=st.sampled_from(
        [{}, {"min_cluster": 3}, {"max_copies": 2}, {"min_cluster": 2, "max_copies": 3}, {"min_sources": 2}]
    ),
    ordered=st.booleans(),
)
def test_counts_and_policies_on_random_text(
    texts: list[str | None], seed: int, resolve: Any, policy: dict[str, Any], ordered: bool
) -> None:
    seen = sightings(len(texts), seed)
    how: dict[str, Any] = {"threshold": 0.5, "shingling": "word:1", "resolve": resolve, "backend": "reference", **seen}
    if ordered:
        how["priority"] = [Random(seed + row).randrange(4) for row in range(len(texts))]
    order = sorted(range(len(texts)), key=lambda row: (-how.get("priority", [0] * len(texts))[row], row))
    plain = gpulsh.deduplicate(texts, **how)
    result = gpulsh.deduplicate(texts, **how, **policy)
    pairs = [tuple(pair) for pair in plain.pairs.tolist()]
    targets, sources = plain.duplicate_of.tolist(), seen["source_column"]
    wanted, left_out = naive_counts.with_policy(pairs, targets, order, **policy, sources=sources)
    assert result.duplicate_of.tolist() == wanted
    assert result.keep.tolist() == [row == target and row not in left_out for row, target in enumerate(wanted)]
    dropped = np.flatnonzero(result.duplicate_of != np.arange(len(texts)))
    assert result.keep[result.duplicate_of[dropped]].all(), "the promise of evidence"
    assert (result.similarity[dropped] == plain.similarity[dropped]).all()
    assert (result.pairs == plain.pairs).all() and (result.cluster == plain.cluster).all()
    check(result, texts, **seen)
    funnel = result.funnel
    words = words_of(texts)
    assert funnel.documents == funnel.dropped + funnel.few_sources + funnel.kept
    assert (funnel.dropped, funnel.few_sources) == (len(dropped), len(left_out))
    assert funnel.copies_of_kept == sum(words[row] == words[wanted[row]] for row in dropped.tolist())
    assert funnel.dropped == funnel.copies_of_kept + funnel.copies_of_dropped + funnel.near_duplicates
    assert funnel.exact_copies == funnel.copies_of_kept + funnel.copies_of_dropped + funnel.copies_left
    assert funnel.exact_copies == plain.funnel.exact_copies


def cluster_sizes_of_fineweb_2(signatures: np.ndarray, bands: int, rows: int) -> list[int]:
    """`minhash_cluster_size` by the rule of the published pipeline, datatrove's MinhashDedupBuckets and -Cluster.

    In each bucket signatures are sorted, a document is linked with the one before it where these are equal, and a
    cluster is a set of the union of all links. No pair is compared.
    """
    links = []
    # A document without a shingle has no signature there.
    filled = [(number, row) for number, row in enumerate(signatures.tolist()) if min(row) < 2**32 - 1]
    for band in range(bands):
        sorted_signatures = sorted((tuple(row[band * rows : (band + 1) * rows]), number) for number, row in filled)
        neighbours = pairwise(sorted_signatures)
        links += [(first, second) for (before, first), (after, second) in neighbours if before == after]
    roots = naive.components(len(signatures), links)
    sizes = Counter(roots)
    return [sizes[root] for root in roots]


def test_component_sizes_equal_those_of_fineweb_2() -> None:
    """Its parameters, 14 buckets of 8 hashes of 5 words, on licences; verified components are no larger."""
    texts = list(licences())
    how: dict[str, Any] = {"num_perm": 112, "bands": 14, "rows": 8, "backend": "cpu", "shingling": "word:5"}
    signatures = gpulsh.MinHash(num_perm=112)(gpulsh.shingle(texts, backend="cpu"), backend="cpu")
    wanted = cluster_sizes_of_fineweb_2(signatures.values, 14, 8)
    table = pa.table({"text": texts})
    published = gpulsh.deduplicate(texts, verify="none", resolve="components", **how)
    assert published.mark(table)["component"].to_pylist() == wanted
    assert published.counts()["component"].to_pylist() == [wanted[row] for row in np.flatnonzero(published.keep)]
    verified = gpulsh.deduplicate(texts, threshold=0.75, **how)
    sizes = np.array(verified.mark(table)["component"].to_pylist())
    assert (sizes <= wanted).all() and (sizes < wanted).any() and sizes.max() > 9


def test_policies_keep_or_drop_by_counts() -> None:
    page = " ".join(f"w{number}" for number in range(30))
    texts = [page, page, f"{page} more", "alone", f"{page} less", page]
    given: dict[str, Any] = {"backend": "reference", "source_column": ["a", "a", "b", "c", "b", "a"]}
    for policy, targets in (
        ({}, [0, 0, 0, 3, 0, 0]),
        ({"max_copies": 3}, [0, 1, 2, 3, 0, 0]),
        ({"min_cluster": 6}, [0, 1, 2, 3, 4, 5]),
        ({"min_cluster": 5}, [0, 0, 0, 3, 0, 0]),  # the size of the component itself
    ):
        assert gpulsh.deduplicate(texts, **given, **policy).duplicate_of.tolist() == targets
    shared = gpulsh.deduplicate(texts, **given, min_sources=2)
    assert shared.keep.tolist() == [True, False, False, False, False, False]
    assert len(shared.duplicates()) == 4 and shared.funnel.few_sources == 1
    assert repr(shared) == "Decision(documents=6, kept=1, dropped=4, pairs=5)"
    marked = gpulsh.deduplicate(texts, **given, min_sources=3).mark(pa.table({"text": texts}))
    assert marked["kept"].to_pylist() == [False] * 6 and marked["duplicate_of_row"].null_count == 6


BEYOND = np.array([0, 1, 2**62], "int64").view("datetime64[s]")
BEYOND_TOO = pa.array([0, 2**31 - 1, 1], pa.int32()).view(pa.date32())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_cluster": 0}, "min_cluster is 0; give an integer from 1"),
        ({"max_copies": 1.5}, "max_copies is 1.5; give an integer"),
        ({"min_sources": 2}, "min_sources is 2, and all documents are of one source; give source_column"),
        ({"min_sources": 2, "max_copies": 2, "source_column": ["a"] * 3}, "min_sources and max_copies are both given"),
        ({"min_sources": 2, "min_cluster": 2, "source_column": ["a"] * 3}, "min_sources and min_cluster are both"),
        ({"source_column": ["a", "b"]}, "source_column has 2 values for 3 documents"),
        ({"source_column": [2**70] * 3}, "source_column is of type list, not a column of one kind of value"),
        ({"source_column": "lang"}, "source_column is 'lang', and texts, a list, has no columns"),
        ({"date_column": 5}, "date_column is of type int; give a column"),
        ({"date_column": ["2024-01-31", date(2024, 1, 31), None]}, "is of type list, not a column of one kind of"),
        ({"date_column": ["2020-01-01", None, "soon"]}, "row 2: column 'date' is 'soon'; date_column takes dates"),
        ({"date_column": [1, 2, 3]}, "row 0: column 'date' is int64; date_column takes dates, or strings of them"),
        ({"date_column": BEYOND}, "row 2: column 'date' has a date that 64 bits"),
        ({"date_column": BEYOND_TOO}, "row 1: column 'date' has a date that 64 bits"),
    ],
)
def test_wrong_policies_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ParameterError, InputTypeError, InputError), match=message):
        gpulsh.deduplicate(["a", "b", "c"], backend="reference", **options)


@pytest.mark.parametrize(
    ("sources", "names"),
    [
        (pa.array([b"a", b"a", b"\xff"], pa.binary(1)), ["a", "\ufffd"]),
        ([date(2024, 2, 29), date(2024, 2, 29), date(2024, 3, 1)], ["2024-02-29", "2024-03-01"]),
        ([1.5, 1.5, 2], ["1.5", "2.0"]),
        ([Decimal("1.50"), Decimal("1.50"), Decimal("2.00")], ["1.50", "2.00"]),
    ],
)
def test_sources_may_be_of_every_type(sources: Any, names: list[str]) -> None:
    found = gpulsh.deduplicate(["a b"] * 3, backend="reference", source_column=sources).counts()
    assert found["source_names"].to_pylist() == [names]


def test_sources_with_offsets_beyond_32_bits_are_named(tmp_path: Path) -> None:
    begin = (1 << 31) + 4
    with open(tmp_path / "sparse", "wb") as out:
        out.seek(begin)
        out.write(b"abcab")
    content = pa.memory_map(str(tmp_path / "sparse")).read_buffer()
    offset = pa.py_buffer(np.array([0, 2, 3, 5], np.int64) + begin)
    sources = pa.Array.from_buffers(pa.large_string(), 3, [None, offset, content])
    found = gpulsh.deduplicate(["one text"] * 3, source_column=sources, backend="reference").counts()
    assert found["source_names"].to_pylist() == [["ab", "c"]]


@pytest.mark.parametrize(
    "dates",
    [
        ["2024-02-29", "2024-02-29T12:00:00+02:00", None],
        [datetime(2024, 2, 29), datetime(2024, 2, 29, 10), None],
        [date(2024, 2, 29), datetime(2024, 2, 29, 10), None],
        [datetime(2024, 2, 29, 10), date(2024, 2, 29), None],
        pa.array([1709164800, 1709200800, None], pa.timestamp("s", "Asia/Tokyo")),
        pa.array(["2024-02-29T00:00Z", "2024-02-29T10:00Z", None]).dictionary_encode(),
        np.array(["2024-02-29T00", "2024-02-29T10", "NaT"], "datetime64[ns]"),
        np.array(["2024-02-29T00", "2024-02-29T10", "NaT"], "datetime64[h]"),
    ],
)
def test_dates_may_be_of_every_type(dates: Any) -> None:
    found = gpulsh.deduplicate(["a b", "a b", "a b"], backend="reference", date_column=dates).counts()
    first, last = datetime(2024, 2, 29, tzinfo=UTC), datetime(2024, 2, 29, 10, tzinfo=UTC)
    assert found.select(["first_seen", "last_seen"]).to_pylist() == [{"first_seen": first, "last_seen": last}]
    assert found.schema == gpulsh.deduplicate([], backend="reference").counts().schema
    months = np.array(["2024-02", "NaT", "2024-04"], "datetime64[M]")
    found = gpulsh.deduplicate(["a b"] * 3, backend="reference", date_column=months).counts()
    assert found["last_seen"].to_pylist() == [datetime(2024, 4, 1, tzinfo=UTC)]


# --- weights


def naive_weight(recipe: Any, size: int) -> float:
    if recipe == "log":
        return 1 + math.log(size)
    if str(recipe).startswith("cap:"):
        return min(size, int(recipe[4:]))
    table = {1: 1, 2: 3, 6: 5, 101: 8, 1001: 10} if recipe == "txt360" else recipe
    expanded = [1]  # each size has its own entry, as in FineWeb-2's example
    for at in range(1, max(map(int, table)) + 1):
        expanded.append({int(size): weight for size, weight in table.items()}.get(at, expanded[-1]))
    return expanded[min(size, len(expanded) - 1)]


NUMPYS = {np.int64(2): np.float32(2.5)}


@pytest.mark.parametrize("recipe", ["txt360", "log", "cap:3", {2: 2.5}, {"1": 1, "3": 4, "2": 0, "1000": 1}, NUMPYS])
def test_weights_follow_their_recipe(recipe: Any, tmp_path: Path) -> None:
    sizes = [1, 2, 3, 4, 5, 6, 99, 100, 101, 1000, 1001, 1002]
    texts = [f"page {size}" for size in sizes for _ in range(size)]
    result = gpulsh.deduplicate(texts, backend="cpu")
    wanted = [naive_weight(recipe, size) for size in sizes]
    assert result.weights(recipe).tolist() == pytest.approx(wanted)
    assert result.weights(recipe).dtype == np.float64
    if isinstance(recipe, dict) and recipe is not NUMPYS:
        (tmp_path / "own.json").write_text(json.dumps(recipe))
        (tmp_path / "all.json").write_text(json.dumps({"ita_Latn": recipe, "fra_Latn": {"1": 7}}))
        assert result.weights(str(tmp_path / "own.json")).tolist() == wanted
        assert result.weights(f"{tmp_path}/all.json:ita_Latn").tolist() == wanted


def test_weights_may_count_the_component() -> None:
    chain = [" ".join(f"w{number}" for number in range(start, start + 30)) for start in range(0, 12, 4)]
    result = gpulsh.deduplicate(chain, shingling=Shingling(size=1), threshold=0.7, backend="reference")
    assert result.counts()["component"].to_pylist() == [3, 3] and result.keep.tolist() == [True, False, True]
    assert result.weights("cap:9").tolist() == [2, 1]
    assert result.weights("cap:9", weight_by="component").tolist() == [3, 3]


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("txt", "weights is 'txt'; give txt360, log, cap:N or a file FILE.json"),
        ("cap:0", "give cap:N with N of 1 or more"),
        ("cap:x", "give cap:N with N of 1 or more"),
        (5, "weights is 5; give txt360"),
        ({}, "weights: has no weights; give least sizes and weights"),
        ({0: 1}, "weights: 0 is not a least size"),
        ({"1": True}, "weights: the weight of size 1 is True; give a number of 0 or more"),
        ({1: math.inf}, "the weight of size 1 is inf"),
        ({1: -1}, "the weight of size 1 is -1"),
        ({1: 10**400}, "the weight of size 1 is an integer of 1329 bits; give a number of 0 or more"),
        ({10**400: 1}, "an integer of 1329 bits is not a least size; give an integer of 1 or more"),
        ("cap:" + "9" * 30, "give cap:N with N of 1 or more"),
        ("cap:" + "9" * 5000, "weights is of type str; give cap:N with N of 1 or more"),
        ("missing.json", "missing.json: cannot be read"),
        ("bad.json", "bad.json: cannot be read as JSON"),
        ("deep.json", "deep.json: cannot be read as JSON: (maximum recursion depth|Stack overflow)"),
        ("list.json", "list.json: is not an object"),
        ("all.json", "all.json: has weights by language, as ita_Latn; give all.json:LANGUAGE"),
        ("all.json:fra", "all.json: has weights by language"),
        ("twice.json", "^twice.json: cannot be read as JSON: it has the key '2' twice; give an object"),
        ("langs.json:ita", "^langs.json: cannot be read as JSON: it has the key 'ita' twice"),
        ("own.json:fra", "own.json: has no languages; leave 'fra' out"),
    ],
)
def test_wrong_weight_recipes_are_refused(recipe: Any, message: str, folder: Path) -> None:
    twice, langs = '{"1": 1, "2": 3, "3": 4, "2": 5}', '{"ita": {"1": 1}, "ita": {"1": 2}}'
    files = {"bad": "{", "deep": "[" * 10**5, "list": "[1]", "all": '{"ita_Latn": {"1": 1}}', "own": '{"1": 1}'}
    for name, content in {**files, "twice": twice, "langs": langs}.items():
        Path(f"{name}.json").write_text(content)
    with pytest.raises((ParameterError, InputError), match=message):
        gpulsh.deduplicate(["a"], backend="reference").weights(recipe)
