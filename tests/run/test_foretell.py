"""What a run takes is foretold from two samples: planted costs come back exactly, and a dry run writes nothing."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.account.costs import Corpus, stage_works
from gpulsh.account.stages import FORETOLD
from gpulsh.cli import main
from gpulsh.cli.foretold import told
from gpulsh.errors import InputError, OutputError, ParameterError
from gpulsh.report.funnel import duration, size
from gpulsh.report.plan.estimate import held_at_once
from gpulsh.run.foretell import foretell
from gpulsh.run.foretell.foretell import TIMES
from gpulsh.run.foretell.growth import START, Machine, Repeats, Taken, foretold, repeats
from gpulsh.run.foretell.trial import Ended, run

MACHINE = Machine(bands=21, threads=2, memory=8 << 30, usual={})
NEAR, POWERS = 0.2, {"met": 0.5, "pairs": 1.0, "dropped": 0.25}
REPEATS = Repeats(near=NEAR, met=POWERS["met"], dropped=POWERS["dropped"])
STARTS = {name: 0.02 * (1 + place) for place, name in enumerate(FORETOLD)}
EACH = {name: 1e-4 * (1 + place) for place, name in enumerate(FORETOLD)}
LARGE = 10_000


def corpus(documents: int) -> Corpus:
    shares = {name: 0.05 * (NEAR + (1 - NEAR) * (documents / LARGE) ** power) for name, power in POWERS.items()}
    return Corpus(documents=documents, bytes=700.0 * documents, bytes_per_shingle=6, **shares)


def planted(documents: int) -> Taken:
    of = corpus(documents)
    works = stage_works(of, MACHINE.bands)
    return Taken(
        corpus=of,
        seconds={
            **{name: STARTS[name] + EACH[name] * works[name].amount for name in FORETOLD},
            "gather": STARTS["gather"] + EACH["gather"] * of.bytes,
            START: 1.5,
        },
        processor=3 + 2e-6 * of.bytes,
        memory=300e6 + max(held_at_once(name, of, MACHINE.bands, 1, 2, MACHINE.memory) for name in FORETOLD),
        data=500 * documents * (1 - of.dropped),
        evidence=40 * documents * of.dropped,
    )


@pytest.mark.parametrize("documents", [LARGE, 300_000])
def test_planted_costs_are_foretold_exactly(documents: int) -> None:
    wanted = planted(documents)
    found = foretold(planted(500), planted(LARGE), REPEATS, documents, wanted.corpus.bytes, MACHINE).likely
    for name, seconds in wanted.seconds.items():
        assert found.seconds[name] == pytest.approx(seconds, rel=1e-9), name
    assert found.all == pytest.approx(wanted.all, rel=1e-9)
    for name in ("processor", "memory", "data", "evidence"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), rel=1e-9), name
    assert vars(found.corpus) == pytest.approx(vars(wanted.corpus), rel=1e-9)


def test_what_was_run_whole_is_as_it_was() -> None:
    whole = planted(500)
    found = foretold(whole, whole, REPEATS, 500, whole.corpus.bytes, MACHINE)
    assert found.likely == found.least == found.most == whole


def test_what_disturbs_the_smaller_sample_does_not_make_the_rest_free() -> None:
    large = planted(LARGE)
    small = replace(planted(500), seconds={**large.seconds, "sign": large.seconds["sign"] + 1})
    found = foretold(small, large, REPEATS, 10 * LARGE, large.corpus.bytes * 10, MACHINE).likely
    for name in ("sign", "write"):
        assert found.seconds[name] == pytest.approx(10 * large.seconds[name], rel=0.01), name


def test_how_far_off_it_may_be() -> None:
    found = foretold(planted(500), planted(LARGE), REPEATS, 40_000, 40_000 * 700.0, MACHINE)
    assert found.least.corpus.dropped == 0.05 and found.most.corpus.dropped == 0.05 * 4
    assert found.least.all < found.likely.all < found.most.all
    far = foretold(planted(500), planted(LARGE), REPEATS, 4_000_000, 4_000_000 * 700.0, MACHINE)
    assert far.most.corpus.dropped == far.most.corpus.met == 1.0 and far.most.data == 0.0


def test_pairs_grow_no_further_in_buckets_that_become_large() -> None:
    """Of templates that a sample has 130 of, and of 10, among pairs of documents that stand anywhere."""
    some = Repeats(near=0.0, buckets={2: 2.0, 4: 0.0, 8: 0.0, 16: 3.0, 32: 0.0, 64: 0.0, 128: 0.0, 256: 5.0})
    assert some.pairs(1.0) == 1.0 and some.pairs(2.0) == pytest.approx(1.5, abs=0.01)
    assert some.pairs(15.0) == pytest.approx(1 + 14 * 0.5, rel=0.1)  # those of 10 become 122
    assert some.pairs(1e6) == pytest.approx(1 + 1e6 * 0.2, rel=0.1)  # who is a pair stays one
    assert replace(some, near=1.0).pairs(9.0) == 1.0
    assert replace(some, near=0.5).pairs(9.0) == pytest.approx((1 + some.pairs(9.0)) / 2)
    assert Repeats(near=0.0).pairs(9.0) == 9.0
    found = foretold(planted(500), planted(LARGE), some, 100 * LARGE, 100 * LARGE * 700.0, MACHINE)
    assert found.likely.seconds["verify"] < found.most.seconds["verify"]
    assert found.most.corpus.pairs == 100 * planted(LARGE).corpus.pairs > 3 * found.likely.corpus.pairs


def test_pairs_of_a_template_are_foretold_by_a_sample_of_its_pages(tmp_path: Path) -> None:
    """By the square of their number they would be six times as many a page; but some buckets become large."""
    common = " ".join(f"menu{number}" for number in range(200))

    def trial(pages: int) -> tuple[float, Repeats]:
        texts = [f"{common} {' '.join(f'page{page}x{place}' for place in range(60))}" for page in range(pages)]
        pq.write_table(pa.table({"text": texts}), tmp_path / f"{pages}.parquet")
        ended, took = run(["--backend=cpu", str(tmp_path / f"{pages}.parquet")], tmp_path / f"out-{pages}")
        return took.corpus.pairs, Repeats(near=0.0, buckets=ended.buckets)

    sample, found = trial(150)
    whole, _ = trial(900)
    assert whole / sample < 4.5 and found.pairs(6.0) == pytest.approx(whole / sample, rel=0.25)


def test_repeats_of_pairs_that_stand_anywhere_close_together_and_in_clusters() -> None:
    random = np.random.default_rng(1)
    places = random.permutation(100_000)
    pairs = repeats(places[:2000], places[2000:4000], 100_000)
    assert (pairs.near, pairs.met, pairs.dropped) == pytest.approx((0.0, 1.0, 1.0), abs=0.05)
    assert repeats(places[:2000], places[:2000] - 1, 100_000) == Repeats(near=1.0)
    mixed = repeats(places[:2000], np.append(places[:1000] - 1, places[2000:3000]), 100_000)
    assert mixed.near == pytest.approx(0.5, abs=0.05)
    clusters = repeats(places[1000:9000], np.repeat(places[:20], 400), 100_000)
    assert clusters.met < 0.01 and clusters.dropped < 0.01  # of which half a corpus has nearly all
    assert repeats(places[:0], places[:0], 100_000) == Repeats(near=0.0)


def test_the_powers_are_those_of_a_sample_of_a_sample() -> None:
    """Every document is drawn by itself with one half; clusters have 2 to 9."""
    random = np.random.default_rng(2)
    kept = np.repeat(np.arange(4000), random.integers(1, 9, 4000))
    found = repeats(4000 + np.arange(len(kept)), kept, 4000.0)
    others = np.bincount(kept[random.random(len(kept)) < 0.5], minlength=4000)
    left = others + (random.random(4000) < 0.5)
    size = np.bincount(kept) + 1
    assert found.met == pytest.approx(-np.log2(left[left > 1].sum() / size.sum() * 2), abs=0.02)
    assert found.dropped == pytest.approx(-np.log2((left[left > 1] - 1).sum() / len(kept) * 2), abs=0.02)


def test_what_takes_too_little_of_a_sample_is_as_on_record() -> None:
    usual = dict.fromkeys(FORETOLD, 1e6)
    machine = replace(MACHINE, usual=usual)  # of which this machine's `sign` has a hundredth
    small, large = planted(500), planted(LARGE)
    large = replace(large, seconds={**large.seconds, "verify": 0.09, "copies": 0.01})
    found = foretold(small, large, REPEATS, 2 * LARGE, large.corpus.bytes * 2, machine).likely
    amount, whole = (stage_works(of, 21)["verify"].amount for of in (large.corpus, found.corpus))
    assert found.seconds["verify"] == pytest.approx(0.09 + min(100 / 1e6, 0.09 / amount) * (whole - amount))
    assert found.seconds["copies"] == pytest.approx(0.01 + 0.01)  # but never more than it took


def texts(count: int) -> list[str]:
    return [f"page {number} of all {number} pages with {number % 50} words and {number}" for number in range(count)]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "in").mkdir()
    for number in range(4):
        rows = pa.table({"text": texts(900), "id": range(900)})
        pq.write_table(rows, tmp_path / f"in/{number}.parquet", row_group_size=100)
    return tmp_path


def state(folder: Path) -> dict[str, Any]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_samples_are_run_as_the_command_runs(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = state(here)
    asked: list[list[str]] = []

    def stand_in(arguments: list[str], out: Path) -> Any:
        asked.append(arguments)
        paths = sorted(Path(arguments[-1]).glob("*.parquet"))
        files = [{"file": str(path), "rows": pq.read_metadata(path).num_rows} for path in paths]
        rows = sum(entry["rows"] for entry in files)
        out.mkdir()
        names = [files[0]["file"]] * 2
        pq.write_table(
            pa.table({"file": names, "row": [1, 2], "duplicate_of_file": names, "duplicate_of_row": [0, 0]}),
            out / "duplicates.parquet",
        )
        parameters = {"threads": 2, "memory": 8 << 30, "banding": {"bands": 21, "rows": 6}}
        report = {"parameters": parameters, "backend": {"name": "cpu"}, "files": files, "compiling": 0.0}
        return Ended(report, met=0, buckets={2: 9}, seconds=1.0, processor=1.0, memory=1), planted(rows)

    monkeypatch.setattr(foretell, "run", stand_in)
    monkeypatch.setattr(foretell, "FIRST_BYTES", 1000)
    monkeypatch.setattr(foretell, "LEAST_BYTES", 900 * 700)
    monkeypatch.setattr(foretell, "THREAD_BYTES", 1)
    monkeypatch.setattr(foretell, "STAGE_STARTS", 1e9)
    options = {"threshold": 0.7, "lines": False, "devices": [0, 1], "also": "simhash:3", "within": True, "memory": None}
    found = foretell.plan(["in"], options)
    small, *_, large = asked
    assert small[:-1] == large[:-1] == ["--threshold=0.7", "--devices=0,1", "--and=simhash:3", "--within", "--"]
    assert found.files == 4 and found.foretold.likely.corpus.documents == 3600 and not found.whole
    assert 880 <= found.sample <= 1000  # a quarter, as the text of the first sample told
    assert found.foretold.likely.seconds["sign"] == pytest.approx(planted(3600).seconds["sign"])
    assert found.foretold.likely.corpus.dropped == found.foretold.least.corpus.dropped  # all stand close together
    assert found.to_dict()["likely"]["all"] == found.foretold.likely.all
    assert state(here) == before


def test_a_process_that_cannot_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **how: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr("gpulsh.run.foretell.trial.Popen", refuse)
    with pytest.raises(InputError, match=r"^no process can be started to run a sample: Resource temporarily"):
        run(["in"], tmp_path / "out")


def test_a_busy_machine_is_given_no_smaller_samples(tmp_path: Path) -> None:
    def share(times: float) -> float:
        seconds = {"sign": 0.5 * times, "write": 0.2 * times, START: times}
        return foretell._next(foretell._Trial(0.001, {}, {}, replace(planted(500), seconds=seconds), tmp_path))

    assert share(1.0) == share(8.0) == pytest.approx(5 / (0.25 / 0.001))


def trial(share: float, sign: float, write: float, folder: Path) -> foretell._Trial:
    took = replace(planted(500), seconds={"sign": sign, "write": write, START: 1.0})
    of = replace(took.corpus, bytes=share * 300e6)
    return foretell._Trial(share, {}, {}, replace(took, corpus=of), folder)


def test_what_takes_hardly_longer_than_its_sample_is_run_whole(tmp_path: Path) -> None:
    first = trial(0.001, 0.2, 0.1, tmp_path)
    quick = trial(0.1, 0.2 + 0.099 * 2, 0.1 + 0.099 * 2, tmp_path)  # all of it in 4 starts
    assert foretell._is_soon_run(0.5, quick, first) and not foretell._is_soon_run(0.49, quick, first)
    slow = trial(0.1, 0.2 + 0.099 * 20, 0.1 + 0.099 * 20, tmp_path)
    assert foretell._next(slow, first) == TIMES * 0.1 and not foretell._is_soon_run(0.6, slow, first)
    large = replace(quick.taken, corpus=replace(quick.taken.corpus, bytes=0.1 * 600e6))
    assert not foretell._is_soon_run(0.5, quick._replace(taken=large), first)


def test_of_two_runs_the_lesser_seconds_count() -> None:
    one, other = planted(500), planted(LARGE)
    both = replace(one, seconds={**other.seconds, "sign": 0.1}, memory=9.0).or_less(other)
    assert both == replace(other, seconds={**other.seconds, "sign": 0.1}, processor=one.processor)


def test_a_dry_run_tells_and_writes_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The one real trial: a process of its own."""
    pq.write_table(pa.table({"text": [*texts(30), *texts(9)], "id": range(39)}), "few.parquet")
    before = state(here)
    arguments = ["dedup", "few.parquet", "-o", "out", "--backend", "reference", "--id-column", "id", "--dry-run"]
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["outputs"][:3] == ["out/data/few.parquet", "out/duplicates.parquet", "out/report.json"]
    assert (found["files"], found["sample"], found["backend"]) == (1, 39, "reference")
    likely = found["likely"]
    assert likely == found["least"] | {"work": likely["work"]} and likely["all"] == sum(likely["seconds"].values())
    assert likely["memory"] > 30e6 and likely["data"] > 1000 and likely["evidence"] > 300
    assert state(here) == before and not Path("out").exists()
    result = gpulsh.deduplicate_files("few.parquet", "out", backend="reference", id_column="id")
    assert sorted(result.report["outputs"]) == sorted(name.removeprefix("out/") for name in found["outputs"])
    assert result.funnel["dropped"] == round(likely["corpus"]["dropped"] * 39) >= 9


