"""The index equals one of dictionaries and sets, after any inserts, adds, removals, saves, openings and compactions."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import gpulsh
from gpulsh import Index, Shingling
from gpulsh.backends import cpu as cpu_backend
from gpulsh.backends.protocol import Sizes
from gpulsh.decide import meeting
from gpulsh.errors import InputError, InputTypeError, OutputError, ParameterError
from gpulsh.index import admission, merging
from gpulsh.index import folder as index_folder
from gpulsh.index import segment as segments
from gpulsh.index.evidence import blocks
from gpulsh.index.snapshot import Snapshot
from tests.support.naive import tokens
from tests.support.naive_index import NaiveIndex
from tests.support.runs import SOAK
from tests.support.texts import WORDS, known
from tests.support.traced import at_most

SHAPE = {"num_perm": 16, "bands": 8, "rows": 2}
THRESHOLD = 0.5
SHINGLING = Shingling(unit="word", size=2)

words = st.sampled_from(["a", "b", "c", "d", "e", "漢", "É", "🙂", "\0"])
texts = st.one_of(
    st.none(),
    st.lists(words, max_size=12).map(" ".join),
    # Near-copies of a few pages: their buckets are crowded.
    st.tuples(st.sampled_from(["p", "q"]), st.integers(0, 30)).map(
        lambda page: " ".join(f"{page[0]}{i}" if i != page[1] else "other" for i in range(20))
    ),
)


@contextmanager
def small_limits(batch: int = 200) -> Iterator[None]:
    """Lower every limit so far that small tests exceed it."""
    with (
        mock.patch.object(admission, "LARGE_BUCKET", 3),
        mock.patch.multiple(merging, SPILL_BYTES=2000, SETS_AT_ONCE=3, ROWS_AT_ONCE=5, SAMPLE_STEP=2),
        mock.patch.object(merging, "NARROW_LIMIT", 12),
        mock.patch.object(segments, "NARROW_LIMIT", 12),
        mock.patch.multiple(blocks, BLOCK_VALUES=24, read_block=lru_cache(2)(blocks.read_block.__wrapped__)),
        mock.patch.object(cpu_backend, "SIZES", Sizes(batch=batch, tile=300, largest_tile=600)),
    ):
        yield


def new_index(**options: Any) -> Index:
    shape: dict[str, Any] = {"threshold": THRESHOLD, "shingling": SHINGLING, **SHAPE, **options}
    return Index(backend="cpu", threads=1, **shape)


def naive_index(measure: str = "jaccard") -> NaiveIndex:
    return NaiveIndex(THRESHOLD, SHINGLING.size, **SHAPE, measure=measure)


def assert_added(added: Any, wanted: list[tuple[Any, float]], keys: list[Any]) -> None:
    assert added.duplicate_of.tolist() == [key for key, _ in wanted]
    assert added.keep.tolist() == [key == own for (key, _), own in zip(wanted, keys, strict=True)]
    np.testing.assert_array_equal(added.similarity, np.array([s for _, s in wanted], np.float32))


def assert_same(index: Index, naive: NaiveIndex, asked: list[str | None]) -> None:
    found = index.query(asked)
    rows = list(zip(found.positions.tolist(), found.keys.tolist(), found.similarity.tolist(), strict=True))
    wanted = naive.query(asked)
    assert rows == wanted
    ranks = [sum(other[0] == row[0] for other in wanted[:at]) for at, row in enumerate(wanted)]
    # The most similar, ties to those that came first.
    assert list(index.query(asked, top=2)) == [row for row, rank in zip(wanted, ranks, strict=True) if rank < 2]
    assert sorted(index.pairs()) == sorted(naive.pairs())
    assert len(index) == len(naive.keys())
    assert index.dropped() == sum(not document.held for document in naive.documents)
    assert list(index.counts()) == naive.counts()


class Machine(RuleBasedStateMachine):
    """Any sequence of verbs, some of them on a reopened index."""

    measure = "jaccard"

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[Any, str | None] = {}
        self.made: dict[str, Any] = {}  # further parameters of a new index
        self.opened: dict[str, Any] = {}  # and of one that is opened
        self.limits = small_limits()
        self.limits.__enter__()
        self.folder = Path(tempfile.mkdtemp()) / "index"

    def teardown(self) -> None:
        self.index.close()
        self.limits.__exit__(None, None, None)
        shutil.rmtree(self.folder.parent)

    @initialize(kind=st.sampled_from([str, int]))
    def begin(self, kind: Any) -> None:
        self.index = new_index(measure=self.measure, **self.made)
        self.naive, self.saved = naive_index(self.measure), None
        self.kind, self.count = kind, 0

    def keys(self, count: int) -> list[Any]:
        self.count += count
        return [self.kind(number * 7919 % 10007) for number in range(self.count - count, self.count)]

    @rule(given=st.lists(texts, max_size=6))
    def insert(self, given: list[Any]) -> None:
        keys = self.keys(len(given))
        self.texts.update(zip(keys, given, strict=True))
        self.index.insert(keys, given)
        self.naive.insert(keys, given)

    @rule(given=st.lists(texts, max_size=12))
    def add(self, given: list[Any]) -> None:
        keys = self.keys(len(given))
        self.texts.update(zip(keys, given, strict=True))
        assert_added(self.index.add(keys, given), self.naive.add(keys, given), keys)

    @rule(asked=st.lists(texts, max_size=6))
    def query(self, asked: list[Any]) -> None:
        assert_same(self.index, self.naive, asked)

    @precondition(lambda self: self.naive.documents)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        chosen = data.draw(st.lists(st.sampled_from(self.naive.keys()), unique=True, max_size=3))
        self.index.remove(chosen)
        self.naive.remove(chosen)
        for key in chosen:
            assert key not in self.index

    @rule()
    def save(self) -> None:
        self.index.save(self.folder)
        self.saved = self.naive.copy()

    @precondition(lambda self: self.saved)
    @rule(check=st.booleans())
    def reopen(self, check: bool) -> None:
        self.index.close()
        self.index = Index.open(self.folder, check=check, backend="cpu", threads=1, **self.opened)
        self.naive = self.saved.copy()

    @rule()
    def compact(self) -> None:
        self.index.compact()
        if self.saved:
            self.saved = self.naive.copy()

    @invariant()
    def knows_its_keys(self) -> None:
        """It also knows the keys of dropped documents."""
        assert len(self.index) == len(self.naive.keys())
        for key in self.naive.keys()[:5]:
            assert key in self.index


Machine.TestCase.settings = settings(max_examples=80 if SOAK else 12, stateful_step_count=20 if SOAK else 15)
TestMachine = Machine.TestCase


# --- several batches, crowded buckets, real text


@settings(max_examples=18, deadline=None)
@given(st.lists(texts, max_size=40), st.data(), st.sampled_from([60, 400, 1 << 20]))
def test_batches_of_any_size_decide_as_one_run(given: list[Any], data: st.DataObject, batch: int) -> None:
    """Its counts equal those of loops over that run's decisions."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(given)), max_size=4)))
    wanted = gpulsh.deduplicate(given, threshold=THRESHOLD, shingling=SHINGLING, **SHAPE, backend="cpu")
    words = [tokens(text or "", "word") for text in given]
    counts = {at: [at, 0, 0] for at in np.flatnonzero(wanted.keep).tolist()}
    for at, witness in enumerate(wanted.duplicate_of.tolist()):
        if at != witness:
            counts[witness][1 if words[at] == words[witness] else 2] += 1
    with small_limits(batch), tempfile.TemporaryDirectory() as folder, new_index() as index:
        index.save(Path(folder) / "index")
        for start, stop in zip([0, *cuts], [*cuts, len(given)], strict=True):
            added = index.add(range(start, stop), given[start:stop])
            assert added.duplicate_of.tolist() == wanted.duplicate_of[start:stop].tolist()
            assert added.keep.tolist() == wanted.keep[start:stop].tolist()
            np.testing.assert_array_equal(added.similarity, wanted.similarity[start:stop])
            index.save()
        for _ in range(2):
            assert [list(row) for row in index.counts()] == list(counts.values())
            index.compact()


