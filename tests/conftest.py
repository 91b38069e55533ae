"""How the tests run: the slowest files first, a quick choice of them, and hypothesis from fixed seeds in CI."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import Phase, settings

# The slowest first, by the processors' time that they take, so that none of them is left to one worker in the end.
# `--quick` leaves them out.
SLOW = [
    "run/test_ray",
    "backends/parity/test_texts",
    "backends/parity/test_sketches",
    "crash/test_index_crash",
    "backends/parity/test_rows",
    "run/test_partitioned",
    "crash/test_resume",
    "kernels/test_figures",
    "kernels/test_pieces",
    "decide/test_decision",
    "test_fuzz",
    "backends/test_giants",
    "run/test_memory",
    "backends/test_texts_on_cpu",
    "sketch/test_pieces",
    "crash/test_incremental_crash",
    "decide/test_prefix_join",
    "io/compression/test_packing",
    "backends/test_kernel_cache",
    "kernels/test_bench_gpu",
    "cli/test_terminal",
    "io/files/test_on_error",
    "run/test_time_bombs",
    "backends/parity/test_buckets",
    "crash/test_damage",
    "backends/parity/test_overlaps",
    "backends/test_bitsets",
    "io/formats/test_parquet_footer",
    "decide/test_shared_sentences",
    "io/files/test_s3",
    "test_laws",
    "io/files/test_changing_input",
    "kernels/test_compile",
    "io/arrow/test_soundness",
    "backends/parity/test_signing",
    "io/formats/test_large_json",
    "io/formats/test_parquet_memory",
    "kernels/test_layouts",
    "io/compression/test_members",
    "kernels/test_set_sketches",
    "lsh/test_hamming_tables",
    "sketch/test_simhash",
    "io/files/test_several_inputs",
    "kernels/test_sketch",
    "kernels/test_scarce_memory",
    "io/files/test_streams",
    "crash/test_io_errors",
    "io/formats/test_warc_memory",
    "kernels/test_scale",
    "cli/test_command",
    "test_demo",
    "decide/test_forged_evidence",
    "io/formats/test_cut_formats",
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
