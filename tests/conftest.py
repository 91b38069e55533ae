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
    "kernels/test_bench_gpu",
    "backends/parity/test_texts",
    "crash/test_resume",
    "crash/test_index_crash",
    "kernels/test_figures",
    "run/test_partitioned",
    "test_fuzz",
    "decide/test_decision",
    "backends/test_kernel_cache",
    "backends/test_giants",
    "backends/parity/test_sketches",
    "crash/test_incremental_crash",
    "cli/test_terminal",
    "io/formats/test_warc_memory",
    "io/compression/test_packing",
    "run/test_memory",
    "run/test_time_bombs",
    "io/files/test_on_error",
    "kernels/test_pieces",
    "crash/test_damage",
    "decide/test_forged_evidence",
    "backends/parity/test_buckets",
    "decide/test_shared_sentences",
    "test_laws",
    "io/files/test_s3",
    "sketch/test_main_job",
    "io/formats/test_cut_formats",
    "sketch/test_weighted",
    "decide/test_prefix_join",
    "sketch/test_theory",
    "cli/test_command",
    "backends/test_bitsets",
    "backends/parity/test_signing",
    "lsh/test_hamming_tables",
    "sketch/test_samples",
    "backends/parity/test_weighted",
    "io/formats/test_parquet_memory",
    "crash/test_io_errors",
    "io/formats/test_parquet_footer",
    "sketch/test_earth_mover",
    "test_demo",
    "sketch/test_pieces",
    "kernels/test_scarce_memory",
    "io/files/test_streams",
    "io/formats/test_large_json",
    "kernels/test_pipeline",
    "io/compression/test_members",
    "sketch/test_simhash",
    "crash/test_tampered_work",
    "index/test_memory",
    "io/files/test_limit",
    "backends/parity/test_rows",
    "sketch/test_b_bit",
    "cli/test_plan",
    "kernels/test_several_devices",
    "kernels/test_sketch",
    "index/test_contents",
    "backends/test_texts_on_cpu",
    "backends/parity/test_overlaps",
    "io/files/test_changing_input",
    "kernels/test_compile",
    "io/arrow/test_soundness",
    "kernels/test_layouts",
    "kernels/test_set_sketches",
    "io/files/test_several_inputs",
    "kernels/test_scale",
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
