"""The drop-in MinHashLSH: bands, tables, pickles and errors of datasketch's."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpulsh.compat import datasketch
from gpulsh.compat.datasketch import (
    MinHash,
    MinHashLSH,
    MinHashLSHBloom,
    MinHashLSHEnsemble,
    MinHashLSHForest,
    WeightedMinHashGenerator,
    pickles,
)
from gpulsh.compat.datasketch.lsh import optimal_bands
from gpulsh.compat.datasketch.lsh_bloom import BloomTable, band_hashes
from gpulsh.compat.datasketch.lshensemble import optimal_partitions
from gpulsh.errors import InputError, ParameterError
from tests.compat.test_schemes import golden

KNOWN = golden("datasketch")["index"]


def signature(*tokens: str, **options: Any) -> MinHash:
    made = MinHash(16, **options)
    made.update_batch([token.encode() for token in tokens])
    return made


def index_of(sets: dict[Any, MinHash], **options: Any) -> MinHashLSH:
    made = MinHashLSH(**{"threshold": 0.5, "num_perm": 16, **options})
    for key, one in sets.items():
        made.insert(key, one)
    return made


SETS = {"a": signature("x", "y", "z"), "b": signature("x", "y", "z", "w"), "c": signature("q")}


def test_bands_are_those_of_datasketch() -> None:
    for threshold, num_perm, weight, *wanted in KNOWN["bands"]:
        assert [*optimal_bands(threshold, num_perm, weight, 1 - weight)] == wanted, (threshold, num_perm, weight)


@pytest.mark.parametrize("prepickle", [None, True])
def test_what_is_inserted_is_found_until_it_is_removed(prepickle: bool | None) -> None:
    index = index_of(SETS, prepickle=prepickle)
    assert set(index.query(SETS["a"])) == {"a", "b"} and index.query(SETS["c"]) == ["c"]
    assert "a" in index and "d" not in index and not index.is_empty()
    index.add_to_query_buffer(SETS["a"])
    index.add_to_query_buffer(SETS["b"])
    assert set(index.collect_query_buffer()) == {"a", "b"} and index.collect_query_buffer() == []
    assert [sum(counts.values()) for counts in index.get_counts()] == [3] * index.b
    assert [sum(counts.values()) for counts in index.get_subset_counts("a", "c")] == [2] * index.b
    copy = pickle.loads(pickle.dumps(index))
    with index.deletion_session() as session:
        session.remove("a")
        session.remove("b")
    assert index.query(SETS["a"]) == [] and all(len(table) == 1 for table in index.hashtables)
    index.merge(copy)
    assert set(index.query(SETS["a"])) == {"a", "b"} and set(copy.query(SETS["b"])) == {"a", "b"}


def test_tables_are_those_of_datasketch() -> None:
    index = index_of(SETS)
    assert [sorted(band.hex() for band in table) for table in index.hashtables] == KNOWN["tables"]
    assert [len(band) for band in index_of(SETS, hashfunc=lambda band: band[:2]).keys["a"]] == [2] * index.b
    weighted = WeightedMinHashGenerator(3, 16)
    with MinHashLSH(num_perm=16, params=(4, 4)).insertion_session() as session:
        session.insert("w", weighted.minhash([1, 2, 3]))
        assert session.lsh.query(weighted.minhash([1, 2, 3])) == ["w"]
        assert session.lsh._minhash_scheme is None


@pytest.mark.parametrize("key", ["2.0", "1.x"])
def test_pickles_of_datasketch_are_read(key: str) -> None:
    index, one = pickles.loads(bytes.fromhex(KNOWN["pickles"][key]))
    scheme = "affine32" if key == "2.0" else "legacy"
    assert type(index) is MinHashLSH and type(one) is MinHash and one.scheme == index._minhash_scheme == scheme
    assert index.query(one) == ["a"] and one == signature("x", "y", "z", scheme=scheme)
    index.insert("b", signature("x", "y", "z", scheme=scheme))
    other = signature("x", scheme="legacy" if key == "2.0" else "affine32")
    for wrong in (index.query, index.add_to_query_buffer, lambda one: index.insert("c", one)):
        with pytest.raises(ValueError, match=f"of scheme '{other.scheme}' and the index of '{scheme}'"):
            wrong(other)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: MinHashLSH(threshold=2), "threshold is 2"),
        (lambda: MinHashLSH(num_perm=1), "num_perm is 1"),
        (lambda: MinHashLSH(weights=(0.5, 0.6)), "whose sum is 1"),
        (lambda: MinHashLSH(num_perm=16, params=(5, 4)), "bands \\* rows of at most num_perm"),
        (lambda: MinHashLSH(num_perm=16, params=(1, 4)), "1 band of 4"),
        (lambda: MinHashLSH(storage_config={"type": "redis"}), "'redis', and gpulsh keeps tables in memory"),
        (lambda: index_of(SETS).insert("a", SETS["a"]), "the key is in the index"),
        (lambda: index_of(SETS).remove("d"), "the key is not in the index"),
        (lambda: index_of(SETS).query(MinHash(17)), "17 values; this index takes 16"),
        (lambda: index_of(SETS).merge(index_of(SETS), check_overlap=True), "some keys are in both"),
        (lambda: index_of(SETS).merge(index_of({}, num_perm=17)), "other bands"),
        (lambda: index_of(SETS).merge(index_of({1: signature("x", scheme="legacy")})), "'affine32' and 'legacy'"),
    ],
)
def test_errors_are_value_errors(make: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()


def test_an_index_of_many_finds_what_datasketch_finds() -> None:
    generator = np.random.default_rng(1)
    sets = [[b"%d" % token for token in generator.integers(0, 30, 12)] for _ in range(200)]
    made = datasketch.MinHash.bulk(sets, num_perm=64)
    index = MinHashLSH(threshold=0.4, num_perm=64)
    for place, one in enumerate(made):
        index.insert(place, one)
    rows = np.array([one.hashvalues[: index.b * index.r] for one in made]).reshape(200, index.b, index.r)
    same = (rows[:, None] == rows[None]).all(axis=3).any(axis=2)
    assert [sorted(index.query(one)) for one in made] == [np.flatnonzero(row).tolist() for row in same]  # type: ignore[type-var]


def test_forest_finds_what_datasketch_finds() -> None:
    forest, sets = MinHashLSHForest(num_perm=16, l=4), {}
    for place in range(30):
        sets[place] = signature(*(f"{token}" for token in range(place, place + 8)))
        forest.add(place, sets[place])
    assert forest.is_empty() and 3 in forest and 30 not in forest
    forest.index()
    assert [sorted(forest.query(sets[place], 4)) for place in range(30)] == KNOWN["forest"]  # type: ignore[type-var]
    assert forest.get_minhash_hashvalues(3).tolist() == sets[3].hashvalues.tolist()
    assert forest.get_minhash_hashvalues(3).dtype == np.uint32
    again = pickle.loads(pickle.dumps(forest))
    assert sorted(again.query(sets[5], 4)) == KNOWN["forest"][5]
    wrong: list[tuple[Any, str]] = [
        (lambda: MinHashLSHForest(4, l=5), "l is 5 and num_perm 4"),
        (lambda: forest.add(3, sets[3]), "the key is in the forest"),
        (lambda: forest.add(31, MinHash(15)), "15 values; this forest takes 16"),
        (lambda: forest.query(sets[3], 0), "k is 0"),
        (lambda: forest.query(signature("a", scheme="legacy"), 1), "of scheme 'legacy' and the index of 'affine32'"),
    ]
    for make, said in wrong:
        with pytest.raises(ValueError, match=said):
            make()
    with pytest.raises(KeyError, match="31 is not in the forest"):
        forest.get_minhash_hashvalues(31)


def test_ensemble_finds_what_datasketch_finds() -> None:
    ensemble = MinHashLSHEnsemble(threshold=0.6, num_perm=16, num_part=3, m=4)
    more = [
        MinHashLSHEnsemble(threshold=threshold, num_perm=32, m=8, weights=(weight, 1 - weight))
        for threshold in (0.1, 0.9)
        for weight in (0.5, 0.25)
    ]
    assert [one.params.tolist() for one in [ensemble, *more]] == KNOWN["ensemble bands"]
    sizes, counts = np.array([1, 2, 3, 5, 8, 20, 21, 22, 40, 90]), np.array([9, 1, 4, 2, 2, 7, 1, 1, 3, 5])
    found = [[list(one) for one in optimal_partitions(sizes, counts, parts)] for parts in (1, 2, 3, 4, 6, 10, 16)]
    assert found == KNOWN["partitions"]
    sets = [signature(*(f"{token}" for token in range(place, place + 8))) for place in range(30)]
    ensemble.index((place, one, 3 + place % 7) for place, one in enumerate(sets))
    assert [sorted(ensemble.query(one, 4)) for one in sets] == KNOWN["ensemble"]  # type: ignore[type-var]
    assert sorted(pickle.loads(pickle.dumps(ensemble)).query(sets[3], 4)) == KNOWN["ensemble"][3]
    assert 3 in ensemble and 30 not in ensemble
    wrong: list[tuple[Any, str]] = [
        (lambda: ensemble.index([(1, sets[1], 2)]), "takes all at once"),
        (lambda: more[0].index([]), "entries is empty"),
        (lambda: more[0].index([(1, sets[1], 0)]), "a size below 1"),
        (lambda: MinHashLSHEnsemble(m=1), "m is 1"),
        (lambda: MinHashLSHEnsemble(num_part=0), "num_part is 0"),
        (lambda: list(ensemble.query(signature("a", scheme="legacy"), 4)), "of scheme 'legacy'"),
    ]
    for make, said in wrong:
        with pytest.raises(ValueError, match=said):
            make()


@pytest.mark.parametrize("scheme", ["affine32", "affine64", "legacy"])
def test_a_bloom_filter_knows_what_it_has_seen_and_after_it_was_opened_again(scheme: Any, tmp_path: Path) -> None:
    options: dict[str, Any] = {"threshold": 0.5, "num_perm": 16, "n": 50, "fp": 0.01}
    sets = [signature(f"{number}", f"{number + 1}", scheme=scheme) for number in range(0, 200, 2)]
    index, exact = MinHashLSHBloom(**options, save_dir=str(tmp_path / "new")), MinHashLSH(0.5, 16)
    assert (index.b, index.r) == (exact.b, exact.r)
    for number, one in enumerate(sets[:50]):
        index.insert(one)
        exact.insert(number, one)
    index.sync()
    again = MinHashLSHBloom(**options, save_dir=str(tmp_path / "new"))
    for one in (index, again):
        assert all(map(one.query, sets[:50]))
        assert sum(one.query(other) and not exact.query(other) for other in sets[50:]) <= 10
    with pytest.raises(ParameterError, match="bands of 3 values, not 4"):
        MinHashLSHBloom(**options, params=(4, 4), save_dir=str(tmp_path / "new"))
    with pytest.raises(ParameterError, match="scheme"):
        index.insert(signature("a", scheme="legacy" if scheme != "legacy" else "affine32"))
    with pytest.raises(ParameterError, match="128 values; this index takes 16"):
        index.query(MinHash())


def test_bloom_filters_that_share_no_band_and_odd_files(tmp_path: Path) -> None:
    chance = np.random.default_rng(6)
    values = chance.integers(0, 2**32, (4000, 3), np.uint32)
    bands, table = band_hashes(values), BloomTable(2000, 0.05, 3)
    for band in bands[:2000]:
        table.insert(*band)
    assert all(table.query(*band) for band in bands[:2000])
    assert 40 < sum(table.query(*band) for band in bands[2000:]) < 180
    assert not table.query(*band_hashes(values[:1, ::-1])[0])
    with pytest.warns(RuntimeWarning, match="in memory only"):
        index = MinHashLSHBloom(0.5, 16, n=9, fp=0.01)
    with pytest.warns(RuntimeWarning, match="nothing is saved"):
        index.sync()
    for wrong in ({"n": None}, {"n": 0}, {"fp": None}, {"fp": 1.0}, {"threshold": 2}, {"weights": (1, 1)}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            MinHashLSHBloom(**{"n": 9, "fp": 0.01, **wrong})
    (tmp_path / "band-0.bf").write_bytes(b"of another library" * 9)
    with pytest.raises(InputError, match="is not a Bloom filter of gpulsh"):
        MinHashLSHBloom(0.5, 16, n=9, fp=0.01, save_dir=str(tmp_path))
    (tmp_path / "band-0.bf").unlink()
    MinHashLSHBloom(0.5, 16, n=9, fp=0.01, save_dir=str(tmp_path))
    with open(tmp_path / "band-0.bf", "ab") as file:
        file.write(b"more")
    with pytest.raises(InputError, match="is damaged"):
        MinHashLSHBloom(0.5, 16, n=9, fp=0.01, save_dir=str(tmp_path))
