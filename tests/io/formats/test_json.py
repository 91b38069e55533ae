"""`.json`: an array gives the results of its objects a line each; each kept object is copied byte for byte."""

import json
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import compress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpulsh.errors import DamagedInputError, InputError, LargeDocumentError
from gpulsh.io.arrow.ids import json_strings
from gpulsh.io.columns import Columns
from gpulsh.io.file import FIRST, File
from gpulsh.io.files.file_texts import FileTexts
from gpulsh.io.files.inputs import find_files
from gpulsh.io.format import Part, Rules
from gpulsh.io.formats import json_record as record
from gpulsh.io.formats import jsonl
from gpulsh.io.formats.blocks import INSTANTS
from gpulsh.io.formats.json_record import BOM, LargeObject, LongString, RecordReader
from gpulsh.io.formats.json_text import FEW_ROWS, member_texts, with_text
from gpulsh.io.formats.jsonl import JsonLines
from gpulsh.io.formats.seek_points import find_seek_points
from gpulsh.io.formats.streamed import split_elements
from gpulsh.io.limits import CostError, Limit
from gpulsh.stats.stages import no_progress
from tests.support.files import documents, new_file, rejected
from tests.support.runs import evidence, run
from tests.support.traced import at_most

PAGES = [" ".join(random.Random(number).choices([f"w{i}" for i in range(90)], k=12)) for number in range(6)]


def value(draw: random.Random, depth: int = 0) -> Any:
    kind = draw.randrange(7 if depth < 3 else 4)
    if kind < 2:
        return "".join(draw.choices('a"\\[]{},: é\n\u2028', k=draw.randrange(8)))
    if kind < 4:
        return draw.choice([None, True, 1.5, -3])
    if kind < 5:
        return [value(draw, depth + 1) for _ in range(draw.randrange(4))]
    return {str(value(draw, 3)): value(draw, depth + 1) for _ in range(draw.randrange(4))}


@pytest.mark.parametrize("size", [1, 3, 64, 1 << 20])
def test_elements_equal_those_of_json(size: int) -> None:
    draw = random.Random(size)
    for _ in range(60):
        wanted = [value(draw) for _ in range(draw.randrange(6))]
        content = json.dumps(wanted, ensure_ascii=draw.random() < 0.5, indent=draw.choice([None, 1])).encode()
        content = draw.choice([b"", b"\xef\xbb\xbf", b" \n"]) + content + draw.choice([b"", b"\n\n"])
        blocks = (content[at : at + size] for at in range(0, len(content), size))
        elements = [element for group in split_elements(File("a", "a", "a"), blocks) for element in group]
        assert [json.loads(element) for element in elements] == wanted
        assert all(element == element.strip() for element in elements)


LINES = [
    b"",
    b" ",
    b"\t\r",
    b'{"text": null}',
    b' {"text": "x"}',
    b'{"text": "\xc3\xa9", "id": 7} ',
    b'{"id": 1.5}\r',
    b"{",
]


def lines_file(folder: Path, draw: random.Random, lines: Sequence[bytes] = LINES) -> File:
    content = draw.choice([b"", BOM]) + b"\n".join(draw.choices(lines, k=draw.randrange(1, 30)))
    (folder / "a.jsonl").write_bytes(content + draw.choice([b"", b"\n", b"\n\n "]))
    return File("a", "a", f"{folder}/a.jsonl")


def with_seek_points(file: File, draw: random.Random) -> File:
    points = find_seek_points(file, draw.choice([3, 9, 40]), no_progress, block=draw.choice([3, 8, 1 << 20]))
    return replace(file, seek_points=points)


def test_seek_points_are_where_rows_begin(tmp_path: Path) -> None:
    draw = random.Random(1)
    for _ in range(200):
        file = with_seek_points(lines_file(tmp_path, draw), draw)
        content = Path(file.path).read_bytes()
        for row, line, byte in file.seek_points:
            before = content[:byte].removeprefix(BOM)
            assert byte in (0, len(content)) or before.endswith(b"\n") or content[:byte] == BOM
            assert row == sum(map(bool, map(bytes.strip, before.split(b"\n"))))
            assert line == 1 + before.count(b"\n") or byte == len(content)
        assert [point.byte for point in file.seek_points] == sorted({point.byte for point in file.seek_points})
        assert file.seek_points[0] == FIRST and file.seek_points[-1].byte == len(content)


