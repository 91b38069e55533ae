"""`--index`: successive runs keep the documents that one run over everything keeps."""

import json
import random
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulsh
from gpulsh import Index
from gpulsh.errors import InputError, OutputError, ParameterError
from gpulsh.run.index.earlier_runs import EarlierRuns
from gpulsh.run.index.jobs import add_to_index
from tests.crash.test_resume import results
from tests.support.command import Command
from tests.support.files import write_rows
from tests.support.naive_index import NaiveIndex
from tests.support.runs import evidence, small_partitions
from tests.support.runs import run as run_files

SHAPE: dict[str, Any] = {"threshold": 0.4, "num_perm": 16, "bands": 8, "rows": 2}
OPTIONS: dict[str, Any] = {**SHAPE, "shingling": gpulsh.Shingling(size=2), "backend": "reference"}
IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # where no flush takes time
WORDS = ["a", "b", "c", "d", "Ä", "漢", "🙂", "x\0y"]


def write(path: str, texts: Sequence[bytes | str | None], first: int = 0) -> str:
    """Write documents with ids from `first` on as JSON lines, or as Parquet of binary if a text is bytes."""
    rows: Any = [{"text": text, "id": f"doc {first + row}"} for row, text in enumerate(texts)]
    if path.endswith(".parquet"):
        rows = pa.Table.from_pylist(rows, pa.schema({"text": pa.binary(), "id": pa.string()}))
    return write_rows(path, rows, 3)


@st.composite
def crawls(draw: st.DrawFn) -> list[list[str | None]]:
    """Four crawls with exact and near copies of one another."""
    text = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
    pool = draw(st.lists(text, min_size=1, max_size=6))
    row = st.one_of(st.none(), st.sampled_from(pool), st.sampled_from(pool).map(lambda text: text + " d"), text)
    documents = draw(st.lists(row, max_size=30))
    cuts = sorted(draw(st.lists(st.integers(0, len(documents)), min_size=3, max_size=3)))
    return [documents[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(documents)], strict=True)]


@given(crawls(), st.booleans(), st.booleans())
@settings(max_examples=9, deadline=None)
def test_runs_through_an_index_keep_what_one_run_keeps(parts: list[list[str | None]], ids: bool, binary: bool) -> None:
    with TemporaryDirectory(dir=IN_MEMORY) as place, pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        small_partitions(patch, 120)
        files, first = [], 0
        for number, texts in enumerate(parts):
            if binary:
                raw = [None if text is None else text.encode() + b" \xff" for text in texts]
                files.append(write(f"in/{number}.parquet", raw, first))
            else:
                files.append(write(f"in/{number}.jsonl", texts, first))
            first += len(texts)
        named = {"id_column": "id"} if ids else {}
        gpulsh.deduplicate_files(files, "one", **OPTIONS, **named)
        wanted, found = evidence("one"), []
        for number, file in enumerate(files):
            result = gpulsh.deduplicate_files(file, str(number), index="known", **OPTIONS, **named)
            name = Path(file).name
            assert Path(f"{number}/data/{name}").read_bytes() == Path(f"one/data/{name}").read_bytes()
            schema = pq.read_schema(f"{number}/duplicates.parquet")
            assert binary is False or schema == pq.read_schema("one/duplicates.parquet")
            rows = evidence(str(number))
            earlier = [row for row in rows if row["duplicate_of_file"] != file]
            assert result.funnel["earlier"] == len(earlier) and result.funnel["dropped"] == len(rows)
            firsts: dict[Any, int] = {}
            for row in rows:
                witness = (row["duplicate_of_file"], row["duplicate_of_row"], row["duplicate_of_id"])
                own = row["duplicate_of_row"] if row["duplicate_of_file"] == file else row["row"]
                assert row["cluster"] == firsts.setdefault(witness, own)
                if ids and row in earlier:
                    assert witness[:2] == (None, None)
                    at = int(row["duplicate_of_id"].split()[1])
                    place_of = next(n for n in range(4) if at < sum(map(len, parts[: n + 1])))
                    row["duplicate_of_file"] = files[place_of]
                    row["duplicate_of_row"] = at - sum(map(len, parts[:place_of]))
            found += rows
        for row in (*wanted, *found):
            del row["cluster"]
        assert found == wanted
        naive = NaiveIndex(SHAPE["threshold"], 2, SHAPE["num_perm"], SHAPE["bands"], SHAPE["rows"])
        texts = [None if text is None else text + " \ufffd" * binary for part in parts for text in part]
        kept = [key == at for at, (key, _) in enumerate(naive.add(range(len(texts)), texts))]
        assert kept.count(False) == len(found)
        index = Index.open("known", backend="reference")
        assert len(index) == len(kept) and index.dropped() == kept.count(False)


