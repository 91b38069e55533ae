// weighted_minhash: of the darts that hit a row, the value of the one of least rank in each bin.
//
//   in   values u64, weights u64 (the bits of floating-point numbers above 0), both [>= offset[documents]],
//        offset i64 [documents + 1], multiplier, addend, place_word, value_word u64, table u64 [2^SEGMENT_BITS + 1],
//        wanted (darts that most probably hit all bins), bins
//   out  least u64 [documents, bins], all ones on entry: in the lower half the signatures
//
// Mapping: a block per row, a thread per weight and level of it; darts meet by atomicMin. Bound: 64-bit multiplies;
// where a row has few weights, the chain of darts of one level. Geometry: the least dart of a bin is the same in any
// order, and no dart beyond the reach comes before one within it. Oracle: gpulsh/backends/reference/weighted.py.
#include "darts.cuh"

constexpr i32 DEPTH = 24;
constexpr i32 UNIT_BITS = 30;  // of the greatest weight of a row, in the units that the sum of a row is taken in

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    weighted_minhash(const u64* __restrict__ values, const u64* __restrict__ weights, const i64* __restrict__ offset,
                     u64 multiplier, u64 addend, u64 place_word, u64 value_word, const u64* __restrict__ table,
                     i64 wanted, i32 bins, u64* __restrict__ least) {
    const i64 begin = offset[blockIdx.x], end = offset[blockIdx.x + 1];
    volatile u64* found = least + (i64)blockIdx.x * bins;
    __shared__ i32 lowest, missing;  // the greatest exponent, negative
    __shared__ u64 mass;
    if (threadIdx.x == 0) {
        lowest = -MIN_EXPONENT + 1;
        mass = 0;
    }
    __syncthreads();
    for (i64 i = begin + threadIdx.x; i < end; i += blockDim.x) atomicMin(&lowest, -exponent_of(weights[i]));
    __syncthreads();
    if (-lowest < MIN_EXPONENT) return;  // the whole block
    for (i64 i = begin + threadIdx.x; i < end; i += blockDim.x) {
        const i32 below = -lowest - exponent_of(weights[i]);
        if (below <= UNIT_BITS) atomicAdd(&mass, 1ull << (UNIT_BITS - below));
    }
    __syncthreads();
    i32 reach = lowest;
    for (i64 darts = (i64)(mass >> UNIT_BITS); darts < wanted; darts *= 2) ++reach;
    for (;; ++reach) {
        for (i64 item = threadIdx.x; item < (end - begin) * DEPTH; item += blockDim.x) {
            const u64 weight = weights[begin + item / DEPTH];
            const i32 step = (i32)(item % DEPTH), level = exponent_of(weight) - step;
            if (exponent_of(weight) < MIN_EXPONENT) continue;
            const u64 limit = rank_limit(reach, level);
            Darts darts(table, multiplier, addend, place_word, value_word, values[begin + item / DEPTH], level);
            while (darts.next(limit)) {
                if (step > 0 || darts.fraction() < (weight & FRACTION)) {
                    atomicMin((u64*)&found[darts.bin(bins)], darts.order());
                }
            }
        }
        if (threadIdx.x == 0) missing = 0;
        __syncthreads();
        for (i32 bin = threadIdx.x; bin < bins; bin += blockDim.x) {
            if (found[bin] == NOTHING) missing = 1;
        }
        __syncthreads();
        if (missing == 0) return;  // the whole block
        __syncthreads();
    }
}
