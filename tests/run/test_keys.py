"""`key=`: the first document of each key stays, before texts are compared; against a dictionary of keys."""

import dataclasses
import json
import math
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulsh
from gpulsh.__main__ import main
from gpulsh.budget import TaskSizes
from gpulsh.errors import BackendError, InputError, ParameterError
from gpulsh.io.arrow.copy_keys import normalized_urls, python_copy_keys
from gpulsh.report.reproduce import command, describe_method
from gpulsh.report.summary import funnel_table, summary
from gpulsh.run.key_rule import KeyHashes
from gpulsh.secret import chosen_secret, evidence_keys
from tests.decide.test_decision import corpus
from tests.io.formats.test_warc import page
from tests.run import test_partitioned as parts
from tests.run.test_partitioned import SHINGLING, Given, assert_rows, cut_as, cuts, in_memory, resolves, run, thresholds
from tests.support import naive
from tests.support.files import damage_column, read_rows, record, write_rows
from tests.support.runs import evidence
from tests.support.runs import run as run_plain

Key = str | int | bytes | None


def copies_by_key(
    keys: Sequence[Key], priority: Sequence[float], protected: int = 0, sources: Sequence[int] | None = None
) -> dict[int, int]:
    """Each document whose key an earlier one in decision order has, with the first of those."""
    first: dict[Any, int] = {}
    guarded: dict[str, int] = {}  # by key, for documents of any source
    found = {}
    for i in sorted(range(len(keys)), key=lambda i: (i >= protected, -priority[i], i)):
        if keys[i] not in (None, "", b""):
            key = str(keys[i])
            if i < protected:
                guarded.setdefault(key, i)
            elif key in guarded:
                found[i] = guarded[key]
            elif (of := first.setdefault((key, sources and sources[i]), i)) != i:
                found[i] = of
    return found


def by_definition(
    documents: naive.Documents,
    keys: Sequence[Key],
    priority: Sequence[float],
    threshold: float,
    *,
    only: bool = False,
    sources: Sequence[int] | None = None,
    protected: int = 0,
    **how: Any,
) -> tuple[list[int], list[float], list[int], naive.Decision]:
    """Decide only the first document of each key; every other one follows its first."""
    copies = copies_by_key(keys, priority, protected, sources)
    sequences = [() if i in copies or only else words for i, words in enumerate(documents.sequences)]
    left = dataclasses.replace(documents, sequences=sequences)
    decision = naive.greedy(left, threshold, priority, sources=sources, protected=protected, **how)
    target = [decision.duplicate_of[copies.get(i, i)] for i in range(len(keys))]
    similarity = [math.nan if i in copies else decision.similarity[i] for i in range(len(keys))]
    edges = [*decision.pairs, *((min(pair), max(pair)) for pair in copies.items())]
    return target, similarity, naive.components(len(keys), edges), decision


some_keys = st.sampled_from([None, "", *parts.URLS, "a", "b"])


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0, 1, 12, 40]), thresholds, resolves, st.booleans(), st.data())
def test_decisions_in_memory_follow_the_definition(
    backend: Any, seed: int, size: int, threshold: float, resolve: Any, only: bool, data: st.DataObject
) -> None:
    documents = Given(corpus(seed, size, 2, 8, 0.05) if size else [], [0] * size, "int", seed)
    keys = data.draw(st.lists(some_keys, min_size=size, max_size=size))
    priority = data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    how: dict[str, Any] = {"threshold": threshold, "resolve": resolve, "shingling": SHINGLING, "threads": 1}
    how |= {"priority": np.array(priority, np.int64), "backend": backend}
    with cut_as(parts.WHOLE):
        found = gpulsh.deduplicate(documents.texts, key=keys, key_only=only, **how, **parts.BANDING)
    target, similarity, cluster, decision = by_definition(
        documents.documents, keys, priority, threshold, only=only, resolve=resolve, small_bucket=parts.SMALL_BUCKET
    )
    assert found.duplicate_of.tolist() == target
    np.testing.assert_array_equal(found.similarity, np.array(similarity, np.float32))
    assert found.cluster.tolist() == cluster
    assert [tuple(pair) for pair in found.pairs.tolist()] == sorted(decision.pairs)
    assert found.keep.tolist() == [i == of for i, of in enumerate(target)]
    funnel, copies = found.funnel, copies_by_key(keys, priority)
    assert funnel.key_copies == len(copies)
    assert funnel.dropped == int((~found.keep).sum()) == funnel.documents - funnel.kept
    assert funnel.dropped == (
        funnel.key_copies + funnel.copies_of_kept + funnel.copies_of_dropped + funnel.near_duplicates
    )
    if not only:  # by containment, too, the others are decided as without the documents that a key drops
        how["measure"] = "containment"
        contained = gpulsh.deduplicate(documents.texts, key=keys, **how).duplicate_of
        left = [None if i in copies else text for i, text in enumerate(documents.texts)]
        others = np.delete(np.arange(size), list(copies))
        assert contained[others].tolist() == gpulsh.deduplicate(left, **how).duplicate_of[others].tolist()


