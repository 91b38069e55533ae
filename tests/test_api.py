"""The public names: shapes, types, errors, empty inputs, every backend by name, and conversions of results."""

import dataclasses
import inspect
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gpulsh
from gpulsh import BandDigests, Banding, Fingerprints, Folding, MinHash, ParameterError, SCurve, Shingling, Signatures
from gpulsh.backends.select import backend_status
from gpulsh.params import BandShape, Family

TEXTS = ["one two three four five six", "ONE two, three four five six!", "something else", None, ""]
BACKENDS = ["reference", "cpu", "auto"]


# --- shapes and types


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_step_has_its_shape_and_type(backend: Any) -> None:
    if backend == "auto" and backend_status()["cuda"] is None:
        pytest.skip("a CUDA device is at hand, whose arrays are CuPy's")
    fingerprints = gpulsh.shingle(TEXTS, backend=backend)
    assert len(fingerprints) == 5 and fingerprints.offset.tolist() == [0, 2, 4, 5, 5, 5]
    assert (fingerprints.values.dtype, fingerprints.offset.dtype) == (np.uint64, np.int64)
    assert (fingerprints.values[:2] == fingerprints.values[2:4]).all()

    signatures = MinHash(num_perm=64, seed=3)(fingerprints, backend=backend)
    assert isinstance(signatures, Signatures) and len(signatures) == 5
    assert (signatures.shape, signatures.dtype) == ((5, 64), np.uint32)
    assert (signatures[0] == signatures[1]).all() and (signatures[3:] == 2**32 - 1).all()

    digests = Banding(bands=9, rows=7)(signatures, backend=backend)
    assert isinstance(digests, BandDigests)
    assert (digests.shape, digests.dtype) == ((5, 9), np.uint64)
    assert (digests[3:] == 2**64 - 1).all()

    pairs = gpulsh.candidate_pairs(digests, backend=backend)
    assert pairs.tolist() == [[0, 1]] and pairs.dtype == np.int64

    for sketches in (fingerprints, signatures):
        similarity = gpulsh.jaccard(sketches, [[0, 1], [0, 2], [3, 4], [0, 3]], backend=backend)
        assert similarity.tolist() == [1, 0, 0, 0] and similarity.dtype == np.float64
    contained = gpulsh.containment(fingerprints, np.array([[0, 1], [2, 0], [3, 0]]), backend=backend)
    assert contained.tolist() == [1, 0, 0] and contained.dtype == np.float64

    result = gpulsh.deduplicate(TEXTS, backend=backend)
    assert result.duplicate_of.tolist() == [0, 0, 2, 3, 4]


def test_every_callable_takes_backend_and_threads() -> None:
    public = [getattr(gpulsh, name) for name in gpulsh.__all__]
    named = [(kind, name) for kind in public if inspect.isclass(kind) for name in ("__call__", *dir(kind))]
    methods = [getattr(kind, name, None) for kind, name in named if name == "__call__" or name[0] != "_"]
    taking = [inspect.signature(call).parameters for call in [*public, *methods] if inspect.isfunction(call)]
    taking = [parameters for parameters in taking if "backend" in parameters]
    assert len(taking) > 40
    for parameters in taking:
        assert parameters["backend"].default == "auto", parameters
        assert parameters["backend"].kind is inspect.Parameter.KEYWORD_ONLY, parameters
        assert parameters["threads"].default is None, parameters


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_empty_input_keeps_shapes_and_types(backend: Any) -> None:
    options: dict[str, Any] = {"backend": backend}
    nothings = [[], np.array([], object), pa.array([], pa.string()), pd.Series([], dtype=str), pl.Series([], dtype=str)]
    for nothing in nothings:
        fingerprints = gpulsh.shingle(nothing, **options)
        assert len(fingerprints) == 0 and fingerprints.offset.tolist() == [0]
        signatures = MinHash(num_perm=8)(fingerprints, **options)
        assert signatures.shape == MinHash(num_perm=8).from_texts(nothing, **options).shape == (0, 8)
        digests = Banding(bands=2, rows=4)(signatures, **options)
        pairs = gpulsh.candidate_pairs(digests, **options)
        assert digests.shape == pairs.shape == (0, 2) and pairs.dtype == np.int64
        assert gpulsh.jaccard(fingerprints, pairs, **options).shape == (0,)
        assert gpulsh.jaccard(signatures, [], **options).shape == (0,)
        assert gpulsh.containment(fingerprints, pairs, **options).shape == (0,)
        result = gpulsh.deduplicate(nothing, priority=[], **options)
        assert len(result) == 0 and result.pairs.shape == (0, 2) and result.to_arrow().num_rows == 0
        assert result.filter([]) == []
    for texts in ([None, None], ["", "..."], [None], pa.nulls(3, pa.string())):
        result = gpulsh.deduplicate(texts, **options)
        n = len(texts)
        assert result.keep.all() and result.duplicate_of.tolist() == result.cluster.tolist() == list(range(n))
        assert (result.similarity == 1).all() and len(result.pairs) == len(result.pair_similarity) == 0
        assert result.funnel.empty == n and result.funnel.shingles == 0
        digests = Banding(bands=2, rows=4)(MinHash(num_perm=8).from_texts(texts, **options), **options)
        assert len(gpulsh.candidate_pairs(digests, **options)) == 0


