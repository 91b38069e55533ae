"""The drop-in for datasketch: values, bytes, tables and pickles of 2.0 (`tests.golden.compat.write`), and errors."""

import pickle
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from gpulsh.compat import datasketch
from gpulsh.compat.datasketch import (
    LeanMinHash,
    MinHash,
    MinHashLSH,
    MinHashLSHBloom,
    MinHashLSHEnsemble,
    MinHashLSHForest,
    WeightedMinHashGenerator,
    bBitMinHash,
    minhash,
    pickles,
)
from gpulsh.compat.datasketch.hashfunc import sha1_hash32
from gpulsh.compat.datasketch.lsh import optimal_bands
from gpulsh.compat.datasketch.lsh_bloom import BloomTable, band_hashes
from gpulsh.compat.datasketch.lshensemble import optimal_partitions
from gpulsh.compat.schemes import sketches
from gpulsh.errors import InputError, InputTypeError, ParameterError
from tests.compat.test_schemes import golden

KNOWN = golden("datasketch")
INDEX = KNOWN["index"]
every_scheme = pytest.mark.parametrize("scheme", ["affine32", "affine64", "legacy"])


def identity(token: int) -> int:
    return token


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


# --- signatures


@every_scheme
def test_updates_bulk_and_unions_equal_datasketch(scheme: Any) -> None:
    wanted = KNOWN["signatures"][f"{scheme} 9 1"]
    rows = [[word.encode() for word in row] for row in KNOWN["rows"]]
    made = MinHash.bulk(rows, num_perm=9, scheme=scheme)
    assert [one.hashvalues.tolist() for one in made] == wanted
    assert made[0].is_empty() and not made[1].is_empty()
    many = [b"%d" % token for token in range(700)]  # which go to a backend
    for row, values in zip([*rows, many], [*made, *MinHash.bulk([many], num_perm=9, scheme=scheme)], strict=True):
        batched, single = MinHash(9, scheme=scheme), MinHash(num_perm=9, seed=1, scheme=scheme)
        batched.update_batch(row)
        for token in row:
            single.update(token)
        united = MinHash.union(*MinHash.bulk([row[::2], row[1::2]], num_perm=9, scheme=scheme))
        assert batched == single == united == values
        assert values.hashvalues.dtype == single.hashvalues.dtype == (np.uint32 if scheme == "affine32" else np.uint64)
    assert 550 < MinHash.bulk([many], num_perm=256, scheme=scheme)[0].count() < 850