PAGE, NEAR, FAR = "a b c d e f", "a b c d e f g", "m n o p q"
ROTATED = [known(" ".join(WORDS[i:] + WORDS[:i])) for i in range(len(WORDS))]
LIVES: dict[str, list[tuple[Any, ...]]] = {
    "an index without documents is compacted twice": [
        *(("insert", ["a"], [PAGE]), ("remove", ["a"]), ("compact",), ("compact",), ("insert", ["a"], [PAGE]))
    ],
    # Even where the first copy was removed, and a later one is held.
    "a copy of a dropped document stays near its witness": [
        *(("add", ["1"], [PAGE]), ("add", ["2"], [NEAR]), ("insert", ["3"], [NEAR]), ("add", ["4"], [NEAR])),
        *(("add", ["5"], [PAGE]), ("remove", ["2"])),
    ],
    "a removed document is no witness": [
        *(("add", ["x", "y", "z"], [PAGE, NEAR, NEAR]), ("remove", ["x"]), ("add", ["y"], [NEAR]))
    ],
    "a copy gets the witness of the first copy": [
        *(("add", ["x", "y"], [NEAR, NEAR + " k"]), ("add", ["z"], [NEAR + " k"]), ("insert", ["p", "p2"], [FAR] * 2)),
        *(("insert", ["q", "q2"], [FAR] * 2), ("add", ["r"], [FAR])),
    ],
    "a dropped document stays in the index": [
        *(("add", ["a", "b", "c"], ["one two three", "One two three!", FAR]), ("remove", ["b"]))
    ],
    "words of many scripts": [("add", [f"键{i}🙂\0" for i in range(len(ROTATED))], ROTATED)],
}


