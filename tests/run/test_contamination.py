"""`--passages`: documents that contain protected ones are dropped first, whatever the cut and the engine."""

import json
import random
import re
import zipfile
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.budget import TaskSizes
from gpulsh.errors import ParameterError
from gpulsh.repeats.benchmark import Benchmark
from gpulsh.report.reproduce import command as reproducing
from gpulsh.report.reproduce import describe_method
from gpulsh.report.summary import funnel_table, summary
from gpulsh.run.stages.contamination import screen_partition, split_of
from gpulsh.stats.counts import CONTAMINATION, COUNTS, ID_TYPE
from tests.crash.test_resume import results
from tests.run.test_partitioned import MEMORY, cut_as
from tests.support import naive
from tests.support.command import Command
from tests.support.files import read_rows, write_rows
from tests.support.html import Html
from tests.support.naive_contamination import common, contamination, windows
from tests.support.pages import ROOT
from tests.support.runs import below, evidence, run, small_partitions
from tests.support.texts import licences
from tests.support.traced import at_most

SIZE, SHARE = 4, Fraction(3, 4)
OPTIONS: dict[str, Any] = {"passages": SIZE, "coverage": float(SHARE)}
CUTS = [TaskSizes(memory=MEMORY, partition=size, digests=200, group=2000) for size in (1, 300, 2000)]


def corpus(seed: int) -> tuple[list[list[str | None]], list[list[str | None]]]:
    """Files of items, and of pages: some contain items, some are near-copies of one another or of items."""
    source = random.Random(seed)
    words = [f"w{number}" for number in range(60)]

    def some(least: int, most: int) -> str:
        return " ".join(source.choices(words, k=source.randrange(least, most)))

    items: list[list[str | None]] = [[some(2, 20) for _ in range(6)], [None, "", some(6, 9), some(3, 4)]]
    known = [item for file in items for item in file if item]
    pages: list[list[str | None]] = []
    for _ in range(4):
        file: list[str | None] = [None, "?"]
        for _ in range(12):
            page = some(10, 40)
            if source.random() < 0.4:
                item = source.choice(known).split()
                page = " ".join([*page.split()[:7], *item[: source.choice([9, len(item)])], *page.split()[7:]])
            file += [page] * source.choice([1, 1, 2]) + [f"{page} more"] * source.choice([0, 1])
        pages.append([*file, source.choice(known)])
    return items, pages


def write(folder: Path, files: list[list[str | None]]) -> Path:
    for number, texts in enumerate(files):
        rows = [{"text": text, "url": f"{number}/{row // 2}"} for row, text in enumerate(texts)]
        write_rows(folder / f"part{number}-0001.jsonl", rows)
    return folder


def rows_of(out: Path) -> list[dict[str, Any]]:
    return read_rows(out / "contamination.parquet")


def expected(items: list[list[str | None]], pages: list[list[str | None]]) -> list[tuple[Any, ...]]:
    """The file and row of the item and of the page, the coverage, and the number of tokens."""
    known, here = (
        [(at, row, naive.tokens(text or "", "word")) for at, file in enumerate(some) for row, text in enumerate(file)]
        for some in (items, pages)
    )
    found = contamination([tokens for *_, tokens in known], [tokens for *_, tokens in here], SIZE, SHARE)
    return [(*known[one.item][:2], *here[one.row][:2], float(one.coverage), one.stop - one.first) for one in found]


def lines_of(folder: Path) -> dict[str, list[str]]:
    return {path.name: path.read_text().splitlines() for path in sorted(folder.iterdir())}


RUNS: list[tuple[int, TaskSizes, dict[str, Any]]] = [
    (0, CUTS[0], {}),
    (1, CUTS[1], {"measure": "containment"}),
    (2, CUTS[1], {"key": "url"}),
    (3, CUTS[2], {"across": True, "keep": "longest"}),
]


