// tokens: text to the sums of token hashes and packed tokens, the first half of `shingle` and `exact_hashes`.
//
//   in   text u8 [>= offset[documents]], offset i64 [documents + 1], stage1 u16 [8704], stage2 i32 [blocks * 128],
//        characters (0: unit="word", 1: unit="char"), keys u64: all of a secret, or the public ones of near places
//        (`secret` says which); proof u64, all of a secret, for packed tokens
//   out  sums u64 [1 + tokens], zeros on entry: from the second on, a token's sum over places, before mix64, with
//        LENGTH added once a code point; the first is for code points before the first token: zeros
//        packed u64 [1 + tokens], likewise: packed tokens, of `tokens_sum_packed` alone
//        Kernels named `by_table` read the table for ASCII, too, as symbols or case need it.
//        starts i64 [documents + 1]: tokens before each document, and the number of all
//        hashes u64 [rows[documents]], of `tokens_hashes` alone: mixed sums, without tokens that the consumers skip
//
// Mapping: a block takes a tile of consecutive bytes, a thread per strip of 28, across the borders of documents.
// `tokens_documents` marks where documents begin, a thread per document; `tokens_count` finds the code points and where
// tokens start, as bit masks, and counts the tokens that start in each strip and the code points since the last start,
// scanned over the block; the caller adds up the blocks; `tokens_sum` reads text and masks and knows each code point's
// token and place; `tokens_starts` reads each document's start from the masks. `tokens_hashes` is a thread per token.
// For unit="char" a run of code points begins with a token for the space before it; a document's first token is then
// such a space, which the consumers skip. Bound: instructions, then bytes: the text twice, 12 per strip written and
// read, 8 per token. Geometry: a code point's token and place depend on counts over all text before it, never on where
// strips begin; sums are added modulo 2^64, in any order. Oracle: gpulsh/backends/reference/texts.py.
#include "search.cuh"
#include "text.cuh"
#include "warp.cuh"

constexpr u32 SPACE = 0x20;
constexpr u32 BEYOND_ASCII = 1u << 31;

// The effect of a run of bytes on the open token before it: tokens that start in it << 16 | code points since the
// last start, or since its begin if none starts. Both are at most 2 * MAX_THREADS * STRIP.
__device__ __forceinline__ u32 join(u32 left, u32 right) {
    return right + (right >> 16 ? left & 0xFFFF0000u : left);
}

// documents u32 [strips + 2], zeros on entry: [i + 1] has the bytes of strip i at which a document with bytes begins.
extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    tokens_documents(const i64* __restrict__ offset, i64 count, u32* documents) {
    const i64 document = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (document >= count || offset[document] == offset[document + 1]) return;
    const u64 position = offset[document] - offset[0];
    atomicOr(&documents[position / STRIP + 1], 1u << (u32)(position % STRIP));
}

