"""`gpulsh plan`: its numbers against sums by hand, estimates from a sample, and its refusals."""

import errno
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.cli.plan import sample_lines
from gpulsh.errors import InputError, OutputError, ParameterError
from gpulsh.forecast import formula, sample
from gpulsh.forecast.formula import Corpus, estimate, read_rates, stage_works
from gpulsh.forecast.sample import START, Usage, extrapolate, run_dedup
from gpulsh.report.wording import duration
from gpulsh.run import driver
from gpulsh.run.index.jobs import build_index
from gpulsh.stats.stages import ESTIMATED_STAGES
from tests.support.command import Command
from tests.support.files import write_rows
from tests.support.pages import ROOT
from tests.support.runs import tree

CORPUS = Corpus(documents=1000, bytes=2_000_000, met=0.5, pairs=3, dropped=0.25, bytes_per_shingle=5)


@pytest.fixture
def plan(command: Command) -> Callable[[str], dict[str, Any]]:
    return lambda line: json.loads(command(f"plan {line} --json").out)  # type: ignore[no-any-return]


def test_estimates_equal_sums_done_by_hand() -> None:
    rates = {"sign": 100_000, "copies": 500, "collide": 1000, "connect": 20, "route": 40, "gather": 50_000}
    rates |= {"verify": 10, "collect": 5, "write": 200_000}
    found = estimate(CORPUS, rates, workers=2, nodes=2, bands=4, rows=8)
    stages = {stage.name: stage for stage in found.stages}
    assert [*stages] == list(ESTIMATED_STAGES) == list(stage_works(CORPUS, 4))
    amounts = {"sign": 2_000_000, "copies": 1000, "collide": 1000 * 4, "connect": 500, "route": 3000}
    amounts |= {"gather": 1_000_000, "verify": 1_000_000 + 3000 * 200, "collect": 500, "write": 2_000_000}
    for name, stage in stages.items():
        assert stage.seconds == amounts[name] / rates[name] / 2, name
    assert found.seconds == sum(stage.seconds or 0 for stage in found.stages)
    assert (stages["sign"].disk_read, stages["sign"].disk_written) == (2_000_000, 1000 * (4 * (8 + 4) + (16 + 4) + 8))
    # Half of it is on the other machine: digests and hashes, each with the document's number.
    crosses = {"copies": 1000 * (16 + 4), "collide": 1000 * 4 * (8 + 4), "verify": 1_000_000 + 3000 * 24}
    crosses |= {"collect": 500 * 54}
    assert {name: stages[name].network for name in crosses} == {name: bytes / 2 for name, bytes in crosses.items()}
    assert found.false_seconds[0.1] == found.false_candidates[0.1] * 200 / 10 / 2
    assert stages["write"].disk_written == found.output == 1_500_000
    # Beside the program: a machine's half of the text, digests of its half of the documents, text of those that met.
    held = {"copies": 500 * 4 * 24, "collide": 500 * 4 * 24, "verify": 500_000}
    assert all(stage.memory_each == (256 << 20) + held.get(stage.name, 1_000_000) for stage in found.stages)
    large = replace(CORPUS, documents=1e9, bytes=1e13)
    most = {s.name: s.memory_each for s in estimate(large, rates, workers=2, nodes=1, bands=21, rows=6).stages}
    assert most.pop("connect") == 16 * 5e8
    assert max(most.values()) == (256 << 20) + (24 << 24) + (512 << 20) < 1.3e9  # waiting texts take a sixteenth of it
    assert most["verify"] == (256 << 20) + (256 << 20)
    apart = {s.name: s.memory_each for s in estimate(large, rates, workers=2, nodes=2, bands=21, rows=6).stages}
    assert apart.pop("connect") == 16 * 5e8 and max(apart.values()) == (256 << 20) + (24 << 24) < 0.7e9
    small = estimate(CORPUS, rates, workers=2, nodes=2, bands=4, rows=8, memory=1000)
    assert [s.memory_each for s in small.stages] == [500 * 16 if s.name == "connect" else 1000 for s in small.stages]


