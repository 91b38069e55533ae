"""Which pairs are compared together: tiles of documents that memory holds, a connected component in one if it fits."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Numbers
from gpulsh.backends.protocol import Backend, Sizes
from gpulsh.lsh.pairs import chosen_pairs, order_of, renumbered
from gpulsh.ragged import first_of_runs


def grouped_by_tile(pairs: Numbers, text_sizes: Numbers, ops: Backend) -> tuple[list[Numbers], bool]:
    """Pair numbers grouped by the tiles of their places; whether a pair has two, so that texts are read for several."""
    if len(pairs) == 0:
        return [], False
    sizes = ops.sizes()
    if int(text_sizes.sum()) < sizes.tile:
        return [np.arange(len(pairs))], False
    is_read = np.zeros(len(text_sizes), bool)  # the others, of large buckets alone, take no room in a tile
    is_read[pairs] = True
    component = ops.asnumpy(ops.components(len(text_sizes), ops.asarray(pairs)))
    tiles = _tiles(component, np.where(is_read, text_sizes, 0), sizes)
    first, second = tiles[pairs[:, 0]], tiles[pairs[:, 1]]
    across = bool((first != second).any())
    both = np.minimum(first, second) << 32 | np.maximum(first, second) if across else first
    order = order_of(both, int(both.max()) + 1)
    return np.split(order, np.flatnonzero(first_of_runs(both[order]))[1:]), across


def bytes_read(pairs: Numbers, groups: list[Numbers], text_sizes: Numbers) -> int:
    """Bytes of text that are read for these groups of pairs, one after another."""
    return sum(int(text_sizes[renumbered(chosen_pairs(pairs, group), len(text_sizes))[0]].sum()) for group in groups)


def _tiles(component: Numbers, text_sizes: Numbers, sizes: Sizes) -> Numbers:
    """int64 [n]: a tile for each place, components whole where they fit, and in the order of their first place."""
    order = order_of(component, len(component))
    begins = np.cumsum(text_sizes[order]) - text_sizes[order]
    component_start = np.maximum.accumulate(np.where(first_of_runs(component[order]), begins, 0))
    # A component's documents follow the tile it begins in, and go on into further ones when it is larger than a tile.
    inside = (begins - component_start) // sizes.largest_tile
    tile = component_start // sizes.tile + inside
    tile_of = np.empty(len(order), np.int64)
    tile_of[order] = np.maximum.accumulate(tile)
    return tile_of
