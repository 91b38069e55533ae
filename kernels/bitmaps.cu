// bitmaps: a row as 64 * words = 2^b bits. Bit i is set if an odd number of the row's values
// have i as their upper b bits.
//
//   in   values u64 [>= offset[documents]], offset i64 [documents + 1], items (fingerprints per thread),
//        words (of a row, a power of two)
//   out  bitmaps u64 [documents, words], zeros on entry
//
// Mapping: a thread per fingerprint at a time, flat over all rows; an atomic exclusive or of its bit.
// Bound: bytes: 8 per fingerprint, 8 per word of a document; atomics in the second-level cache.
// Geometry: bits are flipped, in any order.
// Oracle: gpulsh/backends/reference/rows.py.
#include "search.cuh"

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    bitmaps(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents, i32 items, i32 words,
            u64* __restrict__ bitmaps) {
    const i32 shift = 58 - (31 - __clz(words));
    for_positions(offset, documents, items, [=](i64 i, i64 document) {
        const u32 bit = (u32)(values[i] >> shift);
        atomicXor(&bitmaps[document * words + (bit >> 6)], (u64)1 << (bit & 63));
    });
}
