"""The wheel and the sdist, the cost of an import, the versions, and the types of public calls."""

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.version import Version

import gpulsh

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ["jinja2", "cupy", "cudf", "numba", "llvmlite", "ray", "pyarrow", "matplotlib", "pandas", "polars"]


def loaded_after(code: str, path: Path = ROOT) -> set[str]:
    """The top-level modules of a fresh interpreter after `code`."""
    report = "import json, sys; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    command, environment = [sys.executable, "-c", f"{code}\n{report}"], os.environ | {"PYTHONPATH": str(path)}
    ran = subprocess.run(command, check=False, capture_output=True, text=True, cwd=path, env=environment)
    assert ran.returncode == 0, ran.stderr
    return set(json.loads(ran.stdout.splitlines()[-1]))


def test_light_calls_import_no_heavy_modules() -> None:
    assert {"pyarrow", "numpy"} <= loaded_after("import pyarrow"), "heavy modules would be seen"
    assert not loaded_after("import gpulsh") & {*HEAVY, "rich", "click", "fsspec", "orjson", "zstandard"}
    code = "import gpulsh; gpulsh.Shingling(size=3); gpulsh.choose_banding(); gpulsh.compat.NemoMinHash; gpulsh.theory"
    assert not loaded_after(code) & set(HEAVY)
    for arguments in (["--help"], ["dedup", "--help"], ["curve", "--help"]):
        code = f"""
import sys
from gpulsh.cli import main
sys.argv = ["gpulsh", *{arguments!r}]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
"""
        assert not loaded_after(code) & {*HEAVY, "fsspec", "rich"}, arguments


def test_public_names_are_listed_and_resolve() -> None:
    assert sorted(gpulsh.__all__) == dir(gpulsh)
    for name in gpulsh.__all__:
        assert getattr(gpulsh, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = gpulsh.no_such_name


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    ran = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return folder


def source_files(folder: str, *suffixes: str) -> set[str]:
    files = (file.relative_to(ROOT) for file in (ROOT / folder).rglob("*") if "__pycache__" not in file.parts)
    return {file.as_posix() for file in files if file.suffix in suffixes}


def test_the_wheel_is_complete_and_runs_unpacked(distributions: Path, tmp_path: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    assert wheel.name == f"gpulsh-{gpulsh.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        entry_points = next(name for name in names if name.endswith("entry_points.txt"))
        assert "gpulsh = gpulsh.cli:main" in archive.read(entry_points).decode()
        archive.extractall(tmp_path)
    kernels = {f"gpulsh/{kernel}" for kernel in source_files("kernels", ".cu", ".cuh")}
    assert kernels and kernels | {"gpulsh/py.typed"} <= names
    assert source_files("gpulsh", ".py", ".pyi", ".txt", ".html", ".json", ".typed") <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name.split("/")[0] for name in names} == {"gpulsh", f"gpulsh-{gpulsh.__version__}.dist-info"}
    code = f"""
import gpulsh
from pathlib import Path
assert Path(gpulsh.__file__).is_relative_to({str(tmp_path)!r}), gpulsh.__file__
kept = gpulsh.deduplicate(["a b c d e f"] * 2 + ["g h i j k l"], backend="reference").keep
assert kept.tolist() == [True, False, True]
"""
    loaded_after(code, tmp_path)


def test_the_wheel_writes_the_page_of_a_run_packed(distributions: Path, tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    (wheel,) = distributions.glob("*.whl")
    (tmp_path / "a.jsonl").write_text('{"text": "a b c"}\n' * 2)
    command = [sys.executable, "-m", "gpulsh", "dedup", "a.jsonl", "-o", "out", "--backend", "reference"]
    environment = os.environ | {"PYTHONPATH": str(wheel)}
    ran = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert ran.returncode == 0 and (tmp_path / "out/report.html").exists(), ran.stderr


def test_the_sdist_holds_sources_and_tests(distributions: Path) -> None:
    (sdist,) = distributions.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert source_files("kernels", ".cu", ".cuh") <= names
    assert source_files("gpulsh", ".py", ".pyi", ".txt", ".typed") <= names
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "ci/test", "tests/test_packaging.py"} <= names
    assert not any(name.startswith(("benchmarks/record/", ".venv")) for name in names)


def test_the_version_is_the_newest_release_or_in_development() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core = {re.split(r"[^\w-]", requirement)[0] for requirement in project["dependencies"]}
    assert not core & {"cupy", "ray", "cudf", "matplotlib", "pandas", "polars"}
    changes = (ROOT / "CHANGELOG.md").read_text().partition("## [Unreleased]")[2]
    unreleased, _, older = changes.partition("\n## [")
    released, version = older.partition("]")[0], Version(gpulsh.__version__)
    if "### " in unreleased:
        assert version.is_devrelease and version > Version(released)
    else:
        assert version == Version(released)


def test_citation_names_the_newest_release() -> None:
    released = re.findall(r"^## \[([\d.]+)\]", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[0]
    assert f"\nversion: {released}\n" in (ROOT / "CITATION.cff").read_text()


CODE = """
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import gpulsh

class Frame: ...

result = gpulsh.deduplicate(["a", "b"], sketch="minhash", text_column=["title", "body"])
assert_type(result, gpulsh.Decision)
assert_type(result.keep, NDArray[np.bool_])
assert_type(result.duplicate_of, NDArray[np.int64])
assert_type(result.similarity, NDArray[np.float32])
assert_type(result.filter(["a", "b"]), list[str])
assert_type(result.filter(("a", "b")), list[str])
numbers: NDArray[np.float64] = np.zeros(2)
assert_type(result.filter(numbers), NDArray[np.float64])
assert_type(result.filter(Frame()), Frame)
assert_type(gpulsh.SCurve(bands=2, rows=2).probability(numbers), NDArray[np.float64])
assert_type([text for text, stays in zip("ab", result.keep) if stays], list[str])
"""
WRONG = {"threshhold=0.5": "call-arg", "num_perm='many'": "arg-type"}


def test_mypy_finds_exactly_the_wrong_calls(tmp_path: Path) -> None:
    """mypy --strict finds the wrong calls and nothing else."""
    code = CODE + "".join(f'gpulsh.deduplicate(["a"], {wrong})\n' for wrong in WRONG)
    (tmp_path / "user.py").write_text(code)
    command = [sys.executable, "-m", "mypy", "--strict", "--hide-error-context", str(tmp_path / "user.py")]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    errors = [line for line in found.stdout.splitlines() if ": error: " in line]
    lines = len(code.splitlines()) - len(WRONG)
    for number, (line, kind) in enumerate(zip(errors, WRONG.values(), strict=True)):
        assert f"user.py:{lines + number + 1}: " in line and line.endswith(f"[{kind}]"), found.stdout
