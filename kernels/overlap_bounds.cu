// overlap_bounds: an upper bound of each pair's intersection from the bitmaps of its rows.
//
//   in   pairs i64 [count, 2], bitmaps u64 [documents, words], words (a multiple of 16), sizes i64 [documents]
//   out  bounds i64 [count]
//
// Mapping: a thread per pair; its two rows are 8 bytes per word each, whole sectors.
// Bound: bytes: 16 per word of a pair, from the second-level cache where documents come again.
// Geometry: a bound is a function of its pair and has one writer.
// Oracle: gpulsh/backends/reference/rows.py.
#include "bits.cuh"

constexpr i32 AT_ONCE = 16;

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    overlap_bounds(const i64* __restrict__ pairs, i64 count, const u64* __restrict__ bitmaps, i32 words,
                   const i64* __restrict__ sizes, i64* __restrict__ bounds) {
    const i64 pair = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (pair >= count) return;
    const i64 left = pairs[2 * pair], right = pairs[2 * pair + 1];
    const u64 *a = bitmaps + left * words, *b = bitmaps + right * words;
    const i64 fewer = min(sizes[left], sizes[right]);
    i64 apart = 0;
    for (i32 word = 0; word < words; word += AT_ONCE) {
        for (i32 at = 0; at < AT_ONCE; ++at) apart += __popcll(a[word + at] ^ b[word + at]);
    }
    bounds[pair] = min(fewer, (sizes[left] + sizes[right] - apart) >> 1);
}
