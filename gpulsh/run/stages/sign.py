"""sign: a partition of the files, signed; what is known of its documents.

Makes `digests`, a record batch a run and band (digest, row), and `exact`, one a run (hash_0, hash_1, row), both in
ranges (`store.ranged`), rows without a token left out; `documents` (size and, where it is not by position, major and
minor of the decision order), a row a document; `rejected`, where there is something rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.account.funnel import Funnel
from gpulsh.arrays import Signed
from gpulsh.backends.in_order import in_order
from gpulsh.backends.protocol import Backend
from gpulsh.io.files.file_texts import Partition, PartitionFacts
from gpulsh.lsh.signing import sign_batches
from gpulsh.run.job.behind import behind
from gpulsh.run.job.job import step_file, step_of
from gpulsh.run.job.order import kind_of
from gpulsh.run.job.task import Made, Workplace
from gpulsh.run.records.rejections import PassedOver
from gpulsh.store.columns import ColumnsFile, columns_file
from gpulsh.store.durable import FileFact
from gpulsh.store.ranged import range_order

DIGESTS = pa.schema([("digest", pa.uint64()), ("row", pa.uint32())])
EXACT = pa.schema([("hash_0", pa.uint64()), ("hash_1", pa.uint64()), ("row", pa.uint32())])
Digests = Mapping[str, Mapping[str, str]]  # of what was read of a file, by its number and the first row of a piece
RUN_DIGESTS = 1 << 22  # words that are held before they are put in order and written
OTHER_WORDS = 4  # of a row, beside its digests: an exact hash, its number, and the order


def sign(place: Workplace, partition: Partition) -> Made:
    """Sign a partition."""
    texts, folder, step = place.texts(), place.folder, step_of("sign", partition.number)
    funnel = Funnel()
    with passed_over(place, partition) as rejected:
        facts = PartitionFacts(rejected=rejected)
        batches = texts.read(partition.pieces, place.ops.sizes().batch, facts)
        signed = sign_batches(batches, place.job.method, place.keys, place.ops, funnel, place.progress)
        with place.kept(piece.file for piece in partition.pieces):
            made, counts = _write_runs(folder, step, signed, place.job.method.banding.bands, place.ops)
        known = write_facts(place, partition, facts, rejected)
    return Made(
        {**made, **known.files},
        {
            **known.facts,
            **counts,
            "amount": funnel.bytes,
            "bytes": funnel.bytes,
            "kinds": sorted(set(map(kind_of, facts.keys))),
        },
    )


def passed_over(place: Workplace, partition: Partition) -> PassedOver:
    """`rejected` of a partition."""
    return PassedOver(step_file(place.folder, step_of("sign", partition.number), "rejected"))


def write_facts(place: Workplace, partition: Partition, facts: PartitionFacts, rejected: PassedOver) -> Made:
    """`documents` and `rejected` of a partition that was read."""

    def where(row: int) -> str:
        file, number = facts.place(partition, row)
        return f"{place.job.files[file].name}: row {number}"

    sizes = np.concatenate([np.empty(0, np.int64), *facts.sizes])
    order = place.job.policy.order(facts, place.job.files, where)
    made = place.write(
        step_of("sign", partition.number), documents={"size": sizes, **(order._asdict() if order else {})}
    )
    bad = rejected.finish()
    return Made(
        {**made, **bad},
        {
            "documents": len(sizes),
            "nulls": facts.nulls,
            "rows": {str(number): rows for number, rows in facts.rows.items()},
            "rejected": bool(bad),
            "read": {str(number): {str(row): was for row, was in read.items()} for number, read in facts.read.items()},
        },
    )


def _write_runs(
    folder: Path, step: str, signed: Iterable[Signed], bands: int, ops: Backend
) -> tuple[dict[str, FileFact], dict[str, int]]:
    """The files of digests and exact hashes; how many shingles and how many documents without one."""
    digests_path, exact_path = (step_file(folder, step, what) for what in ("digests", "exact"))
    documents = shingles = empty = 0
    threads = ops.sizes().readers  # more than one where a device signs, which leaves them time
    with columns_file(digests_path, DIGESTS) as digests_out, columns_file(exact_path, EXACT) as exact_out:
        with behind(threads > 1) as do:
            run = _Run(bands)
            for part in signed:
                counts = ops.asnumpy(part.shingles)
                run.add(ops.asnumpy(part.digests), ops.asnumpy(part.exact), counts > 0, documents)
                documents += len(counts)
                shingles += int(counts.sum())
                empty += len(counts) - int(np.count_nonzero(counts))
                if run.rows * (bands + OTHER_WORDS) >= RUN_DIGESTS:
                    do(partial(run.write, digests_out, exact_out, threads))
                    run = _Run(bands)
            do(partial(run.write, digests_out, exact_out, threads))
        made = {digests_path.name: digests_out.finish(), exact_path.name: exact_out.finish()}
    return made, {"shingles": shingles, "empty": empty}


class _Run:
    """Documents with a token, held until they are put in order."""

    def __init__(self, bands: int) -> None:
        self._bands = bands
        self._digests: list[NDArray[np.uint64]] = []
        self._exact: list[NDArray[np.uint64]] = []
        self._numbers: list[NDArray[np.uint32]] = []
        self.rows = 0

    def add(
        self, digests: NDArray[np.uint64], exact: NDArray[np.uint64], filled: NDArray[np.bool_], start: int
    ) -> None:
        """Rows from number `start` on: [m, bands], [m, 2], and whether each has a token."""
        numbers = np.flatnonzero(filled)
        whole = len(numbers) == len(filled)
        self._digests.append(digests if whole else digests.T.take(numbers, axis=1).T)
        self._exact.append(exact if whole else exact[numbers])
        self._numbers.append((numbers + start).astype(np.uint32))
        self.rows += len(numbers)

    def write(self, digests_out: ColumnsFile, exact_out: ColumnsFile, threads: int) -> None:
        """All of it, its bands put in order by so many threads."""
        if not self.rows:
            return
        numbers = np.concatenate(self._numbers)

        def column(parts: list[NDArray[Any]], number: int) -> NDArray[Any]:
            return np.concatenate([part[:, number] for part in parts])

        def ordered(band: int) -> list[NDArray[Any]]:
            digests = column(self._digests, band)
            order = range_order(digests)
            return [digests[order], numbers[order]]

        bands = range(self._bands)
        for columns in in_order(bands, [ordered] * threads) if threads > 1 else map(ordered, bands):
            digests_out.append(columns)
        first, second = column(self._exact, 0), column(self._exact, 1)
        order = range_order(first)
        exact_out.append([first[order], second[order], numbers[order]])