@pytest.mark.parametrize("spill", [0, 1 << 30])  # a segment for each call, or one
@pytest.mark.parametrize("name", LIVES)
def test_sequences_of_calls_equal_the_naive_index(name: str, spill: int, tmp_path: Path) -> None:
    naive, asked = naive_index(), [PAGE, NEAR, FAR, "one two three", *ROTATED[:9]]
    with mock.patch.object(merging, "SPILL_BYTES", spill), new_index() as index:
        index.save(tmp_path / "i")
        for verb, *given in LIVES[name]:
            for key in given[0] if verb in ("add", "insert") else ():
                assert key not in index
            answers = [getattr(one, verb)(*given) for one in (index, naive)]
            if verb == "add":
                assert_added(*answers, given[0])
            assert all(map(index.__contains__, naive.keys()))
            assert_same(index, naive, asked)
        index.save()
        assert_same(Index.open(tmp_path / "i", backend="cpu"), naive, asked)
        for key in naive.keys()[:2]:  # the second was dropped in some
            with pytest.raises(ParameterError, match="which is in the index"):
                index.add([key], ["seven eight"])


def test_a_template_of_many_held_documents_is_compared_once() -> None:
    """100 new documents meet 300 held ones in large buckets: one join compares them."""
    page = [f"w{number}" for number in range(60)]
    given = [" ".join([*page[:30], *(f"x{number}y{i}" for i in range(9)), *page[30:]]) for number in range(400)]
    index = Index(threshold=0.9, num_perm=16, bands=8, rows=2, backend="cpu")
    assert index.add(range(300), given[:300]).keep.all()
    with mock.patch.object(meeting, "LargeBucketJoin", wraps=meeting.LargeBucketJoin) as joins:
        assert len(index.query(given)) == 300
    assert joins.call_count == 1


# --- refusals


def test_keys_must_be_unique_and_of_one_type() -> None:
    index = new_index()
    index.insert(["a"], ["one two"])
    wrongs: list[tuple[Any, str]] = [([1], "integer"), (["a"], "is in the index"), (["b", "b"], "as keys")]
    wrongs += [([None], "None"), ([True], "True"), (["b", 2], r"keys\[1\] is 2"), (["\ud800"], "UTF-8"), ("ab", "list")]
    for keys, message in [*wrongs, ({"b", "c"}, "set, which has no order")]:
        given = ["text"] * len(keys)
        for verb in (index.insert, index.add):
            with pytest.raises(ParameterError, match=message):
                verb(keys, given)
    with pytest.raises(ParameterError, match="keys is the class list; give a list"):
        index.add(list, ["a"])
    with pytest.raises(ParameterError, match=r"integers from -2\^63 to 2\^63 - 1"):
        new_index().insert([1 << 63], ["a"])
    with pytest.raises(ParameterError, match="one key for each text"):
        index.insert(["x", "y"], ["one"])
    with pytest.raises(InputTypeError, match=r"texts\[1\] is 5"):
        index.insert(["x", "y"], ["one two three", 5])
    with pytest.raises(ParameterError, match="the key 'z' is not in the index"):
        index.remove(["a", "z"])
    with pytest.raises(ParameterError, match="2 keys are not in the index, such as 'z'; leave them out"):
        index.remove(["z", "a", "y"])
    assert len(index) == 1 and "a" in index and "x" not in index and 1 not in index and None not in index
    assert "\ud800" not in index and 10**30 not in index