@pytest.mark.parametrize(("seed", "cut", "options"), RUNS)
def test_contaminated_documents_follow_the_definition(
    tmp_path: Path, seed: int, cut: TaskSizes, options: dict[str, Any]
) -> None:
    items, pages = corpus(seed)
    bench, train = write(tmp_path / "bench", items), write(tmp_path / "train", pages)
    given: dict[str, Any] = {"protect": bench, "threshold": 0.6, "backend": "cpu", **options}
    with cut_as(cut):
        report = run(train, tmp_path / "out", **OPTIONS, **given).report
    wanted, rows = expected(items, pages), rows_of(tmp_path / "out")
    places = [(row["benchmark"][-12], row["item"], row["file"][-12], row["row"], row["coverage"]) for row in rows]
    assert [(int(one[0]), one[1], int(one[2]), *one[3:]) for one in places] == [one[:5] for one in wanted]
    for row, one in zip(rows, wanted, strict=True):
        text = pages[one[2]][one[3]] or ""
        assert len(naive.tokens(text[row["start"] : row["stop"]], "word")) == one[5]
        assert row["split"] == f"part{one[0]}" and row["benchmark"].startswith(str(bench))

    found = {(row[2], row[3]) for row in wanted}
    assert 5 < len(found) < sum(map(len, pages)) - 5
    (tmp_path / "clean").mkdir()
    for name, lines in lines_of(train).items():  # the same, but for contaminated documents, which have no text
        kept = ("{}" if (int(name[4]), row) in found else line for row, line in enumerate(lines))
        (tmp_path / "clean" / name).write_text("".join(f"{line}\n" for line in kept))
    rest = run(tmp_path / "clean", tmp_path / "rest", **given)
    assert rest.data is not None
    kept_lines = {name: [line for line in lines if line != "{}"] for name, lines in lines_of(Path(rest.data)).items()}
    assert kept_lines == lines_of(tmp_path / "out/data")
    assert str(evidence(tmp_path / "rest")).replace("/clean/", "/train/") == str(evidence(tmp_path / "out"))
    counts = report["funnel"]
    assert counts["contaminated"] == len(found) and sum(report["evidence"]["contaminated"]) == len(found)
    assert counts["documents"] == sum(counts[name] for name in COUNTS["documents"].parts)
    assert counts["kept"] == sum(map(len, kept_lines.values()))


def test_backends_secrets_and_cuts_give_the_same_bytes(tmp_path: Path) -> None:
    items, pages = corpus(4)
    bench, train = write(tmp_path / "bench", items), write(tmp_path / "train", pages)
    whole, backends = (
        TaskSizes(memory=MEMORY, partition=2000, digests=1000, group=10_000),
        ("reference", "reference", "cpu"),
    )
    found = []
    for number, (cut, backend) in enumerate(zip((whole, CUTS[1], whole), backends, strict=True)):
        with cut_as(cut):
            run(train, tmp_path / f"{number}", **OPTIONS, protect=bench, threshold=0.6, backend=backend)
        found.append(results(tmp_path / f"{number}"))
    assert found[0] == found[1] == found[2] and len(rows_of(tmp_path / "0")) > 10


