"""The page beside its counts: the command that repeats the run, warnings, and a choice of clusters."""

import json
import re
import shlex
import shutil
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulsh
from gpulsh.arrays import Values
from gpulsh.backends.reference.texts import code_points
from gpulsh.cli import main
from gpulsh.errors import InputError, ParameterError
from gpulsh.method import Method
from gpulsh.params import PLAIN, Reading, Shingling, Unit
from gpulsh.report import originals
from gpulsh.report.drawn_rows import (
    MEMBERS,
    SAMPLE,
    SIZES,
    DroppedRows,
    ReadRows,
    draw_clusters,
    example_rows,
    member_rows,
)
from gpulsh.report.excerpts import SHOWN_CHARACTERS, differences, pieces
from gpulsh.report.excerpts import excerpts as cut
from gpulsh.report.page import cautions, missing_requirement
from gpulsh.report.reproduce import command, describe_method
from gpulsh.run.files import FilesResult, deduplicate_files
from tests.support.files import write_rows
from tests.support.texts import READINGS, shingling_of


@pytest.mark.parametrize(
    "options",
    [
        {"threshold": 0.65, "shingling": "char:9+symbols", "normalize": "NFKC", "sketch": "one-permutation:64"},
        {"verify": "none", "resolve": "components", "bands": 4, "rows": 4, "keep": "longest", "across": True},
        {"sketch": gpulsh.SimHash(bits=128, seed=5), "distance": 2},
        {"sketch": gpulsh.SimHash(), "also": gpulsh.SimHash(bits=128), "distance": 1},
        {"seed": 7, "also": gpulsh.SimHash(seed=7), "distance": 4},
        {"measure": "containment", "write": "duplicates", "on_error": "skip", "id_column": "id"},
        {"index": "known", "keep": "longest", "id_column": "name"},
        {"weights": "txt360", "weight_by": "component"},
    ],
)
def test_the_shown_command_reproduces_the_run(options: dict[str, Any], folder: Path) -> None:
    inputs = ["a b.jsonl", "$c'.jsonl"]
    for name in inputs:
        write_rows(name, [{"id": n, "name": f"{name} {n}", "text": "the same few words " * n} for n in (3, 4)])
    first = deduplicate_files(inputs, "first", backend="reference", **options).report
    line = command(first)
    assert line is not None and line.startswith("gpulsh dedup ")
    shutil.rmtree("known", ignore_errors=True)
    assert main([*shlex.split(line.replace("-o OUT", "-o again"))[1:], "--backend", "reference"]) == 0
    again = json.loads(Path("again/report.json").read_text())
    assert again["job"] == first["job"] and again["digest"] == first["digest"]
    sentences = " ".join(describe_method(first["parameters"]))
    assert ("longer text" in sentences) == (first["parameters"]["keep"] == "longest")
    assert f"{first['parameters']['threshold']:g}" in sentences or options.get("verify") == "none"
    for name, rule in (("sketch", "agree in the key"), ("also", "differ in at most")):
        assert (f"their SimHash signatures {rule}" in sentences) == hasattr(options.get(name), "near")
    assert (f"differ in at most {options.get('distance')} of 128 bits" in sentences) == any(
        getattr(options.get(name), "bits", 0) == 128 for name in ("sketch", "also")
    )


def test_runs_that_only_python_can_start_have_no_command() -> None:
    for method in (
        Method.choose(folding=gpulsh.Folding(case=False)),
        Method.choose(shingling=gpulsh.Shingling(hash="rabin")),
        Method.choose(sketch=gpulsh.SimHash(weights="count"), distance=3),
        Method.choose(also=gpulsh.SimHash(seed=2), distance=3),
        Method.choose(also=gpulsh.SimHash(), seed=2, distance=3),
    ):
        assert command({"inputs": ["a"], "parameters": json.loads(method.to_json())}) is None


def test_large_clusters_and_losses_give_warnings() -> None:
    inputs = [{"name": f"in{n}", "rows": 10, "rejected": 2, "dropped": n} for n in (4, 5)]
    clusters = [{"cluster": 7, "dropped": 11}, {"cluster": 8, "dropped": 10}]
    report = {
        "funnel": {"documents": 1900, "protected": 900},
        "evidence": {"clusters": {"sample": clusters}},
        "hints": ["short"],
    }
    report["files"] = [{"file": "a.jsonl", "rows": 1000}]
    hint, cluster, source = cautions(report, inputs)
    assert hint == "short" and cluster.startswith("cluster 7 (a.jsonl, row 7): 11 documents dropped, 1.1 % of all")
    assert source == "in5 loses 62.5 % of its documents"
    more = "more than half of the documents of 1 more INPUT are dropped"
    assert cautions(report, inputs[1:] * 6)[2:] == [source] * 5 + [more]
    assert cautions({**report, "funnel": {"documents": 1000, "protected": 1}}, inputs[:1]) == ["short"]


