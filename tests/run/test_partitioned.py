"""However the work over files is cut, the results are the same bytes, and what the definition of the decision says."""

import datetime
import json
import math
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulsh
from gpulsh import Shingling
from gpulsh.__main__ import main
from gpulsh.backends.cpu import SIZES
from gpulsh.backends.parts import run_in_fitting_parts
from gpulsh.budget import TaskSizes
from gpulsh.report.page import missing_requirement
from gpulsh.report.reproduce import command, describe_method
from gpulsh.run.engines.local import LocalRunner
from gpulsh.run.job import Stage
from gpulsh.stats.stages import CONTAINMENT_STAGES, FILE_STAGES
from tests.crash.test_resume import results
from tests.decide.test_decision import corpus, estimated_similarity, naive_documents
from tests.support import naive
from tests.support.files import read_rows, write_rows
from tests.support.runs import evidence

MEMORY = 1 << 30
WHOLE = TaskSizes(memory=MEMORY, partition=1 << 40, digests=1 << 40, group=1 << 40)
BANDING: dict[str, Any] = {"num_perm": 12, "bands": 6, "rows": 2}
SHINGLING = Shingling(size=2)
SMALL_BUCKET, SAMPLED = 4, 10
EDGES = [-(2**63), -(2**53) - 1, -1, 0, 1, 2**53, 2**53 + 1, 2**53 + 2, 2**62, 2**63 - 1]
URLS = ["http://a/", "HTTP://A:80/#top", "http://a/ ", "日本", "नमस्ते", "e\u0301", "\u00e9", "\0", "😀"] * 2
DAY = datetime.date(1970, 1, 1)
INSTANT = datetime.datetime(2024, 1, 1)

# Of a key column its Arrow type, None where it is mixed, as only JSON has it, and how a value is drawn.
KEYS: dict[str, tuple[Any, Any]] = {
    "int": (pa.int64(), lambda source: source.choice(EDGES)),
    "unsigned": (pa.uint64(), lambda source: source.choice([0, 2**53, 2**53 + 1, 2**63, 2**64 - 1])),
    "float": (pa.float64(), lambda source: source.choice([0.0, -0.0, 1.5, 2.0**53, math.inf, -math.inf, -1e300])),
    "date": (pa.date32(), lambda source: DAY + datetime.timedelta(source.randrange(-4, 4))),
    "instant": (pa.timestamp("us"), lambda source: INSTANT + datetime.timedelta(microseconds=source.randrange(4))),
    "mixed": (None, lambda source: source.choice([*EDGES, 2**64 - 1, 2.0**53, 1.5, -0.0, float(2**63), 1e300])),
}


