// intersect: the size of the intersection of two rows of unique, ascending fingerprints, for each pair.
//
//   in   values u64 [>= last offset], offset i64 [documents + 1], pairs i64 [count, 2]
//
// `intersect_rows`, for pairs whose larger row has at most `longest` fingerprints; the others it passes by:
//   out  both, either i64 [count]: intersection and union
// Mapping: a warp per pair, blocks of whole warps; a tile of the larger row is in shared memory, and each lane looks up
// one fingerprint of the smaller that falls into it. Bound: bytes, 8 per fingerprint of both rows from the second-level
// cache or memory, each read once and side by side; about 8 log2(tile) instructions for 32 lookups.
//
// `intersect_spread`, for the rest:
//   in   ends i64 [count], inclusive sums of each pair's smaller row, the work; total = ends[count - 1]; items
//        (fingerprints per thread)
//   out  both u64 [count], zeros on entry
// Mapping: flat over the fingerprints of the smaller rows, each with a binary search in the larger; the lanes of a warp
// that serve one pair count their hits by ballot, and one adds them. A long pair is spread over blocks.
// Bound: latency of the searches.
//
// Geometry: hits are added, in any order. Oracle: gpulsh/backends/reference/rows.py.
#include "search.cuh"
#include "warp.cuh"

constexpr i32 TILE = 256;

struct TwoRows {
    i64 smaller, larger;
};

__device__ __forceinline__ i64 size_of(const i64* __restrict__ offset, i64 row) {
    return offset[row + 1] - offset[row];
}

__device__ __forceinline__ TwoRows rows_of(const i64* __restrict__ offset, const i64* __restrict__ pairs, i64 pair) {
    const i64 left = pairs[2 * pair], right = pairs[2 * pair + 1];
    const bool ordered = size_of(offset, left) <= size_of(offset, right);
    return {ordered ? left : right, ordered ? right : left};
}

// Whether the ascending tile[0, length), length > 0, holds `value`, which is not above its last element. `half` is the
// greatest power of two up to `length`: all lanes take the same steps.
__device__ __forceinline__ bool tile_contains(const u64* tile, i32 length, i32 half, u64 value) {
    i32 below = 0;
    for (i32 step = half; step > 0; step /= 2) {
        const i32 next = min(below + step, length);
        below = tile[next - 1] < value ? next : below;
    }
    return tile[below] == value;
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    intersect_rows(const u64* __restrict__ values, const i64* __restrict__ offset, const i64* __restrict__ pairs,
                   i64 count, i64 longest, i64* __restrict__ both, i64* __restrict__ either) {
    __shared__ u64 tiles[MAX_THREADS / 32][TILE];
    const i32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const i64 pair = (i64)blockIdx.x * (blockDim.x >> 5) + warp;
    if (pair >= count) return;  // the whole warp
    const TwoRows rows = rows_of(offset, pairs, pair);
    if (size_of(offset, rows.larger) > longest) return;
    u64* tile = tiles[warp];
    const i64 last = offset[rows.smaller + 1], end = offset[rows.larger + 1];
    i64 at = offset[rows.smaller], hits = 0;
    for (i64 begin = offset[rows.larger]; begin < end && at < last; begin += TILE) {
        const i32 length = (i32)min((i64)TILE, end - begin);
        for (i32 i = lane; i < length; i += 32) tile[i] = values[begin + i];
        __syncwarp();
        const u64 greatest = tile[length - 1];
        i32 half = 1, taken = 32;
        while (2 * half <= length) half *= 2;
        while (taken == 32 && at < last) {
            const u64 value = at + lane < last ? values[at + lane] : 0;
            const bool within = at + lane < last && value <= greatest;  // the lanes before one that is not are
            const bool hit = tile_contains(tile, length, half, min(value, greatest));
            hits += __popc(__ballot_sync(0xFFFFFFFFu, within && hit));
            taken = __popc(__ballot_sync(0xFFFFFFFFu, within));
            at += taken;
        }
        __syncwarp();  // all lanes have read the tile before it is filled again
    }
    if (lane == 0) {
        both[pair] = hits;
        either[pair] = size_of(offset, rows.smaller) + size_of(offset, rows.larger) - hits;
    }
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    intersect_spread(const u64* __restrict__ values, const i64* __restrict__ offset, const i64* __restrict__ pairs,
                     i64 count, const i64* __restrict__ ends, i64 total, i32 items, u64* __restrict__ both) {
    __shared__ i64 range[2];
    const i32 lane = threadIdx.x & 31;
    const u32 mask = mask_of_warp();
    const i64 begin = (i64)blockIdx.x * blockDim.x * items;
    block_range(ends, count, begin, begin + (i64)blockDim.x * items - 1, range);

    for (i32 item = 0; item < items; ++item) {
        const i64 index = begin + (i64)item * blockDim.x + threadIdx.x;
        i64 pair = -1;  // beyond the end: takes part in the ballot, finds nothing
        bool hit = false;
        if (index < total) {
            pair = upper_bound(ends, range[0], range[1], index);
            const i64 place = index - (pair > 0 ? ends[pair - 1] : 0);
            const TwoRows rows = rows_of(offset, pairs, pair);
            hit = contains(values, offset[rows.larger], offset[rows.larger + 1], values[offset[rows.smaller] + place]);
        }
        const u32 hits = __ballot_sync(mask, hit);
        if (__all_sync(mask, pair == __shfl_sync(mask, pair, 0))) {
            if (lane == 0 && hits != 0) atomicAdd(&both[pair], (u64)__popc(hits));
        } else if (hit) {
            atomicAdd(&both[pair], (u64)1);
        }
    }
}
