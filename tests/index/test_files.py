"""`gpulsh index`: it takes in files, grows and answers, and keeps the documents that one run over all files keeps."""

import errno
import json
import os
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh import Index
from gpulsh.index import folder as manifest
from gpulsh.index.collection import Collection
from gpulsh.io.formats.parquet import Parquet
from tests.support.command import Command
from tests.support.files import read_rows, read_table, write_rows
from tests.support.pages import ROOT, blocks
from tests.support.runs import evidence, interrupted, tree
from tests.support.texts import licences

REFERENCE = ["--backend", "reference", "--threshold", "0.5", "--num-perm", "16"]


def write(name: str, texts: list[Any], **columns: list[Any]) -> None:
    write_rows(name, pa.table({"text": texts, **columns}), 50)


def json_rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_an_index_built_in_parts_keeps_the_documents_of_one_run(folder: Path, command: Command) -> None:
    texts: list[Any] = [*licences()[::8], None, ""]
    ids = [f"doc {number}" for number in range(len(texts))]
    third = len(texts) // 3
    for place, (start, stop) in enumerate([(0, 40), (40, third), (third, len(texts))]):
        name = f"in/{place}" + (".parquet" if place % 2 else ".jsonl")
        write(name, texts[start:stop], id=ids[start:stop])
    assert command("dedup in -o out --backend cpu --write duplicates --id-column id").status == 0
    names = ("file", "row", "id", "duplicate_of_id", "similarity")
    wanted = [tuple(row[name] for name in names) for row in evidence("out")]
    options = ("--backend", "cpu", "--id-column", "id")
    first = json.loads(command("index build index in/0.jsonl in/1.parquet -o a.jsonl --json", *options).out)
    assert first["documents"] == third and first["kept"] == first["held"]
    shown = command("index add index in/2.jsonl -o b.parquet", *options).out
    assert f"The index holds {len(texts) - len(wanted):,}." in shown
    rows = read_rows("a.jsonl") + read_rows("b.parquet")
    found = [(row["file"], row["row"], row["id"], row["duplicate_of"], np.float32(row["similarity"])) for row in rows]
    assert found == wanted and len(found) > 0
    assert command("index compact index").status == 0
    asked = json_rows(command("index query index in", *options).out)
    assert len({(row["file"], row["row"]) for row in asked}) == len(asked) == len(texts) - 2
    assert command("index query index in --every -o q.parquet", *options).status == 0
    every = {(row["file"], row["row"], row["duplicate_of"]) for row in read_rows("q.parquet")}
    assert every >= {(file, row, key) for file, row, _, key, _ in found} and len(every) > len(asked)


@pytest.mark.parametrize("name", ["none.csv", "none.json", "none.jsonl"])
def test_files_without_documents_add_nothing(folder: Path, name: str, command: Command) -> None:
    """Such files give no type for their ids."""
    Path(name).write_text({".csv": "id,text\n", ".json": "[]", ".jsonl": ""}[Path(name).suffix])
    options = ("--backend", "reference", "--id-column", "id")
    assert command(f"index build index {name} -o found.parquet", *options).status == 0
    write("a.jsonl", ["a b c d e f g"], id=[7])
    assert command("index add index a.jsonl", *options).status == 0
    assert command(f"index add index {name} -o again.jsonl", *options).status == 0
    assert command(f"index query index {name}", *options).out == ""


def test_counts_grow_with_runs_and_shrink_with_removals(folder: Path, command: Command) -> None:
    page = "a b c d e f g h i j k l"
    write("a.jsonl", [page, "m n o p q r", page, None], url=["u0", "u1", "u2", "u3"])
    write("b.parquet", [page.upper(), f"{page} z", f"{page} z", "M n o p q r"], url=["u4", "u5", "u6", "u7"])
    for name in ("a.jsonl", "b.parquet"):
        assert command(f"dedup {name} -o out/{name} --index known --id-column url", *REFERENCE).status == 0

    def counts() -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in json_rows(command("index counts known").out)]

    assert counts() == [("u0", 2, 2), ("u1", 1, 0), ("u3", 0, 0)]
    assert command("index remove known u2 u6 u7").status == 0
    assert counts() == [("u0", 1, 1), ("u1", 0, 0), ("u3", 0, 0)]
    assert command("index remove known u0").status == 0
    for name in ("counts.parquet", "counts.jsonl"):
        assert command(f"index counts known -o {name}").status == 0
        assert "is there already" in command(f"index counts known -o {name}").error
        assert f"The counts of 2 documents are in {name}." in command(f"index counts known -o {name} --overwrite").out
    written = read_rows("counts.parquet")
    assert written == read_rows("counts.jsonl") == json_rows(command("index counts known").out)
    assert [list(row) for row in written] == [["key", "copies", "near"]] * 2
    assert [row["key"] for row in written] == ["u1", "u3"]
    assert "is inside the index known" in command("index counts known -o known/counts.parquet").error


