"""Threads and processes share an index, and no answer to any of them is lost.

Whatever runs at once leaves what the same calls leave in some order, one after another, and each was answered so.
"""

import copy
import fcntl
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import permutations
from pathlib import Path
from threading import Barrier, Event, Thread
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from gpulsh import Index
from gpulsh.errors import OutputError, ParameterError
from gpulsh.index import admission, collection, merging
from gpulsh.index.keys import checked_keys, sorted_keys
from gpulsh.index.snapshot import ABSENT
from tests.index.test_contents import SHAPE, SHINGLING, THRESHOLD, naive_index, new_index, small_limits, texts
from tests.support.naive_index import NaiveIndex
from tests.support.runs import SOAK, python

PAGES = [" ".join(f"{page}{i}" for i in range(12)) for page in "abcdefgh"]
KEYS = "klmnop"

page = st.one_of(texts, st.sampled_from(PAGES))
keys = st.lists(st.sampled_from(KEYS), unique=True, min_size=1, max_size=2)
documents = keys.flatmap(lambda own: st.tuples(st.just(own), st.lists(page, min_size=len(own), max_size=len(own))))
CALLS = st.one_of(
    st.tuples(st.just("add"), documents),
    st.tuples(st.just("insert"), documents),
    st.tuples(st.just("remove"), st.tuples(keys.map(lambda own: own[:1]))),
    st.tuples(st.just("query"), st.tuples(st.lists(page, max_size=3))),
    st.tuples(st.sampled_from(["compact", "save"]), st.just(())),
)


