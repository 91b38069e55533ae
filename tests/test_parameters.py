"""Python takes the names of the command, and answers an unknown name with the nearest one."""

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import gpulsh
from gpulsh.errors import InputError, InputTypeError, ParameterError, UnknownParameterError
from tests.support.command import Command
from tests.support.files import write_rows

ON: dict[str, Any] = {"backend": "cpu"}
TEXTS = ["one two three four five six", "One, two, three, four, five, six!", "something else"]


@pytest.mark.parametrize(
    ("named", "same"),
    [
        ({"sketch": "minhash:64", "seed": 3}, {"sketch": gpulsh.MinHash(num_perm=64, seed=3)}),
        ({"sketch": "fast", "num_perm": 64}, {"sketch": gpulsh.FastSimilarity(num_perm=64)}),
        ({"sketch": "simhash:64:5"}, {"sketch": gpulsh.SimHash(), "distance": 5}),
        ({"also": "simhash:9"}, {"also": gpulsh.SimHash(), "distance": 9}),
    ],
)
def test_sketches_may_be_named(named: dict[str, Any], same: dict[str, Any], tmp_path: Path) -> None:
    """They may be given as objects in memory, over files, and in an index."""
    texts = TEXTS[:1] + [f"{i} {i + 1} {i + 2} {i % 7} five six" for i in range(40)] + TEXTS
    wanted = gpulsh.deduplicate(texts, threshold=0.5, **same, **ON)
    assert gpulsh.deduplicate(texts, threshold=0.5, **named, **ON) == wanted
    write_rows(tmp_path / "a.jsonl", texts)
    reports = [
        gpulsh.deduplicate_files(tmp_path / "a.jsonl", tmp_path / out, threshold=0.5, **given, **ON).report
        for out, given in (("named", named), ("same", same))
    ]
    assert reports[0]["parameters"] == reports[1]["parameters"]
    if "also" not in named:
        index = gpulsh.Index(threshold=0.5, **named, **ON)
        assert index.collection.method == gpulsh.Index(threshold=0.5, **same, **ON).collection.method
        index.insert(range(len(texts)), texts)
        index.save(tmp_path / "index")
        gpulsh.Index.open(tmp_path / "index", **named, **ON)


