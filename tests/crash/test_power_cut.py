"""A power cut amid many small files: few calls make them durable, and none is lost."""

from pathlib import Path

import pytest

from tests.crash.test_resume import results
from tests.support.mortal import Mortals, spread

FILES = 24


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of texts in two folders, every seventh a copy."""
    folder = tmp_path_factory.mktemp("pages")
    for number in range(FILES):
        text = " ".join(f"w{(number - (number % 7 == 6)) * 5 + i}" for i in range(30))
        (folder / f"{number % 2}").mkdir(exist_ok=True)
        (folder / f"{number % 2}" / f"{number:03d}.txt").write_text(text)
    return folder


def arguments(pages: Path, path: Path) -> list[str]:
    # On one thread: nothing else goes on while a kill takes back what was not durable.
    return ["dedup", str(pages), "-o", str(path / "out"), "--backend", "reference", "--threads", "1", "--resume"]


def test_small_files_are_made_durable_once(pages: Path, mortals: Mortals, tmp_path: Path) -> None:
    whole = mortals.run(tmp_path, arguments(pages, tmp_path))
    assert whole.status == 0, whole.told
    assert FILES * 0.8 < len(list(tmp_path.glob("out/data/*/*.txt"))) < FILES
    assert sum(call.startswith("syncfs") for call in whole.calls) == 1
    assert sum(call.startswith("fsync") for call in whole.calls) < 70


def test_a_power_cut_between_switches(pages: Path, mortals: Mortals, tmp_path: Path) -> None:
    power_cuts(pages, mortals, tmp_path, 80, r"^rename|^rmdir|^fsync data")


def power_cuts(pages: Path, mortals: Mortals, tmp_path: Path, every: int, switches: str) -> None:
    """At every so many switches, and around those that publish results."""
    (tmp_path / "whole").mkdir()
    whole = mortals.run(tmp_path / "whole", arguments(pages, tmp_path / "whole"))
    wanted = results(tmp_path / "whole" / "out")
    cut, again = 0, 0
    for at in spread(whole.calls, every, switches):
        path = tmp_path / str(at)
        path.mkdir()
        assert mortals.run(path, arguments(pages, path), at=at).killed
        done = mortals.run(path, arguments(pages, path))
        assert done.status == 0, done.told
        assert results(path / "out") == wanted and not (path / "out/_work").exists()
        cut += 1
        again += "is missing or damaged" in done.told
    assert cut > 10 and again  # some had a line, and no name in the folder