@dataclass
class Given:
    """Documents in folders, one an INPUT, of several files each; the first `protected` folders are never dropped."""

    texts: list[str | None]
    sources: list[int]  # ascending
    kind: str
    seed: int
    protected: int = 0
    keys: list[Any] = field(init=False)
    urls: list[str | None] = field(init=False)  # for --key: few, some missing

    def __post_init__(self) -> None:
        source = Random(self.seed)
        draw = KEYS[self.kind][1]
        self.keys = [None if source.random() < 0.2 else draw(source) for _ in self.texts]
        known = [None, "", *URLS, *map(str, range(len(self.texts)))]
        self.urls = [source.choice(known) for _ in self.texts]

    def write(self, folder: Path) -> tuple[list[str], list[str]]:
        """Write the files in order; returns the protected paths and the others."""
        source = Random(self.seed)
        paths = []
        for number in range(max(self.sources, default=0) + 1):
            rows = [row for row, of in enumerate(self.sources) if of == number]
            (folder / f"s{number}").mkdir(parents=True)
            paths.append(str(folder / f"s{number}"))
            for file in range(source.randrange(1, 4)):
                size = source.choice([0, 1, 3, 7]) if file < 2 else len(rows)
                self._write_file(folder / f"s{number}" / f"s{number}f{file}", rows[:size], source)
                rows = rows[size:]
            self._write_file(folder / f"s{number}" / f"s{number}f9", rows, source)
        return paths[: self.protected], paths[self.protected :]

    def _write_file(self, path: Path, rows: list[int], source: Random) -> None:
        kind = KEYS[self.kind][0]
        own = [{"text": self.texts[row], "key": self.keys[row], "id": row, "url": self.urls[row]} for row in rows]
        as_lines = kind is None or (source.random() < 0.3 and self.kind in ("int", "float"))
        if as_lines and all(self.keys[row] is None or math.isfinite(self.keys[row]) for row in rows):
            write_rows(path.with_suffix(".jsonl"), own)
            return
        schema = pa.schema([("text", pa.string()), ("key", kind), ("id", pa.int64()), ("url", pa.string())])
        ending = source.choice([".parquet", ".arrow"])
        write_rows(path.with_suffix(ending), pa.Table.from_pylist(own, schema), source.choice([1, 4, 100]))

    def priority(self, keep: str) -> list[int]:
        """The definition of the policy: the higher number is kept, and the earlier document on a tie."""
        if keep == "first":
            values: list[Any] = [0] * len(self.texts)
        elif keep == "longest":
            values = [len((text or "").encode()) for text in self.texts]
        elif keep == "key":
            values = self.keys
        else:
            listed = [int(name.removeprefix("s")) for name in keep.removeprefix("source:").split(",")]
            values = [-listed.index(source) if source in listed else -len(listed) for source in self.sources]
        ranked = sorted({value for value in values if value is not None})
        return [-1 if value is None else ranked.index(value) for value in values]

    @cached_property
    def documents(self) -> naive.Documents:
        return naive_documents(self.texts, SHINGLING, **BANDING)

    @property
    def guarded(self) -> int:
        return sum(source < self.protected for source in self.sources)


@st.composite
def givens(draw: st.DrawFn, kinds: Sequence[str] = tuple(KEYS), protecting: bool = False) -> Given:
    """Families of near-copies, chains, copies, empty and null documents, in one to four folders."""
    seed = draw(st.integers(0, 2**32))
    source = Random(seed)
    size = draw(st.sampled_from([1, 10, 40, 60]))
    texts = corpus(seed, size, source.choice([1, 2, 8]), source.choice([4, 20]), source.choice([0.0, 0.03, 0.1]))
    chain = [f"link{number}" for number in range(40)]
    for _ in range(source.choice([0, 0, 12])):
        start = source.randrange(28)
        texts[source.randrange(len(texts))] = " ".join(chain[start : start + 12])
    folders = draw(st.integers(1 + protecting, 4))
    sources = sorted(source.randrange(folders) for _ in texts)
    protected = draw(st.integers(1, folders - 1)) if protecting else 0
    return Given(texts, [*sources[:-1], folders - 1], draw(st.sampled_from(kinds)), seed, protected)


cuts = st.builds(
    TaskSizes,
    memory=st.just(MEMORY),
    partition=st.sampled_from([1, 300, 2000]),
    digests=st.sampled_from([12, 50, 150]),
    group=st.sampled_from([1, 2000, 20_000, 1 << 40]),
    part=st.sampled_from([None, 20, 300]),
)