def test_each_sketch_has_its_own_distance(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.jsonl", TEXTS)
    for sketch, also, distances in (("64:3", "64:9", [3, 9]), ("64:3", "64", [3, 18]), ("64", "64:3", [12, 3])):
        given = {"sketch": f"simhash:{sketch}", "also": f"simhash:{also}", "threshold": 0.8, **ON, "overwrite": True}
        made = gpulsh.deduplicate_files(tmp_path / "a.jsonl", tmp_path / "out", **given)
        assert [made.report["parameters"][name]["distance"] for name in ("near", "also")] == distances


def test_flags_may_be_of_numpy(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", [{"text": "one two"}])
    flags: Any = dict.fromkeys(("add_counts", "key_only", "overwrite"), np.True_)
    result = gpulsh.deduplicate_files(path, tmp_path / "out", key="text", **flags, **ON)
    assert result.report["parameters"]["key_only"] is True


def test_text_columns_may_be_a_list(tmp_path: Path) -> None:
    table = pa.table({"title": ["a b", "a b", "x"], "meta": [{"body": "c d e"}] * 3, "id": [1, 2, 3]})
    listed = gpulsh.deduplicate(table, text_column=["title", "meta.body"], **ON)
    assert listed == gpulsh.deduplicate(table, text_column="title,meta.body", **ON)
    assert listed.keep.tolist() == [True, False, True]
    write_rows(tmp_path / "a.jsonl", table)
    result = gpulsh.deduplicate_files(tmp_path / "a.jsonl", tmp_path / "o", text_column=["title", "meta.body"], **ON)
    assert result.report["parameters"]["text_column"] == "title,meta.body" and result.funnel["dropped"] == 1


def test_wrong_text_columns_are_refused(tmp_path: Path) -> None:
    for odd in ([], ["a", 1], 3, ["a,b", "c"], ["column:a", "b"], {"a"}):
        given: Any = {"text_column": odd, **ON}
        with pytest.raises(ParameterError, match="text_column"):
            gpulsh.deduplicate(pa.table({"a": TEXTS}), **given)
        with pytest.raises(ParameterError, match="text_column"):
            gpulsh.deduplicate_files(tmp_path / "a.jsonl", tmp_path / "out", **given)


@pytest.mark.parametrize(
    ("call", "unknown", "meant"),
    [
        (partial(gpulsh.deduplicate, TEXTS), "shingle", "shingling"),
        (partial(gpulsh.deduplicate_files, "a", "b"), "text_colum", "text_column"),
        (partial(gpulsh.Index.open, "x"), "treshold", "threshold"),
        (partial(gpulsh.sample, TEXTS), "treshold", "thresholds"),
        (gpulsh.MinHash, "num_hashes", "num_perm"),
        (partial(gpulsh.deduplicate, TEXTS), "n_grams", "shingling"),
        (partial(gpulsh.deduplicate_files, "a", "b"), "hashes_per_bucket", "rows"),
        (gpulsh.BBit, "num_hashes", "num_perm"),
        (gpulsh.ModM, "modulo", "modulus"),
        (gpulsh.EarthMover, "trees", "num_trees"),
        (gpulsh.Shingling, "sizes", "size"),
    ],
)
def test_an_unknown_parameter_suggests_the_nearest(call: Callable[..., Any], unknown: str, meant: str) -> None:
    with pytest.raises(UnknownParameterError, match=f"has no parameter '{unknown}'; did you mean {meant}\\?"):
        call(**{unknown: 5})


def test_an_unknown_column_suggests_the_nearest(folder: Path, command: Command) -> None:
    Path("a.csv").write_text("id,Title,score\n1,x,2\n")
    Path("a.jsonl").write_text('{"id": 1, "Title": "x", "score": 2}\n')
    for given, missing, meant in (
        ("--text-column titel", "titel", "Title"),
        ("--text-column Title --keep scores", "scores", "score"),
    ):
        for name in ("a.csv", "a.jsonl"):
            error = command(f"dedup {name} -o out {given}").error
            assert f"{name}: has no column '{missing}'" in error and f"; did you mean '{meant}'?" in error
    with pytest.raises(InputError, match="did you mean 'Title'"):
        gpulsh.deduplicate_files("a.csv", "out", text_column="title", **ON)
    with pytest.raises(InputTypeError, match="did you mean 'body'"):
        gpulsh.deduplicate(pa.table({"body": TEXTS, "n": np.arange(3)}), text_column="bodi", **ON)


# --- one clear message for any wrong parameter

REF: Any = {"backend": "reference"}
LETTERS = ["a b c d e f g", "A b c d e f g!", "x y z"]
LINE = abs(np.arange(3.0)[:, None] - np.arange(3.0))
PAIRS = [[0, 1]]
ODD = [
    *(None, -1, 0, 3.5, True, 2**70, -0.5, float("nan"), "x", "", b"x", [], [1, 2, 3], [None], {"a": 1}, {1, 2}),
    *(object(), np.zeros((2, 2)), np.array("x"), np.array(2**40), [[1, 2], [3]], (0.5,), len),
    *(np.array([1, 2]), np.array(1), pd.NA, pd.Series([1, 2]), pa.array([1, 2]), "\ud800", "a\0b", 10**400),
    *(10**5000, [10**5000], pa.scalar(1), np.int8(100), np.float32(0.5)),
]

PRINTS = gpulsh.shingle(LETTERS, **REF)
SIGNATURES = gpulsh.MinHash(num_perm=8)(PRINTS, **REF)
BITS = gpulsh.SimHash()(PRINTS, **REF)
DECIDED = gpulsh.deduplicate(LETTERS, **REF)
STUDY = gpulsh.study(LETTERS * 2, **REF)
MOVER = gpulsh.EarthMover(LINE, num_trees=2)
ARRAY, OFFSET = np.zeros(2, np.uint64), np.array([0, 2])
BUILT = gpulsh.HammingTables().build(BITS, **REF)
INDEX, KEYED = gpulsh.Index(**REF), {"keys": [1, 2, 3], "texts": LETTERS}
INDEX.insert(**KEYED)
SKETCHES: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [  # with inputs, and with results
    (gpulsh.MinHash(num_perm=8), {"fingerprints": PRINTS}, {"signatures": SIGNATURES}),
    (gpulsh.SimHash(), {"fingerprints": PRINTS}, {"bit_signatures": BITS}),
    (gpulsh.BottomS(), {"fingerprints": PRINTS}, {"samples": gpulsh.BottomS()(PRINTS, **REF)}),
    (gpulsh.BBit(num_perm=8), {"signatures": SIGNATURES}, {"packed": gpulsh.BBit(num_perm=8)(SIGNATURES, **REF)}),
    (gpulsh.WeightedMinHash(num_perm=8), {"rows": LINE}, {"signatures": SIGNATURES}),
    (gpulsh.KleinbergTardos(num_perm=8), {"vectors": LINE}, {"signatures": SIGNATURES}),
    (gpulsh.Hyperplanes(), {"vectors": LINE}, {"bit_signatures": BITS}),
    (MOVER, {"distributions": np.eye(3)}, {"labels": MOVER(np.eye(3), **REF)}),
]
WITHOUT_PARAMETERS: list[Callable[..., Any]] = [
    *(gpulsh.MinHash, gpulsh.OnePermutation, gpulsh.BBit, gpulsh.BottomS, gpulsh.ModM, gpulsh.SimHash, gpulsh.CMinHash),
    *(gpulsh.FastSimilarity, gpulsh.Hyperplanes, gpulsh.WeightedMinHash, gpulsh.KleinbergTardos, gpulsh.HammingTables),
    *(gpulsh.Supershingles, gpulsh.Shingling, gpulsh.Folding),
]
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "shingle": (gpulsh.shingle, {"texts": LETTERS, **REF}),
    "fingerprint": (gpulsh.fingerprint, {"sets": [[1, 2], [3]], **REF}),
    "minima": (gpulsh.minima, {"sets": [[0, 1], [2]], "functions": np.eye(3, dtype=int), **REF}),
    "MinHash.epsilon": (gpulsh.MinHash(num_perm=8).epsilon, {"sets": PRINTS, **REF}),
    "weigh": (gpulsh.weigh, {"texts": LETTERS, **REF}),
    "md5_signatures": (gpulsh.md5_signatures, {"texts": LETTERS}),
    "text_profiles": (gpulsh.text_profiles, {"texts": LETTERS}),
    "candidate_pairs": (gpulsh.candidate_pairs, {"digests": gpulsh.BandDigests(np.eye(2, dtype=np.uint64)), **REF}),
    "jaccard": (gpulsh.jaccard, {"sketches": PRINTS, "pairs": PAIRS, **REF}),
    "containment": (gpulsh.containment, {"fingerprints": PRINTS, "pairs": PAIRS, **REF}),
    "hamming": (gpulsh.hamming, {"bit_signatures": BITS, "pairs": PAIRS, **REF}),
    "choose_banding": (gpulsh.choose_banding, {}),
    "study": (gpulsh.study, {"texts": LETTERS, **REF}),
    "compare": (gpulsh.compare, {"texts": LETTERS, "methods": ["md5"], **REF}),
    "deduplicate": (gpulsh.deduplicate, {"texts": LETTERS, **REF}),
    "passages": (gpulsh.passages, {"texts": LETTERS, **REF}),
    "cut": (gpulsh.cut, {"texts": LETTERS, "spans": gpulsh.passages(LETTERS, **REF), **REF}),
    "contamination": (gpulsh.contamination, {"texts": LETTERS, "benchmark": LETTERS, **REF}),
    "passages_files": (gpulsh.passages_files, {"inputs": "nothing.jsonl", "output": "out", **REF}),
    "cut_files": (gpulsh.cut_files, {"inputs": "no.jsonl", "passages": "no.parquet", "output": "out", **REF}),
    "deduplicate_files": (gpulsh.deduplicate_files, {"inputs": "nothing.jsonl", "output": "out", **REF}),
    "Index": (gpulsh.Index, REF),
    "Index.create": (lambda path: gpulsh.Index.create(path, **REF).close(), {"path": "new"}),
    "Index.insert": (lambda keys, texts: gpulsh.Index(**REF).insert(keys, texts), KEYED),
    "Index.add": (lambda keys, texts: gpulsh.Index(**REF).add(keys, texts), KEYED),
    "Index.query": (INDEX.query, {"texts": LETTERS}),
    "Index.remove": (lambda keys: gpulsh.Index(**REF).remove(keys), {"keys": []}),
    "Index.remove of a key": (lambda key: INDEX.remove([key]), {"key": 4}),
    "Index.insert of a key": (lambda key: gpulsh.Index(**REF).insert([key], ["a"]), {"key": 1}),
    "fingerprint of an item": (lambda item: gpulsh.fingerprint([[item]], **REF), {"item": 1}),
    "deduplicate a text": (lambda text: gpulsh.deduplicate(["a", text], **REF), {"text": "a"}),
    "Index.__contains__": (INDEX.__contains__, {"key": 1}),
    "Index.open": (gpulsh.Index.open, {"path": "index", **REF}),
    "Index.save": (lambda path: gpulsh.Index(**REF).save(path), {"path": ""}),
    "SCurve.probability": (gpulsh.SCurve(bands=2, rows=2).probability, {"similarity": 0.5}),
    "SCurve.similarity_at": (gpulsh.SCurve(bands=2, rows=2).similarity_at, {"probability": 0.5}),
    "Decision.filter": (DECIDED.filter, {"table": [1, 2, 3]}),
    "Decision.mark": (DECIDED.mark, {"table": pa.table({"text": LETTERS}), "ids": [1, 2, 3]}),
    "Decision.weights": (DECIDED.weights, {"recipe": "log"}),
    "Decision.weights of a weight": (lambda weight: DECIDED.weights({1: weight}), {"weight": 1}),
    "Index.find": (INDEX.find, {"text": "a b c d e f g"}),
    "HammingTables.expected_candidates": (gpulsh.HammingTables().expected_candidates, {"count": 5}),
    "Decision.duplicates": (DECIDED.duplicates, {"ids": [1, 2, 3], "texts": LETTERS}),
    "Study.histogram": (STUDY.histogram, {}),
    "Study.plot": (STUDY.plot, {"path": "x.txt"}),
    "HammingTables.design": (gpulsh.HammingTables().design, {"count": 5}),
    "BuiltTables.query": (BUILT.query, {"bit_signatures": BITS, **REF}),
    "TextBatch": (gpulsh.TextBatch, {"values": np.zeros(2, np.uint8), "offset": OFFSET}),
    "Fingerprints": (gpulsh.Fingerprints, {"values": ARRAY, "offset": OFFSET}),
    "WeightedFingerprints": (gpulsh.WeightedFingerprints, {"values": ARRAY, "weight": np.ones(2), "offset": OFFSET}),
    "Signatures": (gpulsh.Signatures, {"values": np.zeros((2, 2), np.uint32)}),
    "PackedSignatures": (gpulsh.PackedSignatures, {"values": np.zeros((2, 1), np.uint64)}),
    "BitSignatures": (gpulsh.BitSignatures, {"values": np.zeros((2, 1), np.uint64)}),
    "BandDigests": (gpulsh.BandDigests, {"values": np.zeros((2, 2), np.uint64)}),
    "Samples": (gpulsh.Samples, {"values": ARRAY, "offset": OFFSET}),
    "cosine": (gpulsh.cosine, {"fingerprints": PRINTS, "pairs": PAIRS, **REF}),
    "sample": (gpulsh.sample, {"texts": LETTERS, **REF}),
    **{kind.__name__: (kind, {}) for kind in WITHOUT_PARAMETERS},
    **{kind.__name__: (kind, {"bands": 2, "rows": 2}) for kind in (gpulsh.Banding, gpulsh.BitSampling, gpulsh.SCurve)},
    "EarthMover": (gpulsh.EarthMover, {"distances": LINE}),
    **{f"{type(one).__name__}()": (one, {**given, **REF}) for one, given, _ in SKETCHES},
    **{f"{type(one).__name__}.estimate": (one.estimate, {**made, "pairs": PAIRS, **REF}) for one, _, made in SKETCHES},
    **{f"{type(one).__name__}.standard_deviation": (one.standard_deviation, {"value": 0.5}) for one, *_ in SKETCHES},
    **{f"{type(one).__name__}.from_texts": (one.from_texts, {"texts": LETTERS, **REF}) for one, *_ in SKETCHES[:5]},
}
ELSEWHERE = ("backend", "threads")  # of every call alike, and tried with one


def test_every_public_callable_has_a_test_call() -> None:
    public = {name for name in gpulsh.__all__ if callable(getattr(gpulsh, name)) and not name.endswith("Error")}
    assert public <= {*CALLS, "Decision", "Cut"}  # results, which only a call here makes


OF_PYTHON = {  # few parameters: Python's own message names them well enough
    *("TextBatch", "Fingerprints", "WeightedFingerprints", "Signatures", "PackedSignatures", "BitSignatures"),
    *("BandDigests", "Samples", "EarthMover", "fingerprint", "minima", "md5_signatures", "text_profiles"),
    *("candidate_pairs", "jaccard", "containment", "hamming", "cosine"),
}


@pytest.mark.parametrize("name", sorted(CALLS.keys() & {*gpulsh.__all__} - OF_PYTHON))
def test_an_unknown_keyword_is_refused(name: str) -> None:
    call, given = CALLS[name]
    with pytest.raises(TypeError, match="has no parameter 'qqqq'; its parameters are "):
        call(**given, qqqq=5)


@pytest.mark.parametrize("name", CALLS)
def test_odd_values_give_one_clear_message(name: str, folder: Path) -> None:
    call, given = CALLS[name]
    with gpulsh.Index(**REF) as index:
        index.save("index")
    for parameter in inspect.signature(call).parameters:
        if parameter in ELSEWHERE and name != "shingle":
            continue
        for odd in ODD:
            try:
                call(**{**given, parameter: odd})
            except gpulsh.GpulshError as error:
                assert "\n" not in str(error) and len(str(error)) < 1000, (parameter, odd)
            except Exception as error:
                raise AssertionError(f"{name}({parameter}={odd!r})") from error