NO_PATH = "which no file can have as its name; give"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [(5, "type int; give"), (b"i", "type bytes; give"), ("", "empty; give"), ("\ud800", NO_PATH), ("a\0b", NO_PATH)],
)
def test_wrong_index_paths_are_refused(wrong: Any, message: str) -> None:
    for verb in (new_index().save, Index.open, Index.create):
        with pytest.raises(ParameterError, match=f"{message} the path of a folder"):
            verb(wrong)


def test_files_and_broken_links_are_refused_as_index_folders(tmp_path: Path) -> None:
    index = new_index()
    assert repr(index) == "<gpulsh.Index in memory, of threshold 0.5>"
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("nothing")
    for place in ("file", "link"):
        with pytest.raises(InputError, match=rf"{place}: is not a folder"):
            Index.open(tmp_path / place)
        for verb in (index.save, partial(Index.create, backend="cpu")):
            with pytest.raises(OutputError, match=rf"{place}: is not a folder; give a folder"):
                verb(tmp_path / place)
    index.save(tmp_path / "i")
    assert repr(index) == f"<gpulsh.Index in {tmp_path / 'i'}, of threshold 0.5>"
    index.close()


def test_query_refuses_thresholds_below_the_indexs() -> None:
    index = Index(threshold=0.5, backend="reference")
    index.insert(["a"], ["one two three four five six"])
    asked = ["one two three four five six seven"]  # 2 shingles of 3
    (row,) = index.query(asked)
    assert [type(value) for value in row] == [int, str, float] and list(index.query([])) == []
    for threshold in (None, 0.5, np.float32(0.5), np.float64(0.6), np.int64(1)):
        found = index.query(asked, threshold=threshold)
        assert len(found) == (threshold is None or bool(threshold <= 2 / 3)), threshold
    wrongs: list[tuple[str, Any]] = [("threshold", wrong) for wrong in (True, "0.9", 0.4, 1.5)]
    wrongs += [("top", wrong) for wrong in (0, -1, 2.5, True, "2", np.array([1, 2]))]
    for name, wrong in wrongs:
        with pytest.raises(ParameterError, match=f"^{name} is .*give "):
            index.query(asked, **{name: wrong})


def test_readers_see_one_state_and_only_one_writer_is_allowed(tmp_path: Path) -> None:
    writer = new_index()
    writer.insert(["a"], ["one two three"])
    writer.save(tmp_path / "i")
    reader = Index.open(tmp_path / "i", backend="cpu")
    other = Index.open(tmp_path / "i", backend="cpu")
    writer.insert(["b"], ["one two three"])
    assert reader.query(["one two three"]).keys.tolist() == ["a"]
    with pytest.raises(OutputError, match="writes to it"):
        other.insert(["c"], ["x"])
    writer.save()
    writer.remove(["a"])
    writer.compact()
    assert reader.query(["one two three"]).keys.tolist() == ["a"]
    assert Index.open(tmp_path / "i", backend="cpu").query(["one two three"]).keys.tolist() == ["b"]
    writer.close()
    other.insert(["a"], ["one two three"])  # it sees what was committed meanwhile
    assert other.query(["one two three"]).keys.tolist() == ["b", "a"]
    other.close()
    with pytest.raises(OutputError, match="is already an index"):
        new_index().save(tmp_path / "i")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").write_text("mine")
    with pytest.raises(OutputError, match="holds file"):
        new_index().save(tmp_path / "mine")


def test_a_reader_opens_what_a_compact_left_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = new_index()
    writer.insert(["a", "b"], ["one two three", "others"])
    writer.save(tmp_path / "i")
    writer.remove(["b"])
    read, compacted = index_folder.read_manifest, list[bool]()

    def read_before_it(path: Path) -> index_folder.Manifest:
        found = read(path)
        if not compacted:
            compacted.append(True)
            writer.compact()
        return found

    monkeypatch.setattr(index_folder, "read_manifest", read_before_it)
    assert Index.open(tmp_path / "i", backend="cpu").query(["one two three"]).keys.tolist() == ["a"]


