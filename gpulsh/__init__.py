"""Finds and removes near-duplicate documents: MinHash, LSH and exact verification on CUDA and CPU.

Every call that works on documents takes `backend=`: "auto" (CUDA where it works, otherwise the CPU), "cpu" (Numba),
"cuda" (one or several GPUs) or "reference" (plain NumPy), all with the same bits. BackendError says why one does not
work. `threads=` is the number of threads of the CPU backend; None uses all processors. Arrays are NumPy's, or CuPy's
with CUDA. A wrong parameter raises ParameterError, whose message says what is allowed.

Names are imported on first use, so `import gpulsh` loads none of Numba, pyarrow and CuPy.
"""

from __future__ import annotations

from importlib import import_module
from os.path import join
from typing import Any

__version__ = "0.3.0.dev0"

_stub = __loader__.get_data(join(__path__[0], "__init__.pyi")).decode()
_imports = [line.split() for line in _stub.splitlines() if line.startswith("from ")]
_homes = {name: home for _, home, _, name, *_ in _imports}  # the module of each public name, or this package

__all__ = ["__version__", *sorted(name for name, home in _homes.items() if home != __name__)]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _homes:
        raise AttributeError(f"module 'gpulsh' has no attribute {name!r}")
    if _homes[name] == __name__:
        return import_module(f"{__name__}.{name}")
    value = getattr(import_module(_homes[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
