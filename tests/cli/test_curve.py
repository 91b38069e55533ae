"""`gpulsh curve`, as click runs it."""

import inspect
import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from gpulsh.cli.commands import group
from gpulsh.cli.studies import BAR, DEFAULT_CAPTURE, DEFAULT_NUM_PERM, DEFAULT_REJECT, DEFAULT_THRESHOLD, curve
from gpulsh.errors import OutputError, ParameterError
from gpulsh.method import Method
from gpulsh.theory import SCurve, choose_banding, default_banding


def run(*arguments: str) -> Result:
    return CliRunner().invoke(group, ["curve", *arguments])


def as_json(*arguments: str) -> dict[str, object]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_table_and_the_json_describe_the_banding() -> None:
    lines = run("--bands", "42", "--rows", "3").stdout.splitlines()
    first = [line.split("  ")[0] for line in lines[:7]]
    assert first == ["bands", "rows", "num perm", "steepest", "approximately", "slope", "width"]
    assert [line[22:30].strip() for line in lines[:7]] == ["42", "3", "126", "0.2520", "0.2877", "4.1297", "0.3030"]
    table = {tuple(line.split()[:2]) for line in lines[9:]}
    assert len(lines[9:]) == len(table) == 21
    half = f"{1 - (7 / 8) ** 42:.6f}"
    assert {("0.00", "0.000000"), ("0.05", "0.005237"), ("0.50", half), ("1.00", "1.000000")} <= table
    bars = [line.count("#") for line in lines[9:]]
    assert bars == [round(BAR * float(line.split()[1])) for line in lines[9:]] and max(map(len, lines)) <= 80
    found, expected = as_json("--bands", "42", "--rows", "3"), SCurve(bands=42, rows=3)
    for name in ("bands", "rows", "slope", "width"):
        assert found[name] == getattr(expected, name)
    assert (found["steepest"], found["approximately"]) == (expected.threshold, expected.approximate_threshold)
    points = found["curve"]
    assert isinstance(points, list) and len(points) == 21 and found["threshold"] is None
    assert points[10] == {"similarity": 0.5, "probability": float(expected.probability(0.5))}


def test_options_choose_the_banding() -> None:
    standard = ("--bands 42 --rows 3", "--bands 42", "--num-perm 128 --capture 0.5:0.99 --reject 0.05:0.01")
    for line, banding in {
        **dict.fromkeys((*standard, "--reject 0.05:0.01"), (42, 3)),
        "--bands 1000 --rows 10": (1000, 10),
        "--rows 7": (18, 7),
        "--rows 7 --num-perm 256": (36, 7),
        "--bands 20 --rows 5 --num-perm 128": (20, 5),
        "--capture 0.8:0.99": (21, 6),
        "--threshold 0.9 --num-perm 64": (9, 7),
        "--num-perm 256": default_banding(256, 0.8),
    }.items():
        found = as_json(*line.split())
        assert (found["bands"], found["rows"]) == banding


def test_without_options_the_banding_is_that_of_dedup() -> None:
    found, method = as_json(), Method.choose()
    assert (found["bands"], found["rows"]) == (method.banding.bands, method.banding.rows)
    assert found["threshold"] == method.threshold == DEFAULT_THRESHOLD
    assert "0.8000  probability of finding a pair there: 0.9983\n" in run().stdout


@pytest.mark.parametrize("ending", [".png", ".svg"])
def test_plot_replaces_only_pictures_that_gpulsh_drew(ending: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    path = tmp_path / f"curve{ending}"
    assert run("--plot", str(path), "--bands", "10", "--rows", "2").exit_code == 0
    assert ending == ".png" or ("<svg" in path.read_text() and "threshold 0.8" not in path.read_text())
    assert "is there already; give another file" in str(run("--plot", str(path)).exception)
    assert run("--plot", str(path), "--overwrite").exit_code == 0
    assert ending == ".png" or "threshold 0.8" in path.read_text()
    path.write_text("mine")
    for arguments in ([], ["--overwrite"]):
        assert isinstance(run("--plot", str(path), *arguments).exception, OutputError)
    assert path.read_text() == "mine"
    assert isinstance(run("--plot", "curve.txt").exception, ParameterError)


def test_defaults_are_those_of_choose_banding() -> None:
    defaults = [parameter.default for parameter in inspect.signature(choose_banding).parameters.values()]
    assert defaults == [DEFAULT_NUM_PERM, DEFAULT_CAPTURE, DEFAULT_REJECT]
    shown = {option.name: option.help or "" for option in curve.params if isinstance(option, click.Option)}
    assert "[default: 128]" in shown["num_perm"]
    assert "0.5:0.99" in shown["capture"] and "0.05:0.01" in shown["reject"]


def test_wrong_usage_is_one_message() -> None:
    for arguments, message in (
        (["--bands", "42", "--capture", "0.5:0.99"], "give --bands and --rows, or --capture and --reject, or"),
        (["--threshold", "0.8", "--rows", "3"], "or --threshold"),
        (["--capture", "0.5"], "'0.5' is not SIMILARITY:PROBABILITY, such as 0.5:0.99"),
        (["--reject", "0.5:0.1:0.2"], "is not SIMILARITY:PROBABILITY"),
        (["--bands", "42", "--rows", "4", "--num-perm", "128"], "is 168, above --num-perm=128"),
        (["--bands", "0", "--rows", "3"], "bands is 0"),
        (["--overwrite"], "--overwrite needs --plot FILE"),
        (["--capture", "nan:0.9"], "the similarity of --capture is nan"),
        (["--num-perm", "8", "--capture", "0.5:0.99", "--reject", "0.4:0.01"], "closest is"),
    ):
        result = run(*arguments)
        assert result.exit_code == (1 if isinstance(result.exception, ParameterError) else 2)
        assert message in result.stderr + getattr(result.exception, "message", "") and result.stdout == ""
