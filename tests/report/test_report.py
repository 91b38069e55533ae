"""The report's summary of the evidence against a naive count, and the page made of it."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpulsh.cli import main
from gpulsh.report import excerpts
from gpulsh.report.evidence import MEMBERS, SAMPLE
from gpulsh.report.excerpts import SHOWN
from gpulsh.report.page import missing, render
from gpulsh.run.files import deduplicate_files
from tests.support.html import Html

needs_jinja = pytest.mark.skipif(missing() is not None, reason="jinja2 is not installed")

WORDS = [f"word{number}" for number in range(60)]


def page(number: int, changed: int = 0) -> str:
    """Text about `number`, of which the last words differ from another's."""
    words = [f"{word}x{number}" for word in WORDS]
    return " ".join(words[: 60 - changed] + [f"other{place}" for place in range(changed)])


def corpus(folder: Path) -> list[Path]:
    """Three files: clusters of 1 to 4 documents, an exact copy, an empty one and a null."""
    rows: list[str | None] = [page(number) for number in range(6)]
    rows += [page(number, changed) for number in (1, 2, 3) for changed in range(1, number + 1)]
    rows += [page(5), "", None, "<script>alert('1')</script> & " + page(7), "<script>alert('2')</script> & " + page(7)]
    paths = [folder / name for name in ("a.parquet", "b <i>.parquet", "c.jsonl")]
    for place, path in enumerate(paths):
        part = rows[place::3]
        ids = [f"{place}-{row}<b>" for row in range(len(part))]
        if path.suffix == ".jsonl":
            lines = [json.dumps({"id": name, "text": text}) for name, text in zip(ids, part, strict=True)]
            path.write_text("\n".join(lines) + "\n")
        else:
            pq.write_table(pa.table({"id": ids, "text": part}), path, row_group_size=2)
    return paths


def run(folder: Path, **options: Any) -> Any:
    paths = corpus(folder)
    return deduplicate_files(paths, folder / "out", backend="reference", **{"id_column": "id", **options})


def page_of(folder: Path) -> Html:
    """The page of the run in this folder."""
    return Html((folder / "out/report.html").read_text(encoding="utf-8"))


def test_the_summary_counts_the_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = run(tmp_path).report
    found = report["evidence"]
    with monkeypatch.context() as patched:  # row groups do not matter
        patched.setattr("gpulsh.io.formats.parquet.GROUP_ROWS", 1)
        assert run(tmp_path, overwrite=True).report["evidence"] == found
    rows = pq.read_table(tmp_path / "out/duplicates.parquet").to_pylist()
    assert len(rows) >= 6
    by_file = Counter(row["file"] for row in rows)
    assert found["dropped"] == [by_file[entry["file"]] for entry in report["files"]]
    assert sum(found["similarity"]["below_one"].values()) + found["similarity"]["one"] == len(rows)
    assert found["similarity"]["one"] == sum(row["similarity"] == 1 for row in rows) > 0
    for row in rows:
        if row["similarity"] < 1:
            assert f"{int(row['similarity'] * 100 + 1e-4) / 100:.2f}" in found["similarity"]["below_one"]
    clusters = Counter(row["cluster"] for row in rows)
    assert found["clusters"]["count"] == len(clusters)
    assert {entry["least"]: entry["count"] for entry in found["clusters"]["sizes"]} == Counter(clusters.values())
    sample = found["clusters"]["sample"]
    assert {entry["cluster"]: entry["dropped"] for entry in sample} == clusters  # so few are all shown
    ranked = sorted(clusters, key=lambda label: (-clusters[label], label))
    assert [entry["cluster"] for entry in sample[:2]] == ranked[:2]
    for entry in sample:
        assert ("largest" in entry["picked"]) == (entry["dropped"] > 1)
        members = {(row["file"], row["row"]) for row in rows if row["cluster"] == entry["cluster"]}
        assert {(pair["dropped"]["file"], pair["dropped"]["row"]) for pair in entry["pairs"]} <= members


