"""Every number of a run: its parts add up, it equals a naive count, and every page and summary shows the same."""

import html
import io
import json
import random
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.backends.protocol import Sizes
from gpulsh.backends.select import select_backend
from gpulsh.budget import TaskSizes
from gpulsh.cli import main
from gpulsh.decide.edges import MAX_DRAWN, NO_SAMPLE, PairSampler, Sample
from gpulsh.permutations import splitmix64
from gpulsh.report.evidence import similarity_counts
from gpulsh.report.page import missing_requirement
from gpulsh.report.summary import funnel_table
from gpulsh.run.files import deduplicate_files
from gpulsh.run.progress import Tally, open_progress, summary
from gpulsh.stats.counts import COUNTS, SAMPLED
from gpulsh.stats.stages import Funnel
from tests.support import naive
from tests.support.command import Command
from tests.support.files import write_rows
from tests.support.runs import evidence as evidence_of
from tests.support.runs import run

WORDS = [f"w{number}" for number in range(400)]
BAD = "{no json"
OPTIONS: list[dict[str, Any]] = [
    {},
    {"verify": "signature"},
    {"verify": "none"},
    {"resolve": "components"},
    {"keep": "source:b.jsonl,a.jsonl"},
    {"within": True},
    {"across": True},
    {"across": True, "keep": "source:b.jsonl,a.jsonl"},
    {"protect": True},
    {"protect": True, "within": True},
    {"protect": True, "across": True, "verify": "none"},
    {"protect": True, "resolve": "components", "keep": "source:b.jsonl,a.jsonl"},
    {"protect": True, "on_error": "skip"},
    {"on_error": "skip", "write": "duplicates"},
    {"index": True},
]
SKETCH: dict[str, Any] = {"backend": "reference", "shingling": "word:2", "threshold": 0.6}
SKETCH |= {"num_perm": 24, "bands": 12, "rows": 2}


@dataclass(frozen=True)
class Document:
    source: str
    file: str
    row: int
    text: str | None

    @property
    def words(self) -> tuple[Any, ...]:
        return tuple(map(tuple, naive.tokens(self.text or "", "word")))


def texts(rng: random.Random, count: int, bad: bool) -> list[str | None]:
    """Pages, copies (of other case and punctuation too), near-copies, empty texts, nulls, and bad records."""
    pages = [" ".join(random.Random(number).choices(WORDS, k=14)) for number in range(8)]
    found: list[str | None] = []
    for _ in range(count):
        page = rng.choice(pages)
        near = " ".join([*page.split()[: rng.randrange(10, 14)], *rng.choices(WORDS, k=rng.randrange(3))])
        kinds = [page, page.upper() + "!", near, near, near, " ".join(rng.choices(WORDS, k=9)), "", "?!", None]
        found.append(rng.choice([*kinds, BAD] if bad else kinds))
    return found


def write(folder: Path, name: str, given: list[str | None]) -> list[Document]:
    lines = [BAD if text == BAD else json.dumps({"text": text}) for text in given]
    (folder / name).write_text("\n".join(lines) + "\n")
    path = str(folder / name)
    return [Document(path, path, row, text) for row, text in enumerate(given) if text != BAD]


