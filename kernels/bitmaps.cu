// bitmaps: a row's fingerprints as 1024 bits, one for each value of the upper 10 bits that occurs.
//
//   in   values u64 [>= offset[documents]], offset i64 [documents + 1], items (fingerprints a thread)
//   out  bitmaps u64 [documents, 16], zeros on entry
//
// Mapping: a thread a fingerprint at a time, flat over all rows; an atomic or of its bit.
// Bound: bytes: 8 a fingerprint, 128 a document; atomics, which meet in the second-level cache.
// Geometry: bits are set, in any order.
// Oracle: gpulsh/backends/reference/bitmaps.py.
#include "search.cuh"

constexpr i32 WORDS = 16;

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    bitmaps(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents, i32 items,
            u64* __restrict__ bitmaps) {
    __shared__ i64 range[2];
    const i64 begin = offset[0] + (i64)blockIdx.x * blockDim.x * items;
    const i64 end = min(begin + (i64)blockDim.x * items, offset[documents]);
    block_range(offset, documents, begin, end - 1, range);
    for (i64 i = begin + threadIdx.x; i < end; i += blockDim.x) {
        const i64 document = upper_bound(offset, range[0], range[1], i) - 1;
        const u32 bit = (u32)(values[i] >> 54);
        atomicOr(&bitmaps[document * WORDS + (bit >> 6)], (u64)1 << (bit & 63));
    }
}
