"""python -m benchmarks CORPUS.parquet [PAIRS.parquet]: run the cases, write the record, fail if a line is not met."""

from __future__ import annotations

import argparse
import datetime
import hashlib
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks import machine, record
from benchmarks.bench import Bench
from benchmarks.cases import CASES
from benchmarks.engines import ENGINES, engine_class


def _chosen(text: str, known: tuple[str, ...]) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name}: not one of {', '.join(known)}")
    return names


def _is_installed(engine: str) -> bool:
    try:
        engine_class(engine)
    except ModuleNotFoundError:
        return False
    return True


def _arguments() -> argparse.Namespace:
    ask = argparse.ArgumentParser(prog="ci/bench", description="Measure gpulsh and its rivals on one corpus")
    ask.add_argument("corpus", help="Parquet file with a column text")
    ask.add_argument("pairs", nargs="?", help="Parquet file of all true pairs >= 0.5: i, j, jaccard (else computed)")
    ask.add_argument("--cases", default=list(CASES), type=lambda t: _chosen(t, CASES))
    ask.add_argument("--engines", type=lambda t: _chosen(t, tuple(ENGINES)), help="by default, all that are installed")
    ask.add_argument("--threads", default=[1, 2], type=lambda t: [int(x) for x in t.split(",")])
    ask.add_argument("--rounds", default=5, type=int)
    ask.add_argument("--rows", type=int, help="only the first rows of the corpus (a quick look)")
    ask.add_argument(
        "--documents", type=int, help="documents made for job_ads, hot_buckets, shared_sentences and index_growth"
    )
    ask.add_argument("--work", type=Path, help="keep the corpora made on the spot here")
    ask.add_argument("--record", type=Path, help="folder of the record; else benchmarks/record/DEVICE/DATE")
    ask.add_argument("--name", default="bench", help="file name of the record, without suffix")
    given = ask.parse_args()
    absent = [name for name in given.engines or ENGINES if not _is_installed(name)]
    if given.engines and absent:
        ask.error(f"{', '.join(absent)} cannot be imported; ./ci/bench installs all engines")
    given.engines = [name for name in given.engines or ENGINES if name not in absent]
    pq.read_schema(given.corpus).field("text")
    return given


def main() -> int:
    given = _arguments()
    described = machine.describe()
    today = datetime.date.today().isoformat()
    with tempfile.TemporaryDirectory(prefix="gpulsh-bench-") as scratch:
        work = given.work or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        bench = Bench(given.corpus, given.pairs, work, given.rounds, given.engines, given.threads, given.rows,
                      given.documents, say=lambda text: print(text, flush=True))  # fmt: skip
        found: dict[str, dict[str, Any]] = {}
        for name in given.cases:
            case = import_module(f"benchmarks.cases.{name}")
            print(f"{case.TITLE}", flush=True)
            found[name] = {"title": case.TITLE, **case.run(bench)}
            for part in ("checks", "rows", "lines"):
                if found[name][part]:
                    print(record.table(found[name][part]), flush=True)
        rows = pq.read_metadata(given.corpus).num_rows
        header = {
            "date": today,
            "command": " ".join(
                ["./ci/bench CORPUS", *(["PAIRS"] if given.pairs else []), "--cases", ",".join(given.cases),
                 "--engines", ",".join(given.engines), "--threads", ",".join(map(str, given.threads)),
                 "--rounds", str(given.rounds), *(["--rows", str(given.rows)] if given.rows else []),
                 *(["--documents", str(given.documents)] if given.documents else [])]
            ),
            "rounds": given.rounds,
            "corpus": {
                "sha256": hashlib.sha256(Path(given.corpus).read_bytes()).hexdigest()[:12],
                "documents": min(rows, given.rows or rows),
                "MB": bench.text_bytes(given.corpus, given.rows) / 1e6,
            },
            "machine": described,
        }  # fmt: skip
    folder = given.record or record.FOLDER / machine.device_name() / today
    notes = {name: engine_class(name).note for name in given.engines}
    print(f"record: {record.write(folder, given.name, header, found, notes, work)}")
    missed = [r for f in found.values() for r in f["lines"] if not r["met"]]
    for r in missed:
        print(f"not met: {r['statement']}: {r['measured']} (wanted {r['target']})")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
