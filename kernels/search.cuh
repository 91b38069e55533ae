// Binary searches. Offsets ascend but may repeat (empty rows); `upper_bound - 1` is then the last row that begins at or
// before a position, which is the one that holds it. A search for a position before the end need not look at the last
// offset: `high` is the answer where all before are no greater.
#pragma once
#include "bits.cuh"

// The first index in [low, high) whose element is greater than `value`; `high` where there is none.
__device__ __forceinline__ i64 upper_bound(const i64* __restrict__ array, i64 low, i64 high, i64 value) {
    while (low < high) {
        const i64 middle = low + (high - low) / 2;
        if (array[middle] <= value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// Likewise, faster if the answer is mostly `low` itself. Rows are rarely empty, yet a million empty rows must not be
// stepped over one by one.
__device__ __forceinline__ i64 upper_bound_near(const i64* __restrict__ array, i64 low, i64 high, i64 value) {
    return array[low] > value ? low : upper_bound(array, low, high, value);
}

// Narrows the searches of one block, for values in [first, last]: range[0] and range[1] are the upper bounds of the
// two. Every thread of the block calls it; the barrier inside also orders what was written to shared memory before.
__device__ __forceinline__ void block_range(const i64* __restrict__ array, i64 size, i64 first, i64 last,
                                            i64 (&range)[2]) {
    if (threadIdx.x == 0) {
        const i64 low = upper_bound(array, 0, size, first);
        range[0] = low;
        range[1] = upper_bound(array, low, size, last);
    }
    __syncthreads();
}

// `work(position, row)` at each position of a block's tile: `items` a thread, flat over all rows of offset[0, rows].
template <typename Work>
__device__ __forceinline__ void for_positions(const i64* __restrict__ offset, i64 rows, i32 items, Work work) {
    __shared__ i64 range[2];
    const i64 begin = offset[0] + (i64)blockIdx.x * blockDim.x * items;
    const i64 end = min(begin + (i64)blockDim.x * items, offset[rows]);
    block_range(offset, rows, begin, end - 1, range);
    for (i64 i = begin + threadIdx.x; i < end; i += blockDim.x) {
        work(i, upper_bound(offset, range[0], range[1], i) - 1);
    }
}

// Whether the ascending values[low, high) hold `value`.
__device__ __forceinline__ bool contains(const u64* __restrict__ values, i64 low, i64 high, u64 value) {
    while (low < high) {
        const i64 middle = low + (high - low) / 2;
        const u64 found = values[middle];
        if (found == value) return true;
        if (found < value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return false;
}
