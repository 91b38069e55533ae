"""300 items of a real benchmark inside documents: how many `--protect --passages` finds in each form, and what else.

    python -m benchmarks.contamination CORPUS.parquet FOLDER [--tokens 13]

The items are questions of the Berkeley Function Calling Leaderboard (Patil et al. 2025). They are read from its
package, which is never imported: `pip install --no-deps bfcl-eval==2026.3.23`. Each is put into a text of CORPUS, which
has a column `text`: verbatim between two words, as a paragraph of its own, wrapped into lines of 8 words, or in one
long paragraph. All other texts of CORPUS are clean.

`recall` is the share of items that are found in their own document. `others` counts items that are found in another
document, or in a clean text. The record is written to record/<device>/<date>/contamination.json and .md.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.record import arguments, table, write_page

ITEMS, MIN_WORDS, LINE = 300, 5, 8  # how many, words of the shortest, words of a line
FILES = ("simple_python", "multiple", "parallel", "live_multiple")


def items() -> list[str]:
    """Questions of the benchmark, each once."""
    found = find_spec("bfcl_eval")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("bfcl-eval is not installed: pip install --no-deps bfcl-eval==2026.3.23")
    texts: dict[str, None] = {}
    for name in FILES:
        for line in Path(found.submodule_search_locations[0], f"data/BFCL_v4_{name}.json").read_text().splitlines():
            text = json.loads(line)["question"][0][-1]["content"]
            if len(text.split()) >= MIN_WORDS:
                texts[text] = None
    return random.Random(1).sample(list(texts), ITEMS)


def within(text: str, item: str, between: str) -> str:
    """A text with an item in its middle."""
    words = text.split(between)
    half = len(words) // 2
    return between.join([*words[:half], item, *words[half:]])


def wrapped(item: str) -> str:
    words = item.split()
    return "\n".join(" ".join(words[at : at + LINE]) for at in range(0, len(words), LINE))


FORMS: dict[str, Callable[[str, str], str]] = {
    "verbatim": lambda text, item: within(text, item, " "),
    "paragraph": lambda text, item: within(text, f"\n\n{item}\n\n", "\n"),
    "lines": lambda text, item: within(text, f"\n{wrapped(item)}\n", " "),
    "embedded": lambda text, item: " ".join(within(text, item, " ").split()),
}


def measured(corpus: Path, folder: Path, tokens: int) -> list[dict[str, Any]]:
    """A row for each command and form, and one for clean texts."""
    texts = [text for text in pq.read_table(corpus, columns=["text"])["text"].to_pylist() if text]
    chosen, clean = items(), texts[ITEMS:]
    train, test = folder / "train", folder / "test.parquet"
    train.mkdir(parents=True, exist_ok=True)
    documents = {name: list(map(make, texts[:ITEMS], chosen)) for name, make in FORMS.items()} | {"clean": clean}
    for name, some in documents.items():
        pq.write_table(pa.table({"text": some}), train / f"{name}.parquet")
    pq.write_table(pa.table({"text": chosen}), test)
    rows = []
    for job in ("passages", "dedup"):
        out = folder / f"out-{job}"
        shutil.rmtree(out, ignore_errors=True)
        options = ["--protect", str(test), "--passages", str(tokens), "--backend", "cpu"]
        command = [sys.executable, "-m", "gpulsh", job, str(train), "-o", str(out), *options]
        subprocess.run(command, check=True, capture_output=True)
        found = pq.read_table(out / "contamination.parquet", columns=["file", "row", "item"]).to_pylist()
        for name, some in documents.items():
            here = [(one["row"], one["item"]) for one in found if Path(one["file"]).stem == name]
            own = sum(row == item for row, item in here) if name in FORMS else 0
            recall = {"recall": own / ITEMS} if name in FORMS else {}
            rows.append({"command": job, "form": name, "documents": len(some), **recall, "others": len(here) - own})
    return rows


def main() -> None:
    """Measure, and write the record."""
    parser = arguments(__doc__)
    parser.add_argument("--tokens", type=int, default=13)
    asked = parser.parse_args()
    rows = measured(asked.corpus, asked.folder, asked.tokens)
    print(table(rows))
    command = f"python -m benchmarks.contamination CORPUS.parquet FOLDER --tokens {asked.tokens}"
    text = f"{ITEMS} questions of bfcl-eval 2026.3.23, each in a text of its own in each form.\n\n{table(rows)}"
    write_page("contamination", "items of a benchmark inside documents", command, {"rows": rows}, text)


if __name__ == "__main__":
    main()