@pytest.mark.parametrize("skip", [False, True])
def test_parts_of_a_file_of_lines_have_its_rows(tmp_path: Path, skip: bool) -> None:
    """With the numbers of lines in the file, and no word about a column that only other parts have."""
    draw, form = random.Random(2), JsonLines()

    def read(file: File, part: Part | None = None, wanted: Any = None) -> tuple[list[Any], list[Any]]:
        rows, found = list[Any](), list[Any]()
        for block in form.read(file, Columns("text"), wanted, Rules(skip=skip, part=part)):
            texts = block.texts.pieces(np.arange(len(block.texts)))
            rows += [(block.start + at, text and bytes(text)) for at, text in enumerate(texts)]
            found += block.rejected
        return rows, found

    for _ in range(100):
        file = lines_file(tmp_path, draw, LINES if skip else LINES[:-1])
        divided = with_seek_points(file, draw)
        parts = form.parts(divided, Columns("text")) or []
        try:
            rows, bad = read(file)
        except InputError as error:  # no line has the column
            with pytest.raises(InputError, match=re.escape(str(error))):
                for part in parts:
                    read(divided, part)
            continue
        by_part = [read(divided, part) for part in parts]
        assert [row for found, _ in by_part for row in found] == rows
        assert [each for _, found in by_part for each in found] == bad
        wanted = np.array([draw.random() < 0.5 for _ in rows], bool)
        some = [row for part in parts for row in read(divided, part, wanted[part.start :][: part.rows])[0]]
        assert list(compress(some, wanted)) == list(compress(rows, wanted))
        chosen = np.flatnonzero(wanted)
        if not skip:
            assert form.values(divided, "id", chosen) == form.values(file, "id", chosen)
        assert [form.place(divided, row) for row in chosen] == [form.place(file, row) for row in chosen]


def test_a_column_that_begins_late_is_looked_for_once(tmp_path: Path) -> None:
    """Each part without it read all lines up to it."""
    (tmp_path / "a.jsonl").write_bytes(b'{"other": 1}\n' * 100 + b'{"text": "x"}\n')
    file, form = with_seek_points(File("a", "a", str(tmp_path / "a.jsonl")), random.Random(1)), JsonLines()
    parts = form.parts(file, Columns("text")) or []
    with patch.object(RecordReader, "load", autospec=True, side_effect=RecordReader.load) as load:
        for part in parts:
            for _ in form.read(file, Columns("text"), rules=Rules(part=part)):
                pass
    assert len(parts) > 9 and load.call_count < 250


