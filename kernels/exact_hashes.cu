// exact_hashes: packed tokens to a 128-bit hash of each document's token sequence.
//
//   in   packed u64 [tokens], starts i64 [documents + 1] (see tokens.cu), skip (as in shingle.cu), before (tokens of a
//        document in the pieces of its text before this one; 0 for whole documents), items (tokens per thread), keys
//        u64, all of a secret
//   out  hashes u64 [documents, 2], to which it adds: zeros before the first piece
//
// Mapping: a thread takes `items` consecutive tokens and adds each document's share with two atomics; a warp whose
// threads all end in one document adds their shares of it together. Bound: arithmetic, six products a token; bytes: 8 a
// token. Geometry: sums modulo 2^64 are the same in any order and split. Oracle: gpulsh/backends/reference/texts.py.
#include "search.cuh"
#include "warp.cuh"

__device__ __forceinline__ u64 reversed_bytes(u64 x) {
    return (u64)__byte_perm((u32)x, 0, 0x0123) << 32 | __byte_perm((u32)(x >> 32), 0, 0x0123);
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS, 5)
    exact_hashes(const u64* __restrict__ packed, i64 tokens, const i64* __restrict__ starts, i64 documents, i32 skip,
                 i64 before, i32 items, const u64* __restrict__ keys, u64* __restrict__ hashes) {
    __shared__ i64 range[2];
    const i64 begin = (i64)blockIdx.x * blockDim.x * items;
    block_range(starts, documents, begin, begin + (i64)blockDim.x * items - 1, range);
    const i64 from = begin + (i64)threadIdx.x * items;
    const i64 to = min(from + items, tokens);

    const u64 *near = keys + EXACT, *far = keys + EXACT_FAR, *far_high = far + LEVELS * DIGITS;
    const u64 spread = keys[EXACT_SPREAD], spread_high = keys[EXACT_SPREAD + 1];
    i64 document = upper_bound(starts, range[0], range[1], min(from, tokens - 1)) - 1;
    u64 low = 0, high = 0, factor = 1, factor_high = 1, number = 0;  // the factors belong to `number`
    for (i64 token = from; token < to; ++token) {
        if (token == starts[document + 1]) {
            atomicAdd(&hashes[2 * document], low);
            atomicAdd(&hashes[2 * document + 1], high);
            low = high = 0;
            document = upper_bound_near(starts, document + 2, range[1], token) - 1;
        }
        const i64 place = token - starts[document] - skip;
        if (place < 0) continue;
        const u64 at = (u64)(before + place);
        if (at / EXACT_PLACES != number) {
            number = at / EXACT_PLACES;
            factor = far_key(far, number);
            factor_high = far_key(far_high, number);
        }
        const i32 first = (i32)(at % EXACT_PLACES);
        low += near[first] * factor * reversed_bytes(packed[token] * spread);
        high += near[EXACT_PLACES + first] * factor_high * reversed_bytes(packed[token] * spread_high);
    }
    const u32 mask = mask_of_warp();
    if (__all_sync(mask, document == __shfl_sync(mask, document, 0))) {
        low = sum_through_lane(low);
        high = sum_through_lane(high);
        if ((threadIdx.x & 31) != lanes_of_warp() - 1) return;
    }
    atomicAdd(&hashes[2 * document], low);
    atomicAdd(&hashes[2 * document + 1], high);
}
