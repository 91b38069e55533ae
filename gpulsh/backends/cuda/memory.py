"""Device memory: how much text is taken at once, and what is raised when it does not suffice.

The figures are bytes of device memory a byte of text in the worst case, one-byte tokens: in `sign` the text, 8 of token
sums and 8 of fingerprints where these are not fused; in `shingle_sets` the same and what two stable sorts need beside
their input. Ordinary text needs about a fifth. No bit depends on them, and a batch that does not fit is halved.
"""

from __future__ import annotations

from types import ModuleType

from gpulsh.backends.parallel import processors
from gpulsh.backends.protocol import Sizes

SIGN_FACTOR = 20
TILE_FACTOR = 240  # two tiles are held where a component is larger than one
USED = 0.8  # of what is free: allocators round up, and others use the device, too
SMALLEST = 1 << 20
RESIDENT = 0.4  # of what is free at the start may hold the digests of documents signed so far


def free_bytes(arrays: ModuleType) -> int:
    """Bytes of the current device that the array module can hand out: free ones and those its pool keeps."""
    free, _ = arrays.cuda.runtime.memGetInfo()
    return int(free) + int(arrays.get_default_memory_pool().free_bytes())


def text_sizes(free: int, lanes: int, most: int) -> Sizes:
    """How much text is taken at once where `free` bytes are and `lanes` batches or tiles are in work side by side.

    No more than `most`, whatever is free.
    """
    usable = int(free * USED)
    tile = _clipped(usable // (TILE_FACTOR * lanes), most)
    batch = _clipped(usable // (SIGN_FACTOR * lanes), most)
    return Sizes(batch=batch, tile=tile, largest_tile=tile, readers=processors())


def _clipped(size: int, most: int) -> int:
    return min(max(size, SMALLEST), most)