@pytest.fixture(autouse=True, scope="module")
def frequent_switches() -> Iterator[None]:
    """Python switches between threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def run_at_once(calls: list[Callable[[], Any]]) -> list[Any]:
    """Start all calls together; returns each one's result or error."""
    begin, found = Barrier(len(calls)), [None] * len(calls)

    def run(place: int) -> None:
        begin.wait()
        try:
            found[place] = calls[place]()
        except Exception as error:
            found[place] = error

    threads = [Thread(target=run, args=(place,)) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


# --- in any order


def answer_to(index: Index, verb: str, given: Any) -> Any:
    answer = getattr(index, verb)(*given)
    if verb == "add":
        return [(key, similarity) for _, key, similarity in answer]
    return list(answer) if verb == "query" else answer


def expected_answer(naive: NaiveIndex, verb: str, given: Any) -> Any:
    """The expected answer, or the expected error."""
    known = set(naive.keys())
    if verb in ("save", "compact"):
        return None
    if verb != "query" and (known.isdisjoint(given[0]) if verb == "remove" else not known.isdisjoint(given[0])):
        return ParameterError
    if verb == "add":
        return [(key, float(np.float32(similarity))) for key, similarity in naive.add(*given)]
    return getattr(naive, verb)(*given)


def replay(naive: NaiveIndex, calls: list[Any], answers: list[Any], after: Callable[[NaiveIndex], bool]) -> Any:
    """The naive index after the calls in some order that gives each answer and satisfies `after`."""
    for order in permutations(range(len(calls))):
        found = naive.copy()
        wanted = [(expected_answer(found, *calls[place]), answers[place]) for place in order]
        same = (answer == want or (isinstance(want, type) and isinstance(answer, want)) for want, answer in wanted)
        if all(same) and after(found):
            return found
    return None


def keys_in_order(index: Index) -> list[str]:
    """The keys in the order of insertion, which decides later ties."""
    array, _ = checked_keys(list(KEYS))
    numbers = index.collection.contents.find(sorted_keys(array)).tolist()
    return [key for number, key in sorted(zip(numbers, KEYS, strict=True)) if number != ABSENT]


class Machine(RuleBasedStateMachine):
    """Two or three verbs at once, repeatedly; there are few keys, so that the verbs meet."""

    def __init__(self) -> None:
        super().__init__()
        self.limits = small_limits()
        self.limits.__enter__()
        self.folder = Path(tempfile.mkdtemp())

    def teardown(self) -> None:
        self.index.close()
        self.limits.__exit__(None, None, None)
        shutil.rmtree(self.folder)

    @initialize()
    def begin(self) -> None:
        self.index, self.naive = new_index(), naive_index()
        self.index.save(self.folder / "index")

    @rule(calls=st.lists(CALLS, min_size=2, max_size=3))
    def together(self, calls: list[Any]) -> None:
        answers = run_at_once([partial(answer_to, self.index, *call) for call in calls])
        held, order = list(self.index.query(PAGES)), keys_in_order(self.index)
        assert len(order) == len(self.index)
        self.naive = replay(
            self.naive, calls, answers, lambda naive: naive.query(PAGES) == held and list(naive.keys()) == order
        )
        assert self.naive is not None, (calls, answers, held, order)
        assert [key in self.index for key in KEYS] == [key in order for key in KEYS]

    @rule()
    def reopen(self) -> None:
        self.index.save()
        self.index.close()
        self.index = Index.open(self.folder / "index", backend="cpu", threads=1)


Machine.TestCase.settings = settings(max_examples=80 if SOAK else 12, stateful_step_count=8 if SOAK else 6)
TestMachine = Machine.TestCase


def test_documents_added_by_many_threads_are_all_found(tmp_path: Path) -> None:
    index, threads, each = new_index(), 8, 15
    given = {number: " ".join(f"{number}x{i}" for i in range(12)) for number in range(threads * each)}

    def add(first: int) -> None:
        for number in range(first, len(given), threads):
            assert list(index.add([number], [given[number]])) == [(True, number, 1.0)]
            assert index.query([given[number]]).keys.tolist() == [number]

    assert run_at_once([partial(add, first) for first in range(threads)]) == [None] * threads
    for _ in range(2):
        assert len(index) == len(given) and all(number in index for number in given)
        index.save(tmp_path / "i")
        index.close()
        index = Index.open(tmp_path / "i", backend="cpu")


# --- while it changes


def test_queries_run_while_documents_are_added() -> None:
    index = new_index()
    index.add(["a"], [PAGES[0]])
    inside, go_on = Event(), Event()

    def slow(*given: Any) -> Any:
        inside.set()
        assert go_on.wait(60)
        return admission.admit(*given)

    with mock.patch.object(collection, "admit", slow):
        adding = Thread(target=index.add, args=(["b"], [PAGES[0] + " more"]))
        adding.start()
        try:
            assert inside.wait(60)
            assert list(index.query(PAGES)) == [(0, "a", 1.0)]
            assert len(index) == 1 and index.dropped() == 0 and "b" not in index and len(index.pairs()) == 0
        finally:
            go_on.set()
            adding.join()
    assert len(index) == 2 and "b" in index


@pytest.mark.parametrize("saved", [False, True])
def test_a_query_sees_one_state(saved: bool, tmp_path: Path) -> None:
    """A match keeps its key, though its document was removed meanwhile and its segment merged."""
    index = new_index()
    index.insert(["a", "b", "c"], [PAGES[0], PAGES[0], PAGES[1]])
    if saved:
        index.save(tmp_path / "i")

    def changing(*given: Any) -> Any:
        found = admission.find_similar(*given)
        index.remove(["a", "c"])
        index.compact()
        return found

    with mock.patch.object(collection, "find_similar", changing):
        assert list(index.query(PAGES[:2])) == [(0, "a", 1.0), (0, "b", 1.0), (1, "c", 1.0)]
    assert list(index.query(PAGES[:2])) == [(0, "b", 1.0)]
    index.insert(["a"], [PAGES[0]])
    walk = index.buckets()
    found = [next(walk)]
    index.remove(["b"])
    index.compact()
    found += walk
    assert [(band, keys.tolist()) for band, keys in found] == [(band, ["b", "a"]) for band in range(SHAPE["bands"])]
    assert list(index.buckets()) == []
    index.close()


# --- contexts


def test_a_context_saves_unless_it_raises(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    path = tmp_path / "i"
    with Index.create(path, threshold=THRESHOLD, shingling=SHINGLING, **SHAPE, backend="cpu") as index:
        index.add(["a"], [PAGES[0]])
    with pytest.raises(KeyError), Index.open(path, backend="cpu") as index:
        index.add(["b"], [PAGES[1]])
        raise KeyError
    with Index.open(path, backend="cpu") as index:
        commits = index.collection.folder.manifest.generation
        assert len(index) == 1 and "b" not in index
    assert index.collection.folder.manifest.generation == commits  # nothing to save
    with Index.open(path, backend="cpu") as index:
        index.remove(["a"])
        index.add(["c", "d"], [PAGES[2], PAGES[2]])
    with Index.open(path, backend="cpu") as index:
        index.remove(["c"])
        index.close()  # the removal is not committed
    assert len(Index.open(path, backend="cpu")) == 2
    with pytest.raises(KeyError), Index.create(tmp_path / "never", backend="cpu") as index:
        index.add(["a"], [PAGES[0]])
        raise KeyError
    assert not (tmp_path / "never").exists() and not recwarn.list


def test_a_context_in_memory_warns_of_unsaved_documents(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    warned = pytest.warns(UserWarning, match=r"in memory only, documents unsaved: 2; call save\(path\)")
    with warned as warnings, new_index() as index:
        index.add(["a", "b"], [PAGES[0]] * 2)
    assert warnings[0].filename == __file__
    assert len(index) == 2
    with new_index() as index:
        index.insert([], [])
    with new_index() as index:
        index.insert(["a"], [PAGES[0]])
        index.save(tmp_path / "i")
    with pytest.raises(KeyError), new_index() as index:
        index.insert(["a"], [PAGES[0]])
        raise KeyError
    assert not recwarn.list


# --- several processes, or several that open it


def test_a_closed_index_is_saved_unless_another_writer_changed_it(tmp_path: Path) -> None:
    first = new_index()
    first.save(tmp_path / "i")
    first.insert(["a"], [PAGES[0]])
    first.close()
    with Index.open(tmp_path / "i", backend="cpu") as second:
        second.insert(["b"], [PAGES[1]])
        with pytest.raises(OutputError, match="another process or Index writes to it"):
            first.save()
    for verb in (first.save, first.compact, partial(first.remove, ["a"]), partial(first.add, ["c"], ["x"])):
        with pytest.raises(OutputError, match="changed it since"):
            verb()
    assert list(Index.open(tmp_path / "i", backend="cpu").query(PAGES[:2])) == [(1, "b", 1.0)]
    third = Index.open(tmp_path / "i", backend="cpu")
    third.insert(["c"], [PAGES[2]])
    third.close()
    third.save()
    third.close()
    assert len(Index.open(tmp_path / "i", backend="cpu")) == 2


def test_a_lock_on_a_removed_file_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new index closes before its first save, just before another process locks it."""
    (tmp_path / "i").mkdir()
    first = Index.create(tmp_path / "i", backend="cpu")
    lock = fcntl.flock

    def later(handle: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        first.close()
        lock(handle, how)

    monkeypatch.setattr(fcntl, "flock", later)
    with pytest.raises(OutputError, match="another process or Index writes to it"):
        Index.create(tmp_path / "i", backend="cpu")
    Index.create(tmp_path / "i", backend="cpu").close()


def test_a_replaced_index_is_not_written_to(tmp_path: Path) -> None:
    path = tmp_path / "i"
    with new_index() as index:
        index.save(path)
    shutil.rmtree(path)
    new_index().save(path)
    with pytest.raises(OutputError, match="holds another index than when it was opened; open it again"):
        index.add(["b"], [PAGES[0]])  # under a secret by which no copy is known


def test_an_index_stays_in_its_folder_if_the_program_changes_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        with new_index() as index:
            index.add(["a"], [PAGES[0]])
            index.save("i")
    monkeypatch.chdir(tmp_path / "one")
    with Index.open("i", backend="cpu") as index:
        index.add(["b"], [PAGES[1]])
        monkeypatch.chdir(tmp_path / "other")  # which has an index of this name, too
    assert [len(Index.open(tmp_path / name / "i", backend="cpu")) for name in ("one", "other")] == [2, 1]


@pytest.mark.parametrize("there", [False, True])
def test_an_index_closed_before_its_first_save_says_so(there: bool, tmp_path: Path) -> None:
    path = tmp_path / "i"
    if there:
        path.mkdir()
    with mock.patch.object(merging, "SPILL_BYTES", 0):  # its segments are in the folder
        index = Index.create(path, threshold=THRESHOLD, shingling=SHINGLING, **SHAPE, backend="cpu")
        index.insert(["a"], [PAGES[0]])
        index.close()
        index.close()
    assert path.exists() == there
    for verb in (index.save, index.compact, partial(index.insert, ["b"], ["x"])):
        with pytest.raises(OutputError, match="was closed before its first save"):
            verb()
    assert list(index.query(PAGES[:1])) == [(0, "a", 1.0)]
    index.save(tmp_path / "other")
    assert list(Index.open(tmp_path / "other", backend="cpu").query(PAGES[:1])) == [(0, "a", 1.0)]
    index.close()


FORKED = """
import os, sys
from gpulsh import Index
from gpulsh.errors import OutputError

path, pages = sys.argv[1], ["a b c d e f g", "h i j k l m n", "o p q r s t u"]
index = Index.create(path, backend="reference")
index.insert(["a"], pages[:1])
to_child, to_parent = os.pipe(), os.pipe()

def refused():
    try:
        index.insert(["b"], pages[1:2])
    except OutputError as error:
        return "another process" in str(error)
    return False

if os.fork() == 0:
    try:
        index.close()  # which is not the child's to remove
        ok = refused() and index.query(pages).keys.tolist() == ["a"]
        os.write(to_parent[1], b"1" if ok else b"0")
        os.read(to_child[0], 1)
        with Index.open(path, backend="reference") as other:
            other.insert(["c"], pages[2:])
        os.write(to_parent[1], b"1")
    finally:
        os._exit(0)
os.close(to_parent[1])
assert os.read(to_parent[0], 1) == b"1"
index.save()
index.close()  # though the child lives, and has the handle of the lock
with Index.open(path, backend="reference") as again:
    again.insert(["d"], ["v w x y z a a"])
os.write(to_child[1], b"1")
assert os.read(to_parent[0], 1) == b"1"
os.wait()
print(Index.open(path, backend="reference").query([*pages, "v w x y z a a"]).keys.tolist())
"""


def test_a_forked_process_is_another_reader(tmp_path: Path) -> None:
    assert python(FORKED, tmp_path / "i") == "['a', 'c', 'd']\n"


FORKED_WHILE_A_THREAD_WRITES = """
import os, signal, sys, threading
from gpulsh import Index

page, parent, reading, forked = "a b c d e f g", os.getpid(), threading.Event(), threading.Event()

def read(keys):
    if os.getpid() == parent:
        reading.set()
        forked.wait()
    return [page] * len(keys)

index = Index.create(sys.argv[1], backend="reference", evidence="source", read=read)
index.insert(["a"], [page])
writer = threading.Thread(target=index.add, args=(["b"], [page + " h"]))
writer.start()
reading.wait()
child = os.fork()
if child == 0:
    signal.alarm(60)
    found = list(index.query([page]))
    index.close()
    os._exit(0 if found == [(0, "a", 1.0)] else 1)
status = os.waitpid(child, 0)[1]
forked.set()
writer.join()
print(status, len(index))
"""


def test_a_process_forked_while_a_thread_writes_does_not_wait_for_it(tmp_path: Path) -> None:
    """The thread is not in the child, and would hold its locks there forever."""
    assert python(FORKED_WHILE_A_THREAD_WRITES, tmp_path / "i") == "0 2\n"


def test_an_index_cannot_be_copied_or_pickled() -> None:
    for way in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(ParameterError, match="cannot be pickled or copied; save it, and open its folder again"):
            way(new_index())
