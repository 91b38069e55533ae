"""`--passages`: documents that hold protected ones inside are dropped first, whatever the cut and the engine."""

import json
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from gpulsh.__main__ import main
from gpulsh.budget import Cut
from gpulsh.errors import ParameterError
from gpulsh.report.reproduce import command, in_words
from gpulsh.report.summary import funnel_table, summary
from gpulsh.run.stages.contamination import split_of
from gpulsh.stats.counts import CONTAMINATION, COUNTS
from tests.crash.test_resume import results
from tests.run.test_partitioned import MEMORY, cut_as
from tests.support import naive
from tests.support.files import read_rows, write_rows
from tests.support.naive_contamination import contamination
from tests.support.pages import ROOT
from tests.support.runs import evidence, interrupting, run

SIZE, SHARE = 4, Fraction(3, 4)
OPTIONS: dict[str, Any] = {"passages": SIZE, "coverage": float(SHARE)}
CUTS = [Cut(memory=MEMORY, partition=size, digests=200, group=2000) for size in (1, 300, 2000)]


def corpus(seed: int) -> tuple[list[list[str | None]], list[list[str | None]]]:
    """Files of items and of pages, some of which hold items, near-copies of one another and of items."""
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
    places = [
        [(number, row) for number, file in enumerate(some) for row in range(len(file))] for some in (items, pages)
    ]
    tokens = [[naive.tokens(text or "", "word") for file in some for text in file] for some in (items, pages)]
    found = contamination(tokens[0], tokens[1], SIZE, SHARE)
    return [(*places[0][one.item], *places[1][one.row], float(one.coverage), one.stop - one.first) for one in found]


def lines_of(folder: Path) -> dict[str, list[str]]:
    return {path.name: path.read_text().splitlines() for path in sorted(folder.iterdir())}


RUNS: list[tuple[int, Cut, dict[str, Any]]] = [
    (0, CUTS[0], {}),
    (1, CUTS[1], {"measure": "containment"}),
    (2, CUTS[1], {"key": "url"}),
    (3, CUTS[2], {"across": True, "keep": "longest"}),
]


