"""`--memory`: what is an amount, what is too little, and what another amount does to a run that goes on."""

from pathlib import Path
from typing import Any

import pytest

import gpulsh
from gpulsh.backends.cuda.memory import most_sizes
from gpulsh.backends.protocol import Sizes
from gpulsh.budget import cut, parse_memory, shares
from gpulsh.cli import main
from gpulsh.errors import OutputError, ParameterError
from gpulsh.io.limits import LEAST_MEMORY as LEAST
from tests.crash.test_resume import results, write_inputs
from tests.support.runs import interrupting

OPTIONS: dict[str, Any] = {"backend": "cpu", "threads": 1}


@pytest.mark.parametrize(
    ("given", "memory"),
    [
        *(("512MiB", LEAST), ("512mib", LEAST), (LEAST, LEAST), (str(LEAST), LEAST), (float(LEAST), LEAST)),
        *(("4GiB", 4 << 30), ("4 GiB", 4 << 30), (" 4G ", 4 << 30), ("4gb", 4 << 30), ("0.5G", LEAST), ("2T", 2 << 40)),
        *(("524288K", LEAST), ("1.5GiB", 3 << 29), ("536870912B", LEAST)),
    ],
)
def test_amounts(given: Any, memory: int) -> None:
    assert parse_memory(given) == memory and isinstance(parse_memory(given), int)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        *((given, "too little to work in") for given in ("511MiB", LEAST - 1, "0", 0, "1", "1K", "0.49G", "4")),
        *((given, "not an amount") for given in ("", " ", "much", "GiB", "4 Gi B", "4XB", "-4GiB", "+4GiB", "4,5GiB")),
        *((given, "not an amount") for given in ("1e10", "0x40000000", "4GiB4", "٤GiB", "9" * 400, "9" * 400 + "T")),
        *(
            (given, "not an amount")
            for given in (True, False, -(4 << 30), float("nan"), float("inf"), b"4GiB", ["4GiB"])
        ),
    ],
)
def test_too_little_or_no_amount(given: Any, told: str) -> None:
    with pytest.raises(ParameterError, match=f"{told}.*; give at least 512MiB, such as 4GiB"):
        parse_memory(given)


def test_nothing_given_is_what_the_machine_has() -> None:
    assert LEAST <= parse_memory(None) <= 8 << 30


def test_a_refused_amount_makes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given, out = write_inputs(tmp_path / "in"), tmp_path / "out"
    with pytest.raises(ParameterError, match="memory is '1MiB', too little"):
        gpulsh.deduplicate_files(given, out, memory="1MiB", **OPTIONS)
    assert main(["dedup", str(given), "-o", str(out), "--memory", "lots"]) == 2
    assert "memory is 'lots', not an amount of memory" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("memory", [LEAST, LEAST + 1, 1 << 30, 8 << 30, 1 << 40])
def test_more_memory_cuts_no_smaller(memory: int) -> None:
    sizes = Sizes(batch=1 << 20, tile=1 << 20, largest_tile=1 << 20)
    less, more = cut(memory, sizes), cut(2 * memory, sizes)
    assert 0 < less.group <= more.group < 2 * memory and 0 < less.digests <= more.digests
    assert less.group < memory and less.digests * 8 < memory


@pytest.mark.parametrize("memory", [LEAST, 1 << 30, 8 << 30])
@pytest.mark.parametrize("devices", [1, 8])
def test_a_device_leaves_half_of_the_budget_to_the_stages(memory: int, devices: int) -> None:
    sizes = most_sizes(memory, devices)
    found = shares(memory, sizes)
    assert list(found) == ["host", "read_ahead", "pinned", "held", "device"]
    lanes = 3 * devices + 2  # with a batch each, and two that are made
    assert found["read_ahead"] + found["pinned"] + lanes * sizes.batch + found["held"] <= memory // 2
    assert found["held"] == (0 if memory == LEAST else memory // 4)


def test_another_amount_is_refused_by_an_unfinished_run_and_not_by_a_finished_one(tmp_path: Path) -> None:
    given, out = write_inputs(tmp_path / "in"), tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpulsh.run.output.folder.worth_resuming", lambda manifest: True)
        with interrupting():
            gpulsh.deduplicate_files(given, out, memory="1GiB", **OPTIONS)
        with pytest.raises(OutputError, match="memory was 1073741824 and is 2147483648 now"):
            gpulsh.deduplicate_files(given, out, memory="2GiB", resume=True, **OPTIONS)
    before = gpulsh.deduplicate_files(given, out, memory=1 << 30, resume=True, **OPTIONS)
    found = results(out)
    again = gpulsh.deduplicate_files(given, out, memory="2GiB", resume=True, **OPTIONS)
    assert again.report == before.report and results(out) == found
    command = ["dedup", str(given), "-o", str(out), "--resume", "--memory", "3GiB", "--backend", "cpu"]
    assert main(command) == 0
    assert results(out) == found
