"""Counts, marks, policies and weights of runs over files equal those of a run in memory, however the work is cut."""

import json
import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.budget import TaskSizes
from gpulsh.errors import InputError, OutputError, ParameterError
from gpulsh.report.reproduce import command as reproducing
from gpulsh.report.reproduce import describe_method
from gpulsh.report.summary import funnel_table
from gpulsh.run.output import finished
from gpulsh.run.records import results as results_module
from gpulsh.stats.counts import CLUSTERS, MARKS
from tests.crash.test_resume import results
from tests.support.command import Command
from tests.support.files import PACK, UNPACK, read_rows, write_rows
from tests.support.runs import below, python, run

NAMES = ["crawl-1", "crawl-2", "é", ""]
COUNTS = [row.name for row in CLUSTERS if row.counted]
ADDED = [*(row.name for row in MARKS), *COUNTS]
HOW: dict[str, Any] = {"threshold": 0.6, "shingling": "word:2", "backend": "cpu"}
CUTS = {
    "whole": TaskSizes(memory=1 << 30, partition=1 << 40, digests=1 << 40, group=1 << 40),
    "pieces": TaskSizes(memory=1 << 30, partition=3000, digests=400, group=6000),
}
COLUMNS, LINES = "a.jsonl b.parquet c.arrow", "a.json b.jsonl.gz c.jsonl"  # names of input files


def rows(count: int, seed: int) -> list[dict[str, Any]]:
    random, shared = Random(seed), Random(9)
    pages = [[shared.choice("abcdefghij") * shared.randrange(1, 5) for _ in range(30)] for _ in range(5)]
    found = []
    for number in range(count):
        page = list(random.choice(pages))
        for _ in range(random.choice((0, 0, 1, 2, 3))):
            page[random.randrange(30)] = random.choice("xyz")
        text = random.choice([" ".join(page), ", ".join(page).upper(), " ".join(random.choices("klmnopq", k=9)), None])
        day = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=random.randrange(2000))
        row = {"text": text, "id": f"d{seed}-{number}", "where": random.choice([*NAMES, None])}
        found.append({**row, "when": random.choice([day.isoformat(), None]), "more": {"n": [number, "漢", None]}})
    return found


def write(path: Path, given: list[dict[str, Any]]) -> str:
    kind, _, packed = path.name.split(".", 1)[1].partition(".")
    if kind not in ("jsonl", "json"):
        return write_rows(path, [{**row, "more": json.dumps(row["more"])} for row in given], 17)
    lines = [json.dumps(row, ensure_ascii=number % 2 == 0) for number, row in enumerate(given)]
    content = "".join(f"{line}{' ' * (number % 3)}\n" for number, line in enumerate(lines))
    path.write_bytes(PACK[packed](("[" + ",\n".join(lines) + "]" if kind == "json" else content).encode()))
    return str(path)