def test_a_failed_save_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = new_index()
    index.insert(["a"], ["one two three"])
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("gpulsh.index.folder.commit_manifest", mock.Mock(side_effect=KeyboardInterrupt))
        index.save(tmp_path / "i")
    assert list(tmp_path.iterdir()) == []
    index.save(tmp_path / "i")
    assert len(Index.open(tmp_path / "i", backend="cpu")) == 1


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), max_size=20), st.data())
def test_first_copies_equal_a_plain_search(hashes: list[tuple[int, int]], data: st.DataObject) -> None:
    count = len(hashes)
    numbers, exact = np.arange(count), np.array(hashes, np.uint64).reshape(-1, 2)
    documents = segments.Documents(numbers, numbers, np.ones(count), np.zeros(count, np.int64))
    none = gpulsh.Fingerprints(np.empty(0, np.uint64), np.zeros(count + 1, np.int64))
    segment = segments.make_segment(documents, exact, np.zeros((count, 1), np.uint64), none)
    removed = sorted(data.draw(st.sets(st.integers(0, count), max_size=count)))
    asked = data.draw(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), max_size=20))
    snapshot = Snapshot([segment], np.array(removed, np.int64))
    live = [number for number in range(count) if number not in removed]
    wanted = [next((number for number in live if hashes[number] == one), -1) for one in asked]
    assert snapshot.first_copies(np.array(asked, np.uint64).reshape(-1, 2))[0].tolist() == wanted
    rows = data.draw(st.lists(st.integers(0, max(count - 1, 0)), min_size=len(asked), max_size=len(asked)))
    if count:
        found = segment.has_hashes(np.array(rows, np.int64), np.array(asked, np.uint64).reshape(-1, 2))
        assert found.tolist() == [hashes[row] == one for row, one in zip(rows, asked, strict=True)]


@pytest.mark.parametrize("evidence", ["index", "source"])
def test_many_copies_of_a_page_take_linear_memory(evidence: Any) -> None:
    """Memory grew with the square: 16,000 new copies of as many known ones took gigabytes."""
    count, page = 4000, "a b c d e f g"
    read = (lambda keys: [page] * len(keys)) if evidence == "source" else None
    index = Index(evidence=evidence, read=read, backend="cpu")
    with at_most(50 << 20):
        for first in range(0, 3 * count, count):
            index.add(range(first, first + count), [page] * count)
        index.insert([-1, *range(-count, -1)], [page] * count)
        assert index.query([page], top=1).keys.tolist() == [0]
        assert next(iter(index.counts())) == (0, 3 * count - 1, 0)


def test_the_length_is_counted_once() -> None:
    """Each `len` read all documents, so a service that asks for it after each `add` took time with the square."""
    index = Index(backend="cpu")
    index.add(range(3), ["a b c d e", "A b c d e", "f g h i j"])
    with mock.patch.object(segments.Segment, "is_live", side_effect=AssertionError):
        assert (len(index), index.dropped()) == (3, 1)


def test_one_document_starts_no_threads() -> None:
    index = Index(threads=4, backend="cpu")
    page = " ".join(f"w{number}" for number in range(50))
    with mock.patch("gpulsh.backends.parallel.ThreadPoolExecutor", side_effect=AssertionError):
        for key, text in enumerate([page, "something else", page + " more"]):
            assert index.add([key], [text]).keep.tolist() == [key < 2]
        assert index.query([page]).keys.tolist() == [0]


def test_a_folder_removed_while_it_is_opened_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed build may remove its folder between two reads of a process that opens it."""
    (tmp_path / "index").mkdir()
    is_folder = os.path.isdir

    def removed(path: Path) -> bool:
        with suppress(FileNotFoundError):
            (tmp_path / "index").rmdir()
        return is_folder(path)

    monkeypatch.setattr(os.path, "isdir", removed)
    with pytest.raises(InputError, match="index: no such folder"):
        Index.open(tmp_path / "index", backend="reference")


def test_a_file_that_cannot_be_mapped_is_an_error_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = Index(backend="cpu", **SHAPE)
    index.insert(["a"], ["one page"])
    index.save(tmp_path / "index")
    reason = "Memory mapping file failed: Cannot allocate memory"
    monkeypatch.setattr("pyarrow.memory_map", mock.Mock(side_effect=OSError(reason)))  # Arrow's errors have no number
    with pytest.raises(InputError, match=f"index: cannot be read: {reason}"):
        Index.open(tmp_path / "index", backend="cpu")
