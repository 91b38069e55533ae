"""Shows if a change made gpulsh slower: this tree against another, round by round, by processor time.

    python -m benchmarks.paired OTHER_TREE CORPUS.parquet FOLDER [--scripts FILE.parquet] [--rounds 7]
        [--cases sign,arrow,...] [--together] [--record NAME]

OTHER_TREE is a checkout of the commit to compare with. CORPUS has a column `text`; the files made from it are in
FOLDER. FILE has columns `lang` and `text`: what the cases sign-fr, sign-ru and sign-zh are made of, which are left out
without. Each round runs each case once in both trees, which take turns to be first. Each run is a fresh interpreter
that does the work once before the clock starts, and then a few times. The least time counts, because other work on the
machine only adds time. With `--together` the cases of a round and tree share an interpreter, which spares most of the
time of short cases. The clock is the processor time of all threads, in the system too, and of
processes that have ended. The ratio is the median over the rounds of this tree's time by the other's within the round.

The record is written to record/<device>/<date>/NAME.json and .md. Numba's variables choose the processor whose
instructions both trees compile to, as NUMBA_CPU_NAME=znver3 with NUMBA_CPU_FEATURES that hold no AVX-512.
"""

from __future__ import annotations

import argparse
import gzip
import inspect
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import zstandard

TURNS = 3  # of the work in one interpreter, whose least counts; more if they take less than
MIN_SECONDS = 0.3
ALLOWED = 1.03
FORMATS = ("parquet", "arrow", "jsonl", "jsonl.gz", "jsonl.zst", "csv", "warc")
PROCESSES = ("start", "first")  # whole interpreters, with compiled kernels at hand and without
BUCKETS = 40_000  # pages of one template
PAIRS = 40_000  # compared
SHINGLED_TEXTS, REPEATS = 500, 5
LANGUAGES = ("fr", "ru", "zh")
SIGNED_BYTES = 6 << 20  # of the texts that are like one another in a way
SHORT, LONG = 30, 40  # characters of a document, letters of a token
KINDS = ("sign-short", "sign-long", *(f"sign-{language}" for language in LANGUAGES))
SKETCHES = (
    "affine32",
    "affine61",
    "multiply_shift",
    "xor",
    "tabulation",
    "fast_similarity",
    "one_permutation",
    "c_minhash",
)
SKETCHES += ("simhash", "bottom", "mod", "weighted")  # of ready sets
SHINGLED = ("shingle", "shingle+symbols", "shingle-char")
SIMILAR = ("jaccard", "jaccard-weighted")  # of pairs of sets
OF_TEXTS = ("signature", "sign", "deduplicate", "containment", "index", "query")
OF_TEXTS += (*PROCESSES, *SKETCHES, *SHINGLED, *SIMILAR)
CASES = ("signature", "sign", *KINDS, "deduplicate", "containment", "licences", "template", "index", "query")
CASES += (*PROCESSES, *FORMATS, "cut", *SKETCHES, *SHINGLED, *SIMILAR)


def make(folder: Path, corpus: Path, scripts: Path | None) -> dict[str, Path]:
    """The file of each case."""
    from benchmarks.corpora import licences, many_parts, templates

    folder.mkdir(parents=True, exist_ok=True)
    table = pq.read_table(corpus, columns=["text"])
    files = dict.fromkeys(OF_TEXTS, corpus)
    for kind in FORMATS:
        files[kind] = path = folder / f"texts.{kind}"
        if path.exists():
            continue
        if kind == "parquet":
            pq.write_table(table, path, row_group_size=10_000)
        elif kind == "arrow":
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table.combine_chunks(), max_chunksize=10_000)
        elif kind == "csv":
            pa.csv.write_csv(table, path)
        elif kind == "warc":
            path.write_bytes(b"".join(itertools.starmap(many_parts.wet_record, enumerate(table["text"].to_pylist()))))
        else:
            lines = "".join(json.dumps({"text": text}) + "\n" for text in table["text"].to_pylist()).encode()
            packed = {"jsonl.gz": partial(gzip.compress, compresslevel=1), "jsonl.zst": zstandard.compress}
            path.write_bytes(packed.get(kind, bytes)(lines))
    files["cut"] = files["jsonl"]
    files["template"] = folder / "template.parquet"
    if not files["template"].exists():
        templates.make(files["template"], "template", table["text"].to_pylist(), BUCKETS)
    files["licences"] = folder / "licences.parquet"
    try:
        if not files["licences"].exists():
            licences.make(files["licences"])
    except PackageNotFoundError:
        del files["licences"]
    for kind, texts in kinds(table["text"].to_pylist(), scripts):
        files[kind] = folder / f"{kind}.parquet"
        pq.write_table(pa.table({"text": pa.array(texts, pa.large_string())}), files[kind])
    return files


