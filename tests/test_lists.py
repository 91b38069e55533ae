"""Lists that must agree: errors and stages each have one list, which all code reads."""

import inspect
import re
from pathlib import Path
from typing import Any

import click
import pytest

import gpulsh
from gpulsh import errors
from gpulsh.budget import TaskSizes
from gpulsh.cli import group
from gpulsh.forecast.formula import RATES, Corpus, stage_works
from gpulsh.report.page import missing_requirement
from gpulsh.run import stages
from gpulsh.run.files import deduplicate_files
from gpulsh.stats import stages as stage_table
from gpulsh.stats.counts import CLUSTERS, DUPLICATES, MARKS, WEIGHT
from gpulsh.stats.stages import (
    COSTS,
    ESTIMATED_STAGES,
    FILE_STAGES,
    INDEX_STAGES,
    INDEXED_STAGES,
    MEMORY_STAGES,
    REPORT_STAGES,
)
from tests.support.command import Command
from tests.support.files import write_rows

MANUAL = Path(__file__).parents[1] / "docs"
PAGES = [" ".join(f"w{page}x{place}" for place in range(40)) for page in range(6)]
NEAR = [f"{PAGES[0]} and {number}" for number in range(12)]


def test_every_error_is_public_and_in_the_drawn_tree() -> None:
    tree = {
        name: found
        for name, found in vars(errors).items()
        if inspect.isclass(found) and issubclass(found, errors.GpulshError)
    }
    assert {name: getattr(gpulsh, name) for name in tree if name in gpulsh.__all__} == tree
    drawn = re.findall(r"^    ([│├└─ ]*)(\w+Error)( +\((\w+)\))?", errors.__doc__ or "", flags=re.MULTILINE)
    above: list[type] = []
    for indent, name, _, builtin in drawn:
        depth = len(indent) // 4
        above = [*above[:depth], tree[name]]
        assert tree[name].__mro__[1] is (above[-2] if depth else Exception), name
        if builtin:
            assert builtin in {base.__name__ for base in tree[name].__bases__}
    assert sorted(name for _, name, *_ in drawn) == sorted(tree)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return Path(write_rows(tmp_path / "a.jsonl", [*PAGES, *NEAR, PAGES[3]]))


def test_runs_have_exactly_the_stages_of_the_table(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    result = gpulsh.deduplicate([*PAGES, *NEAR], backend="reference")
    assert list(result.funnel.seconds) == list(MEMORY_STAGES)
    with monkeypatch.context() as patch:  # so that one component is larger than a task
        small = TaskSizes(memory=1 << 30, partition=999, digests=40, group=1500)
        patch.setattr("gpulsh.run.file_run.task_sizes", lambda *_: small)
        report = deduplicate_files(corpus, tmp_path / "out", backend="reference").report
    assert list(report["funnel"]["seconds"]) == list(FILE_STAGES)
    report = deduplicate_files(corpus, tmp_path / "with", backend="reference", index=tmp_path / "known").report
    assert list(report["funnel"]["seconds"]) == list(INDEXED_STAGES)
    lines = (f"index {verb} {tmp_path}/index {corpus} --backend reference" for verb in ("build", "query"))
    shown = "".join(command(line).err for line in lines)
    assert re.findall(r"^gpulsh: (\w+): ", shown, flags=re.MULTILINE) == list(INDEX_STAGES)
    for table in (FILE_STAGES, INDEXED_STAGES, MEMORY_STAGES, INDEX_STAGES):
        assert all(name == row.name and row.meaning and row.unit for name, row in table.items())


@pytest.mark.skipif(missing_requirement() is not None, reason="jinja2 is not installed")
@pytest.mark.parametrize("options", [{}, {"index": "known"}])
def test_the_page_explains_exactly_the_stages_of_its_run(options: dict[str, Any], corpus: Path, tmp_path: Path) -> None:
    options = {name: tmp_path / value for name, value in options.items()}
    report = deduplicate_files(corpus, tmp_path / "out", backend="reference", **options).report
    html = re.sub("</?code>", "", (tmp_path / "out/report.html").read_text(encoding="utf-8"))
    time = html.split("<h2>Time")[1].partition("</section>")[0]
    rows = dict(re.findall(r'<tr><td>(\w+)</td>.*?<td class="soft wide">([^<]*)</td></tr>', time))
    assert rows.pop(stage_table.OTHER) == stage_table.REST_MEANINGS[stage_table.OTHER]
    if stage_table.COMPILE in rows:  # the first time on a machine
        assert rows.pop(stage_table.COMPILE) == stage_table.REST_MEANINGS[stage_table.COMPILE]
    assert rows == {name: REPORT_STAGES[name].meaning for name in report["funnel"]["seconds"]}
    columns = re.findall(r"<tr><td>(\w+)</td>.*?wide\">([^<]*)</td></tr>", html.partition("in these columns")[2])
    assert columns[: len(DUPLICATES)] == [(row.name, row.meaning) for row in DUPLICATES]


def test_plan_help_and_manual_name_the_stages_of_the_table() -> None:
    corpus = Corpus(documents=10, bytes=1000, met=0.5, pairs=1, dropped=0.1, bytes_per_shingle=5)
    assert tuple(stage_works(corpus, 21)) == ESTIMATED_STAGES
    assert (*ESTIMATED_STAGES, "disk", "network") == RATES
    command = group.get_command(click.Context(group), "plan")
    assert command is not None
    (option,) = [option for option in command.params if "--rate" in option.opts]
    assert isinstance(option, click.Option) and option.help is not None
    for name, unit in COSTS.items():
        assert re.search(rf"\b{name}\b[\w, ]*: {unit}", option.help), name
    assert re.findall(r"^(\w+) {2,}", stages.__doc__ or "", flags=re.MULTILINE) == list(FILE_STAGES)
    units = {row.unit: row.unit for row in FILE_STAGES.values()} | {"B": "bytes of text"}
    rows = [(row.name, row.meaning, units[row.unit], row.cost or "part of verify") for row in FILE_STAGES.values()]
    assert table_of(rows) in (MANUAL / "scale.md").read_text(encoding="utf-8")
    assert {*MARKS[1:]} <= {*DUPLICATES}
    for columns in (DUPLICATES, CLUSTERS, (MARKS[0], WEIGHT)):
        rows = [(row.name, row.type.replace("<", "\\<"), row.meaning) for row in columns]
        assert table_of(rows) in (MANUAL / "formats.md").read_text(encoding="utf-8")


def table_of(rows: list[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
