"""How the tests run: the slowest files first, a quick choice of them, and hypothesis from fixed seeds in CI."""

from __future__ import annotations

import gc
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from tests.support.mortal import Mortals

# The slowest first, by the processors' time that they take, so that none of them is left to one worker in the end.
# `--quick` leaves them out.
SLOW = [
    "run/test_ray",
    "backends/parity/test_texts",
    "backends/parity/test_sketches",
    "kernels/test_pieces",
    "run/test_partitioned",
    "decide/test_decision",
    "crash/test_index_crash",
    "backends/test_kernel_cache",
    "backends/test_giants",
    "backends/parity/test_buckets",
    "crash/test_resume",
    "test_fuzz",
    "run/test_memory",
    "io/test_packing",
    "crash/test_incremental_crash",
    "cli/test_terminal",
    "backends/parity/test_rows",
    "test_laws",
    "lsh/test_hamming_tables",
    "decide/test_shared_sentences",
    "run/test_files",
    "sketch/test_weighted",
    "io/formats/test_warc_memory",
    "cli/test_command",
    "io/formats/test_cut_formats",
    "io/test_damaged_members",
    "decide/test_prefix_join",
    "decide/test_forged_evidence",
    "kernels/test_sketch",
    "io/formats/test_parquet_footer",
    "io/files/test_on_error",
    "backends/parity/test_weighted",
    "io/formats/test_large_json",
    "sketch/test_earth_mover",
    "io/formats/test_parquet_memory",
    "io/files/test_s3",
    "backends/parity/test_signing",
    "sketch/test_simhash",
    "io/files/test_changing_input",
    "sketch/test_theory",
    "crash/test_io_errors",
    "io/formats/test_warc",
    "backends/test_texts_on_cpu",
    "run/test_counts",
    "sketch/test_main_job",
    "io/files/test_streams",
    "kernels/test_set_sketches",
    "io/arrow/test_soundness",
    "run/test_containment",
    "kernels/test_pipeline",
    "sketch/test_samples",
    "crash/test_work_folder",
    "io/files/test_limit",
    "cli/test_plan",
]
FOLDER = Path(__file__).parent

# Without deadlines, which a busy machine breaks.
# Fewer examples than by default: generated cases are judged in many cuts.
settings.register_profile("gpulsh", deadline=None, max_examples=40, derandomize="CI" in os.environ)
settings.register_profile("quick", parent=settings.get_profile("gpulsh"), max_examples=5)
# A failure is enough for `ci/mutate-kernels`; it has no use for the smallest one.
settings.register_profile("mutation", parent=settings.get_profile("gpulsh"), phases=[Phase.explicit, Phase.generate])
settings.load_profile("mutation" if "GPULSH_NO_SHRINK" in os.environ else "gpulsh")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out the slowest files, and ask for few examples")


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what runs in its background
        signal.signal(signal.SIGINT, signal.default_int_handler)  # and what tests start would not hear Ctrl-C either
    if config.getoption("--quick"):
        settings.load_profile("quick")


@pytest.fixture(scope="module")
def mortals() -> Iterator[Mortals]:
    """Runs the command in processes that end at any call."""
    with Mortals() as server:
        yield server


@pytest.fixture(autouse=True)
def memory_unlimited() -> Iterator[None]:
    """Fails a test that leaves a limit of memory behind, which would fail or crash the tests after it."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    yield
    after = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, before)
    assert after == before, "the test left RLIMIT_DATA changed"


def pytest_collection_finish() -> None:
    """What is there before the first test stays: collecting garbage, which some tests do often, need not look at it."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    places = {FOLDER / f"{name}.py": place for place, name in enumerate(SLOW)}
    if config.getoption("--quick"):
        left_out = [item for item in items if item.path in places]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.path not in places]
    items.sort(key=lambda item: places.get(item.path, len(SLOW)))
