"""Estimates from a sample: planted costs come back exactly, and a dry run writes nothing."""

import errno
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.cli import main
from gpulsh.cli.plan import sample_lines
from gpulsh.errors import InputError, OutputError, ParameterError
from gpulsh.forecast import sample
from gpulsh.forecast.formula import Corpus, held_at_once, stage_works
from gpulsh.forecast.sample import START, Plan, Usage, grown, run
from gpulsh.report.wording import duration, size
from gpulsh.stats.stages import ESTIMATED

LARGE = 10_000
MACHINE: dict[str, Any] = {"bands": 21, "threads": 2, "memory": 8 << 30}
FIXED = {name: 0.02 * (1 + place) for place, name in enumerate(ESTIMATED)}
EACH = {name: 1e-4 * (1 + place) for place, name in enumerate(ESTIMATED)}

SHARES = {"host": 8 << 30, "read_ahead": 1 << 30, "pinned": 3 << 27, "device": 100 << 30}


def corpus(documents: int) -> Corpus:
    return Corpus(documents=documents, bytes=700.0 * documents, met=0.05, pairs=0.1, dropped=0.02, bytes_per_shingle=6)


def planted(documents: int) -> Usage:
    of = corpus(documents)
    amounts = {name: work.amount for name, work in stage_works(of, 21).items()} | {"gather": of.bytes}
    return Usage(
        corpus=of,
        seconds={**{name: FIXED[name] + EACH[name] * amounts[name] for name in ESTIMATED}, START: 1.5},
        processor=3 + 2e-6 * of.bytes,
        memory=300e6 + max(held_at_once(name, of, 21, 2, 1, 8 << 30) for name in ESTIMATED),
        data=500 * documents * (1 - of.dropped),
        evidence=40 * documents * of.dropped,
    )


@pytest.mark.parametrize("documents", [LARGE, 300_000])
def test_planted_costs_are_estimated_exactly(documents: int) -> None:
    wanted, whole = planted(documents), planted(500)
    found = grown(whole, planted(LARGE), wanted.corpus, **MACHINE)
    assert found.seconds == pytest.approx(wanted.seconds, rel=1e-9)
    for name in ("all", "processor", "memory", "data", "evidence"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), rel=1e-9), name
    assert grown(whole, whole, whole.corpus, **MACHINE) == whole


def test_a_disturbed_small_run_does_not_make_the_rest_free() -> None:
    large = planted(LARGE)
    small = replace(planted(500), seconds={**large.seconds, "sign": large.seconds["sign"] + 1})
    found = grown(small, large, corpus(10 * LARGE), **MACHINE)
    for name in ("sign", "write"):
        assert found.seconds[name] == pytest.approx(10 * large.seconds[name], rel=0.01), name


def texts(count: int) -> list[str]:
    return [f"page {number} of all {number} pages with {number % 50} words and {number}" for number in range(count)]


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (folder / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder / "temporary"))
    (folder / "in").mkdir()
    for number in range(4):
        rows = pa.table({"text": texts(900), "id": range(900)})
        pq.write_table(rows, folder / f"in/{number}.parquet", row_group_size=100)
    return folder