def rows_of(similarity: Values, cluster: Values) -> ReadRows:
    """The rows, some at a time."""
    columns = np.arange(len(cluster)), similarity.astype(np.float32), cluster
    return lambda: (
        DroppedRows(*(column[start : start + 64] for column in columns)) for start in range(0, len(cluster), 64)
    )


@pytest.mark.parametrize("bits", [0, 1, 5, 10])
def test_clusters_are_the_largest_and_those_next_to_the_threshold(bits: int) -> None:
    rng = np.random.default_rng(5)
    cluster = rng.integers(0, 400, 2000) * 3
    similarity = rng.uniform(0.5, 1.0, 2000).astype(np.float32)
    similarity[rng.random(2000) < 0.3] = 1
    read = rows_of(similarity, cluster)
    found = draw_clusters(read, 0.8, bits)
    by_kind = {kind: [label for label, kinds in found.kinds.items() if kind in kinds] for kind in SAMPLE}
    assert {kind: len(numbers) for kind, numbers in by_kind.items()} == SAMPLE
    size = Counter(cluster.tolist())
    assert found.size_counts.sum() == len(size) and found.sizes == {label: size[label] for label in found.kinds}
    classes = zip(SIZES, [*SIZES[1:], 1 << 60], strict=True)
    assert found.size_counts.tolist() == [sum(low <= count < high for count in size.values()) for low, high in classes]
    assert set(by_kind["largest"]) == set(sorted(size, key=lambda label: (-size[label], label))[: SAMPLE["largest"]])
    with_near = set(cluster[similarity < 1].tolist())
    scattered = sorted(with_near, key=lambda label: label * 0x9E3779B97F4A7C15 % 2**64)
    assert set(by_kind["random"]) == set(scattered[: SAMPLE["random"]])
    for kind, here in (("above", similarity >= np.float32(0.8)), ("below", similarity < np.float32(0.8))):
        far = np.abs(similarity - np.float32(0.8))
        ranked = [int(cluster[row]) for row in np.argsort(far, kind="stable") if here[row] and similarity[row] < 1]
        assert set(by_kind[kind]) == set(list(dict.fromkeys(ranked))[: SAMPLE[kind]])
        shown = member_rows(read, found.kinds, 0.8)[by_kind[kind][0]]
        of_cluster = [row for row in np.argsort(far, kind="stable").tolist() if cluster[row] == by_kind[kind][0]]
        assert shown.tolist() == of_cluster[:MEMBERS]
    again = draw_clusters(read, 0.8)
    assert (dict(found.kinds), found.sizes) == (dict(again.kinds), again.sizes)


