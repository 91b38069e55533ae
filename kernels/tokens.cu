// tokens: text to the sums of token hashes, the first half of `shingle` and `exact_hashes`.
//
//   in   text u8 [>= offset[documents]], offset i64 [documents + 1], stage1 u16 [8704], stage2 i32 [blocks * 128],
//        characters (0: unit="word", 1: unit="char"), items (bytes a thread)
//   out  sums u64 [tokens]: a token's sum over places, before mix64, with LENGTH added once a code point
//        starts i64 [documents + 1]: tokens before each document; the caller sets the last, the number of all tokens
//
// Mapping: a block takes a tile of consecutive bytes, a thread `items` of them, whatever documents they belong to.
// `tokens_count` counts the tokens that start in each thread's bytes and the code points since the last start, and
// scans both over the block; the caller adds up the blocks; `tokens_sum` reads the text again and knows each code
// point's token and place; `tokens_starts` gives empty documents the start of what follows them. For unit="char" a run
// of code points begins with a token for the space before it; a document's first token is then such a space, which the
// consumers skip. Bound: integer arithmetic (about 40 instructions a byte), then bytes: the text twice, 8 a token.
// Geometry: a code point's token and place depend on counts over all text before it, never on where tiles begin; sums
// are added modulo 2^64, in any order. Oracle: gpulsh/backends/reference/tokens.py.
#include "text.cuh"

// What a run of bytes does to the token that is open before it.
struct Run {
    u32 tokens;  // that start in it
    u32 open;    // code points since the last start, or since its begin where none starts
};

__device__ __forceinline__ Run join(Run left, Run right) {
    return {left.tokens + right.tokens, right.tokens > 0 ? right.open : left.open + right.open};
}

__device__ __forceinline__ bool starts_token(i32 klass, i32 previous) {
    return klass == SINGLE || previous != WORD;
}

struct Counter {
    Run run;
    i32 characters;

    __device__ __forceinline__ void document(i64) {}

    __device__ __forceinline__ void code_point(u32, i32 klass, i32 previous) {
        if (characters) {
            run.tokens += previous == SEPARATOR ? 2 : 1;
        } else if (starts_token(klass, previous)) {
            run.tokens += 1;
            run.open = 1;
        } else {
            run.open += 1;
        }
    }
};

// Word units add to sums from many threads; character units write each sum once.
struct Adder {
    u64* sums;
    i64* starts;
    i64 next;   // token that starts next
    u64 place;  // of the next code point in the open token, next - 1
    u64 sum;    // of this thread's code points in it, not yet added
    i32 characters;

    __device__ __forceinline__ void document(i64 document) { starts[document] = next; }

    __device__ __forceinline__ void flush() {
        if (sum != 0)
            atomicAdd(&sums[next - 1], sum);  // adding 0 changes nothing, and before the first token none is open
        sum = 0;
    }

    __device__ __forceinline__ void code_point(u32 folded, i32 klass, i32 previous) {
        if (characters) {
            if (previous == SEPARATOR) sums[next++] = key(STREAM_TOKEN, 0) * SPACE + LENGTH;
            sums[next++] = key(STREAM_TOKEN, 0) * folded + LENGTH;
            return;
        }
        if (starts_token(klass, previous)) {
            flush();
            ++next;
            place = 0;
        }
        sum += key(STREAM_TOKEN, place) * folded + LENGTH;
        ++place;
    }
};

