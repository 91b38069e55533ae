"""The report's summary of the evidence against a naive count, and the page made of it."""

import base64
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gpulsh.checks import plural
from gpulsh.report.drawn_rows import MEMBERS, SAMPLE
from gpulsh.report.excerpts import SHOWN_CHARACTERS
from gpulsh.report.page import missing_requirement, render, similarity_picture
from tests.support.command import Command
from tests.support.files import read_rows, write_rows
from tests.support.html import Html
from tests.support.runs import evidence, run

pytestmark = [
    pytest.mark.usefixtures("folder"),
    pytest.mark.skipif(missing_requirement() is not None, reason="jinja2 is not installed"),
]

WORDS = [f"word{number}" for number in range(60)]


def page(number: int, changed: int = 0) -> str:
    """A text about `number`, which differs from another's in the last words."""
    words = [f"{word}x{number}" for word in WORDS]
    return " ".join(words[: 60 - changed] + [f"other{place}" for place in range(changed)])


def write(name: str, texts: Iterable[str | None]) -> str:
    return write_rows(name, [{"id": f"{name[0]}-{row}<b>", "text": text} for row, text in enumerate(texts)], 2)


def corpus() -> list[str]:
    """Three files: clusters of 1 to 4 documents, an exact copy, an empty one and a null."""
    rows: list[str | None] = [page(number) for number in range(6)]
    rows += [page(number, changed) for number in (1, 2, 3) for changed in range(1, number + 1)]
    rows += [page(5), "", None, "<script>alert('1')</script> & " + page(7), "<script>alert('2')</script> & " + page(7)]
    return [write(name, rows[place::3]) for place, name in enumerate(("a.parquet", "b <i>.parquet", "c.jsonl"))]


HOLDS_NOTHING = "512MiB"  # memory with which no texts are held for the report


def report_of(inputs: Any, **options: Any) -> Any:
    return run(inputs, **{"id_column": "id", **options}).report


def html() -> str:
    return Path("out/report.html").read_text(encoding="utf-8")


def test_the_summary_counts_the_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    report = report_of(corpus())
    found = report["evidence"]
    with monkeypatch.context() as patched:  # row groups do not matter
        patched.setattr("gpulsh.io.formats.parquet.GROUP_ROWS", 1)
        assert report_of(corpus(), overwrite=True)["evidence"] == found
    rows = evidence("out")
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


def test_examples_are_rows_of_the_evidence_with_their_texts() -> None:
    files = corpus()
    report = report_of(files)
    texts = {(name, row): own["text"] for name in files for row, own in enumerate(read_rows(name))}
    by_place = {(row["file"], row["row"]): row for row in evidence("out")}
    examples = report["evidence"]["examples"]
    clusters = {by_place[one["dropped"]["file"], one["dropped"]["row"]]["cluster"] for one in examples}
    assert examples and len(clusters) == len(examples)
    assert [e["similarity"] for e in examples] == sorted(e["similarity"] for e in examples)
    for example in examples:
        row = by_place[example["dropped"]["file"], example["dropped"]["row"]]
        assert example["dropped"]["id"] == row["id"]
        assert example["similarity"] == pytest.approx(row["similarity"], abs=1e-6)
        assert example["kept"] == {name: row[f"duplicate_of_{name}"] for name in ("file", "row", "id")}
        whole = [texts[place["file"], place["row"]] or "" for place in (example["dropped"], example["kept"])]
        for shown, text in zip(example["texts"], whole, strict=True):
            assert shown.strip("…") in text


def test_long_ids_are_cut_in_the_report_alone() -> None:
    ids = [letter * 5000 for letter in "ab"]
    report = report_of(write_rows("a.jsonl", [{"id": name, "text": page(1)} for name in ids]))["evidence"]
    cut = [f"{letter * 500}…{letter * 500}" for letter in "ab"]
    for pair in (*report["examples"], *report["clusters"]["sample"][0]["pairs"]):
        assert [pair["kept"]["id"], pair["dropped"]["id"]] == cut
    (row,) = evidence("out")
    assert [row["duplicate_of_id"], row["id"]] == ids


