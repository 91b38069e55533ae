"""Every set sketch of `params.SKETCHES` and `params.FOREIGN_SKETCHES`, a new one included: what is rarely drawn."""

from typing import Any

import numpy as np
import pytest

from gpulsh.arrays import Fingerprints, TextBatch
from gpulsh.backends.cuda import CudaBackend
from gpulsh.backends.cuda.sketches import MAX_COLUMNS
from gpulsh.backends.protocol import NO_VALUE, Backend, sketched
from gpulsh.backends.reference.hashing import PRIME
from gpulsh.params import FOREIGN_SKETCHES, SKETCHES, WRAPPED, BandShape, Family, GivenFamily, Shingling, Unit
from gpulsh.permutations import words
from tests.backends.parity.agreement import agree, expected, far_array, fewer
from tests.backends.parity.test_any import signing, sketches, sketches_of_parts
from tests.support.rows import LENGTHS, random_table, same, table
from tests.support.texts import KEYS, UNITS, batch_of

NAMES = list(SKETCHES)
every_sketch = pytest.mark.parametrize("name", NAMES)
every_unit = pytest.mark.parametrize("unit", UNITS)
SHAPE = BandShape(bands=4, rows=3)
RUNS_OF_EMPTY_ROWS = [0] * 70 + [3] + [0] * 31 + [4] + [0] * 32 + [5] + [0] * 33 + [6] * 40
SOME = [*LENGTHS[:20], 513, 1100, 1]  # the reference takes a step for each value and column
MORE_COLUMNS: dict[str, list[int]] = {"affine32": [31, 65, 300], "one_permutation": [32, 300]}


# --- sketches of rows


@every_sketch
def test_sketches_of_rows_of_every_length(ops: Backend, name: Any) -> None:
    for columns in (1, 33, *MORE_COLUMNS.get(name, [])):
        family = Family(name=name, num_perm=columns, seed=3)
        for lengths in (LENGTHS if columns < 8 else SOME, [0, 0, 0], [], RUNS_OF_EMPTY_ROWS):
            sketches(ops, random_table(lengths[: fewer(ops, 200, 24) if columns > 33 else 200]), family)
    values = np.arange(50, dtype=np.uint64) << np.uint64(58)  # after a gap
    sketches(ops, Fingerprints(values, np.array([7, 30, 41], np.int64)), Family(name=name, num_perm=9))
    if name == "fast_similarity":  # more documents than a block has threads
        sketches(ops, random_table([40] * 40), Family(name=name, num_perm=33))


@pytest.mark.parametrize("name", list(FOREIGN_SKETCHES))
def test_foreign_sketches_of_rows_of_every_length(ops: Backend, name: Any) -> None:
    family = Family(name=name, num_perm=fewer(ops, 64, 32), seed=3)
    agree(ops, sketched, random_table(LENGTHS[: fewer(ops, 24, 18)]), family)


@every_sketch
def test_merged_sketches_of_large_and_empty_parts(ops: Backend, name: Any) -> None:
    generator = np.random.default_rng(4)
    parts = [[generator.integers(0, 2**64, n, np.uint64).tolist() for n in (length, 3)] for length in (0, 1, 300)]
    sketches_of_parts(ops, Family(name=name, num_perm=40), parts)


@every_sketch
def test_rows_beyond_32_bits(ops: Backend, name: Any) -> None:
    near, family, first = random_table([5, 0, 300, 40]), Family(name=name, num_perm=9), 2**32 + 2**31 + 5
    far = Fingerprints(far_array(ops, first, near.values), ops.asarray(near.offset + first))
    same(sketched(ops, far, family), expected(sketched, near, family), ops.asnumpy)


# --- values that hashing rarely gives


@pytest.mark.parametrize("columns", [1, 40])
def test_a_hash_of_all_ones_is_a_value_in_one_permutation(ops: Backend, columns: int) -> None:
    """The fingerprints hash, within their bins, to NO_VALUE and to a little less."""
    family = Family(name="one_permutation", num_perm=columns)
    multiplier, addend, _ = words(family, 3)
    inverse = pow(multiplier | 1, -1, 1 << 64)
    upper = [3 << 60, 7 << 33]
    values = [[((high | NO_VALUE - less) - addend) * inverse % (1 << 64) for high in upper] for less in range(3)]
    found = sketches(ops, table([*values, values[0] + values[2], values[1] + values[0]]), family)
    assert [NO_VALUE - int(row.max()) for row in found] == [1, 1, 2, 2, 1]