def state(folder: Path) -> dict[str, Any]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The arguments of each run. A stand-in reports planted costs of as many documents as there are."""
    found: list[list[str]] = []

    def stand_in(arguments: list[str], out: Path) -> Any:
        found.append(arguments)
        rows = sum(pq.read_metadata(path).num_rows for path in Path(arguments[-1]).glob("*.parquet"))
        parameters = {"threads": 2, "memory": 8 << 30, "banding": {"bands": 21, "rows": 6}}
        report = {"parameters": parameters, "backend": {"name": "cpu"}, "memory": SHARES, "compiling": 0.0}
        return report, replace(planted(rows), seconds={**dict.fromkeys(ESTIMATED, rows * 1e-4), START: 1.0})

    monkeypatch.setattr(sample, "run", stand_in)
    return found


def test_samples_run_as_the_command_runs(here: Path, runs: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    before = state(here)
    monkeypatch.setattr(sample, "FIRST_BYTES", 1000)
    monkeypatch.setattr(sample, "LEAST_BYTES", 900 * 700)
    monkeypatch.setattr(sample, "THREAD_BYTES", 1)
    options = {"threshold": 0.7, "lines": False, "devices": [0, 1], "also": "simhash:3", "within": True, "memory": None}
    found = sample.plan(["in"], options)
    small, large = runs
    assert small[:-1] == large[:-1] == ["--threshold=0.7", "--devices=0,1", "--and=simhash:3", "--within", "--"]
    assert found.files == 4 and not found.whole
    assert 880 <= found.sample <= 1000  # a quarter, by the text in the very small run
    assert found.likely.corpus.documents == pytest.approx(3600, rel=0.05)
    assert found.likely.seconds["sign"] == pytest.approx(found.likely.corpus.documents * 1e-4)
    times = found.likely.corpus.documents / found.sample
    assert found.likely.corpus.dropped == 0.02 and found.most.corpus.dropped == pytest.approx(0.02 * times)
    assert found.to_dict()["likely"]["all"] == found.likely.all < found.most.all + 1e-9
    assert state(here) == before


@pytest.mark.parametrize("files", [0.3, 0.9])
def test_small_inputs_run_in_full(
    files: float, here: Path, runs: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the very small run, or the sample, would be most of the files."""
    size = sum(path.stat().st_size for path in Path("in").iterdir())
    monkeypatch.setattr(sample, "FIRST_BYTES", round(files * size))
    monkeypatch.setattr(sample, "_share", lambda small: 0.7)
    found = sample.plan(["in"], {"backend": "reference"})
    assert found.whole and found.sample == 3600 and found.likely == found.most and runs[-1][-1] == "in"


def test_a_file_without_documents_or_text_has_none(here: Path) -> None:
    for name, documents in (("empty.txt", 1), ("empty.jsonl", 0)):
        Path(name).touch()
        found = sample.plan([name], {"backend": "reference"})
        assert (found.likely.corpus.documents, found.likely.corpus.bytes) == (documents, 0) and found.whole
        first = "1 document, 0 B" if documents else "0 documents, 0 B"
        assert next(sample_lines(found)) == f"{first} of text in 1 file of 0 B"


def test_a_slow_method_gets_a_smaller_sample() -> None:
    def share(slower: float) -> float:
        seconds = {"sign": 0.4 * slower, "write": 0.3 * slower, START: 1.0}
        return sample._share(sample._Sample(0.001, {}, replace(planted(500), seconds=seconds)))

    assert share(1.0) > 0.1
    assert share(2.5) == pytest.approx(0.001 * 5 / (0.7 * 2.5 - 1))
    assert share(100.0) == 0.001 * sample.LEAST_TIMES


