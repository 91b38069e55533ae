"""`gpulsh plan`: its numbers against sums done by hand, and what it refuses."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gpulsh
from gpulsh.forecast.formula import (
    INDEX_KEY_BYTES,
    Corpus,
    Estimate,
    compact_index_bytes,
    estimate,
    false_candidates,
    index_bytes,
    recorded,
    stage_works,
    workers_needed,
)
from gpulsh.report.wording import duration
from gpulsh.run.index.jobs import build_index
from gpulsh.stats.stages import ESTIMATED
from tests.support.command import Command
from tests.support.files import write_rows

CORPUS = Corpus(documents=1000, bytes=2_000_000, met=0.5, pairs=3, dropped=0.25, bytes_per_shingle=5)


@pytest.fixture
def planned(command: Command) -> Callable[[str], dict[str, Any]]:
    """The plan that the command makes with these options, as JSON."""
    return lambda line: json.loads(command(f"plan {line} --json").out)  # type: ignore[no-any-return]


def test_bytes_and_seconds_by_hand() -> None:
    rates = {"sign": 100_000, "copies": 500, "collide": 1000, "connect": 20, "route": 40, "gather": 50_000}
    rates |= {"verify": 10, "collect": 5, "write": 200_000}
    found = estimate(CORPUS, rates, workers=2, nodes=2, bands=4, rows=8)
    stages = {stage.name: stage for stage in found.stages}
    assert [stage.name for stage in found.stages] == list(ESTIMATED) == list(stage_works(CORPUS, 4))
    assert stages["sign"].seconds == 2_000_000 / 100_000 / 2
    assert stages["collide"].seconds == 1000 * 4 / 1000 / 2
    assert stages["copies"].seconds == 1000 / 500 / 2
    assert stages["connect"].seconds == 500 / 20 / 2
    assert stages["route"].seconds == 3000 / 40 / 2
    assert stages["gather"].seconds == 1_000_000 / 50_000 / 2
    assert stages["verify"].seconds == (1_000_000 + 3000 * 200) / 10 / 2
    assert stages["collect"].seconds == 500 / 5 / 2
    assert stages["write"].seconds == 2_000_000 / 200_000 / 2
    assert found.seconds == sum(stage.seconds or 0 for stage in found.stages)
    assert (stages["sign"].disk_read, stages["sign"].disk_written) == (2_000_000, 1000 * (4 * (8 + 4) + (16 + 4) + 8))
    # Half of it is on the other machine: digests and hashes, each with the document's number.
    assert stages["copies"].network == 1000 * (16 + 4) / 2
    assert stages["collide"].network == 1000 * 4 * (8 + 4) / 2
    assert stages["verify"].network == (1_000_000 + 3000 * 24) / 2
    assert stages["collect"].network == 500 * 54 / 2
    assert found.false_seconds[0.1] == found.false_candidates[0.1] * 200 / 10 / 2
    assert stages["write"].disk_written == found.output == 1_500_000
    # Beside the program: a machine's half of the text, digests of its half of the documents, text of those that met.
    held = {"copies": 500 * 4 * 24, "collide": 500 * 4 * 24, "verify": 500_000}
    assert {s.name: s.memory_each for s in found.stages} == {
        name: (256 << 20) + held.get(name, 1_000_000) for name in ESTIMATED
    }
    large = Corpus(documents=1e9, bytes=1e13, met=0.5, pairs=3, dropped=0.25, bytes_per_shingle=5)
    most = {s.name: s.memory_each for s in estimate(large, rates, workers=2, nodes=1, bands=21, rows=6).stages}
    assert most.pop("connect") == 28 * 5e8
    assert max(most.values()) == (256 << 20) + (24 << 24) + (512 << 20) < 1.3e9  # a sixteenth of it are texts that wait
    assert most["verify"] == (256 << 20) + (256 << 20)
    apart = {s.name: s.memory_each for s in estimate(large, rates, workers=2, nodes=2, bands=21, rows=6).stages}
    assert apart.pop("connect") == 28 * 5e8 and max(apart.values()) == (256 << 20) + (24 << 24) < 0.7e9
    small = estimate(CORPUS, rates, workers=2, nodes=2, bands=4, rows=8, memory=1000)
    assert {stage.name: stage.memory_each for stage in small.stages if stage.memory_each != 1000} == {
        "connect": 500 * 28
    }


def test_a_slow_disk_or_network_is_what_bounds() -> None:
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
def test_false_candidates_are_the_probability_of_each_pair(bands: int, rows: int, similarity: float) -> None:
    naive = sum(1 - (1 - similarity**rows) ** bands + bands / 2**64 for _ in range(100) for _ in range(99)) / 2
    assert false_candidates(100, similarity, bands, rows) == pytest.approx(naive, rel=1e-3, abs=1e-15)


def test_an_index_is_as_large_as_estimated(tmp_path: Path) -> None:
    texts = [" ".join(f"{number}x{i}" for i in range(44)) for number in range(1500) for _ in range(1 + number % 2)]
    keys = [f"https://example.org/page/{number:07}" for number in range(len(texts))]
    assert len(keys[0]) == INDEX_KEY_BYTES
    with gpulsh.Index.create(tmp_path / "index", backend="cpu") as index:
        index.add(keys, texts)
    bands = index.parameters.banding.bands
    dropped = index.dropped() / len(texts)
    taken = sum(file.stat().st_size for file in (tmp_path / "index").iterdir())
    known: dict[str, float] = {"met": 0, "pairs": 0, "dropped": dropped, "bytes_per_shingle": 5}
    corpus = Corpus(documents=len(texts), bytes=40 * 5 * len(texts), **known)
    assert dropped > 0.3 and index_bytes(corpus, bands) == pytest.approx(taken, rel=0.05)
    write_rows(tmp_path / "texts.parquet", texts)
    build_index(tmp_path / "compact", [str(tmp_path / "texts.parquet")], backend="cpu", evidence="source")
    taken = sum(file.stat().st_size for file in (tmp_path / "compact").iterdir())
    assert compact_index_bytes(corpus, bands) == pytest.approx(taken, rel=0.05)


def test_rates_come_from_a_record_of_such_workers_or_from_options(
    command: Command, planned: Callable[[str], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, known = planned("--docs 1e6 --bytes 5GB --threads 4"), recorded()["thread"]
    assert threads["source"] == known["source"] and threads["rates"]["sign"] == known["rates"]["sign"]
    assert threads["stages"][0]["seconds"] == pytest.approx(known["start"] + 5e9 / known["rates"]["sign"] / 4)
    records = {kind: found for kind, found in recorded().items() if kind != "GPU"}
    monkeypatch.setattr("gpulsh.forecast.formula.recorded", lambda: records)
    gpus = planned("--docs 1e6 --bytes 5e9 --gpus 4 --rate sign=20G")
    assert [stage["seconds"] for stage in gpus["stages"]] == [5e9 / 20e9 / 4, *[None] * 8]
    assert gpus["seconds"] is None
    assert gpus["shares"] == {"read_ahead": 1 << 30, "pinned": 3 << 26}
    assert planned("--docs 1e6 --bytes 5e9 --threads 4")["shares"] == {}
    text = command("plan --docs 1e11 --bytes 5e14 --gpus 64").out
    assert "1.1 GB of the budget for text read ahead, 201.3 MB of the budget page-locked" in text
    assert text.count("not measured") == len(ESTIMATED) and "500.0 TB" in text and "21 bands of 6 rows" in text
    rates = dict.fromkeys(ESTIMATED, 1e9)
    records["GPU"] = {"worker": "one NVIDIA H200", "source": "a record", "start": 1.0, "rates": rates}
    line = "--docs 1e9 --bytes 5e12 --gpus 1 --met 0 --pairs 0 --hours 1"
    found = planned(line)
    assert found["measured_worker"] == "one NVIDIA H200"
    assert found["seconds"] == pytest.approx(1 + (5e12 + 1e9 + 21e9 + 5e12) / 1e9)
    assert found["workers_needed"] == 3  # 1 s to start, and 10,022 s of work
    assert command(f"plan {line}").out.endswith("To finish in 1 h: 3 GPUs on 3 machines\n")


@pytest.mark.parametrize("wanted", [1, 2, 3, 8, 1000])
def test_the_fewest_workers_are_found(wanted: int) -> None:
    def estimated(workers: int) -> Estimate:
        return estimate(CORPUS, dict.fromkeys(ESTIMATED, 1.0), workers=workers, nodes=1, bands=4, rows=8)

    alone = estimated(1).seconds
    assert alone is not None
    assert workers_needed(alone / wanted * (1 + 1e-9), estimated) == wanted
    assert workers_needed(alone / wanted * (1 - 1e-9), estimated) == wanted + 1


def test_start_deadline_and_shares_are_counted(command: Command, planned: Callable[[str], dict[str, Any]]) -> None:
    line, known = "--docs 1e9 --bytes 5TB --threads 1", recorded()["thread"]
    alone, start = planned(f"{line} --hours 2"), known["start"] + known["process"]
    assert alone["start"] == known["process"] > 0.5
    assert alone["seconds"] == pytest.approx(known["process"] + sum(stage["seconds"] for stage in alone["stages"]))
    assert alone["workers_needed"] == math.ceil((alone["seconds"] - start) / (7200 - start))
    assert planned("--docs 9 --bytes 9 --gpus 2 --hours 1")["workers_needed"] is None
    text = command(f"plan {line} --rate disk=1G --hours 1").out
    assert "no number of threads is enough" in text and f"start    {duration(known['process']):>14}" in text
    found = planned(f"{line} --met 0 --pairs 0 --dropped 0.5 --bands 8 --rows 4")
    stages = {stage["name"]: stage for stage in found["stages"]}
    assert stages["verify"]["seconds"] == 0 and stages["gather"]["disk_read"] == 0
    assert (found["output"], found["bands"], found["rows"]) == (2.5e12, 8, 4)
    for documents in ("1", "1e18"):  # the largest numbers
        line = f"--docs {documents} --bytes 1e24 --hours 1e300 --rate sign=1e-6"
        assert planned(line)["index"] > 0 and command(f"plan {line}").status == 0


def test_nonsense_is_refused(command: Command) -> None:
    for line, message in (
        ("--docs nan", "documents is nan"),
        ("--bytes inf", "bytes is inf"),
        ("--bytes 1XB", "'1XB' is not a number of bytes, such as 5e14 or 500TB"),
        ("--dropped 1.5", "dropped is 1.5"),
        ("--gpus 0", "gpus is 0"),
        ("--gpus 2 --threads 2", "not both"),
        ("--threads 2 --nodes 3", "nodes is 3"),
        ("--rate sign", "is not NAME=NUMBER"),
        ("--rate sing=2", "no rate of sing"),
        ("--rate sign=0", "rate of sign is 0"),
        ("--hours 0", "hours is 0"),
        *((f"--docs {number}", "documents is") for number in ("1e300", "inf", "-1")),
        ("--docs 0", "--docs or --bytes is 0; give both, above 0"),
        ("--rate sign=1e300", "give a number above 0"),
    ):
        refused = command(f"plan --docs 10 --bytes 10 {line}")
        assert refused.status == 2 and message in refused.error and len(refused.err.splitlines()) == 1


def test_the_rates_are_those_of_their_record() -> None:
    for kind in recorded().keys() - {"corpus"}:
        known = recorded()[kind]
        path = Path(__file__).parents[2] / known["source"]
        if not path.exists():
            pytest.skip("the records are not in a source distribution")
        record = json.loads(path.read_text())
        assert known["rates"].keys() == set(ESTIMATED)
        if "process_source" in known:
            path = Path(__file__).parents[2] / known["process_source"]
            assert known["process"] == pytest.approx(json.loads(path.read_text())["process"], rel=1e-3)
        for name, rate in known["rates"].items():
            assert rate == pytest.approx(record["rates"][name], rel=1e-3)


def test_a_plan_of_a_small_run_names_its_bytes(tmp_path: Path) -> None:
    """The estimate counts what the stages write: the rows of signed documents, the kept text."""
    texts = [f"page {number} " + " ".join(f"w{number}x{place}" for place in range(20)) for number in range(400)]
    write_rows(tmp_path / "a.parquet", [*texts, *texts[:100]])
    seen: list[int] = []

    def copies(*given: Any) -> Any:
        seen.append(sum(path.stat().st_size for path in (tmp_path / "out/_work").glob("sign-*.arrow")))
        return real(*given)

    from gpulsh.run import driver as stage
    from gpulsh.run.files import deduplicate_files

    real = stage.copies
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "copies", copies)
        funnel = deduplicate_files(tmp_path / "a.parquet", tmp_path / "out", backend="reference").funnel
    known = {"met": 0.4, "pairs": 1, "dropped": 0.2, "bytes_per_shingle": 6}
    corpus = Corpus(documents=funnel["documents"], bytes=funnel["bytes"], **known)
    found = estimate(corpus, {}, workers=1, nodes=1, bands=21, rows=6)
    assert seen[0] == pytest.approx(found.stages[0].disk_written, rel=0.15)
