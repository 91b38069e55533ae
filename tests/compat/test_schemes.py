"""Signatures are those that other libraries made of the same tokens (tests/golden/compat), on every backend."""

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gpulsh
from gpulsh import compat
from gpulsh.arrays import Fingerprints, on_host
from gpulsh.compat.schemes.text_dedup import words
from gpulsh.errors import InputTypeError, ParameterError
from tests.kernels.cuts import cuda_backend

GOLDEN = Path(__file__).parents[1] / "golden" / "compat"
HOMES = ("sketches", "datasketch")
XXHASH = importlib.util.find_spec("xxhash") is not None


@pytest.fixture(params=["reference", "cpu", pytest.param("cuda", marks=pytest.mark.kernels)])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`backend="cuda"` means the kernels that run on the host."""
    if request.param == "cuda":
        ops = cuda_backend("host-default")
        for home in HOMES:
            monkeypatch.setattr(f"gpulsh.compat.schemes.{home}.select_backend", lambda name, **_: ops)
    return request.param


def golden(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))
    return found


def rows_of(found: Any) -> list[list[int]]:
    rows: list[list[int]] = on_host(found.values if isinstance(found, gpulsh.Signatures) else found).tolist()
    return rows


def hashes(rows: list[list[int]]) -> Fingerprints:
    return Fingerprints(
        np.array([value for row in rows for value in row], np.uint64), np.cumsum([0, *map(len, rows)], dtype=np.int64)
    )


@pytest.mark.parametrize("scheme", ["affine32", "affine64", "legacy"])
def test_signatures_equal_datasketch(scheme: Any, backend: Any) -> None:
    known = golden("datasketch")
    for key, wanted in known["signatures"].items():
        name, num_perm, seed = key.split()
        if name == scheme:
            sketch = compat.DatasketchMinHash(num_perm=int(num_perm), seed=int(seed), scheme=scheme)
            rows = known["rows"] if len(wanted) > 1 else known["rows"][2:3]
            assert rows_of(sketch.from_tokens(rows, backend=backend)) == wanted


@pytest.mark.parametrize("many", [False, True])
def test_weighted_signatures_equal_datasketch(many: bool, backend: Any) -> None:
    known = golden("datasketch")
    sketch = compat.DatasketchWeightedMinHash(dim=5, num_perm=12, seed=3, many=many)
    vectors = [*known["vectors"], [1e-60] + [0] * 4]  # which datasketch takes for 0
    found = sketch(vectors, backend=backend)
    assert rows_of(found)[:-1] == known["weighted many" if many else "weighted"]
    assert (np.array(rows_of(found)[-1]) == -1).all()
    estimated = sketch.estimate(found, [[0, 0], [1, 3], [4, 4]], backend=backend)
    equal = np.mean([one == other for one, other in zip(rows_of(found)[1], rows_of(found)[3], strict=True)])
    assert rows_of(estimated) == [1.0, equal, 0.0]


@pytest.mark.parametrize("precision", [32, 64])
@pytest.mark.parametrize(
    "name", ["sha1", pytest.param("xxhash", marks=pytest.mark.skipif(not XXHASH, reason="xxhash"))]
)
def test_signatures_equal_datatrove(precision: Any, name: Any, backend: Any) -> None:
    known = golden("datatrove")
    sketch = compat.DatatroveMinHash(num_perm=12, n_grams=3, precision=precision, hash=name)
    found = rows_of(sketch.from_tokens([*known["rows"], ["too", "few"]], backend=backend))
    assert found == [*known["signatures"][f"{precision} {name}"], [2**precision - 1] * 12]


def test_simplify_text_equals_datatrove() -> None:
    for text, simple, every, none in golden("datatrove")["simplified"]:
        options = ("lowercase", "norm_whitespace", "remove_punctuation", "norm_unicode_diacritics", "norm_numbers")
        assert compat.simplify_text(text) == simple
        assert compat.simplify_text(text, norm_weekdays=True, norm_monthnames=True) == every
        assert compat.simplify_text(text, **dict.fromkeys(options, False)) == none


@pytest.mark.parametrize("bits", [64, 32, 16])
@pytest.mark.parametrize("name", ["sha1", pytest.param("xxh3", marks=pytest.mark.skipif(not XXHASH, reason="xxhash"))])
def test_signatures_equal_text_dedup(bits: Any, name: Any, backend: Any) -> None:
    known = golden("text_dedup")
    sketch = compat.TextDedupMinHash(num_perm=12, ngram_size=3, min_length=2, hash_bits=bits, hash=name)
    found = sketch.from_texts(known["texts"], backend=backend)
    again = sketch.from_texts(pa.chunked_array([known["texts"], [None]]), backend=backend)
    assert rows_of(again) == [*rows_of(found), *rows_of(sketch.from_texts([""], backend=backend))]
    assert [words(text) for text, *_ in golden("datatrove")["simplified"]] == known["tokens"]
    most = min(2**bits, 2**32) - 1
    assert [[min(value, most) for value in row] for row in rows_of(found)] == known["signatures"][f"{bits} {name}"]


def test_without_a_least_length_a_text_without_words_has_the_empty_run() -> None:
    sketch = compat.TextDedupMinHash(num_perm=4, ngram_size=3, min_length=0, hash="sha1")
    found = rows_of(sketch.from_texts(["", "?!"], backend="cpu"))
    assert found == rows_of(sketch.from_tokens([[""], [""]], backend="cpu")) != [[2**32 - 1] * 4] * 2


@pytest.mark.parametrize("bits", [32, 64])
def test_signatures_equal_nemo(bits: Any, backend: Any) -> None:
    known = golden("nemo")
    for width in (2, 5, 24):
        sketch = compat.NemoMinHash(num_perm=9, char_ngrams=width, bits=bits)
        found = rows_of(sketch.from_texts([*known["texts"], None], backend=backend))
        empty = [2**bits - 1] * 9
        assert found == [empty, *known["signatures"][f"{bits} {width}"][1:], empty]
    invalid = [b"near", b"\x80", b"by\xf0\x9f"]  # a stray byte is not part of the text before it
    given = [text.decode("utf-8", "replace") for text in invalid]
    found = rows_of(sketch.from_texts(pa.array(invalid), backend=backend))
    assert found == rows_of(sketch.from_texts(given, backend=backend))


# Of the known answers in Lance's specification, two texts: a shingle's hashes, and what is made of them.
LANCE = [
    (
        ["the", "quick", "brown", "fox"],
        [0x4C0B0D36203CE55F, 0x09C7AE895D82B184, 0x68E7F4B1BE7B4C1F],
        "b00f 59d6 511a cd2c",
    ),
    (["fox"], [0x07C0130AB04388D5], "2970 d6db 65f8 adfc"),
]


def test_signatures_equal_lance(backend: Any) -> None:
    sketch = compat.LanceMinHash(num_perm=4, shingle_size=2)
    found = rows_of(sketch(hashes([hashed for _, hashed, _ in LANCE] + [[]]), backend=backend))
    assert found == [*([int(value, 16) for value in wanted.split()] for *_, wanted in LANCE), [2**32 - 1] * 4]


@pytest.mark.skipif(not XXHASH, reason="xxhash is not installed")
def test_token_hashes_equal_lance() -> None:
    sketch = compat.LanceMinHash(num_perm=4, shingle_size=2)
    assert sketch.hashes([tokens for tokens, *_ in LANCE]).values.tolist() == LANCE[0][1] + LANCE[1][1]


def test_signatures_equal_fast_sketch(backend: Any) -> None:
    known = golden("fastsketchlsh")
    for key, wanted in known["signatures"].items():
        size, seed = map(int, key.split())
        rows = known["rows"] if len(wanted) > 2 else known["rows"][1:3]
        sketch = compat.FastSketchLSH(num_perm=size, seed=seed)
        found = rows_of(sketch.from_integers(hashes([*rows, []]), backend=backend))
        assert found == [*wanted, [2**64 - 1] * size]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: compat.DatasketchMinHash(scheme="affine"), "scheme is 'affine'; give one of"),  # type: ignore[arg-type]
        (lambda: compat.DatasketchMinHash(seed=2**32), "seed is 4294967296; give an integer from 0"),
        (lambda: compat.DatasketchMinHash()(hashes([[2**32]])), "takes hashes below 2\\^32"),
        (lambda: compat.DatatroveMinHash(precision=16), "precision is 16; give"),  # type: ignore[arg-type]
        (lambda: compat.TextDedupMinHash(hash="md5"), "hash is 'md5'; give"),  # type: ignore[arg-type]
        (lambda: compat.NemoMinHash(char_ngrams=1), "char_ngrams is 1; give an integer from 2"),
        (lambda: compat.LanceMinHash(seed=1), "seed is 1; give one of 42"),
        (lambda: compat.FastSketchLSH(num_perm=12), "num_perm is 12; give a power of two from 1 to 2048"),
        (lambda: compat.FastSketchLSH().from_integers(hashes([[2**32]])), "give integers below 2\\^32"),
        (lambda: compat.DatasketchWeightedMinHash(dim=2)([[1, 2, 3]]), "\\(1, 3\\); give numbers of shape \\[n, 2\\]"),
    ],
)
def test_wrong_parameters_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make()


def test_rows_without_tokens_are_refused() -> None:
    sketch = compat.DatasketchMinHash()
    with pytest.raises(InputTypeError, match="row 1 is one str; give its tokens"):
        sketch.from_tokens([["a"], "text"])
    with pytest.raises(InputTypeError, match="row 0 holds a int; give tokens as bytes or str"):
        sketch.from_tokens([["a", 1]])  # type: ignore[list-item]
    for row, given in ((None, "None"), (5, "one int")):
        with pytest.raises(InputTypeError, match=f"row 1 is {given}; give its tokens"):
            sketch.from_tokens([["a"], row])  # type: ignore[list-item]
    with pytest.raises(InputTypeError, match="rows is of type set; give a list of documents"):
        sketch.from_tokens({("a", "b"), ("c",)})
    with pytest.raises(InputTypeError, match="rows is None; give a list of documents"):
        sketch.from_tokens(None)  # type: ignore[arg-type]
    assert len(sketch.from_tokens([["\ud800"]])) == 1


def test_a_hash_without_its_package_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "xxhash", None)
    with pytest.raises(ParameterError, match=r"needs the package xxhash: pip install .gpulsh\[compat\]."):
        compat.DatatroveMinHash().from_tokens([["a"] * 9])