KEEPS = [
    ("longest", "jaccard", False),
    ("score", "containment", True),
    ("source:feb/2.jsonl,feb/0.jsonl,feb/1.parquet", "jaccard", False),
]


@pytest.mark.parametrize(("keep", "measure", "ids"), KEEPS)
def test_policies_apply_to_runs_with_an_index(keep: str, measure: str, ids: bool, folder: Path) -> None:
    """The documents kept by earlier runs act as protected ones."""
    source = random.Random(7)
    pages = [source.sample("abcdefghijklmnopqrstuvwxyz", 12) for _ in range(20)]

    def crawl(name: str, some: list[list[str]]) -> list[str]:
        paths = []
        for number, ending in enumerate(("jsonl", "parquet", "jsonl")):
            drawn = [source.choice(some)[: source.randint(10, 12)] + source.sample("uvwxyz", 2) for _ in range(20)]
            path = f"{name}/{number}.{ending}"
            texts = ["", *map(" ".join, drawn)]
            rows = [{"text": text, "id": f"{path}{row}", "score": row % 3} for row, text in enumerate(texts)]
            paths.append(write_rows(path, rows))
        return paths

    options = {**OPTIONS, "measure": measure, **({"id_column": "id"} if ids else {})}
    gpulsh.deduplicate_files(crawl("jan", pages[:12]), "before", index="known", keep="first", **options)
    paths = crawl("feb", pages[8:])
    gpulsh.deduplicate_files(paths, "found", index="known", keep=keep, **options)
    gpulsh.deduplicate_files(paths, "wanted", protect="before/data", keep=keep, **options)
    assert results(Path("found/data")) == results(Path("wanted/data"))
    found, wanted = evidence("found"), evidence("wanted")
    assert [row["similarity"] for row in found] == [row["similarity"] for row in wanted]
    own = [(row, like) for row, like in zip(found, wanted, strict=True) if like["duplicate_of_file"] in paths]
    assert len(own) > 5 and len(found) - len(own) > 5
    assert all({**row, "cluster": 0} == {**like, "cluster": 0} for row, like in own)
    starts = dict(zip(paths, range(0, 21 * len(paths), 21), strict=True))
    places = [
        (starts[row["file"]] + row["row"], starts[row["duplicate_of_file"]] + row["duplicate_of_row"]) for row, _ in own
    ]
    firsts = {kept: min(kept, *(place for place, of in places if of == kept)) for _, kept in places}
    assert [row["cluster"] for row, _ in own] == [firsts[kept] for _, kept in places]
    kept = {row["row"] for row in found if row["file"] == paths[0]}
    first = next(row for row in range(21) if row not in kept)
    assert (f"{paths[0]}{first}" if ids else f"{paths[0]}:{first}") in Index.open("known", backend="reference")


PAGE, OTHER = "a b c d e f g h", "h g f e d c b a"
KNOWN = "--index known --shingle word:2 --backend reference"


def test_a_run_continues_an_index_of_the_command(folder: Path, command: Command) -> None:
    write("jan.jsonl", [PAGE, OTHER])
    assert command("index build known jan.jsonl --shingle word:2 --backend reference").status == 0
    write("feb.jsonl", [PAGE + " z", PAGE + " z", OTHER, "new one here", None])
    shown = command(f"dedup feb.jsonl -o out --verbose {KNOWN}").out
    assert re.search("^dropped +[0-9]+ .*\n +3  for earlier runs$", shown, re.MULTILINE)
    names = ("row", "duplicate_of_file", "duplicate_of_row", "duplicate_of_id", "cluster")
    found = [tuple(row[name] for name in names) for row in evidence("out")]
    assert found == [(0, "jan.jsonl", 0, None, 0), (1, "jan.jsonl", 0, None, 0), (2, "jan.jsonl", 1, None, 2)]
    report = json.loads(Path("out/report.json").read_text())
    assert report["funnel"]["earlier"] == 3 and report["parameters"]["index"] == str(folder.resolve() / "known")
    largest = report["evidence"]["clusters"]["sample"][0]["pairs"][0]
    assert largest["kept"] == {"file": "jan.jsonl", "row": 0} and largest["texts"][1] == ""
    page = Path("out/report.html")
    assert not page.exists() or "3 documents dropped for documents of earlier runs" in page.read_text()
    index = Index.open("known", backend="reference")
    assert len(index) == 7 and index.dropped() == 3 and "feb.jsonl:3" in index
    assert index.query([PAGE]).keys.tolist() == ["jan.jsonl:0"]


