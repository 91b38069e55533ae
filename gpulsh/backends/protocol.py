"""The operations that every backend implements. Their docstrings, and the definitions here, are the specification.

All arithmetic on hashes is modulo 2^64. `mix64` is the avalanche finalizer with the constants of Evensen's *moremur*::

    mix64(x):  x ^= x >> 27;  x *= MIX_1;  x ^= x >> 33;  x *= MIX_2;  x ^= x >> 27

`key(stream, place)` is an odd number, the factor of one place of a sum::

    key(stream, place) = mix64(stream + (place + 1) * GOLDEN) | 1

Every hash is a sum of (place, value) terms, so any split and any order of a text give the same hash. An independent key
for each place avoids the structure of a polynomial in one base.

==============  ====================================================================================================
token           mix64(sum over p of key(STREAM_TOKEN, p) * code_point_p + length * LENGTH), code points folded
shingle         mix64(sum over j of key(STREAM_SHINGLE, j) * token_j + count * LENGTH), its fingerprint
window          up to WINDOW_PART tokens as a shingle; otherwise mix64(key(STREAM_SHINGLE, 0) * window of the first p
                tokens + key(STREAM_SHINGLE, 1) * window of the last p), where p is the greatest WINDOW_PART * 2^i
                below the number of tokens
band digest     mix64(sum over r of key(STREAM_BAND, r) * value_r + (band + 1) * GOLDEN)
==============  ====================================================================================================

These keys are public, so these hashes propose and prove nothing. **Evidence** is computed under `secret.EvidenceKeys`.
Its fingerprints and hashes of windows use the same formulas with the secret `token` and `shingle` keys. The exact hash
of a document has two halves, made of its tokens packed into 64 bits:

==============  ====================================================================================================
packed token    sum over p of code_point_p << 8 * p where p < 8 and code_point_p < 0x80, token key of p * code_point_p
                elsewhere; code points folded
exact hash      for each half h, sum over i of exact key of (h, i) * reversed_bytes(packed_i * exact_spread[h]), over
                all tokens of a document; (0, 0) without a token
==============  ====================================================================================================

These are the chances that two given token sequences collide, over the draw of the secret. Over many pairs they add up.

- Let 2^v be the largest power of two that divides all differences of the values that the keys multiply. Two sums under
  odd random keys are equal modulo 2^64 with a chance of at most 2^(v - 63). Given the other keys, the key of a
  difference with this v must be one of at most 2^v numbers among 2^63 (multilinear hashing: Carter, Wegman 1979;
  Lemire, Kaser 2014).
- The keys of far places are products of m factors: 2 from place 2^6 on, 3 from 2^16, 4 from 2^26. Each factor adds at
  most a geometric number of powers of two. So the chance is at most the probability of fewer than m heads among 63 - v
  coins: for v = 0 it is 2^-63, 2^-57, 2^-52 and 2^-47.6. Differences that are products themselves reach it.
- Code points of tokens differ by odd multiples of at most 2^18 (U+20100, U+E0100), folded ASCII by at most 2^6 ("0",
  "p"). So tokens and packed tokens of up to 64 code points collide with a chance of at most 2^-45, or 2^-57 in ASCII.
  Longer ones collide more often, as above. Packed tokens of up to 8 ASCII letters and digits never collide.
- For two different packed tokens, a key multiplies a low byte that was the high, well mixed byte of a product. 2^j
  divides the difference with a chance of about 2^-j, or at most 2^(6 - j) if one letter differs. So the mean of 2^v is
  at most about 2^7. One half of two exact hashes is equal with a chance of about 2^-56, both halves with 2^-112,
  because their keys are independent. If documents differ only from token 2^10, 2^20 or 2^30 on, the chance for a half
  is up to 2^6, 2^11 or 2^16 times as large.
- Shingles with different tokens have equal fingerprints with the chance of these tokens, plus about 2^-57 for their
  sum. (`mix64` is public, and counts as random here.)
- Hashes of different windows are equal with the chance of their tokens, plus about 2^-57 for each sum above a
  difference. A window of 4096 tokens has 10 sums above each token, or up to 20 where the parts of a sum overlap.

A code point is the well-formed UTF-8 sequence at a byte of the text, within its document. A byte in no such sequence is
a separator; it would decode to U+FFFD. `unicode_table` gives classes and folding, as `shingling.reading` chooses. With
`symbols`, code points of general category P and S except U+FFFD are of class *single*, otherwise separators. Without
`case`, no code point is folded.

- `unit="word"`: a token is a maximal run of code points of class *word*, or one code point of class *single*.
- `unit="char"`: a token is one folded code point of either class. A run of separators between two such code points of
  the same document is the token U+0020.
- Shingles are `size` consecutive tokens. A document with fewer tokens has one shingle of all of them, or none without
  tokens.
- With `stop` and no anchor, stop words are not tokens. With `stem`, a token's stem replaces the token if the stem is
  one token. With `anchor`, shingles are of items instead of tokens: each stop word with two tokens after it gives the
  hash of a shingle of these three, for any `hash`. Words are compared folded, before stems, with those in the list that
  are one token.
- With `labels`, mix64(x + j * GOLDEN) replaces the fingerprint x if j > 0 earlier shingles of the document have the
  same fingerprint. So sets of labelled shingles are multisets of shingles.
- `hash="rabin"` (Rabin 1981; Broder 1993): the fingerprint of tokens t_1 .. t_n is mix64 of the polynomial X^(64 n) +
  sum over j of t_j * X^(64 (n - j)) over GF(2), modulo the irreducible X^64 + X^4 + X^3 + X + 1 (Seroussi 1998). Bit i
  of a word is its coefficient of X^i. Rabin's bound on collisions holds for a random irreducible polynomial; this one
  is fixed.
- `hash="karp_rabin"` (Karp, Rabin 1987): mix64 of the integer b^n + sum over j of t_j * b^(n - j) modulo 2^61 - 1. b is
  STREAM_SHINGLE, or for evidence the first shingle key.

Test vectors (`tests/backends/test_bits.py` holds more)::

    mix64(1)                                  0x3c02aa47758292bd
    token "a"                                 0x2ea5afa350576653
    fingerprint of "a b c d e", word:5        0x58c61048ebdaa80c
    the same by hash="rabin"                  0xbb44b0b1f12cbb13
    the same by hash="karp_rabin"             0xe8afc816edf9e7ff
    exact hash of "a b", secret 00 01 .. 1f   0xff37c8b79c299bac 0xf2af0406d2e81271
"""

