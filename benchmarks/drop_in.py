"""python drop_in.py MODULE: seconds of the operations of a module with datasketch's names, as one line of JSON.

The Python that runs it has the module, and needs nothing else. For gpulsh's module, it also measures an `Index`.
"""

from __future__ import annotations

import gc
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from hashlib import sha1
from importlib import import_module
from statistics import median
from typing import Any

SETS, TOKENS, WORDS = 3000, 200, 5000  # of `bulk`; each token is five words
SINGLE = 2000  # inserts and queries
HELD, ASKED, LENGTH = 10_000, 300, 120  # documents of an Index, those asked for one a call, and words of each


def main(module: str) -> dict[str, Any]:
    library: Any = import_module(module)
    chance = random.Random(3)
    words = [f"word{number}" for number in range(WORDS)]
    drawn = (chance.choices(words, [1 / (n + 1) for n in range(WORDS)], k=TOKENS + 4) for _ in range(SETS))
    sets = [[" ".join(text[start : start + 5]).encode() for start in range(TOKENS)] for text in drawn]
    library.MinHash.bulk(sets[:600], num_perm=128)  # compiles, imports
    gc.collect()
    gc.freeze()  # the sets, which a collection would look through while the clock runs
    found: dict[str, Any] = {"version": getattr(library, "__version__", "")}
    began, spent = time.perf_counter(), time.process_time()
    made = library.MinHash.bulk(sets, num_perm=128)
    found["bulk, us a set"] = (time.perf_counter() - began) / SETS * 1e6
    found["bulk, us of processor a set"] = (time.process_time() - spent) / SETS * 1e6
    signatures = made[:SINGLE]
    index = library.MinHashLSH(threshold=0.8, num_perm=128)
    found["insert, us"] = _median(lambda number: index.insert(number, signatures[number]), range(SINGLE)) * 1e6
    answers: list[Any] = []
    found["query, us"] = _median(lambda one: answers.append(index.query(one)), signatures) * 1e6
    values = b"".join(one.hashvalues.tobytes() for one in made)
    found["answer"] = sha1(values + json.dumps([sorted(keys) for keys in answers]).encode()).hexdigest()
    if module.startswith("gpulsh."):
        found |= _of_index(chance)
    return found


def _median(work: Callable[[Any], object], given: Sequence[Any]) -> float:
    """Processor seconds of a call."""
    took = []
    for one in given:
        began = time.process_time()
        work(one)
        took.append(time.process_time() - began)
    return median(took)


def _of_index(chance: random.Random) -> dict[str, float]:
    from gpulsh import Index

    words = [f"w{number}" for number in range(20_000)]

    def page() -> str:
        return " ".join(chance.choices(words, k=LENGTH))

    def near() -> str:
        text = chance.choice(pages).split()
        text[chance.randrange(LENGTH)] = f"new{chance.random()}"
        return " ".join(text)

    pages = [page() for _ in range(HELD)]
    index = Index(backend="cpu")
    index.add([f"held {number}" for number in range(HELD)], pages)
    keys = iter(range(10 * ASKED))

    def add(text: str) -> None:
        index.add([f"later {next(keys)}"], [text])

    found = {}
    for doing, work in (("query", lambda text: index.query([text])), ("add", add)):
        for kind, make in (("unlike any", page), ("near one", near)):
            found[f"Index.{doing} {kind}, ms"] = _median(work, [make() for _ in range(ASKED)]) * 1e3
    return found


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
