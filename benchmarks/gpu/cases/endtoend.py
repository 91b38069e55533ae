"""`deduplicate` with exact verification: pages and tweets from device memory, from Arrow, from lists, from files."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

import gpulsh
from benchmarks.gpu import corpora
from benchmarks.gpu.bench import Bench, Found
from benchmarks.gpu.made import corpus, parquet_files, small, tweets
from benchmarks.gpu.timing import by_clock
from gpulsh.errors import GpulshError

TITLE = "End to end: threshold 0.8, 128 permutations, exact verification"

COMPARED_MB = 100.0
CHUNK = 1000  # rows of a chunk, as columns of Hugging Face datasets have them
RESULTS = ("keep", "duplicate_of", "similarity", "cluster", "pairs", "pair_similarity")

Call = Callable[[], Any]


def run(bench: Bench) -> Found:
    found = Found()
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        found.not_measured.append(f"anything: {error}")
        return found
    _compare(bench, found)
    kinds = {"pages": corpus(bench), "tweets": tweets(bench)}
    sources = {f"{kind}, {name}": make for kind in kinds for name, make in _sources(bench, kind, kinds[kind]).items()}
    kept: dict[str, set[int]] = {kind: set() for kind in kinds}
    for number, (name, make) in enumerate(sources.items()):
        kind = name.partition(",")[0]
        text = kinds[kind]
        size = len(text.values)
        try:
            call = make()
            call()
        except (GpulshError, ImportError, TypeError) as error:
            found.not_measured.append(f"{name}: not available ({error})")
            continue
        # Each result weighs hundreds of MB, so only its counts and times are held.
        share = bench.left / (len(sources) - number)
        times, funnels = by_clock(lambda call=call: dict(call().funnel), 10, share, warm=False)  # type: ignore[misc]
        funnel = funnels[-1]
        stages = {stage: median(each["seconds"][stage] for each in funnels) for stage in funnel["seconds"]}
        kept[kind].add(funnel["kept"])
        found.rows.append(
            {
                "from": name,
                "documents": len(text),
                "text MB": size / 1e6,
                **times.columns(),
                "text GB/s": size / times.median / 1e9,
                "signed GB/s": size / stages["sign"] / 1e9,
                "candidates": funnel["candidates"],
                "dropped": funnel["dropped"],
                "stages": stages,
            }
        )
        bench.say(f"  {name:34}{times.median:8.3f} s {size / times.median / 1e9:8.2f} GB/s of text  {stages}")
        del call
        bench.free()
    assert all(len(counts) <= 1 for counts in kept.values()), f"sources disagree: kept {kept}"
    bus, pyarrow_rate = bench.figure("host to device"), bench.figure("pyarrow")
    for row in found.rows:
        source = row["from"].partition(", ")[2]
        limit = None if source == "device memory" else pyarrow_rate if source.startswith("Parquet") else bus
        row["% of what feeds it"] = None if limit is None else 100e9 * row["text GB/s"] / limit
    return found


def _sources(bench: Bench, kind: str, text: Any) -> dict[str, Callable[[], Call]]:
    """Functions that make a call of `deduplicate`, by the form that the texts have."""
    column: Any = corpora.as_arrow(text)

    def of(make: Callable[[], Any]) -> Callable[[], Call]:
        def bound() -> Call:
            texts = make()
            return lambda: gpulsh.deduplicate(texts, backend="cuda")

        return bound

    def chunks() -> Any:
        import pyarrow as pa

        # Copies: slices would be one run of memory, as no chunks of a dataset are.
        cuts = (column.slice(start, CHUNK) for start in range(0, len(column), CHUNK))
        return pa.chunked_array([pa.concat_arrays([cut, cut.slice(0, 0)]) for cut in cuts])

    number = itertools.count()

    def files(**options: Any) -> Call:
        folder = parquet_files(bench)[0].parent
        return lambda: gpulsh.deduplicate_files(
            folder, bench.work / f"out-{next(number)}", backend="cuda", write="duplicates", **options
        )

    in_memory = {
        "device memory": of(lambda: bench.text(text)),
        "one Arrow chunk": of(lambda: column),
        f"Arrow chunks of {CHUNK:,} rows": of(chunks),
        "list of str": of(column.to_pylist),
    }
    if kind != "pages":
        return in_memory
    return {**in_memory, "Parquet files": files, "Parquet files, reader='cudf'": lambda: files(reader="cudf")}


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
    """An array of a result as a NumPy array."""
    return array.get() if hasattr(array, "get") else np.asarray(array)
