"""Files on web servers: errors during a run, and servers without ranges or sizes."""

import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from gpulsh.errors import InputError
from tests.run.test_urls import inputs, parquet, run
from tests.support.files import record

__all__ = ["inputs"]  # a fixture


class Web(SimpleHTTPRequestHandler):
    """After `left` requests it refuses, or sends one byte of a file. It is `busy` for two requests of three. It never
    honours a range.
    """

    left, refuses, states_size, busy = 0, False, True, False

    def send_header(self, keyword: str, value: str) -> None:
        if self.states_size or keyword != "Content-Length":
            super().send_header(keyword, value)

    def send_head(self) -> Any:
        type(self).left -= 1
        refuses = self.left % 3 > 0 if self.busy else self.left < 0 and self.refuses
        return self.send_error(503) if refuses else super().send_head()

    def copyfile(self, source: Any, outputfile: Any) -> None:
        outputfile.write(source.read(1 if self.left < 0 else -1))


class Breaking(SimpleHTTPRequestHandler):
    """It honours ranges, and breaks two connections of three in the middle of the answer."""

    answers = 0

    def do_GET(self) -> None:
        type(self).answers += 1
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        part = Path(self.translate_path(self.path)).read_bytes()[first : last + 1]
        self.send_response(206)
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        self.wfile.write(part if self.answers % 3 == 0 else part[:1])


class CutShort(SimpleHTTPRequestHandler):
    """The first `cut` files are sent to their first byte. HEAD alone states a size if `states_size`; otherwise each
    answer is in chunks.
    """

    cut, states_size = 0, True
    protocol_version = "HTTP/1.1"

    def send_header(self, keyword: str, value: str) -> None:
        if keyword != "Content-Length" or (self.states_size and self.command == "HEAD"):
            super().send_header(keyword, value)
        elif self.states_size:
            super().send_header("Connection", "close")
        else:
            super().send_header("Transfer-Encoding", "chunked")

    def copyfile(self, source: Any, outputfile: Any) -> None:
        is_cut = self.cut > 0 and self.path.endswith(".txt")
        type(self).cut -= is_cut
        part = source.read(1 if is_cut else -1)
        chunks = b"%x\r\n%s\r\n%s" % (len(part), part, b"" if is_cut else b"0\r\n\r\n")
        outputfile.write(part if self.states_size else chunks)
        self.close_connection = True


class Short(SimpleHTTPRequestHandler):
    """It answers a range with at most 8 bytes, as RFC 9110 allows."""

    def do_GET(self) -> None:
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        content = Path(self.translate_path(self.path)).read_bytes()
        part = content[first : min(last + 1, first + 8)]
        self.send_response(206)
        self.send_header("Content-Length", str(len(part)))
        self.send_header("Content-Range", f"bytes {first}-{first + len(part) - 1}/{len(content)}")
        self.end_headers()
        self.wfile.write(part)