def test_the_page_shows_candidates_below_the_threshold() -> None:
    report = report_of(corpus())
    report["funnel"]["candidates"] = 12
    report["sampled"] = {"below_one": {"0.40": 3, "0.79": 1, "0.80": 5}, "one": 2, "unmeasured": 0}
    content = render(report)
    assert content.count('class="under less"') == 2 and content.count('class="under"') == 1
    assert "The bars are 11 of 12 candidate pairs. The others are from buckets of more than 256 documents" in content
    assert "Not shown: 2 pairs of similarity 1." in content
    report["funnel"]["candidates"], report["sampled"]["one"] = 5000, 4096 - 9
    assert "The bars are 4,096 of 5,000 candidate pairs, a random sample." in render(report)
    del report["sampled"], report["funnel"]["key_copies"], report["funnel"]["few_sources"]  # as 0.2.0 wrote it
    assert "The bars are the dropped documents" in render(report)


def test_a_scale_has_whole_numbers_at_their_heights() -> None:
    """The line at 1.5 of 3 documents had the label 2."""
    for most, labels in ((1, [0, 1]), (2, [0, 1, 2]), (3, [0, 1, 3]), (9, [0, 4, 9])):
        picture = similarity_picture({"below_one": {"0.80": most}, "one": 1}, 0.8, "Jaccard")
        assert picture["levels"] == [(label / most, f"{label}") for label in labels]


@pytest.mark.parametrize("only", [True, False])
def test_copies_by_a_key_are_not_compared(only: bool) -> None:
    write_rows("a.parquet", pa.table({"text": [page(1), page(2), page(2)], "key": [1, 1, 2]}))
    report = run("a.parquet", key="key", key_only=only).report
    assert report["evidence"]["similarity"]["unmeasured"] == report["funnel"]["key_copies"] == 1
    message = "each for a document with the same key." if only else "1 for a document with the same key, without a"
    assert f"1 dropped (33.3 %){', ' if only else ': '}{message}" in Html(html()).text
    assert ("No texts were compared" in html()) == only
    assert ("Probability that two documents become" in html()) == ("pairs of duplicates in all" in html()) == (not only)


@pytest.mark.parametrize("options", [{"resolve": "components"}, {"verify": "none"}, {"verify": "signature"}])
def test_the_page_is_one_safe_file_with_the_numbers(options: dict[str, Any]) -> None:
    report = report_of(corpus(), **options)
    assert "report.html" in report["outputs"] and report["page"] == {"written": True, "reason": None}
    assert html() == render(json.loads(Path("out/report.json").read_text()))
    shown = Html(html())
    # No file from elsewhere, no script but the page's own, and no text of the user's became a tag.
    assert not {name for name, _ in shown.tags} & {"link", "img", "iframe", "i", "object"}
    assert not [attrs for _, attrs in shown.tags if {"src", "href", "onclick", "onload"} & attrs.keys()]
    assert "url(" not in html() and "@import" not in html()
    (script,) = re.findall("<script>(.*?)</script>", html(), re.DOTALL)
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'"
    assert [attrs["content"] for _, attrs in shown.tags if "http-equiv" in attrs] == [policy]
    funnel = report["funnel"]
    assert f"{funnel['kept']} of {funnel['documents']} documents kept" in shown.text
    assert "<script>alert('" in shown.text and "b <i>.parquet" in shown.text and "<b>" in shown.text
    assert ("Estimated similarity 1: " in shown.text) == (options.get("verify") == "signature")
    if options.get("verify") == "none":
        assert "similarity not measured" in shown.text


@pytest.mark.parametrize("texts", [[], [None, ""], ["one text only"], ["twice", "twice"], ["\0 \U0001f600 \ufffd"] * 3])
def test_a_page_of_few_documents_shows_kept_and_dropped_ones(texts: list[str | None]) -> None:
    write_rows("a.parquet", pa.table({"text": pa.array(texts, pa.string())}))
    funnel = run("a.parquet").funnel
    shown = Html(html()).text
    assert f"{funnel['kept']} of {plural(len(texts), 'document')} kept" in shown
    assert ("Nothing was dropped." in shown) == (funnel["dropped"] == 0)
    assert ("2 documents without a word (1 null): not compared." in shown) == (texts == [None, ""])