@contextmanager
def cut_as(cut: TaskSizes, *, run: int = 20) -> Iterator[None]:
    """Cut runs over files so, and sign in runs of so many digests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpulsh.run.file_run.task_sizes", lambda *_: cut)
        patch.setattr("gpulsh.run.file_run.missing_requirement", lambda: "tested elsewhere")
        for bound in ("sign.RUN_DIGESTS", *(f"{stage}.ROWS_AT_ONCE" for stage in ("arrange", "connect", "write"))):
            patch.setattr(f"gpulsh.run.stages.{bound}", run)
        patch.setattr("gpulsh.lsh.collisions.SMALL_BUCKET", SMALL_BUCKET)
        patch.setattr("gpulsh.decide.edges.MAX_DRAWN", SAMPLED)
        patch.setattr(os, "fsync", lambda handle: None)
        yield


def run(
    documents: Given, folder: Path, cut: TaskSizes, **options: Any
) -> tuple[dict[str, bytes], list[dict[str, Any]]]:
    """The results of a run with this cut, once its bytes and rows equal those of an uncut run."""
    protect, inputs = documents.write(folder / "in")
    given = {"backend": "cpu", "threads": 1, "shingling": SHINGLING, **BANDING, **options, "protect": protect}
    with cut_as(WHOLE, run=1 << 22):
        whole = gpulsh.deduplicate_files(inputs, folder / "whole", **given).report
    with cut_as(cut):
        report = gpulsh.deduplicate_files(inputs, folder / "cut", **{**given, "threads": 2}).report
    found = results(folder / "cut")
    assert found == results(folder / "whole") and report["sampled"] == whole["sampled"]
    return found, evidence(folder / "cut")


def assert_rows(rows: list[dict[str, Any]], wanted: Any) -> None:
    """Check that the evidence shows this decision; ids are positions."""
    duplicate_of, similarity, cluster = wanted
    dropped = [document for document, target in enumerate(duplicate_of) if target != document]
    assert [row["id"] for row in rows] == dropped
    assert [row["duplicate_of_id"] for row in rows] == [duplicate_of[document] for document in dropped]
    assert [row["cluster"] for row in rows] == [cluster[document] for document in dropped]
    given = np.array([row["similarity"] for row in rows], np.float32)
    np.testing.assert_array_equal(given, np.array([similarity[document] for document in dropped], np.float32))


def policies(documents: Given) -> list[str]:
    names = [f"s{number}" for number in range(documents.protected, max(documents.sources) + 1)]
    return ["first", "longest", "key", f"source:{','.join(names[::-1])}", f"source:{names[-1]}"]


thresholds = st.sampled_from([0.3, 0.5, 2 / 3, 0.8, 1.0])
resolves = st.sampled_from(["kept", "components"])
relations = st.sampled_from([{}, {}, {"within": True}, {"across": True}])


def in_memory(documents: Given, keep: str, **options: Any) -> tuple[Any, Any]:
    """`deduplicate` of the same texts: the decision as evidence shows it, and the counts."""
    priority = np.array(documents.priority(keep))
    given = {"priority": priority, "backend": "cpu", "threads": 1, **options}
    with cut_as(WHOLE):
        found = gpulsh.deduplicate(documents.texts, **given)
    return (found.duplicate_of.tolist(), found.similarity, found.cluster.tolist()), found.funnel


def by_definition(documents: Given, oracle: naive.Documents, keep: str, relation: dict[str, bool], **how: Any) -> Any:
    wanted = naive.greedy(
        oracle,
        priority=list(map(float, documents.priority(keep))),
        protected=documents.guarded,
        sources=documents.sources if relation else None,
        across=relation.get("across", False),
        **how,
    )
    return wanted.duplicate_of, wanted.similarity, wanted.cluster


MEASURES: list[dict[str, Any]] = [
    {},
    {"verify": "signature"},
    {"verify": "none"},
    {"measure": "containment"},
    {"measure": "containment", "drop_contained_only": False},
]


@settings(max_examples=15)
@given(
    st.one_of(givens(), givens(("int",), protecting=True)),
    cuts,
    relations,
    thresholds,
    resolves,
    st.integers(0, 4),
    st.sampled_from([{}, *MEASURES]),
)
def test_decisions_depend_on_no_cut_and_follow_the_definition(
    documents: Given,
    cut: TaskSizes,
    relation: dict[str, bool],
    threshold: float,
    resolve: Any,
    policy: int,
    measure: dict[str, Any],
) -> None:
    """The definition is of exact Jaccard, or of the estimate in buckets so small that it alone decides."""
    keep = policies(documents)[policy]
    if "measure" in measure:
        relation = {}
    options = {"threshold": threshold, "resolve": resolve}
    estimating = measure == MEASURES[1] and documents.seed % 2 == 0
    small_bucket = 256 if estimating else SMALL_BUCKET
    with tempfile.TemporaryDirectory() as folder, small_joins(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{__name__}.SMALL_BUCKET", small_bucket)
        found, rows = run(documents, Path(folder), cut, keep=keep, id_column="id", **options, **relation, **measure)
        if not relation and not documents.protected:
            given = {"shingling": SHINGLING, **BANDING, **options, **measure}
            assert_rows(rows, in_memory(documents, keep, **given)[0])
    oracle = documents.documents
    if estimating:
        estimate = estimated_similarity(documents.texts, SHINGLING, BANDING["num_perm"])
        oracle = naive.Documents(oracle.sequences, oracle.digests, lambda i, j: float(estimate[i, j]))
    if not measure or estimating:
        assert_rows(rows, by_definition(documents, oracle, keep, relation, **options, small_bucket=small_bucket))
    assert all(row["id"] >= documents.guarded for row in rows)
    protected = tuple(f"s{number}f" for number in range(documents.protected))
    assert not [name for name in found if Path(name).name.startswith(protected)]


@contextmanager
def small_joins() -> Iterator[None]:
    """Cut joins by containment so that documents come in several runs, and their pairs too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpulsh.lsh.signing.run_in_fitting_parts", lambda work, parts: run_in_fitting_parts(work, 3, 3))
        patch.setattr("gpulsh.run.records.ranges.RUN_POSTINGS", 20)
        patch.setattr("gpulsh.run.records.ranges.ROWS_AT_ONCE", 15)
        patch.setattr("gpulsh.run.stages.collide.PAIRS_AT_ONCE", 4)
        patch.setattr("gpulsh.run.stages.collide.FEW_OWNERS", 2)
        patch.setattr("gpulsh.decide.large_buckets.FIRST_BLOCK", 8)
        yield


