"""The operations every backend implements. Their docstrings, and the definitions here, are the specification.

All arithmetic on hashes is modulo 2^64. `mix64` is the avalanche finalizer with the constants of Evensen's *moremur*::

    mix64(x):  x ^= x >> 27;  x *= MIX_1;  x ^= x >> 33;  x *= MIX_2;  x ^= x >> 27

`key(stream, place)` is an odd number that stands for one place of a sum::

    key(stream, place) = mix64(stream + (place + 1) * GOLDEN) | 1

Every hash is a sum of (place, value) terms, so that it can be put together from any split and in any order;
multiplying by an independent key a place has none of the structure of a polynomial in one base.

==============  ====================================================================================================
token           mix64(sum over p of key(STREAM_TOKEN, p) * code_point_p + length * LENGTH), code points folded
shingle         mix64(sum over j of key(STREAM_SHINGLE, j) * token_j + count * LENGTH), its fingerprint
band digest     mix64(sum over r of key(STREAM_BAND, r) * value_r + (band + 1) * GOLDEN)
==============  ====================================================================================================

These keys are public, so these hashes propose and prove nothing. **Evidence** is computed under `secret.EvidenceKeys`:
fingerprints by the same two formulas with `token` and `shingle` for the keys, and the exact hash of a document, two
halves, from its tokens packed into 64 bits:

==============  ====================================================================================================
packed token    sum over p of code_point_p << 8 * p where p < 8 and code_point_p < 0x80, token key of p * code_point_p
                elsewhere; code points folded
exact hash      for each half h, sum over i of exact key of (h, i) * reversed_bytes(packed_i * exact_spread[h]), over
                all tokens of a document; (0, 0) without a token
==============  ====================================================================================================

How likely two given token sequences that differ collide, over the draw of the secret; over many pairs it adds up:

- Two sums under odd random keys modulo 2^64 are equal with a chance of 2^(v - 63) at most, 2^v being the largest power
  of two that divides all differences of what the keys multiply. For whatever the other keys are, that of a difference
  with this v has to be one of at most 2^v among 2^63 (multilinear hashing: Carter, Wegman 1979; Lemire, Kaser 2014).
- Far places have products for keys. Of m factors (2 from place 2^6 on, 3 from 2^16, 4 from 2^26) the chance is that of
  fewer than m heads among 63 - v coins, for each factor adds at most a geometric number of powers of two: for v = 0
  2^-63, 2^-57, 2^-52 and 2^-47.6, which differences that are products themselves reach.
- Code points of tokens differ by odd multiples of at most 2^18 (U+20100, U+E0100), those of folded ASCII of 2^6 ("0",
  "p"). So two tokens of up to 64 code points collide, and packed tokens, with at most 2^-45, with 2^-57 where they are
  ASCII, longer ones more often as above. Packed tokens of up to 8 ASCII letters and digits never do.
- Where packed tokens differ, the low byte that a key multiplies is the high, well mixed one of a product: 2^j divides
  the difference with about 2^-j (2^(6 - j) at most for what differs in one letter), so that the mean of 2^v is at most
  about 2^7. One half of the exact hash is then the same with about 2^-56, both, under independent keys, with 2^-112;
  where documents differ from token 2^10, 2^20 or 2^30 on alone, a half is with up to 2^6, 2^11 or 2^16 times as much.
- Shingles with other tokens have the same fingerprint with the chance of these tokens, and about 2^-57 for their sum
  (`mix64` is public, and taken for random here).

A code point is the text's well-formed UTF-8 sequence at a byte, within its document; a byte in no such sequence is a
separator (it would decode to U+FFFD). Classes and folding come from `unicode_table`, read as `shingling.reading` says:
with `symbols` code points of general category P and S, but for U+FFFD, are of class *single*, else separators; without
`case` none is folded.

- `unit="word"`: a token is a maximal run of code points of class *word*, or one code point of class *single*.
- `unit="char"`: a token is one folded code point of either class, or U+0020 for a run of separators that has such code
  points of the same document on both sides.
- Shingles are `size` consecutive tokens; a document with fewer has one of all its tokens; with none, none.
- Where `stop` is given and no anchor, tokens that are stop words are none; where `stem` is, a token's stem stands for
  it if that is one token. With `anchor` shingles are of items in place of tokens: for each stop word that two tokens
  follow, the fingerprint of these three. Words are compared folded, before stems, with those listed that are one token.
- With `labels`, where x is the fingerprint of a document's shingle and j others before it have it, too, mix64(x +
  j * GOLDEN) stands for x, unless j is 0. So sets of labelled shingles are multisets of shingles.
- `hash="rabin"` (Rabin 1981; Broder 1993): the fingerprint of tokens t_1 .. t_n is mix64 of the polynomial X^(64 n) +
  sum over j of t_j * X^(64 (n - j)) over GF(2), modulo the irreducible X^64 + X^4 + X^3 + X + 1 (Seroussi 1998), a word
  being the polynomial whose coefficient of X^i is its bit i. Rabin's bound on collisions is that of an irreducible
  polynomial drawn at random; this one is fixed. `hash="karp_rabin"` (Karp, Rabin 1987): mix64 of the
  integer b^n + sum over j of t_j * b^(n - j) modulo 2^61 - 1, b = STREAM_SHINGLE, as evidence the first shingle key.

Test vectors (`tests/backends/test_bits.py` holds more)::

    mix64(1)                                  0x3c02aa47758292bd
    token "a"                                 0x2ea5afa350576653
    fingerprint of "a b c d e", word:5        0x58c61048ebdaa80c
    the same by hash="rabin"                  0xbb44b0b1f12cbb13
    the same by hash="karp_rabin"             0xe8afc816edf9e7ff
    exact hash of "a b", secret 00 01 .. 1f   0xff37c8b79c299bac 0xf2af0406d2e81271
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from gpulsh.arrays import Array, Buckets, Fingerprints, Signed, TextBatch, Tokens, WeightedFingerprints
from gpulsh.backends.prefixes import lengths_with_rare
from gpulsh.params import BandShape, Family, Shingling
from gpulsh.ragged import end_to_end
from gpulsh.secret import EvidenceKeys

MIX_1 = 0x3C79AC492BA7B653
MIX_2 = 0x1C69B3F74AC4AE35
GOLDEN = 0x9E3779B97F4A7C15
LENGTH = 0xD1B54A32D192ED03
STREAM_TOKEN = 0x243F6A8885A308D3  # the streams are words of the fraction of pi, nothing up the sleeve
STREAM_SHINGLE = 0x13198A2E03707344
STREAM_BAND = 0xA4093822299F31D0
STREAM_BITS = 0x082EFA98EC4E6C89
STREAM_ITEM = 0x452821E638D01377

NO_VALUE = 0xFFFFFFFF  # a signature value of an empty document
NO_DIGEST = 0xFFFFFFFFFFFFFFFF
INSTEAD_OF_NO_DIGEST = 0xFFFFFFFFFFFFFFFE

THROWS = 7  # of a fast similarity sketch, before a bin that is still empty takes a minimum of its own
VALUE_BITS = 28  # of a fast similarity sketch's value, below the number of the round
CIRCULANT_1, CIRCULANT_2 = 0x7FEB352D, 0x846CA68B  # of a mixer of 32 bits with little bias, found by search (Wellons)
ROUND_SHIFT = 52  # of the number of a round of `splitmix_rounds`, above the bits of its value


Item = TypeVar("Item")
Result = TypeVar("Result")


class Sizes(NamedTuple):
    """Bytes of text that a backend takes at once, and who brings them; no bit depends on it."""

    batch: int  # to sign
    tile: int  # to hold the unique fingerprints of
    largest_tile: int  # the same where documents that belong together are more; two of these are held
    readers: int = 1  # threads that decode input files while it works
    whole: int | None = None  # to compare whole; documents beyond are compared by ranges of fingerprints


class SketchFold(Protocol):
    """How a backend sketches sets by one family: a fold, so that a set may come in parts, in any order, with repeats.

    A state has a row a set, and is of the backend's own making; what `finish` makes of it is a signature, the same bits
    in every backend: of the union of parts the signature is `finish(merge(fold(one), fold(other)))`.

    MinHash (Broder, Charikar, Frieze, Mitzenmacher 2000) takes the minimum over a set of each of its functions h_i.
    Where w are the family's `permutations.words`, p = 2^61 - 1 and a | 1 is a with its lowest bit set:

    - `affine32`: multiplier * (x >> 32) + addend mod 2^32, as `permutations.coefficients` draws them.
    - `affine61`: (1 + w[2 i] mod (p - 1)) * x + w[2 i + 1] mod p; uint64.
    - `multiply_shift`: (w[2 i] | 1) * x + w[2 i + 1] mod 2^64, its upper half (Dietzfelbinger 1996).
    - `xor`: (x >> 32) ^ (w[i - 1] >> 32), for i = 0 without a mask.
    - `tabulation`: the exclusive-or over b < 4 of w[1024 i + 256 b + byte b of x >> 32] >> 32 (Zobrist 1970).

    `c_minhash` (Li, Li 2022): pi(((w[0] | 1) * x + w[1] mod 2^64 >> 32) + i mod 2^32), its minimum for each i, and pi::

        pi(y):  y ^= y >> 16;  y *= CIRCULANT_1;  y ^= w[2] >> 32;
                y ^= y >> 15;  y *= CIRCULANT_2;  y ^= y >> 16;  y ^= w[2] mod 2^32

    `fast_similarity` (Dahlgaard, Knudsen, Thorup 2017) throws the whole set into num_perm bins, in rounds r < THROWS.
    Where u, l are the upper and lower half of x and v(i) a word's upper, t(i) its lower half, x goes into the bin
    ((v(2 r) | 1) * u + t(2 r) mod 2^32) * num_perm >> 32 with the value r << 28 | ((v(2 r + 1) | 1) * l + t(2 r + 1)
    mod 2^32) >> 4, and a bin keeps the least. Each bin i has also, with j = 2 THROWS + i, the values
    THROWS << 28 | ((v(j) | 1) * u mod 2^32) >> 4 of all x, so that none is empty. (The paper has as many rounds
    as bins; a minimum over the whole set costs less than some rounds of it.)

    `one_permutation`: of the words a, b, c that `permutations.words` draws, y = (a | 1) * x + b, the bin
    (y >> 32) * num_perm >> 32, and in each bin the minimum of min(y mod 2^32, NO_VALUE - 1) (Li, Owen, Zhang 2012). An
    empty bin i takes the value of the first bin (mix64(c + (i << 32 | t)) >> 32) * num_perm >> 32, t = 0, 1, ..., that
    is not empty (Shrivastava 2017), and after 64 * num_perm such t that of the next one that is not, cyclically.

    Other libraries' signatures (`gpulsh.compat`) take two words a, b for each value, `permutations.word_pairs`:

    - `affine64`: a * x + b mod 2^64; uint64.
    - `wrapped61`, `wrapped32`, `wrapped16`: (a * x + b mod 2^w) mod p, a word that overflows before it is divided; w
      and p are those of `params.WRAPPED`. Of `wrapped61` uint64, of `wrapped61_low` the lower 32 bits.
    - `splitmix_rounds`, uint64, num_perm a power of two: with s(y) = `permutations.splitmix64` of y + GOLDEN, each x
      goes in round r, while a bin is empty, into the bin s(x ^ a[r]) mod num_perm with the value r << ROUND_SHIFT | the
      lower ROUND_SHIFT bits of s(x ^ a[r]), and a bin keeps the least. After num_perm rounds an empty bin i has
      (num_perm + i) << ROUND_SHIFT | the lower bits of the least s(x ^ b[i]) of all x.
    """

    def empty(self, rows: int) -> Array:
        """The state of `rows` empty sets."""

    def fold(self, fingerprints: Fingerprints) -> Array:
        """The state of every row of fingerprints."""

    def merge(self, state: Array, other: Array) -> Array:
        """The state of each union of a set and the `other` of its row; may reuse `state`."""

    def finish(self, state: Array) -> Array:
        """Signatures of `family.value_type` [n, num_perm], all ones where a set is empty; may reuse `state`."""


class Backend(Protocol):
    """Pure functions on arrays of one array module (NumPy, or CuPy for `cuda`), equal bit for bit in all backends.

    A TextBatch may lie in host memory whatever the backend.
    """

    name: str

    def asarray(self, array: Array) -> Array:
        """`array`, of any array library, as an array of this backend's; no copy where it lies in its memory.

        DLPack and the CUDA array interface are understood. A CPU backend copies what lies on a device; CUDA copies
        what has strides or lies on another device.
        """

    def asnumpy(self, array: Array) -> Array:
        """An array of this backend as a NumPy array; no copy where it is one."""

    def here(self) -> AbstractContextManager[None]:
        """Inside, the array module may compute with arrays of this backend: their device is the current one."""

    def sizes(self) -> Sizes:
        """How much text to hand over at once, as its memory is now."""

    def gather(self, values: Array, begin: Array, end: Array) -> TextBatch:
        """The texts uint8 `values[begin[i] : end[i]]`, int64 [m] each, copied end to end; `offset` begins at 0."""

    def tokens(self, text: TextBatch, shingling: Shingling, keys: EvidenceKeys | None = None) -> Tokens:
        """Hashes of every document's tokens, in text order, public or under `keys`; `offset` begins at 0."""

    def shingles(self, tokens: Tokens, size: int, keys: EvidenceKeys | None = None) -> Fingerprints:
        """Fingerprints of every row's shingles of `size` tokens, in order, repeats kept; `offset` begins at 0."""

    def shingle(self, text: TextBatch, shingling: Shingling, keys: EvidenceKeys | None = None) -> Fingerprints:
        """`shingles(tokens(text, shingling, keys), shingling.size, keys)` in one pass."""

    def exact_hashes(self, text: TextBatch, shingling: Shingling, keys: EvidenceKeys) -> Array:
        """uint64 [n, 2]: the 128-bit hash of each document's token sequence; (0, 0) where it has no token.

        Of the tokens as they stand in the text, whatever stop words and stems make of them.
        """

    def unique(self, fingerprints: Fingerprints) -> Fingerprints:
        """Each row ascending and without repeats; `offset` begins at 0."""

    def shingle_sets(self, text: TextBatch, shingling: Shingling, keys: EvidenceKeys | None = None) -> Fingerprints:
        """`unique` of `shingle`."""
        return self.unique(self.shingle(text, shingling, keys))

    def shingle_part(
        self, text: TextBatch, shingling: Shingling, part: int, parts: int, keys: EvidenceKeys | None = None
    ) -> Fingerprints:
        """Of `shingle_sets` the fingerprints x with (x * parts) >> 64 == part, the product in 128 bits.

        Parts 0 to parts - 1 are nearly equal ranges of fingerprints: what a document or a pair of documents has in
        common is the sum over parts, each of which fits where the whole does not. With labels x is what it was before
        its label, so that all that is labelled together is in one part.
        """

    def set_sketch(self, family: Family) -> SketchFold:
        """How sets are sketched by `family`."""

    def band_digests(self, signatures: Array, shape: BandShape) -> Array:
        """uint64 [n, bands] from uint32 or uint64 [n, num_perm], band j of columns j * rows to (j + 1) * rows - 1.

        A row of all ones (over all its columns) has NO_DIGEST in every band; a digest that comes out as NO_DIGEST is
        INSTEAD_OF_NO_DIGEST.
        """

    def collisions(self, digests: Array, ids: Array) -> Buckets:
        """Documents that share a digest of one band: uint64 [n] and their int64 ids [n] -> Buckets of two or more.

        Buckets ascend by digest, ids ascend within; NO_DIGEST is left out.
        """

    def candidates(self, buckets: Buckets, first: tuple[int, int] | None = None) -> Array:
        """int64 [m, 2]: every pair i < j within a bucket, each once, lexicographic.

        With `first` only those with first[0] <= i < first[1]: all there are, in pieces that memory holds.
        """

    def intersect(self, pairs: Array, fingerprints: Fingerprints) -> tuple[Array, Array]:
        """int64 [m], int64 [m]: the sizes of intersection and union of rows `pairs` [m, 2] of unique fingerprints."""

    def occurrences(self, fingerprints: Fingerprints) -> WeightedFingerprints:
        """`unique` rows, each fingerprint weighted by how often its row has it; `offset` begins at 0."""

    def weighted_overlap(self, pairs: Array, rows: WeightedFingerprints) -> tuple[Array, Array]:
        """float64 [m], float64 [m]: of rows `pairs` [m, 2] the sums of the lesser and of the greater weights.

        Both run over all fingerprints that either row has, a missing one weighing 0, added in ascending order of the
        fingerprints: floating-point sums depend on their order.
        """

    def weighted_minhash(self, rows: WeightedFingerprints, num_perm: int, seed: int) -> Array:
        """uint32 [n, num_perm]: in each bin the value of the first dart that hits the row; all ones where it is empty.

        Where w are the `darts.Streams` of "weighted_minhash", darts n = 0, 1, ... of a fingerprint x at a level are::

            u[0] = mix64(w.multiplier * x + w.addend + level * GOLDEN mod 2^64)
            p[n] = mix64(u[n] ^ w.place);   u[n + 1] = mix64(p[n] + GOLDEN)
            height  2^level * (1 + p[n] mod 2^32 / 2^32)
            bin     (p[n] >> 32) * num_perm >> 32
            rank    surprise(u[0]) + ... + surprise(u[n]), in units of 2^-(level + RANK_BITS)
            value   min(mix64(p[n] ^ w.value) >> 32, NO_VALUE - 1)

        A weight in [2^e, 2^(e + 1)) is hit by those of levels e - 23 to e whose height is below it. Ranks are compared
        as floating-point numbers with MANTISSA_BITS behind the leading bit, rounded down; of equal ones the lesser
        value counts. With the leading bit of v = u | 1 at place b, `surprise` is::

            (64 - b << RANK_BITS) - (T[i] + ((T[i + 1] - T[i]) * f >> 32))

        T being `darts.logarithms()`, i the SEGMENT_BITS bits of v below its leading one, and f the 32 after them, each
        filled with zeros from the right. Weights below 2^-1022 count as none.
        """

    def kleinberg_tardos(self, rows: Array, num_perm: int, seed: int) -> Array:
        """uint32 [n, num_perm] of float64 `rows` [n, d], none negative: the value of each function's first dart that
        hits the row; all ones where none can.

        Darts are those of `weighted_minhash` by the streams of "kleinberg_tardos", with the function's number for x,
        d for num_perm and a column for the bin. They hit where their height is below the row's number in the column. A
        row of the greatest number in [2^e, 2^(e + 1)) is hit by those of levels e - 31 to e, and by none where e is
        below `darts.LEAST_OF_ROW`.
        """

    def bitmaps(self, fingerprints: Fingerprints, words: int = 16) -> Array:
        """uint64 [n, words], words a power of two: 2^b bits a row, of which a fingerprint x flips bit x >> (64 - b).

        Bit i is in word i >> 6. Bits tell odd numbers of fingerprints from even ones, so that a long row still tells
        something where all bits that were only set would be (odd sketch: Mitzenmacher, Pagh, Pham 2014).
        """

    def overlap_bounds(self, pairs: Array, bitmaps: Array, sizes: Array) -> Array:
        """int64 [m]: no less than the intersection of rows `pairs` [m, 2] of unique fingerprints; `sizes` int64 [n].

        A bit that differs takes a fingerprint that only one has: min(|A|, |B|, (|A| + |B| - popcount(a ^ b)) / 2).
        """

    def components(self, count: int, pairs: Array) -> Array:
        """int64 [count]: the smallest id of each id's connected component; `pairs` int64 [m, 2] are the edges."""

    def frequencies(self, fingerprints: Fingerprints, counts: Array) -> Array:
        """uint8 [2^b]: `counts` plus how often each slot x >> (64 - b) occurs, stopping at 255; may reuse `counts`."""

    def prefixes(self, fingerprints: Fingerprints, counts: Array, lengths: Array) -> Fingerprints:
        """Of each unique row the `lengths` [n] first in order of (counts[x >> (64 - b)], x), less those counted once.

        Rows come out ascending by x. A slot counted once belongs to one shingle of one document, which meets nobody.
        """

    def text_frequencies(
        self, text: TextBatch, shingling: Shingling, counts: Array, keys: EvidenceKeys | None = None
    ) -> Array:
        """`frequencies` of `shingle`."""
        return self.frequencies(self.shingle(text, shingling, keys), counts)

    def text_prefixes(
        self,
        text: TextBatch,
        shingling: Shingling,
        counts: Array,
        rare: int,
        share: float,
        keys: EvidenceKeys | None = None,
    ) -> tuple[Fingerprints, Array]:
        """`prefixes` of `shingle_sets`, and int64 [n]: the size of each set.

        A set of s gives its min(s, s - ceil(share * s) + 1) first fingerprints, in float64: each set that has at least
        share * s in common with it has one of these. Where more are counted less than `rare`, it gives all of them.
        """
        sets = self.shingle_sets(text, shingling, keys)
        with self.here():
            return self.prefixes(sets, counts, lengths_with_rare(sets, counts, rare, share)), sets.lengths

    def text_overlaps(
        self, text: TextBatch, shingling: Shingling, known: Fingerprints, keys: EvidenceKeys | None = None
    ) -> tuple[Array, Array]:
        """int64 [n, k], int64 [n]: `overlaps` of `shingle_sets` with a few rows `known`, and the size of each set."""
        sets = self.shingle_sets(text, shingling, keys)
        with self.here():
            return overlaps(self, known, sets), sets.lengths

    def sha1(self, text: TextBatch) -> Array:
        """uint64 [n]: of every text the first 64 bits of SHA-1 (FIPS 180-4), as a little-endian number."""

    def simhash(self, fingerprints: Fingerprints, keys: Array, weights: Array | None = None) -> Array:
        """uint64 [n, words] from NumPy's uint64 `keys` [words]; an empty row has no bit (Charikar 2002).

        Bit b of word w is set where the sum over a row's fingerprints x is above 0 of their weights, those counted as
        negative of which bit b of mix64(x ^ keys[w]) is not set. A weight is 1, or of the int64 `weights` [nnz], which
        lie as the fingerprints and are not negative; those of a row sum up to less than 2^62.
        """

    def text_simhash(self, text: TextBatch, shingling: Shingling, keys: Array, distinct: bool) -> Array:
        """`simhash` of `shingle`, or of `shingle_sets` if `distinct`."""
        rows = self.shingle_sets(text, shingling) if distinct else self.shingle(text, shingling)
        return self.simhash(rows, keys)

    def text_signatures(self, text: TextBatch, shingling: Shingling, family: Family) -> Array:
        """Signatures of `shingle` by `family`."""
        return sketched(self, self.shingle(text, shingling), family)

    def sign(
        self, text: TextBatch, shingling: Shingling, family: Family, shape: BandShape, keys: EvidenceKeys
    ) -> Signed:
        """The band digests, exact hashes and numbers of shingles of each document."""
        fingerprints = self.shingle(text, shingling)
        digests = self.band_digests(sketched(self, fingerprints, family), shape)
        return Signed(digests, self.exact_hashes(text, shingling, keys), fingerprints.lengths)

    def pipelined_map(self, items: Iterable[Item], work: Callable[[Backend, Item], Result]) -> Iterator[Result]:
        """`work(backend, item)` of every item, in order.

        A backend may work at several items at once, on threads, streams and devices of its own, and take items ahead;
        `work` is given the backend to use.
        """

    def parallel_map(self, items: Sequence[Item], work: Callable[[Backend, Item], Result]) -> Iterable[Result]:
        """`pipelined_map` for items that are work for one thread, with arrays and results in this backend's memory."""

    def keep(self, array: Array) -> Array:
        """An array that `pipelined_map` gave, to stay in this backend's memory, or in NumPy's where that is full."""


def sketched(ops: Backend, fingerprints: Fingerprints, family: Family) -> Array:
    """Signatures of `family.value_type` [n, num_perm]: that of each row."""
    sketch = ops.set_sketch(family)
    return sketch.finish(sketch.fold(fingerprints))


def overlaps(ops: Backend, known: Fingerprints, sets: Fingerprints) -> Array:
    """int64 [n, k]: the sizes of the intersections of `sets` [n] with `known` ones [k]."""
    count, others = len(sets), len(known)
    rows = np.arange(count * others, dtype=np.int64, like=sets.offset)
    pairs = np.stack([rows % max(others, 1), rows // max(others, 1) + others], axis=1)
    return ops.intersect(pairs, end_to_end([known, sets]))[0].reshape(count, others)
