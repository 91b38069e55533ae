"""`--memory`: how the work is cut so that all of it fits."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path

from gpulsh.backends.protocol import Sizes
from gpulsh.errors import ParameterError
from gpulsh.io.limits import LEAST_MEMORY
from gpulsh.params import shown

MOST_CHOSEN = 8 << 30  # where nothing is given
PROGRAM = 256 << 20  # the interpreter, compiled code and libraries
PARTITION_BYTES = 64 << 20  # of text that is signed in one step, at most
PARALLEL_BYTES = 16 << 20  # the same, at least
PARTITION_BATCHES = 16  # at least so many batches of a device, for each step waits for its last one
DIGEST_COST = 24  # bytes that a digest costs while its range is looked at
TASK_MEMORY = 512 << 20  # of the budget, for each task that runs beside others
HELD_SHARE, LEAST_HOLDING = 16, 1 << 30  # of the budget; of less, none is for what only saves time
EXACT_COST = 4  # digests that an exact hash costs as much as
MOST_DIGESTS, MOST_GROUP = 1 << 24, 256 << 20  # more at once takes longer: fresh pages, and less of it in the caches
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True, kw_only=True)
class Cut:
    """How much of the work is one task. No bit of the results depends on it."""

    memory: int  # bytes that it is to fit into; a document may have a part of them
    partition: int  # bytes of text that are signed together, at most unless there would be too many partitions
    digests: int  # that are looked at together for collisions
    group: int  # bytes of text, and of what is known of documents, that are decided together
    parallel: int | None = None  # bytes of text at least, where partitions are signed side by side and are to be many


def parse_memory(given: int | str | None) -> int:
    """Bytes of a budget such as 4GiB, 4G or a number; None takes 8 GiB, or half of the machine's memory where that is
    less. ParameterError where it is none, or less than 512 MiB.

    >>> parse_memory("1.5GiB")
    1610612736
    """
    if given is None:
        return max(LEAST_MEMORY, min(MOST_CHOSEN, _machine() // 2))
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(?:i?B)?", str(given).strip(), re.IGNORECASE)
    memory = float(found[1]) * UNITS[found[2].upper()] if found and not isinstance(given, bool) else math.nan
    if not LEAST_MEMORY <= memory < math.inf:
        what = "too little to work in" if memory < LEAST_MEMORY else "no amount of memory"
        raise ParameterError(f"memory is {shown(given)}, {what}; give at least 512MiB, as 4GiB")
    return int(memory)


def cut(memory: int, sizes: Sizes) -> Cut:
    """The cut for a budget of `memory` bytes."""
    free = memory - PROGRAM
    return Cut(
        memory=memory,
        partition=max(PARTITION_BYTES, PARTITION_BATCHES * sizes.batch if sizes.readers > 1 else 0),
        digests=min(free // 2 // DIGEST_COST, MOST_DIGESTS),
        group=min(free // 4, MOST_GROUP),
        parallel=PARALLEL_BYTES if sizes.readers == 1 else None,  # a device is fed by all threads together
    )


def held_bytes(memory: int) -> int:
    """Bytes of a budget of `memory` in which texts may be kept for later stages."""
    return memory // HELD_SHARE if memory >= LEAST_HOLDING else 0


def _machine() -> int:
    """Bytes of memory that this process may use."""
    known = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(limit).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit():
            known.append(int(text))
    return min(known)
