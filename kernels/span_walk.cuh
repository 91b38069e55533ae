// The walk of a warp over the rows that its span of positions meets, for any sketch.
#pragma once
#include "search.cuh"
#include "warp.cuh"

constexpr i32 MAX_SPAN = 1024;  // positions a warp takes
constexpr i32 MAX_WARPS = 4;    // a block
constexpr i32 SPAN_THREADS = MAX_WARPS * 32;
// Beyond every span: a row's ends are held no further than that from the span's begin, and may be subtracted.
constexpr i32 FAR = 1 << 29;

// `upper_bound` by all lanes of a warp at once, which read 32 elements a step: a million take four steps, not twenty.
__device__ __forceinline__ i64 warp_upper_bound(const i64* __restrict__ array, i64 low, i64 high, i64 value) {
    const i32 lane = threadIdx.x & 31;
    while (low < high) {
        const i64 step = (high - low + 31) / 32, probe = low + step * (lane + 1) - 1;
        const i32 passed = __popc(__ballot_sync(~0u, probe < high && array[probe] <= value));  // the first so many
        high = min(high, low + step * (passed + 1) - 1);
        low += step * passed;
    }
    return low;
}

// The rows that a warp's span of positions meets, each lane with the end of one of 32 that follow one another. Spans
// are `span` positions long and begin at offset[0]; the last one is shorter, and the warps behind it have none.
struct Rows {
    const i64* offset;
    i64 rows, begin;  // positions count from `begin`, where the span begins
    i32 length;       // of the span; not above 0 where this warp has none
    i64 first;        // the row of lane 0
    i32 end;          // of this lane's row
    i64 row;          // found by `find`
    i32 stop;         // its end

    __device__ __forceinline__ Rows(const i64* __restrict__ offset, i64 rows, i32 span)
        : Rows(offset, rows, offset[0] + ((i64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5)) * span,
               offset[rows], span) {}

    // Likewise, over the positions from `begin` up to `positions`.
    __device__ __forceinline__ Rows(const i64* __restrict__ offset, i64 rows, i64 begin, i64 positions, i32 span)
        : offset(offset), rows(rows), begin(begin), length((i32)min((i64)span, positions - begin)) {
        seek(length > 0 ? warp_upper_bound(offset, 0, rows, begin) - 1 : rows);
    }

    __device__ __forceinline__ void seek(i64 from) {
        first = from;
        const i64 mine = first + (threadIdx.x & 31);
        end = mine < rows ? (i32)min(offset[mine + 1] - begin, (i64)FAR) : FAR;
    }

    // Finds the row that holds position `at`, which is not before that of an earlier call, and returns where it ends
    // within the span. All lanes call it.
    __device__ __forceinline__ i32 find(i32 at) {
        u32 beyond = __ballot_sync(~0u, end > at);
        if (beyond == 0) {  // 32 rows may have been empty, or a million
            seek(warp_upper_bound(offset, first + 33, rows, begin + at) - 1);
            beyond = ~0u;
        }
        const i32 lane = __popc(~beyond & (beyond - 1));  // the first
        row = first + lane;
        stop = __shfl_sync(~0u, end, lane);
        return min(stop, length);
    }

    // Whether all of the row that was found at position `at` is within this span.
    __device__ __forceinline__ bool is_whole(i32 at) const {
        return stop <= length && (at > 0 || offset[row] == begin);
    }
};