def test_clusters_of_copies_are_drawn_where_there_are_no_others() -> None:
    unknown = np.full(9, np.nan, np.float32)  # some are shown though no similarity was measured
    for similarity in (unknown, np.ones(9, np.float32)):
        read = rows_of(similarity, np.arange(9) // 5)
        assert draw_clusters(read, 0.8, 3).kinds == {0: ["largest", "random"], 1: ["largest", "random"]}
        assert [len(rows) for rows in member_rows(read, (0, 1), 0.8).values()] == [MEMBERS, MEMBERS]
    nothing = rows_of(unknown[:0], np.arange(0))
    assert not draw_clusters(nothing, 0.8).kinds and not member_rows(nothing, (), 0.8)
    assert len(example_rows(nothing)) == 0


# --- shares by a column: read again from INPUT, they are those of counting by hand ---


WORDS = "every one of these words is in all of them"


def test_examples_of_many_dropped_documents_are_drawn_from_some(monkeypatch: pytest.MonkeyPatch) -> None:
    similarity, cluster = np.linspace(0.9, 0.5, 30, dtype=np.float32), np.arange(30) // 2
    read = rows_of(similarity, cluster)
    assert example_rows(read).tolist() == [28, 22, 16, 12, 6, 0]
    monkeypatch.setattr("gpulsh.report.drawn_rows.MANY_ROWS", 4)
    assert example_rows(read).tolist() == [24, 16, 8, 0]


@pytest.fixture
def result(folder: Path) -> FilesResult:
    """A run that drops rows 1, 3 and 5 of the first file and row 0 of the second, which has one broken line."""
    texts = ["a text of its own", WORDS, "another one", WORDS, "and a third", WORDS]
    rows = {"lang": ["en", "de", None, "en", "en", "de"], "year": [1, 2, 2, 2, 3, 3], "text": texts}
    write_rows("a.parquet", pa.table({**rows, "of": [[1]] * 6}), 4)
    last = '{"text": "the last one", "lang": "en", "year": "x"}'
    Path("b.jsonl").write_text(f'{{"text": "{WORDS}", "lang": "fr", "year": 3}}\n{{broken\n{last}\n')
    write_rows("test.jsonl", [{"text": WORDS, "lang": "xx"}])
    inputs: Any = ["a.parquet", "b.jsonl"]
    return deduplicate_files(inputs, "out", protect="test.jsonl", on_error="skip", backend="reference")


def test_shares_of_a_full_dictionary(folder: Path) -> None:
    codes = pa.array([*range(128), None], pa.int8())
    column = pa.DictionaryArray.from_arrays(codes, pa.array([f"value {number}" for number in range(128)]))
    path = write_rows("a.arrow", pa.table({"text": [f"text {row}" for row in range(129)], "of": column}))
    found = deduplicate_files(path, "out", backend="reference").shares("of")
    assert found["documents"].to_pylist() == [1] * 129 and found["value"].to_pylist()[0] is None


def test_shares_count_documents_and_dropped_ones(result: FilesResult) -> None:
    rows = [tuple(row.values()) for row in result.shares("lang").to_pylist()]
    assert rows == [("en", 4, 1), ("de", 2, 2), (None, 1, 0), ("fr", 1, 1)]
    years = result.shares("year")
    assert years.schema == pa.schema({"value": pa.string(), "documents": pa.int64(), "dropped": pa.int64()})
    assert years["value"].to_pylist() == ["2", "3", "1", "x"] and years["dropped"].to_pylist() == [2, 2, 0, 0]
    found = deduplicate_files("b.jsonl", "lines", on_error="skip", backend="reference")
    with pytest.raises(InputError, match=r"^column 'langauge': no document has a value; name another field"):
        found.shares("langauge")
    assert found.shares("lang")["value"].to_pylist() == ["en", "fr"]


def test_shares_join_equal_values_of_different_formats(folder: Path) -> None:
    dates, prices = pa.array([19723], pa.date32()), pa.array(["1.50"]).cast(pa.decimal128(5, 2))
    write_rows("a.parquet", pa.table({"text": ["a text"], "date": dates, "price": prices}))
    write_rows("b.jsonl", [{"text": "another", "date": "2024-01-01", "price": "1.50"}])
    found = deduplicate_files(["a.parquet", "b.jsonl"], "out", backend="reference")
    for column, value in {"date": "2024-01-01", "price": "1.50"}.items():
        assert found.shares(column).to_pylist() == [{"value": value, "documents": 2, "dropped": 0}]


def test_report_by_adds_shares_to_the_page(
    result: FilesResult, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jinja2")
    monkeypatch.setattr(originals, "LISTED_VALUES", 1)
    page = Path("out/report.html")
    assert "Dropped documents by <bdi>" not in page.read_text()
    assert main(["report", "out", "--by", "lang", "--by", "year", "--by", "lang"]) == 0
    (lang, year) = json.loads(Path("out/report.json").read_text())["shares"]
    assert lang["column"] == "lang" and lang["values"] == [{"value": "en", "documents": 4, "dropped": 1}]
    assert lang["more"] == {"values": 3, "documents": 4, "dropped": 3} and year["values"][0]["value"] == "2"
    html = page.read_text()
    assert "Dropped documents by <bdi>lang</bdi>" in html and "<td><td" not in html and "75 %" in html
    assert main(["report", "out", "--by", "year"]) == 0 and page.read_text().count("Dropped documents by <bdi>") == 2
    assert main(["report", "out", "--by", "none"]) == 1
    assert (
        "a.parquet: has no column 'none', which --by names; its columns are" in capsys.readouterr().err
        and page.read_text().count("by <bdi>") == 2
    )


def test_shares_beyond_the_memory_are_one_line(
    result: FilesResult, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(originals, "value_strings", lambda _: bytearray(16 << 30))
    assert main(["report", "out", "--by", "lang"]) == 1
    assert re.search(r"^gpulsh: error: a\.parquet: needs more memory than the \d+ MiB", capsys.readouterr().err, re.M)


def test_shares_refuse_wrong_columns_and_changed_files(result: FilesResult, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"column 'of' is list<.*>; name a column of texts, numbers or dates"):
        result.shares("of")
    with pytest.raises(InputError, match="has no column 'none', which column names; its columns are"):
        result.shares("none")
    monkeypatch.setattr(originals, "MAX_VALUES", 3)
    with pytest.raises(ParameterError, match="'lang' has more than 3 values; name a column with fewer"):
        result.shares("lang")
    with Path("b.jsonl").open("a") as file:
        file.write("\n")
    with pytest.raises(InputError, match=r"b\.jsonl: has changed since the run"):
        result.shares("year")


# --- excerpts of two texts: cut around their difference, and only tokens that the method compares are marked ---


CHINESE = "今天天气很好我们一起去公园散步看见许多花开得非常美丽孩子们在草地上奔跑老人坐在长椅上聊天"
ALPHABET = [*"aB é", "İ", "ß", "Σ", "本", "\u30ab", "ไ", "ท", "्", "क", "1", ".", "\n", "\u200b", "…", "\U0001f600"]
OTHER = CHINESE.replace("公园", "城里").replace("老人", "他")
CASED, SYMBOLS = Reading(case=False), Reading(symbols=True)
Marks = tuple[list[str], list[str]]
# Two texts, their comparison, and the marks of each.
MARKED: list[tuple[str, str, dict[str, Any], Marks]] = [
    *((CHINESE, OTHER, {"unit": unit}, (["公园", "老人"], ["城里", "他"])) for unit in ("word", "char")),
    # Text that the method does not compare is not marked.
    *(("One, two; three!", "ONE two\nThree", {"unit": unit}, ([], [])) for unit in ("word", "char")),
    ("one two", "onetwo", {"unit": "char"}, ([" "], [])),
    ("ﬁne print", "fine print", {}, (["ﬁne"], ["fine"])),
    ("ﬁne print", "fine print", {"form": "NFKC"}, ([], [])),
    ("Use C++ now", "use C# now", {}, ([], [])),
    ("Use C++ now", "use C# now", {"reading": SYMBOLS}, (["++"], ["#"])),
    ("Use C++ now", "use C# now", {"reading": CASED}, (["Use"], ["use"])),
    # Words are marked whole, with the separators between them.
    ("a red, old car here", "a blue, new car here", {}, (["red, old"], ["blue, new"])),
    ("a red car", "a rad car", {"unit": "char"}, (["e"], ["a"])),
    # Nor is text that was cut off.
    ("one two three", "one two…", {}, ([], [])),
    ("…one two three five", "…one four three…", {}, (["two"], ["four"])),
    ("", "anything", {}, ([], [])),
]


@pytest.mark.parametrize(("one", "other", "how", "marks"), MARKED)
def test_tokens_that_differ_are_marked(one: str, other: str, how: dict[str, Any], marks: Marks) -> None:
    shingling = shingling_of(how.get("unit", "word"), 5, *how.get("reading", PLAIN))
    found = differences([one, other], shingling, how.get("form"))
    assert ["".join(piece for _, piece in side) for side in found] == [one, other]
    assert tuple([piece for differs, piece in side if differs] for side in found) == marks


@pytest.mark.skipif(missing_requirement() is not None, reason="jinja2 is not installed")
@pytest.mark.parametrize("unit", ["word", "char"])
def test_the_page_marks_different_tokens(unit: Unit, tmp_path: Path) -> None:
    texts = [CHINESE, CHINESE.replace("园", "路") + "。"]
    write_rows(tmp_path / "a.jsonl", texts)
    shingling = Shingling(unit=unit, size=2)
    deduplicate_files(tmp_path / "a.jsonl", tmp_path / "out", shingling=shingling, backend="reference")
    html = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert re.findall("<mark>(.*?)</mark>", html) == ["路", "园"] * 2  # in the sample of clusters and below it


@given(st.text(ALPHABET, max_size=12), st.sampled_from(["word", "char"]), st.booleans(), st.sampled_from(READINGS))
def test_pieces_equal_the_tokens_of_the_reference(text: str, unit: Unit, composed: bool, reading: Reading) -> None:
    text = unicodedata.normalize("NFC", text) if composed else text
    found = pieces(text, shingling_of(unit, 5, *reading), "NFC" if composed else None)
    assert "".join(piece.text for piece in found) == text
    expected = ["".join(map(chr, token)) for token in code_points(text.encode(), unit, reading)]
    assert [piece.token for piece in found if piece.token is not None] == expected


@given(
    st.sampled_from(["w", "a word ", "x" * 700, "字", "\U0001f600 "]),
    st.sampled_from([0, 1, SHOWN_CHARACTERS - 1, SHOWN_CHARACTERS, SHOWN_CHARACTERS + 1, 40_000]),
)
def test_excerpts_are_short_and_show_the_difference(word: str, size: int) -> None:
    text = (word * (size // len(word) + 1))[:size].strip()
    one, other = cut(text + " this", text + " that")
    assert max(len(one), len(other)) <= SHOWN_CHARACTERS + 2
    assert one.endswith("this") and other.endswith("that")
    assert cut(text, text)[0] == cut(text, text)[1] == cut(text, "")[0]


def test_excerpts_of_lines_equal_those_of_one_line() -> None:
    words = [f"w{number}" for number in range(300)]
    flat, lines = " ".join(words), " \n  ".join(words)
    for change in (0, 100, 150, 299):
        others = [text.replace(f"w{change}", "other", 1) for text in (flat, lines)]
        (one, two), (three, four) = cut(flat, others[0]), cut(lines, others[1])
        assert [" ".join(three.split()), " ".join(four.split())] == [one, two]
