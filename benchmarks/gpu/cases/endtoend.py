"""`deduplicate` with exact verification: from device memory, from host memory, from Parquet files in the page cache."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

import gpulsh
from benchmarks.gpu import corpora
from benchmarks.gpu.bench import Bench, Found
from benchmarks.gpu.made import corpus, parquet_files, small
from benchmarks.gpu.timing import by_clock
from gpulsh.errors import GpulshError

TITLE = "End to end: threshold 0.8, 128 permutations, exact verification"

COMPARED_MB = 100.0
RESULTS = ("keep", "duplicate_of", "similarity", "cluster", "pairs", "pair_similarity")


def run(bench: Bench) -> Found:
    found = Found()
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        found.not_measured.append(f"anything: {error}")
        return found
    _compare(bench, found)
    text = corpus(bench)
    held = corpora.as_arrow(text)
    size = len(text.values)

    def from_device() -> Callable[[], Any]:
        batch = bench.text(text)
        return lambda: gpulsh.deduplicate(batch, backend="cuda")

    number = itertools.count()

    def from_files(**options: Any) -> Callable[[], Any]:
        folder = parquet_files(bench)[0].parent
        return lambda: gpulsh.deduplicate_files(
            folder, bench.work / f"out-{next(number)}", backend="cuda", write="duplicates", **options
        )

    sources: dict[str, Callable[[], Callable[[], Any]]] = {
        "device memory": from_device,
        "host memory": lambda: lambda: gpulsh.deduplicate(held, backend="cuda"),
        "Parquet files": from_files,
        "Parquet files, reader='cudf'": lambda: from_files(reader="cudf"),
    }
    share = bench.left / len(sources)
    kept: dict[str, int] = {}
    for name, make in sources.items():
        try:
            call = make()
            call()
        except (GpulshError, ImportError, TypeError) as error:
            found.not_measured.append(f"from {name}: not available ({error})")
            continue
        # Each result weighs hundreds of MB, so only its counts and times are held.
        times, funnels = by_clock(lambda call=call: dict(call().funnel), 10, share, warm=False)  # type: ignore[misc]
        funnel = funnels[-1]
        stages = {stage: median(each["seconds"][stage] for each in funnels) for stage in funnel["seconds"]}
        kept[name] = funnel["kept"]
        found.rows.append(
            {
                "from": name,
                "documents": len(text),
                "text MB": size / 1e6,
                **times.columns(),
                "text GB/s": size / times.median / 1e9,
                "candidates": funnel["candidates"],
                "dropped": funnel["dropped"],
                "stages": stages,
            }
        )
        found.figures[f"from {name}"] = size / times.median
        bench.say(f"  from {name:30}{times.median:8.3f} s {size / times.median / 1e9:8.2f} GB/s of text  {stages}")
        bench.free()
    assert len(set(kept.values())) <= 1, f"sources disagree: kept {kept}"
    bus, pyarrow_rate = bench.figure("host to device"), bench.figure("pyarrow")
    for row in found.rows:
        limit = {"host memory": bus, "Parquet files": pyarrow_rate}.get(row["from"])
        row["% of what feeds it"] = None if limit is None else 100e9 * row["text GB/s"] / limit
    return found


def _compare(bench: Bench, found: Found) -> None:
    text = small(bench, COMPARED_MB)
    held = corpora.as_arrow(text)
    try:
        wanted = gpulsh.deduplicate(held, backend="cpu")
    except ImportError as error:  # without Numba
        found.not_measured.append(f"comparison with backend='cpu': {error}")
        return
    result = gpulsh.deduplicate(held, backend="cuda")
    for name in RESULTS:
        np.testing.assert_array_equal(host(getattr(result, name)), host(getattr(wanted, name)), err_msg=name)
    dropped = int((~host(wanted.keep)).sum())
    assert dropped, "a corpus without duplicates compares nothing"
    found.checks.append(
        f"equal to backend='cpu' in {', '.join(RESULTS)} on {len(text):,} documents, {len(text.values) / 1e6:.4g} MB,"
        f" {dropped:,} dropped"
    )
    _compare_device(bench, found, text, result)


def _compare_device(bench: Bench, found: Found, text: Any, wanted: Any) -> None:
    """The same documents from device memory: other code reads them."""
    try:
        result = gpulsh.deduplicate(bench.text(text), backend="cuda")
    except GpulshError:
        return  # told where it would be measured
    for name in RESULTS:
        np.testing.assert_array_equal(host(getattr(result, name)), host(getattr(wanted, name)), err_msg=name)
    found.checks.append("equal from device memory")


def host(array: Any) -> Any:
    """A NumPy array of a result's, wherever it lies."""
    return array.get() if hasattr(array, "get") else np.asarray(array)
