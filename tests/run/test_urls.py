"""URLs: runs read files from them, and write the bytes of a local run, which never look finished too early."""

import gzip
import io
import json
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Barrier
from typing import Any
from unittest import mock

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from fsspec.implementations.memory import MemoryFileSystem

from gpulsh.cli import main
from gpulsh.errors import DamagedInputError, InputError, OutputError, ParameterError
from gpulsh.io.columns import Columns
from gpulsh.io.file import map_files
from gpulsh.io.files.file_texts import FileTexts
from gpulsh.io.files.inputs import find_files
from gpulsh.io.stamps import Stamps
from gpulsh.io.urls import REMOTE_BLOCK
from gpulsh.memory_limit import memory_limit
from gpulsh.run.files import FilesResult, deduplicate_files
from gpulsh.run.output.remote import RemoteFolder
from tests.crash.test_resume import results
from tests.support.files import UNPACK, record
from tests.support.runs import below, evidence

URL = "memory://lake/out"


@pytest.fixture
def lake() -> Iterator[Any]:
    filesystem = fsspec.filesystem("memory")
    yield filesystem
    for path in list(filesystem.store):
        del filesystem.store[path]
    filesystem.pseudo_dirs[:] = [""]


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()
    for name in ("a", "b", "c"):
        folder = tmp_path / "in" / name
        folder.mkdir(parents=True)
        (folder / "x.jsonl").write_text(f'{{"text": "the same"}}\n{{"text": "of {name}"}}\n')
    return tmp_path / "in"


def run(inputs: Any, out: Any = URL, **options: Any) -> FilesResult:
    return deduplicate_files(inputs, out, backend="reference", threads=1, **options)


def remote_files(files: Any, folder: str = "/lake/out/") -> dict[str, bytes]:
    """The files at the URL but for the reports, which hold times."""
    found = {path.removeprefix(folder): files.cat_file(path) for path in files.find(folder)}
    return {name: content for name, content in found.items() if not name.startswith("report")}


def test_results_behind_a_url_equal_a_local_run(lake: Any, inputs: Path, tmp_path: Path) -> None:
    run(inputs, tmp_path / "out")
    result = run(inputs)
    assert remote_files(lake) == results(tmp_path / "out")
    assert (result.output, result.data) == (URL, f"{URL}/data")
    assert json.loads(lake.cat_file("/lake/out/report.json")) == result.report
    assert list((tmp_path / "tmp").iterdir()) == []
    assert main(["dedup", str(inputs), "-o", f"{URL}/", "--backend", "reference", "--overwrite"]) == 0