def test_a_slow_disk_or_network_bounds_a_stage() -> None:
    rates = {"sign": 1e9, "copies": 1e9}
    slow = estimate(CORPUS, {**rates, "disk": 1000, "network": 10}, workers=4, nodes=2, bands=4, rows=8).stages
    assert (slow[0].bound, slow[0].seconds) == ("disk", (2_000_000 + 76_000) / 1000 / 2)
    assert (slow[1].bound, slow[1].seconds) == ("network", 10_000 / 10 / 2)
    assert slow[2].seconds is None  # its own rate is not known, however slow the disk


def test_remote_inputs_and_results_go_through_the_network() -> None:
    here, there = (
        {stage.name: stage for stage in estimate(CORPUS, {}, workers=2, nodes=2, bands=4, rows=8, remote=far).stages}
        for far in (False, True)
    )
    for name, more in {"sign": 2e6, "collide": 0, "gather": 2e6, "verify": 0, "collect": 0, "write": 3.5e6}.items():
        near, far = here[name], there[name]
        assert far.network - near.network == more
        assert near.disk_read + near.disk_written - far.disk_read - far.disk_written == more
    alone = estimate(CORPUS, {}, workers=8, nodes=1, bands=4, rows=8)
    assert not any(stage.network for stage in alone.stages) and alone.seconds is None


@pytest.mark.parametrize(("bands", "rows", "similarity"), [(1, 1, 0.3), (4, 2, 0.01), (21, 6, 0.3), (21, 6, 0.0)])
def test_false_candidates_sum_the_probability_of_each_pair(bands: int, rows: int, similarity: float) -> None:
    naive = sum(1 - (1 - similarity**rows) ** bands + bands / 2**64 for _ in range(100) for _ in range(99)) / 2
    assert formula.false_candidates(100, similarity, bands, rows) == pytest.approx(naive, rel=1e-3, abs=1e-15)


def test_index_sizes_are_estimated_within_5_percent(tmp_path: Path) -> None:
    texts = [" ".join(f"{number}x{i}" for i in range(44)) for number in range(1500) for _ in range(1 + number % 2)]
    keys = [f"https://example.org/page/{number:07}" for number in range(len(texts))]
    assert len(keys[0]) == formula.INDEX_KEY_BYTES
    with gpulsh.Index.create(tmp_path / "index", backend="cpu") as index:
        index.add(keys, texts)
    bands = index.parameters.banding.bands
    dropped = index.dropped() / len(texts)
    taken = sum(file.stat().st_size for file in (tmp_path / "index").iterdir())
    known: dict[str, float] = {"met": 0, "pairs": 0, "dropped": dropped, "bytes_per_shingle": 5}
    corpus = Corpus(documents=len(texts), bytes=40 * 5 * len(texts), **known)
    assert dropped > 0.3 and formula.index_bytes(corpus, bands) == pytest.approx(taken, rel=0.05)
    build_index(tmp_path / "compact", [write_rows(tmp_path / "a.parquet", texts)], backend="cpu", evidence="source")
    taken = sum(file.stat().st_size for file in (tmp_path / "compact").iterdir())
    assert formula.compact_index_bytes(corpus, bands) == pytest.approx(taken, rel=0.05)


