"""Texts that stay in device memory after they are signed, so that comparing does not read them again."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, TextBatch
from gpulsh.backends.protocol import Backend
from gpulsh.errors import DeviceMemoryError
from gpulsh.io.memory.device import DeviceTexts
from gpulsh.io.memory.texts import MemoryTexts
from gpulsh.io.rows import Chosen, ChosenTexts
from gpulsh.ragged import end_to_end, offsets


class ResidentTexts:
    """The first documents of `source`, as many as the device has room for; others are read again."""

    def __init__(self, source: MemoryTexts, ops: Backend, *, wanted: bool) -> None:
        self._source, self._ops = source, ops
        self._batches: list[TextBatch] = []  # on the device
        self.is_full = not wanted

    def append(self, text: TextBatch | None) -> None:
        """The next documents, on any device; None: they are not."""
        held = None if text is None or self.is_full else self._ops.hold(text)
        if held is None:
            self.is_full = True
        else:
            self._batches.append(held)

    def choose(self, ids: Array) -> ChosenTexts:
        """The documents `ids`, ascending positions, for reading again; all others are released."""
        if not self._batches:
            return self._source.choose(ids)
        ops, starts = self._ops, offsets([len(batch) for batch in self._batches])
        with ops.here():
            cuts = ops.asnumpy(np.searchsorted(ids, ops.asarray(starts))).tolist()
        try:
            with ops.here():
                parts = [TextBatch(ops.asarray(np.empty(0, np.uint8)), ops.asarray(np.zeros(1, np.int64)))]
                for number, start in enumerate(starts[:-1].tolist()):
                    text = self._batches[number]
                    self._batches[number] = parts[0]  # released as soon as its documents are copied
                    rows = ids[cuts[number] : cuts[number + 1]] - np.int64(start)
                    parts.append(ops.gather(text.values, text.offset[rows], text.offset[rows + 1]))
                first = DeviceTexts(end_to_end(parts), None, ops).choose(np.arange(cuts[-1], like=ids))
        except DeviceMemoryError:
            return self._source.choose(ids)
        finally:
            self._batches.clear()
        if cuts[-1] == len(ids):
            return first
        with ops.here():
            return _joined(first, self._source.choose(ids[cuts[-1] :]), cuts[-1], ops)


def _joined(first: Chosen, rest: ChosenTexts, count: int, ops: Backend) -> Chosen:
    """`count` documents of the device, then the others."""
    sizes = np.concatenate([first.sizes, ops.asarray(rest.sizes)])

    def take(places: Array) -> TextBatch:
        places = ops.asarray(places)
        with ops.here():
            there, here = (np.flatnonzero(some) for some in (places < count, places >= count))
            others = rest.take(ops.asnumpy(places[here] - np.int64(count)))
            if len(there) == 0:
                return others
            parts = [first.take(places[there]), others.moved(ops.asarray)]
            both = end_to_end(parts)
            begin, end = (np.empty_like(places) for _ in range(2))
            order = np.concatenate([there, here])
            begin[order], end[order] = both.offset[:-1], both.offset[1:]
            text = ops.gather(both.values, begin, end)
            ops.asnumpy(text.offset[:0])  # waits: others use it on streams of their own
            return text

    return Chosen(sizes, take)