@pytest.fixture(params=[COLUMNS, LINES])
def inputs(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[list[str], list[dict[str, Any]]]:
    """Three files, each an INPUT, and their rows with `file` and `row`."""
    (tmp_path / "in").mkdir()
    paths, every = [], []
    for seed, name in enumerate(request.param.split()):
        given = rows(60, seed)
        paths.append(write(tmp_path / "in" / name, given))
        every += [{**row, "file": paths[-1], "row": number} for number, row in enumerate(given)]
    return paths, every


def instant(value: Any) -> datetime | None:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def in_memory(every: list[dict[str, Any]], column: str, **options: Any) -> tuple[gpulsh.Decision, list[dict[str, Any]]]:
    """The decision in memory, and the columns that a mark adds, by position."""
    seen = {"source_column": [row[column] for row in every], "date_column": [row["when"] for row in every]}
    texts = [row["text"] for row in every]
    decision = gpulsh.deduplicate(texts, **{**HOW, **options, **seen, "backend": "reference"})
    return decision, decision.mark(pa.table({"text": texts}), ids=[row["id"] for row in every]).to_pylist()


@pytest.mark.parametrize(
    ("inputs", "cut", "options"),
    [
        (COLUMNS, "whole", {}),
        (LINES, "pieces", {}),
        (COLUMNS, "pieces", {"resolve": "components", "weights": "log", "weight_by": "component"}),
        (LINES, "pieces", {"verify": "none", "keep": "longest", "max_copies": 2}),
        (COLUMNS, "pieces", {"min_cluster": 6, "weights": {1: 1, 2: 2.5}}),
        (LINES, "pieces", {"min_sources": 2}),
        (LINES, "whole", {"min_sources": 3, "source_column": None}),  # then sources are the INPUTs
        (COLUMNS, "pieces", {"measure": "containment", "keep": "first"}),
    ],
    indirect=["inputs"],
)
def test_clusters_and_marks_equal_a_run_in_memory(
    inputs: Any, cut: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpulsh.run.file_run.task_sizes", lambda *_: CUTS[cut])
    paths, every = inputs
    seen = {"id_column": "id", "source_column": "where", "date_column": "when"}
    result = run(paths, tmp_path / "out", write="marked", **{**HOW, **seen, **options})
    weights, by = options.pop("weights", None), options.pop("weight_by", "verified")
    decision, wanted = in_memory(every, "file" if "source_column" in options else "where", **options)
    names = ("kept", "dropped", "few_sources", "copies_left", "copies_of_kept")
    assert [result.funnel[name] for name in names] == [decision.funnel[name] for name in names]
    assert result.funnel["dropped"] > 10
    weight = np.zeros(len(every))
    if weights is not None:
        weight[decision.keep] = decision.weights(weights, weight_by=by)

    table = pq.read_table(tmp_path / "out/clusters.parquet")
    added = ["weight"] * (weights is not None)
    assert table.column_names == [row.name for row in CLUSTERS] + added
    listed = [at for at, row in enumerate(wanted) if row["kept"] and row["component"] > 1]
    values = [{**wanted[at], **every[at], "weight": weight[at]} for at in listed]
    assert table.to_pylist() == [{name: row[name] for name in table.column_names} for row in values]

    found = [row for path in paths for row in read_rows(tmp_path / "out/data" / os.path.basename(path))]
    assert len(found) == len(every)
    of_files = Counter(row["file"] for row, marks in zip(every, wanted, strict=True) if marks["kept"])
    if "min_sources" in options:
        assert [entry["kept"] for entry in result.report["files"]] == [of_files[path] for path in paths]
    for at, (row, original, marks) in enumerate(zip(found, every, wanted, strict=True)):
        witness = marks["duplicate_of_row"]
        assert list(row) == [*list(original)[:5], *ADDED, *added]
        for name in ("text", "id", "where", "when"):
            assert row[name] == original[name]
        for name in ("kept", "cluster", "component", "copies", "near", "sources", "source_names"):
            assert row[name] == marks[name], name
        for name in ("file", "row", "id"):
            assert row[f"duplicate_of_{name}"] == (None if witness is None else every[witness][name])
        similarity = None if marks["similarity"] != marks["similarity"] else marks["similarity"]
        assert row["similarity"] == similarity or row["similarity"] != row["similarity"]
        for name in ("first_seen", "last_seen"):
            assert instant(row[name]) == marks[name]
        assert weights is None or row["weight"] == pytest.approx(weight[at])


@pytest.mark.parametrize(
    ("inputs", "options"),
    [(COLUMNS, {}), (LINES, {"max_copies": 2}), (LINES, {"format": "parquet"})],
    indirect=["inputs"],
)
def test_marked_rows_filtered_by_kept_equal_data(inputs: Any, options: dict[str, Any], tmp_path: Path) -> None:
    """JSON lines are equal byte for byte, and end in the added members; other formats are equal in content."""
    paths, _ = inputs
    given = {**HOW, **options, "id_column": "id", "threads": 1}
    run(paths, tmp_path / "plain", **given)
    run(paths, tmp_path / "counted", add_counts=True, weights="txt360", **given)
    run(paths, tmp_path / "marked", write="marked", **given)
    for name in ("duplicates.parquet", "clusters.parquet"):
        plain = (tmp_path / "plain" / name).read_bytes()
        assert (tmp_path / "marked" / name).read_bytes() == plain
        assert name.startswith("c") or (tmp_path / "counted" / name).read_bytes() == plain
    for plain in sorted((tmp_path / "plain/data").iterdir()):
        kind, _, packed = plain.name.split(".", 1)[1].partition(".")
        for out, first in (("marked", b'"kept"'), ("counted", b'"copies"')):
            path = tmp_path / out / "data" / plain.name
            if kind == "jsonl":
                lines = UNPACK[packed](path.read_bytes()).splitlines(keepends=True)
                kept = [bare(line, first) for line in lines if json.loads(line).get("kept", True)]
                assert b"".join(kept) == UNPACK[packed](plain.read_bytes())
                continue
            rows = [row for row in read_rows(path) if row.get("kept", True)]
            own = [{name: row[name] for name in row if name not in (*ADDED, "weight")} for row in rows]
            assert own == read_rows(plain)
        if kind == "parquet":
            table, wanted = pq.read_table(tmp_path / "marked/data" / plain.name), pq.read_table(plain)
            assert table.filter(table["kept"]).select(wanted.column_names).cast(wanted.schema).equals(wanted)


def bare(line: bytes, first: bytes) -> bytes:
    """A line without the members from the last `first` on."""
    end = line.rindex(b"}")
    return line[: line.rindex(first + b":", 0, end)].removesuffix(b",") + line[end:]


def test_members_are_added_to_lines_of_every_form(tmp_path: Path) -> None:
    lines = [b"{}", b'{ "a" : "}" }  ', b'\t{"text":"\xff"}', b'{"text": "x", "b": {"kept": 1}}', b"{ }\r"]
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + b"\n".join(lines))
    run(tmp_path / "a.jsonl", tmp_path / "out", write="marked")
    found = (tmp_path / "out/data/a.jsonl").read_bytes().split(b"\n")
    for line, whole in zip(lines, found, strict=True):
        assert bare(whole, b'"kept"').removeprefix(b"\xef\xbb\xbf") == line
        marks = json.loads(whole.decode("utf-8-sig", "replace"))
        assert (marks["kept"], marks["component"]) == (True, 1)
    write_rows(tmp_path / "large.jsonl", ["word " * 900_000, "b"])
    run(tmp_path / "large.jsonl", tmp_path / "counted", backend="cpu", add_counts=True)
    first, second = (tmp_path / "counted/data/large.jsonl").read_text().splitlines()
    assert json.loads(first)["component"] == 1 and len(first) > 4_500_000 and json.loads(second)["copies"] == 0


def test_the_sources_of_a_row_take_no_other_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every 8192 rows copied the sources of all documents of a file: the time grew with its square."""
    joined: list[int] = []

    def concat_arrays(arrays: list[pa.Array]) -> pa.Array:
        joined.append(sum(map(len, arrays)))
        return pa.concat_arrays(arrays)

    monkeypatch.setattr(results_module, "pa", SimpleNamespace(**{**vars(pa), "concat_arrays": concat_arrays}))
    monkeypatch.setattr("gpulsh.io.format.ROWS_AT_ONCE", 10)
    write_rows(tmp_path / "a.jsonl", [{"text": f"page {row // 2}", "url": f"{row % 3}"} for row in range(2000)])
    run(tmp_path / "a.jsonl", tmp_path / "out", add_counts=True, source_column="url")
    found = [json.loads(line)["source_names"] for line in (tmp_path / "out/data/a.jsonl").read_bytes().splitlines()]
    assert found == [sorted({f"{2 * pair % 3}", f"{(2 * pair + 1) % 3}"}) for pair in range(1000)]
    assert len(joined) > 10 and sum(joined) < 4 * 2000


def test_json_lines_need_no_pandas(tmp_path: Path) -> None:
    """Its import takes as long as reading thousands of documents."""
    texts = ("some words", "some words!", "others")
    rows = [{"text": text, "id": f"doc {row}", "n": row, "date": "2024-01-31"} for row, text in enumerate(texts)]
    write_rows(tmp_path / "a.jsonl", [*rows, {"text": "more", "id": None, "n": None, "date": None}])
    options = [{}, {"add_counts": True}, {"write": "marked"}, {"id_column": "id"}, {"id_column": "n"}, {"keep": "n"}]
    options += [{"keep": "date"}, {"key": "id"}, {"source_column": "id", "date_column": "date", "min_sources": 2}]
    code = """
        import sys, gpulsh
        for number, given in enumerate(eval(sys.argv[2])):
            gpulsh.deduplicate_files(sys.argv[1] + "/a.jsonl", f"{sys.argv[1]}/{number}", backend="reference", **given)
            print("pandas" in sys.modules)
    """
    assert python(code, tmp_path, options).split() == ["False"] * len(options)


def test_protected_documents_count_and_are_not_listed(tmp_path: Path) -> None:
    """Clusters count documents dropped for them, and list no protected one; these may have added columns."""
    page, test = " ".join(f"w{number}" for number in range(30)), tmp_path / "test/train.jsonl"
    test.parent.mkdir()
    write_rows(test, [{"text": page, "copies": 5}])
    write_rows(tmp_path / "train.jsonl", [page, f"{page} more", "alone", "alone", "alone"])
    for number, (options, kept) in enumerate(
        [
            ({"add_counts": True}, 1),
            ({"min_cluster": 9}, 3),
            ({"max_copies": 2}, 2),
            ({"min_sources": 2, "source_column": "text"}, 0),
        ]
    ):
        out = tmp_path / f"out{number}"
        result = run(tmp_path / "train.jsonl", out, protect=test, **options)
        assert result.weigh(tmp_path / f"weighted{number}", "log") == kept
        assert len((out / "data/train.jsonl").read_text().splitlines()) == result.funnel["kept"] == kept
        funnel = result.funnel
        assert funnel["documents"] == funnel["protected"] + funnel["dropped"] + funnel["few_sources"] + funnel["kept"]
        listed = read_rows(out / "clusters.parquet")
        assert [(row["row"], row["component"]) for row in listed] == [(2 + at, 3) for at in range(kept)]


@pytest.mark.parametrize("options", [{"min_cluster": 9}, {"max_copies": 3}], ids=str)
def test_no_duplicate_of_a_protected_document_stays(options: dict[str, int], tmp_path: Path) -> None:
    """Not even one that is more similar to another document, nor its copy."""
    words = [f"w{number}" for number in range(20)]
    write_rows(tmp_path / "test.jsonl", [" ".join(words[:15])])
    write_rows(tmp_path / "train.jsonl", [" ".join(words[:size]) for size in (20, 18, 18)])
    how = {"protect": tmp_path / "test.jsonl", "shingling": "word:1", "rows": 1}
    run(tmp_path / "train.jsonl", tmp_path / "out", **how, **options)
    assert [row["row"] for row in read_rows(tmp_path / "out/duplicates.parquet")] == [1, 2]


def test_bad_records_have_no_counts(tmp_path: Path) -> None:
    lines = ['{"text": "a b", "s": "x"}', "no json", '{"text": "a b", "s": "y"}', '{"text": 5}', '{"text": "c"}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    how = {"on_error": "skip", "source_column": "s"}
    for write, weights in {"data": [2, 1], "marked": [2, 0, 1]}.items():
        result = run(tmp_path / "a.jsonl", tmp_path / write, write=write, **how)
        result.weigh(tmp_path / f"{write}-weighted", "cap:9")
        assert [row["weight"] for row in read_rows(tmp_path / f"{write}-weighted/a.jsonl")] == weights
    marked = read_rows(tmp_path / "marked/data/a.jsonl")
    assert [(row["kept"], row["source_names"]) for row in marked] == [(True, ["x", "y"]), (False, None), (True, [])]
    funnel = run(tmp_path / "a.jsonl", tmp_path / "few", min_sources=2, **how).funnel
    assert [funnel[name] for name in ("documents", "kept", "dropped", "few_sources")] == [3, 1, 1, 1]


def test_weights_leave_out_protected_files_of_the_same_name(tmp_path: Path) -> None:
    for name, texts in {"test": ["one two"], "train": ["one two", "three"]}.items():
        (tmp_path / name).mkdir()
        write_rows(tmp_path / name / "a.jsonl", texts)
    result = run(tmp_path / "train/a.jsonl", tmp_path / "out", protect=tmp_path / "test/a.jsonl")
    assert result.report["written"] == [None, "data/a.jsonl"]
    assert result.weigh(tmp_path / "weighted", "cap:2") == 1
    listed = run(tmp_path / "train/a.jsonl", tmp_path / "listed", write="duplicates")
    with pytest.raises(OutputError, match="holds no rows with counts"):
        listed.weigh(tmp_path / "none", "cap:2")


@pytest.mark.parametrize("made", [False, True])
def test_weights_that_fail_leave_nothing(made: bool, tmp_path: Path) -> None:
    result = run(write_rows(tmp_path / "a.jsonl", ["one two", "one two", "three"]), tmp_path / "out")
    (tmp_path / "out/data/a.jsonl").write_text('{"text": "one two"}\n')
    if made:
        (tmp_path / "weighted").mkdir()
    with pytest.raises(InputError, match=r"a\.jsonl: changed while it was read"):
        result.weigh(tmp_path / "weighted", "log")
    assert list(tmp_path.glob("weighted*")) == [tmp_path / "weighted"] * made
    assert list(tmp_path.glob("weighted/*")) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"write": "marked"}, "has a column 'near', which would be added; rename it"),
        ({"weights": "log"}, "has a column 'weight', which would be added; rename it"),
        ({"weights": "log", "format": "parquet"}, "has a column 'weight', which would be added; rename it"),
        ({"add_counts": True, "write": "duplicates"}, "add_counts=True is given and write is 'duplicates'"),
        ({"add_counts": True, "index": "known"}, "add_counts=True and index cannot be combined"),
        ({"max_copies": 2, "index": "known"}, "max_copies and index cannot be combined"),
        ({"write": "marked", "index": "known"}, "write='marked' and index cannot be combined"),
        ({"min_sources": 2}, "min_sources is 2, and the documents are of 1 INPUT; give more INPUTs, or source_column"),
        ({"min_sources": 2, "within": True}, "min_sources is 2, and within compares only documents of one INPUT"),
        ({"min_sources": 2, "write": "duplicates", "source_column": "text"}, "min_sources is 2 and write is 'dup"),
        ({"source_column": 5}, "source_column is 5; give the name of a column"),
        ({"source_column": "lang"}, "has no column 'lang'"),
        ({"date_column": "near"}, "(row 0|line 1|line 2): column 'near' is 'soon'; date_column takes dates"),
        ({"weights": "x"}, "weights is 'x'; give txt360"),
        ({"weight_by": "x"}, "weight_by is 'x'"),
        ({"weight_by": "component"}, "weight_by is 'component' without weights"),
        ({"coverage": 0.5}, "coverage is given without passages"),
        ({"write": "all"}, "write is 'all'"),
    ],
)
def test_wrong_options_are_refused_before_the_work(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    given = {"text": "some words", "near": "soon", "weight": "1"}
    write(tmp_path / "a.jsonl", [given])
    pq.write_table(pa.Table.from_pylist([given]), tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("text,near,weight\nsome words,soon,1\n")
    by_kind = {"jsonl": message, "parquet": message, "csv": message}
    if options in ({"write": "marked"}, {"weights": "log"}):
        by_kind["csv"] = "a.csv: its rows take no more columns in this format; run with format"
    elif options.keys().isdisjoint({"source_column", "date_column", "format"}):
        by_kind = {"jsonl": message}  # decided before a file is opened
    for kind, words in by_kind.items():
        with pytest.raises((ParameterError, InputError), match=words):
            run(tmp_path / f"a.{kind}", tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_added_columns_and_types_consider_all_rows(tmp_path: Path) -> None:
    """A name clash in a later line is an error, and types fit all rows."""
    path = write_rows(tmp_path / "a.jsonl", [{"text": "a"}, {"text": "b", "copies": 3}])
    with pytest.raises(InputError, match=r"a.jsonl: line 2 has a column 'copies', which would be added; rename it"):
        run(path, tmp_path / "out", add_counts=True)
    rows = [{"id": 1, "text": "a b c d e f"}, {"id": "x", "text": "A b c d e f"}, {"id": 2.5, "text": "others"}]
    write_rows(path, rows)
    run(path, tmp_path / "d", format="parquet")
    run(path, tmp_path / "m", format="parquet", write="marked")
    dropped, marked = (pq.read_table(tmp_path / out / "data/a.parquet") for out in "dm")
    assert marked.filter(marked["kept"]).select(["id", "text"]) == dropped


def test_any_format_written_as_parquet_takes_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,n\none two,1\none two,2\n")
    (tmp_path / "b.txt").write_text("one two")
    run([tmp_path / "a.csv", tmp_path / "b.txt"], tmp_path / "out", format="parquet", write="marked")
    found = [read_rows(tmp_path / f"out/data/{name}.parquet") for name in "ab"]
    marks = [[(row["kept"], row["copies"]) for row in part] for part in found]
    assert marks == [[(True, 2), (False, None)], [(False, None)]]


def test_the_command_and_python_give_the_same_files(folder: Path, command: Command) -> None:
    write(Path("a.jsonl"), rows(40, 1))
    Path("w.json").write_text('{"1": 1, "2": 7}')
    line = "dedup a.jsonl -o out --backend reference --threshold 0.6 --shingle word:2 --write marked --weights w.json"
    line += " --weight-by component --source-column where --date-column when --max-copies 2 --min-cluster 3"
    assert command(line).status == 0
    options: dict[str, Any] = {"write": "marked", "weights": "w.json", "weight_by": "component"}
    options |= {"source_column": "where", "date_column": "when", "max_copies": 2, "min_cluster": 3}
    run("a.jsonl", "python", **HOW, **options)
    assert results(Path("out")) == results(Path("python"))
    assert command(line, "--resume").status == 0
    for other, there in ({"weights": None, "weight_by": "verified"}, "absent"), ({"weights": {2: 5}}, r"{'2': 5\.0}"):
        with pytest.raises(OutputError, match=rf"belongs to another run: weights was {{.*}} and is {there} now"):
            run("a.jsonl", "out", **HOW, resume=True, **{**options, **other})
    assert results(Path("out")) == results(Path("python"))
    assert command(line.replace("-o out", "-o dry"), "--dry-run").status == 0 and not Path("dry").exists()
    how = "--backend reference --min-sources 2 --source-column where --add-counts"
    assert command(f"dedup a.jsonl -o shared {how}").status == 0
    assert all(row["sources"] > 1 for row in read_rows("shared/data/a.jsonl"))


def test_the_report_has_verified_counts_and_component_sizes(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", rows(90, 2))
    report = run(path, tmp_path / "out", **HOW, max_copies=2).report
    listed = read_rows(tmp_path / "out/clusters.parquet")
    verified = [1 + row["copies"] + row["near"] for row in listed]
    components = [row["component"] for row in listed]
    counts = report["counts"]
    assert (counts["documents"], counts["verified"]["most"]) == (len(listed), max(verified))
    assert counts["component"]["most"] == max(components) > max(verified)
    for name, sizes in (("verified", verified), ("component", components)):
        bounds = [entry["least"] for entry in counts[name]["sizes"]] + [1 << 60]
        for entry, end in zip(counts[name]["sizes"], bounds[1:], strict=True):
            assert entry["count"] == sum(entry["least"] <= size < end for size in sizes)
    message = f"at most {max(verified)} documents, itself included; the largest component has {max(components)}."
    assert message in funnel_table(report) and message in (tmp_path / "out/report.html").read_text()
    assert "--max-copies 2" in str(reproducing(report))
    assert "Of a document and its duplicates, up to 2 stay." in list(describe_method(report["parameters"]))


# --- weights of finished runs


@pytest.mark.parametrize(
    ("inputs", "options", "weights", "by"),
    [
        (LINES, {"write": "marked"}, {1: 2, 3: 0.5}, "component"),
        (LINES, {"min_sources": 2}, {1: 2, 3: 0.5}, "verified"),
        (COLUMNS, {"max_copies": 3}, "txt360", "component"),
        (COLUMNS, {"format": "jsonl"}, {1: 2, 3: 0.5}, "verified"),
    ],
    indirect=["inputs"],
)
def test_weigh_equals_a_run_with_weights(
    inputs: Any, options: dict[str, Any], weights: Any, by: Any, tmp_path: Path
) -> None:
    paths, _ = inputs
    given = {**HOW, **options, "threads": 1}
    run(paths, tmp_path / "with", weights=weights, weight_by=by, **given)
    result = run(paths, tmp_path / "without", **given)
    count = result.weigh(tmp_path / "new/weighted", weights, weight_by=by)
    found = results(tmp_path / "new/weighted")
    assert found.keys() == results(tmp_path / "with/data").keys() and count > 5
    for name in found:
        wanted = read_rows(tmp_path / "with/data" / name)
        assert read_rows(tmp_path / "new/weighted" / name) == wanted
        count -= len(wanted)
        if "jsonl" in name:
            assert found[name] == (tmp_path / "with/data" / name).read_bytes()
    assert count == 0


def test_the_command_weighs_a_finished_run(folder: Path, command: Command) -> None:
    write(Path("a.jsonl"), rows(40, 1))
    run("a.jsonl", "out", **HOW)
    printed = command("weights out -o new --weights txt360 --weight-by component")
    assert printed == (0, f"Wrote {len(read_rows('new/a.jsonl'))} rows with weights to new.\n", "")
    Path("b.csv").write_text("text\none\n")
    run("b.csv", "csv")
    run(__file__, "code", as_text="*.py")
    run("a.jsonl", "none", write="duplicates")
    run("new/a.jsonl", "again")
    run("a.jsonl", "weighed", weights="log")
    for line, message in {
        "out -o new --weights log": "new: is not empty",
        "nowhere -o new2 --weights log": "nowhere: no such folder",
        "none -o new2 --weights log": "none: holds no rows with counts; give OUT of a run that wrote rows",
        "csv -o new2 --weights log": "csv/data/b.csv: its rows take no more columns in this format; run with --format",
        "code -o new2 --weights log": "test_clusters.py: its rows take no more columns in this format; run with",
        "again -o new2 --weights log": "again/data/a.jsonl: line 1 has a column 'weight', which would be added",
        "weighed -o new2 --weights log": "its rows have a column 'weight' already",
        "out -o out/data/new2 --weights log": "out/data/new2: is inside the input out/data; give a path outside of it",
        "out -o out/data --weights log": "out/data: is the input itself; give another path",
        f"out -o {'x' * 300} --weights log": ": cannot be written: File name too long",
        "out -o new2 --weights cap:0": "weights is 'cap:0'; give cap:N",
    }.items():
        assert message in command(f"weights {line}").error
    assert command("weights out --weights log -o", "").error == "--output is empty; give the path of a folder"
    assert not Path("new2").exists() and not Path("out/data/new2").exists()


def test_weights_appear_when_all_files_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill leaves no file that looks finished."""
    for name in ("a.jsonl", "b.jsonl"):
        write(tmp_path / name, rows(40, 1))
    result = run([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], tmp_path / "out")
    write_file, seen = finished._write, list[str]()

    def look(*given: Any) -> int:
        seen.extend(below(tmp_path / "new"))
        return write_file(*given)

    monkeypatch.setattr(finished, "_write", look)
    result.weigh(tmp_path / "new", "log")
    assert below(tmp_path / "new") == {"a.jsonl", "b.jsonl"}
    assert seen and all(name.endswith(".part") for name in seen)


@pytest.mark.parametrize("key_only", [False, True])
def test_documents_dropped_by_their_keys_are_copies(key_only: bool, tmp_path: Path) -> None:
    page = " ".join(f"w{number}" for number in range(30))
    texts = [(page, "u"), ("other words", "u"), (f"{page} more", "v"), ("some words", "v"), ("alone", None)]
    write_rows(tmp_path / "a.jsonl", [{"text": text, "url": url} for text, url in texts])
    run(tmp_path / "a.jsonl", tmp_path / "out", key="url", key_only=key_only, source_column="text", write="marked")
    found = read_rows(tmp_path / "out/data/a.jsonl")
    assert [(row["copies"], row["near"], row["component"], row["sources"]) for row in found] == (
        [(1, 0, 2, 2), (None, None, 2, None), (1, 0, 2, 2), (None, None, 2, None), (0, 0, 1, 1)]
        if key_only
        else [(1, 2, 4, 4), *[(None, None, 4, None)] * 3, (0, 0, 1, 1)]
    )
    assert [row["row"] for row in read_rows(tmp_path / "out/clusters.parquet")] == ([0, 2] if key_only else [0])
    with pytest.raises(ParameterError, match="key and max_copies cannot be combined"):
        run(tmp_path / "a.jsonl", tmp_path / "no", key="url", max_copies=2)