# Operations have no body here: backends have functions of their names.
# mypy: disable-error-code="empty-body"

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

from gpulsh.arrays import Array, Buckets, Fingerprints, SignedBatch, TextBatch, Tokens, WeightedFingerprints, on_host
from gpulsh.params import BandShape, Family, Shingling
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

WINDOW_PART = 8  # tokens of a window that one sum takes

THROWS = 7  # of a fast similarity sketch, before a bin that is still empty takes a minimum of its own
VALUE_BITS = 28  # of a fast similarity sketch's value, below the number of the round
CIRCULANT_1, CIRCULANT_2 = 0x7FEB352D, 0x846CA68B  # of a mixer of 32 bits with little bias, found by search (Wellons)
ROUND_SHIFT = 52  # of the number of a round of `splitmix_rounds`, above the bits of its value


Keys: TypeAlias = EvidenceKeys | None  # None: public
Item = TypeVar("Item")
Result = TypeVar("Result")


class Sizes(NamedTuple):
    """Bytes of text that a backend takes at once, and how many threads read them; no bit depends on these."""

    batch: int  # signed together, in host memory
    tile: int  # compared together: their unique fingerprints are held
    largest_tile: int  # the same for documents of one component; two such tiles are held
    readers: int = 1  # threads that decode input files while it works
    whole: int | None = None  # largest document compared whole; a larger one is compared by ranges of fingerprints
    ahead: int | None = None  # held by all these threads together; None: a few blocks each
    pinned: int = 0  # in page-locked buffers, of all devices together
    device: int = 0  # most bytes that a run uses on each device
    only: int = 0  # a tile that is compared alone; 0: several are always compared at once
    resident: int = 0  # signed together in device memory; 0: as in host memory


@dataclass(frozen=True, eq=False)
class DeviceBuffer:
    """Device memory of another library, as any array library takes it: `size` bytes at `pointer` on the current device.

    `owner` keeps them alive as long as an array is made of them.
    """

    pointer: int
    size: int
    owner: object
    event: int = 0  # a cudaEvent_t to wait for before the bytes are read; 0: none
    stream: int | None = None  # writes the bytes, numbered as in the CUDA array interface; None: they are there

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {
            "version": 3,
            "typestr": "|u1",
            "shape": (self.size,),
            "data": (self.pointer if self.size else 0, True),
            "stream": self.stream,
        }


