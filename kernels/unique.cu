// unique: each row ascending and without repeats, rows of at most `longest` fingerprints.
//
//   in   values u64 [>= last offset], offset i64 [rows + 1], longest (at most MAX_ROW)
//   out  distinct u64 [offset[rows] - offset[0]]: each row from its old place on, as many as counts i64 [rows] says;
//        nothing for longer rows
//
// Mapping: a block per row, whole warps; a bitonic network in shared memory, padded to a power of two by the greatest
// value. A comparator c of a step joins places of the 64 that begin at 2 (c & ~31) while the step is short, so that a
// warp meets only itself and needs no barrier of the block. Bound: shared memory, 16 bytes per fingerprint and step,
// log2(n) (log2(n) + 1) / 2 steps; from device memory 16 bytes per fingerprint.
// Geometry: a sorted row is a function of the row. Oracle: gpulsh/backends/reference/rows.py.
#include "row.cuh"

// Sorts row[0, width), width a power of two. Every thread of the block calls it, after a barrier and before another.
__device__ __forceinline__ void sort_row(u64* row, i32 width) {
    if (width <= 64 && threadIdx.x >= 32) return;  // one warp has all comparators, and meets no barrier
    for (i32 length = 2; length <= width; length *= 2) {
        for (i32 step = length / 2; step > 0; step /= 2) {
            const i32 partner = 2 * step == length ? length - 1 : step;  // first mirrored, then shifted
            for (i32 c = threadIdx.x; c < width / 2; c += blockDim.x) {
                const i32 low = 2 * c - (c & (step - 1)), high = low ^ partner;
                const u64 a = row[low], b = row[high];
                if (a > b) {
                    row[low] = b;
                    row[high] = a;
                }
            }
            // Places that comparators of the next step span.
            const i32 next = step > 1 ? step : length < width ? 2 * length : 0;
            if (max(2 * step, next) > 64) {
                __syncthreads();
            } else {
                __syncwarp();
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    unique(const u64* __restrict__ values, const i64* __restrict__ offset, i32 longest, u64* __restrict__ distinct,
           i64* __restrict__ counts) {
    __shared__ u64 row[MAX_ROW];
    __shared__ i32 kept[ROW_WARPS];
    const i64 begin = offset[blockIdx.x];
    if (offset[blockIdx.x + 1] - begin > longest) return;
    const i32 size = (i32)(offset[blockIdx.x + 1] - begin);
    i32 width = 1;
    while (width < size) width *= 2;
    for (i32 i = threadIdx.x; i < width; i += blockDim.x) row[i] = i < size ? values[begin + i] : ~(u64)0;
    __syncthreads();
    sort_row(row, width);
    __syncthreads();

    const i32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const Part part = part_of_warp(size);
    i32 count = 0;
    for (i32 i = part.begin + lane; i - lane < part.end; i += 32) {
        count += __popc(__ballot_sync(0xFFFFFFFFu, i < part.end && (i == 0 || row[i] != row[i - 1])));
    }
    if (lane == 0) kept[warp] = count;
    __syncthreads();
    i64 at = begin - offset[0] + before_warp(kept);
    for (i32 i = part.begin + lane; i - lane < part.end; i += 32) {
        const bool keep = i < part.end && (i == 0 || row[i] != row[i - 1]);
        const u32 votes = __ballot_sync(0xFFFFFFFFu, keep);
        if (keep) distinct[at + before_lane(votes)] = row[i];
        at += __popc(votes);
    }
    if (threadIdx.x == blockDim.x - 1) counts[blockIdx.x] = at - (begin - offset[0]);
}