@pytest.mark.parametrize("request_name", ["info", "_open"])
def test_requests_for_remote_files_run_at_once(lake: Any, request_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after another, thousands of files took minutes before and between the stages."""
    for name in ("a", "b", "c"):
        lake.pipe(f"/lake/{name}.jsonl", b'{"text": "one"}\n')
    files, all_wait = find_files(["memory://lake"]), Barrier(3)
    request = getattr(MemoryFileSystem, request_name)

    def waiting(*args: Any, **keywords: Any) -> Any:
        all_wait.wait(60)
        return request(*args, **keywords)

    monkeypatch.setattr(MemoryFileSystem, request_name, waiting)
    stamps = Stamps.of(files)
    stamps.check()
    FileTexts(files, Columns("text"), stamps=stamps).check()


def test_remote_files_are_read_a_few_megabytes_ahead(lake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """s3fs reads 50 MiB ahead by itself: after each column of a row group, and for the head of a file."""
    lake.pipe("/lake/a.jsonl", b'{"text": "one"}\n')
    blocks, request = [], MemoryFileSystem._open

    def noting(*args: Any, **keywords: Any) -> Any:
        blocks.append(keywords["block_size"])
        return request(*args, **keywords)

    monkeypatch.setattr(MemoryFileSystem, "_open", noting)
    FileTexts(find_files(["memory://lake"]), Columns("text")).check()
    assert blocks == [REMOTE_BLOCK]


def test_show_and_report_read_results_behind_a_url(lake: Any, inputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(inputs)
    assert main(["show", f"{URL}/"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Showing 1 of 2 dropped documents.")
    assert f"kept     {inputs}/a/x.jsonl, row 0\n  the same" in shown
    page = lake.cat_file("/lake/out/report.html")
    lake.rm_file("/lake/out/report.html")
    assert main(["report", URL]) == 0 and lake.cat_file("/lake/out/report.html") == page
    assert capsys.readouterr().out == f"{URL}/report.html\n"
    lake.mv("/lake/out/report.json", "/lake/out/_unfinished.json")
    for command, out, reason in (
        ("show", URL, f"{URL}: holds an unfinished run; repeat that run with --resume to continue it"),
        ("report", URL, f"{URL}: holds an unfinished run"),
        ("show", "memory://lake/none", "memory://lake/none: holds no report.json of a finished run"),
        ("show", "nosuch://lake", "nosuch://lake: cannot be reached or written: Protocol not known: nosuch"),
    ):
        assert main([command, out]) == 1
        assert f"gpulsh: error: {reason}" in capsys.readouterr().err


def test_threads_read_the_files_of_an_archive_one_at_a_time(tmp_path: Path) -> None:
    """fsspec reads all of them by one handle: each thread would get the bytes of another file."""

    class Slow(io.FileIO):
        def read(self, size: int = -1, /) -> bytes:
            time.sleep(0.01)
            return super().read(size)

    lines = [b'{"text": "of %d"}\n' % number for number in range(8)]
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for number, line in enumerate(lines):
            (tmp_path / f"{number}.jsonl").write_bytes(line)
            tar.add(tmp_path / f"{number}.jsonl", f"{number}.jsonl")
    files = find_files([f"tar://::{tmp_path}/a.tar"])
    files[0].filesystem.tar.fileobj = Slow(tmp_path / "a.tar")
    assert list(map_files(lambda number: files[number].open().read(), range(8), files)) == lines


def test_remote_files_take_only_threads_that_fit_in_memory(lake: Any) -> None:
    lake.pipe_file("/lake/a.jsonl", b"{}")
    files = [*find_files(["memory://lake/a.jsonl"])] * 64
    with memory_limit(0, 0):  # 192 MiB, and the stacks of 32 threads are 256
        assert list(map_files(lambda number: time.sleep(0.01) or number, range(64), files, 32)) == list(range(64))


@pytest.mark.parametrize("last", [1, 4, 8])
def test_a_run_killed_at_any_upload_resumes(
    lake: Any, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    """The order: the claim, again with the names, three files, the evidence, the page, the report."""
    run(inputs, tmp_path / "out")
    put: list[str] = []
    real = MemoryFileSystem.put_file

    def put_file(self: Any, here: str, path: str, **how: Any) -> None:
        put.append(path.removeprefix("/lake/out/"))
        if len(put) == last:
            raise KeyboardInterrupt
        real(self, here, path, **how)

    work = tmp_path / "work"
    monkeypatch.setattr("gpulsh.run.output.remote.PARALLEL_UPLOADS", 1)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(MemoryFileSystem, "put_file", put_file)
        run(inputs, work=work)
    assert "report.json" not in [path.removeprefix("/lake/out/") for path in lake.find("/lake/out")]
    if last == 1:
        assert not lake.find("/lake") and not work.exists()
        return
    with pytest.raises(OutputError, match=f"holds an unfinished run, which worked in {work}; give resume=True"):
        run(inputs)
    with pytest.raises(OutputError, match="is a URL; to continue a run, give its local folder as"):
        run(inputs, resume=True)
    before = [*put]
    monkeypatch.setattr(MemoryFileSystem, "put_file", put_file)
    result = run(inputs, work=work, resume=True)
    assert remote_files(lake) == results(tmp_path / "out") and not work.exists()
    assert not set(before[2 : last - 1]) & set(put[last:]) - {"_unfinished.json"}  # those are not put again
    assert run(inputs, work=work, resume=True).report == result.report and not work.exists()
    with pytest.raises(OutputError, match="belongs to another run: keep was 'first' and is 'longest' now"):
        run(inputs, work=work, resume=True, keep="longest")


def test_a_run_killed_after_its_report_is_finished(lake: Any, inputs: Path, tmp_path: Path) -> None:
    with mock.patch.object(RemoteFolder, "_end", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        run(inputs, work=tmp_path / "work")
    assert lake.exists("/lake/out/report.json") and lake.exists("/lake/out/_unfinished.json")
    run(inputs, work=tmp_path / "work", resume=True)
    assert not lake.exists("/lake/out/_unfinished.json") and not (tmp_path / "work").exists()


def test_earlier_results_are_replaced_after_the_work(lake: Any, inputs: Path, tmp_path: Path) -> None:
    first = run(inputs)
    with pytest.raises(OutputError, match="is not empty, it holds an earlier run's results; give another folder"):
        run(inputs)
    (inputs / "c/x.jsonl").rename(inputs / "c/y.jsonl")
    real: Callable[..., None] = RemoteFolder._upload

    def upload(self: Any, outputs: Any) -> None:
        assert not lake.exists("/lake/out/report.json") and lake.exists("/lake/out/data/c/x.jsonl")
        real(self, outputs[:1])
        raise KeyboardInterrupt

    with mock.patch.object(RemoteFolder, "_upload", upload), pytest.raises(KeyboardInterrupt):
        run(inputs, work=tmp_path / "work", overwrite=True)
    run(inputs, work=tmp_path / "work", resume=True)
    assert {name for name in remote_files(lake) if name.startswith("data/c")} == {"data/c/y.jsonl"}
    assert "_unfinished.json" not in remote_files(lake)
    assert first.report["outputs"] != run(inputs, overwrite=True).report["outputs"]


def test_a_run_stops_where_another_one_has_taken_its_output(
    lake: Any, inputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload, taken = RemoteFolder._upload, dict[str, bytes]()

    def upload_late(folder: RemoteFolder, outputs: Any) -> None:
        if not taken:
            taken[""] = b""
            run(inputs, overwrite=True, threshold=0.5)
            taken.update(remote_files(lake))
        upload(folder, outputs)

    monkeypatch.setattr(RemoteFolder, "_upload", upload_late)
    with pytest.raises(OutputError, match=f"{URL}: another run began there"):
        run(inputs)
    assert remote_files(lake) == {name: content for name, content in taken.items() if name}


def test_an_error_leaves_other_files_unchanged(lake: Any, inputs: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"text": 1}\n')
    with pytest.raises(InputError, match="give a string or null"):
        run(tmp_path / "bad.jsonl")
    assert not remote_files(lake)
    lake.pipe_file("/lake/out/mine.txt", b"precious")
    with pytest.raises(OutputError, match=r"it holds files that gpulsh did not write; give another folder$"):
        run(inputs)
    with pytest.raises(OutputError, match=r"holds mine\.txt, which gpulsh did not write; move it away first"):
        run(inputs, overwrite=True)
    assert remote_files(lake) == {"mine.txt": b"precious"} and list((tmp_path / "tmp").iterdir()) == []


def test_a_url_may_copy_files_to_this_machine(
    lake: Any, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a file system calls its files local, but their paths are not. Temporary files need a folder."""
    lake.pipe_file("/lake/x.jsonl", (inputs / "a/x.jsonl").read_bytes())
    result = run("simplecache::memory://lake/x.jsonl", tmp_path / "out")
    assert [file["file"] for file in result.report["files"]] == ["simplecache::memory://lake/x.jsonl"]
    assert (tmp_path / "out/data/x.jsonl").read_bytes() == (inputs / "a/x.jsonl").read_bytes()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    for work in (None, tmp_path / "work"):
        with pytest.raises(OutputError, match=f"{tmp_path}/gone: cannot be written: No such file or directory"):
            run(inputs, work=work)


def test_wrong_outputs_are_refused_before_the_work(lake: Any, inputs: Path, tmp_path: Path) -> None:
    lake.pipe_file("/lake/in/x.jsonl", b'{"text": "a"}\n')
    for given, message in {
        "memory://lake/in": "is the input itself",
        "memory://lake/in/out": "is inside the input memory://lake/in;",
        "memory://lake": "holds the input memory://lake/in/x",
        f"file://{tmp_path}/out": "is a folder of this machine; give its path",
        "nosuch://lake": "cannot be reached or written: Protocol not known: nosuch; known are s3, gs, hf, https",
        "https://lake.org/out": "is a web address, which takes no files; give a folder, or s3://, gs:// or hf://",
    }.items():
        with pytest.raises(OutputError, match=message):
            deduplicate_files("memory://lake/in", given, backend="reference")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    with pytest.raises(OutputError, match="full: is not empty; give another folder as work"):
        run(inputs, work=tmp_path / "full")
    with pytest.raises(ParameterError, match="output is 'memory:/lake/out', a URL that `pathlib` has shortened; give"):
        run(inputs, Path(URL))
    with pytest.raises(ParameterError, match="work is given, and OUT is not a URL"):
        run(inputs, tmp_path / "out", work=tmp_path / "work")
    with pytest.raises(ParameterError, match="give work, a folder that all nodes see"):
        run(inputs, engine="ray")
    assert not remote_files(lake)


SHAPES: list[Any] = [None, 1, "x", [], {}, [1], [{}], [["a"]], {"a": 1}, True]


@pytest.mark.parametrize("mark", ["_unfinished.json", "report.json"])
@pytest.mark.parametrize("name", ["outputs", "replaced", "made", "work", "job", "funnel"])
def test_a_forged_mark_file_is_a_plain_error(mark: str, name: str, lake: Any, inputs: Path) -> None:
    folder = str(inputs.parent / "w")
    whole = {"gpulsh": "x", "made": True, "outputs": ["report.json"], "replaced": [], "work": folder}
    for shape in SHAPES:
        for work, overwrite, resume in ((None, False, False), (None, True, False), (folder, False, True)):
            lake.pipe_file(f"/lake/out/{mark}", json.dumps({**whole, name: shape}).encode())
            with suppress(OutputError), RemoteFolder(URL, work, overwrite=overwrite, resume=resume):
                raise OutputError("it ends here")
            for path in lake.find("/lake/out"):
                lake.rm_file(path)


# --- a real S3 API server on loopback, read through fsspec by file, glob and folder; OUT there ---


ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    for name in ("flask", "flask_cors", "s3fs"):
        pytest.importorskip(name)
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The bucket `crawl` with three files; AWS's own variables lead s3fs to the server, as to any other."""
    import s3fs

    settings = {"AWS_ENDPOINT_URL": endpoint, "AWS_DEFAULT_REGION": "us-east-1", "NO_PROXY": "127.0.0.1"}
    settings |= dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "test")
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    files = s3fs.S3FileSystem()
    files.mkdir("crawl")
    for path, content in CONTENTS.items():
        files.pipe_file(f"crawl/{path}", content)
    yield files
    files.rm("crawl", recursive=True)
    s3fs.S3FileSystem.clear_instance_cache()


