"""`gpulsh index`: files in, an index that grows and answers; the same documents as one run over all files keeps."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh import Index
from gpulsh.cli import main
from tests.support.pages import ROOT, blocks
from tests.support.texts import licences

REFERENCE = ["--backend", "reference", "--threshold", "0.5", "--num-perm", "16"]


def write(name: str, texts: list[Any], **columns: list[Any]) -> None:
    Path(name).parent.mkdir(exist_ok=True)
    if name.endswith(".parquet"):
        pq.write_table(pa.table({"text": texts, **columns}), name, row_group_size=50)
        return
    rows = [{"text": text, **{k: v[i] for k, v in columns.items()}} for i, text in enumerate(texts)]
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def told(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_two_halves_keep_what_one_run_keeps(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts: list[Any] = [*licences()[::8], None, ""]
    ids = [f"doc {number}" for number in range(len(texts))]
    third = len(texts) // 3
    for place, (start, stop) in enumerate([(0, 40), (40, third), (third, len(texts))]):
        name = f"in/{place}" + (".parquet" if place % 2 else ".jsonl")
        write(name, texts[start:stop], id=ids[start:stop])
    assert main(["dedup", "in", "-o", "out", "--backend", "cpu", "--write", "duplicates", "--id-column", "id"]) == 0
    evidence = pq.read_table("out/duplicates.parquet").to_pylist()
    wanted = [(row["file"], row["row"], row["id"], row["duplicate_of_id"], row["similarity"]) for row in evidence]
    capsys.readouterr()

    options = ["--backend", "cpu", "--id-column", "id"]
    assert main(["index", "build", "index", "in/0.jsonl", "in/1.parquet", *options, "-o", "a.jsonl", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["documents"] == third and first["kept"] == first["held"]
    assert main(["index", "add", "index", "in/2.jsonl", *options, "-o", "b.parquet"]) == 0
    assert f"the index holds {len(texts) - len(evidence)}" in capsys.readouterr().out
    rows = told(Path("a.jsonl").read_text()) + pq.read_table("b.parquet").to_pylist()
    found = [(row["file"], row["row"], row["id"], row["duplicate_of"], np.float32(row["similarity"])) for row in rows]
    assert found == wanted and len(found) > 0

    assert main(["index", "compact", "index"]) == 0
    capsys.readouterr()
    assert main(["index", "query", "index", "in", *options]) == 0
    asked = told(capsys.readouterr().out)
    assert len({(row["file"], row["row"]) for row in asked}) == len(asked) == len(texts) - 2
    assert main(["index", "query", "index", "in", *options, "--every", "-o", "q.parquet"]) == 0
    every = {(row["file"], row["row"], row["duplicate_of"]) for row in pq.read_table("q.parquet").to_pylist()}
    assert every >= {(file, row, key) for file, row, _, key, _ in found} and len(every) > len(asked)


def test_keys_are_file_and_row_or_integers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["a b c d e f g", "h i j k l m n", "a b c d e f g", None]
    write("a.jsonl", texts, n=[7, 5, 3, 1])
    assert main(["index", "build", "named", "a.jsonl", *REFERENCE]) == 0
    assert main(["index", "build", "numbered", "a.jsonl", *REFERENCE, "--id-column", "n"]) == 0
    write("b.jsonl", ["A, b c d e f g!"])
    capsys.readouterr()
    assert main(["index", "query", "named", "b.jsonl", *REFERENCE[:2]]) == 0
    row = {"file": "b.jsonl", "row": 0, "id": None, "similarity": 1.0}
    assert told(capsys.readouterr().out) == [{**row, "duplicate_of": "a.jsonl:0"}]
    assert main(["index", "query", "numbered", "b.jsonl", *REFERENCE[:2]]) == 0
    assert told(capsys.readouterr().out) == [{**row, "duplicate_of": 7}]
    assert main(["index", "query", "numbered", "b.jsonl", *REFERENCE[:2], "-o", "none.parquet"]) == 0
    assert pq.read_schema("none.parquet").field("duplicate_of").type == pa.int64()


@pytest.mark.parametrize("name", ["none.csv", "none.json", "none.jsonl"])
def test_files_without_documents(folder: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing says of which type their ids would be."""
    Path(name).write_text({".csv": "id,text\n", ".json": "[]", ".jsonl": ""}[Path(name).suffix])
    options = ["--backend", "reference", "--id-column", "id"]
    assert main(["index", "build", "index", name, *options, "-o", "found.parquet"]) == 0
    write("a.jsonl", ["a b c d e f g"], id=[7])
    assert main(["index", "add", "index", "a.jsonl", *options]) == 0
    assert main(["index", "add", "index", name, *options, "-o", "again.jsonl"]) == 0
    capsys.readouterr()
    assert main(["index", "query", "index", name, *options]) == 0
    assert capsys.readouterr().out == ""