@pytest.mark.parametrize(("seed", "options"), [(at % 2, one) for at, one in enumerate(OPTIONS)], ids=str)
def test_counts_of_a_run_equal_a_naive_count(options: dict[str, Any], seed: int, tmp_path: Path) -> None:
    rng, asked = random.Random(seed), dict(options)
    bad = options.get("on_error") == "skip"
    protected = write(tmp_path, "test.jsonl", texts(rng, 12, bad)) if asked.pop("protect", False) else []
    inputs = [write(tmp_path, f"{name}.jsonl", texts(rng, 25, bad)) for name in "ab"]
    if protected:
        asked["protect"] = [tmp_path / "test.jsonl"]
    before: list[Document] = []
    gone_before: set[tuple[str, int]] = set()
    if asked.pop("index", False):
        asked["index"] = tmp_path / "index"
        before = write(tmp_path, "before.jsonl", texts(rng, 25, False))
        gpulsh.deduplicate_files(tmp_path / "before.jsonl", tmp_path / "first", index=tmp_path / "index", **SKETCH)
        gone_before = {(row["file"], row["row"]) for row in evidence_of(tmp_path / "first")}
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    report = gpulsh.deduplicate_files(paths, tmp_path / "out", **asked, **SKETCH).report
    funnel = report["funnel"]
    for row in COUNTS.values():
        if row.parts:
            assert funnel[row.name] == sum(funnel[part] for part in row.parts), row.name
        assert funnel[row.name] >= 0 and (row.of is None or funnel[row.name] <= funnel[row.of]), row.name

    own = [*inputs[0], *inputs[1]]
    every = [*protected, *own]
    rejected = sum(path.read_text().count(BAD) for path in tmp_path.glob("*.jsonl"))
    evidence = evidence_of(tmp_path / "out")
    gone = {(row["file"], row["row"]) for row in evidence}
    assert funnel["documents"] == len(every) and funnel["protected"] == len(protected)
    assert funnel["rejected"] == rejected == sum(report["evidence"]["rejected"])
    assert funnel["dropped"] == len(evidence) and funnel["kept"] == len(own) - len(evidence)
    if asked.get("write") != "duplicates":
        written = [path.read_text().splitlines() for path in (tmp_path / "out/data").iterdir()]
        assert funnel["kept"] == sum(map(len, written))
    assert funnel["nulls"] == sum(document.text is None for document in every)
    assert funnel["wordless"] == sum(document.text is not None and not document.words for document in every)
    assert funnel["bytes"] == sum(len((document.text or "").encode()) for document in every)

    # Copies: of those with the same words the first in decision order is none.
    alike: dict[Any, list[Document]] = {}
    ordered = [*before, *protected, *(own if "keep" not in asked else [*inputs[1], *inputs[0]])]
    for document in ordered:
        if document.words:
            alike.setdefault(document.words, []).append(document)
    witness = {(row["file"], row["row"]): (row["duplicate_of_file"], row["duplicate_of_row"]) for row in evidence}
    words = {(document.file, document.row): document.words for document in every}
    kinds, copies = Counter[str](), set[tuple[str, int]]()
    for first, *rest in alike.values():
        for place in [(document.file, document.row) for document in rest if document in own]:
            copies.add(place)
            if place not in witness:
                kinds["copies_left"] += 1
            elif witness[place] in words:
                kinds["copies_of_kept" if words[witness[place]] == words[place] else "copies_of_dropped"] += 1
            else:  # it is known of earlier runs alone
                kinds["copies_of_dropped" if (first.file, first.row) in gone | gone_before else "copies_of_kept"] += 1
    assert funnel["exact_copies"] == len(copies)
    assert all(funnel[name] == kinds[name] for name in COUNTS["exact_copies"].parts)
    assert funnel["near_duplicates"] == len(gone - copies)
    if not {"within", "across"} & set(asked):
        assert not funnel["copies_left"]
        assert funnel["verified"] == funnel["similar"] + funnel["copies_of_kept"] + funnel["copies_of_dropped"]
    similar = report["evidence"]["similarity"]
    assert similar["one"] + similar["unmeasured"] + sum(similar["below_one"].values()) == funnel["dropped"]
    assert similar["one"] >= funnel["copies_of_kept"]
    sampled = report["sampled"]["below_one"]
    if not {"protect", "within", "across", "index", "verify"} & set(options):  # all candidates are compared
        assert sum(count for low, count in sampled.items() if float(low) < 0.6) == funnel["dissimilar"]
        assert sum(sampled.values()) + report["sampled"]["one"] == funnel["candidates"] > 0

    # The sources of the documents that they were dropped for.
    known = {document.file: document.file for document in every}
    wanted = Counter((row["file"], known.get(row["duplicate_of_file"])) for row in evidence)
    for_whom = report["evidence"]["dropped_for"]
    assert {(entry["input"], entry["of"]): entry["count"] for entry in for_whom["listed"]} == wanted
    assert not for_whom["more"]
    assert funnel["earlier"] == sum(count for (_, of), count in wanted.items() if of is None)
    _shown_alike(report, tmp_path / "out/report.html")


def _shown_alike(report: dict[str, Any], page: Path) -> None:
    """Check that report, page and summary show the funnel's numbers under the names of the table."""
    funnel = report["funnel"]
    assert set(COUNTS) == set(Funnel()) - {"seconds", "resumed"} == set(funnel) - {"seconds", "resumed"}
    assert set(report["definitions"]) == {*COUNTS, SAMPLED.name}
    for name, row in COUNTS.items():
        entry = report["definitions"][name]
        assert tuple(entry.get("sum_of", ())) == row.parts and entry["meaning"] == row.meaning != ""
        assert all(part in COUNTS for part in row.parts) and (row.of is None or row.of in COUNTS)
    labels = {row.label: funnel[row.name] for row in COUNTS.values()}
    assert len(labels) == len(COUNTS)
    whom = 0
    for line in funnel_table(report).partition("\n\n")[0].split("\n"):
        found = re.match(r"(\w[\w -]*?)?  +([\d,]+)", line)
        assert found is not None
        number = int(found[2].replace(",", ""))
        assert not found[1] or number == labels[found[1]]
        whom += 0 if found[1] else number
    assert whom == funnel["dropped"]
    if missing_requirement() is None:
        content = page.read_text(encoding="utf-8").partition("<summary>")[2].partition("</details>")[0]
        rows = re.findall(r"<td>([^<]*)</td><td class=\"number\">([\d,]+)</td>", content)
        assert {html.unescape(name): int(count.replace(",", "")) for name, count in rows} == labels


def test_the_summary_counts_protected_documents(folder: Path, command: Command) -> None:
    page = " ".join(WORDS[:30])
    write_rows("test.jsonl", [page, page])
    write_rows("crawl.jsonl", [page, page + " more", "something else"])
    shown = command("dedup crawl.jsonl --protect test.jsonl -o out --backend reference --verbose").out
    assert re.search(r"^documents +5  = 2 protected \+ 2 dropped \+ 1 kept;", shown, re.MULTILINE)
    assert re.search(r"^dropped +2 .*\n +2  for test.jsonl \(protected\)$", shown, re.MULTILINE)
    assert re.search(r"^kept +1 ", shown, re.MULTILINE)


