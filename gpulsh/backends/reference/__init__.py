"""The oracle: plain Python and NumPy, written to be read, against which the other backends are judged.

Operations that other backends do in one pass are compositions here.
"""

from __future__ import annotations

from gpulsh.backends.protocol import Backend, Sizes, operations
from gpulsh.backends.reference import buckets, rows, texts, weighted
from gpulsh.backends.reference.sketches import sketch_of

SIZES = Sizes(batch=1 << 20, tile=1 << 20, largest_tile=1 << 20)


class ReferenceBackend(Backend):
    """Plain Python and NumPy, one thread."""

    name = "reference"

    set_sketch = staticmethod(sketch_of)

    def sizes(self) -> Sizes:
        return SIZES


for _name, _operation in operations(buckets, rows, texts, weighted).items():
    setattr(ReferenceBackend, _name, staticmethod(_operation))
