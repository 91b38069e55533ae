// Minima of fingerprints in the shared memory of a warp, in the registers of its lanes.
#pragma once
#include "span_walk.cuh"

// Neighbours in shared memory, read at once.
struct alignas(8) Two {
    u32 x, y;
};
struct alignas(16) Four {
    u32 x, y, z, w;
};

// One instruction on sm_90 and sm_100, two on the others.
__device__ __forceinline__ u32 min3(u32 a, u32 b, u32 c) {
#ifdef __CUDA_ARCH__
    return __vimin3_u32(a, b, c);
#else
    return min(a, min(b, c));
#endif
}

// COLUMNS hash functions of one lane: number `column`, `column` + 32, ... Those that are not there are all ones
// everywhere.
template <i32 COLUMNS>
struct Minima {
    u32 a[COLUMNS], b[COLUMNS], least[COLUMNS];

    __device__ __forceinline__ void load(const u32* __restrict__ multiplier, const u32* __restrict__ addend, i32 column,
                                         i32 columns) {
#pragma unroll
        for (i32 c = 0; c < COLUMNS; ++c) {
            const bool used = column + 32 * c < columns;
            a[c] = used ? multiplier[column + 32 * c] : 0;
            b[c] = used ? addend[column + 32 * c] : NO_VALUE;
        }
    }

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (i32 c = 0; c < COLUMNS; ++c) least[c] = NO_VALUE;
    }

    __device__ __forceinline__ void take(u32 x) {
#pragma unroll
        for (i32 c = 0; c < COLUMNS; ++c) least[c] = min(least[c], a[c] * x + b[c]);
    }

    __device__ __forceinline__ void take(u32 x, u32 y) {
#pragma unroll
        for (i32 c = 0; c < COLUMNS; ++c) least[c] = min3(least[c], a[c] * x + b[c], a[c] * y + b[c]);
    }

    __device__ __forceinline__ void take_two(const u32* next) {
        const Two two = *reinterpret_cast<const Two*>(next);
        take(two.x, two.y);
    }

    __device__ __forceinline__ void take_four(const u32* next) {
        const Four four = *reinterpret_cast<const Four*>(next);
        take(four.x, four.y);
        take(four.z, four.w);
    }

    // Of stage[from, to), which is not empty. The stage is aligned to 16 bytes and read in the widest pieces that are.
    __device__ __forceinline__ void take(const u32* stage, i32 from, i32 to) {
        constexpr i32 STEP = COLUMNS < 8 ? 8 : 4;
        const u32* next = stage + from;
        i32 left = to - from;
        if (from & 1) {
            take(*next++);
            --left;
        }
        if (from + 1 & 2 && left >= 2) {  // `next` is now even, and the second pair of four
            take_two(next);
            next += 2;
            left -= 2;
        }
#pragma unroll 1
        for (; left >= STEP; left -= STEP, next += STEP) {
            take_four(next);
            if (STEP == 8) take_four(next + 4);
        }
        if (STEP == 8 && left & 4) {
            take_four(next);
            next += 4;
        }
        if (left & 2) {
            take_two(next);
            next += 2;
        }
        if (left & 1) take(*next);
    }

    // Whether a used column of this lane holds anything but all ones.
    __device__ __forceinline__ bool any() const {
        u32 all = NO_VALUE;
#pragma unroll
        for (i32 c = 0; c < COLUMNS; ++c) all &= least[c];
        return all != NO_VALUE;
    }

    // Into `row`, from its first column of this lane; `columns` counts from there.
    __device__ __forceinline__ void store(u32* row, i32 columns) const {
#pragma unroll
        for (i32 c = 0; c < COLUMNS; ++c) {
            if (32 * c < columns) row[32 * c] = least[c];
        }
    }

    __device__ __forceinline__ void merge(u32* row, i32 columns) const {
#pragma unroll
        for (i32 c = 0; c < COLUMNS; ++c) {
            if (32 * c < columns) atomicMin(&row[32 * c], least[c]);
        }
    }
};
