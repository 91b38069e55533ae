"""`--lines`: each line of a text file is a document, against the same documents as JSON lines."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.cli import main
from gpulsh.errors import DamagedInputError, GpulshError, InputError, LargeDocumentError, OutputError, ParameterError
from gpulsh.io.file import File
from gpulsh.io.formats import text as text_lines
from gpulsh.io.formats.text import TextLines
from gpulsh.io.limits import Limit
from tests.support.files import PACK, UNPACK, texts_of

PAGES = [" ".join(random.Random(number).choices([f"w{i}" for i in range(90)], k=12)) for number in range(9)]


def split(content: bytes) -> list[bytes]:
    lines = content.split(b"\n")
    return lines if lines[-1] else lines[:-1]


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1 << 20])
def test_rows_are_lines_however_they_are_read(step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_lines, "STEP", step)
    rng, path, kept = random.Random(step), tmp_path / "a.txt", tmp_path / "kept"
    for case in [b"", b"\n", b"\n\n", b"a", b"a\n", b"\na", b"a\r\n\xff\n\n"] + [
        bytes(rng.choices(b"ab\n\n\r", k=rng.randrange(40))) for _ in range(60)
    ]:
        path.write_bytes(case)
        lines = split(case)
        assert texts_of(path) == lines
        keep = np.array([rng.random() < 0.5 for _ in lines], bool)
        TextLines().write_kept(File("a", "a", str(path)), keep, str(kept))
        whole = case.splitlines(keepends=True) if b"\r" not in case else [*(line + b"\n" for line in lines)]
        if b"\r" in case and lines and not case.endswith(b"\n"):
            whole[-1] = whole[-1][:-1]
        assert kept.read_bytes() == b"".join(line for line, stays in zip(whole, keep, strict=True) if stays)
        with pytest.raises(InputError, match="changed"):
            TextLines().write_kept(File("a", "a", str(path)), np.ones(len(lines) + 1, bool), str(kept))


@pytest.mark.parametrize(("step", "end"), [(5, b""), (64, b"\n"), (64, b"\nmore\n"), (1 << 20, b"\nmore\n")])
def test_a_line_beyond_the_budget(step: int, end: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_lines, "STEP", step)
    (tmp_path / "a.txt").write_bytes(b"one\n" + b"x" * 1000 + end)
    assert len(texts_of(tmp_path / "a.txt", limit=Limit(4000))[1]) == 1000
    (tmp_path / "a.txt").write_bytes(b"one\n" + b"x" * 1001 + end)
    with pytest.raises(LargeDocumentError, match="line 2: has 1001 bytes"):
        texts_of(tmp_path / "a.txt", limit=Limit(4000))


@pytest.mark.parametrize("options", [{}, {"keep": "longest"}, {"write": "duplicates"}])
def test_results_are_those_of_json_lines(options: dict[str, Any], tmp_path: Path) -> None:
    rng = random.Random(1)
    texts = [rng.choice([*PAGES, PAGES[0] + " more", "", "!"]) for _ in range(60)]
    (tmp_path / "a.txt").write_text("\n".join(texts) + "\n")
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    found = gpulsh.deduplicate_files(tmp_path / "a.txt", tmp_path / "t", lines=True, backend="reference", **options)
    wanted = gpulsh.deduplicate_files(tmp_path / "a.jsonl", tmp_path / "j", backend="reference", **options)
    assert {**found.funnel, "seconds": 0} == {**wanted.funnel, "seconds": 0} and found.funnel["dropped"] > 20
    columns = ["row", "duplicate_of_row", "similarity", "cluster"]
    tables = [pq.read_table(result.duplicates).select(columns) for result in (found, wanted)]
    assert tables[0].equals(tables[1])
    if "write" not in options:
        kept = [json.loads(line)["text"] for line in (tmp_path / "j/data/a.jsonl").read_text().splitlines()]
        assert (tmp_path / "t/data/a.txt").read_text() == "".join(text + "\n" for text in kept)
    assert found.report["parameters"]["lines"] is True and "lines" not in wanted.report["parameters"]


def test_the_command_and_the_index_take_lines_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.txt"
    path.write_text("\n".join([*PAGES, PAGES[2]]))
    for command in (
        ["dedup", str(path), "-o", str(tmp_path / "out")],
        ["index", "build", str(tmp_path / "i"), str(path)],
    ):
        assert main([*command, "--lines", "--backend", "reference"]) == 0
    assert (tmp_path / "out/data/a.txt").read_text() == "\n".join(PAGES) + "\n"
    assert "Kept 9 of 10 documents and dropped 1" in capsys.readouterr().out
    assert main(["index", "query", str(tmp_path / "i"), str(path), "--lines", "--backend", "reference"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 10


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz"])
def test_compressed_text(ending: str, tmp_path: Path) -> None:
    pack, unpack = PACK[ending], UNPACK[ending]
    path = tmp_path / f"a.txt.{ending}"
    path.write_bytes(pack("\n".join([*PAGES, PAGES[2]]).encode()))
    gpulsh.deduplicate_files(path, tmp_path / "lines", lines=True, backend="reference")
    assert unpack((tmp_path / "lines/data" / path.name).read_bytes()).decode() == "\n".join(PAGES) + "\n"
    gpulsh.deduplicate_files(path, tmp_path / "whole", backend="reference")
    assert (tmp_path / "whole/data" / path.name).read_bytes() == path.read_bytes()
    path.write_bytes(pack("\n".join(PAGES[:4]).encode()) + pack("\n".join(PAGES[3:]).encode())[:-9])
    with pytest.raises(DamagedInputError, match=r"a\.txt.*truncated"):
        gpulsh.deduplicate_files(path, tmp_path / "bad", lines=True, backend="reference")
    result = gpulsh.deduplicate_files(path, tmp_path / "skip", lines=True, on_error="skip", backend="reference")
    # Of the line that goes on behind the damage nobody knows the end.
    assert unpack((tmp_path / "skip/data" / path.name).read_bytes()).decode() == "".join(f"{p}\n" for p in PAGES[:3])
    assert result.funnel["rejected"] == 1
    assert pq.read_table(tmp_path / "skip/rejected.parquet")["rows"].to_pylist() == [0]


def test_a_text_file_of_many_lines_is_told_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.txt").write_text("".join(f"{name} is in line {line}\n" for line in range(200)))
    (tmp_path / "short").mkdir()
    (tmp_path / "short/d.txt").write_text("a letter\n\nof few lines\n")

    def told(*arguments: str) -> list[str]:
        caplog.clear()
        assert main(["dedup", *arguments, "--backend", "reference", "--overwrite"]) == 0
        return [message for message in caplog.messages if "lines=True" in message]

    out = str(tmp_path / "out")
    paths = [str(tmp_path / f"{name}.txt") for name in "abc"]
    (line,) = told(*paths, "-o", out)
    assert line.startswith(f"{tmp_path}/a.txt: is one document")
    assert line.endswith("with lines=True each line is one")
    assert told(*paths, "--lines", "-o", out) == []
    assert told(str(tmp_path / "short"), "-o", out) == []


def test_lines_without_a_text_file_and_another_job(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "x"}) + "\n")
    with pytest.raises(ParameterError, match=r"there is no text file \(\.txt\)"):
        gpulsh.deduplicate_files(tmp_path / "a.jsonl", tmp_path / "out", lines=True, backend="reference")
    (tmp_path / "a.txt").write_text("\n".join(PAGES))
    gpulsh.deduplicate_files(tmp_path / "a.txt", tmp_path / "out", lines=True, backend="reference")
    with pytest.raises(OutputError):  # of another job
        gpulsh.deduplicate_files(tmp_path / "a.txt", tmp_path / "out", resume=True, backend="reference")
    with pytest.raises(GpulshError, match="is plain text and has no column 'id'"):
        gpulsh.deduplicate_files(tmp_path / "a.txt", tmp_path / "o", lines=True, id_column="id", backend="reference")


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-be"])
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.jsonl", "a.jsonl.gz", "a.json", "a.csv"])
@pytest.mark.parametrize("lines", [False, True])
def test_utf16_is_named_and_no_document(codec: str, name: str, lines: bool, tmp_path: Path) -> None:
    """As UTF-8 it would be letters with zeros between them, a document that no other is like."""
    if lines and ".txt" not in name:
        return
    mark = "\ufeff" if codec == "utf-16-be" else ""
    content = (mark + json.dumps({"text": "some words here"}) + "\n").encode(codec)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    (tmp_path / "b.txt").write_text("one")
    with pytest.raises(DamagedInputError, match=f"{name}: is UTF-16; write it as UTF-8"):
        gpulsh.deduplicate_files(tmp_path / name, tmp_path / "out", backend="reference", lines=lines)
    inputs = [tmp_path / name, tmp_path / "b.txt"]
    options: dict[str, Any] = {"backend": "reference", "lines": lines, "on_error": "skip"}
    funnel = gpulsh.deduplicate_files(inputs, tmp_path / "out", **options).funnel
    assert funnel["documents"] == 1 and funnel["rejected"] > 0
