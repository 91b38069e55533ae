// Warp operations that several kernels share.
#pragma once
#include "bits.cuh"

// How many lanes this warp has, and their mask: the last warp of a block may not be full.
__device__ __forceinline__ i32 lanes_of_warp() {
    return min(32, (i32)blockDim.x - (i32)(threadIdx.x & ~31u));
}

__device__ __forceinline__ u32 mask_of_warp() {
    return 0xFFFFFFFFu >> (32 - lanes_of_warp());
}

// The sum of the values of the lanes up to this one: of all lanes, in the last one.
template <typename Value>
__device__ __forceinline__ Value sum_through_lane(Value value) {
    const u32 mask = mask_of_warp();
    for (i32 step = 1; step < 32; step *= 2) {
        const Value before = __shfl_up_sync(mask, value, step);
        if ((i32)(threadIdx.x & 31) >= step) value += before;
    }
    return value;
}

// The values of all 32 lanes merged, in every lane; `merge` is associative and commutative.
template <typename Value, typename Merge>
__device__ __forceinline__ Value merged_lanes(Value value, Merge merge) {
    for (i32 step = 16; step > 0; step /= 2) value = merge(value, __shfl_sync(~0u, value, (threadIdx.x & 31) ^ step));
    return value;
}

template <typename Value>
__device__ __forceinline__ Value least_of_lanes(Value value) {
    return merged_lanes(value, [](Value a, Value b) { return min(a, b); });
}
