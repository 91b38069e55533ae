"""OUT behind a URL: the bytes of a local run, never seen as finished before all of them are there."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from gpulsh.cli import main
from gpulsh.errors import InputError, OutputError, ParameterError
from gpulsh.run.files import FilesResult, deduplicate_files
from gpulsh.run.output.remote import RemoteFolder
from tests.crash.test_resume import results

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


def run(inputs: Path, out: Any = URL, **options: Any) -> FilesResult:
    return deduplicate_files(inputs, out, backend="reference", threads=1, **options)


def there(lake: Any) -> dict[str, bytes]:
    """What is behind the URL, but for the reports, which tell times."""
    found = {path.removeprefix("/lake/out/"): lake.cat_file(path) for path in lake.find("/lake/out")}
    return {name: content for name, content in found.items() if not name.startswith("report")}


def test_the_bytes_of_a_local_run(lake: Any, inputs: Path, tmp_path: Path) -> None:
    run(inputs, tmp_path / "out")
    result = run(inputs)
    assert there(lake) == results(tmp_path / "out")
    assert (result.output, result.data) == (URL, f"{URL}/data")
    assert json.loads(lake.cat_file("/lake/out/report.json")) == result.report
    assert list((tmp_path / "tmp").iterdir()) == []
    assert main(["dedup", str(inputs), "-o", f"{URL}/", "--backend", "reference", "--overwrite"]) == 0


def test_results_are_shown_and_the_page_made_again(lake: Any, inputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(inputs)
    assert main(["show", f"{URL}/"]) == 0
    told = capsys.readouterr().out
    assert (
        told.startswith("Showing 1 of 2 dropped documents.")
        and f"kept     {inputs}/a/x.jsonl, row 0\n  the same" in told
    )
    page = lake.cat_file("/lake/out/report.html")
    lake.rm_file("/lake/out/report.html")
    assert main(["report", URL]) == 0 and lake.cat_file("/lake/out/report.html") == page
    assert capsys.readouterr().out == f"{URL}/report.html\n"
    lake.mv("/lake/out/report.json", "/lake/out/_unfinished.json")
    for command, out, reason in (
        ("show", URL, f"{URL}: holds an unfinished run; `gpulsh dedup --resume` continues it"),
        ("report", URL, f"{URL}: holds an unfinished run"),
        ("show", "memory://lake/none", "memory://lake/none: holds no report.json of a finished run"),
        ("show", "nosuch://lake", "nosuch://lake: cannot be reached or written: Protocol not known: nosuch"),
    ):
        assert main([command, out]) == 1
        assert f"gpulsh: error: {reason}" in capsys.readouterr().err


@pytest.mark.parametrize("last", [1, 4, 8])
def test_a_kill_at_any_file_is_gone_on_from(
    lake: Any, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    """First comes the claim, again with the names, then three files, the evidence, the page, the report."""
    run(inputs, tmp_path / "out")
    put: list[str] = []
    real = MemoryFileSystem.put_file

    def put_file(self: Any, here: str, path: str, **how: Any) -> None:
        put.append(path.removeprefix("/lake/out/"))
        if len(put) == last:
            raise KeyboardInterrupt
        real(self, here, path, **how)

    work = tmp_path / "work"
    monkeypatch.setattr("gpulsh.run.output.remote.SIDE_BY_SIDE", 1)
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
    assert there(lake) == results(tmp_path / "out") and not work.exists()
    assert not set(before[2 : last - 1]) & set(put[last:]) - {"_unfinished.json"}  # those are not put again
    assert run(inputs, work=work, resume=True).report == result.report and not work.exists()
    with pytest.raises(OutputError, match="belongs to another run: keep was 'first' and is 'longest' now"):
        run(inputs, work=work, resume=True, keep="longest")


def test_a_kill_behind_the_report_leaves_a_finished_run(
    lake: Any, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(self: Any, report: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(RemoteFolder, "_end", end)
        run(inputs, work=tmp_path / "work")
    assert lake.exists("/lake/out/report.json") and lake.exists("/lake/out/_unfinished.json")
    run(inputs, work=tmp_path / "work", resume=True)
    assert not lake.exists("/lake/out/_unfinished.json") and not (tmp_path / "work").exists()


def test_results_are_replaced_when_new_ones_are_made(
    lake: Any, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(inputs)
    with pytest.raises(OutputError, match="is not empty, it holds an earlier run's results; give another folder"):
        run(inputs)
    (inputs / "c/x.jsonl").rename(inputs / "c/y.jsonl")
    real: Callable[..., None] = RemoteFolder._upload

    def upload(self: Any, outputs: Any) -> None:
        assert not lake.exists("/lake/out/report.json") and lake.exists("/lake/out/data/c/x.jsonl")
        real(self, outputs[:1])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(RemoteFolder, "_upload", upload)
        run(inputs, work=tmp_path / "work", overwrite=True)
    run(inputs, work=tmp_path / "work", resume=True)
    assert {name for name in there(lake) if name.startswith("data/c")} == {"data/c/y.jsonl"}
    assert (
        "_unfinished.json" not in there(lake)
        and first.report["outputs"] != run(inputs, overwrite=True).report["outputs"]
    )


def test_what_gpulsh_did_not_write_stays(lake: Any, inputs: Path, tmp_path: Path) -> None:
    lake.pipe_file("/lake/out/mine.txt", b"precious")
    with pytest.raises(OutputError, match=r"it holds files that gpulsh did not write; give another folder$"):
        run(inputs)
    with pytest.raises(OutputError, match=r"holds mine\.txt, which gpulsh did not write; move it away first"):
        run(inputs, overwrite=True)
    assert there(lake) == {"mine.txt": b"precious"} and list((tmp_path / "tmp").iterdir()) == []


def test_an_error_leaves_nothing(lake: Any, inputs: Path, tmp_path: Path) -> None:
    (inputs / "c/x.jsonl").write_text('{"text": 1}\n')
    with pytest.raises(InputError, match="give a string or null"):
        run(inputs)
    assert not there(lake) and list((tmp_path / "tmp").iterdir()) == []


def test_what_is_refused_before_work_begins(lake: Any, inputs: Path, tmp_path: Path) -> None:
    lake.pipe_file("/lake/in/x.jsonl", b'{"text": "a"}\n')
    for given, told in {
        "memory://lake/in": "is the input itself",
        "memory://lake/in/out": "is inside the input memory://lake/in;",
        "memory://lake": "holds the input memory://lake/in/x",
        f"file://{tmp_path}/out": "is a folder of this machine; give its path",
        "nosuch://lake": "cannot be reached or written: Protocol not known: nosuch",
    }.items():
        with pytest.raises(OutputError, match=told):
            deduplicate_files("memory://lake/in", given, backend="reference")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    with pytest.raises(OutputError, match="full: is not empty; give another folder as work"):
        run(inputs, work=tmp_path / "full")
    with pytest.raises(ParameterError, match="work is given, and output is not a URL"):
        run(inputs, tmp_path / "out", work=tmp_path / "work")
    with pytest.raises(ParameterError, match="give work, a folder that all nodes see"):
        run(inputs, engine="ray")
    assert not there(lake)


SHAPES: list[Any] = [None, 1, "x", [], {}, [1], [{}], [["a"]], {"a": 1}, True]


@pytest.mark.parametrize("mark", ["_unfinished.json", "report.json"])
@pytest.mark.parametrize("name", ["outputs", "replaced", "made", "work", "job", "funnel"])
def test_a_mark_of_a_wrong_shape_is_no_defect_of_ours(mark: str, name: str, lake: Any, inputs: Path) -> None:
    whole = {"gpulsh": "x", "made": True, "outputs": ["report.json"], "replaced": [], "work": str(inputs.parent / "w")}
    for shape in SHAPES:
        every: list[dict[str, str]] = [{}, {"overwrite": ""}, {"work": str(inputs.parent / "w")}]
        for options in every:
            lake.pipe_file(f"/lake/out/{mark}", json.dumps({**whole, name: shape}).encode())
            flags = {"overwrite": "overwrite" in options, "resume": "work" in options}
            with suppress(OutputError), RemoteFolder(URL, options.get("work"), **flags):
                raise OutputError("it ends here")
            for path in lake.find("/lake/out"):
                lake.rm_file(path)
