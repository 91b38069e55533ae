"""A document beyond the memory budget is refused by name and size, with the memory to give, in every format."""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from gpulsh.errors import DamagedInputError, InputError
from gpulsh.io.file import File
from gpulsh.io.formats import delimited, jsonl, streamed, text
from gpulsh.io.limits import Limit, too_large
from tests.support.files import documents, record, write_rows
from tests.support.traced import at_most

LIMIT = Limit(40_000)
MAX_BYTES = LIMIT.document


def read(path: Path, limit: Limit | None = LIMIT, **how: Any) -> list[str]:
    return [text.decode() for text in documents(path, limit, **how)]


def records(texts: list[str]) -> list[bytes]:
    return [record(number, text.encode()) for number, text in enumerate(texts)]


def write(path: Path, texts: list[str]) -> None:
    """Write the texts in the format of the path; each record of an archive is a member."""
    if path.suffix == ".txt":
        path.write_text("\n".join(texts))
    elif path.suffix == ".json":  # with space behind each element
        path.write_text("[" + ",".join(json.dumps({"text": text}) + " \n" for text in texts) + "]")
    elif ".wet" in path.name:
        pack = gzip.compress if path.suffix == ".gz" else bytes
        path.write_bytes(b"".join(map(pack, records(texts))))
    else:
        write_rows(path, texts, 2)