class SketchFold(Protocol):
    """A sketch of sets by one family, as a fold: a set may come in parts, in any order, with repeats.

    A state has a row per set, in a form of the backend's choice. `finish` makes signatures of it, with the same bits in
    every backend. The signature of a union of parts is `finish(merge(fold(one), fold(other)))`.

    MinHash (Broder, Charikar, Frieze, Mitzenmacher 2000) takes the minimum over a set of each of its functions h_i.
    w are the family's `permutations.words`, p = 2^61 - 1, and a | 1 is a with its lowest bit set:

    - `affine32`: multiplier * (x >> 32) + addend mod 2^32, as `permutations.coefficients` draws them.
    - `affine61`: (1 + w[2 i] mod (p - 1)) * x + w[2 i + 1] mod p; uint64.
    - `multiply_shift`: (w[2 i] | 1) * x + w[2 i + 1] mod 2^64, its upper half (Dietzfelbinger 1996).
    - `xor`: (x >> 32) ^ (w[i - 1] >> 32), for i = 0 without a mask.
    - `tabulation`: the exclusive-or over b < 4 of w[1024 i + 256 b + byte b of x >> 32] >> 32 (Zobrist 1970).

    `c_minhash` (Li, Li 2022): pi(((w[0] | 1) * x + w[1] mod 2^64 >> 32) + i mod 2^32), its minimum for each i, and pi::

        pi(y):  y ^= y >> 16;  y *= CIRCULANT_1;  y ^= w[2] >> 32;
                y ^= y >> 15;  y *= CIRCULANT_2;  y ^= y >> 16;  y ^= w[2] mod 2^32

    `fast_similarity` (Dahlgaard, Knudsen, Thorup 2017) throws the whole set into num_perm bins, in rounds r < THROWS.
    u, l are the upper and lower half of x; v(i), t(i) are the upper and lower half of word i. In round r, x goes into
    the bin ((v(2 r) | 1) * u + t(2 r) mod 2^32) * num_perm >> 32 with the value r << 28 | ((v(2 r + 1) | 1) * l + t(2 r
    + 1) mod 2^32) >> 4, and a bin keeps the least value. Each bin i also has the values THROWS << 28 | ((v(j) | 1) * u
    mod 2^32) >> 4 of all x, for j = 2 THROWS + i, so no bin is empty. (The paper has as many rounds as bins; a minimum
    over the whole set costs less than some of its rounds.)

    `one_permutation` (Li, Owen, Zhang 2012): of the words a, b, c that `permutations.words` draws, y = (a | 1) * x + b.
    Its bin is (y >> 32) * num_perm >> 32, and a bin keeps the minimum of min(y mod 2^32, NO_VALUE - 1). An empty bin i
    probes the bins (mix64(c + (i << 32 | t)) >> 32) * num_perm >> 32 for t = 0, 1, ..., and takes the value of the
    first that is not empty (Shrivastava 2017). After 64 * num_perm probes it takes the value of the next bin,
    cyclically, that is not empty.

    Signatures of other libraries (`gpulsh.compat`) use two words a, b for each value, `permutations.word_pairs`:

    - `affine64`: a * x + b mod 2^64; uint64.
    - `wrapped61`, `wrapped32`, `wrapped16`: (a * x + b mod 2^w) mod p, a word that overflows before it is divided.
      `params.WRAPPED` has w and p. `wrapped61` is uint64, `wrapped61_low` its lower 32 bits.
    - `splitmix_rounds`: uint64, num_perm a power of two. s(y) is `permutations.splitmix64` of y + GOLDEN. While a bin
      is empty, there is a round r: each x goes into the bin s(x ^ a[r]) mod num_perm with the value r << ROUND_SHIFT |
      the lower ROUND_SHIFT bits of s(x ^ a[r]), and a bin keeps the least. After num_perm rounds an empty bin i has
      (num_perm + i) << ROUND_SHIFT | the lower bits of the least s(x ^ b[i]) of all x.
    """

    def empty(self, rows: int) -> Array:
        """The state of `rows` empty sets."""

    def fold(self, fingerprints: Fingerprints) -> Array:
        """The state of every row of fingerprints."""

    def merge(self, state: Array, other: Array) -> Array:
        """The state of each union of a set and the `other` set of its row; may reuse `state`."""

    def finish(self, state: Array) -> Array:
        """Signatures of `family.value_type` [n, num_perm], all ones where a set is empty; may reuse `state`."""


