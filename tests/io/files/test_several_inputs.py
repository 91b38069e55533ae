"""Several INPUTs: each has its own place for kept rows, even under equal names; and globs that the shell expands."""

import glob
import json
import os
import re
import shlex
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.errors import InputError, OutputError
from gpulsh.io.files.places import own_folders
from tests.crash.test_resume import results
from tests.support.command import Command
from tests.support.files import write_rows
from tests.support.runs import below, evidence, interrupting
from tests.test_manual import COMMANDS

WORDS = "one two three four five six seven eight nine ten eleven twelve"


def put(path: str, *texts: str) -> None:
    """Write JSON lines or Parquet: a text made from the path, then these texts."""
    write_rows(path, [" ".join(f"{path} {number}" for number in range(9)), *texts])


def run(inputs: Any, out: str = "out", **options: Any) -> Any:
    shutil.rmtree(out, ignore_errors=True)
    return gpulsh.deduplicate_files(inputs, out, backend="reference", **options)


def dropped(out: str = "out") -> list[tuple[str, str]]:
    return [(row["file"], row["duplicate_of_file"]) for row in evidence(out)]


# --- folders of their own ---


@contextmanager
def bucket() -> Iterator[Any]:
    """A file system in memory, emptied afterwards."""
    memory = fsspec.filesystem("memory")
    try:
        yield memory
    finally:
        memory.rm("/", recursive=True)


@pytest.fixture
def sources(folder: Path) -> list[str]:
    for name in ("books", "wiki", "crawl"):
        put(f"{name}/part-0.parquet", WORDS)
        put(f"{name}/part-1.parquet", *[" ".join(f"{name}{number}" for number in range(12))] * 2)  # a repeat
    for name in ("a/x.jsonl", "b/y.jsonl", "other.jsonl"):
        put(name)
    for name in ("a.zip", "b.zip"):
        with zipfile.ZipFile(name, "w") as archive:
            archive.writestr("p/x.jsonl", json.dumps({"text": f"{name} {WORDS}"}) + "\n")
    return ["books", "wiki", "crawl"]


BOTH = "part-0.parquet part-1.parquet"
ALL = " ".join(f"{name}/part-{number}.parquet" for name in ("books", "wiki", "crawl") for number in (0, 1))


@pytest.mark.parametrize(
    ("inputs", "written"),
    [
        ("books", BOTH),
        ("books other.jsonl", f"{BOTH} other.jsonl"),
        ("books wiki crawl", ALL),
        ("books/*.parquet wiki/*.parquet crawl/*.parquet", ALL),
        ("a b", "a/x.jsonl b/y.jsonl"),  # though their files have other names
        ("zip://**/*.jsonl::a.zip zip://**/*.jsonl::b.zip", "a.zip/p/x.jsonl b.zip/p/x.jsonl"),
    ],
)
def test_kept_rows_are_written_below_a_folder_of_their_input(sources: list[str], inputs: str, written: str) -> None:
    run(inputs.split())
    assert below("out/data") == set(written.split())
    if written == ALL:
        assert pq.read_table("out/data/crawl/part-0.parquet").num_rows == 1
        assert pq.read_table("out/data/books/part-0.parquet").num_rows == 2
        assert ("crawl/part-0.parquet", "books/part-0.parquet") in dropped()
    run(inputs.split(), "evidence", write="duplicates")
    assert dropped("evidence") == dropped() and not Path("evidence/data").exists()


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"keep": "source:wiki,crawl,books"}, {"wiki": 2, "books": 1, "crawl": 1}),
        ({"within": True}, {"wiki": 2, "books": 2, "crawl": 2}),
        ({"across": True}, {"wiki": 1, "books": 2, "crawl": 1}),
        ({"protect": "books"}, {"wiki": 1, "crawl": 1}),
    ],
)
def test_policies_compare_sources(sources: list[str], options: dict[str, Any], kept: dict[str, int]) -> None:
    run([name for name in sources if name != options.get("protect")], **options)
    assert {name: pq.read_table(f"out/data/{name}/part-0.parquet").num_rows for name in kept} == kept
    assert set(os.listdir("out/data")) == set(kept)
    twice = 3 if options.get("across") else 2
    assert {pq.read_table(f"out/data/{name}/part-1.parquet").num_rows for name in kept} == {twice}