@pytest.mark.parametrize("verb", ["build", "add"])
@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))])
def test_findings_need_a_commit(verb: str, committed: bool, error: Any, folder: Path, command: Command) -> None:
    """Without a commit, the same command works a second time."""
    write("before.jsonl", ["h i j k l m"])
    write("a.jsonl", ["a b c d e f g", "a b c d e f g"])
    if verb == "add":
        assert command("index build index before.jsonl", *REFERENCE).status == 0
    line, commit = f"index {verb} index a.jsonl -o found.jsonl", manifest.commit_manifest

    def stopped(*given: Any) -> None:
        if committed:
            commit(*given)
        raise error

    with mock.patch("gpulsh.index.folder.commit_manifest", stopped):
        printed = command(line, *REFERENCE)
    if error is KeyboardInterrupt:
        assert printed.status == 130
    else:
        earlier = "; earlier saves are intact" if verb == "add" else ""
        assert printed.error.endswith(f"index: cannot be written: No space left on device{earlier}")
    assert Path("found.jsonl").exists() == committed
    assert committed or command(line, *REFERENCE).status == 0
    assert [row["row"] for row in read_rows("found.jsonl")] == [1]
    assert "a.jsonl:1" in Index.open("index", backend="reference")


def test_findings_of_an_interrupted_command_are_removed(folder: Path, command: Command) -> None:
    """Just after they are in place, when only the commit is left. Before that, those of an earlier command stay."""
    write("a.jsonl", ["a b c d e f g", "a b c d e f g"])
    write("b.jsonl", ["h i j k l m", "h i j k l m"])
    replace, there = os.replace, set[str]()

    def interrupted_after(part: Path, path: Path) -> None:
        replace(part, path)
        if path.name == "found.jsonl":
            there.update(name.partition("-")[0] for name in os.listdir("index"))
            raise KeyboardInterrupt

    build, add = (f"index {verb} -o found.jsonl" for verb in ("build index a.jsonl", "add index b.jsonl --overwrite"))
    with mock.patch("gpulsh.store.durable.os.replace", interrupted_after):
        assert command(build, *REFERENCE).status == 130
    assert {"keys", "digests"} <= there and not Path("index").exists() and not Path("found.jsonl").exists()
    assert command(build, *REFERENCE).status == 0
    before = Path("found.jsonl").read_bytes()
    with mock.patch("gpulsh.run.index.jobs.duplicate_rows", interrupted):
        assert command(add, *REFERENCE).status == 130
    assert Path("found.jsonl").read_bytes() == before
    assert command(add, *REFERENCE).status == 0 and len(Index.open("index", backend="reference")) == 4


def test_a_writer_first_removes_files_of_interrupted_ones(folder: Path, command: Command) -> None:
    """They stayed until the next commit, so the disk had to hold a change twice."""
    write("a.jsonl", ["a b c d e f g"])
    write("b.jsonl", ["h i j k l m"])
    assert command("index build index a.jsonl", *REFERENCE).status == 0
    with mock.patch("gpulsh.index.folder.commit_manifest", interrupted):
        assert command("index add index b.jsonl", *REFERENCE).status == 130
    assert len([*Path("index").glob("digests-*")]) == 2
    with Index.open("index", backend="reference") as index:
        index.add(["in memory"], ["n o p"])
        assert len([*Path("index").glob("digests-*")]) == 1


