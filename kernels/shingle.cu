// shingle: sums of token hashes to the fingerprints of all shingles, in text order.
//
//   in   sums u64 [tokens], of `shingle_hashes` mixed ones; starts i64 [documents + 1] (see tokens.cu), skip (tokens to
//        skip at the front of each document that has any: 1 for unit="char"), size (1 to 64 tokens per shingle),
//        rows i64 [documents + 1]: fingerprints before each document, keys u64 (see tokens.cu)
//   out  fingerprints u64 [rows[documents]]
//
// Mapping: a block takes 5 * threads consecutive tokens and the size - 1 behind them, mixed once into shared memory; a
// thread takes 5, an odd number, so that the lanes of a warp read different banks, and writes the shingle that begins
// at each, if one does. A key is read once for the five. Sums are of `size` tokens across the borders of documents;
// those that divide documents are dropped.
// Bound: arithmetic: `size` multiply-adds and two mixes of 64 bits per shingle; bytes: 16 per token.
// Geometry: a fingerprint is a function of its tokens and has one writer.
// Oracle: gpulsh/backends/reference/texts.py.
#include "search.cuh"

constexpr i32 MAX_SIZE = 64;
constexpr i32 TOKENS = 5;  // a thread

template <bool MIXED>
__device__ __forceinline__ void shingle_of(const u64* __restrict__ sums, i64 tokens, const i64* __restrict__ starts,
                                           i64 documents, i32 skip, i32 size, const i64* __restrict__ rows,
                                           const u64* __restrict__ all_keys, u64* __restrict__ fingerprints) {
    __shared__ u64 hashes[MAX_THREADS * TOKENS + MAX_SIZE - 1];
    __shared__ u64 keys[MAX_SIZE];
    __shared__ i64 range[2];
    const i32 length = (i32)blockDim.x * TOKENS;
    const i64 begin = (i64)blockIdx.x * length;
    const i32 loaded = (i32)min((i64)length + size - 1, tokens - begin);
#pragma unroll 1
    for (i32 i = threadIdx.x; i < loaded; i += blockDim.x) hashes[i] = MIXED ? sums[begin + i] : mix64(sums[begin + i]);
#pragma unroll 1
    for (i32 j = threadIdx.x; j < size; j += blockDim.x) keys[j] = all_keys[SHINGLE + j];
    block_range(starts, documents, begin, begin + length - 1, range);

    const i32 first = (i32)threadIdx.x * TOKENS;
    u64 sum[TOKENS];
#pragma unroll
    for (i32 k = 0; k < TOKENS; ++k) sum[k] = size * LENGTH;
#pragma unroll 1
    for (i32 j = 0; j < size; ++j) {
#pragma unroll
        for (i32 k = 0; k < TOKENS; ++k) sum[k] += keys[j] * hashes[first + j + k];
    }

    i64 next = upper_bound(starts, range[0], range[1], begin + first), end = 0, place = 0;  // of the document before
    u64* written = fingerprints;
#pragma unroll
    for (i32 k = 0; k < TOKENS; ++k, ++place) {
        const i64 token = begin + first + k;
        if (token >= tokens) break;
        if (k == 0 || token == end) {
            if (k > 0) next = upper_bound_near(starts, next + 1, documents, token);
            end = starts[next];
            place = token - starts[next - 1] - skip;
            written = fingerprints + rows[next - 1];
        }
        if (place < 0) continue;
        const i64 left = end - token;
        if (left >= size) {
            written[place] = mix64(sum[k]);
        } else if (place == 0) {  // all of a document that has fewer
            u64 fewer = left * LENGTH;
#pragma unroll 1
            for (i32 j = 0; j < left; ++j) fewer += keys[j] * hashes[first + j + k];
            written[0] = mix64(fewer);
        }
    }
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS, 4)
    shingle(const u64* __restrict__ sums, i64 tokens, const i64* __restrict__ starts, i64 documents, i32 skip, i32 size,
            const i64* __restrict__ rows, const u64* __restrict__ keys, u64* __restrict__ fingerprints) {
    shingle_of<false>(sums, tokens, starts, documents, skip, size, rows, keys, fingerprints);
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS, 4)
    shingle_hashes(const u64* __restrict__ hashes, i64 tokens, const i64* __restrict__ starts, i64 documents, i32 skip,
                   i32 size, const i64* __restrict__ rows, const u64* __restrict__ keys,
                   u64* __restrict__ fingerprints) {
    shingle_of<true>(hashes, tokens, starts, documents, skip, size, rows, keys, fingerprints);
}