def test_texts_are_normalized_only_on_request() -> None:
    texts = ["caf\u00e9 \ufb01n", "cafe\u0301 fin", "cafe\u0301 \ufb01n"]
    for form, equal in ((None, []), ("NFC", [[0, 2]]), ("NFKC", [[0, 1], [0, 2], [1, 2]])):
        folding = Folding(form=form)  # type: ignore[arg-type]
        fingerprints = gpulsh.shingle(texts, folding=folding, backend="cpu").values.tolist()
        assert [[i, j] for i in range(3) for j in range(i + 1, 3) if fingerprints[i] == fingerprints[j]] == equal
        result = gpulsh.deduplicate(texts, folding=folding, backend="cpu")
        assert result.funnel.dropped == {0: 0, 1: 1, 3: 2}[len(equal)]
        again = gpulsh.deduplicate(texts, normalize=form, backend="cpu")  # type: ignore[arg-type]
        assert again.keep.tolist() == result.keep.tolist()
    with pytest.raises(gpulsh.ParameterError, match="normalize is 'NFC' and the folding's form 'NFKC'"):
        gpulsh.deduplicate(texts, folding=Folding(form="NFKC"), normalize="NFC", backend="cpu")


def test_keep_longest_and_named_shinglings_work_in_memory() -> None:
    texts = ["one two three four", "One, two, three, four!", "one two three four five six"]
    how: dict[str, Any] = {"shingling": "word:2", "threshold": 0.6, "backend": "reference"}
    assert gpulsh.deduplicate(texts, **how).duplicate_of.tolist() == [0, 0, 0]
    assert gpulsh.deduplicate(texts, keep="longest", **how).duplicate_of.tolist() == [2, 2, 2]
    contained = {**how, "measure": "containment"}
    assert gpulsh.deduplicate(texts, **contained).keep.tolist() == [False, False, True]
    assert gpulsh.deduplicate(texts, keep="first", **contained).keep.tolist() == [True, False, False]
    for wrong in ({"keep": "last"}, {"keep": "longest", "priority": [1, 2, 3]}, {"shingling": "word"}):
        with pytest.raises(gpulsh.ParameterError, match=next(iter(wrong)).removesuffix("ing")):
            gpulsh.deduplicate(texts, **{**how, **wrong})  # type: ignore[arg-type]


# --- arrays in and out


def test_results_convert_to_arrays() -> None:
    signatures = MinHash().from_texts(TEXTS, backend="cpu")
    digests = Banding(bands=4, rows=2)(signatures, backend="cpu")
    for result in (signatures, digests):
        assert np.asarray(result) is result.values or np.shares_memory(np.asarray(result), result.values)
        copied = np.array(result, copy=True)
        assert not np.shares_memory(copied, result.values) and (copied == result.values).all()
        assert np.asarray(result, dtype=np.float64).dtype == np.float64
        exchanged = np.from_dlpack(result)
        assert exchanged.dtype == result.dtype and np.shares_memory(exchanged, result.values)
        assert result[1:3].shape == (2, result.shape[1]) and len(list(result)) == len(result) == 5
        assert not hasattr(result, "__cuda_array_interface__")


def test_public_classes_check_their_arrays() -> None:
    u64, i64 = np.zeros(3, np.uint64), np.array([0, 1, 3])
    assert len(Fingerprints(u64, i64)) == 2 and len(Fingerprints(u64, i64).slice(1, 2)) == 1
    for values, offset, named in [
        (
            u64.astype(np.int64),
            i64,
            r"Fingerprints\.values is a 1-dimensional array of int64; give a 1-dimensional array of uint64$",
        ),
        *((u64, np.array(odd, np.int64), "offset") for odd in ([], [0, 4], [-1, 2], [0, 2, 1])),
        (u64, i64.astype(np.int32), "offset"),
        ([1, 2], i64, "values"),
    ]:
        with pytest.raises(ParameterError, match=named):
            Fingerprints(values, offset)
    with pytest.raises(
        ParameterError,
        match=r"Signatures\.values is a 2-dimensional array of int64; give a 2-dimensional array of uint32",
    ):
        Signatures(np.zeros((2, 3), np.int64))
    with pytest.raises(ParameterError, match=r"BandDigests\.values is a 1-dimensional array of uint64"):
        BandDigests(np.zeros(2, np.uint64))