def test_refused_commands_leave_all_files_unchanged(folder: Path, command: Command) -> None:
    write("a.jsonl", ["a b c d e f g", "h i j k l m"], n=["x", "x"], m=[1, None])
    write("in/a.jsonl", ["x"])
    write("numbers.jsonl", ["x y z"], id=[1])
    write_rows("n.parquet", ["x"])
    Path("mine").mkdir()
    Path("mine/file").write_text("mine")

    def refused(cases: dict[str, tuple[int, str]]) -> None:
        before = tree()
        for line, (status, message) in cases.items():
            printed = command(f"index {line} --backend reference")
            assert (printed.status, printed.out) == (status, "") and message in printed.error, line
        assert tree() == before

    refused(
        {
            "build i a.jsonl --id-column n": (1, "line 2: its key is 'x', the same as a.jsonl: line 1"),
            "build i a.jsonl --id-column m": (1, "line 2: column 'm' is null"),
            "build i a.jsonl -o x.csv": (2, "give a file that ends with"),
            "build in/i in": (1, "is inside the input"),
            "build i nothing.jsonl": (1, "no such file"),
            "build i a.jsonl -o i/x.jsonl": (1, "i/x.jsonl: is inside the index i; give a path"),
            "build i n.parquet --id-column x": (1, "n.parquet: has no column 'x', which --id-column names"),
            "query i a.jsonl": (1, "i: no such folder; make an index"),
            "add i a.jsonl": (1, "i: no such folder"),
            "query mine a.jsonl": (1, "mine: is not an index; make an index"),
            "query s3://bucket/i a.jsonl": (2, "path is 's3://bucket/i', and an index is a local folder"),
            "build mine a.jsonl": (1, "it holds file"),
        }
    )
    for verb in ("build", "add", "query"):
        empty = command(f"index {verb}", "", "a.jsonl", "--backend", "reference")
        assert empty.status == 2 and "path is empty; give the path of a folder" in empty.error
    with pytest.raises(gpulsh.ParameterError, match="an index is a local folder; give its path"):
        gpulsh.Index().save("s3://bucket/i")
    assert not os.path.exists("i") and not os.path.exists("s3:")
    assert command("index build i a.jsonl --backend reference").status == 0
    assert command("index build whole numbers.jsonl --id-column id --backend reference").status == 0
    refused(
        {
            "build i in": (1, "is already an index"),
            "add i a.jsonl": (1, "i: has a document with the key 'a.jsonl:0', so it contains a.jsonl already"),
            "add i n.parquet --id-column x": (1, "n.parquet: has no column 'x', which --id-column names"),
            "find i nothing.txt": (1, "'nothing.txt': No such file"),
            "add whole a.jsonl --id-column x": (1, "a.jsonl: has no column 'x', which --id-column names"),
            "add i in --threshold 0.5": (2, "threshold 0.8 and 0.5 was given"),
        }
    )


@pytest.mark.parametrize("verb", ["build", "add", "query"])
@pytest.mark.parametrize(
    ("given", "output", "message"),
    [
        ("in/a.jsonl", "in/a.jsonl", "in/a.jsonl: is the input itself; give another path"),
        ("in", "in/a.jsonl", "in/a.jsonl: is inside the input in; give a path outside of it"),
        ("in/*.jsonl", "in/a.jsonl", "in/a.jsonl: is the input in/a.jsonl; give another path"),
        ("in/*.jsonl", "link.jsonl", "link.jsonl: is the input in/a.jsonl; give another path"),
        ("in/a.jsonl", "index/a.jsonl", "index/a.jsonl: is inside the index index; give a path outside of it"),
        ("in/a.jsonl", "s3://bucket/found.jsonl", "s3://bucket/found.jsonl: is a URL; give a local path"),
    ],
)
def test_no_input_is_replaced(verb: str, given: str, output: str, message: str, folder: Path, command: Command) -> None:
    write("in/a.jsonl", ["a b c d e f g", "h i j k l m"])
    write("before.jsonl", ["h i j k l m"])
    Path("link.jsonl").symlink_to("in/a.jsonl")
    assert command("index build index before.jsonl --backend reference").status == 0
    if verb == "build":
        Path("index").rename("made")
        Path("index").mkdir()
    before = tree()
    assert command(f"index {verb} index {given} -o {output} --backend reference").error.startswith(message)
    assert tree() == before


