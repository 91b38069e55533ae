// candidates: every pair of members of every bucket, unordered among buckets and with repeats; the caller sorts.
//
//   in   ids i64 [>= offset[buckets]], offset i64 [buckets + 1], ends i64 [buckets] (inclusive sums of pairs a bucket),
//        pairs = ends[buckets - 1]
//   out  low, high i64 [pairs], low <= high (equal where an id stands twice in a bucket), or
//        keys u64 [pairs], low << 32 | high, where all ids are below 2^32
//
// Mapping: a thread a pair, which it finds by its number: bucket by the sums, members by triangular numbers.
// Bound: bytes: 8 or 16 a pair, and the sort after it.
// Geometry: pair q of the list is a function of q, and sorted later.
// Oracle: gpulsh/backends/reference/candidates.py.
#include "search.cuh"

struct Pair {
    i64 low, high;
};

// Pair `index` of all; every thread of the block calls it.
__device__ __forceinline__ Pair pair_of(const i64* __restrict__ ids, const i64* __restrict__ offset, i64 buckets,
                                        const i64* __restrict__ ends, i64 index, i64 (&range)[2]) {
    const i64 begin = (i64)blockIdx.x * blockDim.x;
    block_range(ends, buckets, begin, begin + blockDim.x - 1, range);
    if (index >= ends[buckets - 1]) return {};
    const i64 bucket = upper_bound(ends, range[0], range[1], index);
    const i64 place = index - (bucket > 0 ? ends[bucket - 1] : 0);
    const i64* members = ids + offset[bucket];
    // The largest right with right * (right - 1) / 2 <= place: pairs (0, 1), (0, 2), (1, 2), (0, 3) ...
    i64 right = 1, beyond = offset[bucket + 1] - offset[bucket];
    while (right + 1 < beyond) {
        const i64 middle = (right + beyond) / 2;
        if (middle * (middle - 1) / 2 <= place) {
            right = middle;
        } else {
            beyond = middle;
        }
    }
    const i64 a = members[place - right * (right - 1) / 2], b = members[right];
    return {min(a, b), max(a, b)};
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    candidates_pairs(const i64* __restrict__ ids, const i64* __restrict__ offset, i64 buckets,
                     const i64* __restrict__ ends, i64 pairs, i64* __restrict__ low, i64* __restrict__ high) {
    __shared__ i64 range[2];
    const i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    const Pair pair = pair_of(ids, offset, buckets, ends, index, range);
    if (index >= pairs) return;
    low[index] = pair.low;
    high[index] = pair.high;
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    candidates_keys(const i64* __restrict__ ids, const i64* __restrict__ offset, i64 buckets,
                    const i64* __restrict__ ends, i64 pairs, u64* __restrict__ keys) {
    __shared__ i64 range[2];
    const i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    const Pair pair = pair_of(ids, offset, buckets, ends, index, range);
    if (index < pairs) keys[index] = (u64)pair.low << 32 | (u64)pair.high;
}
