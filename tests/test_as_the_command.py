"""Python takes the names of the command, and answers an unknown name with the nearest one."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
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
def test_sketches_by_name(named: dict[str, Any], same: dict[str, Any], tmp_path: Path) -> None:
    """As the objects in memory, over files, and in an index."""
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
    for number, (sketch, also, distances) in enumerate(
        [
            ("simhash:64:3", "simhash:64:9", (3, 9)),
            ("simhash:64:3", "simhash:64", (3, 18)),
            ("simhash:64", "simhash:64:3", (12, 3)),
        ]
    ):
        given = {"sketch": sketch, "also": also, "threshold": 0.8, **ON}
        made = gpulsh.deduplicate_files(tmp_path / "a.jsonl", tmp_path / str(number), **given)
        assert tuple(made.report["parameters"][name]["distance"] for name in ("near", "also")) == distances
        gpulsh.deduplicate(TEXTS, **given)


def test_names_of_no_sketch() -> None:
    for given in (
        *({"sketch": "minhsh"}, {"sketch": "minhash:0"}, {"sketch": "minhash:64", "num_perm": 32}, {"also": "minhash"}),
        *({"sketch": "simhash:64:3", "distance": 4}, {"also": "simhash:64:3", "distance": 4}),
    ):
        with pytest.raises(ParameterError):
            gpulsh.deduplicate(TEXTS, **given, **ON)


def test_columns_as_a_list(tmp_path: Path) -> None:
    table = pa.table({"title": ["a b", "a b", "x"], "meta": [{"body": "c d e"}] * 3, "id": [1, 2, 3]})
    listed = gpulsh.deduplicate(table, text_column=["title", "meta.body"], **ON)
    assert listed == gpulsh.deduplicate(table, text_column="title,meta.body", **ON)
    assert listed.keep.tolist() == [True, False, True]
    write_rows(tmp_path / "a.jsonl", table)
    result = gpulsh.deduplicate_files(tmp_path / "a.jsonl", tmp_path / "o", text_column=["title", "meta.body"], **ON)
    assert result.report["parameters"]["text_column"] == "title,meta.body" and result.funnel["dropped"] == 1


def test_no_columns(tmp_path: Path) -> None:
    for odd in ([], ["a", 1], 3, ["a,b", "c"], ["column:a", "b"], {"a"}):
        given: Any = {"text_column": odd, **ON}
        with pytest.raises(ParameterError, match="text_column"):
            gpulsh.deduplicate(pa.table({"a": TEXTS}), **given)
        with pytest.raises(ParameterError, match="text_column"):
            gpulsh.deduplicate_files(tmp_path / "a.jsonl", tmp_path / "out", **given)


def test_unknown_keywords() -> None:
    calls: list[tuple[Callable[..., Any], str, str]] = [
        (partial(gpulsh.deduplicate, TEXTS), "shingle", "shingling"),
        (partial(gpulsh.deduplicate, TEXTS), "num_hashes", "num_perm"),
        (partial(gpulsh.deduplicate_files, "a", "b"), "num_hashes", "num_perm"),
        (partial(gpulsh.deduplicate_files, "a", "b"), "text_colum", "text_column"),
        (partial(gpulsh.shingle, TEXTS), "shingle", "shingling"),
        (gpulsh.Index, "num_hashes", "num_perm"),
        (partial(gpulsh.Index.open, "x"), "treshold", "threshold"),
        (gpulsh.MinHash, "num_hashes", "num_perm"),
        (gpulsh.OnePermutation, "numperm", "num_perm"),
        (gpulsh.SimHash, "bit", "bits"),
        (gpulsh.Hyperplanes, "sed", "seed"),
        (gpulsh.BBit, "num_hashes", "num_perm"),
        (gpulsh.BottomS, "sizes", "size"),
        (gpulsh.ModM, "modulo", "modulus"),
        (gpulsh.HammingTables, "distances", "distance"),
        (gpulsh.Shingling, "sizes", "size"),
        (gpulsh.Folding, "cases", "case"),
        (gpulsh.Banding, "band", "bands"),
        (gpulsh.BitSampling, "row", "rows"),
        (gpulsh.Supershingles, "group", "groups"),
        (gpulsh.SCurve, "band", "bands"),
        (gpulsh.choose_banding, "num_hashes", "num_perm"),
        (partial(gpulsh.weigh, TEXTS), "shingle", "shingling"),
        (partial(gpulsh.sample, TEXTS), "treshold", "thresholds"),
        (partial(gpulsh.study, TEXTS), "treshold", "threshold"),
        (partial(gpulsh.compare, TEXTS), "treshold", "threshold"),
    ]
    for call, unknown, meant in calls:
        with pytest.raises(UnknownParameterError, match=f"has no parameter '{unknown}'; did you mean {meant}\\?"):
            call(**{unknown: 5})
        with pytest.raises(TypeError, match="has no parameter 'qqqq'; its parameters are "):
            call(qqqq=5)


def test_the_nearest_column(folder: Path, command: Command) -> None:
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
