"""How the tests run: the slowest files first, a quick choice of them, and hypothesis from fixed seeds in CI."""

import gc
import os
import resource
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from tests.support.command import Command, Printed
from tests.support.mortal import Mortals

# The files that take longest, the slowest first: none of them is then left to one worker in the end. `--quick` leaves
# them out, `--write-slow` measures them again.
ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_name("slow.txt")
SLOW = {ROOT / name: place for place, name in enumerate(LIST.read_text("utf-8").split())}
SLOW_SECONDS = 4.0

EXAMPLES = 100 if "GPULSH_EVERY_CUT" in os.environ else 25  # the former in ./ci/soak
# Without deadlines, which a busy machine breaks.
# Fewer examples than by default: generated cases are judged in many cuts.
settings.register_profile("gpulsh", deadline=None, max_examples=EXAMPLES, derandomize="CI" in os.environ)
settings.register_profile("quick", parent=settings.get_profile("gpulsh"), max_examples=5)
# A failure is enough for `ci/mutate-kernels`; it has no use for the smallest one.
settings.register_profile("mutation", parent=settings.get_profile("gpulsh"), phases=[Phase.explicit, Phase.generate])
settings.load_profile("mutation" if "GPULSH_NO_SHRINK" in os.environ else "gpulsh")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out the slowest files, and ask for few examples")
    parser.addoption("--write-slow", action="store_true", help="list the slowest files of this run in tests/slow.txt")


class Durations:
    """Adds up the seconds of each file."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_sessionfinish(self) -> None:
        slow = [file for file, seconds in self._seconds.most_common() if seconds >= SLOW_SECONDS]
        LIST.write_text("\n".join(slow) + "\n", "utf-8")


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts its background jobs
        signal.signal(signal.SIGINT, signal.default_int_handler)  # and what tests start would not hear Ctrl-C either
    if config.getoption("--quick"):
        settings.load_profile("quick")
    if config.getoption("--write-slow") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a line of the command, with further arguments that may have spaces."""
    from gpulsh.cli import main  # not on a machine with a device and little else

    def run(line: str, *more: str) -> Printed:
        capsys.readouterr()
        status = main([*line.split(), *more])
        return Printed(status, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def mortals() -> Iterator[Mortals]:
    """Run the command in processes that end at any call."""
    with Mortals() as server:
        yield server


@pytest.fixture(autouse=True, scope="session")
def disk_not_waited_for() -> Iterator[None]:
    """No test cuts the power: fsync in this process only checks its argument. Those that count calls patch it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: os.fstat(handle) and None)
        yield


@pytest.fixture(autouse=True)
def memory_unlimited() -> Iterator[None]:
    """Fail a test that leaves a limit of memory behind, which would fail or crash the tests after it."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    yield
    after = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, before)
    assert after == before, "the test left RLIMIT_DATA changed"


def pytest_collection_finish() -> None:
    """Objects from before the first test stay: tests that collect garbage often need not look at them."""
    gc.collect()
    gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if config.getoption("--quick") and collection_path in SLOW else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: SLOW.get(item.path, len(SLOW)))
