// simhash: 64 bits per word; a bit is set if more than half of the row's weight has it set in the fingerprint's hash.
//
//   in   values u64 [>= offset[documents]], of `simhash_weighted` weights i64 likewise, offset i64 [documents + 1],
//        keys u64 [words = grid y], span (fingerprints per warp, at most MAX_SPAN)
//   out  sums i64 [documents, words, 64], zeros on entry: the weights, counted as negative where the bit is not set
//
//   in   sums i64 [count, 64]
//   out  bits u64 [count]: the signs, set where a sum is above 0
//
// Mapping: a warp takes `span` consecutive fingerprints, across the borders of documents, and hashes one a lane for
// the word of its grid y; hashes then go round, and a lane adds up two bits of each. Sums meet by atomicAdd, once a
// warp and row. For the signs a warp takes 64 sums. Bound: instructions: two shuffles and some ten others a fingerprint
// and word, of a warp; of rows with few fingerprints, bytes: 512 of sums a word. Geometry: sums are the same over any
// split. Oracle: gpulsh/backends/reference/rows.py.
#include "span_walk.cuh"

template <typename Weight>
__device__ __forceinline__ void signed_sums(const u64* __restrict__ values, Weight weight,
                                            const i64* __restrict__ offset, i64 documents, const u64* __restrict__ keys,
                                            i32 span, i64* __restrict__ sums) {
    const i32 lane = threadIdx.x & 31;
    const u64 key = keys[blockIdx.y];
    Rows rows(offset, documents, span);
    const i64 begin = rows.begin;
    for (i32 at = 0; at < rows.length;) {
        const i32 to = rows.find(at);
        i64 low = 0, high = 0;
        for (; at < to; at += 32) {
            const i32 some = min(32, to - at);
            const u64 hash = mix64(values[begin + at + min(lane, some - 1)] ^ key);
#pragma unroll 4
            for (i32 i = 0; i < some; ++i) {
                const u32 lower = __shfl_sync(~0u, (u32)hash, i), upper = __shfl_sync(~0u, (u32)(hash >> 32), i);
                const i64 one = weight(begin + at + i);
                low += lower >> lane & 1 ? one : -one;
                high += upper >> lane & 1 ? one : -one;
            }
        }
        at = to;
        u64* found = (u64*)sums + (rows.row * gridDim.y + blockIdx.y) * 64;
        atomicAdd(&found[lane], (u64)low);
        atomicAdd(&found[lane + 32], (u64)high);
    }
}

extern "C" __global__ void __launch_bounds__(SPAN_THREADS)
    simhash(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents, const u64* __restrict__ keys,
            i32 span, i64* __restrict__ sums) {
    signed_sums(values, [](i64) { return (i64)1; }, offset, documents, keys, span, sums);
}

extern "C" __global__ void __launch_bounds__(SPAN_THREADS)
    simhash_weighted(const u64* __restrict__ values, const i64* __restrict__ weights, const i64* __restrict__ offset,
                     i64 documents, const u64* __restrict__ keys, i32 span, i64* __restrict__ sums) {
    signed_sums(values, [=](i64 i) { return weights[i]; }, offset, documents, keys, span, sums);
}

extern "C" __global__ void __launch_bounds__(SPAN_THREADS)
    simhash_signs(const i64* __restrict__ sums, i64 count, u64* __restrict__ bits) {
    const i32 lane = threadIdx.x & 31;
    const i64 word = (i64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    if (word >= count) return;  // the whole warp
    const u32 lower = __ballot_sync(~0u, sums[word * 64 + lane] > 0);
    const u32 upper = __ballot_sync(~0u, sums[word * 64 + lane + 32] > 0);
    if (lane == 0) bits[word] = ((u64)upper << 32) + lower;
}
