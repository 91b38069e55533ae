"""Files behind URLs: a real S3 API server on loopback, read through fsspec by file, glob and folder; OUT there."""

import gzip
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from gpulsh.errors import DamagedInputError, InputError, OutputError
from gpulsh.run.files import deduplicate_files
from tests.crash.test_resume import results
from tests.support.files import record
from tests.support.runs import evidence

ROOT = Path(__file__).parents[3]
MISSING = [name for name in ("moto", "flask", "flask_cors", "s3fs") if find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The bucket `crawl` with three files; s3fs finds the server as it would find any other, by AWS's own variables."""
    import s3fs

    for name, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "NO_PROXY": "127.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    files = s3fs.S3FileSystem()
    files.mkdir("crawl")
    for path, content in CONTENTS.items():
        files.pipe_file(f"crawl/{path}", content)
    yield files
    files.rm("crawl", recursive=True)
    s3fs.S3FileSystem.clear_instance_cache()


def words(number: int) -> str:
    return " ".join(f"w{number}x{place}" for place in range(20))


def parquet(texts: list[str]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": texts, "n": range(len(texts))}), sink, row_group_size=3)
    return sink.getvalue().to_pybytes()


LINES = [json.dumps({"text": words(number)}).encode() for number in (1, 20, 21)]
RECORDS = [gzip.compress(record(number, words(number).encode()), mtime=0) for number in (20, 30, 2)]
CONTENTS = {
    "part/a.parquet": parquet([words(number) for number in range(10)]),
    "part/b.jsonl.zst": zstandard.compress(b"\n".join(LINES)),
    "part/deep/c.warc.wet.gz": b"".join(RECORDS),
    "part/_SUCCESS": b"",
    "part/readme.md": b"no data",
}


def test_all_formats_by_glob_and_file(bucket: Any, tmp_path: Path) -> None:
    inputs = [f"s3://crawl/part/{name}" for name in ("*.parquet", "b.jsonl.zst", "deep/c.warc.wet.gz")]
    result = deduplicate_files(inputs, tmp_path / "out", backend="cpu")
    assert result.funnel["documents"] == 16
    found = {path.relative_to(tmp_path / "out/data").as_posix(): path for path in (tmp_path / "out/data").rglob("*.*")}
    assert sorted(found) == ["a.parquet", "b.jsonl.zst", "c.warc.wet.gz"]
    assert pq.read_table(found["a.parquet"]).column("n").to_pylist() == list(range(10))
    lines = zstandard.ZstdDecompressor().stream_reader(found["b.jsonl.zst"].read_bytes()).read().splitlines()
    assert lines == LINES[1:]
    assert found["c.warc.wet.gz"].read_bytes() == RECORDS[1]
    wet, lines_file, table = (f"s3://crawl/part/{name}" for name in ("deep/c.warc.wet.gz", "b.jsonl.zst", "a.parquet"))
    places = ("file", "row", "duplicate_of_file", "duplicate_of_row")
    dropped = [tuple(row[name] for name in places) for row in evidence(tmp_path / "out")]
    assert dropped == [(lines_file, 0, table, 1), (wet, 0, lines_file, 1), (wet, 2, table, 2)]


def test_a_run_goes_on_only_with_the_same_objects(bucket: Any, tmp_path: Path) -> None:
    options: dict[str, Any] = {"backend": "reference", "resume": True}
    first = deduplicate_files("s3://crawl/part", tmp_path / "out", backend="reference")
    assert deduplicate_files("s3://crawl/part", tmp_path / "out", **options).report == first.report
    bucket.pipe_file("crawl/part/b.jsonl.zst", zstandard.compress(b"\n".join(LINES[:2])))
    bucket.invalidate_cache()
    with pytest.raises(OSError, match=r"b\.jsonl\.zst"):
        deduplicate_files("s3://crawl/part", tmp_path / "out", **options)


def test_what_is_not_there_or_damaged(bucket: Any, tmp_path: Path) -> None:
    for missing in ("s3://crawl/none.parquet", "s3://crawl/none/*.parquet", "s3://nowhere/a.parquet"):
        with pytest.raises(InputError, match=missing.replace("*", r"\*")):
            deduplicate_files(missing, tmp_path / "out", backend="reference")
    bucket.pipe_file("crawl/part/z.parquet", b"PAR1 and no more")
    with pytest.raises(DamagedInputError, match=r"s3://crawl/part/z\.parquet: cannot be read"):
        deduplicate_files("s3://crawl/part", tmp_path / "out", backend="reference")
    result = deduplicate_files("s3://crawl/part", tmp_path / "out", backend="reference", on_error="skip")
    assert (result.funnel["documents"], result.funnel["rejected"]) == (16, 1)


def test_results_go_to_a_bucket(bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deduplicate_files("s3://crawl/part", tmp_path / "out", backend="reference", format="jsonl")
    deduplicate_files("s3://crawl/part", "s3://crawl/clean/", backend="reference", format="jsonl")
    found = {path.removeprefix("crawl/clean/"): bucket.cat_file(path) for path in bucket.find("crawl/clean")}
    wanted = results(tmp_path / "out")
    assert {name: found[name] for name in wanted} == wanted and "data/deep/c.warc.jsonl.gz" in wanted
    assert set(json.loads(found["report.json"])["outputs"]) == set(found)
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


def test_a_run_killed_amid_the_upload_is_gone_on_from(bucket: Any, tmp_path: Path) -> None:
    work, out = tmp_path / "work", "s3://crawl/clean"
    bucket.get("crawl/part", str(tmp_path / "part"), recursive=True)
    command = ["dedup", str(tmp_path / "part"), "-o", out, "--work", str(work), "--backend", "reference"]
    assert subprocess.run([sys.executable, "-c", KILLED, *command], check=False, cwd=ROOT).returncode == -signal.SIGKILL
    bucket.invalidate_cache()
    there = bucket.find("crawl/clean")
    assert "crawl/clean/data/b.jsonl.zst" in there and "crawl/clean/report.json" not in there
    with pytest.raises(OutputError, match=f"holds an unfinished run, which worked in {work}; give resume=True"):
        deduplicate_files(tmp_path / "part", out, backend="reference")
    deduplicate_files(tmp_path / "part", out, backend="reference", work=work, resume=True)
    deduplicate_files(tmp_path / "part", tmp_path / "out", backend="reference")
    bucket.invalidate_cache()
    found = {path.removeprefix("crawl/clean/"): bucket.cat_file(path) for path in bucket.find("crawl/clean")}
    assert {name: found[name] for name in found if not name.startswith("report")} == results(tmp_path / "out")
    assert not work.exists()


def test_a_key_that_climbs_writes_nothing_outside(bucket: Any, tmp_path: Path) -> None:
    bucket.pipe_file("crawl/part/y/../../../../../settings.json", b'{"text": "evil"}')
    bucket.invalidate_cache()
    (tmp_path / "settings.json").write_text("precious")
    with pytest.raises(InputError, match=r"part/y/\.\./.*which is outside of data/"):
        deduplicate_files("s3://crawl/part/**/*.json*", tmp_path / "a/b/out", backend="reference")
    assert (tmp_path / "settings.json").read_text() == "precious" and not (tmp_path / "a").exists()
    deduplicate_files("s3://crawl/part", tmp_path / "a/b/out", backend="reference")
    assert (tmp_path / "settings.json").read_text() == "precious"