// A strip's code_points u32 (with BEYOND_ASCII), token_starts u32, and state u32: `join` of the block's bytes before
// it. block_tokens, block_open i64 [blocks]: of each whole tile.
template <bool BY_TABLE>
__device__ __forceinline__ void tokens_count_of(const u8* __restrict__ text, const i64* __restrict__ offset, i64 count,
                                                const u32* __restrict__ documents, const u16* __restrict__ stage1,
                                                const i32* __restrict__ stage2, i32 characters,
                                                u32* __restrict__ code_points, u32* __restrict__ token_starts,
                                                u32* __restrict__ state, i64* __restrict__ block_tokens,
                                                i64* __restrict__ block_open) {
    __shared__ Vector tile[TILE_VECTORS];
    __shared__ u32 warps[MAX_THREADS / 32];
    const i64 first = offset[0], last = offset[count];
    const i64 begin = first + (i64)blockIdx.x * blockDim.x * STRIP;
    const i64 strip = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    const i32 at = load_tile(text, first, last, begin, tile) + (i32)threadIdx.x * STRIP;
    const Marks marks = mark<BY_TABLE>((const u32*)tile, at, documents + strip + 1, stage1, stage2, characters);
    code_points[strip] = marks.code_points | (marks.beyond_ascii ? BEYOND_ASCII : 0);
    token_starts[strip] = marks.starts;
    const u32 tokens = __popc(marks.starts) + (characters ? __popc(marks.code_points) : 0);
    // From the last start on; where none starts, all.
    const u32 open = __popc(marks.code_points >> (marks.starts ? 31 - __clz(marks.starts) : 0));

    // Scan: within warps by shuffles, then over the totals of the warps before.
    const i32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const u32 mask = mask_of_warp();
    u32 inclusive = tokens << 16 | open;
    for (i32 step = 1; step < 32; step *= 2) {
        const u32 left = __shfl_up_sync(mask, inclusive, step);
        if (lane >= step) inclusive = join(left, inclusive);
    }
    u32 before = __shfl_up_sync(mask, inclusive, 1);
    if (lane == 0) before = 0;
    if (lane == lanes_of_warp() - 1) warps[warp] = inclusive;
    __syncthreads();
    u32 earlier = 0;
#pragma unroll 1
    for (i32 i = 0; i < warp; ++i) earlier = join(earlier, warps[i]);
    state[strip] = join(earlier, before);
    if (threadIdx.x == blockDim.x - 1) {
        const u32 total = join(earlier, inclusive);
        block_tokens[blockIdx.x] = total >> 16;
        block_open[blockIdx.x] = total & 0xFFFF;
    }
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS, 4)
    tokens_count(const u8* __restrict__ text, const i64* __restrict__ offset, i64 count,
                 const u32* __restrict__ documents, const u16* __restrict__ stage1, const i32* __restrict__ stage2,
                 i32 characters, u32* __restrict__ code_points, u32* __restrict__ token_starts, u32* __restrict__ state,
                 i64* __restrict__ block_tokens, i64* __restrict__ block_open) {
    tokens_count_of<false>(text, offset, count, documents, stage1, stage2, characters, code_points, token_starts, state,
                           block_tokens, block_open);
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS, 4)
    tokens_count_by_table(const u8* __restrict__ text, const i64* __restrict__ offset, i64 count,
                          const u32* __restrict__ documents, const u16* __restrict__ stage1,
                          const i32* __restrict__ stage2, i32 characters, u32* __restrict__ code_points,
                          u32* __restrict__ token_starts, u32* __restrict__ state, i64* __restrict__ block_tokens,
                          i64* __restrict__ block_open) {
    tokens_count_of<true>(text, offset, count, documents, stage1, stage2, characters, code_points, token_starts, state,
                          block_tokens, block_open);
}

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
__device__ __forceinline__ void tokens_sum_of(const u8* __restrict__ text, const i64* __restrict__ offset, i64 count,
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
    const u32 found = code_points[strip], starts = token_starts[strip];
    const u32 tokens = state[strip] >> 16, open = state[strip] & 0xFFFF;
    u32 rest = found & ~BEYOND_ASCII;
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
    tokens_sum(const u8* __restrict__ text, const i64* __restrict__ offset, i64 count, const u16* __restrict__ stage1,
               const i32* __restrict__ stage2, i32 characters, const u32* __restrict__ code_points,
               const u32* __restrict__ token_starts, const u32* __restrict__ state, const i64* __restrict__ tokens_end,
               const i64* __restrict__ open_end, const u64* __restrict__ keys, i32 secret, u64* __restrict__ sums) {
    tokens_sum_of<false, false>(text, offset, count, stage1, stage2, characters, code_points, token_starts, state,
                                tokens_end, open_end, keys, secret, sums, nullptr, nullptr);
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS, 4)
    tokens_sum_packed(const u8* __restrict__ text, const i64* __restrict__ offset, i64 count,
                      const u16* __restrict__ stage1, const i32* __restrict__ stage2, i32 characters,
                      const u32* __restrict__ code_points, const u32* __restrict__ token_starts,
                      const u32* __restrict__ state, const i64* __restrict__ tokens_end,
                      const i64* __restrict__ open_end, const u64* __restrict__ keys, i32 secret,
                      u64* __restrict__ sums, const u64* __restrict__ proof, u64* __restrict__ packed) {
    tokens_sum_of<true, false>(text, offset, count, stage1, stage2, characters, code_points, token_starts, state,
                               tokens_end, open_end, keys, secret, sums, proof, packed);
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS, 4)
    tokens_sum_by_table(const u8* __restrict__ text, const i64* __restrict__ offset, i64 count,
                        const u16* __restrict__ stage1, const i32* __restrict__ stage2, i32 characters,
                        const u32* __restrict__ code_points, const u32* __restrict__ token_starts,
                        const u32* __restrict__ state, const i64* __restrict__ tokens_end,
                        const i64* __restrict__ open_end, const u64* __restrict__ keys, i32 secret,
                        u64* __restrict__ sums) {
    tokens_sum_of<false, true>(text, offset, count, stage1, stage2, characters, code_points, token_starts, state,
                               tokens_end, open_end, keys, secret, sums, nullptr, nullptr);
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS, 4)
    tokens_sum_packed_by_table(const u8* __restrict__ text, const i64* __restrict__ offset, i64 count,
                               const u16* __restrict__ stage1, const i32* __restrict__ stage2, i32 characters,
                               const u32* __restrict__ code_points, const u32* __restrict__ token_starts,
                               const u32* __restrict__ state, const i64* __restrict__ tokens_end,
                               const i64* __restrict__ open_end, const u64* __restrict__ keys, i32 secret,
                               u64* __restrict__ sums, const u64* __restrict__ proof, u64* __restrict__ packed) {
    tokens_sum_of<true, true>(text, offset, count, stage1, stage2, characters, code_points, token_starts, state,
                              tokens_end, open_end, keys, secret, sums, proof, packed);
}

// A thread per document, and one for the end. `threads`: strips per block of `tokens_count`.
extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    tokens_starts(const i64* __restrict__ offset, i64 count, i32 characters, i32 threads, i64 blocks,
                  const u32* __restrict__ code_points, const u32* __restrict__ token_starts,
                  const u32* __restrict__ state, const i64* __restrict__ tokens_end, i64* __restrict__ starts) {
    const i64 document = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (document > count) return;
    if (offset[document] == offset[count]) {
        starts[document] = tokens_end[blocks - 1];
        return;
    }
    const u64 position = offset[document] - offset[0];
    const u64 strip = position / STRIP, block = strip / (u32)threads;
    const u32 before = (1u << (u32)(position % STRIP)) - 1;
    i64 tokens = (state[strip] >> 16) + __popc(token_starts[strip] & before);
    if (characters) tokens += __popc(code_points[strip] & before);
    starts[document] = tokens + (block > 0 ? tokens_end[block - 1] : 0);
}

// `sums` without the first; rows i64 [documents + 1]: hashes before each document, `skip` fewer than `starts` a
// document that has any.
extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    tokens_hashes(const u64* __restrict__ sums, i64 tokens, const i64* __restrict__ starts, i64 documents, i32 skip,
                  const i64* __restrict__ rows, u64* __restrict__ hashes) {
    const i64 token = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (token >= tokens) return;
    const i64 document = upper_bound(starts, 0, documents, token) - 1;
    const i64 place = token - starts[document] - skip;
    if (place >= 0) hashes[rows[document] + place] = mix64(sums[token]);
}