@settings(max_examples=9)
@given(
    st.one_of(parts.givens(("int",)), parts.givens(("int", "date"), protecting=True)),
    cuts,
    thresholds,
    resolves,
    st.integers(0, 4),
    st.booleans(),
    st.sampled_from([{}, {"key_only": True}, {"measure": "containment"}]),
)
def test_decisions_over_files_follow_the_definition(
    documents: Given, cut: TaskSizes, threshold: float, resolve: Any, policy: int, within: bool, how: dict[str, Any]
) -> None:
    keep = parts.policies(documents)[policy]
    options: dict[str, Any] = {"threshold": threshold, "resolve": resolve, **how}
    with tempfile.TemporaryDirectory() as folder:
        _, rows = run(documents, Path(folder), cut, keep=keep, id_column="id", key="url", within=within, **options)
    if not within and not documents.protected:
        known = {"key": documents.urls, "shingling": SHINGLING, **options, **parts.BANDING}
        assert_rows(rows, in_memory(documents, keep, **known)[0])
    if "measure" in how:
        return
    priority = list(map(float, documents.priority(keep)))
    shape = {"protected": documents.guarded, "sources": documents.sources if within else None}
    only, definition = "key_only" in how, {"resolve": resolve, "small_bucket": parts.SMALL_BUCKET, **shape}
    wanted = by_definition(documents.documents, documents.urls, priority, threshold, only=only, **definition)
    assert_rows(rows, wanted[:3])
    copies, words = copies_by_key(documents.urls, priority, **shape), documents.documents.sequences
    assert [row["reason"] for row in rows] == [
        "key" if row["id"] in copies else "exact" if words[row["id"]] == words[row["duplicate_of_id"]] else "near"
        for row in rows
    ]


def test_normalized_urls_are_compared() -> None:
    urls = [
        *["http://Example.com/a?x=1&y=2", "HTTP://example.com/b/../a?y=2&x=1#top", "http://[::1", "http://a:99999/"],
        *["http://example.com/a?x=2", None, "", "日本 😀", "日本%20😀"],
    ]
    found = gpulsh.deduplicate([f"text {i}" for i in range(9)], key=urls, normalize_url=True, backend="reference")
    assert found.duplicate_of.tolist() == [0, 0, 2, 3, 4, 5, 6, 7, 7]
    assert normalized_urls(python_copy_keys(["http://a:99999/"])).to_pylist() == [b"http://a:99999/"]


def test_copies_by_key_are_counted_and_refuse_policies() -> None:
    texts = ["one two three", "One two three!", "four five", "six seven"]
    for only, copies in ((False, 2), (True, 1)):
        found = gpulsh.deduplicate(texts, key=["u", None, None, "u"], key_only=only, backend="reference")
        counted = found.counts().to_pydict()
        assert [1 + sum(row) for row in zip(counted["copies"], counted["near"], strict=True)] == counted["component"]
        assert sum(counted["component"]) == 4 and counted["copies"][0] == copies and sum(counted["near"]) == 0
    for policy in ("min_cluster", "max_copies"):
        with pytest.raises(gpulsh.ParameterError, match=f"key and {policy} cannot be combined"):
            gpulsh.deduplicate(texts, key=["u"] * 4, backend="reference", **{policy: 2})