def test_a_dry_run_writes_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The one real run: a process of its own."""
    pq.write_table(pa.table({"text": [*texts(30), *texts(9)], "id": range(39)}), "few.parquet")
    before = state(here)
    arguments = ["dedup", "few.parquet", "-o", "out", "--backend", "reference", "--id-column", "id", "--dry-run"]
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["outputs"][:3] == ["out/data/few.parquet", "out/duplicates.parquet", "out/clusters.parquet"]
    assert (found["files"], found["sample"], found["backend"]) == (1, 39, "reference")
    likely = found["likely"]
    assert likely == found["most"] | {"work": likely["work"]} and likely["all"] == sum(likely["seconds"].values())
    assert likely["memory"] > 30e6 and likely["data"] > 1000 and likely["evidence"] > 300
    assert state(here) == before and not Path("out").exists()
    result = gpulsh.deduplicate_files("few.parquet", "out", backend="reference", id_column="id")
    assert sorted(result.report["outputs"]) == sorted(name.removeprefix("out/") for name in found["outputs"])
    assert result.funnel["dropped"] == round(likely["corpus"]["dropped"] * 39) >= 9


def test_a_plan_names_its_numbers() -> None:
    likely = grown(planted(500), planted(LARGE), corpus(4 * LARGE), **MACHINE)
    most = replace(likely, corpus=replace(likely.corpus, dropped=0.08), seconds={**likely.seconds, "verify": 9000.0})
    machine: dict[str, Any] = {"backend": "cpu", "threads": 2, "memory": 8 << 30, "parameters": {}, "shares": SHARES}
    plan = Plan(likely=likely, most=most, work=5e6, files=1, bytes=9_000_000, sample=LARGE, measured=3.0, **machine)
    lines = "\n".join(sample_lines(plan)).splitlines()
    assert lines[1] == "gpulsh ran 10,000 of them (25.0 %) on this machine in 3.00 s: cpu, 2 threads"
    assert f"{'all':<9}{duration(likely.all):>14}  at most {duration(most.all)}" in lines
    assert f"memory   {size(int(likely.memory)):>14}  at most, with a budget of 8.6 GB" in lines
    assert f"{'402.7 MB':>23}  of the budget page-locked" in lines and f"{'107.4 GB':>23}  on each device" in lines
    assert f"{'dropped':<9}{'2.0 %':>14}  at most 8.0 %" in lines
    assert any(line.startswith("OUT ") and line.endswith("removes 5.0 MB of it") for line in lines)


def test_a_dry_run_in_python_checks_and_refuses_as_the_run_would(here: Path) -> None:
    def dry(*inputs: str, output: str = "out", **options: Any) -> Any:
        return gpulsh.deduplicate_files(list(inputs), output, dry_run=True, backend="reference", **options)

    Path("few.jsonl").write_text('{"text": "one"}\n')
    Path("full").mkdir()
    Path("full/mine.txt").write_text("mine")
    before = state(here)
    found = dry("in", write="duplicates", on_error="skip")
    assert found.report["outputs"][:3] == ["duplicates.parquet", "clusters.parquet", "rejected.parquet"]
    assert [entry["file"] for entry in found.report["files"]] == [f"in/{number}.parquet" for number in range(4)]
    assert found.funnel["documents"] == 0 and state(here) == before
    refused: list[tuple[str, dict[str, Any], type[Exception], str]] = [
        ("in", {"output": "full"}, OutputError, r"it holds files that gpulsh did not write; give another folder$"),
        ("in", {"text_column": "body"}, InputError, r"has no column 'body'"),
        ("in", {"index": "known"}, ParameterError, r"^dry_run=True"),
        ("in", {"engine": "ray"}, ParameterError, r"dry_run=True.* engine"),
        ("-", {}, InputError, r"-: can be read only once"),
        ("in", {"output": "s3://a/b"}, ParameterError, r"dry_run=True.*s3://a/b"),
    ]
    for source, options, kind, message in refused:
        with pytest.raises(kind, match=message):
            dry(source, **options)
    gpulsh.deduplicate_files("few.jsonl", "out", backend="reference")
    before = state(here)
    assert dry("few.jsonl", resume=True).report["outputs"] and dry("in", overwrite=True)
    with pytest.raises(OutputError, match=r"belongs to another run: .*threshold was 0\.8 and is 0\.9 now"):
        dry("few.jsonl", resume=True, threshold=0.9)
    assert state(here) == before


def test_a_plan_refuses_in_one_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line, status, message in (
        ("", 2, "give INPUT, or the amount of text by --docs and --bytes"),
        ("in --docs 5", 2, "--docs is for a plan from numbers; leave it out, or INPUT"),
        ("--docs 5 --bytes 9 --shingle word:3", 2, "--shingle is for a plan from files"),
        ("nowhere", 1, "nowhere: no such file or folder"),
        ("in --text-column body", 1, "in/0.parquet: has no column 'body'"),
        ("in --threshold 2", 2, "threshold is 2"),
        ("in --memory 1", 2, "too little to work in"),
        ("in --threads 0", 2, "threads is 0; give an integer from 1 to 1024"),
        ("-", 1, "-: can be read only once"),
    ):
        assert main(["plan", *line.split()]) == status
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1


def test_an_error_of_a_sample_names_the_file(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []

    def fails(arguments: list[str], out: Path) -> Any:
        names.extend(sorted(str(path) for path in Path(arguments[-1]).iterdir()))
        raise InputError(f"{names[1]}: row 3: is odd")

    monkeypatch.setattr(sample, "run", fails)
    monkeypatch.setattr(sample, "FIRST_BYTES", 1000)
    with pytest.raises(InputError, match=r"^in/1\.parquet: row 3: is odd$"):
        sample.plan(["in"], {})
    assert not list(Path("temporary").iterdir())


def test_a_failed_run_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"^nowhere: no such file or folder$"):
        run(["--backend=reference", "--", "nowhere"], tmp_path / "out")

    def refuse(*arguments: object, **how: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr("subprocess.run", refuse)
    with pytest.raises(InputError, match=r"^no process can be started to run a sample: Resource temporarily"):
        run(["in"], tmp_path / "out")