def test_keys_of_any_form_are_named_in_the_evidence(folder: Path) -> None:
    texts = [" ".join(f"{chr(97 + n)}{word}" for word in range(9)) for n in range(4)]
    with Index(**OPTIONS) as index:
        index.insert(["http://x:80", "a:b\nc:7", "plain", "x:y"], texts)
        index.save("known")
    run_files(write("new.jsonl", texts[::-1]), index="known")
    found = [(row["duplicate_of_file"], row["duplicate_of_row"]) for row in evidence("out")]
    assert found == [("x:y", None), ("plain", None), ("a:b\nc", 7), ("http://x", 80)]


@pytest.mark.parametrize("kind", [pa.int64(), pa.int16(), pa.uint64()])
def test_integer_ids_are_keys_of_the_index(kind: Any, folder: Path) -> None:
    for name, start in (("a", 1), ("b", 300)):
        table = pa.table({"text": [PAGE, OTHER], "n": pa.array([start, start + 1], kind)})
        run_files(write_rows(f"{name}.parquet", table), name, index="known", id_column="n")
    ids = [(row["id"], row["duplicate_of_id"]) for row in evidence("b")]
    assert ids == ([("300", "1"), ("301", "2")] if kind == pa.uint64() else [(300, 1), (301, 2)])


def test_refused_runs_leave_the_index_unchanged(folder: Path, command: Command) -> None:
    write("jan.jsonl", [PAGE, OTHER])
    write("feb.jsonl", [OTHER, "three"])
    assert command(f"dedup jan.jsonl -o jan --threshold 0.7 {KNOWN}").status == 0
    before = results(Path("known"))

    def refused(status: int, line: str) -> str:
        printed = command(f"dedup {line} {KNOWN}")
        assert printed.status == status and results(Path("known")) == before and not Path("out").exists()
        return printed.error

    write_rows("null.jsonl", [{"text": "one", "id": "x"}, {"text": "two", "id": None}])
    message = "{} and {} cannot be combined; leave one of the two out"
    for status, line, reason in (
        (1, "feb.jsonl jan.jsonl -o out", "it contains jan.jsonl already"),
        (2, "feb.jsonl -o out --threshold 0.8", "threshold 0.7 and 0.8 was given"),
        (2, "feb.jsonl -o out --verify none", "verify is 'none'"),
        (2, "feb.jsonl -o out --resolve components", "resolve is 'components'"),
        (2, "feb.jsonl -o out --protect jan.jsonl", "--protect and --index cannot be combined"),
        (2, "feb.jsonl -o out --within", "--within and --index cannot be combined"),
        (2, "feb.jsonl -o out --across", "--across and --index cannot be combined"),
        (2, "feb.jsonl -o out --and simhash:3", message.format("--and", "--index")),
        (2, "feb.jsonl -o out --on-error skip --id-column id", "leave --id-column out"),
        (1, "null.jsonl -o out --id-column id", "null.jsonl: line 2: column 'id' is null"),
        (1, "feb.jsonl -o known", "known: is the index itself; give another path"),
        (1, "feb.jsonl -o known/out", "known/out: is inside the index known"),
    ):
        assert reason in refused(status, line)
    with pytest.raises(ParameterError, match=f"^{message.format('also', 'index')}$"):
        run_files("feb.jsonl", index="known", also=gpulsh.SimHash(), distance=3)
    with pytest.raises(OutputError, match="out/new: is inside the output out; give a path outside of it"):
        run_files("feb.jsonl", index="out/new")
    line = f"dedup feb.jsonl -o feb --id-column id {KNOWN}"
    assert command(line).status == 0  # parameters left open are the index's own
    assert json.loads(Path("feb/report.json").read_text())["parameters"]["threshold"] == 0.7
    before = results(Path("known"))
    assert "'doc 0', which is in the index" in refused(1, "feb.jsonl -o out --id-column id")
    with Index(backend="reference") as numbered:
        numbered.insert([1], [PAGE])
        numbered.save("numbered")
    needs = "numbered: its keys are integers, and without id_column keys are FILE:ROW; give id_column"
    with pytest.raises(ParameterError, match=needs):
        run_files("feb.jsonl", index="numbered")
    with pytest.raises(ParameterError, match=needs):
        add_to_index("numbered", ["feb.jsonl"], backend="reference")
    Path("mine").mkdir()
    Path("mine/file").write_text("mine")
    with pytest.raises(OutputError, match="it holds file"):
        run_files("feb.jsonl", index="mine")
    assert not Path("out").exists() and [path.name for path in Path("mine").iterdir()] == ["file"]


