"""Other libraries' MinHash on the same device, where they are installed: text to 128 values a document."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.gpu import corpora
from benchmarks.gpu.bench import Bench, Found
from benchmarks.gpu.operations import FAMILY, SHINGLING
from benchmarks.gpu.timing import by_clock
from gpulsh.arrays import TextBatch

TITLE = "Text to signatures, against other libraries with CUDA"

MEGABYTES = {"gpulsh": 64.0, "cuDF": 64.0, "datasketch": 2.0}
WIDTH = 24  # characters: about as much text as 5 words


def run(bench: Bench) -> Found:
    found = Found()
    for name, prepare in {"gpulsh": _gpulsh, "cuDF": _cudf, "datasketch": _datasketch}.items():
        if bench.left < 3:
            found.not_measured.append(f"{name}: no time left")
            continue
        text = corpora.even(MEGABYTES[name] * bench.scale, corpora.PAGE)
        try:
            version, note, call = prepare(bench, text)
            times, _ = by_clock(call, 10, 6)
        except ImportError as error:
            found.not_measured.append(f"{name}: {error}")
            continue
        except Exception as error:  # another library's release may want other arguments
            found.not_measured.append(f"{name}: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
            continue
        found.rows.append(
            {
                "library": f"{name} {version}",
                "documents": len(text),
                **times.columns(),
                "text GB/s": len(text.values) / times.median / 1e9,
                "note": note,
            }
        )
        bench.say(f"  {name:12}{len(text.values) / times.median / 1e9:10.4f} GB/s of text")
    return found


def _gpulsh(bench: Bench, text: TextBatch) -> tuple[str, str, Callable[[], Any]]:
    from gpulsh import __version__

    given, family = bench.text(text), FAMILY
    note = "word 5-shingles, from device memory"

    def call() -> Any:
        return bench.backend.text_signatures(given, SHINGLING, family)[0, 0].get()

    return __version__, note, call


def _cudf(bench: Bench, text: TextBatch) -> tuple[str, str, Callable[[], Any]]:
    import cudf

    series = cudf.Series.from_arrow(corpora.as_arrow(text))
    generator = np.random.default_rng(1)
    a = cudf.Series(generator.integers(1, 2**32 - 1, FAMILY.num_perm, np.uint32))
    b = cudf.Series(generator.integers(0, 2**32 - 1, FAMILY.num_perm, np.uint32))

    def call() -> Any:
        made = series.str.minhash(seed=0, a=a, b=b, width=WIDTH)
        return made.iloc[0]  # waits for the device

    return cudf.__version__, f"{WIDTH}-character shingles (no tokenizer), from device memory", call


def _datasketch(bench: Bench, text: TextBatch) -> tuple[str, str, Callable[[], Any]]:
    import datasketch

    data, offset = text.values.tobytes(), text.offset.tolist()

    def call() -> Any:
        made = []
        for start, stop in pairwise(offset):
            words = data[start:stop].split()
            sketch = datasketch.MinHash(num_perm=FAMILY.num_perm, gpu_mode="always")
            sketch.update_batch([b" ".join(words[i : i + 5]) for i in range(len(words) - 4)])
            made.append(sketch)
        return made

    return datasketch.__version__, "word 5-shingles cut by Python's split; gpu_mode='always', a document a call", call