def test_inputs_at_urls_get_distinct_folders(folder: Path) -> None:
    line = json.dumps({"text": WORDS}).encode() + b"\n"
    with bucket() as memory:
        for name in ("old/books", "new/books", "wiki"):
            memory.makedirs(f"/bucket/{name}", exist_ok=True)
            memory.pipe(f"/bucket/{name}/part.jsonl", line)
        put("books/part.jsonl")
        run(["memory://bucket/old/books", "memory://bucket/new/books/", "memory://bucket/wiki/*.jsonl", "books"])
        own = ("old/books", "new/books", "wiki", f"{folder.name}/books")
        assert below("out/data") == {f"{name}/part.jsonl" for name in own}
        run(["memory://bucket/old/books/part.jsonl", "memory://bucket/wiki/part.jsonl"])
        assert below("out/data") == {"books/part.jsonl", "wiki/part.jsonl"}


def test_a_cache_of_fsspec_names_no_folder(sources: list[str]) -> None:
    with bucket() as memory:
        for name in ("books/part.jsonl", "wiki/part.jsonl"):
            memory.pipe(f"/bucket/{name}", b'{"text": "the same"}\n')
        for name in ("a.zip", "b.zip"):
            memory.put(name, f"/bucket/{name}")
        run([f"simplecache::memory://bucket/{name}/part.jsonl" for name in ("books", "wiki")])
        assert below("out/data") == {"books/part.jsonl", "wiki/part.jsonl"}
        run(["zip://::simplecache::memory://bucket/a.zip", "simplecache::zip::memory://bucket/b.zip"])
        assert below("out/data") == {"a.zip/p/x.jsonl", "b.zip/p/x.jsonl"}


@pytest.mark.parametrize(
    ("paths", "folders"),
    [
        (["/d/a", "/d/b"], ["a", "b"]),
        (["/d/a/x", "/d/b/x", "/d/c"], ["a/x", "b/x", "c"]),
        (["/x", "/d/x", "/e/d/x"], ["x", "d/x", "e/d/x"]),  # no longer end of the first that others do not share
        (["/a/x", "/b/x/y", "/c/y"], ["a/x", "x/y", "c/y"]),  # x/y must not be below x
        (["/a", "/a/b"], ["a", "b"]),
    ],
)
def test_output_folders_are_the_shortest_distinct_path_ends(paths: list[str], folders: list[str]) -> None:
    origins = [tuple(path.strip("/").split("/")) for path in paths]
    found = own_folders(origins)
    assert [found[origin] for origin in origins] == folders


def test_dotted_folders_are_named_and_equal_outputs_refused(folder: Path) -> None:
    put("a/x.jsonl/y.jsonl")
    put("b/x.jsonl")
    os.chdir("a")
    run([".", "../b"], "../out")
    os.chdir("..")
    assert below("out/data") == {"a/x.jsonl/y.jsonl", "b/x.jsonl"}
    with bucket() as memory:
        memory.pipe(f"{folder}/a/z.jsonl", b"{}\n")
        put("a/z.jsonl")
        with pytest.raises(InputError, match=r"would both become data/"):
            run(["a", f"memory:/{folder}/a"])


def test_a_run_does_not_resume_with_files_given_otherwise(sources: list[str]) -> None:
    """They have other places in `data/`, or other sources: no finished step is used."""
    os.mkdir("in")
    for name in sources:
        os.rename(name, f"in/{name}")
    files = sorted(glob.glob("in/*/part-0.parquet"))
    for first, then, options in (
        (files, ["in/*/part-0.parquet"], {"within": True}),
        ([files[0]], ["in/b*/part-0.parquet"], {}),
    ):
        with interrupting():
            run(first, **options)
        with pytest.raises(OutputError, match="belongs to another run"):
            gpulsh.deduplicate_files(then, "out", backend="reference", resume=True, **options)
        gpulsh.deduplicate_files(first, "out", backend="reference", resume=True, **options)
        whole = below("out/data")
        run(first, **options)
        assert below("out/data") == whole


# --- globs that the shell expands ---


@pytest.mark.parametrize("pattern", ["in/*/part.jsonl", "in/*/*.jsonl", "in/*", "in/*/"])
def test_an_unquoted_glob_gives_the_results_of_a_quoted_one(folder: Path, pattern: str) -> None:
    for name in ("de/part", "en/part", "en/more", "a", "b"):
        put(f"in/{name}.jsonl", WORDS)
    quoted, unquoted = run(pattern, "quoted"), run(sorted(glob.glob(pattern)), "unquoted")
    assert dropped("unquoted") == dropped("quoted") and results(Path("unquoted/data")) == results(Path("quoted/data"))
    assert unquoted.report["files"] == quoted.report["files"]


