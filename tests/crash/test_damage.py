"""Work files that are truncated, flipped or missing on resumption are named and computed again; no byte is wrong."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import gpulsh
from gpulsh.budget import TaskSizes
from tests.crash.test_resume import outlive_an_error, results, write_inputs
from tests.support.files import flipped
from tests.support.runs import SOAK, interrupting

OPTIONS: dict[str, Any] = {"backend": "cpu", "threads": 1, "keep": "score", "id_column": "score", "on_error": "skip"}
KINDS = {  # of files, by how their names begin and end
    *(("sign-", f"-{table}.arrow") for table in ("digests", "exact", "documents", "rejected")),
    *(("copies-", "-copies.arrow"), ("collide-", "-pairs.arrow"), ("collide-", "-memberships.arrow")),
    *(("collide-", "-forest.arrow"), ("connect-", "members.arrow")),
    *(("connect-", "shares.arrow"), ("compare-", "-edges.arrow")),
    *(("route-", "-copies-routed.arrow"), ("route-", "-pairs-routed.arrow"), ("route-", "-memberships-routed.arrow")),
    *(("gather-", "-places.arrow"), ("gather-", "-texts.bin"), ("verify-", "-decided.arrow")),
    *(("collect-", "-decisions.arrow"), ("collect-", "-ids0.arrow")),
    *(("a.", "parquet"), ("b.", "jsonl"), ("c.", "arrow"), ("duplicates", ".parquet"), ("rejected", ".parquet")),
}
SOME = [("sign-", "-digests.arrow"), ("sign-", "-exact.arrow"), ("verify-", "-decided.arrow"), ("b.", "jsonl")]


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "gone": lambda data: None,
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "all but a byte": lambda data: data[:-1],
    "a byte more": lambda data: data + b"\0",
    "first byte": lambda data: flipped(data, 0),
    "middle byte": lambda data: flipped(data, len(data) // 2),
    "last byte": lambda data: flipped(data, -1),
}


def damage(path: Path, how: str) -> None:
    data = path.read_bytes()
    damaged = DAMAGES[how](data) if data else None
    path.unlink()
    if damaged is not None:
        path.write_bytes(damaged)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Inputs `in`, their results `whole`, and `late`, a run interrupted before it moved its results."""
    folder = tmp_path_factory.mktemp("base")
    given = write_inputs(folder / "in")
    page = "a page of which there are so many copies with other ends that it has large buckets of its own and "
    with open(given / "b.jsonl", "a") as lines:
        lines.write("no record\n")
        lines.writelines(f'{{"text": "{page * 2}end{number}", "score": {number}}}\n' for number in range(12))
    with pytest.MonkeyPatch.context() as patch:
        outlive_an_error(patch, TaskSizes(memory=1 << 30, partition=6000, digests=900, group=1500))
        patch.setattr("gpulsh.lsh.collisions.SMALL_BUCKET", 4)
        gpulsh.deduplicate_files(given, folder / "whole", **OPTIONS)
        with interrupting("gpulsh.run.output.folder.OutputFolder.commit"):
            gpulsh.deduplicate_files(given, folder / "late", **OPTIONS)
        yield folder


@pytest.fixture
def late(base: Path, tmp_path: Path) -> Callable[[str], Path]:
    def copy(name: str) -> Path:
        shutil.copytree(base / "late", tmp_path / name)
        return tmp_path / name

    return copy


def files_of(work: Path) -> list[Path]:
    names = ("lock", "manifest.jsonl", "report.json")
    return [path for path in sorted(work.rglob("*")) if path.is_file() and path.name not in names]


def test_a_damaged_work_file_is_named_and_replaced(
    late: Callable[[str], Path], base: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = results(base / "whole")
    files = [path.relative_to(base / "late/_work") for path in files_of(base / "late/_work")]
    assert {kind for kind in KINDS if not any(is_kind(path.name, kind) for path in files)} == set()
    first = [next(path for path in files if is_kind(path.name, kind)) for kind in (sorted(KINDS) if SOAK else SOME)]
    for number, path in enumerate(first):
        how = list(DAMAGES)[(3 * number + number // 8) % len(DAMAGES)]
        out = late(str(number))
        damage(out / "_work" / path, how)
        caplog.clear()
        gpulsh.deduplicate_files(base / "in", out, resume=True, **OPTIONS)
        assert results(out) == wanted, (path, how)
        assert f"{path} is missing or damaged; it is computed again" in caplog.text, (path, how)


def is_kind(name: str, kind: tuple[str, str]) -> bool:
    return name.startswith(kind[0]) and name.endswith(kind[1])


@pytest.mark.parametrize("seed", range(8 if SOAK else 1))
def test_many_damaged_work_files_are_computed_again(late: Callable[[str], Path], base: Path, seed: int) -> None:
    source = Random(seed)
    out = late("out")
    files = files_of(out / "_work")
    for path in source.sample(files, source.choice([3, len(files) // 2, len(files)])):
        damage(path, source.choice(list(DAMAGES)))
    gpulsh.deduplicate_files(base / "in", out, resume=True, **OPTIONS)
    assert results(out) == results(base / "whole")


@pytest.mark.parametrize("place", [0.0, 0.01, 0.3, 0.6, 1.0] if SOAK else [0.3])
@pytest.mark.parametrize("how", ["flipped", "cut"])
def test_a_manifest_counts_up_to_its_damage(late: Callable[[str], Path], base: Path, place: float, how: str) -> None:
    """Lines from the damaged one on are ignored, and their steps are done again."""
    out = late("out")
    path = out / "_work/manifest.jsonl"
    data = path.read_bytes()
    at = int(place * (len(data) - 1))
    path.write_bytes(flipped(data, at) if how == "flipped" else data[:at])
    gpulsh.deduplicate_files(base / "in", out, resume=True, **OPTIONS)
    assert results(out) == results(base / "whole") and not (out / "_work").exists()


def test_foreign_files_in_the_work_folder_do_no_harm(late: Callable[[str], Path], base: Path) -> None:
    """Parts of killed attempts and files of no step never become results."""
    out = late("out")
    (out / "_work/verify-009999-decided.arrow").write_bytes(b"not one of ours")
    (out / "_work/sign-000000-digests.arrow.0123456789abcdef0123456789abcdef.part").write_bytes(b"half")
    (out / "_work/report.json").write_bytes(b"{half")
    gpulsh.deduplicate_files(base / "in", out, resume=True, **OPTIONS)
    assert results(out) == results(base / "whole") and not (out / "_work").exists()