# --- over files: the same keys in each format, one clear line for a bad key, and resumed runs ---


Values = list[Any]


def dropped(out: Path) -> list[tuple[int, int]]:
    return [(row["row"], row["duplicate_of_row"]) for row in evidence(out)]


def texts_with(keys: Values) -> list[dict[str, Any]]:
    return [{"text": f"page {number} of some words", "url": key} for number, key in enumerate(keys)]


def as_table(keys: Values, kind: Any = None) -> pa.Table:
    return pa.Table.from_pylist(texts_with(keys), pa.schema({"text": pa.string(), "url": kind or pa.array(keys).type}))


def write(form: str, folder: Path, keys: Values) -> Path:
    rows: Any = texts_with(keys) if form in ("csv", "jsonl") else as_table(keys)
    if form == "arrow" and pa.types.is_string(rows["url"].type):
        rows = rows.set_column(1, "url", rows["url"].dictionary_encode())
    return Path(write_rows(folder / f"a.{form}", rows, 3))


FORMATS = ["csv", "jsonl", "parquet", "arrow"]
STRINGS = ["http://a/1", "b", None, "http://a/1", None, "", "b", "", *("x\0y", "x\0z", "日本", "e\u0301", "é", "日本")]
SAME = [(3, 0), (6, 1), (13, 10)]
NUMBERS = [7, -7, None, 70, 7, 2**63 - 1, None, 2**63 - 1]


@pytest.mark.parametrize(("form", "only"), [*((form, True) for form in FORMATS), ("jsonl", False)])
def test_keys_are_read_in_each_format(form: str, only: bool, tmp_path: Path) -> None:
    for name, keys, same in (("s", STRINGS, SAME), ("n", NUMBERS, [(4, 0), (7, 5)])):
        run_plain(write(form, tmp_path / name, keys), tmp_path / f"{name}out", key="url", key_only=only)
        rows = evidence(tmp_path / f"{name}out")
        assert dropped(tmp_path / f"{name}out") == same and {row["reason"] for row in rows} == {"key"}
        assert all(row["similarity"] != row["similarity"] for row in rows)


def test_keys_of_different_formats_and_types_are_equal(folder: Path) -> None:
    """An integer equals its digits, and bytes equal the text that they encode."""
    for form, keys in (("csv", ["7", "b"]), ("jsonl", [7, "b"]), ("parquet", [b"7", b"b"])):
        write(form, folder, keys)
    write_rows("b.parquet", as_table([7, 8], pa.uint8()))
    feather.write_feather(as_table(["8", "b"], pa.large_string()), "b.arrow")
    run_plain(["a.csv", "a.jsonl", "a.parquet", "b.parquet", "b.arrow"], key="url", key_only=True)
    assert [(row["file"], row["row"]) for row in evidence("out")] == [
        *(("a.jsonl", 0), ("a.jsonl", 1), ("a.parquet", 0), ("a.parquet", 1)),
        *(("b.parquet", 0), ("b.arrow", 0), ("b.arrow", 1)),
    ]


def test_keys_may_be_bytes_or_objects(folder: Path) -> None:
    """They may be bytes of a fixed length, such as a UUID, and a field of objects."""
    ids = [uuid.UUID(int=number).bytes for number in (5, 6, 5)]
    write_rows("a.parquet", as_table(ids, pa.binary(16)))
    write_rows("b.parquet", as_table([{"id": "a"}, None, {"id": "a"}]))
    for path, key in (("a.parquet", "url"), ("b.parquet", "url.id")):
        run_plain(path, folder / key, key=key)
        assert dropped(folder / key) == [(2, 0)]


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_a_key_column_of_floats_without_a_value_is_null(form: str, folder: Path) -> None:
    """pandas gives a column without values this type."""
    (folder / "a.jsonl").write_text('{"text": "a", "url": "b"}\n{"text": "a", "url": "b"}\n')
    write_rows(f"a.{form}", as_table([None, None], pa.float64()))
    run_plain(["a.jsonl", f"a.{form}"], key="url", key_only=True)
    assert [(row["file"], row["row"]) for row in evidence("out")] == [("a.jsonl", 1)]