def test_command_files_and_page_report_contamination(folder: Path, command: Command) -> None:
    question = "what is the largest city on the river that runs past the old mill"
    page = "as the guide book has it " + question + " and the answer is a few pages on among many other words"
    Path("train.txt").write_text(f"{page}\nanother page\n{page} indeed\n")
    Path("test.txt").write_text(f"{question}\n")
    line = "dedup train.txt -o out --lines --backend reference --protect test.txt"
    shown = command(f"{line} --passages 13")
    message = "Kept 1 of 3 documents and dropped 2 (66.7 %): 2 with text of protected items; 1 document protected."
    assert shown.status == 0 and message in shown.out
    assert "gpulsh: protect: " in shown.err and "gpulsh: screen: " in shown.err
    assert Path("out/data/train.txt").read_text() == "another page\n"
    shown_page = Html(Path("out/report.html").read_text()).text
    assert "2 dropped (66.7 %): 2 with text of protected items." in shown_page
    assert "train.txt loses 66.7 % of its documents" in shown_page and "train.txt31266.7 %" in shown_page
    place = {"file": "train.txt", "row": 0, "id": None, "start": 25, "stop": 25 + len(question)}
    item = {"benchmark": "test.txt", "item": 0, "item_id": None, "split": "test"}
    assert rows_of(folder / "out")[0] == {**item, "coverage": 1.0, **place}
    columns = [(field.name, str(field.type)) for field in pq.read_schema("out/contamination.parquet")]
    types = {"float64": "double", ID_TYPE: "null"}
    assert columns == [(row.name, types.get(row.type, row.type)) for row in CONTAMINATION]
    table = [f"| {row.name} | {row.type} | {row.meaning} |" for row in CONTAMINATION]
    assert "\n".join(table) in (ROOT / "docs/decontamination.md").read_text(encoding="utf-8")
    report = json.loads(Path("out/report.json").read_text())
    assert "--passages 13 --coverage 0.8" in str(reproducing(report))
    assert "80 % or more of the words of a protected" in " ".join(describe_method(report["parameters"]))
    assert "contaminated" in funnel_table(report)
    assert "with text of protected items" in summary(report, "out", earlier=False)
    assert command(f"{line} --overwrite").status == 0
    assert not Path("out/contamination.parquet").exists()
    result = run("train.txt", "again", lines=True, protect="test.txt", passages=13, write="duplicates", ignore_common=1)
    assert result.contamination == Path("again/contamination.parquet") and result.data is None
    assert run("train.txt", "none", lines=True).contamination is None
    path = write_rows("by.jsonl", [{"text": text, "lang": "en"} for text in (page, "another page")])
    shares = run(path, "by", lines=True, protect="test.txt", passages=13).shares("lang").to_pylist()
    assert shares == [{"value": "en", "documents": 2, "dropped": 1}]
    planned = command(f"{line.replace('-o out', '-o planned')} --passages 13 --dry-run")
    assert planned.status == 0 and "planned/contamination.parquet" in planned.out
    names = {"test": "test", "a/b/validation.csv.gz": "validation", "test-00003-of-00010.parquet": "test"}
    names |= {"dev_0001.jsonl": "dev", "2024.txt": "2024", ".hidden": ".hidden", "mmlu_5.csv": "mmlu"}
    assert {name: split_of(name) for name in names} == names


@pytest.mark.parametrize("marks", [False, True])
@pytest.mark.parametrize("size", [1, 1000])
def test_contamination_has_the_ids_of_documents_and_items(
    folder: Path, monkeypatch: pytest.MonkeyPatch, marks: bool, size: int
) -> None:
    small_partitions(monkeypatch, size)
    pages = ["x q1 q2 q3 y", "alone", "q4 q5 q6 and q1 q2 q3", "near near near"]
    write_rows("train.jsonl", [{"text": text, "id": 10 + number} for number, text in enumerate(pages)])
    items = ["q4 q5 q6", "nobody quotes this", "q1 q2 q3"]
    write_rows("test.jsonl", [{"text": text, "id": f"test {number}"} for number, text in enumerate(items)])
    find = gpulsh.passages_files if marks else gpulsh.deduplicate_files
    find("train.jsonl", "out", protect="test.jsonl", passages=3, id_column="id", backend="cpu", threads=1)
    found = [(row["item_id"], row["id"]) for row in rows_of(folder / "out")]
    assert found == [("test 2", "10"), ("test 0", "12"), ("test 2", "12")]


def test_a_split_of_an_archive_is_named_after_its_file(folder: Path) -> None:
    write_rows("train.jsonl", ["x q1 q2 q3 y", "alone"])
    write_rows("test.jsonl", ["q1 q2 q3"])
    with zipfile.ZipFile("quiz.zip", "w") as archive:
        archive.write("test.jsonl")
    run("train.jsonl", "out", protect="zip://::quiz.zip", passages=3)
    ((benchmark, split),) = [(row["benchmark"], row["split"]) for row in rows_of(folder / "out")]
    assert (benchmark, split) == ("zip://test.jsonl::quiz.zip", "test")


