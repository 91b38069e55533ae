"""Evidence at the source: a compact index reads texts again, and decides and answers as the full one."""

import gzip
import io
import json
import os
import random
import zipfile
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from threading import Thread
from typing import Any
from unittest import mock

import fsspec
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from gpulsh import Index
from gpulsh.backends import reference
from gpulsh.cli import main
from gpulsh.errors import ChangedInputError, InputError, ParameterError
from gpulsh.index import collection, segment
from gpulsh.index import folder as manifest
from gpulsh.index.evidence import texts as reading
from gpulsh.index.snapshot import MetSets
from gpulsh.io.file import File
from gpulsh.io.files import file_texts
from gpulsh.io.files.file_texts import SeekTable
from gpulsh.io.files.inputs import find_files
from gpulsh.io.files.read_options import ReadOptions
from gpulsh.run.index.jobs import add_to_index, build_index, query_index
from tests.index.test_contents import Machine, new_index
from tests.support.command import Command
from tests.support.files import read_rows, record, write_rows
from tests.support.texts import licences

OPTIONS = ["--backend", "cpu", "--threshold", "0.7", "--num-perm", "32"]


def reader_of(texts: dict[Any, Any]) -> Callable[[list[Any]], list[Any]]:
    return lambda keys: [texts[key] for key in keys]


class SourceMachine(Machine):
    """Any sequence of verbs decides and answers as the naive index, which holds everything.

    All texts are read again at once, or as often as they are compared.
    """

    def __init__(self) -> None:
        super().__init__()
        self.opened = {"read": reader_of(self.texts)}
        self.made = {"evidence": "source", **self.opened}
        self.reading = pytest.MonkeyPatch()
        self.reading.setattr(reading, "READ_AT_ONCE", 300)

    @rule(held=st.sampled_from([0, 1 << 28]))
    def hold(self, held: int) -> None:
        self.reading.setattr(collection, "MetSets", lambda _: MetSets(held))

    def teardown(self) -> None:
        super().teardown()
        self.reading.undo()


SourceMachine.TestCase.settings = settings(max_examples=15, stateful_step_count=15, deadline=None)
TestSourceMachine = SourceMachine.TestCase


# --- files of every kind


def write(name: str, texts: list[str]) -> None:
    write_rows(name, [{"id": f"{name} {row}", "body": text} for row, text in enumerate(texts)], 7)


