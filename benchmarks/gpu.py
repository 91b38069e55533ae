"""A first record of each CUDA kernel: GB/s, and evaluations/s of minhash, by CUDA events, answers checked first.

    python -m benchmarks.gpu [--megabytes 256] [--repeats 20] [--output FOLDER]

Needs numpy and cupy. Text is made on the spot, seeded: documents of about 400 words, one in five with a changed copy.
The bytes of a kernel are those of its arrays, each counted once: what it would move if nothing were read twice.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from gpulsh.arrays import Fingerprints, TextBatch
from gpulsh.backends.cuda import CudaBackend, devices, why_unavailable
from gpulsh.backends.cuda.device import import_cupy
from gpulsh.backends.cuda.launcher import DeviceLauncher, Launcher
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.params import BandShape, Family, Shingling
from gpulsh.permutations import coefficients

SHINGLING = Shingling(unit="word", size=5)
FAMILY = Family(num_perm=128)
SHAPE = BandShape(bands=18, rows=7)
CHECKED = 60  # documents, by the reference
SLOTS = 1 << 24


class TimingLauncher:
    """Another launcher, with an event before and behind each launch."""

    def __init__(self, cuda: Any, launch: Launcher) -> None:
        self._cuda, self._launch = cuda, launch
        self._events: dict[str, list[tuple[Any, Any]]] = defaultdict(list)
        self.bytes: dict[str, int] = {}

    def __call__(self, file: str, kernel: str, blocks: tuple[int, int], threads: int, *arguments: Any) -> None:
        before, behind = self._cuda.Event(), self._cuda.Event()
        before.record()
        self._launch(file, kernel, blocks, threads, *arguments)
        behind.record()
        self._events[kernel].append((before, behind))
        self.bytes[kernel] = sum(int(a.size) * a.dtype.itemsize for a in arguments if not isinstance(a, np.generic))

    def take(self) -> dict[str, list[float]]:
        """Milliseconds of each kernel's launches since the last call."""
        self._cuda.Device().synchronize()
        found = {
            kernel: [self._cuda.get_elapsed_time(*pair) for pair in pairs] for kernel, pairs in self._events.items()
        }
        self._events.clear()
        return found


def make_text(megabytes: float) -> TextBatch:
    """Documents of about 400 words drawn as text draws them, rare words rarely."""
    generator = np.random.default_rng(1)
    letters = generator.integers(ord("a"), ord("z") + 1, (20_000, 9), np.uint8)
    vocabulary = [letters[i, : 2 + i % 8].tobytes() for i in range(len(letters))]
    rows: list[bytes] = []
    size = 0
    while size < megabytes * 1e6:
        words = [vocabulary[i] for i in np.minimum(generator.zipf(1.2, 400), len(vocabulary)) - 1]
        rows.append(b" ".join(words))
        if len(rows) % 5 == 0:
            words[7] = b"changed"
            rows.append(b" ".join(words))
        size += len(rows[-1])
    return TextBatch(np.frombuffer(b"".join(rows), np.uint8), np.cumsum([0, *map(len, rows)], dtype=np.int64))


def run(backend: CudaBackend, text: TextBatch) -> dict[str, Any]:
    """Every operation once, each on what the one before it gave."""
    found: dict[str, Any] = {}
    found["shingle"] = backend.shingle(text, SHINGLING)
    found["exact_hashes"] = backend.exact_hashes(text, SHINGLING)
    found["minhash"] = backend.minhash(found["shingle"], coefficients(FAMILY))
    found["band_digests"] = backend.band_digests(found["minhash"], SHAPE)
    found["unique"] = backend.unique(found["shingle"])
    ids = backend.asarray(np.arange(len(text), dtype=np.int64))
    buckets = backend.collisions(found["band_digests"][:, 0].copy(), ids)
    found["collisions"] = buckets.ids
    found["candidates"] = pairs = backend.candidates(buckets)
    found["intersect"], found["union"] = backend.intersect(pairs, found["unique"])
    found["bitmaps"] = backend.bitmaps(found["unique"])
    sizes = backend.asarray(np.diff(backend.asnumpy(found["unique"].offset)))
    found["overlap_bounds"] = backend.overlap_bounds(pairs, found["bitmaps"], sizes)
    found["components"] = backend.components(len(text), pairs)
    counts = backend.asarray(np.zeros(SLOTS, np.uint8))
    found["frequencies"] = backend.frequencies(found["unique"], counts)
    return found


