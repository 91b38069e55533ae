"""Whatever a new user gives any parameter of any public name: it is taken, or refused in one short line."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import gpulsh

ON: Any = {"backend": "reference"}
TEXTS = ["a b c d e f g", "A b c d e f g!", "x y z"]
LINE = abs(np.arange(3.0)[:, None] - np.arange(3.0))
PAIRS = [[0, 1]]
ODD = [
    *(None, -1, 0, 3.5, True, 2**70, -0.5, float("nan"), "x", "", b"x", [], [1, 2, 3], [None], {"a": 1}, {1, 2}),
    *(object(), np.zeros((2, 2)), np.array("x"), np.array(2**40), [[1, 2], [3]], (0.5,), len),
    *(np.array([1, 2]), np.array(1), pd.NA, pd.Series([1, 2]), pa.array([1, 2]), "\ud800", "a\0b", 10**400),
    *(10**5000, [10**5000], pa.scalar(1), np.int8(100), np.float32(0.5)),
]

PRINTS = gpulsh.shingle(TEXTS, **ON)
SIGNATURES = gpulsh.MinHash(num_perm=8)(PRINTS, **ON)
BITS = gpulsh.SimHash()(PRINTS, **ON)
DECIDED = gpulsh.deduplicate(TEXTS, **ON)
STUDY = gpulsh.study(TEXTS * 2, **ON)
MOVER = gpulsh.EarthMover(LINE, num_trees=2)
ARRAY, OFFSET = np.zeros(2, np.uint64), np.array([0, 2])
BUILT = gpulsh.HammingTables().build(BITS, **ON)
INDEX = gpulsh.Index(**ON)
INDEX.insert([1, 2, 3], TEXTS)
SKETCHES: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [  # with what it sketches, and what it made
    (gpulsh.MinHash(num_perm=8), {"fingerprints": PRINTS}, {"signatures": SIGNATURES}),
    (gpulsh.SimHash(), {"fingerprints": PRINTS}, {"bit_signatures": BITS}),
    (gpulsh.BottomS(), {"fingerprints": PRINTS}, {"samples": gpulsh.BottomS()(PRINTS, **ON)}),
    (gpulsh.BBit(num_perm=8), {"signatures": SIGNATURES}, {"packed": gpulsh.BBit(num_perm=8)(SIGNATURES, **ON)}),
    (gpulsh.WeightedMinHash(num_perm=8), {"rows": LINE}, {"signatures": SIGNATURES}),
    (gpulsh.KleinbergTardos(num_perm=8), {"vectors": LINE}, {"signatures": SIGNATURES}),
    (gpulsh.Hyperplanes(), {"vectors": LINE}, {"bit_signatures": BITS}),
    (MOVER, {"distributions": np.eye(3)}, {"labels": MOVER(np.eye(3), **ON)}),
]
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "shingle": (gpulsh.shingle, {"texts": TEXTS, **ON}),
    "fingerprint": (gpulsh.fingerprint, {"sets": [[1, 2], [3]], **ON}),
    "minima": (gpulsh.minima, {"sets": [[0, 1], [2]], "functions": np.eye(3, dtype=int), **ON}),
    "MinHash.epsilon": (gpulsh.MinHash(num_perm=8).epsilon, {"sets": PRINTS, **ON}),
    "weigh": (gpulsh.weigh, {"texts": TEXTS, **ON}),
    "md5_signatures": (gpulsh.md5_signatures, {"texts": TEXTS}),
    "text_profiles": (gpulsh.text_profiles, {"texts": TEXTS}),
    "candidate_pairs": (gpulsh.candidate_pairs, {"digests": gpulsh.BandDigests(np.eye(2, dtype=np.uint64)), **ON}),
    "jaccard": (gpulsh.jaccard, {"sketches": PRINTS, "pairs": PAIRS, **ON}),
    "containment": (gpulsh.containment, {"fingerprints": PRINTS, "pairs": PAIRS, **ON}),
    "hamming": (gpulsh.hamming, {"bit_signatures": BITS, "pairs": PAIRS, **ON}),
    "choose_banding": (gpulsh.choose_banding, {}),
    "study": (gpulsh.study, {"texts": TEXTS, **ON}),
    "compare": (gpulsh.compare, {"texts": TEXTS, "methods": ["md5"], **ON}),
    "deduplicate": (gpulsh.deduplicate, {"texts": TEXTS, **ON}),
    "passages": (gpulsh.passages, {"texts": TEXTS, **ON}),
    "cut": (gpulsh.cut, {"texts": TEXTS, "spans": gpulsh.passages(TEXTS, **ON), **ON}),
    "contamination": (gpulsh.contamination, {"texts": TEXTS, "benchmark": TEXTS, **ON}),
    "passages_files": (gpulsh.passages_files, {"inputs": "nothing.jsonl", "output": "out", **ON}),
    "cut_files": (gpulsh.cut_files, {"inputs": "nothing.jsonl", "passages": "no.parquet", "output": "out", **ON}),
    "deduplicate_files": (gpulsh.deduplicate_files, {"inputs": "nothing.jsonl", "output": "out", **ON}),
    "Index": (gpulsh.Index, ON),
    "Index.create": (lambda path: gpulsh.Index.create(path, **ON).close(), {"path": "new"}),
    "Index.insert": (lambda keys, texts: gpulsh.Index(**ON).insert(keys, texts), {"keys": [1, 2, 3], "texts": TEXTS}),
    "Index.add": (lambda keys, texts: gpulsh.Index(**ON).add(keys, texts), {"keys": [1, 2, 3], "texts": TEXTS}),
    "Index.query": (INDEX.query, {"texts": TEXTS}),
    "Index.remove": (lambda keys: gpulsh.Index(**ON).remove(keys), {"keys": []}),
    "Index.remove of a key": (lambda key: INDEX.remove([key]), {"key": 4}),
    "Index.insert of a key": (lambda key: gpulsh.Index(**ON).insert([key], ["a"]), {"key": 1}),
    "fingerprint of an item": (lambda item: gpulsh.fingerprint([[item]], **ON), {"item": 1}),
    "deduplicate a text": (lambda text: gpulsh.deduplicate(["a", text], **ON), {"text": "a"}),
    "Index.__contains__": (INDEX.__contains__, {"key": 1}),
    "Index.open": (gpulsh.Index.open, {"path": "index", **ON}),
    "Index.save": (lambda path: gpulsh.Index(**ON).save(path), {"path": ""}),
    "SCurve.probability": (gpulsh.SCurve(bands=2, rows=2).probability, {"similarity": 0.5}),
    "SCurve.similarity_at": (gpulsh.SCurve(bands=2, rows=2).similarity_at, {"probability": 0.5}),
    "Decision.filter": (DECIDED.filter, {"table": [1, 2, 3]}),
    "Decision.mark": (DECIDED.mark, {"table": pa.table({"text": TEXTS}), "ids": [1, 2, 3]}),
    "Decision.weights": (DECIDED.weights, {"recipe": "log"}),
    "Decision.weights of a weight": (lambda weight: DECIDED.weights({1: weight}), {"weight": 1}),
    "Index.find": (INDEX.find, {"text": "a b c d e f g"}),
    "HammingTables.expected_candidates": (gpulsh.HammingTables().expected_candidates, {"count": 5}),
    "Decision.duplicates": (DECIDED.duplicates, {"ids": [1, 2, 3], "texts": TEXTS}),
    "Study.histogram": (STUDY.histogram, {}),
    "Study.plot": (STUDY.plot, {"path": "x.txt"}),
    "HammingTables.design": (gpulsh.HammingTables().design, {"count": 5}),
    "BuiltTables.query": (BUILT.query, {"bit_signatures": BITS, **ON}),
    "TextBatch": (gpulsh.TextBatch, {"values": np.zeros(2, np.uint8), "offset": OFFSET}),
    "Fingerprints": (gpulsh.Fingerprints, {"values": ARRAY, "offset": OFFSET}),
    "WeightedFingerprints": (
        gpulsh.WeightedFingerprints,
        {"values": ARRAY, "weight": np.ones(2), "offset": np.array([0, 1, 2])},
    ),
    "Signatures": (gpulsh.Signatures, {"values": np.zeros((2, 2), np.uint32)}),
    "PackedSignatures": (gpulsh.PackedSignatures, {"values": np.zeros((2, 1), np.uint64)}),
    "BitSignatures": (gpulsh.BitSignatures, {"values": np.zeros((2, 1), np.uint64)}),
    "BandDigests": (gpulsh.BandDigests, {"values": np.zeros((2, 2), np.uint64)}),
    "Samples": (gpulsh.Samples, {"values": ARRAY, "offset": OFFSET}),
    "cosine": (gpulsh.cosine, {"fingerprints": PRINTS, "pairs": PAIRS, **ON}),
    "sample": (gpulsh.sample, {"texts": TEXTS, **ON}),
    **{kind.__name__: (kind, {}) for kind in (gpulsh.MinHash, gpulsh.OnePermutation, gpulsh.BBit, gpulsh.BottomS)},
    **{kind.__name__: (kind, {}) for kind in (gpulsh.ModM, gpulsh.SimHash, gpulsh.HammingTables, gpulsh.Supershingles)},
    **{kind.__name__: (kind, {}) for kind in (gpulsh.Shingling, gpulsh.Folding)},
    **{kind.__name__: (kind, {"bands": 2, "rows": 2}) for kind in (gpulsh.Banding, gpulsh.BitSampling, gpulsh.SCurve)},
    "EarthMover": (gpulsh.EarthMover, {"distances": LINE}),
    **{kind.__name__: (kind, {}) for kind in (gpulsh.CMinHash, gpulsh.FastSimilarity, gpulsh.Hyperplanes)},
    **{kind.__name__: (kind, {}) for kind in (gpulsh.WeightedMinHash, gpulsh.KleinbergTardos)},
    **{f"{type(one).__name__}()": (one, {**given, **ON}) for one, given, _ in SKETCHES},
    **{f"{type(one).__name__}.estimate": (one.estimate, {**made, "pairs": PAIRS, **ON}) for one, _, made in SKETCHES},
    **{f"{type(one).__name__}.standard_deviation": (one.standard_deviation, {"value": 0.5}) for one, *_ in SKETCHES},
    **{f"{type(one).__name__}.from_texts": (one.from_texts, {"texts": TEXTS, **ON}) for one, *_ in SKETCHES[:5]},
}
ELSEWHERE = ("backend", "threads")  # of every call alike, and tried with one


def test_every_public_callable_is_tried() -> None:
    public = {name for name in gpulsh.__all__ if callable(getattr(gpulsh, name)) and not name.endswith("Error")}
    assert public <= {*CALLS, "Decision", "Cut"}  # results, which nobody makes but a call here


@pytest.mark.parametrize("name", CALLS)
def test_one_clear_message(name: str, folder: Path) -> None:
    call, given = CALLS[name]
    with gpulsh.Index(**ON) as index:
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
