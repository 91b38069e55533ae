"""JSON lines of many bytes are parsed in little memory beside them, and to the same values."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from gpulsh.errors import DamagedInputError, LargeDocumentError
from gpulsh.io.columns import Columns
from gpulsh.io.files.file_texts import FileTexts
from gpulsh.io.files.inputs import find_files
from gpulsh.io.formats import json_record as record
from gpulsh.io.formats import jsonl
from gpulsh.io.formats.json_record import LargeObject, LongString
from gpulsh.io.limits import CostError, Limit
from tests.support.files import documents
from tests.support.traced import at_most

ATOMS = [b"a", b"bcd ", *(each.encode() for each in "ä€\N{GRINNING FACE}"), *(rb"\" \\ \n \/ \u00e4".split()),
         rb"\ud83d\ude00", rb"\ud83d", rb"\ude00", b"\xff", b"\x80", b"\xf0\x9f", b"\xe2\x82"]  # fmt: skip


def parsed(content: bytes | bytearray) -> Any:
    try:
        return orjson.loads(content)
    except ValueError:
        return json.loads(content.decode("utf-8", "replace"))


def hard_string(seed: random.Random) -> bytes:
    atoms = seed.sample(ATOMS, seed.randint(1, 5))
    return b"".join(seed.choices(atoms, k=seed.choice([3, 30, 3000, 5000])))


def test_the_values_are_those_of_a_parser() -> None:
    seed = random.Random(1)
    for _ in range(60):
        text, name, value, key = (hard_string(seed) for _ in range(4))
        line = b'{"text": "%s", "x": ["%s", {"%s": "%s"}, 1.5, null], "id": "%s"}' % (text, name, value, key, text)
        expected = parsed(line)
        large = LargeObject(bytearray(line), 0, None)
        found = parsed(large.short)
        assert large.restored(found, long=True) == expected
        long = large.restored(found["text"])
        if isinstance(long, LongString):
            assert b"".join(long.pieces()) == expected["text"].encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("wrong", [b"\x01", b"\\q", b"\\u12g4", b'"', b"\n"])
def test_a_long_string_that_is_no_json(wrong: bytes) -> None:
    line = b'{"text": "' + b"a" * 5000 + wrong + b"b" * 5000 + b'"}'
    with pytest.raises(ValueError, match=r"."):
        parsed(LargeObject(line, 0, None).short)


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


@pytest.mark.parametrize("value", [b"{},", b'"\xc3\xa4",', b'{"a":1},'])
def test_many_values_are_refused_before_they_are_objects(value: bytes, tmp_path: Path) -> None:
    line = b'{"text": "a", "more": [' + value * ((2 << 20) // len(value)) + b"1]}\n"
    (tmp_path / "a.jsonl").write_bytes(line)
    told = r"line 1: about \d+ bytes to read; .* give memory="
    with at_most(24 << 20), pytest.raises(LargeDocumentError, match=told):
        documents(tmp_path / "a.jsonl", Limit(40 << 20))
    assert documents(tmp_path / "a.jsonl", Limit(2 << 30)) == [b"a"]


@pytest.mark.parametrize("value", ["{},", "1.5,", '"ä",', "[[[]]],", '{"a":1},', '{"a":1,"b":2,"c":3,"d":4},', "[],"])
def test_the_cost_is_not_below_what_python_takes(value: str) -> None:
    line = f'{{"text": "a", "more": [{value * 3_000}1]}}'.encode()
    with pytest.raises(CostError) as caught:
        LargeObject(line, 0, 0)
    with at_most(caught.value.size * 11 // 10):
        json.loads(line)


def test_ids_and_kept_lines_of_large_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids: list[Any] = ["x" * 5000 + 'ä\\"', "short", "y" * 3000, "z"]
    lines = [json.dumps({"text": "t" * 4000, "id": each, "other": "o" * 9000}).encode() + b"\n" for each in ids]
    lines.append(json.dumps({"text": "t" * 4000, "id": {"k" * 3000: ["v" * 3000, 12]}}).encode() + b"\n")
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + b"".join(lines))
    (file,) = find_files([str(tmp_path / "a.jsonl")])
    whole = jsonl.JsonLines("").values(file, "id", np.arange(5)).to_pylist()
    for module in (jsonl, record):
        monkeypatch.setattr(module, "LARGE_LINE", 1000)
    monkeypatch.setattr(jsonl, "CHECKED_LINE", 1000)
    assert jsonl.JsonLines("").values(file, "id", np.arange(5)).to_pylist() == whole
    assert whole[:4] == ids
    assert documents(tmp_path / "a.jsonl", Limit(1 << 20)) == [b"t" * 4000] * 5
    jsonl.JsonLines("").write_kept(file, np.array([False, True, True, False, False]), str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == lines[1] + lines[2]


def test_a_large_line_that_is_damaged_is_told_as_a_small_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (jsonl, record):
        monkeypatch.setattr(module, "LARGE_LINE", 1000)
    for line in (
        b'{"text": "' + b"a" * 5000,
        b'["' + b"a" * 5000 + b'"]',
        b'{"text": "a", "b": "' + b"\t" * 5000 + b'"}',
    ):
        (tmp_path / "a.jsonl").write_bytes(b'{"text": "fine"}\n' + line + b"\n")
        with pytest.raises(DamagedInputError, match=r"a\.jsonl: line 2 is "):
            documents(tmp_path / "a.jsonl")
