// fast_similarity: each document's fingerprints thrown into `bins` bins, in rounds, until no bin is empty.
//
//   in   values u64 [>= offset[documents]], offset i64 [documents + 1], words u64 [2 THROWS + bins], two for each round
//        and one for each bin, bins, span (fingerprints per warp, at most MAX_SPAN)
//   out  minima u32 [documents, bins], all ones on entry: the round << VALUE_BITS | the least value thrown in it
//
// Mapping: in the first round a warp takes `span` consecutive fingerprints, across the borders of documents, a lane a
// fingerprint; for the rest a block takes a document: a thread per fingerprint in each round, and a warp per bin for
// those that stayed empty. All meet by atomicMin. Bound: atomics in the second-level cache; of a document with few
// fingerprints per bin, the minima of the bins that stayed empty. Geometry: a bin has the least of all values, and no
// round after the one that filled it has a lesser one. Oracle: gpulsh/backends/reference/sketches.py.
#include "span_walk.cuh"

// The half of a fingerprint, hashed by a word.
__device__ __forceinline__ u32 hashed(u64 word, u32 half) {
    return ((u32)(word >> 32) | 1) * half + (u32)word;
}

struct Throw {  // of a fingerprint in one round
    i32 bin;
    u32 value;

    __device__ __forceinline__ Throw(u64 x, const u64* __restrict__ words, i32 round, i32 bins)
        : bin((i32)((u64)hashed(words[2 * round], (u32)(x >> 32)) * (u32)bins >> 32)),
          value((u32)round << VALUE_BITS | hashed(words[2 * round + 1], (u32)x) >> (32 - VALUE_BITS)) {}
};

extern "C" __global__ void __launch_bounds__(SPAN_THREADS)
    first_round(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents,
                const u64* __restrict__ words, i32 bins, i32 span, u32* __restrict__ minima) {
    const i32 lane = threadIdx.x & 31;
    Rows rows(offset, documents, span);
    for (i32 at = 0; at < rows.length;) {
        const i32 to = rows.find(at);
        for (i32 i = at + lane; i < to; i += 32) {
            const Throw thrown(values[rows.begin + i], words, 0, bins);
            atomicMin(&minima[rows.row * bins + thrown.bin], thrown.value);
        }
        at = to;
    }
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    later_rounds(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents,
                 const u64* __restrict__ words, i32 bins, u32* __restrict__ minima) {
    const i64 document = blockIdx.x, begin = offset[document], end = offset[document + 1];
    if (begin == end) return;  // the whole block
    volatile u32* found = minima + document * bins;
    __shared__ i32 empty;
    for (i32 round = 1; round <= THROWS; ++round) {
        if (threadIdx.x == 0) empty = 0;
        __syncthreads();
        i32 mine = 0;
        for (i32 bin = threadIdx.x; bin < bins; bin += blockDim.x) mine += found[bin] == NO_VALUE;
        if (mine > 0) atomicAdd(&empty, mine);
        __syncthreads();
        if (empty == 0) return;  // the whole block
        if (round < THROWS) {
            for (i64 i = begin + threadIdx.x; i < end; i += blockDim.x) {
                const Throw thrown(values[i], words, round, bins);
                if (found[thrown.bin] > thrown.value) atomicMin((u32*)&found[thrown.bin], thrown.value);
            }
        }
        __syncthreads();
    }
    const i32 lane = threadIdx.x & 31;
    for (i32 bin = threadIdx.x >> 5; bin < bins; bin += blockDim.x >> 5) {
        if (found[bin] != NO_VALUE) continue;  // the whole warp
        const u32 multiplier = (u32)(words[2 * THROWS + bin] >> 32) | 1;
        u32 least = NO_VALUE;
#pragma unroll 4
        for (i64 i = begin + lane; i < end; i += 32) least = min(least, multiplier * (u32)(values[i] >> 32));
        least = least_of_lanes(least);
        if (lane == 0) found[bin] = (u32)THROWS << VALUE_BITS | least >> (32 - VALUE_BITS);
    }
}
