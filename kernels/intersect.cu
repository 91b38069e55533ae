// intersect: the size of the intersection of two rows of unique, ascending fingerprints, for each pair.
//
//   in   values u64 [>= last offset], offset i64 [documents + 1], pairs i64 [count, 2], ends i64 [count]: inclusive
//   sums of
//        each pair's smaller row, the work; total = ends[count - 1]; items (elements a thread)
//   out  both i64 [count], zeros on entry
//
// Mapping: flat over the elements of the smaller rows, a thread an element at a time, with a binary search in the
// larger row; the lanes of a warp that serve one pair count their hits by ballot, and one adds them. A long pair is
// spread over blocks, short ones share one. Bound: latency of the searches, then bytes from the second-level cache: 8
// log2(larger) an element. Geometry: hits are added, in any order. Oracle: gpulsh/backends/reference/intersect.py.
#include "search.cuh"

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    intersect(const u64* __restrict__ values, const i64* __restrict__ offset, const i64* __restrict__ pairs, i64 count,
              const i64* __restrict__ ends, i64 total, i32 items, u64* __restrict__ both) {
    __shared__ i64 range[2];
    const i32 lane = threadIdx.x & 31, lanes = min(32, (i32)blockDim.x - (i32)(threadIdx.x & ~31u));
    const u32 mask = 0xFFFFFFFFu >> (32 - lanes);
    const i64 begin = (i64)blockIdx.x * blockDim.x * items;
    block_range(ends, count, begin, begin + (i64)blockDim.x * items - 1, range);

    for (i32 item = 0; item < items; ++item) {
        const i64 index = begin + (i64)item * blockDim.x + threadIdx.x;
        i64 pair = -1;  // beyond the end: takes part in the ballot, finds nothing
        bool hit = false;
        if (index < total) {
            pair = upper_bound(ends, range[0], range[1], index);
            const i64 place = index - (pair > 0 ? ends[pair - 1] : 0);
            i64 smaller = pairs[2 * pair], larger = pairs[2 * pair + 1];
            if (offset[smaller + 1] - offset[smaller] > offset[larger + 1] - offset[larger]) {
                const i64 swapped = smaller;
                smaller = larger;
                larger = swapped;
            }
            hit = contains(values, offset[larger], offset[larger + 1], values[offset[smaller] + place]);
        }
        const u32 hits = __ballot_sync(mask, hit);
        if (__all_sync(mask, pair == __shfl_sync(mask, pair, 0))) {
            if (lane == 0 && hits != 0) atomicAdd(&both[pair], (u64)__popc(hits));
        } else if (hit) {
            atomicAdd(&both[pair], (u64)1);
        }
    }
}
