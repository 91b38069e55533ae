// tokens: text to the bit masks in which code points and tokens begin, and to the number of tokens.
//
//   in   text u8 [>= offset[documents]], offset i64 [documents + 1], stage1 u16 [8704], stage2 i32 [blocks * 128],
//        characters (0: unit="word", 1: unit="char")
//   out  code_points, token_starts u32 [strips]: a bit per byte of a strip, the first lowest
//        starts i64 [documents + 1]: tokens before each document, and the number of all
//        The kernel named `by_table` reads the table for ASCII, too, as symbols or case need it.
//
// Mapping: a block takes a tile of consecutive bytes, a thread per strip of 28, across the borders of documents.
// `tokens_documents` marks where documents begin, a thread per document; `tokens_count` finds the code points and where
// tokens start, as bit masks, and counts the tokens that start in each strip and the code points since the last start,
// scanned over the block; the caller adds up the blocks; `tokens_starts` reads each document's start from the masks.
// For unit="char" a run of code points begins with a token for the space before it; a document's first token is then
// such a space, which the consumers skip. Bound: instructions, then bytes: the text, and 12 per strip written.
// Geometry: a token starts by the bytes around it, and counts over all text before a byte never depend on where strips
// begin. Oracle: gpulsh/backends/reference/texts.py.
#include "text.cuh"
#include "warp.cuh"

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

// A strip's code_points u32, token_starts u32, and state u32: `join` of the block's bytes before
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
    code_points[strip] = marks.code_points;
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