// state u32 [blocks * threads]: tokens << 16 | open of the block's bytes before each thread's (both at most 2 *
// MAX_TILE); block_tokens, block_open i64 [blocks]: of each whole tile.
extern "C" __global__ void __launch_bounds__(MAX_THREADS, 4)
    tokens_count(const u8* __restrict__ text, const i64* __restrict__ offset, i64 documents,
                 const u16* __restrict__ stage1, const i32* __restrict__ stage2, i32 characters, i32 items,
                 u32* __restrict__ state, i64* __restrict__ block_tokens, i64* __restrict__ block_open) {
    __shared__ u8 tile[BEFORE + MAX_TILE + AFTER];
    __shared__ i64 range[2];
    __shared__ Run warps[MAX_THREADS / 32];
    const i64 last = offset[documents];
    const i64 begin = offset[0] + (i64)blockIdx.x * blockDim.x * items;
    const i32 length = (i32)min((i64)blockDim.x * items, last - begin);
    load_tile(text, offset[0], last, begin, length, tile);
    block_range(offset, documents, begin - 1, begin + length - 1, range);

    Counter counter = {{0, 0}, characters};
    const i32 from = threadIdx.x * items;
    if (from < length) {
        const i64 next = upper_bound(offset, range[0], range[1], begin + from - 1);
        walk(tile + BEFORE, begin, from, min(from + items, length), offset, next, documents, stage1, stage2, counter);
    }

    // Scan: within warps by shuffles, then over the totals of the warps before.
    const i32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, lanes = min(32, (i32)blockDim.x - warp * 32);
    const u32 mask = 0xFFFFFFFFu >> (32 - lanes);
    Run inclusive = counter.run;
    for (i32 step = 1; step < 32; step *= 2) {
        const Run left = {__shfl_up_sync(mask, inclusive.tokens, step), __shfl_up_sync(mask, inclusive.open, step)};
        if (lane >= step) inclusive = join(left, inclusive);
    }
    Run before = {__shfl_up_sync(mask, inclusive.tokens, 1), __shfl_up_sync(mask, inclusive.open, 1)};
    if (lane == 0) before = {0, 0};
    if (lane == lanes - 1) warps[warp] = inclusive;
    __syncthreads();
    Run earlier = {0, 0};
    for (i32 i = 0; i < warp; ++i) earlier = join(earlier, warps[i]);
    before = join(earlier, before);
    state[(i64)blockIdx.x * blockDim.x + threadIdx.x] = before.tokens << 16 | before.open;
    if (threadIdx.x == blockDim.x - 1) {
        const Run total = join(earlier, inclusive);
        block_tokens[blockIdx.x] = total.tokens;
        block_open[blockIdx.x] = total.open;
    }
}

// tokens_end, open_end i64 [blocks]: inclusive sums of block_tokens and block_open. Same grid and block as
// `tokens_count`.
extern "C" __global__ void __launch_bounds__(MAX_THREADS, 4)
    tokens_sum(const u8* __restrict__ text, const i64* __restrict__ offset, i64 documents,
               const u16* __restrict__ stage1, const i32* __restrict__ stage2, i32 characters, i32 items,
               const u32* __restrict__ state, const i64* __restrict__ tokens_end, const i64* __restrict__ open_end,
               u64* __restrict__ sums, i64* __restrict__ starts) {
    __shared__ u8 tile[BEFORE + MAX_TILE + AFTER];
    __shared__ i64 range[2];
    __shared__ i64 carried;  // code points of the token that is open where this tile begins
    const i64 last = offset[documents];
    const i64 begin = offset[0] + (i64)blockIdx.x * blockDim.x * items;
    const i32 length = (i32)min((i64)blockDim.x * items, last - begin);
    const i64 earlier = blockIdx.x > 0 ? tokens_end[blockIdx.x - 1] : 0;
    load_tile(text, offset[0], last, begin, length, tile);
    if (threadIdx.x == 0) {
        carried = 0;
        if (blockIdx.x > 0) {
            // The block in which the open token starts; in those between, all code points belong to it.
            const i64 origin = upper_bound(tokens_end, 0, blockIdx.x, earlier - 1);
            carried = open_end[blockIdx.x - 1] - (origin > 0 ? open_end[origin - 1] : 0);
        }
    }
    block_range(offset, documents, begin - 1, begin + length - 1, range);

    const i32 from = threadIdx.x * items;
    if (from >= length) return;
    const u32 before = state[(i64)blockIdx.x * blockDim.x + threadIdx.x];
    const u32 tokens = before >> 16, open = before & 0xFFFF;
    Adder adder = {sums, starts, earlier + tokens, open + (tokens > 0 ? 0 : (u64)carried), 0, characters};
    const i64 next = upper_bound(offset, range[0], range[1], begin + from - 1);
    walk(tile + BEFORE, begin, from, min(from + items, length), offset, next, documents, stage1, stage2, adder);
    adder.flush();
}

// A thread a document. Those that have bytes know their starts; of the others each takes that of the last document that
// begins at the same byte, which has bytes or is the text's end.
extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    tokens_starts(const i64* __restrict__ offset, i64 documents, i64* starts) {
    const i64 document = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (document >= documents || offset[document] < offset[document + 1]) return;
    starts[document] = starts[upper_bound(offset, document, documents + 1, offset[document]) - 1];
}