def twenty_words(number: int) -> str:
    return " ".join(f"w{number}x{place}" for place in range(20))


def parquet(texts: list[str]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": texts, "n": range(len(texts))}), sink, row_group_size=3)
    return sink.getvalue()


LINES = [json.dumps({"text": twenty_words(number)}).encode() for number in (1, 20, 21)]
RECORDS = [gzip.compress(record(number, twenty_words(number).encode()), mtime=0) for number in (20, 30, 2)]
CONTENTS = {
    "part/a.parquet": parquet([twenty_words(number) for number in range(10)]),
    "part/b.jsonl.zst": zstandard.compress(b"\n".join(LINES)),
    "part/deep/c.warc.wet.gz": b"".join(RECORDS),
    "part/_SUCCESS": b"",
    "part/readme.md": b"no data",
}


def test_all_formats_are_read_from_a_bucket(bucket: Any, tmp_path: Path) -> None:
    inputs = [f"s3://crawl/part/{name}" for name in ("*.parquet", "b.jsonl.zst", "deep/c.warc.wet.gz")]
    result = deduplicate_files(inputs, tmp_path / "out", backend="cpu")
    assert result.funnel["documents"] == 16
    data, (_, lines, wet) = tmp_path / "out/data", inputs
    assert below(data) == {"a.parquet", "b.jsonl.zst", "c.warc.wet.gz"}
    assert pq.read_table(data / "a.parquet").column("n").to_pylist() == list(range(10))
    assert UNPACK["zst"]((data / "b.jsonl.zst").read_bytes()).splitlines() == LINES[1:]
    assert (data / "c.warc.wet.gz").read_bytes() == RECORDS[1]
    table = "s3://crawl/part/a.parquet"
    places = ("file", "row", "duplicate_of_file", "duplicate_of_row")
    dropped = [tuple(row[name] for name in places) for row in evidence(tmp_path / "out")]
    assert dropped == [(lines, 0, table, 1), (wet, 0, lines, 1), (wet, 2, table, 2)]


def test_a_run_resumes_only_with_the_same_objects(bucket: Any, tmp_path: Path) -> None:
    options: dict[str, Any] = {"backend": "reference", "resume": True}
    first = deduplicate_files("s3://crawl/part", tmp_path / "out", backend="reference")
    assert deduplicate_files("s3://crawl/part", tmp_path / "out", **options).report == first.report
    bucket.pipe_file("crawl/part/b.jsonl.zst", zstandard.compress(b"\n".join(LINES[:2])))
    bucket.invalidate_cache()
    with pytest.raises(OSError, match=r"b\.jsonl\.zst"):
        deduplicate_files("s3://crawl/part", tmp_path / "out", **options)


def test_missing_and_damaged_objects_are_named(bucket: Any, tmp_path: Path) -> None:
    for missing in ("s3://crawl/none.parquet", "s3://crawl/none/*.parquet", "s3://nowhere/a.parquet"):
        with pytest.raises(InputError, match=missing.replace("*", r"\*")):
            deduplicate_files(missing, tmp_path / "out", backend="reference")
    with pytest.raises(InputError, match=r"^zip://::s3://crawl/none\.zip: cannot be opened: no such file or folder$"):
        deduplicate_files("zip://::s3://crawl/none.zip", tmp_path / "out", backend="reference")
    bucket.pipe_file("crawl/part/z.parquet", b"PAR1 and no more")
    with pytest.raises(DamagedInputError, match=r"s3://crawl/part/z\.parquet: cannot be read"):
        deduplicate_files("s3://crawl/part", tmp_path / "out", backend="reference")
    result = deduplicate_files("s3://crawl/part", tmp_path / "out", backend="reference", on_error="skip")
    assert (result.funnel["documents"], result.funnel["rejected"]) == (16, 1)


def test_results_in_a_bucket_equal_a_local_run(bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deduplicate_files("s3://crawl/part", tmp_path / "out", backend="reference", format="jsonl")
    deduplicate_files("s3://crawl/part", "s3://crawl/clean/", backend="reference", format="jsonl")
    found = remote_files(bucket, "crawl/clean/")
    assert found == results(tmp_path / "out") and "data/deep/c.warc.jsonl.gz" in found
    outputs = json.loads(bucket.cat_file("crawl/clean/report.json"))["outputs"]
    assert set(outputs) == {path.removeprefix("crawl/clean/") for path in bucket.find("crawl/clean")}
    with pytest.raises(OutputError, match=r"s3://nowhere/out/_unfinished\.json: cannot be reached or written: The"):
        deduplicate_files("s3://crawl/part", "s3://nowhere/out", backend="reference")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    type(bucket).clear_instance_cache()
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(OutputError, match="s3://crawl/other: cannot be reached or written: "):
        deduplicate_files(tmp_path / "a.jsonl", "s3://crawl/other", backend="reference")


# A run whose process is killed when the upload of the second of its three files ends, whatever the others are at.
KILLED = """
import os, signal, sys, s3fs
put = s3fs.S3FileSystem._put_file
async def put_file(self, here, there, **how):
    await put(self, here, there, **how)
    if there.endswith("b.jsonl.zst"):
        os.kill(os.getpid(), signal.SIGKILL)
s3fs.S3FileSystem._put_file = put_file
from gpulsh.cli import main
main(sys.argv[1:])
"""


def test_a_run_killed_during_the_upload_resumes(bucket: Any, tmp_path: Path) -> None:
    work, out = tmp_path / "work", "s3://crawl/clean"
    bucket.get("crawl/part", str(tmp_path / "part"), recursive=True)
    command = ["dedup", str(tmp_path / "part"), "-o", out, "--work", str(work), "--backend", "reference"]
    assert subprocess.run([sys.executable, "-c", KILLED, *command], check=False, cwd=ROOT).returncode == -signal.SIGKILL
    bucket.invalidate_cache()
    put = bucket.find("crawl/clean")
    assert "crawl/clean/data/b.jsonl.zst" in put and "crawl/clean/report.json" not in put
    with pytest.raises(OutputError, match=f"holds an unfinished run, which worked in {work}; give resume=True"):
        deduplicate_files(tmp_path / "part", out, backend="reference")
    deduplicate_files(tmp_path / "part", out, backend="reference", work=work, resume=True)
    deduplicate_files(tmp_path / "part", tmp_path / "out", backend="reference")
    bucket.invalidate_cache()
    assert remote_files(bucket, "crawl/clean/") == results(tmp_path / "out") and not work.exists()


def test_an_object_key_cannot_write_outside_the_output(bucket: Any, tmp_path: Path) -> None:
    bucket.pipe_file("crawl/part/y/../../../../../settings.json", b'{"text": "evil"}')
    bucket.invalidate_cache()
    (tmp_path / "settings.json").write_text("precious")
    with pytest.raises(InputError, match=r"part/y/\.\./.*which is outside of data/"):
        deduplicate_files("s3://crawl/part/**/*.json*", tmp_path / "a/b/out", backend="reference")
    assert (tmp_path / "settings.json").read_text() == "precious" and not (tmp_path / "a").exists()
    deduplicate_files("s3://crawl/part", tmp_path / "a/b/out", backend="reference")
    assert (tmp_path / "settings.json").read_text() == "precious"