def save_data_set(folder: str, *splits: str) -> None:
    """Write what `datasets` saves of a data set, or of one with splits."""
    for split in splits or ("",):
        place = Path(folder, split)
        write_rows(place / "data-00000-of-00001.arrows", [f"{split} {WORDS}"])
        (place / "data-00000-of-00001.arrows").rename(place / "data-00000-of-00001.arrow")
        (place / "dataset_info.json").write_text(json.dumps({"features": {"text": {"dtype": "string"}}}, indent=2))
        (place / "state.json").write_text(json.dumps({"_data_files": [], "_fingerprint": "0"}, indent=2))
    if splits:
        Path(folder, "dataset_dict.json").write_text(json.dumps({"splits": list(splits)}))


@pytest.mark.parametrize("given", [["saved"], ["saved/*"], [], ["saved/*.arrow", "saved/*.json"]])
def test_metadata_of_saved_data_sets_is_not_read(folder: Path, given: list[str]) -> None:
    save_data_set("saved")
    put("more.jsonl", WORDS)
    result = run([*(given or sorted(glob.glob("saved/*"))), "more.jsonl"] if given[1:] == [] else given[:1])
    assert result.funnel["documents"] == (3 if given[1:] == [] else 1)
    assert result.funnel["nulls"] == 0
    for described in ("saved/*.json", "saved/state.json"):
        with pytest.raises(InputError, match=r"saved/\w+\.json: describes a data set and holds no documents"):
            run(described)


def test_metadata_of_a_repository_of_data_sets_is_not_read(folder: Path) -> None:
    put("repository/data/train.jsonl")
    Path("repository/dataset_infos.json").write_text(json.dumps({"default": {"features": {}}}))
    for given in ("repository", "repository/**/*.*"):
        assert run(given).funnel["documents"] == 1
    put("in/dataset_infos.json")
    assert run("in").funnel["documents"] == 1


def test_the_error_for_a_file_of_a_folder_without_the_column_says_to_leave_it_out(folder: Path) -> None:
    put("in/documents.jsonl")
    Path("in/attributes.json").write_text(json.dumps({"id": 1, "attributes": {}}))
    with pytest.raises(InputError, match=r"name one by text_column, or leave the file out$"):
        run("in")
    with pytest.raises(InputError, match=r"name one by text_column$"):
        run("in/attributes.json")


def write_caches(place: str, *names: str) -> None:
    """Write the caches that `datasets` keeps beside a data set."""
    table = pa.table({"indices": pa.array([0], pa.uint64())})
    for name in names:
        with pa.ipc.new_stream(Path(place, name), table.schema) as out:
            out.write_table(table)


CACHES = ("cache-124d35cc3830a6f6.arrow", "cache-576bc3b866e1a0f4_00000_of_00002.arrow")


@pytest.mark.parametrize("caches", [False, True])
def test_splits_of_a_data_set_are_read(folder: Path, caches: bool, caplog: pytest.LogCaptureFixture) -> None:
    """The caches of `datasets` are left out."""
    save_data_set("saved", "train", "test")
    if caches:
        write_caches("saved/train", *CACHES)
        write_caches("saved/test", CACHES[0])
    names = {f"{split}/data-00000-of-00001.arrow" for split in ("train", "test")}
    for given in ("saved", "saved/*", "saved/**/*.*", sorted(glob.glob("saved/*")), f"file://{folder}/saved"):
        caplog.clear()
        assert run(given).funnel["documents"] == 2
        assert below("out/data") == names
        warnings = [message for message in caplog.messages if "describes" not in message]
        assert len(warnings) == caches
        assert all("test/cache-124d35cc3830a6f6.arrow and 2 more: `datasets` computed" in one for one in warnings)
    if caches:
        with pytest.raises(InputError, match=r"next to it; give the folder, or a copy in another folder"):
            run("saved/train/cache-*.arrow")