@pytest.mark.parametrize(
    ("form", "keys", "message"),
    [
        ("jsonl", ["a", None, 1.5], "line 3: 'url' is a number; key takes a string, an integer or null"),
        ("jsonl", [True, "a"], "line 1: 'url' is a boolean"),
        ("jsonl", ["a", {"b": 1}], "line 2: 'url' is an object"),
        ("parquet", [1.5, 2.5], "column 'url' is double; key takes text, bytes or integers"),
        ("arrow", [[1], [2]], "column 'url' is list<item: int64>; key takes"),
    ],
)
def test_a_wrong_key_in_a_file_is_named(form: str, keys: Values, message: str, tmp_path: Path) -> None:
    path = write(form, tmp_path, keys)
    with pytest.raises(InputError) as raised:
        run_plain(path, tmp_path / "out", key="url")
    assert message in str(raised.value) and str(raised.value).startswith(f"{path}: ") and "\n" not in str(raised.value)
    assert not (tmp_path / "out").exists()


def test_a_missing_key_column_is_named(tmp_path: Path) -> None:
    for form in FORMATS:
        with pytest.raises(InputError, match=r"has no column 'uri', which key names; .*did you mean 'url'\?"):
            run_plain(write(form, tmp_path, ["a"]), tmp_path / "out", key="uri")
    (tmp_path / "a.txt").write_text("words")
    with pytest.raises(InputError, match="is plain text and has no column 'uri', which key names; give Parquet"):
        run_plain(tmp_path / "a.txt", tmp_path / "out", key="uri")


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("url", "key is of type str; give a column or a list"),
        ({"a", "b"}, "key is of type set; give a column or a list"),
        (["a"], "key has 1 value for 2 documents"),
        ([1.5, 2], "key is a column of double; give text, bytes or integers"),
        (["a", 1.5], r"key\[1\] is 1.5; give text, bytes or integers"),
        ([True, "a"], r"key\[0\] is True"),
        ([1, 10**5000], r"key\[1\] is an integer of 16610 bits; give integers of at most 4,300 digits"),
    ],
)
def test_wrong_keys_in_memory_are_refused(key: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        gpulsh.deduplicate(["a", "b"], key=key, backend="reference")


def test_columns_of_all_libraries_are_keys() -> None:
    import pandas as pd
    import polars as pl

    keys = ["a", None, "a"]
    columns: list[Any] = [keys, np.array(keys, object), pa.array(keys), pa.chunked_array([keys[:1], keys[1:]])]
    columns += [pd.Series(keys), pl.Series(keys), pd.Series(keys, dtype="category"), pa.array([b"a", None, b"a"])]
    columns += [np.array([1, 2, 1]), [2**70, None, 2**70], ["\ud800", None, "\ud800"], [b"a", None, "a"]]
    columns += [pd.Series(["a", float("nan"), "a"]), np.array(["a", "", "a"]), ["1", pd.NA, 1]]
    for key in columns:
        found = gpulsh.deduplicate(["x", "y", "z"], key=key, backend="reference")
        assert found.duplicate_of.tolist() == [0, 1, 0], key
    words = [pa.array([f"{part} {word}" for word in range(100)]).dictionary_encode() for part in "ab"]
    categories = pa.chunked_array([part.cast(pa.dictionary(pa.int8(), pa.string())) for part in words])
    assert gpulsh.deduplicate(["x"] * 200, key=categories, key_only=True, backend="reference").keep.all()
    assert gpulsh.deduplicate([], key=[], backend="reference").keep.tolist() == []
    missing = pd.Series([float("nan")] * 3)  # pandas has no better type for a column without values
    found = gpulsh.deduplicate(["x", "y", "z"], key=missing, date_column=missing, backend="reference")
    assert found.keep.all() and found.counts()["first_seen"].null_count == 3
    found = gpulsh.deduplicate(as_table(keys), text_column="text", key="url", backend="reference")
    assert found.keep.tolist() == [True, True, False]


def test_normalize_url_names_its_missing_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "w3lib.url", None)
    message = r'normalize_url needs w3lib .*pip install "gpulsh\[url\]"'
    with pytest.raises(BackendError, match=message):
        run_plain(write("jsonl", tmp_path, ["a"]), tmp_path / "out", key="url", normalize_url=True)
    with pytest.raises(BackendError, match=message):
        gpulsh.deduplicate(["a"], key=["a"], normalize_url=True)


