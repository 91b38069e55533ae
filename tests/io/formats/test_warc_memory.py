"""Records of archives that are larger than a budget allows, or become so once unpacked, are never in memory."""

import gzip
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from gpulsh.errors import LargeDocumentError
from gpulsh.io.columns import Columns
from gpulsh.io.files.inputs import find_files
from gpulsh.io.format import Rules
from gpulsh.io.formats import warc, warc_records
from gpulsh.io.formats.endings import format_of
from gpulsh.io.limits import Limit
from tests.support import files
from tests.support.files import record, write_kept
from tests.support.traced import at_most

LIMIT = Limit(8 << 20)
LARGE = 20 << 20
HTML = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
needs_extra = pytest.mark.skipif(find_spec("fastwarc") is None, reason="the extra warc is not installed")


documents = partial(files.documents, limit=LIMIT)


def response(number: int, content: bytes) -> bytes:
    return record(number, content, "response", "application/http; msgtype=response")


def test_a_large_record_behind_others_in_a_member(tmp_path: Path) -> None:
    path = tmp_path / "a.wet.gz"
    path.write_bytes(gzip.compress(record(1, b"one") + record(2, b"x" * (64 << 20)), 1))
    with at_most(24 << 20), pytest.raises(LargeDocumentError, match=r"byte 0: the record: has 67108864 bytes"):
        documents(path)


def test_what_is_written_does_not_depend_on_what_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    sizes = [10, 1_300_000, 200, 70_000, 2 << 20, 5]
    records = [record(row, random.integers(97, 105, size, np.uint8).tobytes()) for row, size in enumerate(sizes)]
    keep = [True, True, False, True, True, True]
    for name, packed in (("one.wet.gz", gzip.compress(b"".join(records), 1)), ("plain.wet", b"".join(records))):
        (tmp_path / name).write_bytes(packed)
        held = write_kept(tmp_path / name, keep, "held").read_bytes()
        with monkeypatch.context() as patch, at_most(24 << 20):
            for bound, value in {"LARGE": 1000, "LARGE_INSIDE": 1000, "SHOWN": 100}.items():
                patch.setattr(warc_records, bound, value)
            passed = write_kept(tmp_path / name, keep, "passed")
        assert passed.read_bytes() == held
        content = gzip.decompress(held) if name.endswith("gz") else held
        assert content == b"".join(one for one, kept in zip(records, keep, strict=True) if kept)


@pytest.mark.parametrize("wrong", [1, 40])
def test_wrong_lengths_behind_others_in_a_member(wrong: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warc_records, "LARGE", 1000)
    monkeypatch.setattr(warc_records, "LARGE_INSIDE", 1000)
    lies = [record(7, b"y" * 1500).replace(b"Length: 1500", b"Length: 1400")] * wrong
    records = [record(1, b"one"), *lies, record(3, b"two")]
    (tmp_path / "a.wet.gz").write_bytes(gzip.compress(b"".join(records)))
    assert documents(tmp_path / "a.wet.gz", limit=Limit(4000), skip=True) == [b"one", b"two"]


def test_many_stretches_and_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warc, "BLOCK_ROWS", 1000)
    path = tmp_path / "a.wet.gz"
    path.write_bytes(gzip.compress((record(1, b"", "metadata") + b"WARC/1.0\r\n") * 2500 + record(2, b"one"), 1))
    (file,) = find_files([str(path)])
    blocks = format_of(file).read(file, Columns(text="text"), rules=Rules(skip=True))
    assert [len(block.rejected) for block in blocks] == [1000, 1000, 500]
    for inside, most in ((b"", 1 << 20), (b"\r\n", 1 << 20), (b"a", 8 << 20)):
        begin = b"WARC/1.0\r\nContent-Length: 900000\r\n\r\n" if inside == b"a" else b""
        path.write_bytes(gzip.compress(begin) + gzip.compress(inside) * 5000 + gzip.compress(record(2, b"one")))
        with at_most(most):
            assert documents(path, skip=True) == [b"one"]


@needs_extra
@pytest.mark.parametrize("kind", [b"text/html", b"text/plain"])
def test_a_body_that_is_unpacked_to_more(kind: bytes, tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Encoding: gzip\r\n\r\n" % kind
    (tmp_path / "a.warc").write_bytes(response(1, head + gzip.compress(b"word " * ((64 << 20) // 5), 1)))
    told = r"byte 0: the record: about \d+ bytes to read; a memory budget of 8MiB allows 4MiB: give memory="
    with at_most(24 << 20), pytest.raises(LargeDocumentError, match=told):
        documents(tmp_path / "a.warc")


@needs_extra
@pytest.mark.parametrize("tag", [b"<p>", b"<b a=1 c=2>", b"<i a b c d e f g h>", b"<br/>", b"<"])
def test_a_page_of_many_elements(tag: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.warc").write_bytes(response(1, HTML + tag * ((3 << 20) // len(tag))))
    with pytest.raises(LargeDocumentError, match=r"byte 0: the record: about \d+ bytes to read"):
        documents(tmp_path / "a.warc", limit=Limit(100 << 20))


@needs_extra
def test_an_ordinary_large_page(tmp_path: Path) -> None:
    links = b'<p class="entry of a list"><a href="https://example.org/a/path?x=1">a link of a few words</a></p>\n'
    (tmp_path / "a.warc").write_bytes(response(1, HTML + links * ((4 << 20) // len(links))))
    (text,) = documents(tmp_path / "a.warc", limit=Limit(512 << 20))
    assert text.count(b"a link of a few words") == (4 << 20) // len(links)


@needs_extra
def test_a_large_record_whose_http_has_no_end(tmp_path: Path) -> None:
    (tmp_path / "a.warc").write_bytes(response(1, b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * (1 << 19)) + record(2, b"two"))
    assert documents(tmp_path / "a.warc", limit=Limit(512 << 20), skip=True) == [b"", b"two"]