def test_documents_may_have_the_names_of_metadata_files(folder: Path) -> None:
    """Early versions of `datasets` saved data under a name that today's caches have."""
    save_data_set("saved")
    Path("saved/data-00000-of-00001.arrow").rename(f"saved/{CACHES[0]}")
    state = Path("saved/state.json")
    state.write_text(json.dumps({"_data_files": [{"filename": CACHES[0]}]}))
    assert run("saved").funnel["documents"] == 1
    state.unlink()
    with pytest.raises(InputError, match="computed it"):
        run("saved/*.arrow")
    Path("saved/dataset_info.json").unlink()
    assert run("saved").funnel["documents"] == 1
    for name in ("state.json", "dataset_info.json", "dataset_dict.json"):
        put(f"in/{name}")
    assert run("in").funnel["documents"] == 3


def test_readme_commands_of_several_inputs_run(folder: Path, command: Command) -> None:
    """They run over several folders whose files have equal names, as those of corpora do."""
    for name in ("books", "wiki", "old", "new"):
        put(f"{name}/part-0.parquet", WORDS)
    lines = [line for line in COMMANDS if re.search(r" dedup (books/ wiki/|old/ new/)", line)]
    assert len(lines) == 2
    for line in lines:
        assert command("", *shlex.split(line)[1:], "--backend", "reference").status == 0
        inputs = re.findall(r" (\w+)/", line.partition(" -o ")[0])
        assert below("clean/data") == {f"{name}/part-0.parquet" for name in inputs}
        shutil.rmtree("clean")


# --- results of an earlier run as INPUT: every command suggests a better one ---


PAGE = "several words that are the text of a document"


@pytest.fixture
def earlier_runs(folder: Path) -> None:
    """The folders `out` and `evidence` of runs over `in`."""
    write_rows("in/a.jsonl", [PAGE, PAGE, "others"])
    run("in")
    run("in", "evidence", write="duplicates")


GIVE_DATA = "out: holds the results of `gpulsh dedup`; give out/data, which holds the documents"
NO_DOCUMENTS = "evidence: holds the results of `gpulsh dedup`; give the INPUT of that run, it wrote no documents"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("dedup out/ -o again", GIVE_DATA),
        ("dedup in out -o again", GIVE_DATA),
        ("dedup in --protect out -o again", GIVE_DATA),
        ("dedup evidence -o again", NO_DOCUMENTS),
        ("dedup . -o ../again", "./evidence: holds the results of `gpulsh dedup`; move it out of ."),
        ("dedup o* -o again", "out: holds the results of `gpulsh dedup`; move it out of o*"),
        ("dedup memory://results -o again", GIVE_DATA.replace("out", "memory://results")),
        ("sign out -o again.parquet", GIVE_DATA),
        ("index build again out", GIVE_DATA),
    ],
)
def test_results_are_refused_as_inputs(earlier_runs: None, line: str, message: str, command: Command) -> None:
    with bucket() as memory:
        memory.put("out", "/results", recursive=True)
        assert command(line) == (1, "", f"gpulsh: error: {message}\n")
    assert not Path("again").exists() and not Path("again.parquet").exists()


def test_results_of_passages_are_refused_as_inputs(folder: Path, command: Command) -> None:
    write_rows("in/a.jsonl", [PAGE, PAGE])
    gpulsh.passages_files("in", "evidence", tokens=5, backend="reference")
    gpulsh.passages_files("in", "out", tokens=5, cut=True, backend="reference")
    gpulsh.cut_files("in", "cut", passages="evidence/passages.parquet", backend="reference")
    for line, message in {"evidence": NO_DOCUMENTS, "out": GIVE_DATA, "cut": GIVE_DATA.replace("out", "cut")}.items():
        expected = message.replace("dedup", "cut" if line == "cut" else "passages")
        assert command(f"dedup {line} -o again") == (1, "", f"gpulsh: error: {expected}\n")


def test_show_ignores_later_results_that_a_glob_matches(earlier_runs: None, command: Command) -> None:
    run("i*", "i-clean")
    shown = command("show i-clean")
    assert shown.status == 0 and PAGE in shown.out and shown.err == ""


def test_files_named_like_results_are_documents(earlier_runs: None) -> None:
    Path("mine").mkdir()
    shutil.copy("in/a.jsonl", "mine/a.jsonl")
    Path("mine/report.json").write_text(json.dumps([{"text": "gpulsh"}]))
    shutil.copytree("out/data", "mine/data")
    run("in", "as-parquet", format="parquet")
    shutil.copy("as-parquet/data/a.parquet", "mine/duplicates.parquet")
    assert run("mine", "again").funnel["documents"] == 8 and run("out/data", "more").funnel["documents"] == 2
