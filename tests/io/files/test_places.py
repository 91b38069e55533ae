"""Kept rows are written below `data/`, whatever a bucket, an archive, a pattern or a link calls its files."""

import io
import json
import logging
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import fsspec
import pyarrow.parquet as pq
import pytest

from gpulsh.errors import InputError, OutputError
from gpulsh.io.file import File
from gpulsh.io.files.inputs import find_files
from gpulsh.io.files.places import Targets, refuse_outside
from tests.support.files import read_rows, write_rows
from tests.support.runs import environment, evidence, run

LINE = json.dumps({"text": "some words that are no evil"}).encode() + b"\n"
EVIL = "p/y/../../../../settings.jsonl"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for attacks: files beside OUT must not change."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    (home / "settings.jsonl").write_text("precious")
    (tmp_path / "settings.jsonl").write_text("precious")
    return home


def zipped(path: str, *names: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, LINE)


def tarred(path: str, *names: str) -> None:
    with tarfile.open(path, "w") as archive:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size = len(LINE)
            archive.addfile(entry, io.BytesIO(LINE))


def untouched(home: Path) -> bool:
    return [(home / name).read_text() for name in ("settings.jsonl", "../settings.jsonl")] == ["precious"] * 2


@pytest.mark.parametrize("kind", ["zip", "tar"])
@pytest.mark.parametrize(
    "evil", [EVIL, "p/../../x.jsonl", "../settings.jsonl", "p/../../../home/settings.jsonl", "p/.../../../x.jsonl"]
)
def test_an_archive_member_outside_data_is_refused(here: Path, kind: str, evil: str) -> None:
    {"zip": zipped, "tar": tarred}[kind]("a.bin", "p/ok.jsonl", evil)
    before = sorted(os.listdir())
    with pytest.raises(InputError, match="which is outside of data/") as caught:
        run(f"{kind}://**/*.jsonl::a.bin")
    assert evil in str(caught.value)
    assert untouched(here) and sorted(os.listdir()) == before and sorted(os.listdir("..")) == ["home", "settings.jsonl"]


def test_an_archive_member_outside_its_folder_is_skipped(here: Path, caplog: pytest.LogCaptureFixture) -> None:
    zipped("a.zip", "p/ok.jsonl", EVIL)
    with caplog.at_level(logging.WARNING, "gpulsh"):
        run("zip://::a.zip")
    assert f"left out {EVIL}, because its path leads out of the folder" in caplog.text
    assert untouched(here) and [str(path) for path in Path("out/data").rglob("*.*")] == ["out/data/p/ok.jsonl"]


def test_an_archive_member_of_absolute_name_stays_below_data(here: Path) -> None:
    tarred("a.tar", f"{here}/settings.jsonl", "q/ok.jsonl")
    for file in find_files(["tar://**/*.jsonl::a.tar"]):
        assert Path(Targets(here / "data").of(file)).is_relative_to(here / "data")


@pytest.mark.parametrize(
    "given",
    [
        *("zip://::a.zip", "zip://*/*.jsonl::a.zip", "zip::memory://a.zip", "simplecache::zip::memory://a.zip"),
        *("simplecache::memory://r", "simplecache::memory://r/*/"),
    ],
)
def test_the_name_of_a_file_opens_it(given: str, here: Path) -> None:
    zipped("a.zip", "p/a.jsonl")
    memory = fsspec.filesystem("memory")
    memory.put_file("a.zip", "/a.zip")
    memory.pipe_file("/r/p/a.jsonl", LINE)
    (file,) = find_files([given])
    with fsspec.open(file.name) as opened:
        assert opened.read() == LINE and file.relative == "p/a.jsonl"
    memory.rm(["/r", "/a.zip"], recursive=True)


def test_keys_that_differ_in_empty_parts_are_refused(here: Path) -> None:
    zipped("a.zip", "p/a.jsonl", "p//a.jsonl")
    for given in ("zip://::a.zip", "zip://**/*.jsonl::a.zip"):
        with pytest.raises(InputError, match="both"):
            run(given)