def test_rates_come_from_a_record_or_from_options(
    command: Command, plan: Callable[[str], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for workers, kind in (("threads", "thread"), ("gpus", "GPU")):
        found, known = plan(f"--docs 1e6 --bytes 5GB --{workers} 4"), read_rates()[kind]
        assert found["source"] == known["source"] and found["rates"]["sign"] == known["rates"]["sign"]
        assert found["stages"][0]["seconds"] == pytest.approx(known["start"] + 5e9 / known["rates"]["sign"] / 4)
    records = {kind: found for kind, found in read_rates().items() if kind != "GPU"}
    monkeypatch.setattr("gpulsh.forecast.formula.read_rates", lambda: records)
    gpus = plan("--docs 1e6 --bytes 5e9 --gpus 4 --rate sign=20G")
    assert [stage["seconds"] for stage in gpus["stages"]] == [5e9 / 20e9 / 4, *[None] * 8]
    assert gpus["seconds"] is None
    assert plan("--docs 9 --bytes 9 --gpus 2 --hours 1")["workers_needed"] is None
    assert gpus["shares"] == {"read_ahead": 1 << 30, "pinned": 3 << 26}
    assert plan("--docs 1e6 --bytes 5e9 --threads 4")["shares"] == {}
    text = command("plan --docs 1e11 --bytes 5e14 --gpus 64").out
    assert "1.1 GB of the budget for text read ahead, 201.3 MB of the budget as page-locked memory" in text
    assert text.count("not measured") == len(ESTIMATED_STAGES) and "500.0 TB" in text and "21 bands of 6 rows" in text
    rates = dict.fromkeys(ESTIMATED_STAGES, 1e9)
    records["GPU"] = {"worker": "one NVIDIA H200", "source": "a record", "start": 1.0, "rates": rates}
    line = "--docs 1e9 --bytes 5e12 --gpus 1 --met 0 --pairs 0 --hours 1"
    found = plan(line)
    assert found["measured_worker"] == "one NVIDIA H200"
    assert found["seconds"] == pytest.approx(1 + (5e12 + 1e9 + 21e9 + 5e12) / 1e9)
    assert found["workers_needed"] == 3  # 1 s to start, and 10,022 s of work
    assert command(f"plan {line}").out.endswith("To finish in 1 h: 3 GPUs on 3 machines\n")


@pytest.mark.parametrize("wanted", [1, 2, 3, 8, 1000])
def test_the_fewest_workers_are_found(wanted: int) -> None:
    def estimated(workers: int) -> formula.Estimate:
        return estimate(CORPUS, dict.fromkeys(ESTIMATED_STAGES, 1.0), workers=workers, nodes=1, bands=4, rows=8)

    alone = estimated(1).seconds
    assert alone is not None
    assert formula.workers_needed(alone / wanted * (1 + 1e-9), estimated) == wanted
    assert formula.workers_needed(alone / wanted * (1 - 1e-9), estimated) == wanted + 1


def test_start_deadline_and_shares_are_counted(command: Command, plan: Callable[[str], dict[str, Any]]) -> None:
    line, known = "--docs 1e9 --bytes 5TB --threads 1", read_rates()["thread"]
    alone, start = plan(f"{line} --hours 2"), known["start"] + known["process"]
    assert alone["start"] == known["process"] > 0.5
    assert alone["seconds"] == pytest.approx(known["process"] + sum(stage["seconds"] for stage in alone["stages"]))
    assert alone["workers_needed"] == math.ceil((alone["seconds"] - start) / (7200 - start))
    text = command(f"plan {line} --rate disk=1G --hours 1").out
    assert "no number of threads is enough" in text and f"start    {duration(known['process']):>14}" in text
    found = plan(f"{line} --met 0 --pairs 0 --dropped 0.5 --bands 8 --rows 4")
    stages = {stage["name"]: stage for stage in found["stages"]}
    assert stages["verify"]["seconds"] == 0 and stages["gather"]["disk_read"] == 0
    assert (found["output"], found["bands"], found["rows"]) == (2.5e12, 8, 4)
    assert plan("--docs 9 --bytes 9 --threads 8 --nodes 4 --hours 1")["workers_needed"] == 4  # one on each machine
    needed = "The budget allows 16 tasks at once on a machine. The time above needs --memory 48GiB."
    line = "plan --docs 9 --bytes 9 --memory 8GiB"
    assert needed in command(f"{line} --threads 96").out
    assert needed in command(f"{line} --threads 192 --nodes 2").out
    assert "at once" not in command(f"{line} --threads 16").out + command(f"{line} --gpus 32 --nodes 1").out
    for documents in ("1", "1e18"):  # the largest numbers
        line = f"--docs {documents} --bytes 1e24 --hours 1e300 --rate sign=1e-6"
        assert plan(line)["index"] > 0 and command(f"plan {line}").status == 0


def test_recorded_rates_equal_those_of_their_record() -> None:
    for known in (read_rates()[kind] for kind in read_rates().keys() - {"corpus"}):
        path = ROOT / known["source"]
        if not path.exists():
            pytest.skip("the records are not in a source distribution")
        record = json.loads(path.read_text())
        if "process_source" in known:
            process = json.loads((ROOT / known["process_source"]).read_text())["process"]
            assert known["process"] == pytest.approx(process, rel=1e-3)
        assert known["rates"] == pytest.approx({name: record["rates"][name] for name in ESTIMATED_STAGES}, rel=1e-3)


def test_the_estimate_of_disk_bytes_fits_a_small_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The estimate counts what the first stage writes: the rows of signed documents."""
    texts = [f"page {number} " + " ".join(f"w{number}x{place}" for place in range(20)) for number in range(400)]
    write_rows(tmp_path / "a.parquet", [*texts, *texts[:100]])
    seen: list[int] = []

    def copies(*given: Any) -> Any:
        seen.append(sum(path.stat().st_size for path in (tmp_path / "out/_work").glob("sign-*.arrow")))
        return after_sign(*given)

    after_sign = driver.find_exact_copies
    monkeypatch.setattr(driver, "find_exact_copies", copies)
    funnel = gpulsh.deduplicate_files(tmp_path / "a.parquet", tmp_path / "out", backend="reference").funnel
    known = {"met": 0.4, "pairs": 1, "dropped": 0.2, "bytes_per_shingle": 6}
    found = estimate(Corpus(documents=500, bytes=funnel["bytes"], **known), {}, workers=1, nodes=1, bands=21, rows=6)
    assert seen[0] == pytest.approx(found.stages[0].disk_written, rel=0.15)


# --- estimates from a sample: planted costs come back exactly, and a dry run writes nothing ---


LARGE = 10_000
MACHINE: dict[str, Any] = {"bands": 21, "threads": 2, "memory": 8 << 30}
FIXED = {name: 0.02 * (1 + place) for place, name in enumerate(ESTIMATED_STAGES)}
EACH = {name: 1e-4 * (1 + place) for place, name in enumerate(ESTIMATED_STAGES)}

SHARES = {"host": 8 << 30, "read_ahead": 1 << 30, "pinned": 3 << 27, "device": 100 << 30}


def corpus(documents: int) -> Corpus:
    return Corpus(documents=documents, bytes=700.0 * documents, met=0.05, pairs=0.1, dropped=0.02, bytes_per_shingle=6)


def planted_usage(documents: int) -> Usage:
    planted = corpus(documents)
    amounts = {name: work.amount for name, work in stage_works(planted, 21).items()} | {"gather": planted.bytes}
    return Usage(
        corpus=planted,
        seconds={**{name: FIXED[name] + EACH[name] * amounts[name] for name in ESTIMATED_STAGES}, START: 1.5},
        processor=3 + 2e-6 * planted.bytes,
        memory=300e6 + max(formula.stage_memory(name, planted, 21, 2, 1, 8 << 30) for name in ESTIMATED_STAGES),
        data=500 * documents * (1 - planted.dropped),
        evidence=40 * documents * planted.dropped,
    )


@pytest.mark.parametrize("documents", [LARGE, 300_000])
def test_planted_costs_are_estimated_exactly(documents: int) -> None:
    wanted, whole = planted_usage(documents), planted_usage(500)
    found = extrapolate(whole, planted_usage(LARGE), wanted.corpus, **MACHINE)
    assert found.seconds == pytest.approx(wanted.seconds, rel=1e-9)
    for name in ("total_seconds", "processor", "memory", "data", "evidence"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), rel=1e-9), name
    assert extrapolate(whole, whole, whole.corpus, **MACHINE) == whole


def test_a_slow_small_sample_does_not_lower_the_estimate() -> None:
    large = planted_usage(LARGE)
    small = replace(planted_usage(500), seconds={**large.seconds, "sign": large.seconds["sign"] + 1})
    found = extrapolate(small, large, corpus(10 * LARGE), **MACHINE)
    for name in ("sign", "write"):
        assert found.seconds[name] == pytest.approx(10 * large.seconds[name], rel=0.01), name


def texts(count: int) -> list[str]:
    return [f"page {number} of all {number} pages with {number % 50} words and {number}" for number in range(count)]


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (folder / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder / "temporary"))
    for number in range(4):
        write_rows(folder / f"in/{number}.parquet", pa.table({"text": texts(900), "id": range(900)}), 100)
    return folder


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The arguments of each run. A stand-in reports planted costs for the number of documents."""
    found: list[list[str]] = []

    def stand_in(arguments: list[str], out: Path) -> Any:
        found.append(arguments)
        rows = sum(pq.read_metadata(path).num_rows for path in Path(arguments[-1]).glob("*.parquet"))
        parameters = {"threads": 2, "memory": 8 << 30, "banding": {"bands": 21, "rows": 6}}
        report = {"parameters": parameters, "backend": {"name": "cpu"}, "memory": SHARES, "compiling": 0.0}
        return report, replace(
            planted_usage(rows), seconds={**dict.fromkeys(ESTIMATED_STAGES, rows * 1e-4), START: 1.0}
        )

    monkeypatch.setattr(sample, "run_dedup", stand_in)
    return found


def test_samples_run_as_the_command_runs(here: Path, runs: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    before = tree(here)
    monkeypatch.setattr(sample, "FIRST_BYTES", 1000)
    monkeypatch.setattr(sample, "MIN_BYTES", 900 * 700)
    monkeypatch.setattr(sample, "THREAD_BYTES", 1)
    options = {"threshold": 0.7, "lines": False, "devices": [0, 1], "also": "simhash:3", "within": True, "memory": None}
    found = sample.plan(["in"], options)
    small, large = runs
    assert small[:-1] == large[:-1] == ["--threshold=0.7", "--devices=0,1", "--and=simhash:3", "--within", "--"]
    likely, most = found["likely"], found["most"]
    assert found["files"] == 4 and 880 <= found["sample"] <= 1000  # a quarter, by the text in the very small run
    assert likely["corpus"]["documents"] == pytest.approx(3600, rel=0.05)
    assert likely["seconds"]["sign"] == pytest.approx(likely["corpus"]["documents"] * 1e-4)
    times = likely["corpus"]["documents"] / found["sample"]
    assert likely["corpus"]["dropped"] == 0.02 and most["corpus"]["dropped"] == pytest.approx(0.02 * times)
    assert likely["all"] == sum(likely["seconds"].values()) < most["all"] + 1e-9
    assert likely["work"] < most["work"] == found["work"]
    assert found["index"] > found["index_at_source"] > 0
    assert any(line.split()[0] == "index" for line in sample_lines(found) if line)
    assert tree(here) == before


@pytest.mark.parametrize("files", [0.3, 0.9])
def test_small_inputs_run_in_full(
    files: float, here: Path, runs: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The smallest run, or the sample, would be most of the files."""
    size = sum(path.stat().st_size for path in Path("in").iterdir())
    monkeypatch.setattr(sample, "FIRST_BYTES", round(files * size))
    monkeypatch.setattr(sample, "next_share", lambda share, small: 0.7)
    found = sample.plan(["in"], {"backend": "reference"})
    assert found["sample"] == found["likely"]["corpus"]["documents"] == 3600 and runs[-1][-1] == "in"
    assert found["likely"] == found["most"] and found["work"] == found["most"]["work"]


def test_a_plan_counts_empty_files(here: Path) -> None:
    for name, documents in (("empty.txt", 1), ("empty.jsonl", 0)):
        Path(name).touch()
        found = sample.plan([name], {"backend": "reference"})
        corpus = found["likely"]["corpus"]
        assert (corpus["documents"], corpus["bytes"], found["sample"]) == (documents, 0, documents)
        first = "1 document, 0 B" if documents else "0 documents, 0 B"
        head, *_ = sample_lines(found)
        assert head == f"{first} of text in 1 file of 0 B"


def test_the_share_of_dropped_documents_leaves_out_protected_ones(here: Path) -> None:
    for name, given in (("few.jsonl", texts(3) + texts(1)), ("test.jsonl", texts(9)[5:])):
        write_rows(name, given)
    found = sample.plan(["few.jsonl"], {"backend": "reference", "protect": ["test.jsonl"]})
    assert "dropped          25.0 %" in sample_lines(found)  # 1 of 4
    write_rows("few.jsonl", [*texts(3), *texts(1), " ".join(texts(6))])  # and a document that quotes a protected one
    found = sample.plan(["few.jsonl"], {"backend": "reference", "protect": ["test.jsonl"], "passages": 13})
    assert "dropped          40.0 %" in sample_lines(found)  # 2 of 5


def test_a_plan_by_containment_counts_weights_and_prefixes(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be half as large as all else in OUT/_work."""
    write_rows(
        "few.jsonl", [" ".join(f"w{(place + 90 * number) % 9000}" for place in range(300)) for number in range(200)]
    )
    options = {"backend": "reference", "measure": "containment", "threshold": 0.5}
    found, begin = sample.plan(["few.jsonl"], options)["work"], driver._write
    used: list[int] = []

    def write(*given: Any) -> Any:
        used.append(sum(path.stat().st_size for path in Path("out/_work").iterdir()))
        return begin(*given)

    monkeypatch.setattr(driver, "_write", write)
    gpulsh.deduplicate_files("few.jsonl", "out", **options)
    assert used[0] < found < 1.3 * used[0]


def test_a_slow_method_gets_a_smaller_sample() -> None:
    def share(slower: float) -> float:
        seconds = {"sign": 0.4 * slower, "write": 0.3 * slower, START: 1.0}
        return sample.next_share(0.001, replace(planted_usage(500), seconds=seconds))

    assert share(1.0) > 0.1
    assert share(2.5) == pytest.approx(0.001 * 5 / (0.7 * 2.5 - 1))
    assert share(100.0) == 0.001 * sample.MIN_TIMES


def test_a_dry_run_writes_nothing(here: Path, command: Command) -> None:
    """The one test here with a real run, in a process of its own."""
    long = " ".join(f"word{number}" for number in range(3000))
    given = [*texts(30), *texts(9), long, f"{long} more"]
    write_rows("few.parquet", pa.table({"text": given, "id": range(len(given))}))
    before = tree(here)
    found = json.loads(command("dedup few.parquet -o out --backend reference --id-column id --dry-run --json").out)
    assert found["outputs"][:3] == ["out/data/few.parquet", "out/duplicates.parquet", "out/clusters.parquet"]
    assert (found["files"], found["sample"], found["backend"]) == (1, 41, "reference")
    likely = found["likely"]
    assert likely == found["most"] and likely["all"] == sum(likely["seconds"].values())
    assert likely["memory"] > 30e6 and likely["data"] > 1000 and likely["evidence"] > 300
    assert tree(here) == before and not Path("out").exists()
    result = gpulsh.deduplicate_files("few.parquet", "out", backend="reference", id_column="id")
    assert sorted(result.report["outputs"]) == sorted(name.removeprefix("out/") for name in found["outputs"])
    assert result.funnel["dropped"] == round(likely["corpus"]["dropped"] * 41) >= 10
    assert found["work"] > 2 * len(long) and likely["corpus"]["met_bytes"] > 0.9  # texts of two long documents wait


def test_a_dry_run_in_python_refuses_as_the_run_would(here: Path) -> None:
    def dry(*inputs: str, output: str = "out", **options: Any) -> Any:
        return gpulsh.deduplicate_files(list(inputs), output, dry_run=True, backend="reference", **options)

    Path("few.jsonl").write_text('{"text": "one"}\n')
    Path("full").mkdir()
    Path("full/mine.txt").write_text("mine")
    before = tree(here)
    found = dry("in", write="duplicates", on_error="skip")
    assert found.report["outputs"][:3] == ["duplicates.parquet", "clusters.parquet", "rejected.parquet"]
    assert [entry["file"] for entry in found.report["files"]] == [f"in/{number}.parquet" for number in range(4)]
    assert found.funnel["documents"] == 0 and tree(here) == before
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
    before = tree(here)
    assert dry("few.jsonl", resume=True).report["outputs"] and dry("in", overwrite=True)
    with pytest.raises(OutputError, match=r"belongs to another run: .*threshold was 0\.8 and is 0\.9 now"):
        dry("few.jsonl", resume=True, threshold=0.9)
    assert tree(here) == before


@pytest.mark.usefixtures("here")
def test_a_plan_refuses_in_one_line(command: Command) -> None:
    numbers = "--docs 10 --bytes 10"
    for line, status, message in (
        *((f"{numbers} --docs {number}", 2, "--docs is") for number in ("nan", "1e300", "inf", "-1")),
        (f"{numbers} --bytes inf", 2, "bytes is inf"),
        (f"{numbers} --bytes 1XB", 2, "'1XB' is not a number of bytes, such as 5e14 or 500TB"),
        (f"{numbers} --docs 0", 2, "--docs or --bytes is 0; give both, above 0"),
        (f"{numbers} --dropped 1.5", 2, "dropped is 1.5"),
        (f"{numbers} --gpus 0", 2, "gpus is 0"),
        (f"{numbers} --gpus 2 --threads 2", 2, "not both"),
        (f"{numbers} --threads 2 --nodes 3", 2, "nodes is 3"),
        (f"{numbers} --rate sign", 2, "is not NAME=NUMBER"),
        (f"{numbers} --rate sing=2", 2, "no rate of sing"),
        *((f"{numbers} --rate sign={rate}", 2, "give a number above 0") for rate in ("0", "1e300")),
        (f"{numbers} --hours 0", 2, "hours is 0"),
        (f"{numbers} --shingle word:3", 2, "--shingle is for a plan from files"),
        ("", 2, "give INPUT, or the amount of text by --docs and --bytes"),
        ("in --docs 5", 2, "--docs is for a plan from numbers; leave it out, or INPUT"),
        ("nowhere", 1, "nowhere: no such file or folder"),
        ("in --text-column body", 1, "in/0.parquet: has no column 'body'"),
        ("in --threshold 2", 2, "threshold is 2"),
        ("in --memory 1", 2, "too little to work in"),
        ("in --threads 0", 2, "threads is 0; give an integer from 1 to 1024"),
        ("-", 1, "-: can be read only once"),
    ):
        refused = command(f"plan {line}")
        assert (refused.status, refused.err.count("\n")) == (status, 1) and message in refused.error, line


def test_an_error_of_a_sample_names_the_file(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []

    def fails(arguments: list[str], out: Path) -> Any:
        names.extend(sorted(str(path) for path in Path(arguments[-1]).iterdir()))
        raise InputError(f"{names[1]}: row 3: is odd")

    monkeypatch.setattr(sample, "run_dedup", fails)
    monkeypatch.setattr(sample, "FIRST_BYTES", 1000)
    with pytest.raises(InputError, match=r"^in/1\.parquet: row 3: is odd$"):
        sample.plan(["in"], {})
    assert not list(Path("temporary").iterdir())


def test_a_failed_sample_run_names_its_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"^nowhere: no such file or folder$"):
        run_dedup(["--backend=reference", "--", "nowhere"], tmp_path / "out")

    busy = BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
    monkeypatch.setattr("subprocess.run", Mock(side_effect=busy))
    with pytest.raises(InputError, match=r"^no process can be started to run a sample: Resource temporarily"):
        run_dedup(["in"], tmp_path / "out")