@pytest.mark.parametrize(("seed", "cut", "options"), RUNS)
def test_any_cut_gives_the_definition_and_the_rest_is_a_run_without_these_documents(
    tmp_path: Path, seed: int, cut: Cut, options: dict[str, Any]
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


def test_backends_secrets_and_a_resumed_run_give_the_same_bytes(tmp_path: Path) -> None:
    items, pages = corpus(4)
    bench, train = write(tmp_path / "bench", items), write(tmp_path / "train", pages)
    options: dict[str, Any] = {**OPTIONS, "protect": bench, "threshold": 0.6}
    cut = Cut(memory=MEMORY, partition=2000, digests=1000, group=10_000)
    with cut_as(cut):
        run(train, tmp_path / "out", **options)
        wanted = results(tmp_path / "out")
    with cut_as(CUTS[1]):
        run(train, tmp_path / "other", **options)
    assert results(tmp_path / "other") == wanted
    options["backend"] = "cpu"
    with cut_as(cut):
        run(train, tmp_path / "cpu", **options)
        assert results(tmp_path / "cpu") == wanted and "contamination.parquet" in wanted
        assert len(rows_of(tmp_path / "out")) > 10
        for stage in ("screen", "contamination"):
            with interrupting(stage):
                run(train, tmp_path / stage, **options)
            result = run(train, tmp_path / stage, resume=True, **options)
            assert results(tmp_path / stage) == wanted
            dropped = {(row["file"], row["row"]) for row in rows_of(tmp_path / "out")}
            assert result.funnel["contaminated"] == len(dropped)


def test_what_a_user_sees(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    question = "what is the largest city on the river that runs past the old mill"
    page = "as the guide book has it " + question + " and the answer is a few pages on among many other words"
    Path("train.txt").write_text(f"{page}\nanother page\n{page} indeed\n")
    Path("test.txt").write_text(f"{question}\n")
    command_line = ["dedup", "train.txt", "-o", "out", "--lines", "--backend", "reference", "--protect", "test.txt"]
    command_line += ["--passages", "13"]
    assert main(command_line) == 0
    shown = capsys.readouterr()
    told = "Kept 1 of 3 documents and dropped 0; 1 document protected; 2 documents dropped that quote protected"
    assert told in shown.out
    assert "gpulsh: protect: " in shown.err and "gpulsh: screen: " in shown.err
    assert Path("out/data/train.txt").read_text() == "another page\n"
    assert rows_of(folder / "out")[0] == {
        "benchmark": "test.txt",
        "item": 0,
        "split": "test",
        "coverage": 1.0,
        "file": "train.txt",
        "row": 0,
        "start": 25,
        "stop": 25 + len(question),
    }
    schema = pq.read_schema("out/contamination.parquet")
    assert [(row.name, {"float64": "double"}.get(row.type, row.type)) for row in CONTAMINATION] == [
        (field.name, str(field.type)) for field in schema
    ]
    table = [f"| {row.name} | {row.type} | {row.meaning} |" for row in CONTAMINATION]
    assert "\n".join(table) in (ROOT / "docs/decontamination.md").read_text(encoding="utf-8")
    report = json.loads(Path("out/report.json").read_text())
    again = command(report)
    assert again is not None and "--passages 13 --coverage 0.8" in again
    assert "80 % or more of the words of a protected" in " ".join(in_words(report["parameters"]))
    assert "contaminated" in funnel_table(report)
    assert "dropped that quote protected items" in summary(report, "out", earlier=False)
    assert main([*command_line, "--overwrite", "--coverage", "1", "--ignore-common", "1"]) == 0
    assert main([*command_line[:-2], "--overwrite"]) == 0
    assert not Path("out/contamination.parquet").exists()
    with_rejected = run("train.txt", "again", lines=True, protect="test.txt", passages=13, write="duplicates")
    assert with_rejected.contamination == Path("again/contamination.parquet") and with_rejected.data is None
    assert run("train.txt", "none", lines=True).contamination is None
    assert main([*command_line[:3], "planned", *command_line[4:], "--dry-run"]) == 0
    assert "planned/contamination.parquet" in capsys.readouterr().out


def test_bad_records_are_no_documents(folder: Path) -> None:
    Path("train.jsonl").write_text('{"text": "one two three four"}\n{broken\n{"text": "five"}\n')
    Path("test.jsonl").write_text('{"broken\n{"text": "two three"}\n')
    result = run("train.jsonl", protect="test.jsonl", passages=3, on_error="skip")
    assert [(row["item"], row["row"]) for row in rows_of(folder / "out")] == [(1, 0)]
    counts = ("documents", "protected", "contaminated", "kept", "rejected")
    assert [result.funnel[name] for name in counts] == [3, 1, 1, 1, 2]
    assert Path("out/data/train.jsonl").read_text() == '{"text": "five"}\n'


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"passages": 13}, "passages is given without protect; give --protect, the files of the test set"),
        (
            {"protect": "b.jsonl", "ignore_common": 2},
            "ignore_common is given without passages; give --passages, such as 13",
        ),
        ({"protect": "b.jsonl", "passages": 65}, "passages is 65; give an integer from 1 to 64"),
        ({"protect": "b.jsonl", "passages": 13, "coverage": 2}, "coverage is 2.0; give a number above 0 and at most 1"),
    ],
)
def test_bad_parameters(folder: Path, options: dict[str, Any], message: str) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        Path(name).write_text('{"text": "one"}\n')
    with pytest.raises(ParameterError) as caught:
        run("a.jsonl", **options)
    assert caught.value.message == message


def test_a_benchmark_too_large_for_the_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a.jsonl").write_text('{"text": "one"}\n')
    Path("b.jsonl").write_text('{"text": "a b c d e f g h"}\n' * 100)
    monkeypatch.setattr("gpulsh.repeats.benchmark.WINDOW_BYTES", 1 << 20)
    with pytest.raises(ParameterError, match="have 600 windows of 3 tokens, which need 629,145,600 bytes of memory"):
        run("a.jsonl", protect="b.jsonl", passages=3, memory="1GiB")


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("test", "test"), ("a/b/validation.csv.gz", "validation"), ("test-00003-of-00010.parquet", "test"),
        ("dev_0001.jsonl", "dev"), ("2024.txt", "2024"), (".hidden", ".hidden"), ("mmlu_5.csv", "mmlu"),
    ],
)  # fmt: skip
def test_the_split_is_the_name_of_the_file(name: str, split: str) -> None:
    assert split_of(name) == split