def test_a_pattern_that_climbs_after_a_wildcard_is_refused(here: Path) -> None:
    Path("in/a").mkdir(parents=True)
    Path("other").mkdir()
    Path("other/x.jsonl").write_bytes(LINE)
    with pytest.raises(InputError, match=r"data/\.\./other/x\.jsonl, which is outside of"):
        run("in/*/../../other/*.jsonl")
    assert not Path("out").exists()
    os.chdir("in")
    run("../other/*.jsonl", "../out")  # before them it may
    assert Path("../out/data/x.jsonl").read_bytes() == LINE


@pytest.mark.parametrize(
    "relative", ["", ".", "..", "../a", "a/../b", "/a", "a//b", "a/./b", "a/", "a/..", "x" * 256, "a\0b", "\ud800"]
)
def test_unsafe_relative_names_are_refused(relative: str, tmp_path: Path) -> None:
    file = File("name", relative, "path")
    with pytest.raises(InputError):
        refuse_outside(file)
    with pytest.raises(InputError):
        Targets(tmp_path / "data").of(file)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("relative", ["a", "..a", "a..", "a/...", "\udcff", " ", "~", "a\\..\\b", "x" * 255])
def test_odd_relative_names_are_allowed(relative: str, tmp_path: Path) -> None:
    assert Targets(tmp_path / "data").of(File("name", relative, "path")) == str(tmp_path / "data" / relative)


@pytest.mark.parametrize("link", ["data", "data/a", "data/a/b"])
def test_links_below_the_work_folder_are_not_followed(link: str, tmp_path: Path) -> None:
    (tmp_path / "work" / link).parent.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "work" / link).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="behind a link"):
        Targets(tmp_path / "work/data").of(File("name", "a/b/c/d.jsonl", "path"))
    assert os.listdir(tmp_path / "elsewhere") == []


