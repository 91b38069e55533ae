// shingle: sums of token hashes to the fingerprints of all shingles, in text order.
//
//   in   sums u64 [tokens], starts i64 [documents + 1] (see tokens.cu), skip (tokens to skip at the front of each
//   document
//        that has any: 1 for unit="char"), size (1 to 64 tokens a shingle), rows i64 [documents + 1]: fingerprints
//        before each document
//   out  fingerprints u64 [rows[documents]]
//
// Mapping: a block takes `items` * threads consecutive tokens and the size - 1 behind them, mixed once into shared
// memory; a thread writes the shingle that begins at its token, if one does. Bound: arithmetic: `size` multiply-adds
// and two mixes of 64 bits a shingle; bytes: 16 a token. Geometry: a fingerprint is a function of its tokens and has
// one writer. Oracle: gpulsh/backends/reference/shingle.py.
#include "search.cuh"

constexpr i32 MAX_SIZE = 64;
constexpr i32 MAX_TOKENS = 1024;  // a block

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    shingle(const u64* __restrict__ sums, i64 tokens, const i64* __restrict__ starts, i64 documents, i32 skip, i32 size,
            i32 items, const i64* __restrict__ rows, u64* __restrict__ fingerprints) {
    __shared__ u64 hashes[MAX_TOKENS + MAX_SIZE - 1];
    __shared__ u64 keys[MAX_SIZE];
    __shared__ i64 range[2];
    const i64 begin = (i64)blockIdx.x * blockDim.x * items;
    const i32 length = (i32)min((i64)blockDim.x * items, tokens - begin);
    const i32 loaded = (i32)min((i64)length + size - 1, tokens - begin);
    for (i32 i = threadIdx.x; i < loaded; i += blockDim.x) hashes[i] = mix64(sums[begin + i]);
    for (i32 j = threadIdx.x; j < size; j += blockDim.x) keys[j] = key(STREAM_SHINGLE, j);
    block_range(starts, documents, begin, begin + length - 1, range);

    for (i32 i = threadIdx.x; i < length; i += blockDim.x) {
        const i64 document = upper_bound(starts, range[0], range[1], begin + i) - 1;
        const i64 first = starts[document] + skip;
        const i64 count = starts[document + 1] - first;
        const i64 place = begin + i - first;
        const i32 used = (i32)min((i64)size, count);
        if (place < 0 || place + used > count) continue;
        u64 sum = used * LENGTH;
        for (i32 j = 0; j < used; ++j) sum += keys[j] * hashes[i + j];
        fingerprints[rows[document] + place] = mix64(sum);
    }
}