def test_duckdb_finds_the_same_candidates(folder: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="SQL is tested with DuckDB where it is installed")
    texts = licences()[::6]
    index = Index(backend="cpu")
    index.insert(range(len(texts)), texts)
    index.save("index")
    index.close()

    def files(kind: str) -> Any:
        return pa.concat_tables(read_table(path) for path in sorted(Path("index").glob(f"{kind}-*.arrow")))

    digests, documents, keys = files("digests"), files("documents"), files("keys")
    assert digests.num_rows and documents.num_rows == keys.num_rows == len(texts)
    (query,) = (block.text for block in blocks(ROOT / "docs/crawls.md") if block.language == "sql")
    found = duckdb.sql(query).fetchnumpy()
    fingerprints = gpulsh.shingle(texts, backend="cpu")
    signatures = gpulsh.MinHash()(fingerprints, backend="cpu")
    shape = index.parameters.banding
    banded = gpulsh.Banding(bands=shape.bands, rows=shape.rows)(signatures, backend="cpu")
    wanted = gpulsh.candidate_pairs(banded, backend="cpu")
    assert len(wanted) > 10
    np.testing.assert_array_equal(np.stack([found["i"], found["j"]], axis=1), wanted)


def test_info_describes_an_index_and_remove_drops_documents(folder: Path, command: Command) -> None:
    texts = ["a b c d e f g", "h i j k l m n", "a b c d e f g", "o p q r s t u"]
    write("a.jsonl", texts, n=[7, 5, 3, -1])
    assert command("index build named a.jsonl", *REFERENCE).status == 0
    assert command("index build numbered a.jsonl --id-column n", *REFERENCE).status == 0

    def info(path: str) -> dict[str, Any]:
        return json.loads(command(f"index info {path} --json").out)

    facts = info("named")
    assert facts["bytes"] == sum(path.stat().st_size for path in Path("named").glob("*.arrow"))
    names = ("documents", "dropped", "removed", "keys", "segments", "commits")
    assert [facts[name] for name in names] == [3, 1, 0, "string", 1, 1]
    assert facts["parameters"] == Index.open("named", backend="reference").parameters.matching()
    lines = command("index info named").out.splitlines()
    assert [" ".join(line.split()) for line in lines[:4]] == ["kept 3", "dropped 1", "removed 0", "keys string"]
    assert all(line[18] == " " != line[19] for line in lines)  # the values are below one another
    assert any(line.split() == ["shingling", "unit=word", "size=5"] for line in lines)
    assert f"bytes per document {facts['bytes_per_document']:,}" in lines and facts["bytes_per_document"] > 1000
    write("b.jsonl", ["A, b c d e f g!"])
    for name, key in (("named", "a.jsonl:0"), ("numbered", 7)):
        row = {"file": "b.jsonl", "row": 0, "id": None, "duplicate_of": key, "similarity": 1.0}
        assert json_rows(command(f"index query {name} b.jsonl", *REFERENCE[:2]).out) == [row]
    shown = command("index query numbered b.jsonl -o none.parquet", *REFERENCE[:2]).out
    assert shown == "Listed 1 duplicate in none.parquet.\n"
    assert pq.read_schema("none.parquet").field("duplicate_of").type == pa.int64()
    assert command("index remove named a.jsonl:0") == (0, "named holds 2 documents.\n", "")
    facts = info("named")  # its copy went with the first
    assert [facts[name] for name in names] == [2, 0, 2, "string", 1, 2]
    assert facts["bytes_per_document"] == round(facts["bytes"] / 4, 1)  # removed ones stay in the files until `compact`
    Path("keys").write_text("5\n\n-1\n", encoding="utf-8-sig")  # as editors on Windows save it
    assert command("index remove numbered 7 --from keys").status == 0
    assert info("numbered")["documents"] == 0
    for given, message in (
        ("named", "no key is given"),
        ("named a.jsonl:1 other", "the key 'other' is not in the index"),
        ("numbered x", "a key is 'x', and the index has integer keys"),
    ):
        refused = command(f"index remove {given}")
        assert refused.status == 2 and message in refused.error
    assert info("named")["documents"] == 2


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_ids_may_be_string_views(ending: str, folder: Path, command: Command) -> None:
    ids = pa.array(["x", "y"], pa.string_view())
    columns = {"id": ids, "n": pa.array([1.5, 2.5]), "great": pa.array([1, 2**63], pa.uint64())}
    if ending == "arrow":  # Parquet has none
        columns["n"] = pa.array([(1, 2, 3), (1, 2, 4)], pa.month_day_nano_interval())
    write_rows(f"a.{ending}", pa.table({"text": ["some words", "other words"], **columns}))
    assert command(f"index build known a.{ending} --id-column id", *REFERENCE).status == 0
    assert "y" in Index.open("known", backend="reference")
    for column, message in (
        ("n", f"row 0: column 'n' is {columns['n'].type}; --id-column of an index takes strings or integers"),
        ("great", f"row 1: column 'great' is {2**63}; integers of an index are at most {2**63 - 1}"),
    ):
        refused = command(f"index build none a.{ending} --id-column {column}", *REFERENCE)
        assert refused.status == 1 and refused.error == f"a.{ending}: {message}"