def test_parameters_are_frozen_and_keyword_only() -> None:
    for cls in (Shingling, Folding, Family, BandShape, Banding, MinHash, SCurve, Fingerprints, Signatures):
        assert dataclasses.fields(cls) and cls.__dataclass_params__.frozen  # type: ignore[attr-defined]
    for call in (lambda: Shingling("word"), lambda: MinHash(128), lambda: Banding(4, 2), lambda: SCurve(42, 3)):  # type: ignore[call-arg,misc]
        with pytest.raises(TypeError, match="positional"):
            call()
    for function in (gpulsh.deduplicate, gpulsh.shingle):
        kinds = [p.kind for p in inspect.signature(function).parameters.values()]
        assert kinds[1:] == [inspect.Parameter.KEYWORD_ONLY] * (len(kinds) - 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Shingling().size = 3  # type: ignore[misc]


def test_parameters_compare_hash_and_digest() -> None:
    numpy = Shingling(unit="word", size=np.int64(5), symbols=np.False_)  # type: ignore[arg-type]
    assert Shingling() == numpy and Shingling().digest() == numpy.digest()
    assert hash(Shingling()) == hash(Shingling(size=5))
    others = (Shingling(size=6), Shingling(unit="char"), Folding(), Family(), Family(seed=2))
    digests = [parameters.digest() for parameters in (Shingling(), *others)]
    assert len(set(digests)) == 6 and all(len(digest) == 64 for digest in digests)


# --- errors


def test_unavailable_cuda_is_an_error_with_its_reason() -> None:
    reason = backend_status()["cuda"]
    if reason is None:
        pytest.skip("CUDA works here")
    digests = BandDigests(np.zeros((1, 1), np.uint64))
    for call, given in ((gpulsh.deduplicate, ["a"]), (MinHash().from_texts, ["a"]), (gpulsh.candidate_pairs, digests)):
        with pytest.raises(gpulsh.BackendError) as caught:
            call(given, backend="cuda")  # type: ignore[operator]
        assert reason in str(caught.value)


# --- results


def test_polars_objects_are_compared_by_value() -> None:
    """Their Arrow array holds addresses."""
    key = pl.Series([f"{'k' * 9}{row // 2}" for row in range(4)], dtype=pl.Object)
    texts = ["one two three", "four five six", "seven eight nine", "ten eleven twelve"]
    assert gpulsh.deduplicate(texts, key=key, backend="cpu").keep.tolist() == [True, False] * 2


def test_the_funnel_counts_every_stage() -> None:
    words = " ".join(f"w{i}" for i in range(100))
    texts = [words, words.upper(), words + " end", None, "", "...", "something of its own"]
    funnel = gpulsh.deduplicate(texts, backend="cpu").funnel
    assert funnel.bytes == sum(len(text or "") for text in texts)
    names = ("documents", "nulls", "empty", "shingles", "exact_copies", "crowded")
    assert [funnel[name] for name in names] == [7, 1, 3, 96 * 2 + 97 + 1, 1, 0]
    assert (funnel.candidates, funnel.verified, funnel.dropped, funnel.kept) == (1, 2, 2, 5)
    assert list(funnel.seconds) == ["sign", "collide", "read", "verify", "resolve"]
    assert all(seconds >= 0 for seconds in funnel.seconds.values())
    assert funnel["candidates"] == funnel.candidates == funnel.to_dict()["candidates"]
    with pytest.raises(KeyError):
        funnel["nothing"]


def test_help_has_examples_and_errors() -> None:
    for name in sorted({*gpulsh.__all__} - {"__version__"}):
        public = getattr(gpulsh, name)
        if inspect.isclass(public) and issubclass(public, Exception):
            continue
        text = inspect.getdoc(public) or ""
        assert ">>> " in text and ("Error" in text or public is gpulsh.Decision), name
        for member in dir(public):
            own = inspect.getattr_static(public, member)
            if not member.startswith("_") and (inspect.isroutine(own) or isinstance(own, property)):
                assert inspect.getdoc(own), f"{name}.{member}"