def test_a_plan_says_which_number_is_which() -> None:
    found = foretold(planted(500), planted(LARGE), REPEATS, 4 * LARGE, 4 * LARGE * 700.0, MACHINE)
    plan = foretell.Plan(found, MACHINE, {}, "cpu", files=1, bytes=9_000_000, sample=LARGE, seconds=3.0)
    lines = told(plan).splitlines()
    assert lines[1] == "10,000 of them (25.0 %) were run on this machine, in 3.00 s: cpu, 2 threads side by side"
    times = [duration(getattr(found, name).all) for name in ("likely", "least", "most")]
    assert f"{'all':<9}{times[0]:>14}  least {times[1]}, most {times[2]}" in lines
    assert f"memory at most {size(int(found.likely.memory)):>8}  of a budget of 8.6 GB" in lines
    shares = [f"{100 * getattr(found, name).corpus.dropped:.1f} %" for name in ("likely", "least", "most")]
    assert f"{'dropped':<15}{shares[0]:>8}  least {shares[1]}, most {shares[2]}" in lines
    (out,) = [line for line in lines if line.startswith("OUT at most ")]
    assert out.endswith(f"  of which {size(int(plan.work))} are removed at the end")


def test_a_dry_run_in_python_has_no_counts(here: Path) -> None:
    before = state(here)
    found = gpulsh.deduplicate_files("in", "out", dry_run=True, write="duplicates", on_error="skip")
    assert found.report["outputs"][:3] == ["duplicates.parquet", "rejected.parquet", "report.json"]
    assert [entry["file"] for entry in found.report["files"]] == [f"in/{number}.parquet" for number in range(4)]
    assert found.funnel["documents"] == 0 and state(here) == before


