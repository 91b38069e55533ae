// fast_similarity: each document's fingerprints thrown into `bins` bins, in rounds, until no bin is empty.
//
//   in   values u64 [>= offset[documents]], offset i64 [documents + 1], multiplier, addend u64 [2 bins], of the rounds,
//        bins, span (fingerprints a warp, at most MAX_SPAN)
//   out  state u64 [documents, bins], all ones on entry: the round << VALUE_BITS | the least value thrown there in it
//
//   in   state u64 [count]
//   out  signatures u32 [count]; all ones where a document is empty
//
// Mapping: in the first round a warp takes `span` consecutive fingerprints, whatever documents they belong to; for the
// later ones a block takes a document, and a thread every blockDim.x-th fingerprint; all meet by atomicMin. To finish,
// a thread a bin. Bound: atomics in the second-level cache; of a document with few fingerprints a bin, rounds, each
// with a barrier. Geometry: a bin's value is the least of all rounds, and no round after the one that filled it is
// less. Oracle: gpulsh/backends/reference/sketches/fast_similarity.py.
#include "span_walk.cuh"

constexpr i32 VALUE_BITS = 64 - ROUND_BITS;
constexpr u64 VALUE = (1ull << VALUE_BITS) - 1;
constexpr u64 EMPTY = ~0ull;

extern "C" __global__ void __launch_bounds__(SPAN_THREADS)
    first_round(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents,
                const u64* __restrict__ multiplier, const u64* __restrict__ addend, i32 bins, i32 span,
                u64* __restrict__ state) {
    const i32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const i64 begin = offset[0] + ((i64)blockIdx.x * (blockDim.x >> 5) + warp) * span;
    const i32 length = (i32)min((i64)span, offset[documents] - begin);
    if (length <= 0) return;  // the whole warp
    const u64 a = multiplier[0], b = addend[0];
    Rows rows(offset, documents, begin);
    for (i32 at = 0; at < length;) {
        rows.find(at);
        const i32 to = min(rows.stop, length);
        u64* found = state + rows.row * bins;
        for (i32 i = at + lane; i < to; i += 32) {
            const u64 y = a * values[begin + i] + b;
            atomicMin(&found[(y >> 32) * (u64)bins >> 32], y & VALUE);
        }
        at = to;
    }
}

extern "C" __global__ void __launch_bounds__(SPAN_THREADS)
    later_rounds(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents,
                 const u64* __restrict__ multiplier, const u64* __restrict__ addend, i32 bins,
                 u64* __restrict__ state) {
    const i64 document = blockIdx.x, begin = offset[document], end = offset[document + 1];
    if (begin == end) return;  // the whole block
    volatile u64* found = state + document * bins;
    __shared__ i32 empty;
    for (i32 round = 1; round <= 2 * bins; ++round) {
        if (threadIdx.x == 0) empty = 0;
        __syncthreads();
        i32 mine = 0;
        for (i32 bin = threadIdx.x; bin < bins; bin += blockDim.x) mine += found[bin] == EMPTY;
        if (mine > 0) atomicAdd(&empty, mine);
        __syncthreads();
        if (empty == 0) return;  // the whole block
        const u64 a = multiplier[round], b = addend[round], before = (u64)round << VALUE_BITS;
        const bool one = round >= bins;  // bin, that of the round's number
        if (!one || found[round - bins] >= before) {
            for (i64 i = begin + threadIdx.x; i < end; i += blockDim.x) {
                const u64 y = a * values[i] + b;
                const i32 bin = one ? round - bins : (i32)((y >> 32) * (u64)bins >> 32);
                if (found[bin] >= before) atomicMin((u64*)&found[bin], before | (y & VALUE));
            }
        }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    finish(const u64* __restrict__ state, i64 count, u32* __restrict__ signatures) {
    const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    signatures[i] = state[i] == EMPTY ? NO_VALUE : min((u32)(mix64(state[i]) >> 32), NO_VALUE - 1);
}