def test_ids_of_another_type_are_refused_before_signing(folder: Path, command: Command) -> None:
    write_rows("a.jsonl", [{"text": f"some words {n}", "id": f"a{n}"} for n in range(3)])
    write_rows("b.jsonl", [{"text": f"other words {n}", "id": n} for n in range(3)])
    assert command("index build known a.jsonl --id-column id").status == 0
    for line, keys in (
        ("index add known b.jsonl", "known"),
        ("index build new a.jsonl b.jsonl", "a.jsonl"),
        ("dedup b.jsonl -o out --index known", "known"),
        ("dedup a.jsonl b.jsonl -o out --index new", "a.jsonl"),
    ):
        with mock.patch.object(Collection, "sign_batches", side_effect=AssertionError):
            refused = command(f"{line} --id-column id --backend reference")
        message = f"b.jsonl: ids in column 'id' are of kind integer, and the keys in {keys} are of kind string"
        assert refused.status == 2 and refused.error == f"{message}; give string ids" and not Path("new").exists()


def test_types_of_ids_are_read_a_few_times_a_file(folder: Path, command: Command) -> None:
    """Every file was read once for each file: the reads grew with the square."""
    count, kinds = 16, []
    Path("in").mkdir()
    for number in range(count):
        pq.write_table(pa.table({"id": [f"n{number}"], "text": [f"text number {number}"]}), f"in/{number:02}.parquet")

    def column_type(self: Parquet, file: Any, column: str) -> pa.DataType:
        kinds.append(file.name)
        return pa.string()

    with mock.patch.object(Parquet, "column_type", column_type):
        assert command("index build i in --id-column id --backend reference").status == 0
    assert count <= len(kinds) <= 6 * count


def test_query_takes_top_every_and_threshold(folder: Path, command: Command) -> None:
    page = [f"w{number}" for number in range(30)]
    texts = {copy: " ".join([*page, *(f"{copy}x{extra}" for extra in range(copy))]) for copy in (3, 1, 2, 0)}
    write("b.jsonl", ["nothing like it at all", " ".join(page)])
    with Index.create("known", backend="reference", threshold=0.5) as index:
        index.insert(list(texts), list(texts.values()))
    every = {"--every": [0, 1, 2, 3], "--every --threshold 0.9": [0, 1, 2], "--every --threshold 1": [0]}
    for asked, keys in {"": [0], "--top 3": [0, 1, 2], "--top 9": [0, 1, 2, 3], **every}.items():
        rows = json_rows(command(f"index query known b.jsonl {asked}", *REFERENCE[:2]).out)
        assert [(row["row"], row["duplicate_of"]) for row in rows] == [(1, key) for key in keys]
    for option, message in (
        ("--top 0", "--top is 0; give an integer from 1"),
        ("--top 1 --every", "--every is given, and --top is 1; give one of them"),
        ("--overwrite", "--overwrite is given without output"),
        *((f"--threshold {wrong}", "and the index has 0.5; give 0.5 to 1") for wrong in ("0.4", "1.5", "nan")),
    ):
        refused = command(f"index query known b.jsonl {option}", *REFERENCE[:2])
        assert refused.status == 2 and message in refused.error