def test_bad_records_and_protected_documents_are_not_kept_rows() -> None:
    lines = [json.dumps({"text": page(number)}) for number in (1, 2, 1)]
    Path("a.jsonl").write_text("\n".join([*lines, "{no json", lines[1]]) + "\n")
    report = run("a.jsonl", protect=[write("test.jsonl", [page(3)] * 3)], on_error="skip").report
    assert report["evidence"]["rejected"] == [0, 1]
    shown = Html(html()).text
    assert "1 bad record skipped" in shown
    assert shown.count("a.jsonl512250.0 %") == 2  # of 5 rows 1 is rejected; of 4 documents, 2 are kept and 2 dropped
    assert "2 of 4 documents kept" in shown and "3 documents protected: never dropped, and not written" in shown
    assert f"{4 / report['funnel']['seconds']['write']:,.0f} documents/s" in shown  # protected ones are not written
    counts = [report["funnel"][name] for name in ("documents", "protected", "dropped", "kept")]
    assert counts == [7, 3, 2, 2]  # protected copies of each other stay


def test_documents_of_few_sources_are_rows_left_out() -> None:
    run([write("a.jsonl", [page(1), page(1), page(2)]), write("b.jsonl", [page(1)])], min_sources=2)
    assert "rowskeptleft outdropped" in (shown := Html(html()).text) and "a.jsonl311133.3 %" in shown
    assert "few sources125.0 % left out by" in shown


def test_without_jinja_the_report_says_so(monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    job = ["dedup", *corpus(), "-o", "out", "--backend", "reference"]
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "jinja2", None)
        needs = 'gpulsh: report.html needs jinja2: pip install "gpulsh[report]", then `gpulsh report OUT`\n'
        assert needs in command("", *job).err
        report = json.loads(Path("out/report.json").read_text())
        assert not report["page"]["written"] and "gpulsh[report]" in report["page"]["reason"]
        assert "report.html" not in report["outputs"] and not Path("out/report.html").exists()
        assert command("report out").error.endswith('report.html needs jinja2: pip install "gpulsh[report]"')
        passages = ["passages", *job[1:-4], "-o", "marks", "--backend", "reference"]
        assert needs.partition(",")[0] + "\n" in command("", *passages).err
    assert command("report out") == (0, "out/report.html\n", "")
    assert json.loads(Path("out/report.json").read_text())["outputs"] == [*report["outputs"], "report.html"]
    assert command("", *job, "--overwrite").status == 0  # the page is gpulsh's now, and a later run replaces it
    # A page that gpulsh did not write, and a folder without a report.
    Path("out/report.json").write_text(json.dumps(report))
    Path("out/report.html").write_text("mine")
    assert "was not written by gpulsh" in command("report out").error and html() == "mine"
    assert "holds no report.json" in command("report .").error


def test_bidirectional_controls_are_isolated_or_escaped() -> None:
    """Texts keep such characters, isolated; names and ids show them escaped."""
    turned = "foreign\u202e\u2066\u2069\u202cgnp\x1b"
    name = f"{turned}.jsonl"
    texts = [f"{turned} {page(1, changed)}" for changed in (0, 1, 2)] + [f"{turned} {page(2)}"] * 2
    write_rows(name, [{"id": f"id{turned}{number}", "text": text} for number, text in enumerate(texts)])
    report_of([name], keep=f"source:{name}")
    shown = Html(html())
    assert "foreign" not in shown.outside and not {"\u202e", "\u2066", "\u2069", "\x1b"} & set(shown.outside)
    escaped = r"foreign\u202e\u2066\u2069\u202cgnp\u001b"
    assert f"{escaped}.jsonl" in shown.inside and f"id id{escaped}1" in shown.inside
    parts = re.findall(r"<bdi[^>]*>(.*?)</bdi>", html(), re.DOTALL)
    names = [part for part in parts if "word1x" not in part]  # of files, places and parameters
    assert "foreign\u202e" in shown.inside and "foreign\u202e" not in "".join(names)
    assert "bdi { unicode-bidi: isolate; }" in html()
    for sentence in (", row", " loses"):  # English, even if it begins with a name in Arabic
        assert f'<bdi dir="ltr">{escaped}.jsonl{sentence}' in html()