def kinds(pages: list[str], scripts: Path | None) -> Iterator[tuple[str, list[str]]]:
    """Texts that are unlike a page in English: documents of a few words, tokens of many letters, other scripts."""
    some = _filled(pages)
    yield "sign-short", [part for text in some for part in re.findall(f".{{{SHORT}}}", text)]
    yield "sign-long", [" ".join(re.findall(f"[a-z]{{{LONG}}}", re.sub("[^a-z]", "", text.lower()))) for text in some]
    if scripts:
        table = pq.read_table(scripts, columns=["lang", "text"])
        for language in LANGUAGES:
            yield f"sign-{language}", _filled(table.filter(pc.equal(table["lang"], language))["text"].to_pylist())


def _filled(texts: list[str]) -> list[str]:
    """The first of them, or all again and again, up to SIGNED_BYTES."""
    taken, size = [], 0
    for text in itertools.cycle(texts):
        if size >= SIGNED_BYTES:
            break
        taken.append(text)
        size += len(text.encode())
    return taken


def work(case: str, path: str) -> Callable[[], Any]:
    """The measured tasks, on one thread except for files, that both trees have."""
    import gpulsh

    if case in PROCESSES:
        return lambda: _process(empty_cache=case == "first")
    if case in FORMATS or case == "cut":
        out = f"{path}-out-{os.getpid()}"
        lines: Any = {"unit": "line", "max_copies": 1, "cut": True}
        run = partial(gpulsh.passages_files, **lines) if case == "cut" else gpulsh.deduplicate_files

        def files() -> None:
            shutil.rmtree(out, ignore_errors=True)
            run([path], out, backend="cpu")
            shutil.rmtree(out)

        return files
    column = pq.read_table(path, columns=["text"])["text"].combine_chunks()
    texts = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    if case == "signature":
        return lambda: gpulsh.MinHash(num_perm=128, seed=1).from_texts(texts, backend="cpu", threads=1)
    if case == "sign" or case in KINDS:
        return _sign(texts)
    if case == "index":

        def index() -> Any:
            made = gpulsh.Index(threshold=0.8, backend="cpu", threads=1)
            made.insert(list(range(len(texts))), texts)
            return made.query(texts.slice(0, len(texts) // 4))

        return index
    if case == "query":
        held = gpulsh.Index(threshold=0.8, backend="cpu", threads=1)
        held.insert(list(range(len(texts))), texts)
        return lambda: held.query(texts.slice(0, len(texts) // 4))
    if case in SHINGLED:
        shingling = gpulsh.Shingling(unit="char" if "char" in case else "word", symbols="symbols" in case)
        few = texts.slice(0, SHINGLED_TEXTS)  # what becomes of them stays in the cache
        return lambda: [gpulsh.shingle(few, shingling=shingling, backend="cpu", threads=1) for _ in range(REPEATS)]
    if case in SKETCHES or case in SIMILAR:
        return _of_sets(case, texts)
    asked: Any = {"measure": "containment"} if case == "containment" else {}
    return lambda: gpulsh.deduplicate(texts, threshold=0.8, **asked, backend="cpu", threads=1)


def _process(*, empty_cache: bool) -> None:
    code = "import gpulsh; gpulsh.deduplicate(['a text', 'another'], backend='cpu')"
    with tempfile.TemporaryDirectory() as cache:
        given = {"NUMBA_CACHE_DIR": cache} if empty_cache else {}
        subprocess.run([sys.executable, "-P", "-c", code], env={**os.environ, **given}, check=True)


def _of_sets(case: str, texts: Any) -> Callable[[], Any]:
    """A sketch of sets that are ready, or what pairs of them share."""
    import gpulsh
    from gpulsh.backends.cpu import CpuBackend
    from gpulsh.backends.protocol import sketched
    from gpulsh.params import Family

    ask: dict[str, Any] = {"backend": "cpu", "threads": 1}
    makes = gpulsh.weigh if "weighted" in case else gpulsh.shingle
    sets = makes(texts, **ask)
    if case in SIMILAR:
        pairs = np.random.default_rng(1).integers(0, len(texts), (PAIRS, 2))
        return lambda: gpulsh.jaccard(sets, pairs, **ask)
    sketches: dict[str, Any] = {
        "simhash": gpulsh.SimHash(bits=384),
        "bottom": gpulsh.BottomS(size=128),
        "mod": gpulsh.ModM(modulus=16),
        "weighted": gpulsh.WeightedMinHash(),
    }
    if case in sketches:
        return lambda: sketches[case](sets, **ask)
    family: Any = Family(name=case)
    return lambda: sketched(CpuBackend(1), sets, family)


def _sign(texts: Any) -> Callable[[], Any]:
    """The operation of the backend, with the exact hash: some trees know no keys of it, and take drawn functions."""
    from gpulsh.arrays import TextBatch
    from gpulsh.backends.cpu import CpuBackend
    from gpulsh.params import BandShape, Family, Shingling
    from gpulsh.permutations import coefficients

    wide = texts.cast(pa.large_string())
    _, offset, values = wide.buffers()
    batch = TextBatch(np.frombuffer(values, np.uint8), np.frombuffer(offset, np.int64)[: len(wide) + 1])
    ops, family = CpuBackend(1), Family(num_perm=128, seed=1)
    functions: Any = coefficients(family) if "coefficients" in inspect.signature(ops.sign).parameters else family
    given = [batch, Shingling(), functions, BandShape(bands=21, rows=6)]
    if "keys" in inspect.signature(ops.sign).parameters:
        from gpulsh.secret import evidence_keys

        given.append(evidence_keys(bytes(range(32))))
    return lambda: ops.sign(*given)


def measure(case: str, path: str) -> dict[str, float]:
    """The least times of one interpreter."""
    doing = work(case, path)
    doing()
    spent, passed = [], []
    while len(spent) < TURNS or sum(spent) < MIN_SECONDS:
        began, before = time.perf_counter(), _processor_seconds()
        doing()
        spent.append(_processor_seconds() - before)
        passed.append(time.perf_counter() - began)
    return {"processor": min(spent), "wall": min(passed)}


def _processor_seconds() -> float:
    """Of this process and of those that it started and that ended."""
    return time.process_time() + sum(os.times()[2:4])


def in_tree(tree: Path, cases: list[str], files: dict[str, Path]) -> list[dict[str, float]]:
    """The same of each case in an interpreter that finds gpulsh in `tree`."""
    found = subprocess.run(
        [sys.executable, "-P", __file__, "--work", *(str(part) for case in cases for part in (case, files[case]))],
        env={**os.environ, "PYTHONPATH": str(tree)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    outcomes: list[dict[str, float]] = json.loads(found.stdout.splitlines()[-1])
    return outcomes


def _row(case: str, rounds: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    row: dict[str, Any] = {"case": case}
    for tree in ("other", "this"):
        row[f"{tree}, median s"] = round(median(one[tree]["processor"] for one in rounds), 4)
        row[f"{tree}, least s"] = round(min(one[tree]["processor"] for one in rounds), 4)
    ratio = median(one["this"]["processor"] / one["other"]["processor"] for one in rounds)
    wall = median(one["this"]["wall"] / one["other"]["wall"] for one in rounds)
    return row | {"ratio": round(ratio, 3), "wall ratio": round(wall, 3), "met": ratio <= ALLOWED}


def _compiled_to() -> str:
    """The note of a record if Numba compiles for another processor than the machine's."""
    if not (name := os.environ.get("NUMBA_CPU_NAME")):
        return ""
    widest = "AVX-512" if "+avx512f" in os.environ.get("NUMBA_CPU_FEATURES", "+avx512f") else "AVX2"
    return f"Both trees compile to {name}, of which {widest} is the widest.\n"


def main() -> None:
    from benchmarks import machine
    from benchmarks.record import FOLDER, table

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scripts", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--together", action="store_true", help="run all cases of a round in one interpreter")
    parser.add_argument("--record", metavar="NAME", help="write a record of that name")
    given = parser.parse_args()
    here = Path(__file__).resolve().parents[1]
    trees = {"other": given.other.resolve(), "this": here}
    described, today = machine.describe(), date.today().isoformat()
    commit = subprocess.run(
        ["git", "-C", given.other, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    files = make(given.folder, given.corpus, given.scripts)
    cases = [case for case in given.cases.split(",") if case in files]
    found: dict[str, list[dict[str, dict[str, float]]]] = {case: [] for case in cases}
    for turn in range(given.rounds):
        for some in [cases] if given.together else [[case] for case in cases]:
            order = ("other", "this") if turn % 2 else ("this", "other")
            outcomes = {name: in_tree(trees[name], some, files) for name in order}
            for i, case in enumerate(some):
                found[case].append({name: outcomes[name][i] for name in order})
                print(turn + 1, _row(case, found[case]), flush=True)
    rows = [_row(case, rounds) for case, rounds in found.items()]
    shown = table(rows)
    print(shown)
    if given.record:
        record = FOLDER / machine.device_name() / today / f"{given.record}.json"
        record.parent.mkdir(parents=True, exist_ok=True)
        told = {"date": today, "machine": described, "other": commit, "turns": TURNS, "rounds": found}
        record.write_text(json.dumps({**told, "rows": rows}, indent=1) + "\n")
        versions = ", ".join(f"{name} {version}" for name, version in described["versions"].items())
        record.with_suffix(".md").write_text(
            f"# {described['cpu']}, {described['cores']} cores, {today}: this tree against {commit}\n\n"
            f"`python -m benchmarks.paired OTHER_TREE CORPUS FOLDER --rounds {given.rounds} --cases {','.join(cases)}"
            f"{' --together' * given.together}`,"
            f" commit {described['commit']},\nPython {described['python']}, {versions}. Load before:"
            f" {described['load_before']}.\n{_compiled_to()}Processor seconds, the least of {TURNS} an interpreter;"
            f" ratios are medians over {given.rounds} paired rounds, met up to {ALLOWED}.\n\n{shown}\n"
        )
    if not all(row["met"] for row in rows):
        raise SystemExit(1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        print(json.dumps([measure(*given) for given in zip(sys.argv[2::2], sys.argv[3::2], strict=True)]))
    else:
        main()
