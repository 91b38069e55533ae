"""However the work over files is cut, the results are the same bytes, and what the definition of the decision says."""

import datetime
import json
import math
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulsh
from gpulsh import Shingling
from gpulsh.__main__ import main
from gpulsh.backends.parts import in_fitting_parts
from gpulsh.budget import Cut
from gpulsh.errors import ParameterError
from gpulsh.report.page import missing
from gpulsh.report.reproduce import command, in_words
from gpulsh.run import driver
from gpulsh.run.engines.local import InProcess
from gpulsh.run.job import Stage
from gpulsh.stats.stages import OF_CONTAINMENT, OF_FILES
from tests.crash.test_resume import results
from tests.decide.test_decision import corpus, described, estimated
from tests.support import naive
from tests.support.files import read_rows, write_rows
from tests.support.runs import evidence, interrupting

MEMORY = 1 << 30
WHOLE = Cut(memory=MEMORY, partition=1 << 40, digests=1 << 40, group=1 << 40)
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
        """The files, in their order; the paths of what is protected and of what is not."""
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
        columns = {
            "text": [self.texts[row] for row in rows],
            "key": [self.keys[row] for row in rows],
            "id": rows,
            "url": [self.urls[row] for row in rows],
        }
        if kind is None or (source.random() < 0.3 and self.kind in ("int", "float") and math.inf not in columns["key"]):
            finite = all(not isinstance(key, float) or math.isfinite(key) for key in columns["key"])
            if finite:
                lines = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
                path.with_suffix(".jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
                return
        schema = pa.schema([("text", pa.string()), ("key", kind), ("id", pa.int64()), ("url", pa.string())])
        table = pa.table(columns, schema)
        if source.random() < 0.5:
            pq.write_table(table, path.with_suffix(".parquet"), row_group_size=source.choice([1, 4, 100]))
        else:
            with pa.ipc.new_file(str(path.with_suffix(".arrow")), schema) as out:
                out.write_table(table, source.choice([1, 4, 100]))

    def priority(self, keep: str) -> list[int]:
        """By the policy's definition: the higher is kept first, ties to the earlier."""
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
        return described(self.texts, SHINGLING, **BANDING)

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
    Cut,
    memory=st.just(MEMORY),
    partition=st.sampled_from([1, 300, 2000]),
    digests=st.sampled_from([12, 50, 150]),
    group=st.sampled_from([1, 2000, 20_000, 1 << 40]),
)