def test_examples_are_rows_of_the_evidence_with_their_texts(tmp_path: Path) -> None:
    report = run(tmp_path).report
    texts: dict[tuple[str, int], str | None] = {}
    for path in corpus(tmp_path):
        read = pq.read_table(path)["text"].to_pylist() if path.suffix == ".parquet" else None
        texts |= {
            (str(path), row): text
            for row, text in enumerate(read or [json.loads(line)["text"] for line in path.read_text().splitlines()])
        }
    rows = pq.read_table(tmp_path / "out/duplicates.parquet").to_pylist()
    by_place = {(row["file"], row["row"]): row for row in rows}
    examples = report["evidence"]["examples"]
    assert examples and len({by_place[e["dropped"]["file"], e["dropped"]["row"]]["cluster"] for e in examples}) == len(
        examples
    )
    assert [e["similarity"] for e in examples] == sorted(e["similarity"] for e in examples)
    for example in examples:
        row = by_place[example["dropped"]["file"], example["dropped"]["row"]]
        assert example["dropped"]["id"] == row["id"]
        assert example["similarity"] == pytest.approx(row["similarity"], abs=1e-6)
        kept = {name: row[f"duplicate_of_{name}"] for name in ("file", "row", "id")}
        assert example["kept"] == kept
        whole = [texts[place["file"], place["row"]] or "" for place in (example["dropped"], example["kept"])]
        for shown, text in zip(example["texts"], whole, strict=True):
            assert shown.strip("…") in text


def test_texts_that_were_gathered_are_not_looked_for_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_for: list[int] = []
    monkeypatch.setattr(excerpts, "_texts", lambda file, columns, rows: looked_for.extend(rows) or [])
    pq.write_table(pa.table({"text": [page(1), page(2), page(1, 2), page(2, 1)]}), tmp_path / "near.parquet")
    report = deduplicate_files(tmp_path / "near.parquet", tmp_path / "near", backend="reference").report
    shown = [text for example in report["evidence"]["examples"] for text in example["texts"]]
    assert len(shown) == 4 and all("word59x" in text or "other" in text for text in shown) and not looked_for
    pq.write_table(pa.table({"text": [page(1), page(1)]}), tmp_path / "exact.parquet")
    deduplicate_files(tmp_path / "exact.parquet", tmp_path / "exact", backend="reference")
    assert looked_for == [0, 1]  # nobody had to read exact copies again


@needs_jinja
def test_the_page_shows_candidates_below_the_threshold(tmp_path: Path) -> None:
    report = run(tmp_path).report
    report["funnel"]["candidates"] = 12
    report["sampled"] = {"below_one": {"0.40": 3, "0.79": 1, "0.80": 5}, "one": 2, "unmeasured": 0}
    content = render(report)
    assert content.count('class="under less"') == 2 and content.count('class="under"') == 1
    assert "a random sample of 11 of 12" in content and "2 pairs of similarity 1 are not shown" in content
    del report["sampled"]  # as 0.2.0 wrote it
    assert "The bars are the dropped documents" in render(report)


@needs_jinja
@pytest.mark.parametrize("options", [{"resolve": "components"}, {"verify": "none"}, {"verify": "signature"}])
def test_the_page_shows_it_and_needs_no_other_file(tmp_path: Path, options: dict[str, Any]) -> None:
    result = run(tmp_path, **options)
    assert "report.html" in result.report["outputs"]
    assert result.report["page"] == {"written": True, "reason": None}
    html = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert html == render(json.loads((tmp_path / "out/report.json").read_text()))
    shown = Html(html)
    # Nothing from elsewhere, no script but the page's own, and no text of the user's became a tag.
    assert not {name for name, _ in shown.tags} & {"link", "img", "iframe", "i", "object"}
    assert not [attrs for _, attrs in shown.tags if {"src", "href", "onclick", "onload"} & attrs.keys()]
    assert "url(" not in html and "@import" not in html
    (script,) = re.findall("<script>(.*?)</script>", html, re.DOTALL)
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'"
    assert [attrs["content"] for _, attrs in shown.tags if "http-equiv" in attrs] == [policy]
    funnel = result.funnel
    assert f"{funnel['kept']} of {funnel['documents']} documents kept" in shown.text
    assert "<script>alert('" in shown.text and "b <i>.parquet" in shown.text and "<b>" in shown.text
    if options.get("verify") == "none":
        assert "similarity not measured" in shown.text


@needs_jinja
@pytest.mark.parametrize("texts", [[], [None, ""], ["one text only"], ["twice", "twice"], ["\0 \U0001f600 \ufffd"] * 3])
def test_a_page_of_little(tmp_path: Path, texts: list[str | None]) -> None:
    pq.write_table(pa.table({"text": pa.array(texts, pa.string())}), tmp_path / "a.parquet")
    result = deduplicate_files(tmp_path / "a.parquet", tmp_path / "out", backend="reference")
    shown = page_of(tmp_path).text
    assert f"{result.funnel['kept']} of {len(texts)} documents kept" in shown
    assert ("Nothing was dropped." in shown) == (result.funnel["dropped"] == 0)


