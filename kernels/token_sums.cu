// token_sums: the masks of `tokens` and the text to the sums of token hashes and packed tokens, the first half of
// `shingle` and `exact_hashes`.
//
//   in   as `tokens`, and its results; keys u64: all of a secret, or the public ones of near places (`secret` says
//        which); proof u64, all of a secret, for packed tokens
//   out  sums u64 [1 + tokens], zeros on entry: from the second on, a token's sum over places, before mix64, with
//        LENGTH added once a code point; the first is for code points before the first token: zeros
//        packed u64 [1 + tokens], likewise: packed tokens, of `token_sums_packed` alone
//        hashes u64 [rows[documents]], of `token_hashes` alone: mixed sums, without tokens that the consumers skip
//
// Mapping: the strips and tiles of `tokens`: `token_sums` reads text and masks and knows each code point's token and
// place. `token_hashes` is a thread per token. Bound: instructions, then bytes: the text, 12 per strip, 8 per token.
// Geometry: a code point's token and place depend on counts over all text before it, never on where strips begin; sums
// are added modulo 2^64, in any order. Oracle: gpulsh/backends/reference/texts.py.
#include "search.cuh"
#include "text.cuh"

constexpr u32 SPACE = 0x20;

// The folded code point that begins at a byte of the tile, known to be of class word or single.
template <bool BY_TABLE>
__device__ __forceinline__ u32 folded(const u32* tile, i32 byte, const u16* __restrict__ stage1,
                                      const i32* __restrict__ stage2) {
    const u32 lead = ((const u8*)tile)[byte];
    if (lead < 0x80) return BY_TABLE ? lead + (classify(lead, stage1, stage2) >> 2) : fold_ascii(lead);
    const u32 found = code_point(four_bytes(tile, byte), sequence_length(lead));
    return found + (classify(found, stage1, stage2) >> 2);
}

// Secret or public keys of places: the near ones in shared memory.
struct PlaceKeys {
    const u64 *near, *all;
    bool secret;

    // A place of 32 bits is known to be below PLACES.
    __device__ __forceinline__ u64 at(u32 place) const { return near[place]; }
    __device__ __forceinline__ u64 at(u64 place) const {
        if (place < PLACES) return near[place];
        return secret ? near[place % PLACES] * far_key(all + TOKEN_FAR, place / PLACES) : key(STREAM_TOKEN, place);
    }
};

// The share of a folded code point in its packed token.
template <class Place>
__device__ __forceinline__ u64 packed_term(const PlaceKeys& proof, Place place, u32 value) {
    return place < 8 && value < 0x80 ? (u64)value << (8 * (u32)place) : proof.at(place) * value;
}

// Adds a strip's code points to the sums of their tokens, from `sums` on, the token with `place` code points
// before the strip; with PACKS to `packed`, too. A Place of 32 bits says that all places are below PLACES.
template <bool PACKS, bool BY_TABLE, class Place>
__device__ __forceinline__ void add(const u32* tile, i32 at, u32 code_points, u32 starts, const PlaceKeys& keys,
                                    const PlaceKeys& proof, Place place, u64* sums, u64* packed,
                                    const u16* __restrict__ stage1, const i32* __restrict__ stage2) {
    u64 sum = 0 - place * LENGTH, pack = 0;  // of this strip's code points of the open token, without LENGTH
    bool whole = false;                      // whether the open token begins in this strip: then no other adds to it
    while (code_points != 0) {
        const u32 bit = code_points & (0 - code_points);
        code_points ^= bit;
        const u32 value = folded<BY_TABLE>(tile, at + __ffs(bit) - 1, stage1, stage2);
        if (starts & bit) {
            if (whole) {
                *sums = sum + place * LENGTH;
                if (PACKS) *packed = pack;
            } else {
                atomicAdd(sums, sum + place * LENGTH);
                if (PACKS) atomicAdd(packed, pack);
            }
            ++sums;
            if (PACKS) ++packed;
            whole = true;
            place = 0;
            sum = pack = 0;
        }
        sum += keys.at(place) * value;
        if (PACKS) pack += packed_term(proof, place, value);
        ++place;
    }
    atomicAdd(sums, sum + place * LENGTH);
    if (PACKS) atomicAdd(packed, pack);
}