def families(seed: int) -> list[str | None]:
    """Near-copies of several pages; common words are rare in one family and frequent in another."""
    source = Random(seed)
    texts: list[str | None] = []
    common = [f"common{number}" for number in range(12)]
    for page in range(5):
        words = [f"page{page}x{number}" for number in range(20)]
        texts += [" ".join([*words, *source.sample(common[page : page + 8], 4)]) for _ in range(12)]
    source.shuffle(texts)
    return texts


def chain() -> list[str | None]:
    """Each page overlaps the next ones: one component spans many ranges and partitions."""
    words = [f"word{number}" for number in range(90)]
    texts: list[str | None] = [" ".join(words[start : start + 12]) for start in range(78)]
    Random(3).shuffle(texts)
    return texts


@pytest.mark.parametrize(
    ("seed", "verify", "resolve", "keep"),
    [
        # Without an exact measure the filter's frequencies, those of connected documents, decide who is compared.
        *((0, "signature", "kept", "first"), (1, "none", "components", "key")),
        # A chain: compared in shares, several pairs a share, and decided as a whole.
        *((None, "exact", "components", "key"), (None, "signature", "kept", "key")),
        (None, "none", "components", "first"),
    ],
)
def test_large_buckets_and_shares_of_a_component_depend_on_no_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int | None, verify: Any, resolve: Any, keep: str
) -> None:
    tasks = Counter[str]()
    in_process = LocalRunner.run

    def counting(runner: LocalRunner, stage: Stage) -> Any:
        tasks.update(task.step.rstrip("0123456789-") for task in stage.tasks)
        return in_process(runner, stage)

    monkeypatch.setattr(LocalRunner, "run", counting)
    is_chain = seed is None
    texts = chain() if seed is None else families(seed)
    documents = Given(texts, [row * 3 // len(texts) for row in range(len(texts))], "int", 7)
    options: dict[str, Any] = {"threshold": 0.6 if is_chain else 0.85, "verify": verify, "resolve": resolve}
    options["shingling"] = SHINGLING if is_chain else Shingling(size=1)
    cut = TaskSizes(memory=MEMORY, partition=500 if is_chain else 300, digests=40, group=9000 if is_chain else 1)
    _, rows = run(documents, tmp_path, cut, keep=keep, id_column="id", **options)
    wanted, funnel = in_memory(documents, keep, **options, **BANDING)
    assert_rows(rows, wanted)
    assert rows and min(tasks[name] for name in ("sign", "copies", "collide", "gather", "collect", "write")) > 2
    if not is_chain:
        assert funnel.crowded > 20
    elif verify == "none":
        assert not tasks["compare"]  # no similarity is measured
    else:
        assert len(set(wanted[2])) < 20 and 5 < tasks["compare"] < funnel.candidates / 5


@pytest.mark.parametrize("relation", [{"within": True}, {"across": True}], ids=str)
def test_large_buckets_respect_within_and_across(tmp_path: Path, relation: dict[str, bool]) -> None:
    documents = Given(families(2), [row // 30 for row in range(60)], "int", 7)
    cut = TaskSizes(memory=MEMORY, partition=300, digests=40, group=1)
    _, rows = run(documents, tmp_path, cut, id_column="id", threshold=0.5, **relation)
    how = {"threshold": 0.5, "small_bucket": SMALL_BUCKET}
    assert_rows(rows, by_definition(documents, documents.documents, "first", relation, **how))
    assert len(rows) > 20


# --- `measure="containment"` ---


LONG = [" ".join(f"page{page}x{word}" for word in range(60)) for page in range(4)]
QUOTES = [" ".join(page.split()[start : start + 20]) for page in LONG for start in (0, 15)]
CONTAINING: dict[str, Any] = {"measure": "containment", "backend": "cpu", "threads": 1}


def test_containment_keeps_the_longest_unless_keep_is_given(tmp_path: Path) -> None:
    """A better page drops a slightly longer one that holds it, but not a longer one of mostly other words."""
    page = LONG[0]
    rows = [(QUOTES[0], 0.5), (page, 0.9), (f"{page} {LONG[1]}", 0.2), (f"{page} more", 0.1)]
    write_rows(tmp_path / "a.jsonl", [{"text": text, "score": score} for text, score in rows])
    for keep, only, kept, witness in ((None, True, 1, 2), ("score", True, 2, 1), ("score", False, 1, 1)):
        out = tmp_path / f"{keep}{only}"
        how: dict[str, Any] = {"keep": keep, "drop_contained_only": only, **CONTAINING}
        report = gpulsh.deduplicate_files(tmp_path / "a.jsonl", out, **how).report
        assert report["parameters"]["keep"] == keep or (keep is None and report["parameters"]["keep"] == "longest")
        assert report["funnel"]["kept"] == kept and {row["duplicate_of_row"] for row in evidence(out)} == {witness}
        assert ("--drop-containing" in str(command(report))) == (not only)
        assert ("one contains 0.8 or more" in " ".join(describe_method(report["parameters"]))) == (not only)


def test_protected_pages_drop_pages_that_contain_them(tmp_path: Path) -> None:
    """Pages that they contain are dropped too; protected pages never are."""
    guarded = write_rows(tmp_path / "a.jsonl", [QUOTES[0], LONG[1]])
    given = write_rows(tmp_path / "b.jsonl", [LONG[0], QUOTES[2], LONG[2], QUOTES[4]])
    for only, kept in ((True, [LONG[0], LONG[2]]), (False, [LONG[2]])):
        out = tmp_path / f"{only}"
        gpulsh.deduplicate_files(given, out, protect=guarded, drop_contained_only=only, **CONTAINING)
        assert [row["text"] for row in read_rows(out / "data/b.jsonl")] == kept


def test_containment_respects_within_and_across(tmp_path: Path) -> None:
    a = write_rows(tmp_path / "a.jsonl", [QUOTES[0], LONG[0], QUOTES[2]])
    b = write_rows(tmp_path / "b.jsonl", [QUOTES[1], LONG[1]])
    for relation, wanted in (("within", [(a, 0, a)]), ("across", [(a, 2, b), (b, 0, a)])):
        gpulsh.deduplicate_files([a, b], tmp_path / relation, **{relation: True}, **CONTAINING)
        found = [(row["file"], row["row"], row["duplicate_of_file"]) for row in evidence(tmp_path / relation)]
        assert found == wanted


@pytest.mark.parametrize(("only", "whole"), [(True, 1 << 29), (False, 2000)])  # the largest text that is read whole
def test_near_copies_are_compared_with_kept_documents_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, only: bool, whole: int
) -> None:
    """And with dropped ones where these connect clusters, as in a chain."""
    monkeypatch.setattr("gpulsh.backends.cpu.SIZES", SIZES._replace(whole=whole))
    monkeypatch.setattr("gpulsh.run.stages.collide.FEW_OWNERS", 0)
    source, words = Random(5), [f"own{number}" for number in range(100)]
    copies = [" ".join(word if source.random() < 0.98 else "other" for word in words) for _ in range(150)]
    book = " ".join([*words, *(f"page{number}" for number in range(300))])
    documents = Given([*chain(), *copies, *families(1), book], [0] * 289, "int", 7)
    options: dict[str, Any] = {"shingling": SHINGLING, "threshold": 0.8, "measure": "containment"}
    options["drop_contained_only"] = only
    wanted, of_all = in_memory(documents, "longest", **options)
    cut = TaskSizes(memory=MEMORY, partition=20_000, digests=9000, group=1)
    _, rows = run(documents, tmp_path, cut, id_column="id", **options)
    assert_rows(rows, wanted)
    funnel = json.loads((tmp_path / "cut/report.json").read_text())["funnel"]
    assert len(rows) > 200 and funnel["crowded"] > 200
    assert of_all.similar > 7000 and 200 < funnel["similar"] <= funnel["candidates"] < 2500


@pytest.mark.parametrize("few", [32, 1])
def test_no_count_depends_on_the_secret_or_the_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    """Prefixes depend on public fingerprints, and on slots that the documents set."""
    monkeypatch.setattr("gpulsh.run.stages.collide.FEW_OWNERS", few)
    for name in ("MIN_BITS", "MAX_BITS"):
        monkeypatch.setattr(f"gpulsh.decide.prefixes.{name}", 3)
        monkeypatch.setattr(f"gpulsh.run.stages.collide.{name}", 3)
    texts = [" ".join(f"w{number % 97}" for number in range(start, start + 40)) for start in range(0, 1500, 29)]
    given, memory, files = write_rows(tmp_path / "a.jsonl", texts), [], []
    for number, cut in enumerate((WHOLE, TaskSizes(memory=MEMORY, partition=300, digests=100, group=1000))):
        options = {"threshold": 0.9, "secret": bytes([number] * 32), **CONTAINING}
        memory.append(gpulsh.deduplicate(texts, **options).funnel.to_dict())
        with cut_as(cut):
            files.append(gpulsh.deduplicate_files(given, tmp_path / f"{number}", **options).funnel)
    for one, other in (memory, files):
        assert all(one[name] == other[name] for name in ("candidates", "similar", "dissimilar", "dropped"))
    assert memory[0]["dissimilar"] > 0


def test_summary_and_page_say_containment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = write_rows(tmp_path / "a.jsonl", [*QUOTES, *LONG, "other words here"])
    asked = ["--measure", "containment", "--backend", "cpu", "--verbose"]
    assert main(["dedup", given, "-o", str(tmp_path / "out"), *asked]) == 0
    assert "an exact containment of 0.8 or more" in capsys.readouterr().out
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["parameters"]["measure"] == "containment"
    assert "bucket" not in report["definitions"]["candidates"]["meaning"]
    stages = list(report["funnel"]["seconds"])
    assert stages[2:5] == list(CONTAINMENT_STAGES) and {*stages} <= {*FILE_STAGES, *CONTAINMENT_STAGES} - {"collide"}
    if missing_requirement() is None:
        html = (tmp_path / "out/report.html").read_text(encoding="utf-8")
        assert "Containment in the kept document" in html and "Jaccard" not in html and "banding finds" not in html