@needs_jinja
def test_files_whose_names_read_alike(tmp_path: Path) -> None:
    paths = [os.fsdecode(os.fsencode(tmp_path) + b"/" + name) for name in (b"\xfe.txt", b"\xff.txt", b"b.txt")]
    for path in paths:
        Path(path).write_text("the same words in all of the files, whatever their names")
    report = deduplicate_files(paths, tmp_path / "out", backend="reference").report
    assert report["evidence"]["dropped"] == [0, 1, 1]  # two that would read alike have their bytes spelled out
    rows = pq.read_table(tmp_path / "out/duplicates.parquet").select(["file", "duplicate_of_file"]).to_pylist()
    names = [f"{tmp_path}/{name}" for name in (r"\xfe.txt", r"\xff.txt", "b.txt")]
    assert [tuple(row.values()) for row in rows] == [(names[1], names[0]), (names[2], names[0])]
    assert [entry["file"] for entry in report["files"]] == names
    assert "1 of 3 documents kept" in page_of(tmp_path).text


@needs_jinja
def test_bad_records_and_protected_documents_are_not_kept_rows(tmp_path: Path) -> None:
    lines = [json.dumps({"text": page(number)}) for number in (1, 2, 1)]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines, "{no json", lines[1]]) + "\n")
    (tmp_path / "test.jsonl").write_text((json.dumps({"text": page(3)}) + "\n") * 3)
    options: dict[str, Any] = {"protect": [tmp_path / "test.jsonl"], "on_error": "skip", "backend": "reference"}
    report = deduplicate_files(tmp_path / "a.jsonl", tmp_path / "out", **options).report
    assert report["evidence"]["rejected"] == [0, 1]
    shown = page_of(tmp_path).text
    assert "1 bad record skipped" in shown
    assert "a.jsonl512240.0 %" in shown  # of 5 rows 1 is rejected, 2 are kept and 2 dropped
    assert "2 of 4 documents kept" in shown and "3 documents protected: never dropped, and not written" in shown
    counts = [report["funnel"][name] for name in ("documents", "protected", "dropped", "kept")]
    assert counts == [7, 3, 2, 2]  # copies of each other stay, where they are protected


def test_without_jinja_the_report_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "jinja2", None)
        paths = [str(path) for path in corpus(tmp_path)]
        out = str(tmp_path / "out")
        assert main(["dedup", *paths, "-o", out, "--backend", "reference"]) == 0
        assert 'gpulsh: report.html needs jinja2: pip install "gpulsh[report]"' in capsys.readouterr().err
        report = json.loads((tmp_path / "out/report.json").read_text())
        assert not report["page"]["written"] and "gpulsh[report]" in report["page"]["reason"]
        assert "report.html" not in report["outputs"] and not (tmp_path / "out/report.html").exists()
        assert main(["report", out]) == 1
        assert "needs jinja2" in capsys.readouterr().err
    if missing() is None:
        assert main(["report", out]) == 0
        assert capsys.readouterr().out == f"{out}/report.html\n"
        assert json.loads((tmp_path / "out/report.json").read_text())["outputs"] == [*report["outputs"], "report.html"]
        # It is gpulsh's now: a later run replaces it.
        assert main(["dedup", *paths, "-o", out, "--backend", "reference", "--overwrite"]) == 0


@needs_jinja
def test_report_leaves_alone_what_is_not_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == 1
    assert "holds no report.json" in capsys.readouterr().err
    run(tmp_path)
    path = tmp_path / "out/report.json"
    report = json.loads(path.read_text())
    report["outputs"].remove("report.html")
    path.write_text(json.dumps(report))
    (tmp_path / "out/report.html").write_text("mine")
    assert main(["report", str(tmp_path / "out")]) == 1
    assert "was not written by gpulsh" in capsys.readouterr().err
    assert (tmp_path / "out/report.html").read_text() == "mine"