@contextmanager
def serving(handler: type[SimpleHTTPRequestHandler], folder: Path) -> Iterator[str]:
    pytest.importorskip("aiohttp")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=folder)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def web(inputs: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(Web, "left", 1000)
    with serving(Web, inputs) as address:
        yield address


def test_a_web_address_may_have_a_query(web: str, inputs: Path, tmp_path: Path) -> None:
    run(f"{web}/a/x.jsonl?token=a/b.c", tmp_path / "out")
    with pytest.raises(InputError, match="no such file"):
        run(f"{web}/none.jsonl?token=a/b.c", tmp_path / "none")
    with pytest.raises(InputError, match=r"x\.jsonl: cannot be read: not a valid web address$"):
        run("http:///x.jsonl", tmp_path / "none")
    (inputs / "empty").mkdir()
    with pytest.raises(InputError, match="/empty/: is of no known format; known are"):
        run(f"{web}/empty/", tmp_path / "none")
    assert (tmp_path / "out" / "data" / "x.jsonl").read_bytes() == (inputs / "a" / "x.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (302, "its server redirects it again and again; download it first"),
        (401, "its server answered with status 401 Unauthorized; give an address with its credentials, or download it"),
        (500, "its server answered with status 500 Internal Server Error"),
    ],
)
def test_the_answer_of_a_web_server_is_told_once(
    code: int, reason: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(code)
            self.send_header("Location", self.path)
            self.end_headers()

        do_HEAD = do_GET

    monkeypatch.setattr("gpulsh.io.urls.WAITS", ())
    with serving(Refusing, inputs) as address, pytest.raises(InputError) as error:
        run(f"{address}/a/x.jsonl", tmp_path / "out")
    assert str(error.value).startswith(f"{address}/a/x.jsonl: cannot be read: {reason}")


@pytest.mark.parametrize(
    ("refuses", "reason"), [(True, "its server answered with status 503 Serv"), (False, "Response payload is not")]
)
def test_an_error_of_a_web_server_is_an_input_error(
    refuses: bool, reason: str, web: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Web, "refuses", refuses)
    monkeypatch.setattr("gpulsh.io.urls.WAITS", (0,))
    for left in range(0, 10, 3):
        Web.left = left
        with pytest.raises(InputError, match=rf"/x\.jsonl: cannot be (opened|read): {reason}") as error:
            run(f"{web}/a/x.jsonl", tmp_path / "out", on_error="skip")
        assert error.type is InputError


def test_requests_are_repeated_while_a_web_server_is_busy(
    web: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Web, "busy", True)
    monkeypatch.setattr("gpulsh.io.urls.WAITS", (0, 0))
    run(f"{web}/a/x.jsonl", tmp_path / "out")
    assert "/x.jsonl: the server answered with status 503; the next request is in 0 s" in caplog.text
    assert (tmp_path / "out" / "data" / "x.jsonl").read_bytes() == (inputs / "a" / "x.jsonl").read_bytes()


def test_requests_are_repeated_after_a_connection_breaks(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("gpulsh.io.urls.WAITS", (0, 0))
    with serving(Breaking, inputs) as address:
        run(f"{address}/a/x.jsonl", tmp_path / "out")
    assert "/x.jsonl: the server broke the connection; the next request is in 0 s" in caplog.text
    assert (tmp_path / "out" / "data" / "x.jsonl").read_bytes() == (inputs / "a" / "x.jsonl").read_bytes()


@pytest.mark.parametrize("cache", ["simplecache", "filecache"])
@pytest.mark.parametrize("states_size", [True, False])
def test_a_cache_keeps_no_copy_that_was_cut_short(
    states_size: bool, cache: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its documents would be lost."""
    monkeypatch.setattr("gpulsh.io.urls.WAITS", (0, 0))
    monkeypatch.setattr(CutShort, "states_size", states_size)
    (inputs / "a.txt").write_text("one document, of which the first byte is one, too")
    (inputs / "b.txt").write_text("another")
    with serving(CutShort, inputs) as address:
        monkeypatch.setattr(CutShort, "cut", 4)
        run(f"{cache}::{address}/a.txt", tmp_path / "out")
        assert (tmp_path / "out/data/a.txt").read_bytes() == (inputs / "a.txt").read_bytes()
        monkeypatch.setattr(CutShort, "cut", 99)
        reason = "its server states 7 bytes and sent 1; try" if states_size else "Response payload is not completed"
        with pytest.raises(InputError, match=rf"b\.txt: cannot be read: {reason}"):
            run(f"{cache}::{address}/b.txt", tmp_path / "none")


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.parquet"])
def test_a_web_server_that_sends_less_than_a_range_is_refused(name: str, inputs: Path, tmp_path: Path) -> None:
    """Otherwise the rest of a text would be left out."""
    contents = {"txt": b"a text of some words", "jsonl": b'{"text": "one"}\n', "parquet": parquet(["one"])}
    (inputs / name).write_bytes(contents[name.partition(".")[2]])
    with (
        serving(Short, inputs) as address,
        pytest.raises(InputError, match=rf"{name}: cannot be read: its server sends less of it than was requested"),
    ):
        run(f"{address}/{name}", tmp_path / "out", on_error="skip")


def test_a_web_server_without_ranges_is_refused(web: str, inputs: Path, tmp_path: Path) -> None:
    """Otherwise a bad record would be left out."""
    (inputs / "a.parquet").write_bytes(parquet(["one"]))
    with pytest.raises(InputError, match=rf"as a whole; download it first, or give simplecache::{web}/a\.parquet$"):
        run(f"{web}/a.parquet", tmp_path / "out", on_error="skip")
    run(f"simplecache::{web}/a.parquet", tmp_path / "out")


@pytest.mark.parametrize("states_size", [True, False])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_web_server_without_ranges_or_sizes_is_read(
    pack: Callable[[bytes], bytes],
    states_size: bool,
    web: str,
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """WARC is read and written by offsets."""
    monkeypatch.setattr(Web, "states_size", states_size)
    name = "a.wet" if pack is bytes else "a.wet.gz"
    texts = {"2023-01-01": b"one", "2024-01-01": b"one", "2025-01-01": b"two"}
    first, *kept = (pack(record(date, text, WARC_Date=date)) for date, text in texts.items())
    (inputs / name).write_bytes(first + b"".join(kept))
    run(f"{web}/{name}", tmp_path / "out", keep="WARC-Date")
    assert (tmp_path / "out/data" / name).read_bytes() == b"".join(kept)


def test_a_file_of_a_known_format_is_not_read_as_a_list_of_files(
    web: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """fsspec would read all of it into memory if its server states no type."""
    from fsspec.implementations.http import HTTPFileSystem

    monkeypatch.setattr(HTTPFileSystem, "_ls_real", None)
    run(f"{web}/a/x.jsonl?token=a/b.c", tmp_path / "out")