RECORD = r"byte \d+: the record"
# Where the document is, and how many bytes the budget counts of it beside its text.
PLACES: dict[str, tuple[str, int]] = {
    "parquet": ("row 3", 0),
    "arrow": ("row 3", 0),
    "wet": (RECORD, 0),
    "wet.gz": (RECORD, 0),
    "txt": ("line 4", 0),
    **dict.fromkeys(("jsonl", "jsonl.gz", "jsonl.zst"), ("line 4", len('{"text": ""}'))),
    "json": ("element 4", len('{"text": ""} \n')),
    "csv": ("the record from line 5 on", len("\r\n")),
}


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("ending", PLACES)
@pytest.mark.parametrize("step", [64, 4 << 20])
def test_a_larger_document_stops_the_run(
    ending: str, skip: bool, step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be in several blocks of its file or in one."""
    for module in (delimited, jsonl, streamed, text):
        monkeypatch.setattr(module, "STEP", step)
    monkeypatch.setattr(streamed, "LARGE_LINE", 2 * step)
    path, how = tmp_path / f"a.{ending}", {"skip": skip, "lines": ending == "txt"}
    place, more = ("row 3", 0) if ending == "csv" and step > MAX_BYTES else PLACES[ending]
    texts = ["a", "b" * (MAX_BYTES - more), "", "c" * (MAX_BYTES - more + 1), "d"]
    message = rf"a\.{ending}: {place}: has {MAX_BYTES + 1} bytes; a memory budget of 40000"
    for given in (texts[:-1], texts):
        write(path, given)
        with pytest.raises(InputError, match=message) as caught:
            read(path, **how)
        assert not isinstance(caught.value, DamagedInputError)
        assert read(path, None, **how) == given
    del texts[3]
    write(path, texts)
    assert read(path, **how) == texts


def test_an_unfinished_record_is_damage_whatever_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (delimited, jsonl, streamed):
        monkeypatch.setattr(module, "STEP", 64)
    for name, content, message in (
        ("a.csv", b'text\n"' + b"x" * (MAX_BYTES + 1), "ends within quotes"),
        ("a.json", b'[{"text": "' + b"x" * (MAX_BYTES + 1), "does not end"),
        (
            "b.csv",
            b"text\n" + b"x" * (MAX_BYTES + 1),
            f"the record from line 2 on: has {MAX_BYTES + 1} bytes",
        ),  # it ends there
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=message):
            read(tmp_path / name)


def test_a_text_file_beyond_the_limit_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x" * MAX_BYTES)
    assert read(path) == ["x" * MAX_BYTES]
    for size, limit in ((MAX_BYTES + 1, LIMIT), (1 << 42, Limit(1 << 30))):  # the latter is not even read
        os.truncate(path, size)
        with pytest.raises(InputError, match=rf"a\.txt: has {size} bytes; .*: give memory='"):
            read(path, limit)


@pytest.mark.parametrize(
    ("ending", "before"),
    [("jsonl", ["small"]), ("jsonl.zst", ["small"]), ("jsonl.gz", []), ("wet.gz", ["small"]), ("txt", [])],
)
def test_a_larger_document_is_never_in_memory(ending: str, before: list[str], tmp_path: Path) -> None:
    """This includes the first line, which gives the columns."""
    path = tmp_path / f"a.{ending}"
    write(path, [*before, "x" * (64 << 20)])
    message = r"has 671088\d\d bytes.* of 8MiB allows documents up to 2MiB: give memory='512MiB'"
    with at_most(32 << 20), pytest.raises(InputError, match=message):  # blocks of 4 MB, a few at a time
        read(path, Limit(8 << 20), lines=ending == "txt")


@pytest.mark.parametrize("content", [b"\\u0001" * (MAX_BYTES // 4), b"\xff" * (MAX_BYTES // 2)])
def test_the_limit_counts_a_line_and_its_text(content: bytes, tmp_path: Path) -> None:
    # Escapes make the line the longer one; of bytes that are not UTF-8 each becomes three.
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "x"}\n{"text": "' + content + b'"}\n')
    with pytest.raises(InputError, match=r"line 2: has 1\d\d\d\d bytes"):
        read(tmp_path / "a.jsonl")


JOINED: dict[str, Callable[[list[bytes]], bytes]] = {
    "plain": b"".join,
    "members": lambda parts: b"".join(map(gzip.compress, parts)),
    "one member": lambda parts: gzip.compress(b"".join(parts), 1),
}


@pytest.mark.parametrize("how", JOINED)
def test_a_large_record_without_text_is_skipped(how: str, tmp_path: Path) -> None:
    content = b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\n\r\n" + b"v" * (40 << 20)
    pages = records(["one", "two"])
    video = record("video", content, "response", "application/http; msgtype=response")
    path = tmp_path / ("a.warc" if how == "plain" else "a.warc.gz")
    path.write_bytes(JOINED[how]([pages[0], video, pages[1]]))
    with at_most(24 << 20):
        assert read(path) == ["one", "two"]


@pytest.mark.parametrize("how", ["plain", "members"])
def test_a_large_record_of_wrong_length_is_damage(how: str, tmp_path: Path) -> None:
    # A length beyond the limit that is not true is damage, whatever the budget, and reading goes on behind it.
    one, other, last = records(["one", "x" * (2 << 20), "three"])
    path = tmp_path / ("a.wet" if how == "plain" else "a.wet.gz")
    for wrong in (b"Content-Length: 3000000", b"Content-Length: 2000000"):
        path.write_bytes(JOINED[how]([one, other.replace(b"Content-Length: 2097152", wrong), last]))
        with pytest.raises(DamagedInputError, match="the record"):
            read(path)
        assert read(path, skip=True) == ["one", "three"] == read(path, None, skip=True)


@pytest.mark.parametrize(
    ("memory", "size", "words"),
    [
        (512 << 20, (128 << 20) + 1, "of 512MiB allows documents up to 128MiB: give --memory 550MiB or more"),
        (512 << 20, 150 << 20, "give --memory 600MiB or more"),
        (1 << 30, 640 << 20, "of 1GiB allows documents up to 256MiB: give --memory 2.5GiB or more"),
        (1 << 30, (640 << 20) + 1, "give --memory 3GiB or more"),
        (3_000_000_001, 2 << 30, "of 3000000001 bytes allows documents up to 750000000 bytes: give --memory 8GiB or"),
    ],
)
def test_the_suggested_budget_suffices(memory: int, size: int, words: str) -> None:
    message = too_large(File("a", "a", "a"), "row 7", size, Limit(memory)).message
    assert message.startswith(f"a: row 7: has {size} bytes; ")
    assert words in message
    given = message.partition("--memory ")[2].split()[0]
    unit = 1 << 30 if given.endswith("GiB") else 1 << 20
    assert Limit(int(float(given[:-3]) * unit)).document >= size


@pytest.mark.parametrize(
    "frame",
    [bytes([0, 0xB0]), b"\xe0" + (1 << 32).to_bytes(8, "little")],  # 4 GiB, and all of the content at once
)
def test_a_zstd_window_beyond_any_decoder_is_damage(frame: bytes, tmp_path: Path) -> None:
    line = b'{"text": "a"}\n'
    whole = b"\x28\xb5\x2f\xfd" + frame + (len(line) << 3 | 1).to_bytes(3, "little") + line
    (tmp_path / "a.jsonl.zst").write_bytes(whole)
    assert read(tmp_path / "a.jsonl.zst", Limit(8 << 30), skip=True) == []
    with pytest.raises(DamagedInputError, match=r"a.jsonl.zst: .*too much memory"):
        read(tmp_path / "a.jsonl.zst", Limit(8 << 30))


@pytest.mark.parametrize("window_log", [22, 31])
def test_zstd_windows_up_to_2_gib_are_read(window_log: int, tmp_path: Path) -> None:
    """`zstd --long=31` writes such windows. The kernel limits the memory."""
    options = zstandard.ZstdCompressionParameters.from_level(1, window_log=window_log)
    packer = zstandard.ZstdCompressor(compression_params=options).compressobj()
    lines = b"".join(b'{"text": "%s"}\n' % text for text in (b"one", b"x" * (2 << 20), b"two"))
    (tmp_path / "a.jsonl.zst").write_bytes(packer.compress(lines) + packer.flush())
    assert len(read(tmp_path / "a.jsonl.zst", Limit(16 << 20))) == 3
