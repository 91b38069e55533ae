"""One file per library, one small interface (base.py). Imported by name only, so that a process loads just its own."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from benchmarks.engines.base import Engine
from benchmarks.engines.bits import BitsEngine
from benchmarks.engines.decider import Decider
from benchmarks.engines.files import FilesEngine

ENGINES = {
    "gpulsh": ("gpulsh", "Gpulsh"),
    "Daft": ("daft", "Daft"),
    "rensa": ("rensa", "Rensa"),
    "rensa-rho": ("rensa", "RensaRho"),
    "rensa-deduplicator": ("rensa", "RensaDeduplicator"),
    "FastSketchLSH": ("fastsketchlsh", "FastSketchLSH"),
    "datasketch": ("datasketch", "Datasketch"),
    "datatrove": ("datatrove", "Datatrove"),
    "popcount": ("popcount", "Popcount"),
    "text-dedup": ("text_dedup", "TextDedup"),
}

# Who runs in the race, from files to decision.
DECIDERS = {
    "gpulsh": ("gpulsh", "Gpulsh"),
    "gpulsh dedup": ("gpulsh", "GpulshCommand"),
    "Daft": ("daft", "Daft"),
    "marin-dupekit": ("dupekit", "Dupekit"),
    "rensa": ("rensa", "Rensa"),
    "rensa-deduplicator": ("rensa", "RensaDeduplicator"),
    "FastSketchLSH": ("fastsketchlsh", "FastSketchLSH"),
    "datasketch": ("datasketch", "Datasketch"),
    "datasketch own bands": ("datasketch", "DatasketchOwnBands"),
    "datasketch Bloom": ("datasketch", "DatasketchBloom"),
    "datatrove": ("datatrove", "Datatrove"),
    "text-dedup": ("text_dedup_minhash", "TextDedupMinHash"),
    "Spark MLlib": ("spark", "Spark"),
}


def engine_class(name: str) -> type[Engine] | type[FilesEngine] | type[BitsEngine]:
    found: type[Engine] | type[FilesEngine] | type[BitsEngine] = _imported(*ENGINES[name])
    return found


def decider_class(name: str) -> type[Decider]:
    found: type[Decider] = _imported(*DECIDERS[name])
    return found


def _imported(module: str, cls: str) -> Any:
    return getattr(import_module(f"benchmarks.engines.{module}"), cls)
