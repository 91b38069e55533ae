"""The main job with every sketch: the decision is exact for any candidates; and documents in pieces."""

import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import gpulsh
from gpulsh.arrays import TextBatch
from gpulsh.backends.cpu import CpuBackend
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.cli import group as command
from gpulsh.errors import ParameterError
from gpulsh.params import SKETCHES, Family, FamilyName, MinHashFamily, Shingling
from gpulsh.sketch.named import SETS, parse_sketch
from tests.backends.test_giants import operations, pieces_of
from tests.support.files import write_rows
from tests.support.rows import same
from tests.support.runs import evidence
from tests.support.texts import batches

every_sketch = pytest.mark.parametrize("name", sorted(SETS))


def documents(couples: int = 30) -> list[str]:
    generator = np.random.default_rng(3)
    words = [f"w{number}" for number in range(400)]
    found = []
    for _ in range(couples):
        text = generator.choice(words, 80).tolist()
        found.append(" ".join(text))
        text[int(generator.integers(80))] = "changed"
        found.append(" ".join(text))
    return found


@every_sketch
def test_every_backend_decides_alike(name: str) -> None:
    texts, sketch = documents(10), parse_sketch(f"{name}:64")
    for options in ({}, {"verify": "signature"}, {"verify": "none"}, {"resolve": "components"}):
        one, two = (
            gpulsh.deduplicate(texts, threshold=0.6, sketch=sketch, backend=backend, **options)  # type: ignore[arg-type]
            for backend in ("reference", "cpu")
        )
        assert one == two
    kept = gpulsh.deduplicate(texts, threshold=0.6, sketch=sketch, backend="cpu").keep
    assert kept[::2].all() and kept[1::2].sum() <= 2  # nearly every changed copy is found


def dropped_rows(out: Path) -> list[int]:
    return [row["row"] for row in evidence(out)]


def decide_all_ways(texts: list[str], given: dict[str, Any], options: str, folder: Path) -> tuple[gpulsh.Decision, Any]:
    """Decide in memory, over files and by the command, all alike; also the parameters that the command reports."""
    path = write_rows(folder / "a.parquet", texts)
    wanted = gpulsh.deduplicate(texts, threshold=0.6, backend="cpu", **given)
    gpulsh.deduplicate_files(path, folder / "one", threshold=0.6, backend="cpu", **given)
    asked = ["dedup", path, "-o", str(folder / "two"), "--threshold", "0.6", "--backend", "cpu"]
    ran = CliRunner().invoke(command, [*asked, *options.split()])
    assert ran.exit_code == 0, ran.output
    assert dropped_rows(folder / "one") == dropped_rows(folder / "two") == np.flatnonzero(~wanted.keep).tolist()
    return wanted, json.loads((folder / "two/report.json").read_text())["parameters"]


@every_sketch
def test_files_index_and_command_decide_as_in_memory(name: str, tmp_path: Path) -> None:
    texts, sketch = documents(), parse_sketch(f"{name}:64")
    wanted, parameters = decide_all_ways(texts, {"sketch": sketch}, f"--sketch {name}:64", tmp_path)
    assert parameters["family"]["num_perm"] == 64 and parameters["family"]["name"] == SETS[name].kind

    index = gpulsh.Index(threshold=0.6, sketch=sketch, backend="cpu")
    added = index.add(list(range(len(texts))), texts)
    assert (added.keep == wanted.keep).all()
    index.save(tmp_path / "index")
    again = gpulsh.Index.open(tmp_path / "index", sketch=sketch, backend="cpu")
    assert again.query(texts[:1]).keys.tolist() == [0]
    with pytest.raises(ParameterError, match="sketch"):
        gpulsh.Index.open(tmp_path / "index", sketch=parse_sketch(f"{name}:65"), backend="cpu")


REFERENCE, ONE = ReferenceBackend(), CpuBackend(1)


def test_every_family_has_a_sketch_of_its_own() -> None:
    assert set(SKETCHES) == set(get_args(FamilyName))
    others = set(get_args(FamilyName)) - set(get_args(MinHashFamily))
    assert {kind.kind for kind in SETS.values()} == {*others, "affine32"}


@given(name=st.sampled_from(sorted(SKETCHES)), text=batches(), piece=st.sampled_from([1, 3, 16, 1000]))
def test_documents_in_pieces_have_the_same_sketch(name: FamilyName, text: TextBatch, piece: int) -> None:
    family = Family(name=name, num_perm=16)
    wanted = list(operations(REFERENCE, text, Shingling(size=3), family))
    with pieces_of(piece):
        for found, one in zip(operations(ONE, text, Shingling(size=3), family), wanted, strict=True):
            same(found, one)