def corpus() -> list[str]:
    """Real texts on one line each, some repeated unchanged, and some repeated with a change."""
    texts = [" ".join(text.split()) for text in licences()[::6]]
    chosen = random.Random(7).sample(texts, len(texts) // 2)
    return [*texts, *(text if len(text) % 2 else f"{text} and more" for text in chosen)]


NAMES = ("a.parquet", "b.jsonl", "c.jsonl.gz", "d.csv", "e.arrow")


@pytest.mark.parametrize("ids", [(), ("--id-column", "id")])
def test_an_index_at_the_source_answers_as_a_full_one(folder: Path, ids: tuple[str, ...], command: Command) -> None:
    texts = corpus()
    options = [*OPTIONS, "--text-column", "body", *ids]
    for number, name in enumerate(NAMES):
        write(name, texts[number :: len(NAMES)])
    for kind, other in (("index", "source"), ("source", "index")):
        first = command(f"index build {kind} {' '.join(NAMES[:2])} --evidence {kind} -o 0{kind}.jsonl", *options)
        assert first.status == 0
        for name in NAMES[2:4]:
            more = command(f"index add {kind} {name} -o {name}{kind}.jsonl", *options[:2], *options[6:])
            assert more.status == 0
        assert command(f"dedup {NAMES[4]} -o out-{kind} --index {kind} --keep longest", *options).status == 0
        refused = command(f"index add {kind} {NAMES[0]} --evidence {other}")
        assert refused.status == 2 and f"evidence {kind!r} and {other!r} was given" in refused.error
    for name in ("0{}.jsonl", "c.jsonl.gz{}.jsonl", "d.csv{}.jsonl", "out-{}/duplicates.parquet"):
        full, compact = (read_rows(name.format(kind)) for kind in ("index", "source"))
        assert full == compact and len(full) > 3
    os.chdir("out-source")  # places are absolute, and keys are as given
    full, compact = (Index.open(f"../{kind}", backend="cpu") for kind in ("index", "source"))
    for _ in range(2):
        assert list(full.query(texts)) == list(compact.query(texts))
        assert list(full.counts()) == list(compact.counts())
        compact.remove(compact.query(texts).keys[:1].tolist())
        full.remove(full.query(texts).keys[:1].tolist())
        compact.compact()
        full.compact()
    key = compact.query(texts).keys[0]
    assert key in compact and f"{key}0" not in compact and f"0{key}" not in compact
    for index in (full, compact):
        index.close()


def test_texts_at_urls_in_archives_and_moved_files_are_read_again(folder: Path) -> None:
    texts = corpus()
    files = fsspec.filesystem("memory")
    write("a.jsonl", texts)
    files.put("a.jsonl", "/known/a.jsonl")
    options = [*OPTIONS, "--text-column", "body", "--evidence", "source"]
    assert main(["index", "build", "remote", "memory://known/a.jsonl", *options]) == 0
    assert main(["index", "build", "local", "a.jsonl", *options]) == 0
    wanted = [(at, key, how) for at, key, how in Index.open("local", backend="cpu").query(texts)]
    with zipfile.ZipFile("a.zip", "w") as archive:
        archive.write("a.jsonl")
    assert main(["index", "build", "packed", "zip://::a.zip", *options]) == 0
    os.mkdir("elsewhere")
    os.chdir("elsewhere")
    assert len(Index.open("../packed", backend="cpu").query(texts)) == len(wanted)
    os.chdir("..")
    os.unlink("a.jsonl")
    found = [(at, key, how) for at, key, how in Index.open("remote", backend="cpu").query(texts)]
    assert [(at, key.removeprefix("memory://known/"), how) for at, key, how in found] == wanted and len(wanted) > 99
    moved = Index.open("local", backend="cpu", read=lambda keys: [texts[int(key.split(":")[1])] for key in keys])
    assert list(moved.query(texts)) == wanted
    files.rm("/known/a.jsonl")


def test_an_index_at_the_source_takes_400_bytes_a_document(folder: Path, command: Command) -> None:
    """It holds all documents, with the default banding; measured before and after a merge of segments."""
    words = random.Random(3)
    for number in range(3):
        texts = [" ".join(words.choices("abcdefghijklmnopqrstuvwxyz", k=30)) for _ in range(1000 * 4**number)]
        given = [(text, (number << 20) + row) for row, text in enumerate(texts)]
        write_rows(f"{number}.parquet", [{"text": text, "n": n, "name": f"{n:024}"} for text, n in given])
    for name, ids in (("places", ""), ("ids", "--id-column n"), ("names", "--id-column name")):
        assert command(f"index build {name} 0.parquet --backend cpu --evidence source {ids}").status == 0
        for number in (1, 2):
            assert command(f"index add {name} {number}.parquet --backend cpu {ids}").status == 0
        for merged in (False, True):
            assert not merged or command(f"index compact {name}").status == 0
            facts = json.loads(command(f"index info {name} --json").out)
            assert facts["documents"] == 21_000 and facts["dropped"] == 0 and facts["evidence"] == "source"
            in_folder = sum(path.stat().st_size for path in Path(name).iterdir())
            assert facts["bytes_per_document"] == pytest.approx(facts["bytes"] / 21_000, abs=0.1)
            assert facts["bytes_per_document"] <= 400 and in_folder < facts["bytes"] + 5000


def test_an_index_of_format_6_is_read_and_changed(folder: Path, command: Command) -> None:
    """An index of format 6 is read, grown and compacted, and gives the same answers."""
    texts = corpus()
    options = [*OPTIONS, "--text-column", "body"]
    for name, half in (("a.jsonl", texts[::2]), ("b.jsonl", texts[1::2])):
        write(name, half)
    with mock.patch.object(segment, "NARROW_LIMIT", 0), mock.patch.object(manifest, "FORMAT_SOURCE", 6):
        assert command("index build old a.jsonl --evidence source", *options).status == 0
    assert command("index build new a.jsonl --evidence source", *options).status == 0

    def sizes() -> list[int]:
        """The sizes of the two indexes, which give the same answers."""
        indexes = [Index.open(name, backend="cpu") for name in ("old", "new")]
        old, new = ([list(index.query(texts)), list(index.counts())] for index in indexes)
        assert old == new and len(old[0]) > 9
        return [sum(path.stat().st_size for path in Path(name).glob("*.arrow")) for name in ("old", "new")]

    old, new = sizes()
    assert old > new
    for name in ("old", "new"):
        assert command(f"index add {name} b.jsonl --text-column body --backend cpu").status == 0
    old, new = sizes()
    assert old > new
    for name in ("old", "new"):
        assert command(f"index compact {name}").status == 0
    old, new = sizes()
    assert old == new


# --- missing and changed texts


def test_a_missing_or_changed_text_is_named(folder: Path, command: Command) -> None:
    texts = [" ".join(f"{letter}{number}" for number in range(20)) for letter in "abc"]
    write("a.jsonl", texts)
    assert command("index build known a.jsonl --text-column body --evidence source", *OPTIONS).status == 0
    before = Path("a.jsonl").read_text()
    write("asked.jsonl", [f"{texts[1]} more"])
    query = "index query known asked.jsonl --text-column body --backend cpu"

    def asked() -> str:
        printed = command(query)
        return printed.out or printed.error

    place = f"{folder}/a.jsonl"
    assert json.loads(asked())["duplicate_of"] == "a.jsonl:1"
    Path("a.jsonl").write_text(before.replace("b3 b4", "b3, B4!").replace("a1", "x"))
    assert json.loads(asked())["duplicate_of"] == "a.jsonl:1"  # the same words, and no document meets the other
    Path("a.jsonl").write_text(before.replace("b3", "x"))
    assert f"{place}: row 1: differs from the text that was added to the index; restore that text" in asked()
    assert "or remove 'a.jsonl:1' from the index" in asked()
    Path("a.jsonl").write_text(before.splitlines()[0])
    assert f"{place}: has fewer rows than when it was added to the index; restore it" in asked()
    Path("a.jsonl").write_text(before.replace("body", "text"))
    assert f"{place}: row 1: differs from the text" in asked()
    Path("a.jsonl").write_text("[")
    assert place in asked()
    Path("a.jsonl").unlink()
    os.mkfifo("a.jsonl")  # which was opened, and waited for a writer forever
    assert f"{place}: is a named pipe, not a regular file" in asked()
    Path("a.jsonl").unlink()
    assert f"{place}: is gone, and the index reads texts there again; restore it, or remove" in asked()
    for line in ("index add known", "dedup -o out --index known"):
        kept = {path.name: path.read_bytes() for path in Path("known").iterdir()}
        refused = command(f"{line} asked.jsonl --text-column body --backend cpu")
        assert refused.status == 1 and f"{place}: is gone" in refused.error
        assert {path.name: path.read_bytes() for path in Path("known").iterdir()} == kept
    assert command("index remove known a.jsonl:1").status == command(query).status == 0


# --- what is read of a file


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.txt", "a.wet", "a.wet.gz"])
def test_a_text_is_read_without_all_before_it(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each query read the file from its beginning: queries of all texts read the square of it."""
    monkeypatch.setattr(file_texts, "SPACING", 1000)
    sizes: list[int] = []

    class Counted(io.FileIO):
        def read(self, size: int | None = -1, /) -> bytes:
            found = super().read(size) or b""
            sizes.append(len(found))
            return found

    read = []
    for count in (50, 200):
        texts = [" ".join(f"w{number}é{word}" for word in range(20)) for number in range(count)]
        if name.startswith("a.wet"):
            records = [record(number, text.encode()) for number, text in enumerate(texts)]
            Path(name).write_bytes(b"".join(map(gzip.compress, records) if name == "a.wet.gz" else records))
        elif name == "a.txt":
            Path(name).write_text("\r\n".join(texts), "utf-8", newline="")
        else:
            write_rows(name, [f"{text}\nas such" for text in texts])
        build_index(f"k{count}", [name], evidence="source", lines=name == "a.txt", backend="cpu")
        sizes.clear()
        with (
            Index.open(f"k{count}", backend="cpu") as index,
            mock.patch("gpulsh.io.file.open", lambda path, *_, **__: Counted(path), create=True),
        ):
            for number in random.Random(5).sample(range(count), count):
                assert index.query([f"{texts[number]} as such too"]).keys.tolist() == [f"{name}:{number}"]
        read.append(sum(sizes))
    assert read[1] < 5 * read[0]


@pytest.mark.parametrize("name", [f"a.{kind}{end}" for kind in ("jsonl", "csv", "txt") for end in ("", ".gz")])
def test_long_texts_are_read_again(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_texts, "SPACING", 1)
    texts = [f"{number} {'word ' * 30_000}end" for number in range(9)]
    if name.startswith("a.txt"):
        content = "\n".join(texts).encode()
        Path(name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    else:
        write_rows(name, texts)
    (file,) = find_files([name], options=ReadOptions(lines=name.startswith("a.txt")))
    assert [bytes(text).decode() for text in SeekTable(file).texts("text", np.array([1, 7]))] == [texts[1], texts[7]]


def test_sections_of_a_file_are_read_in_any_steps(folder: Path) -> None:
    whole = bytes(range(256)) * 100
    Path("a").write_bytes(whole)
    with File("a", "a", "a", sections=((0, 3), (5, 20_000))).open() as file:
        assert file.read(1) + file.read(10) + file.read() == whole[:3] + whole[5:20_000]


def test_a_text_that_batch_after_batch_meets_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With little memory, pages of one template were read again for each batch, and their blocks decoded again."""
    monkeypatch.setattr(reference, "SIZES", reference.SIZES._replace(batch=2000))
    texts, asked = {number: f"one page {number} of a template that many have" for number in range(5)}, list[int]()

    def read(keys: list[int]) -> list[str]:
        asked.extend(keys)
        return [texts[key] for key in keys]

    index = Index(threshold=0.3, shingling="word:1", backend="reference", evidence="source", read=read)
    index.insert(list(texts), list(texts.values()))
    assert len(index.query([f"{text} again" for text in texts.values()] * 30)) == 750
    assert sorted(asked) == list(texts)


@pytest.mark.parametrize(("run", "first", "step"), [(query_index, 0, 1), (add_to_index, 1, 2)])
@pytest.mark.parametrize(("held", "least", "most"), [(1 << 20, 1, 1), (20_000, 2, 9), (0, 10, 99)])
def test_the_texts_of_several_batches_are_read_together(
    held: int, least: int, most: int, run: Any, first: int, step: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compressed file was read from its beginning for each batch. To add copies reads no text."""
    monkeypatch.setattr(reference, "SIZES", reference.SIZES._replace(batch=2000))
    monkeypatch.setattr(collection, "MetSets", lambda _: MetSets(held))
    rows: list[list[int]] = []
    read = reading.texts_at
    monkeypatch.setattr(reading, "texts_at", lambda *given: rows.append(given[1].tolist()) or read(*given))
    texts = [" ".join(f"{letter}{number}" for letter in "abcdefghijklmnopqrst") for number in range(200)]
    write_rows("a.jsonl.gz", texts)
    write_rows("b.jsonl", [f"{text} more" if number % 2 else text for number, text in enumerate(texts)])
    build_index("known", ["a.jsonl.gz"], evidence="source", backend="cpu")
    run("known", ["b.jsonl"], output="found.jsonl", backend="reference")
    assert [row["duplicate_of"] for row in read_rows("found.jsonl")] == [f"a.jsonl.gz:{row}" for row in range(200)]
    assert sorted(chain(*rows)) == list(range(first, 200, step)) and least <= len(rows) <= most


def test_a_file_that_changes_while_its_index_is_open_is_read_as_it_is(folder: Path) -> None:
    texts = [" ".join(f"{letter}{number}" for number in range(20)) for letter in "abcd"]
    write_rows("a.jsonl", texts)
    build_index("known", ["a.jsonl"], evidence="source", backend="cpu")
    lines = Path("a.jsonl").read_text().splitlines(keepends=True)
    with Index.open("known", backend="cpu") as index:
        for before in ("", "", "\n", "\n\n\n", "", ""):
            Path("a.jsonl").write_text(before.join(["", *lines]))
            assert index.query([f"{text} more" for text in texts[1:3]]).keys.tolist() == ["a.jsonl:1", "a.jsonl:2"]
        Path("a.jsonl").write_text("".join([*lines[:2], "{\n", lines[3]]))
        with pytest.raises(InputError, match=r"a\.jsonl: line 3 is not JSON"):
            index.query([f"{texts[2]} more"])


def test_texts_from_read_are_checked(tmp_path: Path) -> None:
    texts = {"a": "one two three four", "b": "five six seven eight"}
    given = dict(texts)
    index = new_index(evidence="source", read=reader_of(given))
    index.add(["a", "b"], list(texts.values()))
    given["a"] = "one two three"
    assert index.query(["five six seven eight nine"]).keys.tolist() == ["b"]
    for wrong in ("one two three", None, ""):
        given["a"] = wrong
        with pytest.raises(ChangedInputError, match=r"^key 'a': differs from the text that was added to the index; re"):
            index.query(["one two three four"])
    given.update(a=texts["b"], b=texts["a"])  # each is in the index as another document
    with pytest.raises(ChangedInputError, match=r"^key 'a': differs from the text"):
        index.query(["one two three four"])
    given.update(texts)
    assert index.query(["one two three four"]).keys.tolist() == ["a"]
    index.save(tmp_path / "i")
    index.close()
    for read, error, message in (
        (None, ParameterError, "neither the text of 'a' nor its place; open it in Python with read="),
        (lambda keys: [], ParameterError, "read gave 0 texts for 1 key; give a text for each key"),
        (lambda keys: "text", InputError, "what read gave is one str"),
        (lambda keys: [5], InputError, r"what read gave\[0\] is 5"),
    ):
        opened = Index.open(tmp_path / "i", backend="cpu", read=read)
        with pytest.raises(error, match=message):
            opened.query(["one two three four"])
    with pytest.raises(ParameterError, match="evidence is 'source', and read is None; give read, a function"):
        Index.open(tmp_path / "i", backend="cpu").add(["c"], ["x"])
    with pytest.raises(ParameterError, match="with evidence 'source' and 'index' was given; give the index's"):
        Index.open(tmp_path / "i", backend="cpu", evidence="index")
    for wrong, message in (
        ({"evidence": "both"}, "evidence is 'both'"),
        ({"evidence": "source", "measure": "containment"}, "which stores shingles; leave one out"),
        ({"evidence": "source", "read": 5}, "read is of type int; give a function"),
        ({"read": reader_of({})}, "read is given, and the index holds its evidence itself; leave it out"),
    ):
        with pytest.raises(ParameterError, match=message):
            Index(backend="cpu", **wrong)


def test_an_index_at_the_source_refuses_streams(folder: Path, command: Command) -> None:
    os.mkfifo("pipe.jsonl")
    lines = b'{"text": "one two three"}\n'
    for line in ("index build known", "dedup -o out --index known"):
        writer = Thread(target=Path("pipe.jsonl").write_bytes, args=(lines,))
        writer.start()
        refused = command(f"{line} pipe.jsonl --evidence source", *OPTIONS)
        writer.join()
        assert refused.status == 2 and "pipe.jsonl is a stream, which cannot be read again; give files" in refused.error
        assert not os.path.exists("known")
    error = command("dedup pipe.jsonl -o out --evidence source").error
    assert "--evidence is 'source', and no --index is given; leave it out" in error


def test_a_copy_in_another_folder_answers_alike(folder: Path) -> None:
    """It has segments in files and in memory; the copy numbers their documents anew."""
    texts = corpus()
    for number in range(3):
        write(f"{number}.jsonl", texts[number::3])
    options = [*OPTIONS, "--text-column", "body", "--evidence", "source"]
    assert main(["index", "build", "known", "0.jsonl", "1.jsonl", *options]) == 0
    assert main(["index", "add", "known", "2.jsonl", "--text-column", "body", "--backend", "cpu"]) == 0
    known = {f"{number}.jsonl:{row}": text for number in range(3) for row, text in enumerate(texts[number::3])}
    index = Index.open("known", backend="cpu", read=reader_of({**known, "own": "some words of its own"}))
    index.remove(["0.jsonl:0"])
    index.add(["own"], ["some words of its own"])
    wanted, counts = list(index.query([*texts, "some words of its own"])), list(index.counts())
    index.save("copy")
    index.compact()
    assert (list(index.query([*texts, "some words of its own"])), list(index.counts())) == (wanted, counts)
    index.close()
    index = Index.open("copy", backend="cpu")
    index.remove(["own"])
    assert list(index.query(texts)) == [row for row in wanted if row[0] < len(texts)]
    index.close()


@pytest.mark.parametrize("uses", ["add", "insert", "query", "save", "remove"])
def test_read_must_not_use_its_own_index(uses: str, tmp_path: Path) -> None:
    """It would wait for itself forever."""
    texts = {0: "one two three four five six seven eight", 1: "nine ten eleven twelve thirteen"}
    errors = list[object]()

    def read(keys: list[int]) -> list[str]:
        given = {"add": ([9], ["some words"]), "insert": ([9], ["some words"]), "query": ([texts[0]],)}
        getattr(index, uses)(*given.get(uses, ([0],) if uses == "remove" else (tmp_path / "i",)))
        return [texts[key] for key in keys]

    def ask() -> None:
        with pytest.raises(ParameterError, match=r"^read uses its own index") as error:
            index.add([2], [texts[0] + " nine"])
        errors.append(error)

    index = Index(evidence="source", read=read, backend="cpu", threshold=0.5)
    index.add([*texts], [*texts.values()])
    thread = Thread(target=ask, daemon=True)
    thread.start()
    thread.join(60)
    assert errors and len(index) == 2