def test_a_hash_that_is_a_multiple_of_the_prime_is_0_in_affine61(ops: Backend) -> None:
    family = Family(name="affine61", num_perm=3)
    multiplier, addend, *_ = words(family, 2)
    x = -addend * pow(1 + multiplier % (PRIME - 1), -1, PRIME) % PRIME
    assert (sketches(ops, table([[x], [x + PRIME, 1]]), family)[:, 0] == 0).all()


@pytest.mark.parametrize("name", list(WRAPPED))
def test_sums_near_the_modulus_are_reduced(ops: Backend, name: Any) -> None:
    bits, prime = WRAPPED[name]
    sums = [prime - 1, prime, prime + 1, 0, 1, 2**bits - 1, 2**bits - 2, *((k * prime - 1) % 2**bits for k in range(9))]
    family = GivenFamily(name=name, num_perm=3, first=(1, 3, 2**bits - 1), second=(0, 2**bits - 5, 7))
    found = agree(ops, sketched, table([[value] for value in sums]), family)
    wanted = [value % prime % 2**32 if family.value_type == "uint32" else value % prime for value in sums]
    assert found[:, 0].tolist() == wanted


# --- sketches of texts


@pytest.mark.parametrize(("name", "unit"), [(name, ("word", "char")[at % 2]) for at, name in enumerate(NAMES)])
def test_signing_of_awkward_documents(ops: Backend, name: Any, unit: Unit) -> None:
    documents = [b"", b"one", b"a b", b"a b c d e f " * 30, "漢字 かな हिन्दी ".encode() * 9, b" \xff "]
    text, shingling, family = batch_of(documents), Shingling(unit=unit, size=3), Family(name=name, num_perm=12)
    signing(ops, text, shingling, family, SHAPE)
    # Text in the host's memory, whatever the backend.
    found = ops.sign(text, shingling, family, SHAPE, KEYS)
    same(found, expected("sign", text, shingling, family, SHAPE, KEYS), ops.asnumpy)
    if type(ops) is CudaBackend:  # a read of one band gathers it from all rows
        assert ops.asnumpy(found.digests).flags.f_contiguous


def of_tokens(counts: list[int], unit: Unit) -> TextBatch:
    words = [f"w{i} " if unit == "word" else chr(0x4E00 + i) for i in range(6000)]
    return batch_of(["".join(words[row : row + count]).encode() for row, count in enumerate(counts)])


# Signatures that leave lanes idle, fill them, and need several groups of columns.
SHAPES = [(1, 1, 1), (20, 4, 5), (33, 33, 1), (65, 65, 1), (100, 1, 100), (192, 32, 6), (256, 4, 64)]
COUNTS = [0, 1, 2, 5, 0, 31, 32, 33, 0, 0, 127, 128, 129, 3, 255, 256, 257, 1, 0, 700, 64, 63, 0]


@pytest.mark.parametrize(("columns", "bands", "rows"), SHAPES)
def test_signing_of_every_number_of_tokens(ops: Backend, columns: int, bands: int, rows: int) -> None:
    family, shape = Family(num_perm=columns, seed=3), BandShape(bands=bands, rows=rows)
    for shingling in (Shingling(), Shingling(unit="char", size=3)):
        agree(ops, "sign", of_tokens(COUNTS, shingling.unit), shingling, family, shape, KEYS)


@pytest.mark.parametrize("columns", [MAX_COLUMNS, MAX_COLUMNS + 1])
def test_signing_at_and_beyond_the_longest_signature_of_a_kernel(ops: Backend, columns: int) -> None:
    for counts, shape in (([0, 40, 300, 2], (columns // 3, 3)), ([7, 3], (2, columns // 2)), ([3] * 40, (4, 128))):
        text, band_shape = of_tokens(counts, "word"), BandShape(bands=shape[0], rows=shape[1])
        agree(ops, "sign", text, Shingling(size=4), Family(num_perm=columns), band_shape, KEYS)


def around_spans(size: int) -> list[int]:
    return [size - 1, size, size + 1, 3 * size, 0, 1, 290 - size, size, 10, 1030]


@every_unit
@pytest.mark.parametrize(
    ("size", "counts"),
    [
        *((size, around_spans(size)) for size in (1, 2, 63, 64)),
        *((3, counts) for counts in ([2, 5300, 1], RUNS_OF_EMPTY_ROWS, [], [0], [0, 0, 0])),
    ],
)
def test_signing_documents_that_end_anywhere_in_a_span(ops: Backend, unit: Unit, size: int, counts: list[int]) -> None:
    signing(ops, of_tokens(counts, unit), Shingling(unit=unit, size=size), Family(num_perm=12), SHAPE)
