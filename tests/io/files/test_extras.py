"""URLs whose package is not installed name it, and the extra that installs it."""

import subprocess
import sys
from pathlib import Path

from tests.support.runs import environment

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
