"""What is told of the stages while they run."""

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpulsh.cli import main
from gpulsh.run.files import deduplicate_files
from gpulsh.run.progress import Tally, open_progress, summary

TEXTS = [f"some words of a text that is about number {number} and nothing else at all" for number in range(20)]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    pq.write_table(pa.table({"text": [*TEXTS, None, *TEXTS[:5]]}), tmp_path / "a.parquet")
    return tmp_path


def events(written: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written.splitlines()]


def test_every_stage_begins_and_ends_and_tells_what_it_did(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["dedup", str(corpus / "a.parquet"), "-o", str(corpus / "out"), "--backend", "reference", "--json"]) == 0
    )
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    told = [entry for entry in events(printed.err) if "event" in entry]
    assert [(entry["event"], entry["stage"]) for entry in told] == [
        (event, stage) for stage in report["funnel"]["seconds"] for event in ("begin", "end")
    ]
    assert [entry["time"] for entry in told] == sorted(entry["time"] for entry in told)
    end = {entry["stage"]: entry for entry in told if entry["event"] == "end"}
    funnel = report["funnel"]
    assert (end["sign"]["documents"], end["sign"]["bytes"]) == (funnel["documents"], funnel["bytes"])
    assert end["write"]["documents"] == funnel["documents"] and end["write"]["bytes"] == funnel["bytes"]
    assert end["write"]["dropped"] == end["verify"]["dropped"] == funnel["dropped"] >= 5
    assert end["sign"]["documents_per_second"] == pytest.approx(funnel["documents"] / end["sign"]["seconds"], rel=0.01)
    for stage, seconds in funnel["seconds"].items():
        assert end[stage]["seconds"] <= seconds + 1e-6


def test_lines_and_events_are_told_of_the_same_run(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = deduplicate_files(corpus / "a.parquet", corpus / "out", backend="reference", progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[:2] for line in lines] == [["gpulsh", stage] for stage in result.funnel["seconds"]]
    assert f": {result.funnel['documents']} documents, " in lines[0] and " documents/s" in lines[0]
    assert lines[-1].endswith(f", {result.funnel['dropped']} dropped")
    deduplicate_files(corpus / "a.parquet", corpus / "quiet", backend="reference")
    assert capsys.readouterr().err == ""


def test_inputs_without_documents_have_no_bytes_of_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.jsonl").write_text("\n \n\n")
    (tmp_path / "b.csv").write_text("text,id\n")
    deduplicate_files([tmp_path / "a.jsonl", tmp_path / "b.csv"], tmp_path / "out", backend="reference", progress=True)
    assert capsys.readouterr().err.startswith("gpulsh: sign: 0.")


def test_a_stage_that_fails_does_not_end() -> None:
    for show, count in ((True, 0), ("json", 1)):
        out = io.StringIO()
        shown = open_progress(show, out)  # type: ignore[arg-type]
        with pytest.raises(ZeroDivisionError), shown.stage("sign", None, "B"):
            _ = 1 / 0
        assert len(out.getvalue().splitlines()) == count


def test_a_stage_ends_with_what_was_told_of_it_alone() -> None:
    out = io.StringIO()
    shown = open_progress("json", out)
    for _ in range(2):
        with shown.stage("write", 7, "documents"):
            shown.advance(4)
            shown.count(size=10, dropped=1)
            shown.advance(3)
    for end in events(out.getvalue())[1::2]:
        assert (end["documents"], end["bytes"], end["dropped"]) == (7, 10, 1)


def test_rates_of_a_running_stage_are_of_what_is_done() -> None:
    tally = Tally("sign", 1000, "B")
    assert summary(tally) == ""  # of its total nothing is done yet
    tally.done["bytes"] = 10
    tally._watch._start -= 5
    assert tally.amounts() == {"bytes": 10} and tally.rates()["bytes"] == pytest.approx(2, rel=0.1)