class Backend:
    """Pure functions on arrays of one array module (NumPy, or CuPy for `cuda`), with equal bits in all backends.

    Its operations are functions of the same names (`operations`). Operations on text that have a body here are
    compositions. A backend may do the same in one pass that never holds all fingerprints. A TextBatch may be in host
    memory for every backend. `offset` of results begins at 0.
    """

    name: str

    def asarray(self, array: Array) -> Array:
        """`array`, from any array library, as an array of this backend; not copied if it is in its memory.

        DLPack and the CUDA array interface are understood. A CPU backend copies device arrays; CUDA copies arrays with
        strides or of another device.
        """
        return on_host(array)

    def asnumpy(self, array: Array) -> Array:
        """An array of this backend as a NumPy array; not copied if it is one."""
        return on_host(array)

    def use_device(self) -> AbstractContextManager[None]:
        """Inside, the array module may compute with arrays of this backend: their device is the current one."""
        return nullcontext()

    def sizes(self) -> Sizes:
        """How much text to hand over at once, for the memory that is free now."""

    def gather(self, values: Array, begin: Array, end: Array) -> TextBatch:
        """The texts uint8 `values[begin[i] : end[i]]`, int64 [m] each, copied end to end."""

    def tokens(self, text: TextBatch, shingling: Shingling, keys: Keys = None) -> Tokens:
        """Hashes of every document's tokens, in text order, public or under `keys`."""

    def shingles(self, tokens: Tokens, size: int, keys: Keys = None) -> Fingerprints:
        """Fingerprints of every row's shingles of `size` tokens, in order, repeats kept."""

    def shingle(self, text: TextBatch, shingling: Shingling, keys: Keys = None) -> Fingerprints:
        """`shingles(tokens(text, shingling, keys), shingling.size, keys)`."""

    def exact_hashes(self, text: TextBatch, shingling: Shingling, keys: EvidenceKeys) -> tuple[Array, Array]:
        """uint64 [n, 2]: the 128-bit hash of each document's token sequence, (0, 0) without a token; int64 [n]: how
        many tokens it has.

        Stop words and stems do not change these tokens.
        """

    def labelled(self, fingerprints: Fingerprints) -> Fingerprints:
        """Each row with the labels of its fingerprints, as `labels` above defines them."""

    def unique(self, fingerprints: Fingerprints) -> Fingerprints:
        """Each row ascending and without repeats."""

    def shingle_sets(self, text: TextBatch, shingling: Shingling, keys: Keys = None) -> Fingerprints:
        """`unique` of `shingle`."""
        return self.unique(self.shingle(text, shingling, keys))

    def shingle_part(
        self, text: TextBatch, shingling: Shingling, part: int, parts: int, keys: Keys = None
    ) -> Fingerprints:
        """The fingerprints x of `shingle_sets` with (x * parts) >> 64 == part, the product in 128 bits.

        Parts 0 to parts - 1 are nearly equal ranges of fingerprints. The intersection of two documents is the sum over
        parts, and a part may fit in memory where the whole does not. With labels, x is the fingerprint before its
        label, so equal fingerprints are labelled in one part.
        """

    def winnow(self, fingerprints: Fingerprints, size: int) -> Array:
        """int64 [s], ascending: where in `values` the least of `size` consecutive fingerprints of a row is.

        The last of equal ones counts; places are named once; a row of fewer fingerprints has none (Schleimer,
        Wilkerson, Aiken 2003).
        """

    def window_hashes(
        self, tokens: Tokens, begin: Array, windows: Array, size: int, keys: EvidenceKeys
    ) -> tuple[Array, Array]:
        """uint64 [sum of `windows`], twice: the hashes of runs of windows of `size` tokens, end to end, public ones and
        those under `keys`.

        Run i is `windows[i]` >= 1 consecutive windows of a row, int64 [t]; `begin[i]` int64 [t] is the place of its
        first token in `tokens.values`.
        """

    def token_bounds(self, text: TextBatch, shingling: Shingling, row: Array, token: Array) -> Array:
        """int64 [m, 2]: where in its document each token begins and ends, in bytes.

        `row` int64 [m] are documents and `token` int64 [m] tokens, counted from 0 in each document; they ascend by
        document, then token. The tokens are as in `tokens`, for shinglings without stop words, stems and anchors.
        """

    def set_sketch(self, family: Family) -> SketchFold:
        """The sketch of sets by `family`, for use within `use_device`."""

    def band_digests(self, signatures: Array, shape: BandShape) -> Array:
        """uint64 [n, bands] from uint32 or uint64 [n, num_perm]; band j has the columns j * rows to (j + 1) * rows - 1.

        A row of all ones (in all its columns) has NO_DIGEST in every band. A digest that comes out as NO_DIGEST becomes
        INSTEAD_OF_NO_DIGEST.
        """

    def collisions(self, digests: Array, ids: Array) -> Buckets:
        """Documents that share a digest of one band: uint64 [n] and their int64 ids [n] -> Buckets of two or more.

        Buckets ascend by digest, ids ascend within; NO_DIGEST is in no bucket.
        """

    def candidates(self, buckets: Buckets, first: tuple[int, int] | None = None) -> Array:
        """int64 [m, 2]: every pair i < j within a bucket, each once, lexicographic.

        `first` limits them to first[0] <= i < first[1], so that all pairs can be made in pieces that fit in memory.
        """

    def components(self, count: int, pairs: Array) -> Array:
        """int64 [count]: the smallest id of each id's connected component; `pairs` int64 [m, 2] are the edges."""

    def intersect(self, pairs: Array, fingerprints: Fingerprints) -> tuple[Array, Array]:
        """int64 [m], int64 [m]: the sizes of intersection and union of rows `pairs` [m, 2] of unique fingerprints."""

    def bitmaps(self, fingerprints: Fingerprints, words: int = 16) -> Array:
        """uint64 [n, words]: a row of 2^b bits, in which a fingerprint x flips bit x >> (64 - b).

        `words` is a power of two, at least 16.

        Bit i is in word i >> 6. A bit says whether an odd number of fingerprints flipped it. So the bits of a long row
        still carry information when bits that are only set would all be set (odd sketch: Mitzenmacher, Pagh, Pham
        2014).
        """

    def overlap_bounds(self, pairs: Array, bitmaps: Array, sizes: Array) -> Array:
        """int64 [m]: at least the intersection of rows `pairs` [m, 2] of unique fingerprints; `sizes` int64 [n].

        A bit that differs needs a fingerprint that only one row has:
        min(|A|, |B|, (|A| + |B| - popcount(a ^ b)) / 2).
        """

    def frequencies(self, fingerprints: Fingerprints, counts: Array) -> Array:
        """uint8 [2^b], b >= 2: `counts` plus how often each slot x >> (64 - b) occurs, at most 255; may reuse them."""

    def prefixes(self, fingerprints: Fingerprints, counts: Array, lengths: Array, rare: int = 0) -> Fingerprints:
        """The `lengths` [n] first of each unique row in order of (counts[x >> (64 - b)], x), without those counted
        once. If more of a row have a count below `rare`, all those instead.

        Rows come out ascending by x. A slot counted once belongs to one shingle of one document, so no other document
        has it.
        """

    def occurrences(self, fingerprints: Fingerprints) -> WeightedFingerprints:
        """`unique` rows, each fingerprint weighted by how often its row has it."""

    def weighted_overlap(self, pairs: Array, rows: WeightedFingerprints) -> tuple[Array, Array]:
        """float64 [m], float64 [m]: for rows `pairs` [m, 2], the sums of the lesser and of the greater weights.

        Both sums run over all fingerprints that either row has, in ascending order: floating-point sums depend on their
        order. A missing fingerprint weighs 0.
        """

    def weighted_minhash(self, rows: WeightedFingerprints, num_perm: int, seed: int) -> Array:
        """uint32 [n, num_perm]: in each bin the value of the first dart that hits the row; all ones if the row is
        empty.

        w are the `darts.Streams` of "weighted_minhash". The darts n = 0, 1, ... of a fingerprint x at a level are::

            u[0] = mix64(w.multiplier * x + w.addend + level * GOLDEN mod 2^64)
            p[n] = mix64(u[n] ^ w.place);   u[n + 1] = mix64(p[n] + GOLDEN)
            height  2^level * (1 + p[n] mod 2^32 / 2^32)
            bin     (p[n] >> 32) * num_perm >> 32
            rank    surprise(u[0]) + ... + surprise(u[n]), in units of 2^-(level + RANK_BITS)
            value   min(mix64(p[n] ^ w.value) >> 32, NO_VALUE - 1)

        A weight in [2^e, 2^(e + 1)) is hit by the darts of levels e - 23 to e with heights below it. Ranks are compared
        as floating-point numbers with MANTISSA_BITS after the leading bit, rounded down. Of equal ranks the lesser
        value counts. With the leading bit of v = u | 1 at place b, `surprise` is::

            (64 - b << RANK_BITS) - (T[i] + ((T[i + 1] - T[i]) * f >> 32))

        T is `darts.logarithms()`, i the SEGMENT_BITS bits of v below its leading bit, and f the next 32 bits, each
        filled with zeros from the right. Weights below 2^-1022 count as none.
        """

    def kleinberg_tardos(self, rows: Array, num_perm: int, seed: int) -> Array:
        """uint32 [n, num_perm] from float64 `rows` [n, d], none negative: the value of each function's first dart that
        hits the row; all ones if none can.

        The darts are as in `weighted_minhash`, by the streams of "kleinberg_tardos", with the function's number as x,
        d as num_perm and a column as the bin. A dart hits if its height is below the row's number in the column. A row
        with its greatest number in [2^e, 2^(e + 1)) is hit by darts of levels e - 31 to e, or by none if e is below
        `darts.MIN_OF_ROW`.
        """

    def simhash(self, fingerprints: Fingerprints, keys: Array, weights: Array | None = None) -> Array:
        """uint64 [n, words] from NumPy's uint64 `keys` [words]; an empty row has no bit (Charikar 2002).

        Each fingerprint x of a row adds its weight to bit b of word w if bit b of mix64(x ^ keys[w]) is set, and
        subtracts it otherwise. The bit is set if the sum is above 0. A weight is 1, or from the int64 `weights` [nnz],
        one a fingerprint and none negative; the weights of a row add up to less than 2^62.
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
    ) -> SignedBatch:
        """The band digests, exact hashes and number of shingles of each document."""
        fingerprints = self.shingle(text, shingling)
        digests = self.band_digests(sketched(self, fingerprints, family), shape)
        return SignedBatch(digests, self.exact_hashes(text, shingling, keys)[0], fingerprints.lengths)

    def pipelined_map(self, items: Iterable[Item], work: Callable[[Backend, Item], Result]) -> Iterator[Result]:
        """`work(backend, item)` of every item, in order.

        A backend may work at several items at once, on threads, streams and devices of its own, and take items ahead.
        `work` gets the backend to use.
        """
        return map(partial(work, self), items)  # `map` holds no item while the next one is made

    def parallel_map(self, items: Sequence[Item], work: Callable[[Backend, Item], Result]) -> Iterable[Result]:
        """`pipelined_map` for items that are work for one thread, with arrays and results in this backend's memory."""
        return map(partial(work, self), items)

    def shared_by(self, tasks: int) -> Backend:
        """The backend for one of `tasks` that run at the same time."""
        return self

    def keep(self, *arrays: Array) -> Sequence[Array]:
        """Arrays from `pipelined_map`, moved to stay in this backend's memory, or in NumPy's if that is full."""
        return arrays

    def stage(self, text: TextBatch) -> TextBatch | None:
        """A batch of host memory in the backend's own, which is a device's; None without such memory or room in it."""
        return None

    def hold(self, text: TextBatch) -> TextBatch | None:
        """A batch that `stage` put on any device, copied to stay on this one; None if its share for texts is full."""
        return None


