"""`--lines`: each line of a text file is a document; compared with the same documents as JSON lines."""

import gzip
import json
import random
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.errors import DamagedInputError, GpulshError, InputError, OutputError
from gpulsh.io.columns import Columns
from gpulsh.io.file import File
from gpulsh.io.format import Rules
from gpulsh.io.formats import text as text_lines
from gpulsh.io.formats.text import TextLines
from gpulsh.stats.stages import no_progress
from tests.support.files import PACK, UNPACK, new_file, texts_of
from tests.support.runs import run

PAGES = [" ".join(random.Random(number).choices([f"w{i}" for i in range(90)], k=12)) for number in range(9)]


def split(content: bytes) -> list[bytes]:
    """The texts of its lines, which end in \n or \r\n."""
    *lines, last = content.split(b"\n")
    return [line.removesuffix(b"\r") for line in lines] + ([last] if last else [])


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1 << 20])
def test_rows_are_lines_in_blocks_of_any_size(step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_lines, "STEP", step)
    rng, path, kept = random.Random(step), tmp_path / "a.txt", tmp_path / "kept"
    drawn = [bytes(rng.choices(b"ab\n\n\r", k=rng.randrange(40))) for _ in range(60)]
    for case in [b"", b"\n", b"\n\n", b"a", b"a\n", b"\na", b"a\r\n\xff\n\n", *drawn]:
        path.write_bytes(case)
        lines = split(case)
        assert texts_of(path) == lines
        keep = np.array([rng.random() < 0.5 for _ in lines], bool)
        TextLines().write_kept(File("a", "a", str(path)), keep, new_file(kept))
        whole = re.findall(rb"[^\n]*\n|[^\n]+\Z", case)
        assert kept.read_bytes() == b"".join(line for line, stays in zip(whole, keep, strict=True) if stays)
        with pytest.raises(InputError, match="changed"):
            TextLines().write_kept(File("a", "a", str(path)), np.ones(len(lines) + 1, bool), new_file(kept))


def test_parts_have_the_lines_of_the_file(tmp_path: Path) -> None:
    rng, path, form = random.Random(1), tmp_path / "a.txt", TextLines()
    for _ in range(60):
        path.write_bytes(bytes(rng.choices(b"ab\n\n\r", k=rng.randrange(1, 60))))
        file = File("a", "a", str(path))
        divided = replace(file, seek_points=form.find_seek_points(file, rng.choice([1, 5, 20]), no_progress))
        lines, columns = split(path.read_bytes()), Columns("text")
        for part in form.parts(divided, columns) or ():
            found = [
                block.texts.pieces(np.arange(len(block.texts)))
                for block in form.read(divided, columns, rules=Rules(part=part))
            ]
            assert [bytes(text) for texts in found for text in texts] == lines[part.start :][: part.rows]
        assert divided.seek_points[-1].row == len(lines)


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz"])
def test_compressed_text_is_copied_and_damage_skipped(ending: str, tmp_path: Path) -> None:
    pack, unpack = PACK[ending], UNPACK[ending]
    path = tmp_path / f"a.txt.{ending}"
    path.write_bytes(pack("\n".join([*PAGES, PAGES[2]]).encode()))
    run(path, tmp_path / "whole")
    assert (tmp_path / "whole/data" / path.name).read_bytes() == path.read_bytes()
    path.write_bytes(pack("\n".join(PAGES[:4]).encode()) + pack("\n".join(PAGES[3:]).encode())[:-9])
    with pytest.raises(DamagedInputError, match=r"a\.txt.*truncated"):
        run(path, tmp_path / "bad", lines=True)
    result = run(path, tmp_path / "skip", lines=True, on_error="skip")
    # The line that continues after the damage has an unknown end.
    assert unpack((tmp_path / "skip/data" / path.name).read_bytes()).decode() == "".join(f"{p}\n" for p in PAGES[:3])
    assert result.funnel["rejected"] == 1
    assert pq.read_table(tmp_path / "skip/rejected.parquet")["rows"].to_pylist() == [0]


def test_windows_line_ends_are_kept_and_not_part_of_texts(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\r\n".join([*PAGES, "", PAGES[2], "one two one two end\r\n"]).encode())
    run(path, tmp_path / "lines", lines=True)
    assert (tmp_path / "lines/data/a.txt").read_bytes().splitlines(keepends=True)[0] == f"{PAGES[0]}\r\n".encode()
    run(path, tmp_path / "json", lines=True, format="jsonl")
    written = (tmp_path / "json/data/a.jsonl").read_text().splitlines()
    assert [json.loads(line)["text"] for line in written] == [*PAGES, "", "one two one two end"]
    gpulsh.passages_files(path, tmp_path / "cut", lines=True, tokens=2, keep="none", cut=True, min_left=1)
    assert (tmp_path / "cut/data/a.txt").read_bytes().endswith(b"\r\n end\r\n")


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-be"])
@pytest.mark.parametrize(
    "name", ["a.txt", "a.txt.gz", "lines.txt", "lines.txt.gz", "a.jsonl", "a.jsonl.gz", "a.json", "a.csv"]
)
def test_utf16_is_refused(codec: str, name: str, folder: Path) -> None:
    """As UTF-8 it would be letters with zeros between them, a document unlike any other."""
    mark = "\ufeff" if codec == "utf-16-be" else ""
    content = (mark + json.dumps({"text": "some words here"}) + "\n").encode(codec)
    (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    (folder / "b.txt").write_text("one")
    lines = name.startswith("lines")
    with pytest.raises(DamagedInputError, match=f"{name}: is UTF-16; write it as UTF-8"):
        run(folder / name, lines=lines)
    funnel = run([folder / name, folder / "b.txt"], lines=lines, on_error="skip").funnel
    assert funnel["documents"] == 1 and funnel["rejected"] > 0


@pytest.mark.parametrize(
    ("name", "content", "large"),
    [
        ("a.txt", b"".join(b"it is in line %d\n" % line for line in range(200)), 1 << 20),
        ("a.txt", b"\n".join(b"x%d " % line * 50 for line in range(19)), 2000),
        ("a.txt.gz", b"one line\n" * 30, 2000),
        ("a.txt", b"a letter\n\nof few lines\n", 2000),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_text_of_many_lines_gives_one_hint(
    name: str, content: bytes, large: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So does a large one of few lines."""
    monkeypatch.setattr(text_lines, "LARGE_FILE", large)
    for path in ("b.txt", name):
        Path(path).write_bytes(gzip.compress(content) if path.endswith("gz") else content)
    for lines, wanted in ((False, 0 if b"letter" in content else 1), (True, 0)):
        caplog.clear()
        run([name, "b.txt"], overwrite=True, lines=lines)
        hints = [message for message in caplog.messages if message.endswith("with lines=True each line is one")]
        assert len(hints) == wanted and all(message.startswith(f"{name}: is one document") for message in hints)


def test_lines_are_part_of_the_job_and_have_no_columns(folder: Path) -> None:
    Path("a.txt").write_text("\n".join(PAGES))
    run("a.txt", lines=True)
    with pytest.raises(OutputError, match="belongs to another run"):
        run("a.txt", resume=True)
    with pytest.raises(GpulshError, match="is plain text and has no column 'id'"):
        run("a.txt", "o", lines=True, id_column="id")
    with pytest.raises(GpulshError, match="has no column 'host', which source_column names"):
        run("a.txt", "o", lines=True, source_column="host")
    assert not Path("o").exists()