def test_a_removed_work_folder_is_not_created_again(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Targets(tmp_path / "out/_work/data").of(File("name", "a/b.jsonl", "path"))
    assert os.listdir(tmp_path) == []


def test_the_output_path_may_contain_links(here: Path) -> None:
    Path("disk").mkdir()
    os.symlink("disk", "link")
    Path("a.jsonl").write_bytes(LINE)
    run("a.jsonl", "link/out")
    assert Path("disk/out/data/a.jsonl").read_bytes() == LINE


NOT_THERE = r"is a broken link to nowhere\.jsonl"


@pytest.mark.parametrize(
    ("given", "target", "message"),
    [
        *((given, "nowhere.jsonl", NOT_THERE) for given in ("in", "in/b.jsonl", "in/*.jsonl")),
        ("in/b.jsonl", "b.jsonl", r"is a broken link to b\.jsonl"),
        ("in", "b.jsonl", "cannot be read: Too many levels"),
    ],
)
def test_a_broken_link_is_named(here: Path, given: str, target: str, message: str) -> None:
    Path("in").mkdir()
    Path("in/a.jsonl").write_bytes(LINE)
    os.symlink(target, "in/b.jsonl")
    with pytest.raises(InputError, match=rf"^in/b\.jsonl: {message}"):
        run(given)
    assert not Path("out").exists()


@pytest.mark.parametrize("given", ["in/closed/a.jsonl", "in/closed/*", "in/*/*.jsonl", "in/**/*.jsonl", "in/**"])
def test_a_folder_without_permission_is_named(here: Path, given: str) -> None:
    """A glob skipped it and lost its documents; a path in it was reported as missing."""
    for folder in ("open", "closed"):
        Path("in", folder).mkdir(parents=True)
        Path("in", folder, "a.jsonl").write_text('{"text": "a b c"}\n')
    Path("in/closed").chmod(0)
    owner = os.geteuid()
    try:
        if owner == 0:
            os.seteuid(65534)  # the superuser may read everything
        with pytest.raises(InputError, match=r"^in/closed/?: cannot be read: Permission denied$"):
            find_files([given])
    finally:
        os.seteuid(owner)
        Path("in/closed").chmod(0o700)


def test_an_input_removed_before_the_run_is_named(here: Path) -> None:
    Path("a.jsonl").write_bytes(LINE)
    (file,) = find_files(["a.jsonl"])
    os.unlink("a.jsonl")
    for ask in (file.stamp, file.size):
        with pytest.raises(InputError, match=r"^a\.jsonl: cannot be read: No such file"):
            ask()


def test_names_that_are_not_utf8_are_spelled_distinctly(here: Path) -> None:
    os.mkdir("in")
    names = (b"\xfe", b"\xff", b"\xe9", "\u00e9".encode())
    for number, name in enumerate(names):
        text = {"text": "the same words in all of these files", "id": number}
        Path(os.fsdecode(b"in/" + name + b".jsonl")).write_text(json.dumps(text) + "\n" + "no record\n" * number)
    report = run("in", on_error="skip").report
    spelled = ["in/\u00e9.jsonl", r"in/\xe9.jsonl", r"in/\xfe.jsonl", r"in/\xff.jsonl"]
    assert [entry["file"] for entry in report["files"]] == spelled and report["evidence"]["dropped"] == [0, 1, 1, 1]
    places = [(row["file"], row["duplicate_of_file"]) for row in evidence("out")]
    assert places == [(name, spelled[0]) for name in spelled[1:]]
    rejected = [row["file"] for row in read_rows("out/rejected.parquet")]
    assert sorted(rejected) == sorted([spelled[0]] * 3 + [spelled[1]] * 2 + [spelled[3]])
    assert sorted(os.listdir(b"out/data")) == sorted(name + b".jsonl" for name in names)
    Path(r"in/\xff.jsonl").write_bytes(LINE)  # as one of them is spelled
    with pytest.raises(InputError, match="two files would have this name"):
        run("in", "again")
    assert not Path("again").exists()


def test_the_output_name_need_not_be_utf8(here: Path) -> None:
    Path("a.jsonl").write_bytes(LINE * 2)
    write_rows("b.parquet", ["some other words than those"] * 2)
    out = os.fsdecode(b"o\xff")
    for _ in range(2):
        result = run(["a.jsonl", "b.parquet"], out, overwrite=True, on_error="skip")
        assert result.funnel["dropped"] == 2
    assert Path(out, "data/a.jsonl").read_bytes() == LINE
    with open(Path(out, "data/b.parquet"), "rb") as file:
        assert pq.read_table(file).num_rows == 1


# --- URLs whose package is not installed name it, and the extra that installs it ---


# In a process of its own: fsspec keeps what it has loaded.
CODE = """
import sys
for name in ("s3fs", "gcsfs", "aiohttp", "huggingface_hub"):
    sys.modules[name] = None
from gpulsh.cli import main
for url in sys.argv[1:]:
    assert main(["dedup", url, "-o", "out"]) == 1
open("a.jsonl", "w").write("{}")
assert main(["dedup", "a.jsonl", "-o", "s3://bucket/out"]) == 1
"""
NEEDED = {
    "s3://bucket/a.parquet": ("s3fs", "s3"),
    "zip://a.jsonl::s3://bucket/a.zip": ("s3fs", "s3"),
    "gs://bucket/a/": ("gcsfs", "gs"),
    "https://example.org/a.jsonl": ("aiohttp", "http"),
    "hf://datasets/a/b": ("huggingface_hub", "hf"),
}


def test_missing_packages_are_named(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CODE, *NEEDED]
    found = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    wanted = [(url, *needed) for url, needed in NEEDED.items()] + [("s3://bucket/out", "s3fs", "s3")]
    assert found.stderr.splitlines() == [
        f'gpulsh: error: {url}: needs the package {package}; pip install "gpulsh[{extra}]"'
        for url, package, extra in wanted
    ]
    assert found.returncode == 0