def test_a_dry_run_refuses_what_the_run_would(here: Path) -> None:
    def dry(*inputs: str, output: str = "out", **options: Any) -> Any:
        return gpulsh.deduplicate_files(list(inputs), output, dry_run=True, backend="reference", **options)

    Path("few.jsonl").write_text('{"text": "one"}\n')
    Path("full").mkdir()
    Path("full/mine.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"it holds files that gpulsh did not write; give another folder$"):
        dry("in", output="full")
    with pytest.raises(InputError, match="has no column 'body'"):
        dry("in", text_column="body")
    with pytest.raises(ParameterError, match="dry_run=True cannot tell what a run with an index takes"):
        dry("in", index="known")
    with pytest.raises(ParameterError, match="dry_run=True looks at this machine alone, and engine is 'ray'"):
        dry("in", engine="ray")
    with pytest.raises(InputError, match="-: can be read only once"):
        dry("-")
    with pytest.raises(ParameterError, match=r"dry_run=True looks at local folders alone, and output is 's3://a/b'"):
        dry("in", output="s3://a/b")
    gpulsh.deduplicate_files("few.jsonl", "out", backend="reference")
    before = state(here)
    assert dry("few.jsonl", resume=True).report["outputs"] and dry("in", overwrite=True)
    with pytest.raises(OutputError, match=r"is of another run: .*threshold was 0\.8 and is 0\.9 now"):
        dry("few.jsonl", resume=True, threshold=0.9)
    assert state(here) == before


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        ([], 2, "give INPUT, or how much there is by --docs and --bytes"),
        (["in", "--docs", "5"], 2, "--docs is of a plan from numbers; leave it out, or INPUT"),
        (["--docs", "5", "--bytes", "9", "--shingle", "word:3"], 2, "--shingle is of a plan from files"),
        (["nowhere"], 1, "nowhere: no such file or folder"),
        (["in", "--text-column", "body"], 1, "in/0.parquet: has no column 'body'"),
        (["in", "--threshold", "2"], 2, "threshold is 2"),
        (["in", "--memory", "1"], 2, "too little to work in"),
        (["in", "--threads", "0"], 2, "threads is 0; give an integer from 1 to 1024"),
        (["-"], 1, "-: can be read only once"),
    ],
)
def test_a_plan_refuses_in_one_line(
    arguments: list[str], status: int, told: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *arguments]) == status
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1


def test_what_a_trial_ends_in_is_told_of_the_file(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []

    def fails(arguments: list[str], out: Path) -> Any:
        names.extend(sorted(str(path) for path in Path(arguments[-1]).iterdir()))
        raise InputError(f"{names[1]}: row 3: is odd")

    monkeypatch.setattr(foretell, "run", fails)
    monkeypatch.setattr(foretell, "FIRST_BYTES", 1000)
    with pytest.raises(InputError, match=r"^in/1\.parquet: row 3: is odd$"):
        foretell.plan(["in"], {})
    assert not list(Path("temporary").iterdir())


def test_a_trial_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^nowhere: no such file or folder$"):
        run(["--backend=reference", "--", "nowhere"], tmp_path / "out")
