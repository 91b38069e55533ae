"""One file a library, one small interface (base.py). Imported by name only, so that a process loads just its own."""

from __future__ import annotations

from importlib import import_module

from benchmarks.engines.base import Engine
from benchmarks.engines.bits import BitsEngine
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


def engine_class(name: str) -> type[Engine] | type[FilesEngine] | type[BitsEngine]:
    module, cls = ENGINES[name]
    found: type[Engine] | type[FilesEngine] | type[BitsEngine] = getattr(
        import_module(f"benchmarks.engines.{module}"), cls
    )
    return found
