"""The results of an earlier run given as INPUT: what to give in their place is told, by every command."""

import json
import shutil
from pathlib import Path

import fsspec
import pytest

import gpulsh
from gpulsh.cli import main
from gpulsh.errors import InputError
from tests.support.files import write_rows

WORDS = "several words that are the text of a document"


@pytest.fixture(autouse=True)
def results(folder: Path) -> None:
    """`out` and `evidence`, of runs over `in`."""
    write_rows("in/a.jsonl", [WORDS, WORDS, "others"])
    gpulsh.deduplicate_files("in", "out", backend="reference")
    gpulsh.deduplicate_files("in", "evidence", backend="reference", write="duplicates")


GIVE_DATA = "out: holds the results of `gpulsh dedup`; give out/data, which holds the documents"
NO_DOCUMENTS = "evidence: holds the results of `gpulsh dedup`; give the INPUT of that run, it wrote no documents"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["out/"], GIVE_DATA),
        (["in", "out"], GIVE_DATA),
        (["in", "--protect", "out"], GIVE_DATA),
        (["evidence"], NO_DOCUMENTS),
        (["."], "./evidence: holds the results of `gpulsh dedup`; move it out of ."),
        (["o*"], "out: holds the results of `gpulsh dedup`; move it out of o*"),
    ],
)
def test_the_command_says_what_holds_documents(given: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dedup", *given, "-o", "again", "--backend", "reference"]) == 1
    assert capsys.readouterr().err == f"gpulsh: error: {told}\n"
    assert not Path("again").exists()


@pytest.mark.parametrize("command", [["sign", "-o", "s.parquet"], ["index", "build", "index"]])
def test_so_does_every_command(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "out"]) == 1
    assert capsys.readouterr().err == f"gpulsh: error: {GIVE_DATA}\n"


def test_texts_are_found_again_by_a_glob_that_finds_the_results_since(capsys: pytest.CaptureFixture[str]) -> None:
    gpulsh.deduplicate_files("i*", "i-clean", backend="reference")
    assert main(["show", "i-clean"]) == 0
    told = capsys.readouterr()
    assert WORDS in told.out and told.err == ""


def test_behind_a_url() -> None:
    store = fsspec.filesystem("memory")
    store.put("out", "/results", recursive=True)
    try:
        with pytest.raises(InputError, match=r"^memory://results: holds the results of"):
            gpulsh.deduplicate_files("memory://results", "again", backend="reference")
    finally:
        store.rm("/results", recursive=True)


def test_files_of_these_names_that_gpulsh_did_not_write() -> None:
    Path("mine").mkdir()
    shutil.copy("in/a.jsonl", "mine/a.jsonl")
    Path("mine/report.json").write_text(json.dumps([{"text": "gpulsh"}]))
    shutil.copytree("out/data", "mine/data")
    gpulsh.deduplicate_files("in", "as-parquet", format="parquet", backend="reference")
    shutil.copy("as-parquet/data/a.parquet", "mine/duplicates.parquet")
    assert gpulsh.deduplicate_files("mine", "again", backend="reference").funnel["documents"] == 8
    assert gpulsh.deduplicate_files("out/data", "more", backend="reference").funnel["documents"] == 2
