"""`--memory`: the size of each task of a run, so that all of it fits."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass

from gpulsh.backends import cgroups
from gpulsh.backends.protocol import Sizes
from gpulsh.checks import shown
from gpulsh.errors import ParameterError
from gpulsh.io.limits import MIN_MEMORY

MAX_DEFAULT = 8 << 30  # the default, if the machine has twice as much
PROGRAM_BYTES = 256 << 20  # the interpreter, compiled code and libraries
PARTITION_BYTES = 256 << 20  # most text that is signed in one step
PARALLEL_BYTES = 16 << 20  # least text of a step
PART_BYTES = 32 << 20  # least bytes of a part of one large file of lines
PARTITION_BATCHES = 16  # least batches of a device in a step, because each step waits for its last batch
DIGEST_COST = 24  # bytes that a digest takes while the collisions of its range are found
TASK_MEMORY = 512 << 20  # bytes of the budget for each of several parallel tasks
# The part of a budget, from MIN_HOLDING on, for texts that wait in memory. A device leaves the host more of it: its
# batches take a quarter (`backends.cuda.memory`), and no tasks sign in parallel.
HELD_SHARE, HELD_SHARE_OF_DEVICE, MIN_HOLDING = 16, 4, 1 << 30
EXACT_COST = 4  # memory for an exact hash, in digests
MAX_DIGESTS, MAX_GROUP = 1 << 24, 256 << 20  # larger tasks are slower: they need fresh pages and miss the caches
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True, kw_only=True)
class TaskSizes:
    """How much a task takes. No bit of the results depends on it."""

    memory: int  # the budget in bytes; one document may take only a part of it
    partition: int  # most bytes of text that are signed together, unless there would be too many partitions
    digests: int  # digests whose collisions are found together
    group: int  # bytes of texts and facts of documents that are decided together
    parallel: int | None = None  # least bytes of text of a partition, if several are signed in parallel
    part: int | None = None  # least bytes of a part of one file of lines; None: such files have no parts


def parse_memory(given: int | str | None) -> int:
    """Bytes of a budget such as 4GiB, 4G or a number. The default is 8 GiB, or half of the machine's memory if that is
    less. ParameterError for anything else, and for less than 512 MiB.

    >>> parse_memory("1.5GiB")
    1610612736
    """
    if given is None:
        return max(MIN_MEMORY, min(MAX_DEFAULT, machine_memory() // 2))
    written = given if isinstance(given, str) else shown(given)
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(?:i?B)?", written.strip(), re.IGNORECASE)
    memory = float(found[1]) * UNITS[found[2].upper()] if found and not isinstance(given, bool) else math.nan
    if not MIN_MEMORY <= memory < math.inf:
        what = "too little to work in" if memory < MIN_MEMORY else "not an amount of memory"
        raise ParameterError(f"memory is {shown(given)}, {what}; give at least 512MiB, such as 4GiB")
    return int(memory)


def machine_memory() -> int:
    """The bytes of memory that this machine has, or allows this process's control group."""
    return int(min(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), cgroups.max_memory()))


def task_sizes(memory: int, sizes: Sizes, tasks: int = 1) -> TaskSizes:
    """The sizes for a budget of `memory` bytes, which so many tasks share in processes of their own."""
    free = memory // tasks - PROGRAM_BYTES
    return TaskSizes(
        memory=memory,
        partition=max(PARTITION_BYTES, PARTITION_BATCHES * sizes.batch if sizes.readers > 1 else 0),
        digests=min(free // 2 // DIGEST_COST, MAX_DIGESTS),
        group=min(free // 4, MAX_GROUP),
        parallel=PARALLEL_BYTES if sizes.readers == 1 else None,  # all threads together feed a device
        part=PART_BYTES,
    )


def held_bytes(memory: int, *, device: bool = False) -> int:
    """The bytes of a budget that may hold texts for later stages, where the host or a `device` signs them."""
    share = HELD_SHARE_OF_DEVICE if device else HELD_SHARE
    return memory // share if memory >= MIN_HOLDING else 0


def memory_shares(memory: int, sizes: Sizes) -> dict[str, int]:
    """The bytes of a budget: of the `host`; of these, with a device, `read_ahead`, `pinned`, and `held` for texts that
    later stages read; of each `device`.
    """
    if not sizes.device:
        return {"host": memory}
    parts = {"read_ahead": sizes.ahead or 0, "pinned": sizes.pinned, "held": held_bytes(memory, device=True)}
    return {"host": memory, **parts, "device": sizes.device}