def test_a_failed_run_leaves_no_new_index(folder: Path) -> None:
    write_rows("bad.jsonl", ["fine", 7])
    with pytest.raises(InputError):
        run_files("bad.jsonl", index="known")
    assert [path.name for path in folder.iterdir()] == ["bad.jsonl"]


def test_two_runs_that_create_one_index_both_add_to_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("jan.jsonl", [PAGE, OTHER])
    write("feb.jsonl", [PAGE, "a third page"])
    make = EarlierRuns.open_index

    def run_beside(threshold: float) -> Any:
        """Another run finishes between the start of this run and its first document."""

        def late(self: EarlierRuns) -> Index:
            monkeypatch.setattr(EarlierRuns, "open_index", make)
            run_files("jan.jsonl", "jan", index="known", threshold=threshold)
            return make(self)

        monkeypatch.setattr(EarlierRuns, "open_index", late)
        return run_files("feb.jsonl", "feb", index="known")

    with pytest.raises(ParameterError, match="known: another run made it meanwhile, with other parameters; start a"):
        run_beside(0.7)
    assert not Path("feb").exists()
    for path in ("known", "jan"):
        shutil.rmtree(path)
    assert run_beside(0.8).funnel["dropped"] == 1
    index = Index.open("known", backend="reference")
    assert all(key in index for key in ("jan.jsonl:0", "jan.jsonl:1", "feb.jsonl:0", "feb.jsonl:1"))


@pytest.mark.parametrize("options", [{}, {"keep": "longest", "memory": "512MiB"}])  # the latter reads texts again
def test_bad_records_do_not_enter_the_index(options: dict[str, Any], folder: Path) -> None:
    lines = [json.dumps({"text": text}) for text in (PAGE, OTHER, PAGE)]
    Path("bad.jsonl").write_text("\n".join([lines[0], '{"text": 7}', "{", *lines[1:]]) + "\n")
    result = run_files("bad.jsonl", index="known", on_error="skip", **options)
    assert (result.funnel["documents"], result.funnel["rejected"], result.funnel["kept"]) == (3, 2, 2)
    assert [(row["row"], row["duplicate_of_row"]) for row in evidence("out")] == [(4, 0)]
    index = Index.open("known", backend="reference")
    assert len(index) == 3 and index.dropped() == 1
    assert "bad.jsonl:3" in index and "bad.jsonl:1" not in index and "bad.jsonl:2" not in index


def test_an_empty_index_sets_the_parameters_of_a_run(folder: Path) -> None:
    """A run without parameters takes them from it, and its report shows them."""
    with Index.create(folder / "known", **OPTIONS) as index:
        index.save()
    result = run_files(write("new.jsonl", ["a b c d e", "a b c d f"]), index="known")  # 3 of 5 shingles
    assert result.report["parameters"]["threshold"] == SHAPE["threshold"]
    assert result.report["parameters"]["shingling"]["size"] == 2 and result.funnel["dropped"] == 1


def test_a_finished_run_is_not_repeated(folder: Path) -> None:
    first = run_files(write("jan.jsonl", [PAGE, OTHER, PAGE]), index="known")
    before = results(Path("known"))
    assert run_files("jan.jsonl", index="known", resume=True).report == first.report
    with pytest.raises(InputError, match="already"):
        run_files("jan.jsonl", index="known", overwrite=True)
    with pytest.raises(OutputError, match=r"index was .* and is absent now"):
        run_files("jan.jsonl", resume=True)
    assert results(Path("known")) == before and len(evidence("out")) == 1


def test_file_names_in_keys_need_not_be_utf8(folder: Path) -> None:
    for number in range(2):  # the second time the index is asked whether it knows the file
        run_files(write(f"{number}\udcff.jsonl", [f"a page of words {number}"]), f"out{number}", index="known")
    assert all(f"{number}\ufffd.jsonl:0" in Index.open("known") for number in range(2))