@pytest.mark.parametrize("mode", ["cpu", "reference"])
def test_bulk_takes_the_bytes_that_update_takes(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(minhash.BACKENDS, "disable", mode)
    monkeypatch.setattr(sketches, "SETS_AT_ONCE", 3)
    few: Any = [[b"", b"a" * 63, b"b" * 64, b"c" * 2000], (), {b"d"}, (bytearray(b"e"), memoryview(b"f")), iter([b"g"])]
    sets = [[np.bytes_(b"h"), b"%d" % number, b"\0" * number] for number in range(130)]
    made = MinHash.bulk([*few, *sets], num_perm=4)
    few[-1] = [b"g"]
    for tokens, values in zip([*few, *sets], made, strict=True):
        one = MinHash(4)
        for token in tokens:
            one.update(token)
        assert one == values


@pytest.mark.parametrize("token", ["text", 7, None, [b"a"], object()])
def test_bulk_refuses_tokens_that_are_not_bytes(token: object) -> None:
    with pytest.raises(InputTypeError, match=f"tokens hold a {type(token).__name__}; give bytes"):
        MinHash.bulk([[b"a"], [bytearray(b"b"), token]], num_perm=4)


def test_permutations_and_hash_values_can_be_given() -> None:
    one = MinHash(4, seed=3, scheme="legacy", permutations=([3, 5, 7, 9], [1, 2, 3, 4]), hashfunc=identity)
    one.update(10)
    assert one.hashvalues.tolist() == [31, 52, 73, 94]
    (bulk,) = MinHash.bulk([[10]], num_perm=4, scheme="legacy", permutations=one.permutations, hashfunc=identity)
    assert bulk.jaccard(MinHash(seed=1, hashvalues=[31, 52, 73, 0], scheme="legacy")) == 0.75
    copied = one.copy()
    copied.update(1)
    assert one.hashvalues.tolist() == [31, 52, 73, 94] != copied.hashvalues.tolist()
    copied.clear()
    assert copied.is_empty() and len(copied) == 4


@pytest.mark.parametrize("key", list(KNOWN["bytes"]))
def test_serialized_bytes_equal_datasketch(key: str) -> None:
    scheme: Any = key
    full = MinHash(5, seed=7, scheme=scheme)
    full.update_batch([b"a", b"b"])
    lean = LeanMinHash(full)
    for order in "@<>":
        stored = bytearray(lean.bytesize(order))
        lean.serialize(stored, order)
        assert stored.hex() == KNOWN["bytes"][key][f"lean {order}"]
        assert LeanMinHash.deserialize(stored, order) == lean
    assert pickle.loads(pickle.dumps(lean)) == lean and hash(lean.copy()) == hash(lean)
    assert pickle.loads(pickle.dumps(full)) == full
    with pytest.raises(TypeError, match="takes no tokens"):
        lean.update(b"c")
    for bits in (1, 3, 9, 32):
        packed = bBitMinHash(full, bits)
        assert packed.__getstate__().hex() == KNOWN["bytes"][key][f"{bits} bits"]
        assert pickle.loads(pickle.dumps(packed)) == packed and len(packed.__getstate__()) == packed.bytesize()
        other = MinHash(5, seed=7, scheme=scheme)
        other.update(b"b")
        rates = bBitMinHash(full, bits, 0.3).jaccard(bBitMinHash(other, bits, 0.1))
        estimates = [packed.jaccard(bBitMinHash(other, bits)), rates]
        assert estimates == KNOWN["bytes"][key][f"{bits} bits estimates"]


def test_copies_of_a_subclass_have_its_attributes() -> None:
    class Named(MinHash):
        def __init__(self, *given: Any, name: str = "none", **options: Any) -> None:
            super().__init__(*given, **options)
            self.name = name

    (one,) = Named.bulk([[b"x"]], num_perm=16, name="one")
    for made in (one, one.copy(), Named.union(one, one)):
        assert type(made) is Named and made.name == "one" and made == one


def test_the_union_of_a_lean_class_is_lean() -> None:
    united = LeanMinHash.union(SETS["a"], LeanMinHash(SETS["b"]))  # type: ignore[arg-type]
    assert type(united) is LeanMinHash and hash(united) == hash(LeanMinHash(MinHash.union(SETS["a"], SETS["b"])))


def test_pickles_of_datasketch_1_have_the_legacy_scheme() -> None:
    old = {"seed": 1, "num_perm": 2, "hashfunc": sha1_hash32, "hashvalues": np.array([5, 6], np.uint64)}
    made = MinHash.__new__(MinHash)
    made.__setstate__({**old, "permutations": MinHash(2, scheme="legacy").permutations, "_use_gpu": False})
    assert made.scheme == "legacy" and made.jaccard(MinHash(hashvalues=[5, 7], scheme="legacy")) == 0.5
    made.update(b"a")


def test_weighted_minhash_equals_datasketch() -> None:
    generator = WeightedMinHashGenerator(5, 12, seed=3)
    made = [generator.minhash(row) for row in KNOWN["vectors"]]
    assert [one.hashvalues.tolist() for one in made] == KNOWN["weighted"]
    many = generator.minhash_many(np.array([*KNOWN["vectors"], [0] * 5]))
    assert [None if one is None else one.hashvalues.tolist() for one in many] == [*KNOWN["weighted many"], None]
    assert made[0].jaccard(made[0].copy()) == 1 and made[1] != made[0] == pickle.loads(pickle.dumps(made[0]))


# --- indexes


def test_optimal_bands_equal_datasketch() -> None:
    for threshold, num_perm, weight, *wanted in INDEX["bands"]:
        assert [*optimal_bands(threshold, num_perm, weight, 1 - weight)] == wanted, (threshold, num_perm, weight)
    assert optimal_bands(0.5, 128, 0.0, 1.0) == (54, 1)  # it was (128, 1): more bands only lower what rounds to 0


@pytest.mark.parametrize("prepickle", [None, True])
def test_inserted_keys_are_found_until_removed(prepickle: bool | None) -> None:
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
    bands = next(iter(index.keys.values()))  # of "a"
    for sketch in (SETS["c"], SETS["a"]):  # one more, and an equal one
        index.insert("a", sketch, check_duplication=False)
    assert bands is next(iter(index.keys.values()))  # a copy for each insertion would take quadratic time
    assert [sum(counts.values()) for counts in index.get_subset_counts("a")] == [2] * index.b
    index.remove("a")
    assert set(index.query(SETS["a"])) == {"b"} and index.query(SETS["c"]) == ["c"] and "a" not in index


def test_hash_tables_equal_datasketch() -> None:
    index = index_of(SETS)
    assert [sorted(band.hex() for band in table) for table in index.hashtables] == INDEX["tables"]
    assert [len(band) for band in index_of(SETS, hashfunc=lambda band: band[:2]).keys["a"]] == [2] * index.b
    weighted = WeightedMinHashGenerator(3, 16)
    with MinHashLSH(num_perm=16, params=(4, 4)).insertion_session() as session:
        session.insert("w", weighted.minhash([1, 2, 3]))
        assert session.lsh.query(weighted.minhash([1, 2, 3])) == ["w"]
        assert session.lsh._minhash_scheme is None


@pytest.mark.parametrize("key", ["2.0", "1.x"])
def test_pickles_of_datasketch_are_read(key: str) -> None:
    index, one = pickles.loads(bytes.fromhex(INDEX["pickles"][key]))
    scheme = "affine32" if key == "2.0" else "legacy"
    assert type(index) is MinHashLSH and type(one) is MinHash and one.scheme == index._minhash_scheme == scheme
    assert index.query(one) == ["a"] and one == signature("x", "y", "z", scheme=scheme)
    index.insert("b", signature("x", "y", "z", scheme=scheme))
    other = signature("x", scheme="legacy" if key == "2.0" else "affine32")
    for wrong in (index.query, index.add_to_query_buffer, lambda one: index.insert("c", one)):
        with pytest.raises(ValueError, match=f"has scheme '{other.scheme}' and the index has '{scheme}'"):
            wrong(other)


def test_a_pickle_takes_the_classes_that_only_datasketch_has_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, part = ModuleType("datasketch"), ModuleType("datasketch.hyperloglog")
    monkeypatch.setattr(part, "HyperLogLog", object, raising=False)
    monkeypatch.setitem(sys.modules, "datasketch", whole)
    monkeypatch.setitem(sys.modules, "datasketch.hyperloglog", part)
    pickled = b"(cdatasketch.minhash\nMinHash\ncdatasketch.hyperloglog\nHyperLogLog\nt."
    assert pickles.loads(pickled) == (MinHash, object)
    monkeypatch.setitem(sys.modules, "datasketch.hyperloglog", None)
    with pytest.raises(ImportError, match=r"(?<!compat\.)datasketch\.hyperloglog"):
        pickles.loads(pickled)


def test_queries_find_all_rows_that_share_a_band() -> None:
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
    assert [sorted(forest.query(sets[place], 4)) for place in range(30)] == INDEX["forest"]  # type: ignore[type-var]
    assert forest.get_minhash_hashvalues(3).tolist() == sets[3].hashvalues.tolist()
    assert forest.get_minhash_hashvalues(3).dtype == np.uint32
    again = pickle.loads(pickle.dumps(forest))
    assert sorted(again.query(sets[5], 4)) == INDEX["forest"][5]
    with pytest.raises(KeyError, match="31 is not in the forest"):
        forest.get_minhash_hashvalues(31)


def test_ensemble_finds_what_datasketch_finds() -> None:
    ensemble = MinHashLSHEnsemble(threshold=0.6, num_perm=16, num_part=3, m=4)
    more = [
        MinHashLSHEnsemble(threshold=threshold, num_perm=32, m=8, weights=(weight, 1 - weight))
        for threshold in (0.1, 0.9)
        for weight in (0.5, 0.25)
    ]
    assert [one.params.tolist() for one in [ensemble, *more]] == INDEX["ensemble bands"]
    sizes, counts = np.array([1, 2, 3, 5, 8, 20, 21, 22, 40, 90]), np.array([9, 1, 4, 2, 2, 7, 1, 1, 3, 5])
    found = [[list(one) for one in optimal_partitions(sizes, counts, parts)] for parts in (1, 2, 3, 4, 6, 10, 16)]
    assert found == INDEX["partitions"]
    sets = [signature(*(f"{token}" for token in range(place, place + 8))) for place in range(30)]
    ensemble.index((place, one, 3 + place % 7) for place, one in enumerate(sets))
    assert [sorted(ensemble.query(one, 4)) for one in sets] == INDEX["ensemble"]  # type: ignore[type-var]
    assert sorted(pickle.loads(pickle.dumps(ensemble)).query(sets[3], 4)) == INDEX["ensemble"][3]
    assert 3 in ensemble and 30 not in ensemble


@pytest.mark.parametrize("scheme", ["affine32", "affine64", "legacy"])
def test_a_bloom_filter_knows_inserted_sets_after_reopening(scheme: Any, tmp_path: Path) -> None:
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


def test_bloom_filters_bound_errors_and_refuse_odd_files(tmp_path: Path) -> None:
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


# --- errors

FOREST, ENSEMBLE = MinHashLSHForest(16, l=4), MinHashLSHEnsemble(num_perm=16, num_part=3, m=4)
FOREST.add("a", SETS["a"])
ENSEMBLE.index([("a", SETS["a"], 3)])
LEGACY = signature("a", scheme="legacy")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MinHash(hashvalues=[1, 2]), "scheme is None"),
        (lambda: MinHash(scheme="xor"), "scheme is 'xor'; give one of"),  # type: ignore[arg-type]
        (lambda: MinHash(hashfunc=7), "hashfunc is of type int"),  # type: ignore[arg-type]
        (lambda: MinHash(0), "num_perm is 0"),
        (lambda: MinHash(2, scheme="affine32", permutations=[[1, 2], [3, 4]]), "even multipliers"),
        (lambda: MinHash(2, scheme="affine32", permutations=[[1], [3]]), "give one for each of 2 values"),
        (lambda: MinHash(hashvalues=[2**32], scheme="affine32"), "exceed scheme 'affine32'; give the scheme"),
        (lambda: MinHash(hashvalues=[2**64], scheme="affine64"), "exceed scheme 'affine64'; give the scheme"),
        (lambda: LeanMinHash(seed=1, hashvalues=[-1], scheme="legacy"), "exceed scheme 'legacy'; give the scheme"),
        (lambda: MinHash(2, scheme="affine32", permutations=[[1, 3], [2, -4]]), "exceed scheme 'affine32'"),
        (lambda: MinHash(hashfunc=identity).update(2**32), "scheme 'affine32' cannot hold"),
        (lambda: MinHash(hashfunc=identity, scheme="affine64").update(-1), "scheme 'affine64' cannot hold"),
        (lambda: MinHash(4).jaccard(MinHash(4, scheme="legacy")), "scheme 'affine32' and 'legacy'"),
        (lambda: MinHash(4).jaccard(None), "cannot compare signatures of scheme 'affine32' and None"),  # type: ignore[arg-type]
        (lambda: MinHash(4).merge(MinHash(4, seed=2)), "cannot merge signatures of seed 1 and 2"),
        (lambda: MinHash.union(MinHash(4), MinHash(5)), "cannot unite signatures of num_perm 4 and 5"),
        (lambda: MinHash.union(MinHash(4)), "give two or more"),
        (LeanMinHash, "neither a MinHash nor both"),
        (lambda: LeanMinHash(seed=1, hashvalues=[1]), "scheme is None"),
        (lambda: LeanMinHash(MinHash(4), scheme="legacy"), "scheme is 'legacy' and the MinHash has 'affine32'"),
        (lambda: LeanMinHash(MinHash(4)).serialize(bytearray(3)), "buf has 3 bytes"),
        (lambda: LeanMinHash.deserialize(b"\0" * 8 + b"\xff" * 4 + b"\7"), "the bytes name the scheme 7"),
        (lambda: bBitMinHash(MinHash(4), 33), "b is 33"),
        (lambda: bBitMinHash(MinHash(4), 1).jaccard(bBitMinHash(MinHash(4), 2)), "of b 1 and 2"),
        (lambda: WeightedMinHashGenerator(2).minhash([0, 0]), "all zeros"),
        (lambda: WeightedMinHashGenerator(2).minhash([1]), "v has 1 numbers"),
        (lambda: MinHashLSH(threshold=2), "threshold is 2"),
        (lambda: MinHashLSH(num_perm=1), "num_perm is 1"),
        (lambda: MinHashLSH(weights=(0.5, 0.6)), "whose sum is 1"),
        (lambda: MinHashLSH(num_perm=16, params=(5, 4)), "bands \\* rows of at most num_perm"),
        (lambda: MinHashLSH(num_perm=16, params=(1, 4)), "^params has 1 band of 4"),
        (lambda: MinHashLSH(num_perm=16, params=(4, 0)), "^params has 4 bands of 0"),
        (lambda: MinHashLSH(num_perm=8), "^the best banding has 1 band of 8"),
        (lambda: MinHashLSH(storage_config={"type": "redis"}), "'redis', and gpulsh keeps tables in memory"),
        (lambda: index_of(SETS).insert("a", SETS["a"]), "the key is in the index"),
        (lambda: index_of(SETS).remove("d"), "the key is not in the index"),
        (lambda: index_of(SETS).query(MinHash(17)), "17 values; this index takes 16"),
        (lambda: index_of(SETS).merge(index_of(SETS), check_overlap=True), "some keys are in both"),
        (lambda: index_of(SETS).merge(index_of({}, num_perm=17)), "different num_perm or banding"),
        (lambda: index_of(SETS).merge(index_of({1: LEGACY})), "'affine32' and 'legacy'"),
        (lambda: MinHashLSHForest(4, l=5), "l is 5 and num_perm 4"),
        (lambda: FOREST.add("a", SETS["a"]), "the key is in the forest"),
        (lambda: FOREST.add("b", MinHash(15)), "15 values; this forest takes 16"),
        (lambda: FOREST.query(SETS["a"], 0), "k is 0"),
        (lambda: FOREST.query(LEGACY, 1), "has scheme 'legacy' and the index has 'affine32'"),
        (lambda: ENSEMBLE.index([(1, SETS["a"], 2)]), "takes all of them in one call"),
        (lambda: MinHashLSHEnsemble(num_perm=16).index([]), "entries is empty"),
        (lambda: MinHashLSHEnsemble(num_perm=16).index([(1, SETS["a"], 0)]), "a size below 1"),
        (lambda: MinHashLSHEnsemble(m=1), "m is 1"),
        (lambda: MinHashLSHEnsemble(num_part=0), "num_part is 0"),
        (lambda: list(ENSEMBLE.query(LEGACY, 4)), "has scheme 'legacy'"),
    ],
)
def test_errors_are_value_errors(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
