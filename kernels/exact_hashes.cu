// exact_hashes: sums of token hashes to a 128-bit hash of each document's token sequence.
//
//   in   sums u64 [tokens], starts i64 [documents + 1] (see tokens.cu), skip (as in shingle.cu), before (tokens of a
//        document in the pieces of its text before this one; 0 for whole documents), items (tokens a thread)
//   out  hashes u64 [documents, 2], to which `exact_hashes_sum` adds: zeros before the first piece. When all pieces are
//        added, `exact_hashes_mix` mixes each of the `words` of hashes; mix64(0) is 0, so that (0, 0) stays where a
//        document has no token
//
// Mapping: a thread takes `items` consecutive tokens and adds each document's share with one atomic a word; then a
// thread a word mixes. Bound: arithmetic, three mixes a token; bytes: 8 a token. Geometry: sums modulo 2^64 are the
// same in any order and split. Oracle: gpulsh/backends/reference/shingle.py.
#include "search.cuh"

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    exact_hashes_sum(const u64* __restrict__ sums, i64 tokens, const i64* __restrict__ starts, i64 documents, i32 skip,
                     i64 before, i32 items, u64* __restrict__ hashes) {
    __shared__ i64 range[2];
    const i64 begin = (i64)blockIdx.x * blockDim.x * items;
    block_range(starts, documents, begin, begin + (i64)blockDim.x * items - 1, range);
    const i64 from = begin + (i64)threadIdx.x * items;
    const i64 to = min(from + items, tokens);
    if (from >= to) return;

    i64 document = upper_bound(starts, range[0], range[1], from) - 1;
    u64 low = 0, high = 0;
    for (i64 token = from; token < to; ++token) {
        if (token == starts[document + 1]) {
            atomicAdd(&hashes[2 * document], low);
            atomicAdd(&hashes[2 * document + 1], high);
            low = high = 0;
            document = upper_bound_near(starts, document + 2, range[1], token) - 1;
        }
        const i64 place = token - starts[document] - skip;
        if (place < 0) continue;
        const u64 mixed = mix64(mix64(sums[token]) + (u64)(before + place + 1) * GOLDEN);
        low += mixed + LENGTH;
        high += mix64(mixed ^ EXACT_2) + LENGTH;
    }
    atomicAdd(&hashes[2 * document], low);
    atomicAdd(&hashes[2 * document + 1], high);
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS) exact_hashes_mix(u64* __restrict__ hashes, i64 words) {
    const i64 word = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (word < words) hashes[word] = mix64(hashes[word]);
}
