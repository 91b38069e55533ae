// splitmix_rounds: each document's fingerprints thrown into `bins` bins, in as many rounds, until no bin is empty.
//
//   in   values u64 [>= offset[documents]], offset i64 [documents + 1], rounds, own u64 [bins], a word for each round
//        and for each bin, bins (a power of two)
//   out  state u64 [documents, 2 bins], all ones on entry: of each bin the round << ROUND_SHIFT | the least value
//        thrown in it, then, of those that stayed empty, the least hash by their own word
//
// Mapping: a block per document; a thread per fingerprint in each round, then a warp per bin that stayed empty. Bound:
// 64-bit multiplies; atomics in the second-level cache. Geometry: a bin has the least of all values, and no round after
// the one that filled it has a lesser one. Oracle: gpulsh/backends/reference/sketches.py.
#include "warp.cuh"

__device__ __forceinline__ u64 splitmix64(u64 word) {
    word += GOLDEN;
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ull;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBull;
    return word ^ (word >> 31);
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    splitmix_rounds(const u64* __restrict__ values, const i64* __restrict__ offset, const u64* __restrict__ rounds,
                    const u64* __restrict__ own, i32 bins, u64* __restrict__ state) {
    const i64 begin = offset[blockIdx.x], end = offset[blockIdx.x + 1];
    if (begin == end) return;  // the whole block
    volatile u64* found = state + (i64)blockIdx.x * 2 * bins;
    __shared__ i32 empty;
    for (i32 round = 0; round < bins; ++round) {
        for (i64 i = begin + threadIdx.x; i < end; i += blockDim.x) {
            const u64 hash = splitmix64(values[i] ^ rounds[round]);
            const u64 value = (u64)round << ROUND_SHIFT | (hash & ((1ull << ROUND_SHIFT) - 1));
            const i32 bin = (i32)(hash & (u64)(bins - 1));
            if (found[bin] > value) atomicMin((u64*)&found[bin], value);
        }
        if (threadIdx.x == 0) empty = 0;
        __syncthreads();
        for (i32 bin = threadIdx.x; bin < bins; bin += blockDim.x) {
            if (found[bin] == NO_DIGEST) empty = 1;
        }
        __syncthreads();
        if (empty == 0) return;  // the whole block
        __syncthreads();
    }
    const i32 lane = threadIdx.x & 31;
    for (i32 bin = threadIdx.x >> 5; bin < bins; bin += blockDim.x >> 5) {
        if (found[bin] != NO_DIGEST) continue;  // the whole warp
        u64 least = ~0ull;
        for (i64 i = begin + lane; i < end; i += 32) least = min(least, splitmix64(values[i] ^ own[bin]));
        least = least_of_lanes(least);
        if (lane == 0) found[bins + bin] = least;
    }
}