def test_counts_grow_with_runs_and_shrink_with_removals(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = "a b c d e f g h i j k l"
    write("a.jsonl", [page, "m n o p q r", page, None], url=["u0", "u1", "u2", "u3"])
    write("b.parquet", [page.upper(), f"{page} z", f"{page} z", "M n o p q r"], url=["u4", "u5", "u6", "u7"])
    for name in ("a.jsonl", "b.parquet"):
        run = ["dedup", name, "-o", f"out/{name}", "--index", "known", "--id-column", "url", *REFERENCE]
        assert main(run) == 0
    capsys.readouterr()

    def counts() -> list[dict[str, Any]]:
        assert main(["index", "counts", "known"]) == 0
        return told(capsys.readouterr().out)

    assert counts() == [
        {"key": "u0", "copies": 2, "near": 2},
        {"key": "u1", "copies": 1, "near": 0},
        {"key": "u3", "copies": 0, "near": 0},
    ]
    assert main(["index", "remove", "known", "u2", "u6", "u7"]) == 0
    capsys.readouterr()
    assert counts() == [
        {"key": "u0", "copies": 1, "near": 1},
        {"key": "u1", "copies": 0, "near": 0},
        {"key": "u3", "copies": 0, "near": 0},
    ]
    assert main(["index", "remove", "known", "u0"]) == 0
    for name in ("counts.parquet", "counts.jsonl"):
        assert main(["index", "counts", "known", "-o", name]) == 0
        assert main(["index", "counts", "known", "-o", name]) == 1
        assert "is there already" in capsys.readouterr().err
        assert main(["index", "counts", "known", "-o", name, "--overwrite"]) == 0
        assert f"The counts of 2 documents are in {name}." in capsys.readouterr().out
    written = pq.read_table("counts.parquet")
    assert written.to_pylist() == told(Path("counts.jsonl").read_text()) == counts()
    assert [row["key"] for row in written.to_pylist()] == ["u1", "u3"]
    assert main(["index", "counts", "known", "-o", "known/counts.parquet"]) == 1
    assert "is inside the index known" in capsys.readouterr().err


def test_what_is_refused_changes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("a.jsonl", ["a b c d e f g", "h i j k l m"], n=["x", "x"], m=[1, None])
    write("in/a.jsonl", ["x"])

    def refused(status: int, *arguments: str) -> str:
        assert main(["index", *arguments, "--backend", "reference"]) == status
        out, err = capsys.readouterr()
        assert out == "" and err.splitlines()[-1].startswith("gpulsh: error: ")
        return err.splitlines()[-1]

    assert "row 1: its key is 'x', as a.jsonl: row 0" in refused(2, "build", "i", "a.jsonl", "--id-column", "n")
    assert "row 1: column 'm' is null" in refused(1, "build", "i", "a.jsonl", "--id-column", "m")
    assert "give a file that ends with" in refused(2, "build", "i", "a.jsonl", "-o", "x.csv")
    assert "is inside the input" in refused(1, "build", "in/i", "in")
    assert "no such file" in refused(1, "build", "i", "nothing.jsonl")
    assert "i/x.jsonl: is inside the index i; give a path" in refused(1, "build", "i", "a.jsonl", "-o", "i/x.jsonl")
    for command in ("build", "add", "query"):
        assert "path is empty; give the path of a folder" in refused(2, command, "", "a.jsonl")
    assert "i: no such folder; make an index" in refused(1, "query", "i", "a.jsonl")
    assert "i: no such folder" in refused(1, "add", "i", "a.jsonl")
    assert not os.path.exists("i")
    Path("mine").mkdir()
    Path("mine/file").write_text("mine")
    assert "mine: is not an index; make an index" in refused(1, "query", "mine", "a.jsonl")
    assert "it holds file" in refused(1, "build", "mine", "a.jsonl")
    assert os.listdir("mine") == ["file"]
    assert main(["index", "build", "i", "a.jsonl", "--backend", "reference"]) == 0
    before = {path: path.read_bytes() for path in Path("i").iterdir()}
    capsys.readouterr()
    assert "is already an index" in refused(1, "build", "i", "in")
    assert "'a.jsonl:0', which is in the index" in refused(2, "add", "i", "a.jsonl")
    assert "threshold 0.8 and 0.5 was given" in refused(2, "add", "i", "in", "--threshold", "0.5")
    assert {path: path.read_bytes() for path in Path("i").iterdir()} == before


@pytest.mark.parametrize("command", ["build", "add", "query"])
@pytest.mark.parametrize(
    ("given", "output", "told"),
    [
        ("in/a.jsonl", "in/a.jsonl", "in/a.jsonl: is the input itself; give another path"),
        ("in", "in/a.jsonl", "in/a.jsonl: is inside the input in; give a path outside of it"),
        ("in/*.jsonl", "in/a.jsonl", "in/a.jsonl: is the input in/a.jsonl; give another path"),
        ("in/*.jsonl", "link.jsonl", "link.jsonl: is the input in/a.jsonl; give another path"),
        (
            "in/a.jsonl",
            "index/found.jsonl",
            "index/found.jsonl: is inside the index index; give a path outside of it",
        ),
        ("in/a.jsonl", "s3://bucket/found.jsonl", "s3://bucket/found.jsonl: is a URL; give a local path"),
    ],
)
def test_what_is_found_replaces_no_input(
    command: str, given: str, output: str, told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write("in/a.jsonl", ["a b c d e f g", "h i j k l m"])
    write("before.jsonl", ["h i j k l m"])
    Path("link.jsonl").symlink_to("in/a.jsonl")
    assert main(["index", "build", "index", "before.jsonl", "--backend", "reference"]) == 0
    if command == "build":
        Path("index").rename("made")
        Path("index").mkdir()
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    capsys.readouterr()
    assert main(["index", command, "index", given, "-o", output, "--backend", "reference"]) == 1
    assert capsys.readouterr().err.startswith(f"gpulsh: error: {told}")
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before


def test_duckdb_finds_the_same_candidates(folder: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="the SQL door is tested with DuckDB where it is installed")
    texts = licences()[::6]
    index = Index(backend="cpu")
    index.insert(range(len(texts)), texts)
    index.save("index")
    index.close()

    def files(kind: str) -> Any:
        names = sorted(Path("index").glob(f"{kind}-*.arrow"))
        return pa.concat_tables(pa.ipc.open_file(pa.memory_map(str(name))).read_all() for name in names)

    digests, documents, keys = files("digests"), files("documents"), files("keys")
    assert digests.num_rows and documents.num_rows == keys.num_rows == len(texts)
    (query,) = (block.text for block in blocks(ROOT / "docs/crawls.md") if block.language == "sql")
    found = duckdb.sql(query).fetchnumpy()
    fingerprints = gpulsh.shingle(texts, backend="cpu")
    signatures = gpulsh.MinHash()(fingerprints, backend="cpu")
    shape = index.parameters.banding
    wanted = gpulsh.candidate_pairs(
        gpulsh.Banding(bands=shape.bands, rows=shape.rows)(signatures, backend="cpu"), backend="cpu"
    )
    assert len(wanted) > 10
    np.testing.assert_array_equal(np.stack([found["i"], found["j"]], axis=1), wanted)


def test_what_an_index_is_and_what_goes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["a b c d e f g", "h i j k l m n", "a b c d e f g", "o p q r s t u"]
    write("a.jsonl", texts, n=[7, 5, 3, -1])
    assert main(["index", "build", "named", "a.jsonl", *REFERENCE]) == 0
    assert main(["index", "build", "numbered", "a.jsonl", *REFERENCE, "--id-column", "n"]) == 0

    def info(path: str) -> dict[str, Any]:
        capsys.readouterr()
        assert main(["index", "info", path, "--json"]) == 0
        return json.loads(capsys.readouterr().out)  # type: ignore[no-any-return]

    facts = info("named")
    assert facts["bytes"] == sum(path.stat().st_size for path in Path("named").glob("*.arrow"))
    names = ("documents", "dropped", "removed", "keys", "segments", "commits")
    assert [facts[name] for name in names] == [3, 1, 0, "string", 1, 1]
    assert facts["parameters"] == Index.open("named", backend="reference").parameters.matching()
    assert main(["index", "info", "named"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "keys       string" in lines and any(line.startswith("shingling  unit=word size=5") for line in lines)

    assert main(["index", "remove", "named", "a.jsonl:0"]) == 0
    assert capsys.readouterr().out == "2 documents are held in named\n"
    facts = info("named")  # with the first went its copy
    assert [facts[name] for name in names] == [2, 0, 1, "string", 1, 2]
    Path("keys").write_text("5\n\n-1\n")
    assert main(["index", "remove", "numbered", "7", "--from", "keys"]) == 0
    assert info("numbered")["documents"] == 0
    for given, said in (
        (["named"], "no key is given"),
        (["named", "a.jsonl:1", "other"], "keys[1] is 'other', which is not in the index"),
        (["numbered", "x"], "a key is 'x', and the index has integer keys"),
    ):
        assert main(["index", "remove", *given]) == 2
        assert said in capsys.readouterr().err
    assert info("named")["documents"] == 2


def test_a_query_may_ask_for_more_or_for_the_most_similar(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = [f"w{number}" for number in range(30)]
    texts = {copy: " ".join([*page, *(f"{copy}x{extra}" for extra in range(copy))]) for copy in (3, 1, 2, 0)}
    write("b.jsonl", ["nothing like it at all", " ".join(page)])
    with Index.create("known", backend="reference", threshold=0.5) as index:
        index.insert(list(texts), list(texts.values()))
    wanted: list[tuple[list[str], Any]] = [
        ([], [0]),
        (["--top", "3"], [0, 1, 2]),
        (["--top", "9"], [0, 1, 2, 3]),
        (["--every"], range(4)),
        (["--every", "--threshold", "0.9"], [0, 1, 2]),
        (["--every", "--threshold", "1"], [0]),
    ]
    for asked, keys in wanted:
        capsys.readouterr()
        assert main(["index", "query", "known", "b.jsonl", *REFERENCE[:2], *asked]) == 0
        rows = told(capsys.readouterr().out)
        assert [(row["row"], row["duplicate_of"]) for row in rows] == [(1, key) for key in keys]
    for option, wrong, said in (
        ("--top", "0", "top is 0; give an integer from 1"),
        *(("--threshold", wrong, "and the index has 0.5; give 0.5 to 1") for wrong in ("0.4", "1.5", "nan")),
    ):
        assert main(["index", "query", "known", "b.jsonl", *REFERENCE[:2], option, wrong]) == 2
        assert said in capsys.readouterr().err
