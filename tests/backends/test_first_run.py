"""A first run compiles some of the kernels that it needs in a second process."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from gpulsh.backends.compiling import COMPILING
from gpulsh.backends.cpu import second_compiler as second
from gpulsh.backends.cpu.second_compiler import second_compiler
from gpulsh.backends.kernel_cache import KernelCache

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}

KERNELS = """
    import json, sys
    from pathlib import Path
    from numba.core.dispatcher import Dispatcher
    from gpulsh import deduplicate_files
    from gpulsh.backends.cpu.second_compiler import compile_late
    from gpulsh.backends.cpu.kernel import _kernels

    def compiled():
        modules = [module for name, module in sys.modules.items() if name.startswith("gpulsh.backends.cpu")]
        known = {id(value): value for module in modules for value in vars(module).values()}
        return {
            f"{value.py_func.__module__}.{value.py_func.__name__}": sorted(map(str, value.signatures))
            for value in known.values() if isinstance(value, Dispatcher) and id(value) in _kernels and value.signatures
        }

    compile_late()
    late = compiled()
    deduplicate_files([sys.argv[1]], sys.argv[2], backend="cpu")
    print(json.dumps([late, compiled()]))
"""


def test_it_compiles_the_kernels_after_signing_for_the_same_types(tmp_path: Path) -> None:
    lines = [json.dumps({"text": f"some words of a text about {number // 2} and more"}) for number in range(400)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    code = textwrap.dedent(KERNELS)
    printed = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.jsonl"), str(tmp_path / "out")],
        check=True,
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
    )
    late, needed = json.loads(printed.stdout)
    assert {kernel: needed[kernel] for kernel in late} == late
    signs = {"fingerprinting.documents.fingerprint_words", "sketches.minhash._minhash", "buckets._band_digests"}
    assert {kernel.removeprefix("gpulsh.backends.cpu.") for kernel in needed.keys() - late.keys()} == signs


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Popen[bytes]]:
    """The processes that are started, on a machine with two processors."""
    found: list[Popen[bytes]] = []

    def start(*given: Any, **named: Any) -> Popen[bytes]:
        found.append(Popen(*given, **named))
        return found[-1]

    monkeypatch.setattr(second, "Popen", start)
    monkeypatch.setattr(second, "processors", lambda: 2)
    return found


def compile_one() -> None:
    COMPILING.begin()
    COMPILING.end()


def test_one_is_started_with_the_first_kernel_and_ends_with_the_run(started: list[Popen[bytes]]) -> None:
    with pytest.raises(ZeroDivisionError), second_compiler():
        assert not started
        compile_one()
        compile_one()
        raise ZeroDivisionError
    compile_one()
    (process,) = started
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("lacks", ["folder", "processor", "python", "room"])
def test_none_is_started_if_it_is_of_no_use(
    started: list[Popen[bytes]], monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    def full(*given: Any, **named: Any) -> Popen[bytes]:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    if lacks == "folder":
        monkeypatch.setattr(second, "kernel_cache", lambda: KernelCache(None))
    elif lacks == "processor":
        monkeypatch.setattr(second, "processors", lambda: 1)
    elif lacks == "python":
        monkeypatch.setattr(sys, "executable", "/usr/bin/uwsgi")
    else:
        monkeypatch.setattr(second, "Popen", full)
    with second_compiler():
        compile_one()
    assert not started


def test_lists_of_texts_do_not_load_pyarrow() -> None:
    code = "import sys, gpulsh; gpulsh.deduplicate(['a', 'b'], backend='cpu'); print('pyarrow' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=ENVIRONMENT)
    assert ran.stdout == "False\n"