# --- the sample of candidate pairs (that no cut changes it, `test_partitioned` shows) ---


@pytest.mark.parametrize(("group", "tile"), [(1 << 40, None), (1 << 40, 4000), (2000, None)])
def test_candidates_below_the_threshold_equal_brute_force(
    group: int, tile: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One task compares all pairs, also in tiles, or several tasks compare shares of them."""
    if tile is not None:
        monkeypatch.setattr("gpulsh.backends.cpu.SIZES", Sizes(tile, tile, tile))
    source = random.Random(3)
    words = [f"word{number}" for number in range(60)]
    texts = [" ".join(words[:16] + source.sample(words[16:], source.randrange(2, 40))) for _ in range(60)]
    write_rows(tmp_path / "a.jsonl", texts)
    monkeypatch.setattr("gpulsh.run.file_run.missing_requirement", lambda: "tested elsewhere")
    cut = TaskSizes(memory=1 << 30, partition=2000, digests=1 << 40, group=group)
    monkeypatch.setattr("gpulsh.run.file_run.task_sizes", lambda *_: cut)
    given: dict[str, Any] = {"shingling": "word:1", "num_perm": 32, "bands": 16, "rows": 2, "backend": "cpu"}
    report = gpulsh.deduplicate_files(tmp_path / "a.jsonl", tmp_path / "out", **given).report

    fingerprints = gpulsh.shingle(texts, shingling="word:1", backend="cpu")
    signatures = gpulsh.MinHash(num_perm=32)(fingerprints, backend="cpu")
    digests = gpulsh.Banding(bands=16, rows=2)(signatures, backend="cpu")
    pairs = gpulsh.candidate_pairs(digests, backend="cpu")
    similarity = np.asarray(gpulsh.jaccard(fingerprints, pairs, backend="cpu"))
    assert report["sampled"] == similarity_counts([similarity])
    assert 1000 < len(pairs) == report["funnel"]["candidates"] < MAX_DRAWN
    assert ("compare" in report["funnel"]["seconds"]) == (group == 2000)
    assert similarity.min() < 0.5 and (similarity >= 0.8).any()


# --- progress ---


TEXTS = [f"some words of a text that is about number {number} and nothing else at all" for number in range(20)]


@pytest.fixture
def corpus(folder: Path) -> str:
    return write_rows("a.parquet", [*TEXTS, None, *TEXTS[:5]])


def test_json_progress_reports_every_stage(corpus: str, command: Command) -> None:
    printed = command(f"dedup {corpus} -o out --backend reference --json")
    report = json.loads(printed.out)
    events = [entry for entry in map(json.loads, printed.err.splitlines()) if "event" in entry]
    assert [(entry["event"], entry["stage"]) for entry in events] == [
        (event, stage) for stage in report["funnel"]["seconds"] for event in ("begin", "end")
    ]
    assert [entry["time"] for entry in events] == sorted(entry["time"] for entry in events)
    end = {entry["stage"]: entry for entry in events if entry["event"] == "end"}
    funnel = report["funnel"]
    assert (end["sign"]["documents"], end["sign"]["bytes"]) == (funnel["documents"], funnel["bytes"])
    assert end["write"]["documents"] == funnel["documents"] and end["write"]["bytes"] == funnel["bytes"]
    assert end["write"]["dropped"] == end["verify"]["dropped"] == funnel["dropped"] >= 5
    assert end["sign"]["documents_per_second"] == pytest.approx(funnel["documents"] / end["sign"]["seconds"], rel=0.01)
    for stage, seconds in funnel["seconds"].items():
        assert end[stage]["seconds"] <= seconds + 1e-6


def test_progress_prints_a_line_a_stage(corpus: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Inputs without documents, which have no bytes of text, get the lines, too."""
    result = run(corpus, progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[:2] for line in lines] == [["gpulsh", stage] for stage in result.funnel["seconds"]]
    assert f": {result.funnel['documents']} documents, " in lines[0] and " documents/s" in lines[0]
    assert lines[-1].endswith(f", {result.funnel['dropped']} dropped")
    run(corpus, "quiet")
    assert capsys.readouterr().err == ""
    Path("a.jsonl").write_text("\n \n\n")
    Path("b.csv").write_text("text,id\n")
    run(["a.jsonl", "b.csv"], "none", progress=True)
    assert capsys.readouterr().err.startswith("gpulsh: sign: 0.")


def test_a_failed_stage_reports_no_end() -> None:
    for show, count in ((True, 0), ("json", 1)):
        out = io.StringIO()
        shown = open_progress(show, out)  # type: ignore[arg-type]
        with pytest.raises(ZeroDivisionError), shown.stage("sign", None, "B"):
            _ = 1 / 0
        assert len(out.getvalue().splitlines()) == count