def test_the_page_stays_small() -> None:
    """It has at most 5 MB, however many files and INPUTs there are, and however long names, ids and texts are."""
    report = report_of(corpus())
    long = '<&"é' * 1000
    place = {"file": long, "row": 10**9, "id": long * 10}
    texts = ["\"&' " * (SHOWN_CHARACTERS // 4), '"<> ' * (SHOWN_CHARACTERS // 4)]
    pair = {"similarity": 0.8, "dropped": place, "kept": place, "texts": texts}
    number, names = sum(SAMPLE.values()), [f"{long}{place}" for place in range(3000)]
    shown = {"cluster": 10**12, "dropped": 10**9, "picked": list(SAMPLE), "pairs": [pair] * MEMBERS}
    found = report["evidence"]
    found["clusters"]["sample"], found["examples"] = [shown] * number, [pair] * 6
    listed = [{"input": names[at // 20], "of": names[at % 20], "count": 3} for at in range(1000)]
    found |= {"dropped": [6] * 3000, "rejected": [0] * 3000, "dropped_for": {"listed": listed, "more": 0}}
    report["files"] = [{"file": name, "rows": 10} for name in names]
    report["sources"] = [{"input": name, "protected": False, "files": 1} for name in names]
    report["inputs"] = names
    content = render(report)
    assert len(content.encode()) < 5_000_000 and content.count("data-entry=") == number + 200


def test_candidates_ruled_out_are_not_called_dissimilar(command: Command) -> None:
    """Near-copies in one INPUT are no duplicates across INPUTs; without bars, the page does not mention bars."""
    inputs = [write(f"{name}.jsonl", [page(number), page(number, 1)]) for name, number in (("a", 1), ("b", 2))]
    summary = command("dedup -o out --across --backend reference --verbose", *inputs).out
    assert re.search(r"candidates +2  = 2 others; duplicates have", summary) and "dissimilar" not in summary
    assert "ruled out by <code>--within</code>, <code>--across</code>" in html() and "The bars are" not in html()


def test_exact_copies_are_shown_unless_their_file_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    def shown() -> list[list[str]]:
        texts = [page(1), page(2), page(1), page(1).upper(), page(2, 1)]
        report = report_of(write("a.jsonl", texts), overwrite=True, memory=HOLDS_NOTHING)
        sample = report["evidence"]["clusters"]["sample"]
        return [pair["texts"] for cluster in sample for pair in cluster["pairs"]]

    (copy, kept), (upper, _), (near, _) = shown()
    assert copy == kept and copy.startswith("word0x1 ") and upper.startswith("WORD0X1 ") and near.endswith("other0")
    monkeypatch.setattr("gpulsh.report.evidence.REREAD_BYTES", 100)
    assert shown()[0][0] == ""
    message = "The text is not shown because its file is large: gpulsh show OUT --cluster 0 shows it."
    assert message in Html(html()).text and '<div class="text"><bdi></bdi></div>' not in html()


def test_line_breaks_of_code_are_shown() -> None:
    code = [f"def f{number}(x):\n    return x + {number}\n" for number in range(40)]
    texts = ["\n\n\n\n".join(code), "\r\n".join(code).replace("x + 20", "y + 20")]
    dropped, kept = report_of(write("a.parquet", texts))["evidence"]["examples"][0]["texts"]
    assert "):\n    return y + 20\n" in dropped.replace("\r", "") and "):\n    return x + 20\n\ndef f21" in kept
    assert len(kept.split()) == len(dropped.split()) and "pre-wrap" in html()
