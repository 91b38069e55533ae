// overlap_bounds: an upper bound of each pair's intersection from the bitmaps of its rows.
//
//   in   pairs i64 [count, 2], bitmaps u64 [documents, 16], sizes i64 [documents]
//   out  bounds i64 [count]
//
// Mapping: a thread a pair; its two rows are 128 bytes each, whole sectors.
// Bound: bytes: 256 a pair, from the second-level cache where documents come again.
// Geometry: a bound is a function of its pair and has one writer.
// Oracle: gpulsh/backends/reference/bitmaps.py.
#include "bits.cuh"

constexpr i32 WORDS = 16;

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    overlap_bounds(const i64* __restrict__ pairs, i64 count, const u64* __restrict__ bitmaps,
                   const i64* __restrict__ sizes, i64* __restrict__ bounds) {
    const i64 pair = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (pair >= count) return;
    const i64 left = pairs[2 * pair], right = pairs[2 * pair + 1];
    i64 both = 0, left_shared = sizes[left], right_shared = sizes[right];
    for (i32 word = 0; word < WORDS; ++word) {
        const u64 a = bitmaps[left * WORDS + word], b = bitmaps[right * WORDS + word];
        both += __popcll(a & b);
        left_shared -= __popcll(a);
        right_shared -= __popcll(b);
    }
    bounds[pair] = both + min(left_shared, right_shared);
}
