"""The drop-in for datasketch: values and bytes are those that `tests.golden.compat.write` took from 2.0; its errors."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from gpulsh.compat import datasketch
from gpulsh.compat.datasketch import LeanMinHash, MinHash, WeightedMinHashGenerator, bBitMinHash, minhash
from gpulsh.compat.datasketch.hashfunc import sha1_hash32
from gpulsh.compat.schemes import sketches
from gpulsh.errors import InputTypeError
from tests.compat.test_schemes import golden

KNOWN = golden("datasketch")
every_scheme = pytest.mark.parametrize("scheme", ["affine32", "affine64", "legacy"])


def identity(token: int) -> int:
    return token


def test_names_and_modules() -> None:
    assert datasketch.minhash.MinHash is MinHash  # type: ignore[attr-defined]
    assert all(hasattr(datasketch, name) for name in datasketch.__all__)


@every_scheme
def test_every_way_makes_datasketch_values(scheme: Any) -> None:
    wanted = KNOWN["signatures"][f"{scheme} 9 1"]
    rows = [[word.encode() for word in row] for row in KNOWN["rows"]]
    made = MinHash.bulk(rows, num_perm=9, scheme=scheme)
    assert [one.hashvalues.tolist() for one in made] == wanted
    assert made[0].is_empty() and not made[1].is_empty()
    for row, values in zip(rows, made, strict=True):
        batched, single = MinHash(9, scheme=scheme), MinHash(num_perm=9, seed=1, scheme=scheme)
        batched.update_batch(row)
        for token in row:
            single.update(token)
        united = MinHash.union(*MinHash.bulk([row[::2], row[1::2]], num_perm=9, scheme=scheme))
        assert batched == single == united == values
    dtype = np.uint32 if scheme == "affine32" else np.uint64
    assert made[0].hashvalues.dtype == made[1].hashvalues.dtype == single.hashvalues.dtype == dtype


@every_scheme
def test_many_tokens_go_to_a_backend_and_change_nothing(scheme: Any) -> None:
    tokens = list(range(700))
    one, other = (MinHash(16, hashfunc=identity, scheme=scheme) for _ in range(2))
    one.update_batch(tokens)
    for start in range(0, 700, 100):
        other.update_batch(tokens[start : start + 100])
    assert one == other
    made = MinHash.bulk([[b"%d" % token for token in tokens]], num_perm=256, scheme=scheme)
    assert 550 < made[0].count() < 850


@pytest.mark.parametrize("mode", ["cpu", "reference"])
def test_bulk_takes_the_bytes_that_update_takes(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(minhash.BACKENDS, "disable", mode)
    monkeypatch.setattr(sketches, "SETS_AT_ONCE", 3)
    few: list[Any] = [
        [b"", b"a" * 63, b"b" * 64, b"c" * 2000],
        (),
        {b"d"},
        (bytearray(b"e"), memoryview(b"f")),
        iter([b"g"]),
    ]
    sets = [[np.bytes_(b"h"), b"%d" % number, b"\0" * number] for number in range(130)]
    made = MinHash.bulk([*few, *sets], num_perm=4)
    few[-1] = [b"g"]
    for tokens, values in zip([*few, *sets], made, strict=True):
        one = MinHash(4)
        for token in tokens:
            one.update(token)
        assert one == values


@pytest.mark.parametrize("token", ["text", 7, None, [b"a"], object()])
def test_bulk_tells_of_what_is_not_of_bytes(token: object) -> None:
    with pytest.raises(InputTypeError, match=f"tokens hold a {type(token).__name__}; give bytes"):
        MinHash.bulk([[b"a"], [bytearray(b"b"), token]], num_perm=4)


def test_given_permutations_and_values() -> None:
    one = MinHash(4, seed=3, scheme="legacy", permutations=([3, 5, 7, 9], [1, 2, 3, 4]), hashfunc=identity)
    one.update(10)
    assert one.hashvalues.tolist() == [31, 52, 73, 94]
    assert (
        MinHash.bulk([[10]], num_perm=4, scheme="legacy", permutations=one.permutations, hashfunc=identity)[0].jaccard(
            MinHash(seed=1, hashvalues=[31, 52, 73, 0], scheme="legacy")
        )
        == 0.75
    )
    copied = one.copy()
    copied.update(1)
    assert one.hashvalues.tolist() == [31, 52, 73, 94] != copied.hashvalues.tolist()
    copied.clear()
    assert copied.is_empty() and len(copied) == 4


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: MinHash(hashvalues=[1, 2]), "scheme is None"),
        (lambda: MinHash(scheme="xor"), "scheme is 'xor'; give one of"),  # type: ignore[arg-type]
        (lambda: MinHash(hashfunc=7), "hashfunc is of type int"),  # type: ignore[arg-type]
        (lambda: MinHash(0), "num_perm is 0"),
        (lambda: MinHash(2, scheme="affine32", permutations=[[1, 2], [3, 4]]), "even multipliers"),
        (lambda: MinHash(2, scheme="affine32", permutations=[[1], [3]]), "1 functions of 2 values"),
        (lambda: MinHash(hashvalues=[2**32], scheme="affine32"), "beyond those of scheme 'affine32'"),
        (lambda: MinHash(hashfunc=identity).update(2**32), "scheme 'affine32' has no room for"),
        (lambda: MinHash(hashfunc=identity, scheme="affine64").update(-1), "scheme 'affine64' has no room for"),
        (lambda: MinHash(4).jaccard(MinHash(4, scheme="legacy")), "scheme 'affine32' and 'legacy'"),
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
    ],
)
def test_errors_are_value_errors(make: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()


@pytest.mark.parametrize("key", list(KNOWN["bytes"]))
def test_bytes_and_pickles_are_those_of_datasketch(key: str) -> None:
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
        estimates = [
            packed.jaccard(bBitMinHash(other, bits)),
            bBitMinHash(full, bits, 0.3).jaccard(bBitMinHash(other, bits, 0.1)),
        ]
        assert estimates == pytest.approx(KNOWN["bytes"][key][f"{bits} bits estimates"], rel=1e-12)


def test_pickles_of_1_x_are_legacy() -> None:
    old = {"seed": 1, "num_perm": 2, "hashfunc": sha1_hash32, "hashvalues": np.array([5, 6], np.uint64)}
    made = MinHash.__new__(MinHash)
    made.__setstate__({**old, "permutations": MinHash(2, scheme="legacy").permutations, "_use_gpu": False})
    assert made.scheme == "legacy" and made.jaccard(MinHash(hashvalues=[5, 7], scheme="legacy")) == 0.5
    made.update(b"a")


def test_weighted() -> None:
    generator = WeightedMinHashGenerator(5, 12, seed=3)
    made = [generator.minhash(row) for row in KNOWN["vectors"]]
    assert [one.hashvalues.tolist() for one in made] == KNOWN["weighted"]
    many = generator.minhash_many(np.array([*KNOWN["vectors"], [0] * 5]))
    assert [None if one is None else one.hashvalues.tolist() for one in many] == [*KNOWN["weighted many"], None]
    assert made[0].jaccard(made[0].copy()) == 1 and made[1] != made[0] == pickle.loads(pickle.dumps(made[0]))