def operations(*modules: ModuleType) -> dict[str, Callable[..., Any]]:
    """The functions of modules that are operations of `Backend`, by name."""
    found = ((name, value) for module in modules for name, value in vars(module).items() if name in vars(Backend))
    return {name: value for name, value in found if inspect.isfunction(value)}


def sketched(ops: Backend, fingerprints: Fingerprints, family: Family) -> Array:
    """Signatures of every row: `family.value_type` [n, num_perm]."""
    with ops.use_device():
        sketch = ops.set_sketch(family)
        return sketch.finish(sketch.fold(fingerprints))


def made_on_device(ops: Backend, items: Iterable[Item]) -> Iterator[Item]:
    """The items, each made with the backend's device as the current one.

    Between items it is not: another thread may take the next one, or an error may keep this generator alive.
    """
    iterator = iter(items)
    while True:
        with ops.use_device():
            try:
                item = next(iterator)
            except StopIteration:
                return
        yield item
        del item  # or it would be held while the next one is made


def min_share(threshold: float) -> float:
    """The share that cuts prefixes, a little low: a prefix that is one too long loses nothing, a short one would."""
    return threshold * (1 - 1e-12)


def prefix_lengths(sizes: Array, share: float) -> Array:
    """int64 [n]: size - ceil(share * size) + 1 for each set of `sizes` [n], at most its size.

    Each set that has at least share * size in common with one of these has one of its so many first fingerprints.
    """
    return np.minimum(sizes, sizes - np.ceil(sizes * share).astype(np.int64) + 1)
