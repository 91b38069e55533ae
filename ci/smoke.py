"""Checks an installed gpulsh with nothing else around it: `smoke.py EXTRA...`, the extras it must have."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import distribution
from pathlib import Path

import gpulsh

COMMAND = Path(sys.executable).with_name("gpulsh")
TEXTS = ["one two three four five six", "One, two, three, four, five, six!", "seven eight nine ten eleven twelve"]


def command(*arguments: str) -> str:
    return subprocess.run([COMMAND, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def check_files(extras: set[str]) -> None:
    """The installation is the package with its types and kernels, and nothing else."""
    found = distribution("gpulsh")
    assert found.version == gpulsh.__version__ == command("--version").split()[-1]
    assert set(found.metadata.get_all("Provides-Extra", [])) == extras
    files = {file.as_posix() for file in found.files or []}
    assert {"gpulsh/py.typed", "gpulsh/kernels/minhash.cu"} <= files
    tops = {name.split("/")[0] for name in files if not name.startswith("../")}
    assert tops == {"gpulsh", f"gpulsh-{found.version}.dist-info"}, tops


def check_runs(folder: Path) -> None:
    """The same bytes on both backends that need no device."""
    source = folder / "texts.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    kept = {}
    for backend in ("cpu", "reference"):
        out = folder / backend
        command("dedup", str(source), "-o", str(out), "--backend", backend)
        kept[backend] = (out / "data/texts.jsonl").read_bytes(), (out / "duplicates.parquet").read_bytes()
        report = json.loads((out / "report.json").read_text())
        assert (report["backend"]["name"], report["funnel"]["dropped"]) == (backend, 1)
    assert kept["cpu"] == kept["reference"]
    assert kept["cpu"][0].count(b"\n") == 2
    assert gpulsh.deduplicate(TEXTS).keep.tolist() == [True, False, True]


def main() -> None:
    check_files(set(sys.argv[1:]))
    told = json.loads(command("info", "--json"))
    assert told["backends"]["cpu"]["available"] and told["backends"]["reference"]["available"], told["backends"]
    with tempfile.TemporaryDirectory() as folder:
        check_runs(Path(folder))
    print(f"ok on Python {platform.python_version()}, NumPy {told['versions']['numpy']}")


if __name__ == "__main__":
    main()