// tokens_end, open_end i64 [blocks]: inclusive sums of block_tokens and block_open. Same grid and block as
// `tokens_count`.
template <bool PACKS, bool BY_TABLE>
__device__ __forceinline__ void token_sums_of(const u8* __restrict__ text, const i64* __restrict__ offset, i64 count,
                                              const u16* __restrict__ stage1, const i32* __restrict__ stage2,
                                              i32 characters, const u32* __restrict__ code_points,
                                              const u32* __restrict__ token_starts, const u32* __restrict__ state,
                                              const i64* __restrict__ tokens_end, const i64* __restrict__ open_end,
                                              const u64* __restrict__ all_keys, i32 secret, u64* __restrict__ sums,
                                              const u64* __restrict__ all_proof, u64* __restrict__ packed) {
    __shared__ Vector tile[TILE_VECTORS];
    __shared__ u64 near_keys[PLACES], near_proof[PLACES];
    __shared__ i64 carried;  // code points of the token that is open where this tile begins
    const i64 first = offset[0];
    const i64 begin = first + (i64)blockIdx.x * blockDim.x * STRIP;
    const i64 earlier = blockIdx.x > 0 ? tokens_end[blockIdx.x - 1] : 0;
    if (threadIdx.x == 0) {
        carried = 0;
        if (blockIdx.x > 0) {
            // The block in which the open token starts, mostly the last; all code points of the blocks between are its.
            const bool last = blockIdx.x > 1 && tokens_end[blockIdx.x - 2] < earlier;
            const i64 origin = last ? blockIdx.x - 1 : upper_bound(tokens_end, 0, blockIdx.x, earlier - 1);
            carried = open_end[blockIdx.x - 1] - (origin > 0 ? open_end[origin - 1] : 0);
        }
    }
    for (i32 i = threadIdx.x; i < PLACES; i += blockDim.x) {
        near_keys[i] = all_keys[i];
        if (PACKS) near_proof[i] = all_proof[i];
    }
    const PlaceKeys keys = {near_keys, all_keys, secret != 0}, proof = {near_proof, all_proof, true};
    const i32 at = load_tile(text, first, offset[count], begin, tile) + BEFORE + (i32)threadIdx.x * STRIP;
    const u32* words = (const u32*)tile;

    const i64 strip = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    const u32 starts = token_starts[strip], tokens = state[strip] >> 16, open = state[strip] & 0xFFFF;
    u32 rest = code_points[strip];
    i64 next = 1 + earlier + tokens;
    if (characters) {
        while (rest != 0) {
            const u32 bit = rest & (0 - rest);
            rest ^= bit;
            if (starts & bit) {
                if (PACKS) packed[next] = SPACE;
                sums[next++] = near_keys[0] * SPACE + LENGTH;
            }
            const u32 value = folded<BY_TABLE>(words, at + __ffs(bit) - 1, stage1, stage2);
            if (PACKS) packed[next] = packed_term(proof, 0u, value);
            sums[next++] = near_keys[0] * value + LENGTH;
        }
        return;
    }
    const u64 place = open + (tokens > 0 ? 0 : (u64)carried);
    u64 *into = sums + next - 1, *packs = packed + next - 1;
    if (place <= PLACES - STRIP) {
        add<PACKS, BY_TABLE, u32>(words, at, rest, starts, keys, proof, place, into, packs, stage1, stage2);
    } else {
        add<PACKS, BY_TABLE, u64>(words, at, rest, starts, keys, proof, place, into, packs, stage1, stage2);
    }
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS, 4)
    token_sums(const u8* __restrict__ text, const i64* __restrict__ offset, i64 count, const u16* __restrict__ stage1,
               const i32* __restrict__ stage2, i32 characters, const u32* __restrict__ code_points,
               const u32* __restrict__ token_starts, const u32* __restrict__ state, const i64* __restrict__ tokens_end,
               const i64* __restrict__ open_end, const u64* __restrict__ keys, i32 secret, u64* __restrict__ sums) {
    token_sums_of<false, false>(text, offset, count, stage1, stage2, characters, code_points, token_starts, state,
                                tokens_end, open_end, keys, secret, sums, nullptr, nullptr);
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS, 4)
    token_sums_packed(const u8* __restrict__ text, const i64* __restrict__ offset, i64 count,
                      const u16* __restrict__ stage1, const i32* __restrict__ stage2, i32 characters,
                      const u32* __restrict__ code_points, const u32* __restrict__ token_starts,
                      const u32* __restrict__ state, const i64* __restrict__ tokens_end,
                      const i64* __restrict__ open_end, const u64* __restrict__ keys, i32 secret,
                      u64* __restrict__ sums, const u64* __restrict__ proof, u64* __restrict__ packed) {
    token_sums_of<true, false>(text, offset, count, stage1, stage2, characters, code_points, token_starts, state,
                               tokens_end, open_end, keys, secret, sums, proof, packed);
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS, 4)
    token_sums_by_table(const u8* __restrict__ text, const i64* __restrict__ offset, i64 count,
                        const u16* __restrict__ stage1, const i32* __restrict__ stage2, i32 characters,
                        const u32* __restrict__ code_points, const u32* __restrict__ token_starts,
                        const u32* __restrict__ state, const i64* __restrict__ tokens_end,
                        const i64* __restrict__ open_end, const u64* __restrict__ keys, i32 secret,
                        u64* __restrict__ sums) {
    token_sums_of<false, true>(text, offset, count, stage1, stage2, characters, code_points, token_starts, state,
                               tokens_end, open_end, keys, secret, sums, nullptr, nullptr);
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS, 4)
    token_sums_packed_by_table(const u8* __restrict__ text, const i64* __restrict__ offset, i64 count,
                               const u16* __restrict__ stage1, const i32* __restrict__ stage2, i32 characters,
                               const u32* __restrict__ code_points, const u32* __restrict__ token_starts,
                               const u32* __restrict__ state, const i64* __restrict__ tokens_end,
                               const i64* __restrict__ open_end, const u64* __restrict__ keys, i32 secret,
                               u64* __restrict__ sums, const u64* __restrict__ proof, u64* __restrict__ packed) {
    token_sums_of<true, true>(text, offset, count, stage1, stage2, characters, code_points, token_starts, state,
                              tokens_end, open_end, keys, secret, sums, proof, packed);
}

// `sums` without the first; rows i64 [documents + 1]: hashes before each document, `skip` fewer than `starts` a
// document that has any.
extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    token_hashes(const u64* __restrict__ sums, i64 tokens, const i64* __restrict__ starts, i64 documents, i32 skip,
                 const i64* __restrict__ rows, u64* __restrict__ hashes) {
    const i64 token = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (token >= tokens) return;
    const i64 document = upper_bound(starts, 0, documents, token) - 1;
    const i64 place = token - starts[document] - skip;
    if (place >= 0) hashes[rows[document] + place] = mix64(sums[token]);
}
