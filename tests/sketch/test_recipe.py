"""The recipe of CONTRIBUTING.md works: its sketch passes text, giants, files, index, command and all backends."""

import re
import shutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import gpulsh
from gpulsh.backends.cpu import CpuBackend
from gpulsh.backends.cuda import CudaBackend, Shared
from gpulsh.backends.cuda.launcher import kernel_folder
from gpulsh.backends.protocol import sketched
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.params import SKETCHES, BandShape, Family, Shingling
from gpulsh.sketch.named import SETS, parse_sketch
from tests.backends.test_giants import pieces_of
from tests.kernels.device_arrays import DeviceModule
from tests.kernels.host import HostLauncher, compiler
from tests.sketch.test_main_job import decide_all_ways, documents
from tests.support.files import read_rows
from tests.support.rows import LENGTHS, random_table
from tests.support.texts import KEYS, batch_of

PAGE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^`([\w/]+\.(?:py|cu))`\n```\w+\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Install the page's files at the places that it names, or as parts of the existing ones."""
    assert len(FILES) == 5
    for path, source in FILES.items():
        if path.endswith(".py"):
            module = ModuleType(path.removesuffix(".py").replace("/", "."))
            exec(compile(source, path, "exec"), module.__dict__)
            if "toy" in path:
                monkeypatch.setitem(sys.modules, module.__name__, module)
            elif "backends" in path:
                monkeypatch.setitem(import_module(module.__name__).SKETCHES, "toy", module.SKETCHES["toy"])
            else:
                monkeypatch.setitem(SETS, "toy", module.Toy)
    folder = tmp_path_factory.mktemp("tree") / "kernels"
    shutil.copytree(kernel_folder(), folder)
    (folder / "toy.cu").write_text(FILES["kernels/toy.cu"])
    monkeypatch.setattr("gpulsh.backends.cuda.launcher.kernel_folder", lambda: folder)
    monkeypatch.setitem(SKETCHES, "toy", "toy")
    yield


def family(columns: int) -> Family:
    return Family(name="toy", num_perm=columns)  # type: ignore[arg-type]


def test_the_recipe_names_existing_files() -> None:
    for path in FILES:
        real = Path(path.replace("cpu/sketches/toy", "cpu/sketches/bins").replace("toy", "one_permutation"))
        assert (Path(__file__).parents[2] / real).is_file(), real


@pytest.mark.parametrize("threads", [1, 2])
def test_the_cpu_equals_the_oracle_in_any_pieces(threads: int) -> None:
    text, shingling = batch_of([b"", b"a", b"a b c d e f " * 20, "漢字 ".encode() * 9]), Shingling(size=2)
    rows, shape = random_table(LENGTHS), BandShape(bands=3, rows=2)
    reference, cpu = ReferenceBackend(), CpuBackend(threads)
    np.testing.assert_array_equal(sketched(cpu, rows, family(7)), sketched(reference, rows, family(7)))
    wanted = reference.sign(text, shingling, family(7), shape, KEYS).digests
    np.testing.assert_array_equal(cpu.sign(text, shingling, family(7), shape, KEYS).digests, wanted)
    with pieces_of(5):
        np.testing.assert_array_equal(cpu.sign(text, shingling, family(7), shape, KEYS).digests, wanted)


@pytest.mark.kernels
def test_the_kernel_equals_the_oracle() -> None:
    if compiler() is None:
        pytest.skip("no C++ compiler: none of $CXX, g++, clang++ and the ziglang package is there")
    cuda, reference = CudaBackend(Shared(DeviceModule(), HostLauncher())), ReferenceBackend()
    rows = random_table([3, 0, 70, 1])
    there = rows.moved(cuda.asarray)
    np.testing.assert_array_equal(cuda.asnumpy(sketched(cuda, there, family(9))), sketched(reference, rows, family(9)))


def test_main_job_index_and_command_take_the_sketch(tmp_path: Path) -> None:
    texts, sketch = documents(), parse_sketch("toy:64")
    wanted, _ = decide_all_ways(texts, {"sketch": sketch}, "--sketch toy:64", tmp_path)
    found = gpulsh.deduplicate(texts, threshold=0.6, sketch=sketch, backend="reference")  # type: ignore[arg-type]
    assert (found.duplicate_of == wanted.duplicate_of).all() and not wanted.keep.all()
    index = gpulsh.Index(threshold=0.6, sketch=sketch, backend="cpu")
    assert (index.add(list(range(len(texts))), texts).keep == wanted.keep).all()
    kept = [row["text"] for row in read_rows(tmp_path / "two/data/a.parquet")]
    assert kept == [text for text, keep in zip(texts, wanted.keep, strict=True) if keep]