def test_the_newest_page_of_each_url_is_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Llama 3 keeps the newest version of each page; this is the command for it."""
    rows = [("http://A.org/x#top", "2023-01-01"), ("http://a.org/x", "2024-01-01"), ("http://a.org/y", None)]
    write_rows("a.jsonl", [{"text": f"page {url} {date}", "url": url, "date": date} for url, date in rows])
    line = "dedup a.jsonl -o out --key url --normalize-url --key-only --keep date --backend reference"
    assert main(line.split()) == 0
    shown = capsys.readouterr().out
    assert "dropped 1 (33.3 %): 1 copy by key." in shown and "Keys in 'url' were compared, and no texts." in shown
    assert [row["date"] for row in read_rows("out/data/a.jsonl")] == ["2024-01-01", None]
    assert dropped(Path("out")) == [(0, 1)]
    report = json.loads(Path("out/report.json").read_text())
    assert "--key url --normalize-url --key-only" in str(command(report)).replace("--keep date ", "")
    words = ["Documents with the same URL in url are copies.", "No texts are compared."]
    assert list(describe_method(report["parameters"]))[:2] == words
    assert funnel_table(report).splitlines()[1:3] == [
        "dropped    1  = 1 copy by key; 33.3 %",
        "kept       2  66.7 %",
    ] and "copy by key" in summary(report, "out", earlier=False)


def test_bad_records_have_no_key(tmp_path: Path) -> None:
    records = [("a b c", "u"), (5, "u"), ("d e f", "u"), ("g", 1.5)]
    a = write_rows(tmp_path / "a.jsonl", [{"text": text, "url": url} for text, url in records])
    (tmp_path / "b.csv").write_text("text,url\na,v\nb,v,v\nc,v\n")
    for only in (False, True):
        how: dict[str, Any] = {"key": "url", "key_only": only, "on_error": "skip"}
        funnel = run_plain([a, tmp_path / "b.csv"], tmp_path / f"{only}", **how).funnel
        assert dropped(tmp_path / f"{only}") == [(2, 0), (2, 0)]
        assert (funnel["documents"], funnel["rejected"], funnel["kept"], funnel["empty"]) == (4, 3, 2, 0)


def test_a_warc_header_is_a_key(tmp_path: Path) -> None:
    """Its name is in any case; a page that cannot be read has no key."""
    urls = ["http://a.org/1", "http://a.org/2", "http://a.org/1", "HTTP://A.org/1#x", "http://a.org/2"]
    headers = [{"WARC_Target_URI": url, "WARC_Date": f"2024-01-0{row + 1}"} for row, url in enumerate(urls)]
    records = [record(f"n{row}", f"words {row}".encode(), **more) for row, more in enumerate(headers)]
    (tmp_path / "a.wet").write_bytes(b"".join([*records, record("none", b"other words")]))
    asked = {"key": "warc-target-uri", "normalize_url": True, "keep": "WARC-Date"}
    for only in (False, True):
        run_plain(tmp_path / "a.wet", tmp_path / f"{only}", **asked, key_only=only)
        assert dropped(tmp_path / f"{only}") == [(0, 3), (1, 4), (2, 3)]
    pytest.importorskip("fastwarc")
    bad = [page("p0", b"\x1f\x8b no gzip", headers=("Content-Encoding: gzip",), WARC_Target_URI="u"), *records[:1]]
    bad += [page(f"p{row}", b"<p>words " + bytes([65 + row]), WARC_Target_URI="u") for row in (1, 2)]
    (tmp_path / "b.warc").write_bytes(b"".join(bad))
    run_plain(tmp_path / "b.warc", tmp_path / "b", key="WARC-Target-URI", on_error="skip")
    assert dropped(tmp_path / "b") == [(3, 2)]


@pytest.mark.parametrize("column", ["text", "url"])
def test_damaged_row_groups_have_no_key(tmp_path: Path, column: str) -> None:
    path = write("parquet", tmp_path, ["a", "b", "a", "a", "b", "c", "b", "c", "c"])
    damage_column(path, 1, column)
    for only in (False, True):
        funnel = run_plain(path, tmp_path / f"{only}", key="url", key_only=only, on_error="skip").funnel
        assert dropped(tmp_path / f"{only}") == [(2, 0), (6, 1), (8, 7)]
        assert (funnel["documents"], funnel["kept"], funnel["rejected"], funnel["empty"]) == (6, 3, 3, 0)


def test_a_null_text_has_a_key(tmp_path: Path) -> None:
    """Keys alone decide; with the longest text as the choice, the document with words is kept."""
    lines = ['{"text": null, "url": "u"}\n', '{"text": "words", "url": "u"}\n']
    (tmp_path / "a.jsonl").write_text("".join(lines))
    for keep, kept in (("first", 0), ("longest", 1)):
        for only in (False, True):
            out = tmp_path / f"{keep}{only}"
            run_plain(tmp_path / "a.jsonl", out, key="url", key_only=only, keep=keep)
            assert (out / "data/a.jsonl").read_text() == lines[kept]


def test_texts_are_not_read_for_keys_alone(tmp_path: Path) -> None:
    """Empty texts take their place, and are not written."""
    table = as_table(["a", "b", "a", None])
    report = run_plain(write_rows(tmp_path / "a.parquet", table, 2), tmp_path / "out", key="url", key_only=True).report
    assert pq.read_table(tmp_path / "out/data/a.parquet").equals(table.take([0, 1, 3]))
    assert (report["funnel"]["bytes"], report["funnel"]["nulls"], report["funnel"]["empty"]) == (0, 0, 0)


def test_keys_that_no_utf8_can_hold_equal_only_themselves(tmp_path: Path) -> None:
    keys = ["a\ud800", "a\ud801", "a\ufffd", "a\ud800"]
    found = gpulsh.deduplicate(["x", "y", "z", "w"], key=keys, backend="reference")
    in_files = run_plain(write("jsonl", tmp_path, keys), tmp_path / "out", key="url")
    assert found.duplicate_of.tolist() == [0, 1, 2, 0] and in_files.funnel["key_copies"] == 1


@pytest.mark.parametrize("keys", [["a", "b", "b"], [1, "b", "b"], [2**70, None, None], ["x", "\ud800", "\ud800"]])
def test_keys_may_come_from_an_iterator(keys: list[Any]) -> None:
    given = {"key_only": True, "backend": "reference"}
    wanted = gpulsh.deduplicate(["x", "y", "z"], key=keys, **given)
    assert gpulsh.deduplicate(["x", "y", "z"], key=iter(keys), **given) == wanted


def test_hashes_of_keys_are_taken_across_blocks() -> None:
    secret = evidence_keys(chosen_secret(None))
    whole, blocks = KeyHashes(secret), KeyHashes(secret)
    whole.append(python_copy_keys(["a", "b", None, "c", "d"]))
    blocks.append(python_copy_keys(["a", "b", None]))
    blocks.append(python_copy_keys(["c", "d"]))
    assert np.concatenate([blocks.take(count) for count in (1, 3, 1)]).tolist() == whole.take(5).tolist()