@contextmanager
def cut_as(cut: Cut, *, run: int = 20) -> Iterator[None]:
    """Runs over files are cut so, and signed in runs of so many digests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpulsh.run.file_run.cut", lambda memory, sizes: cut)
        patch.setattr("gpulsh.run.files.missing", lambda: "tested elsewhere")
        patch.setattr("gpulsh.run.stages.sign.RUN_DIGESTS", run)
        patch.setattr("gpulsh.run.stages.arrange.ROWS_AT_ONCE", run)
        patch.setattr("gpulsh.run.stages.connect.ROWS_AT_ONCE", run)
        patch.setattr("gpulsh.run.stages.write.ROWS_AT_ONCE", run)
        patch.setattr("gpulsh.lsh.collisions.SMALL_BUCKET", SMALL_BUCKET)
        patch.setattr("gpulsh.decide.sample.MOST", SAMPLED)
        patch.setattr(os, "fsync", lambda handle: None)
        yield


def run(documents: Given, folder: Path, cut: Cut, **options: Any) -> tuple[dict[str, bytes], list[dict[str, Any]]]:
    """The results of a run that is cut so, after it was held against one that is not cut: the bytes and the rows."""
    protect, inputs = documents.write(folder / "in")
    given = {"backend": "cpu", "threads": 1, "shingling": SHINGLING, **BANDING, **options, "protect": protect}
    with cut_as(WHOLE, run=1 << 22):
        whole = gpulsh.deduplicate_files(inputs, folder / "whole", **given).report
    with cut_as(cut):
        report = gpulsh.deduplicate_files(inputs, folder / "cut", **{**given, "threads": 2}).report
    found = results(folder / "cut")
    assert found == results(folder / "whole") and report["sampled"] == whole["sampled"]
    return found, pq.read_table(folder / "cut/duplicates.parquet").to_pylist()


def assert_rows(rows: list[dict[str, Any]], wanted: Any) -> None:
    """The evidence tells this decision; ids are positions."""
    duplicate_of, similarity, cluster = wanted
    dropped = [document for document, target in enumerate(duplicate_of) if target != document]
    assert [row["id"] for row in rows] == dropped
    assert [row["duplicate_of_id"] for row in rows] == [duplicate_of[document] for document in dropped]
    assert [row["cluster"] for row in rows] == [cluster[document] for document in dropped]
    given = np.array([row["similarity"] for row in rows], np.float32)
    np.testing.assert_array_equal(given, np.array([similarity[document] for document in dropped], np.float32))


def keeps(documents: Given) -> list[str]:
    names = [f"s{number}" for number in range(documents.protected, max(documents.sources) + 1)]
    return ["first", "longest", "key", f"source:{','.join(names[::-1])}", f"source:{names[-1]}"]


thresholds = st.sampled_from([0.3, 0.5, 2 / 3, 0.8, 1.0])
resolves = st.sampled_from(["kept", "components"])
relations = st.sampled_from([{}, {}, {"within": True}, {"across": True}])


def in_memory(documents: Given, keep: str, **options: Any) -> tuple[Any, Any]:
    """`deduplicate` of the same texts: the decision that the evidence shows, and the counts."""
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


@settings(max_examples=5)
@given(st.one_of(givens(), givens(("int",), protecting=True)), cuts, relations, thresholds, resolves, st.integers(0, 4))
def test_any_cut_gives_the_definition_and_what_memory_gives(
    documents: Given, cut: Cut, relation: dict[str, bool], threshold: float, resolve: Any, policy: int
) -> None:
    keep = keeps(documents)[policy]
    options = {"threshold": threshold, "resolve": resolve}
    with tempfile.TemporaryDirectory() as folder:
        found, rows = run(documents, Path(folder), cut, keep=keep, id_column="id", **options, **relation)
    wanted = by_definition(documents, documents.documents, keep, relation, **options, small_bucket=SMALL_BUCKET)
    assert_rows(rows, wanted)
    if not relation and not documents.protected:
        assert_rows(rows, in_memory(documents, keep, shingling=SHINGLING, **options, **BANDING)[0])
    protected = tuple(f"s{number}f" for number in range(documents.protected))
    assert not [name for name in found if Path(name).name.startswith(protected)]


@settings(max_examples=4)
@given(
    st.one_of(givens(("int",)), givens(("int",), protecting=True)),
    cuts,
    relations,
    st.sampled_from([0.5, 0.75, 1.0]),
    resolves,
    st.sampled_from(["signature", "signature", "none"]),
)
def test_any_cut_gives_the_same_without_exact_similarity(
    documents: Given, cut: Cut, relation: dict[str, bool], threshold: float, resolve: Any, verify: Any
) -> None:
    """In small buckets, where the estimate alone decides, by the naive definition with that estimate, too."""
    options = {"threshold": threshold, "resolve": resolve}
    judged = verify == "signature" and documents.seed % 2 == 0
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{__name__}.SMALL_BUCKET", 256 if judged else SMALL_BUCKET)
        _, rows = run(documents, Path(folder), cut, id_column="id", verify=verify, **options, **relation)
    if judged:
        estimate = estimated(documents.texts, SHINGLING, BANDING["num_perm"])
        sequences, digests = documents.documents.sequences, documents.documents.digests
        oracle = naive.Documents(sequences, digests, lambda i, j: float(estimate[i, j]))
        assert_rows(rows, by_definition(documents, oracle, "first", relation, **options))


def families(seed: int) -> list[str | None]:
    """Near-copies of several pages, with words in common that are rare in one family and frequent in another."""
    source = Random(seed)
    texts: list[str | None] = []
    common = [f"common{number}" for number in range(12)]
    for page in range(5):
        words = [f"page{page}x{number}" for number in range(20)]
        texts += [" ".join([*words, *source.sample(common[page : page + 8], 4)]) for _ in range(12)]
    source.shuffle(texts)
    return texts


@pytest.mark.parametrize(("seed", "verify", "resolve"), [(0, "signature", "kept"), (1, "none", "components")])
def test_whom_large_buckets_compare_depends_on_no_cut(tmp_path: Path, seed: int, verify: Any, resolve: Any) -> None:
    """Without an exact measure the filter's frequencies decide that: they are those of connected documents."""
    documents = Given(families(seed), [row // 20 for row in range(60)], "int", seed)
    options: dict[str, Any] = {"threshold": 0.85, "verify": verify, "resolve": resolve, "shingling": Shingling(size=1)}
    keep = ["first", "key"][seed % 2]
    cut = Cut(memory=MEMORY, partition=300, digests=40, group=1)
    _, rows = run(documents, tmp_path, cut, keep=keep, id_column="id", **options)
    wanted, funnel = in_memory(documents, keep, **options, **BANDING)
    assert_rows(rows, wanted)
    assert funnel.crowded > 20 and rows


@pytest.mark.parametrize(
    ("verify", "resolve", "keep"),
    [("exact", "components", "key"), ("signature", "kept", "key"), ("none", "components", "first")],
)
def test_a_component_that_is_compared_in_shares_is_decided_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verify: Any, resolve: Any, keep: str
) -> None:
    """A chain through many ranges and partitions, several pairs a share; and where nothing is measured, no share."""
    words = [f"word{number}" for number in range(90)]
    texts: list[str | None] = [" ".join(words[start : start + 12]) for start in range(78)]
    Random(3).shuffle(texts)
    documents = Given(texts, [row // 26 for row in range(78)], "int", 7)
    shares: list[int] = []
    compare = driver.compare

    def counted(*arguments: Any) -> Any:
        made = compare(*arguments)
        shares.append(made.facts["candidates"])
        return made

    monkeypatch.setattr(driver, "compare", counted)
    options: dict[str, Any] = {"threshold": 0.6, "verify": verify, "resolve": resolve}
    cut = Cut(memory=MEMORY, partition=500, digests=40, group=9000)
    _, rows = run(documents, tmp_path, cut, keep=keep, id_column="id", **options)
    wanted, funnel = in_memory(documents, keep, shingling=SHINGLING, **options, **BANDING)
    assert_rows(rows, wanted)
    assert len(set(wanted[2])) < 20 and funnel.candidates > 100
    if verify == "none":
        assert shares == []
    else:
        assert len(shares) > 5 and max(shares) > 5 and sum(shares) <= funnel.candidates


def test_there_is_much_of_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tests above rely on: many partitions, ranges, groups, large buckets and copies."""
    documents = Given(corpus(5, 60, 8, 20, 0.03), [row // 20 for row in range(60)], "int", 5)
    steps: dict[str, int] = {}
    in_process = InProcess.run

    def run_and_count(runner: InProcess, stage: Stage) -> Any:
        for task in stage.tasks:
            name = task.step.rstrip("0123456789-")
            steps[name] = steps.get(name, 0) + 1
        return in_process(runner, stage)

    _, inputs = documents.write(tmp_path / "in")
    monkeypatch.setattr(InProcess, "run", run_and_count)
    with cut_as(Cut(memory=MEMORY, partition=300, digests=40, group=1)):
        result = gpulsh.deduplicate_files(inputs, tmp_path / "out", shingling=SHINGLING, backend="cpu", **BANDING)
    expected = {"sign": 5, "copies": 2, "collide": 9, "gather": 5, "verify": 6, "collect": 5, "write": 3, "compare": 20}
    assert {name: most for name, most in expected.items() if steps[name] < most} == {}
    assert result.funnel["crowded"] > 10 and result.funnel["exact_copies"] > 3


# --- `measure="containment"`: whatever the cut, what `deduplicate` gives for the same texts ---


LONG = [" ".join(f"page{page}x{word}" for word in range(60)) for page in range(4)]
QUOTES = [" ".join(page.split()[start : start + 20]) for page in LONG for start in (0, 15)]
CONTAINED = [*QUOTES, *LONG, f"{LONG[0]} and advertisements all around", "other words here"]
SMALL = Cut(memory=MEMORY, partition=300, digests=100, group=1000)
CONTAINING: dict[str, Any] = {"measure": "containment", "backend": "cpu", "threads": 1}


@contextmanager
def small_joins() -> Iterator[None]:
    """Documents come in several runs each, and pairs in several, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpulsh.lsh.signing.in_fitting_parts", lambda work, parts: in_fitting_parts(work, 3, 3))
        patch.setattr("gpulsh.run.records.ranges.RUN_POSTINGS", 20)
        patch.setattr("gpulsh.run.records.ranges.ROWS_AT_ONCE", 15)
        patch.setattr("gpulsh.run.stages.collide.PAIRS_AT_ONCE", 4)
        yield


@settings(max_examples=6)
@given(
    st.one_of(givens(), givens(("int",), protecting=True)), cuts, thresholds, resolves, st.integers(0, 4), st.booleans()
)
def test_any_cut_gives_what_memory_gives(
    documents: Given, cut: Cut, threshold: float, resolve: Any, policy: int, either: bool
) -> None:
    keep = keeps(documents)[policy]
    options: dict[str, Any] = {"threshold": threshold, "resolve": resolve, "measure": "containment"}
    options["drop_contained_only"] = not either
    with tempfile.TemporaryDirectory() as folder, small_joins():
        _, rows = run(documents, Path(folder), cut, keep=keep, id_column="id", **options)
    if documents.protected:  # which memory knows nothing of
        assert all(row["id"] >= documents.guarded for row in rows)
        return
    assert_rows(rows, in_memory(documents, keep, shingling=SHINGLING, **options)[0])


def test_the_longest_is_kept_unless_a_policy_says_otherwise(tmp_path: Path) -> None:
    texts = [*CONTAINED, "other words here and there"]
    scores = [*range(len(texts) - 1), 0]
    write_rows(tmp_path / "a.jsonl", [{"text": text, "score": scores[row]} for row, text in enumerate(texts)])
    for keep, priority in ((None, None), ("score", scores), ("first", [0] * len(texts))):
        out = tmp_path / f"{keep}"
        report = gpulsh.deduplicate_files(
            tmp_path / "a.jsonl", out, keep=keep, shingling=SHINGLING, **CONTAINING
        ).report
        assert report["parameters"]["keep"] == keep or (keep is None and report["parameters"]["keep"] == "longest")
        found = pq.read_table(out / "duplicates.parquet").to_pydict()
        wanted = gpulsh.deduplicate(texts, priority=priority, shingling=SHINGLING, **CONTAINING)
        assert found["row"] == np.flatnonzero(~wanted.keep).tolist() != []
        assert found["duplicate_of_row"] == wanted.duplicate_of[~wanted.keep].tolist()
        assert report["funnel"]["candidates"] == report["funnel"]["similar"] + report["funnel"]["dissimilar"]


def test_the_better_page_stays_for_a_longer_one_that_holds_it(tmp_path: Path) -> None:
    """And the longer one, of whose words many are in no better page, stays too."""
    page = LONG[0]
    rows = [(f"{page} {LONG[1]}", 0.2), (page, 0.9), (QUOTES[0], 0.5), (f"{page} more", 0.1)]
    write_rows(tmp_path / "a.jsonl", [{"text": text, "score": score} for text, score in rows])
    for number, (keep, only, kept) in enumerate(((None, True, [0]), ("score", True, [0, 1]), ("score", False, [1]))):
        how: dict[str, Any] = {"keep": keep, "drop_contained_only": only, **CONTAINING}
        report = gpulsh.deduplicate_files(tmp_path / "a.jsonl", tmp_path / f"{number}", **how).report
        dropped = {row["duplicate_of_row"] for row in evidence(tmp_path / f"{number}")}
        assert report["funnel"]["kept"] == len(kept) and dropped == {kept[-1]}
        assert ("--drop-containing" in str(command(report))) == (not only)
        assert ("one contains 0.8 or more" in " ".join(in_words(report["parameters"]))) == (not only)


def test_protected_pages_drop_what_contains_them(tmp_path: Path) -> None:
    """Or is contained in them; they are never dropped themselves."""
    guarded = write_rows(tmp_path / "a.jsonl", [QUOTES[0], LONG[1]])
    given = write_rows(tmp_path / "b.jsonl", [LONG[0], QUOTES[2], LONG[2], QUOTES[4]])
    for only, kept in ((True, [LONG[0], LONG[2]]), (False, [LONG[2]])):
        out = tmp_path / f"{only}"
        gpulsh.deduplicate_files(given, out, protect=guarded, drop_contained_only=only, **CONTAINING)
        assert [row["text"] for row in read_rows(out / "data/b.jsonl")] == kept


def test_an_index_drops_contained_documents_only(tmp_path: Path) -> None:
    given, index = write_rows(tmp_path / "a.jsonl", LONG), tmp_path / "index"
    with pytest.raises(ParameterError, match="drop_contained_only=False cannot be combined with an index"):
        gpulsh.deduplicate_files(given, tmp_path / "out", index=index, drop_contained_only=False, **CONTAINING)


def test_sources_apart(tmp_path: Path) -> None:
    a, b = (
        write_rows(tmp_path / "a.jsonl", [QUOTES[0], LONG[0], QUOTES[2]]),
        write_rows(tmp_path / "b.jsonl", [QUOTES[1], LONG[1]]),
    )
    for relation, wanted in (("within", [(a, 0, a)]), ("across", [(a, 2, b), (b, 0, a)])):
        gpulsh.deduplicate_files([a, b], tmp_path / relation, **{relation: True}, **CONTAINING)
        found = [(row["file"], row["row"], row["duplicate_of_file"]) for row in evidence(tmp_path / relation)]
        assert found == wanted


@pytest.mark.parametrize("stage", ["weigh", "prefix", "join"])
def test_a_run_goes_on_behind_each_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    given = write_rows(tmp_path / "a.jsonl", CONTAINED)
    gpulsh.deduplicate_files(given, tmp_path / "whole", **CONTAINING)
    monkeypatch.setattr("gpulsh.run.file_run.cut", lambda memory, sizes: SMALL)
    with interrupting(stage):
        gpulsh.deduplicate_files(given, tmp_path / "out", **CONTAINING)
    result = gpulsh.deduplicate_files(given, tmp_path / "out", resume=True, **CONTAINING)
    assert results(tmp_path / "out") == results(tmp_path / "whole")
    assert "sign" in result.funnel["resumed"] and (stage == "weigh" or "weigh" in result.funnel["resumed"])


def test_no_count_depends_on_the_secret_or_the_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefixes are of public fingerprints, and of slots that the documents decide."""
    for module in ("decide.prefixes", "run.stages.collide"):
        for name in ("FEWEST_BITS", "MOST_BITS"):
            monkeypatch.setattr(f"gpulsh.{module}.{name}", 3)
    texts = [" ".join(f"w{number % 97}" for number in range(start, start + 40)) for start in range(0, 1500, 29)]
    given, told = write_rows(tmp_path / "a.jsonl", texts), []
    for number in range(2):
        options = {"threshold": 0.9, "secret": bytes([number] * 32), **CONTAINING}
        told.append(gpulsh.deduplicate(texts, **options).funnel.to_dict())
        with cut_as(SMALL if number % 2 else Cut(memory=MEMORY, partition=1 << 40, digests=1 << 40, group=1 << 40)):
            told.append(gpulsh.deduplicate_files(given, tmp_path / f"{number}", **options).funnel)
    for kind in (told[::2], told[1::2]):
        assert len({(one["candidates"], one["similar"], one["dropped"]) for one in kind}) == 1
    assert told[0]["dissimilar"] > 0


def test_the_words_say_containment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = write_rows(tmp_path / "a.jsonl", CONTAINED)
    asked = ["--measure", "containment", "--backend", "cpu", "--verbose"]
    assert main(["dedup", given, "-o", str(tmp_path / "out"), *asked]) == 0
    assert "exact containment 0.8 or more" in capsys.readouterr().out
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["parameters"]["measure"] == "containment"
    assert "bucket" not in report["definitions"]["candidates"]["meaning"]
    stages = list(report["funnel"]["seconds"])
    assert stages[2:5] == list(OF_CONTAINMENT) and {*stages} <= {*OF_FILES, *OF_CONTAINMENT} - {"collide"}
    if missing() is None:
        html = (tmp_path / "out/report.html").read_text(encoding="utf-8")
        assert "Containment in the kept document" in html and "Jaccard" not in html and "banding finds" not in html
