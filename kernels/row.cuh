// A row in the shared memory of one block of whole warps.
#pragma once
#include "bits.cuh"

constexpr i32 MAX_ROW = 2048;  // the longest such row
constexpr i32 ROW_WARPS = MAX_THREADS / 32;

// The part of [0, size) that a warp walks over in order, 32 places at a time: warps follow one another.
struct Part {
    i32 begin, end;
};

__device__ __forceinline__ Part part_of_warp(i32 size) {
    const i32 warps = blockDim.x >> 5, warp = threadIdx.x >> 5;
    const i32 length = ((size + 31) / 32 + warps - 1) / warps * 32;
    return {min(warp * length, size), min((warp + 1) * length, size)};
}

// The sum of `counts` of the warps before this one, written before the last barrier.
__device__ __forceinline__ i32 before_warp(const i32 (&counts)[ROW_WARPS]) {
    i32 sum = 0;
    for (i32 warp = 0; warp < (i32)(threadIdx.x >> 5); ++warp) sum += counts[warp];
    return sum;
}

// How many lanes before this one voted.
__device__ __forceinline__ i32 before_lane(u32 votes) {
    return __popc(votes & ((1u << (threadIdx.x & 31)) - 1));
}
