"""Finds and removes near-duplicate documents: MinHash, LSH and exact verification on CUDA and CPU.

Every call that works on documents takes `backend=`: "auto" (CUDA where it works, otherwise the CPU), "cpu" (Numba),
"cuda" (one or several GPUs) or "reference" (plain NumPy), all with the same bits. BackendError says why one does not
work. `threads=` is the number of threads of the CPU backend; None uses all processors. Arrays are NumPy's, or CuPy's
with CUDA. A wrong parameter raises ParameterError, whose message says what is allowed.

Names are imported on first use, so `import gpulsh` loads none of Numba, pyarrow and CuPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpulsh.arrays import BandDigests as BandDigests
    from gpulsh.arrays import BitSignatures as BitSignatures
    from gpulsh.arrays import Fingerprints as Fingerprints
    from gpulsh.arrays import PackedSignatures as PackedSignatures
    from gpulsh.arrays import Samples as Samples
    from gpulsh.arrays import Signatures as Signatures
    from gpulsh.arrays import TextBatch as TextBatch
    from gpulsh.arrays import WeightedFingerprints as WeightedFingerprints
    from gpulsh.decide.decision import Decision as Decision
    from gpulsh.errors import BackendError as BackendError
    from gpulsh.errors import ChangedInputError as ChangedInputError
    from gpulsh.errors import DamagedInputError as DamagedInputError
    from gpulsh.errors import DeviceMemoryError as DeviceMemoryError
    from gpulsh.errors import GpulshError as GpulshError
    from gpulsh.errors import InputError as InputError
    from gpulsh.errors import InputTypeError as InputTypeError
    from gpulsh.errors import LargeDocumentError as LargeDocumentError
    from gpulsh.errors import MemoryLimitError as MemoryLimitError
    from gpulsh.errors import OutputError as OutputError
    from gpulsh.errors import ParameterError as ParameterError
    from gpulsh.errors import UnknownParameterError as UnknownParameterError
    from gpulsh.index.index import Index as Index
    from gpulsh.lsh.banding import Banding as Banding
    from gpulsh.lsh.banding import BitSampling as BitSampling
    from gpulsh.lsh.banding import Supershingles as Supershingles
    from gpulsh.lsh.collisions import candidate_pairs as candidate_pairs
    from gpulsh.lsh.hamming_tables import HammingTables as HammingTables
    from gpulsh.lsh.similarity import containment as containment
    from gpulsh.lsh.similarity import cosine as cosine
    from gpulsh.lsh.similarity import jaccard as jaccard
    from gpulsh.params import Folding as Folding
    from gpulsh.params import Shingling as Shingling
    from gpulsh.run.files import deduplicate_files as deduplicate_files
    from gpulsh.run.memory import deduplicate as deduplicate
    from gpulsh.sketch.b_bit import BBit as BBit
    from gpulsh.sketch.bits import hamming as hamming
    from gpulsh.sketch.c_minhash import CMinHash as CMinHash
    from gpulsh.sketch.earth_mover import EarthMover as EarthMover
    from gpulsh.sketch.fast_similarity import FastSimilarity as FastSimilarity
    from gpulsh.sketch.hyperplanes import Hyperplanes as Hyperplanes
    from gpulsh.sketch.minhash import MinHash as MinHash
    from gpulsh.sketch.minhash import minima as minima
    from gpulsh.sketch.one_permutation import OnePermutation as OnePermutation
    from gpulsh.sketch.samples import BottomS as BottomS
    from gpulsh.sketch.samples import ModM as ModM
    from gpulsh.sketch.simhash import SimHash as SimHash
    from gpulsh.sketch.weighted import KleinbergTardos as KleinbergTardos
    from gpulsh.sketch.weighted import WeightedMinHash as WeightedMinHash
    from gpulsh.studies.compare import compare as compare
    from gpulsh.studies.curve import study as study
    from gpulsh.studies.sample import sample as sample
    from gpulsh.text.documents import shingle as shingle
    from gpulsh.text.documents import weigh as weigh
    from gpulsh.text.profiles import md5_signatures as md5_signatures
    from gpulsh.text.profiles import text_profiles as text_profiles
    from gpulsh.text.sets import fingerprint as fingerprint
    from gpulsh.theory import SCurve as SCurve
    from gpulsh.theory import choose_banding as choose_banding

__version__ = "0.3.0.dev0"

_NAMES = {  # of each module
    "arrays": (
        *("BandDigests", "BitSignatures", "Fingerprints", "PackedSignatures", "Samples", "Signatures", "TextBatch"),
        "WeightedFingerprints",
    ),
    "decide.decision": ("Decision",),
    "errors": (
        *("BackendError", "ChangedInputError", "DamagedInputError", "DeviceMemoryError", "GpulshError", "InputError"),
        *("InputTypeError", "LargeDocumentError", "MemoryLimitError", "OutputError", "ParameterError"),
        "UnknownParameterError",
    ),
    "index.index": ("Index",),
    "lsh.banding": ("Banding", "BitSampling", "Supershingles"),
    "lsh.collisions": ("candidate_pairs",),
    "lsh.hamming_tables": ("HammingTables",),
    "lsh.similarity": ("containment", "cosine", "jaccard"),
    "params": ("Folding", "Shingling"),
    "run.files": ("deduplicate_files",),
    "run.memory": ("deduplicate",),
    "sketch.b_bit": ("BBit",),
    "sketch.bits": ("hamming",),
    "sketch.c_minhash": ("CMinHash",),
    "sketch.earth_mover": ("EarthMover",),
    "sketch.fast_similarity": ("FastSimilarity",),
    "sketch.hyperplanes": ("Hyperplanes",),
    "sketch.minhash": ("MinHash", "minima"),
    "sketch.one_permutation": ("OnePermutation",),
    "sketch.samples": ("BottomS", "ModM"),
    "sketch.simhash": ("SimHash",),
    "sketch.weighted": ("KleinbergTardos", "WeightedMinHash"),
    "studies.compare": ("compare",),
    "studies.sample": ("sample",),
    "studies.curve": ("study",),
    "text.documents": ("shingle", "weigh"),
    "text.profiles": ("md5_signatures", "text_profiles"),
    "text.sets": ("fingerprint",),
    "theory": ("SCurve", "choose_banding"),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOMES)]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gpulsh' has no attribute {name!r}")
    value = getattr(import_module(f"gpulsh.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
