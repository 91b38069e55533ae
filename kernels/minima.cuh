// What a warp does with fingerprints that lie in its shared memory: minima in registers, and a walk over the rows that
// its span meets.
#pragma once
#include "search.cuh"

constexpr i32 MAX_SPAN = 1024;  // positions a warp takes
constexpr i32 MAX_WARPS = 4;    // a block
constexpr i32 SPAN_THREADS = MAX_WARPS * 32;
// Beyond every span: a row's ends are held no further than that from the span's begin, and may be subtracted.
constexpr i32 FAR = 1 << 29;

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

// The rows that a warp meets, each lane with the end of one of 32 that follow one another.
struct Rows {
    const i64* offset;
    i64 rows, begin;  // positions count from `begin`, where the span begins
    i64 first;        // the row of lane 0
    i32 end;          // of this lane's row
    i64 row;          // found by `find`
    i32 stop;         // its end

    __device__ __forceinline__ Rows(const i64* __restrict__ offset, i64 rows, i64 begin)
        : offset(offset), rows(rows), begin(begin) {
        seek(warp_upper_bound(offset, 0, rows, begin) - 1);
    }

    __device__ __forceinline__ void seek(i64 from) {
        first = from;
        const i64 mine = first + (threadIdx.x & 31);
        end = mine < rows ? (i32)min(offset[mine + 1] - begin, (i64)FAR) : FAR;
    }

    // The row that holds position `at`, which no earlier call was given a later one than. All lanes call it.
    __device__ __forceinline__ void find(i32 at) {
        u32 beyond = __ballot_sync(~0u, end > at);
        if (beyond == 0) {  // 32 rows may have been empty, or a million
            seek(warp_upper_bound(offset, first + 33, rows, begin + at) - 1);
            beyond = ~0u;
        }
        const i32 lane = __popc(~beyond & (beyond - 1));  // the first
        row = first + lane;
        stop = __shfl_sync(~0u, end, lane);
    }
};
