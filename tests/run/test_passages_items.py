"""Passages of a test set in files: what `gpulsh.contamination` finds in the same documents, as stretches to cut."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh import budget
from gpulsh.errors import ParameterError
from tests.support.files import read_rows, write_rows
from tests.support.texts import licences

BENCH = [
    "What is the largest city on the river that runs past the old mill near the town?",
    "Name the three longest rivers of the continent and the seas into which they flow today.",
    "the seas into which they flow today, and the largest city on the river that runs past",
    "Short one",
    "",
]


def documents() -> list[str | None]:
    """Texts that hold items once, twice, wrapped, across one another, in part, or not at all."""
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
    """A folder of documents in two files, and a test set."""
    train, bench = tmp_path / "train", tmp_path / "bench"
    texts = documents()
    for name, some in {"a": texts[:4], "b": texts[4:]}.items():
        write_rows(train / f"{name}.jsonl", [{"text": text, "name": f"{name}{n}"} for n, text in enumerate(some)])
    write_rows(bench / "test.jsonl", BENCH)
    return train, bench


def words(text: str) -> list[tuple[str, int, int]]:
    """Each word, folded, and its bytes."""
    found = re.finditer(r"[^\W_]+", text)
    return [(one[0].lower(), *(len(text[:at].encode()) for at in one.span())) for one in found]


def windows(text: str, tokens: int) -> list[tuple[str, ...]]:
    """The windows of an item, by place: of one with fewer tokens all of it."""
    known = tuple(word for word, _, _ in words(text))
    return [known[at : at + tokens] for at in range(max(len(known) - tokens, 0) + 1)] if known else []


def expected(
    texts: Sequence[str | None], bench: Sequence[str], tokens: int, coverage: float, ignore_common: int | None = None
) -> list[tuple[int, int, int, int, int]]:
    """Row, start, stop, tokens and item of each stretch, from sets of windows."""
    having = Counter(window for item in bench for window in set(windows(item, tokens)))
    stretches = []
    for row, text in enumerate(texts):
        known = words(text or "")
        spans = []
        for number, item in enumerate(bench):
            counts = [w for w in windows(item, tokens) if ignore_common is None or having[w] <= ignore_common]
            held = {
                window: [
                    at
                    for at in range(len(known) - len(window) + 1)
                    if tuple(word for word, _, _ in known[at : at + len(window)]) == window
                ]
                for window in set(counts)
            }
            held = {window: places for window, places in held.items() if places}
            of_item = windows(item, tokens)
            places = {at + i for at, w in enumerate(of_item) if w in counts for i in range(len(w))}
            covered = {at + i for at, w in enumerate(of_item) if w in held for i in range(len(w))}
            if not held or len(covered) / len(places) < coverage:
                continue
            spans += [(at, at + len(window), number) for window, found in held.items() for at in found]
        merged: list[list[int]] = []
        for first, stop, number in sorted(spans, key=lambda span: (span[0], -span[1])):
            if merged and first < merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], stop)
            else:
                merged.append([first, stop, number])
        stretches += [(row, known[a][1], known[z - 1][2], z - a, number) for a, z, number in merged]
    return stretches


def run(files: tuple[Path, Path], out: Path, **options: Any) -> Any:
    given: dict[str, Any] = {"backend": "cpu", "threads": 1, "passages": 5, "coverage": 0.6, **options}
    return gpulsh.passages_files(files[0], out, protect=files[1], **given)


@pytest.mark.parametrize(
    ("options", "partition"),
    [({}, None), ({}, 300), ({"coverage": 1.0, "passages": 13}, 300), ({"ignore_common": 1}, 300)],
    ids=str,
)
def test_stretches_are_those_of_contamination(
    files: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    partition: int | None,
) -> None:
    if partition is not None:
        for name, value in (("PARTITION_BYTES", partition), ("PARTITION_BATCHES", 0), ("PARALLEL_BYTES", partition)):
            monkeypatch.setattr(budget, name, value)
    given: dict[str, Any] = {"coverage": 0.6, "passages": 5, **options}
    tokens = given.pop("passages")
    wanted = gpulsh.contamination(documents(), BENCH, tokens=tokens, backend="cpu", threads=1, **given).to_pylist()
    result = run(files, tmp_path / "out", **options)
    before = {"a.jsonl": 0, "b.jsonl": 4}

    def position(name: str, row: int) -> int:
        return before[Path(name).name] + row

    table = read_rows(result.passages)
    names = ("start", "stop", "tokens", "first_row")
    spans = [(position(one["file"], one["row"]), *(one[name] for name in names)) for one in table]
    assert spans == expected(documents(), BENCH, tokens, **given) and spans
    holding = Counter(one["item"] for one in wanted)
    assert [one["occurrences"] for one in table] == [1 + holding[one["first_row"]] for one in table]
    assert {(one["first_start"], Path(one["first_file"]).name) for one in table} == {(0, "test.jsonl")}
    listed = read_rows(tmp_path / "out" / "contamination.parquet")
    columns = [(one["item"], one["coverage"], position(one["file"], one["row"]), one["start"]) for one in listed]
    assert columns == [(one["item"], one["coverage"], one["row"], one["start"]) for one in wanted]
    counts = result.report["passages"]
    texts = [text or "" for text in documents()]
    assert counts["documents"] == len(texts) and counts["items"] == len(BENCH)
    assert counts["bytes"] == sum(len(text.encode()) for text in texts)
    assert counts["documents_marked"] == len({span[0] for span in spans})


def test_dedup_lists_the_same(files: tuple[Path, Path], tmp_path: Path) -> None:
    run(files, tmp_path / "marks")
    given: dict[str, Any] = {"backend": "cpu", "threads": 1, "passages": 5, "coverage": 0.6, "protect": files[1]}
    gpulsh.deduplicate_files(files[0], tmp_path / "clean", **given)
    listed = [pq.read_table(tmp_path / name / "contamination.parquet") for name in ("marks", "clean")]
    assert listed[0].equals(listed[1]) and listed[0].num_rows


@pytest.mark.parametrize("cut_later", [False, True])
def test_items_are_cut(files: tuple[Path, Path], tmp_path: Path, cut_later: bool) -> None:
    result = run(files, tmp_path / "out", **({} if cut_later else {"cut": True, "min_left": 3}))
    if cut_later:
        where: dict[str, Any] = {"passages": result.passages, "min_left": 3, "backend": "cpu", "threads": 1}
        result = gpulsh.cut_files(files[0], tmp_path / "cut", **where)
    written = sorted(path.relative_to(result.data).as_posix() for path in result.data.rglob("*.jsonl"))
    assert written == ["a.jsonl", "b.jsonl"], "the test set is not written"
    left = [row["text"] for name in written for row in read_rows(result.data / name)]
    again = gpulsh.contamination(left, BENCH[:4], tokens=5, coverage=0.6, backend="cpu", threads=1)
    assert again.num_rows == 0
    assert "A quiz.\n?\nAnswers: page 9. . End." in left and BENCH[0] not in left
    assert result.report["passages"]["short"] == 3


def test_a_run_resumes_with_the_same_test_set_alone(files: tuple[Path, Path], tmp_path: Path) -> None:
    first = run(files, tmp_path / "out").report
    assert run(files, tmp_path / "out", resume=True).report == first
    with pytest.raises(gpulsh.errors.GpulshError, match="coverage"):
        run(files, tmp_path / "out", resume=True, coverage=0.9)


def test_the_page_shows_the_items(files: tuple[Path, Path], tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    report = run(files, tmp_path / "out").report
    page = (tmp_path / "out" / "report.html").read_text()
    assert "of the text is in the test set" in page and "How often" not in page
    shown = {" ".join(one["text"].split()) for one in report["frequent"]}
    assert any(text.startswith("What is the largest city on") for text in shown)
    weights = [one["occurrences"] * one["tokens"] for one in report["frequent"]]
    assert weights == sorted(weights, reverse=True) and len(shown) == len(weights) > 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"passages": None}, "coverage is given without passages; give passages, such as 13"),
        ({"passages": None, "coverage": 0.8}, "protect is given without passages; give passages, such as 13"),
        ({"min_left": 3}, "min_left is given without cut"),
        ({"tokens": 9}, "tokens and protect cannot be combined"),
        ({"keep": "none"}, "keep and protect cannot be combined"),
        ({"bridge": 2}, "bridge and protect cannot be combined"),
        ({"unit": "line"}, "unit and protect cannot be combined"),
        ({"on_error": "skip"}, "on_error and protect cannot be combined"),
        ({"coverage": 0.0}, "coverage is 0"),
    ],
    ids=str,
)
def test_what_does_not_go_with_a_test_set(
    files: tuple[Path, Path], tmp_path: Path, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(ParameterError, match=told):
        run(files, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_test_set_is_asked_for(files: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="passages is given without protect"):
        gpulsh.passages_files(files[0], tmp_path / "out", passages=13, backend="cpu")


def test_no_document_holds_an_item(files: tuple[Path, Path], tmp_path: Path) -> None:
    write_rows(files[1] / "test.jsonl", ["words that nobody wrote before " * 4])
    result = run(files, tmp_path / "out", cut=True)
    assert pq.read_table(result.passages).num_rows == 0 and result.report["frequent"] == []
    texts = [row["text"] for name in ("a", "b") for row in read_rows(result.data / f"{name}.jsonl")]
    assert texts == documents()
    assert [one["rows"] for one in result.report["files"]] == [4, len(texts) - 4]
