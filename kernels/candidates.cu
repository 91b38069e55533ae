// candidates: pairs of members of the buckets, unordered among buckets and with repeats; the caller sorts.
//
//   in   ids u32 [>= offset[buckets]], offset i64 [buckets + 1], ends i64 [buckets] (inclusive sums of pairs a bucket),
//        first, stop (the pairs to make, by number, below ends[buckets - 1])
//   out  keys u64 [stop - first], low << 32 | high with low <= high (equal if an id is twice in a bucket)
//
// Mapping: a thread per pair, which it finds by its number: bucket by the sums, members by triangular numbers.
// Bound: bytes: 8 per pair, and the sort after it.
// Geometry: pair q of the list is a function of q, and sorted later.
// Oracle: gpulsh/backends/reference/buckets.py.
#include "search.cuh"

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    candidates(const u32* __restrict__ ids, const i64* __restrict__ offset, i64 buckets, const i64* __restrict__ ends,
               i64 first, i64 stop, u64* __restrict__ keys) {
    __shared__ i64 range[2];
    const i64 begin = first + (i64)blockIdx.x * blockDim.x, index = begin + threadIdx.x;
    block_range(ends, buckets, begin, begin + blockDim.x - 1, range);
    if (index >= stop) return;
    const i64 bucket = upper_bound(ends, range[0], range[1], index);
    const i64 place = index - (bucket > 0 ? ends[bucket - 1] : 0);
    const u32* members = ids + offset[bucket];
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
    const u32 a = members[place - right * (right - 1) / 2], b = members[right];
    keys[index - first] = (u64)min(a, b) << 32 | max(a, b);
}