@needs_jinja
def test_a_text_that_turns_the_line_around_turns_only_itself(tmp_path: Path) -> None:
    """In texts such characters stay, and stand alone; in names and ids they are shown."""
    turned = "foreign\u202e\u2066\u2069\u202cgnp\x1b"
    path = tmp_path / f"{turned}.jsonl"
    texts = [f"{turned} {page(1, changed)}" for changed in (0, 1, 2)] + [f"{turned} {page(2)}"] * 2
    ids = [f"id{turned}{number}" for number in range(5)]
    rows = [{"id": name, "text": text} for name, text in zip(ids, texts, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    deduplicate_files([path], tmp_path / "out", backend="reference", id_column="id", keep=f"source:{path}")
    html = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    shown = Html(html)
    assert "foreign" not in shown.outside and not {"\u202e", "\u2066", "\u2069", "\x1b"} & set(shown.outside)
    escaped = r"foreign\u202e\u2066\u2069\u202cgnp\u001b"
    assert f"{escaped}.jsonl" in shown.inside and f"id id{escaped}1" in shown.inside
    assert "foreign\u202e" in shown.inside and "foreign\u202e" not in "".join(_names(html))
    assert "bdi { unicode-bidi: isolate; }" in html


def _names(html: str) -> list[str]:
    """Files, places and parameters: whatever is no text of a document."""
    parts = [part.partition("</bdi>")[0] for part in html.split("<bdi>")[1:]]
    return [part for part in parts if "word1x" not in part]


@needs_jinja
def test_the_page_stays_small(tmp_path: Path) -> None:
    """However many files and INPUTs there are, and however long names, ids and texts: 5 MB."""
    report = run(tmp_path).report
    long = '<&"é' * 1000
    place = {"file": long, "row": 10**9, "id": long * 10}
    pair = {
        "similarity": 0.8,
        "dropped": place,
        "kept": place,
        "texts": ["\"&' " * (SHOWN // 4), '"<> ' * (SHOWN // 4)],
    }
    number, names = sum(SAMPLE.values()), [f"{long}{place}" for place in range(3000)]
    shown = {"cluster": 10**12, "dropped": 10**9, "picked": list(SAMPLE), "pairs": [pair] * MEMBERS}
    evidence = report["evidence"]
    evidence["clusters"]["sample"], evidence["examples"] = [shown] * number, [pair] * 6
    listed = [{"input": names[at // 20], "of": names[at % 20], "count": 3} for at in range(1000)]
    evidence |= {"dropped": [6] * 3000, "rejected": [0] * 3000, "dropped_for": {"listed": listed, "more": 0}}
    report["files"] = [{"file": name, "rows": 10} for name in names]
    report["sources"] = [{"input": name, "protected": False, "files": 1} for name in names]
    report["inputs"] = names
    html = render(report)
    assert len(html.encode()) < 5_000_000 and html.count("data-entry=") == number + 200


@needs_jinja
def test_candidates_that_were_ruled_out_are_not_called_dissimilar(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two of a kind in one INPUT are alike, but no duplicates across INPUTs; without bars, no word of them."""
    for name, number in (("a", 1), ("b", 2)):
        lines = [json.dumps({"text": page(number, changed)}) + "\n" for changed in (0, 1)]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    inputs, out = [str(tmp_path / f"{name}.jsonl") for name in "ab"], tmp_path / "out"
    assert main(["dedup", *inputs, "-o", str(out), "--across", "--backend", "reference", "--verbose"]) == 0
    summary = capsys.readouterr().out
    assert re.search(r"candidates +2  = 2 others; exact Jaccard", summary) and "dissimilar" not in summary
    html = (out / "report.html").read_text()
    assert "ruled out by --within, --across" in html and "The bars are" not in html


@needs_jinja
def test_exact_copies_are_read_again_unless_their_file_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [page(1), page(2), page(1), page(1).upper(), page(2, 1)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in rows))

    def shown() -> list[list[str]]:
        report = deduplicate_files(tmp_path / "a.jsonl", tmp_path / "out", backend="reference", overwrite=True).report
        return [pair["texts"] for cluster in report["evidence"]["clusters"]["sample"] for pair in cluster["pairs"]]

    (copy, kept), (upper, _), (near, _) = shown()
    assert copy == kept and copy.startswith("word0x1 ") and upper.startswith("WORD0X1 ") and near.endswith("other0")
    monkeypatch.setattr("gpulsh.report.evidence.AGAIN_BYTES", 100)
    assert shown()[0][0] == ""
    message = "The text is not shown because its file is large: gpulsh show OUT --cluster 0 shows it."
    assert message in page_of(tmp_path).text
    assert '<div class="text"><bdi></bdi></div>' not in (tmp_path / "out/report.html").read_text(encoding="utf-8")


@needs_jinja
def test_lines_of_code_stay_lines(tmp_path: Path) -> None:
    code = [f"def f{number}(x):\n    return x + {number}\n" for number in range(40)]
    texts = ["\n\n\n\n".join(code), "\r\n".join(code).replace("x + 20", "y + 20")]
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet")
    report = deduplicate_files(tmp_path / "a.parquet", tmp_path / "out", backend="reference").report
    dropped, kept = report["evidence"]["examples"][0]["texts"]
    assert "):\n    return y + 20\n" in dropped.replace("\r", "") and "):\n    return x + 20\n\ndef f21" in kept
    assert len(kept.split()) == len(dropped.split())
    assert "pre-wrap" in (tmp_path / "out/report.html").read_text(encoding="utf-8")