@pytest.mark.parametrize("run", [1, 100])
def test_values_do_not_depend_on_the_division_of_their_rows(
    run: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An integer stays one beside a float; floats alone stay floats."""
    lines = [{"id": value} for value in (1, 2.5, 3, "a", True)]
    monkeypatch.setattr("gpulsh.io.formats.jsonl.VALUES_AT_ONCE", run)
    (tmp_path / "a.jsonl").write_text("".join(map("{}\n".format, map(json.dumps, lines))))
    file = with_seek_points(File("a", "a", str(tmp_path / "a.jsonl")), random.Random(3))
    for rows in ([0, 1, 2, 3], [0, 1], [0, 2], [1], [3], [1, 4]):
        found = JsonLines().values(file, "id", np.array(rows))
        assert found.type == (pa.float64() if rows == [1] else pa.int64() if rows == [0, 2] else pa.string())
        assert json_strings(found).to_pylist() == [["1", "2.5", "3", "a", "true"][row] for row in rows]


ODD = [
    *(
        b"{",
        b"[1]",
        b"3",
        b'{"text": 5}',
        b'{"text": NaN}',
        b'{"text": "\\ud800"}',
        b'{"text": "\xff"}',
        b'{"text": {}}',
    ),
    *(b'{"text": "x", "text": "y"}', b'{"id": 1e300}', b'{"id": [1]}', b'{"id": 99999999999999999999}', b'{"new": 1}'),
    b'{"id": ' + b"[" * 2000 + b"]" * 2000 + b"}",
]


@pytest.mark.parametrize("skip", [False, True])
def test_lines_that_are_parsed_together_are_read_as_each_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skip: bool
) -> None:
    draw = random.Random(4)
    choices = [Columns("text"), Columns("text", id="id"), Columns("text", added=frozenset(["new"]))]

    def read(file: File, columns: Columns) -> Any:
        rows, bad = list[Any](), list[Any]()
        try:
            for block in JsonLines().read(file, columns, rules=Rules(skip=skip)):
                texts = block.texts.pieces(np.arange(len(block.texts)))
                rows += zip(map(bytes, texts), block.texts.null_rows().tolist(), strict=True)
                bad += block.rejected
        except InputError as error:
            return str(error)
        return rows, bad

    for _ in range(100):
        file = lines_file(tmp_path, draw, [*LINES[:-1] * draw.choice([1, 9]), *ODD])
        columns = draw.choice(choices)
        monkeypatch.setattr(jsonl, "PARSED_ROWS", draw.choice([1, 3, 100]))
        for module in (jsonl, record):
            monkeypatch.setattr(module, "FEW_LINES", draw.choice([1, 4]))
        together = read(file, columns)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(jsonl, "is_plain", lambda columns: False)
            assert read(file, columns) == together


MIXES = [[1, 2, None, 3], [None, "a", "b"], [1, 2, "a"], [1, 2.5], [True, 1], [2**63, 1], [1, {"x": 1}], [None] * 3, []]


def test_values_of_a_field_take_little_more_than_in_arrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Millions of short ones took 200 bytes each."""

    def values() -> pa.Array:
        return jsonl.JsonLines().values(find_files([str(tmp_path)])[0], "n", np.arange(len(mix)))

    for mix in (*MIXES, [str(number) for number in range(50_000)]):
        (tmp_path / "a.jsonl").write_text("".join(json.dumps({"n": value}) + "\n" for value in mix))
        wanted = values()
        monkeypatch.setattr(jsonl, "VALUES_AT_ONCE", min(len(mix) // 3 + 1, 1000))
        with at_most(8_000_000):
            assert values().equals(wanted)
        monkeypatch.undo()


@pytest.mark.parametrize("indent", [None, 2])
def test_kept_elements_are_copied_byte_for_byte(indent: int | None, tmp_path: Path) -> None:
    rows = [{"meta": {"text": PAGES[row % 3]}, "n": row, "list": [row, "]"]} for row in range(30)]
    (tmp_path / "a.json").write_text(json.dumps(rows, indent=indent))
    run(tmp_path / "a.json", tmp_path / "out", text_column="meta.text", keep="n", id_column="n")
    kept = (tmp_path / "out/data/a.json").read_text()
    assert json.loads(kept) == rows[27:] and kept.count("\n") == (5 if indent is None else 32)
    assert [row["id"] for row in evidence(tmp_path / "out")] == list(range(27))


@pytest.mark.parametrize("content", ["[]", " [ ]\n", '[{"text": "a"}]', "\ufeff[\n]"])
def test_small_arrays_are_read_and_written(content: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(content)
    assert run(tmp_path / "a.json", tmp_path / "out").funnel["documents"] == content.count("text")
    assert json.loads((tmp_path / "out/data/a.json").read_text()) == json.loads(content.lstrip("\ufeff"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"text": "a"}, {"text" "b"}]', r"a\.json: element 2 is not JSON"),
        ('[{"text": "a"},]', "element 2 is not JSON"),
        ('[{"text": "a"}, 3]', "element 2 is a number; give one JSON object for each element"),
        ('[{"text": "a"}, {"text": 3}]', "element 2: 'text' is a number; give a string or null"),
        ('[{"text": "a"}', r"a\.json: its array does not end; the file is truncated; give one whole array"),
        ('[{"text": "a"}] [', "more data follows the end of its array"),
        ('[{"body": "a"}]', "has no column 'text'; its columns are: body"),
    ],
)
def test_bad_arrays_are_named(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(InputError, match=message):
        run(tmp_path / "a.json", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_bad_elements_are_skipped_and_listed(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(f'[{{"text": "{PAGES[0]}"}}, 3, {{"text": "{PAGES[1]}"}}, {{"text": "')
    run(tmp_path / "a.json", tmp_path / "out", on_error="skip")
    assert [row["text"] for row in json.loads((tmp_path / "out/data/a.json").read_text())] == PAGES[:2]
    found = [(row["row"], row["rows"], row["unit"], row["offset"]) for row in rejected(tmp_path / "out")]
    assert found == [(1, 1, "row", 1), (3, 0, "row", 3)]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
@pytest.mark.parametrize("options", [{}, {"format": "jsonl"}, {"format": "parquet"}, {"id_column": "n"}], ids=str)
def test_an_integer_of_thousands_of_digits_is_kept(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    digits = "7" * 5000
    records = [f'{{"text": "one text", "n": {digits}}}', f'{{"text": "one text", "n": [-{digits}]}}']
    (tmp_path / name).write_text("\n".join(records) if name == "a.jsonl" else f"[{', '.join(records)}]")
    result = run(tmp_path / name, tmp_path / "out", **options)
    assert result.funnel["dropped"] == 1
    (written,) = (path for path in (tmp_path / "out/data").iterdir() if path.is_file())
    if options.get("format") == "parquet":
        assert pq.read_table(written)["n"].to_pylist() == [f'"{digits}"']
    else:
        assert digits in written.read_text()
    if options.get("id_column"):
        ids = pq.read_table(tmp_path / "out/duplicates.parquet")
        assert [ids[name].to_pylist() for name in ("id", "duplicate_of_id")] == [[f'["-{digits}"]'], [f'"{digits}"']]
    with pytest.raises(InputError, match="'n' is a number; give a string or null"):
        run(tmp_path / name, tmp_path / "again", text_column="n")


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ('"n": NaN, "m": 5', {"n": "nan", "m": 5}),  # which Python alone can parse
        ('"a\\ud800": {"\\udfff": 1}', {"a\ufffd": {"\ufffd": 1}}),  # half of a surrogate pair in a name
        (f'"{"k" * 2000}": "{"v" * 2000}", "of": "{"word " * (1 << 18)}"', {"k" * 2000: "v" * 2000}),  # a large line
    ],
    ids=["NaN", "surrogate", "large"],
)
def test_odd_fields_are_written_as_parquet(fields: str, wanted: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(f'{{"text": "one text", {fields}}}\n{{"text": "two more"}}\n')
    run(tmp_path / "a.jsonl", tmp_path / "out", format="parquet")
    (one, two) = pq.read_table(tmp_path / "out/data/a.parquet").to_pylist()
    for name, value in wanted.items():
        assert (str(one[name]) if value == "nan" else one[name]) == value and two[name] is None


# --- JSON lines of many bytes are parsed in little memory beside them, and to the same values ---


ATOMS = [b"a", b"bcd ", *(each.encode() for each in "ä€\N{GRINNING FACE}"), *(rb"\" \\ \n \/ \u00e4".split()),
         rb"\ud83d\ude00", rb"\ud83d", rb"\ude00", b"\xff", b"\x80", b"\xf0\x9f", b"\xe2\x82"]  # fmt: skip


def parse(content: bytes | bytearray) -> Any:
    try:
        return orjson.loads(content)
    except ValueError:
        return json.loads(content.decode("utf-8", "replace"))


def without_surrogates(value: Any) -> Any:
    """The value with U+FFFD in place of lone surrogates."""
    return json.loads(re.sub("[\ud800-\udfff]", "\ufffd", json.dumps(value, ensure_ascii=False)))


def hard_string(seed: random.Random) -> bytes:
    atoms = seed.sample(ATOMS, seed.randint(1, 5))
    return b"".join(seed.choices(atoms, k=seed.choice([3, 30, 3000, 5000])))


def test_values_of_large_lines_equal_those_of_a_parser() -> None:
    seed = random.Random(1)
    for _ in range(60):
        text, name, value, key = (hard_string(seed) for _ in range(4))
        line = b'{"text": "%s", "x": ["%s", {"%s": "%s"}, 1.5, null], "id": "%s"}' % (text, name, value, key, text)
        expected = without_surrogates(parse(line))
        large = LargeObject(bytearray(line), None)
        found = parse(large.short)
        assert without_surrogates(large.restored(found, long=True)) == expected
        long = large.restored(found["text"])
        if isinstance(long, LongString):
            assert b"".join(long.pieces()) == expected["text"].encode()


def test_a_long_text_is_decoded_in_whole_characters() -> None:
    for size in range(9):
        text = "." * size + "é漢\U0001f642" * 120_000
        large = LargeObject(bytearray(b'{"text": "\\n%b"}' % text.encode()), None)
        long = large.restored(parse(large.short)["text"])
        pieces = list(map(bytes, long.pieces()))
        assert len(pieces) > 1 and b"".join(pieces) == b"\n" + text.encode()


def test_a_text_that_grows_by_replacement_is_read_whole(tmp_path: Path) -> None:
    """Each invalid byte becomes three: only the first third of this text was read."""
    piece = 512 * 1024 - 1
    for size in range(3 * piece - 3, 3 * piece + 4):
        (tmp_path / "a.jsonl").write_bytes(b'{"text": "%b"}\n' % (b"\xff" * size))
        assert list(map(len, documents(tmp_path / "a.jsonl"))) == [3 * size]


@pytest.mark.parametrize("wrong", [b"\x01", b"\\q", b"\\u12g4", b'"', b"\n"])
def test_a_long_invalid_string_is_refused(wrong: bytes) -> None:
    line = b'{"text": "' + b"a" * 5000 + wrong + b"b" * 5000 + b'"}'
    with pytest.raises(ValueError, match=r"."):
        parse(LargeObject(line, None).short)


def test_a_long_text_is_not_copied(tmp_path: Path) -> None:
    size = 24 << 20
    texts = ["first", "word " * (size // 5), "\N{GRINNING FACE}" * (size // 4)]
    with open(tmp_path / "a.jsonl", "wb") as out:
        out.writelines(json.dumps({"id": 1, "text": text}, ensure_ascii=False).encode() + b"\n" for text in texts)
    lengths = [len(text.encode()) for text in texts]
    del texts
    found = []
    with at_most(size * 7 // 4):  # the line, and blocks of 4 MB
        reader = FileTexts(find_files([str(tmp_path / "a.jsonl")]), Columns(text="text"), limit=Limit(128 << 20))
        reader.check()
        for batch in reader.batches(1 << 16):
            found += np.diff(batch.offset).tolist()
            del batch
    assert found == lengths


def test_a_cut_of_a_large_line_takes_a_few_copies_of_it() -> None:
    before, text, behind = b'{"n": "\xc3\xa9", "text": "', "word \U0001f642 ".encode() * 1_000_000, b'", "m": 1}\n'
    line, file = before + text + behind, File("a", "a", "a")
    with at_most(8 * len(text)):
        line = with_text(file, 2, line, Columns("text"), lambda found: bytes(found[10:]))
    assert line == before + text[10:] + behind


@pytest.mark.parametrize("value", [b"{},", b'"\xc3\xa4",', b'{"a":1},'])
def test_too_many_values_are_refused_before_parsing(value: bytes, tmp_path: Path) -> None:
    line = b'{"text": "a", "more": [' + value * ((2 << 20) // len(value)) + b"1]}\n"
    (tmp_path / "a.jsonl").write_bytes(line)
    message = r"line 1: about \d+ bytes to read; .* give memory="
    with at_most(24 << 20), pytest.raises(LargeDocumentError, match=message):
        documents(tmp_path / "a.jsonl", Limit(40 << 20))
    assert documents(tmp_path / "a.jsonl", Limit(2 << 30)) == [b"a"]


@pytest.mark.parametrize("value", ["{},", "1.5,", '"ä",', "[[[]]],", '{"a":1},', '{"a":1,"b":2,"c":3,"d":4},', "[],"])
def test_the_estimated_cost_covers_the_memory_of_parsing(value: str) -> None:
    line = f'{{"text": "a", "more": [{value * 3_000}1]}}'.encode()
    with pytest.raises(CostError) as caught:
        LargeObject(line, 0)
    with at_most(caught.value.size * 11 // 10):
        json.loads(line)


def test_large_lines_give_the_same_ids_and_kept_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids: list[Any] = ["x" * 5000 + 'ä\\"', "short", "y" * 3000, "z", {"k" * 3000: ["v" * 3000, 12]}]
    lines = [json.dumps({"text": "t" * 4000, "id": each, "other": "o" * 9000}).encode() + b"\n" for each in ids]
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + b"".join(lines))
    (file,) = find_files([str(tmp_path / "a.jsonl")])
    whole = jsonl.JsonLines("").values(file, "id", np.arange(5)).to_pylist()
    for module in (jsonl, record):
        monkeypatch.setattr(module, "LARGE_LINE", 1000)
    monkeypatch.setattr(jsonl, "CHECKED_LINE", 1000)
    assert jsonl.JsonLines("").values(file, "id", np.arange(5)).to_pylist() == whole
    assert whole[:4] == ids[:4]
    assert documents(tmp_path / "a.jsonl", Limit(1 << 20)) == [b"t" * 4000] * 5
    jsonl.JsonLines("").write_kept(file, np.array([False, True, True, False, False]), new_file(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == lines[1] + lines[2]


def test_a_damaged_large_line_is_named_as_a_small_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (jsonl, record):
        monkeypatch.setattr(module, "LARGE_LINE", 1000)
    long = b"a" * 5000
    for line in (b'{"text": "%s' % long, b'["%s"]' % long, b'{"text": "a", "b": "%s"}' % long.replace(b"a", b"\t")):
        (tmp_path / "a.jsonl").write_bytes(b'{"text": "fine"}\n' + line + b"\n")
        with pytest.raises(DamagedInputError, match=r"a\.jsonl: line 2 is "):
            documents(tmp_path / "a.jsonl")


# A column, its type, and the values that its rows have; None: each row has its own.
ADDED: dict[str, tuple[pa.DataType, list[Any] | None]] = {
    "kept": (pa.bool_(), [True, None, False]),
    "cluster": (pa.int64(), None),
    "copies": (pa.int64(), [None, 0, -(2**63), 2**63 - 1]),
    "similarity": (pa.float32(), [None, 0.5]),
    "source_names": (pa.list_(pa.string()), [None, [], ["a"], ["a", 'b"é\n'], ["x", None]]),
    "first_seen": (INSTANTS, [None, datetime(2024, 1, 2, 3, tzinfo=UTC)]),
    "duplicate_of_id": (pa.string(), [f"id {number}" for number in range(40)]),
    'a"b': (pa.string(), ["a, b", None, '"\\\0', "\u2028é"]),
    "share": (pa.float64(), [0.1, 1e300, None]),
    "none": (pa.string(), [None]),
}


@pytest.mark.parametrize("rows", [0, 1, FEW_ROWS, FEW_ROWS + 1, 700])
def test_added_members_are_the_values_of_each_row(rows: int) -> None:
    """Few rows are written one by one, many in groups of equal values."""
    draw = random.Random(rows)
    columns = [
        pa.array(draw.choices(values, k=rows + 3) if values else range(rows + 3), kind)[3:]
        for kind, values in ADDED.values()
    ]
    batch = pa.record_batch(columns, names=[*ADDED])
    found = [json.loads(b"{" + member[1:]) for member in member_texts(batch)]
    wanted = batch.set_column(5, "first_seen", batch["first_seen"].cast(pa.string())).to_pylist()
    assert found == wanted and all(member.endswith(b"}\n") for member in member_texts(batch))


def test_large_added_values_are_written_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """With four sources of 60 MB, `--add-counts --memory 900MiB` ended the process."""
    batch = pa.record_batch({"source_names": [["a", 'é"' * 5000], None], "id": ["b" * 9999, None]})
    whole, given, dumps = member_texts(batch), list[Any](), orjson.dumps
    monkeypatch.setattr("gpulsh.io.formats.json_text.PART_BYTES", 1000)
    monkeypatch.setattr(orjson, "dumps", lambda value, **how: given.append(value) or dumps(value, **how))
    assert member_texts(batch) == whole and max(map(len, map(str, given))) < 2000