def check(backend: CudaBackend, text: TextBatch) -> None:
    """The first documents by the reference; an AssertionError that names the operation."""
    head = TextBatch(text.values[: text.offset[CHECKED]], text.offset[: CHECKED + 1])
    wanted = run(ReferenceBackend(), head)  # type: ignore[arg-type]
    found = run(backend, TextBatch(backend.asarray(head.values), backend.asarray(head.offset)))
    for name, value in found.items():
        for one, other in zip(_parts(value), _parts(wanted[name]), strict=True):
            np.testing.assert_array_equal(backend.asnumpy(one), other, err_msg=name)


def _parts(value: Any) -> list[Any]:
    return [value.values, value.offset] if isinstance(value, Fingerprints) else [value]


def measure(cupy: Any, launch: Launcher, megabytes: float, repeats: int) -> dict[str, Any]:
    """Each kernel's medians over `repeats` runs of everything."""
    timing = TimingLauncher(cupy.cuda, launch)
    backend = CudaBackend(cupy, timing)
    text = make_text(megabytes)
    check(backend, text)
    given = TextBatch(backend.asarray(text.values), backend.asarray(text.offset))
    shingles = len(run(backend, given)["shingle"].values)  # the first run warms up
    timing.take()
    rounds: dict[str, list[float]] = defaultdict(list)
    for _ in range(repeats):
        run(backend, given)
        for kernel, milliseconds in timing.take().items():
            rounds[kernel] += milliseconds
    rows = []
    for kernel, milliseconds in rounds.items():
        seconds = float(np.median(milliseconds)) / 1e3
        row = {
            "kernel": kernel,
            "median_ms": seconds * 1e3,
            "min_ms": min(milliseconds),
            "launches": len(milliseconds),
            "bytes": timing.bytes[kernel],
            "GB/s": timing.bytes[kernel] / seconds / 1e9,
        }
        if kernel.startswith("tokens_"):
            row["text GB/s"] = len(text.values) / seconds / 1e9
        if kernel.startswith("minhash"):
            row["evaluations/s"] = shingles * FAMILY.num_perm / seconds
        rows.append(row)
    return {"documents": len(text), "text_bytes": len(text.values), "shingles": shingles, "kernels": rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=256, help="of text")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--output", type=Path, help="a folder, instead of benchmarks/record/<device>/<date>")
    options = parser.parse_args()
    reason = why_unavailable()
    if reason is not None:
        print(f"bench-gpu: {reason}", file=sys.stderr)
        return 1
    cupy = import_cupy()
    device = devices()[cupy.cuda.runtime.getDevice()]
    date = datetime.date.today().isoformat()
    slug = re.sub(r"[^a-z0-9]+", "-", device.split(",")[0].lower()).strip("-")
    folder = options.output or Path(__file__).with_name("record") / slug / date
    found = measure(cupy, DeviceLauncher(cupy), options.megabytes, options.repeats)
    header = {
        "device": device,
        "date": date,
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "runtime": cupy.cuda.runtime.runtimeGetVersion(),
        "cupy": cupy.__version__,
        "command": f"ci/bench-gpu --megabytes {options.megabytes:g} --repeats {options.repeats}",
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "kernels.json"
    path.write_text(json.dumps({**header, **found}, indent=1) + "\n")
    for row in found["kernels"]:
        rate = f"{row['evaluations/s']:.3g} evaluations/s" if "evaluations/s" in row else ""
        print(f"{row['kernel']:18} {row['median_ms']:10.3f} ms  {row['GB/s']:8.1f} GB/s  {rate}")
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