def test_bad_records_are_skipped_in_both_inputs(folder: Path) -> None:
    Path("train.jsonl").write_text('{"text": "one two three four", "id": 7}\n{broken\n{"text": "five", "id": 8}\n')
    Path("test.jsonl").write_text('{"broken\n{"text": "two three", "id": 9}\n')
    result = run("train.jsonl", protect="test.jsonl", passages=3, id_column="id", on_error="skip")
    found = [tuple(row[name] for name in ("item", "item_id", "row", "id")) for row in rows_of(folder / "out")]
    assert found == [(1, 9, 0, 7)]
    counts = ("documents", "protected", "contaminated", "kept", "rejected")
    assert [result.funnel[name] for name in counts] == [3, 1, 1, 1, 2]
    assert Path("out/data/train.jsonl").read_text() == '{"text": "five", "id": 8}\n'


def test_items_are_not_looked_up_in_one_another(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Items with the same instructions cost the square of their number."""
    write_rows("train.jsonl", ["instructions", "one"])
    write_rows("test.jsonl", [f"instructions {number}" for number in range(100)])
    read, matches = list[int](), Benchmark.matches
    monkeypatch.setattr(Benchmark, "matches", lambda *given: read.append(len(given[2])) or matches(*given))
    run("train.jsonl", protect="test.jsonl", passages=1, coverage=0.5)
    assert sum(read) == 2 and [row["row"] for row in rows_of(folder / "out")] == [0] * 100


@pytest.mark.parametrize("marks", [False, True])
def test_similar_items_take_little_memory(folder: Path, monkeypatch: pytest.MonkeyPatch, marks: bool) -> None:
    """Each of 300 documents holds each of 300 items, and a part of them has at most 1,000 windows of items."""

    def screen(*given: Any) -> Any:
        with at_most(2 << 20):
            return screen_partition(*given)

    write_rows("train.jsonl", ["question"] * 300)
    write_rows("test.jsonl", [f"question {number}" for number in range(300)])
    monkeypatch.setattr("gpulsh.run.driver.screen_partition", screen)
    monkeypatch.setattr("gpulsh.repeats.benchmark.PLACES_AT_ONCE", 1000)
    find = gpulsh.passages_files if marks else gpulsh.deduplicate_files
    find("train.jsonl", "out", protect="test.jsonl", passages=1, coverage=0.5, backend="cpu", threads=1)
    found = [(row["row"], row["item"]) for row in rows_of(folder / "out")]
    assert found == [(row, item) for row in range(300) for item in range(300)]


def test_a_benchmark_beyond_the_memory_budget_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a.jsonl").write_text('{"text": "one"}\n')
    Path("b.jsonl").write_text('{"text": "a b c d e f g h"}\n' * 100)
    monkeypatch.setattr("gpulsh.repeats.benchmark.WINDOW_BYTES", 1 << 20)
    with pytest.raises(ParameterError, match="have 600 windows of 3 tokens, which need 629,145,600 bytes of memory"):
        run("a.jsonl", protect="b.jsonl", passages=3, memory="1GiB")


# --- passages of a test set in files equal those of `gpulsh.contamination`, as stretches to cut ---


BENCH = [
    "What is the largest city on the river that runs past the old mill near the town?",
    "Name the three longest rivers of the continent and the seas into which they flow today.",
    "the seas into which they flow today, and the largest city on the river that runs past",
    "Short one",
    "",
]


def quizzes() -> list[str | None]:
    """Texts that contain items once, twice, wrapped, overlapping, in part, or not at all."""
    one, two, three, short, _ = BENCH
    wrapped = "\n".join(" ".join(one.split()[at : at + 4]) for at in range(0, len(one.split()), 4))
    return [
        "Nothing of it, only words.",
        f"A quiz.\n{wrapped}\nAnswers: page 9. {two} End.",
        None,
        one,
        f"Überall: {two[:-1]} and the largest city on the river that runs past éé",
        f"{short}! {three} {three}",
        " ".join(one.split()[:9]),
        *licences()[:6],
    ]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    train, bench = tmp_path / "train", tmp_path / "bench"
    texts = quizzes()
    for name, some in {"a": texts[:4], "b": texts[4:]}.items():
        write_rows(train / f"{name}.jsonl", [{"text": text, "name": f"{name}{n}"} for n, text in enumerate(some)])
    write_rows(bench / "test.jsonl", BENCH)
    return train, bench


def words_of(text: str | None) -> list[tuple[str, int, int]]:
    """The words of a text, and the bytes where each starts and stops."""
    found = re.finditer(r"[^\W_]+", text or "")
    return [(one[0].lower(), *(len(one.string[:at].encode()) for at in one.span())) for one in found]


def expected_stretches(
    texts: Sequence[str | None], bench: Sequence[str], tokens: int, coverage: float, ignore_common: int | None = None
) -> list[tuple[int, int, int, int, int]]:
    """The row, start, stop, tokens and item of each stretch, from sets of windows."""
    known = [words_of(text) for text in texts]
    items, rows = ([[word for word, *_ in one] for one in some] for some in (map(words_of, bench), known))
    left_out = common(items, tokens, ignore_common)
    spans: dict[int, list[tuple[int, int, int]]] = {}
    for found in contamination(items, rows, tokens, Fraction(str(coverage)), ignore_common):
        row = rows[found.row]
        for window in {window for _, window in windows(items[found.item], tokens)} - left_out:
            ends = ((at, at + len(window)) for at in range(len(row)))
            here = [(at, end, found.item) for at, end in ends if tuple(row[at:end]) == window]
            spans.setdefault(found.row, []).extend(here)
    stretches = []
    for number, here in sorted(spans.items()):
        merged: list[list[int]] = []
        for first, stop, item in sorted(here, key=lambda span: (span[0], -span[1])):
            if merged and first < merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], stop)
            else:
                merged.append([first, stop, item])
        stretches += [(number, known[number][a][1], known[number][z - 1][2], z - a, item) for a, z, item in merged]
    return stretches


def run_items(files: tuple[Path, Path], out: Path, **options: Any) -> Any:
    given: dict[str, Any] = {"backend": "cpu", "threads": 1, "passages": 5, "coverage": 0.6, **options}
    return gpulsh.passages_files(files[0], out, **{"protect": files[1], **given})


@pytest.mark.parametrize(
    ("options", "partition"),
    [({}, None), ({}, 300), ({"coverage": 1.0, "passages": 13}, 300), ({"ignore_common": 1}, 300)],
    ids=str,
)
def test_stretches_equal_those_of_contamination(
    files: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    partition: int | None,
) -> None:
    if partition is not None:
        small_partitions(monkeypatch, partition)
    given: dict[str, Any] = {"coverage": 0.6, "passages": 5, **options}
    tokens = given.pop("passages")
    wanted = gpulsh.contamination(quizzes(), BENCH, tokens=tokens, backend="cpu", threads=1, **given).to_pylist()
    result = run_items(files, tmp_path / "out", **options)
    before = {"a.jsonl": 0, "b.jsonl": 4}

    def position(name: str, row: int) -> int:
        return before[Path(name).name] + row

    table = read_rows(result.passages)
    names = ("start", "stop", "tokens", "first_row")
    spans = [(position(one["file"], one["row"]), *(one[name] for name in names)) for one in table]
    assert spans == expected_stretches(quizzes(), BENCH, tokens, **given) and spans
    holding = Counter(one["item"] for one in wanted)
    assert [one["occurrences"] for one in table] == [1 + holding[one["first_row"]] for one in table]
    assert {(one["first_start"], Path(one["first_file"]).name) for one in table} == {(0, "test.jsonl")}
    listed = rows_of(tmp_path / "out")
    columns = [(one["item"], one["coverage"], position(one["file"], one["row"]), one["start"]) for one in listed]
    assert columns == [(one["item"], one["coverage"], one["row"], one["start"]) for one in wanted]
    gpulsh.deduplicate_files(files[0], tmp_path / "clean", passages=tokens, protect=files[1], backend="cpu", **given)
    assert rows_of(tmp_path / "clean") == listed
    counts, texts = result.report["passages"], [text or "" for text in quizzes()]
    numbers = [len(texts), len(BENCH), sum(len(text.encode()) for text in texts), len({span[0] for span in spans})]
    assert [counts[name] for name in ("documents", "items", "bytes", "documents_marked")] == numbers


@pytest.mark.parametrize("cut_later", [False, True])
def test_items_are_cut_from_the_texts(files: tuple[Path, Path], tmp_path: Path, cut_later: bool) -> None:
    result = run_items(files, tmp_path / "out", **({} if cut_later else {"cut": True, "min_left": 3}))
    if cut_later:
        where: dict[str, Any] = {"passages": result.passages, "min_left": 3, "backend": "cpu", "threads": 1}
        result = gpulsh.cut_files(files[0], tmp_path / "cut", **where)
    assert below(result.data) == {"a.jsonl", "b.jsonl"}, "the test set is not written"
    left = [row["text"] for name in "ab" for row in read_rows(result.data / f"{name}.jsonl")]
    again = gpulsh.contamination(left, BENCH[:4], tokens=5, coverage=0.6, backend="cpu", threads=1)
    assert again.num_rows == 0
    assert "A quiz.\n?\nAnswers: page 9. . End." in left and BENCH[0] not in left
    assert result.report["passages"]["short"] == 3


def test_the_page_shows_items_and_a_finished_run_resumes(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("jinja2")
    report = run_items(files, tmp_path / "out", progress=True).report
    shown_stages = capsys.readouterr().err
    assert "screen: " in shown_stages and "dropped" not in shown_stages
    assert run_items(files, tmp_path / "out", resume=True).report == report
    with pytest.raises(gpulsh.errors.GpulshError, match="coverage"):
        run_items(files, tmp_path / "out", resume=True, coverage=0.9)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "of the text is in the test set" in page and "How often" not in page
    shown = {" ".join(one["text"].split()) for one in report["frequent"]}
    assert any(text.startswith("What is the largest city on") for text in shown)
    weights = [one["occurrences"] * one["tokens"] for one in report["frequent"]]
    assert weights == sorted(weights, reverse=True) and len(shown) == len(weights) > 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"passages": None}, "coverage is given without passages"),
        ({"passages": None, "coverage": 0.8}, "protect is given without passages"),
        ({"min_left": 3}, "min_left is given without cut=True"),
        ({"tokens": 9}, "tokens and protect cannot be combined"),
        ({"keep": "none"}, "keep and protect cannot be combined"),
        ({"bridge": 2}, "bridge and protect cannot be combined"),
        ({"unit": "line"}, "unit and protect cannot be combined"),
        ({"on_error": "skip"}, "on_error and protect cannot be combined"),
        ({"coverage": 0.0}, "coverage is 0"),
        ({"protect": None, "coverage": None}, "passages is given without protect"),
    ],
    ids=str,
)
def test_wrong_options_with_a_test_set_are_refused(
    files: tuple[Path, Path], tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        run_items(files, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_texts_without_items_are_copied(files: tuple[Path, Path], tmp_path: Path) -> None:
    write_rows(files[1] / "test.jsonl", ["words that nobody wrote before " * 4])
    result = run_items(files, tmp_path / "out", cut=True)
    assert pq.read_table(result.passages).num_rows == 0 and result.report["frequent"] == []
    texts = [row["text"] for name in ("a", "b") for row in read_rows(result.data / f"{name}.jsonl")]
    assert texts == quizzes()
    assert [one["rows"] for one in result.report["files"]] == [4, len(texts) - 4]
