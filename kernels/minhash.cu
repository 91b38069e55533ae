// minhash: the minimum of each hash function over each document's fingerprints.
//
//   in   values u64 [>= offset[documents]], offset i64 [documents + 1], multiplier, addend u32 [columns],
//        span (fingerprints per warp, at most MAX_SPAN)
//   out  signatures u32 [documents, columns], all ones on entry; a row stays so where a document is empty
//
// Mapping: a warp takes `span` consecutive fingerprints, across the borders of documents, and 64, 128 or 256 columns,
// whose minima are 2, 4 or 8 registers of each lane; it stages the upper halves in shared memory and reads them back
// four at once as broadcasts. A document inside one span is stored, the pieces of one that spans divide meet by
// atomicMin: a long document is spread over warps, short ones share one. Blocks are whole warps; grid y walks over the
// columns. Bound: arithmetic, a multiply-add and half a three-way minimum a fingerprint and column; bytes: 8 a
// fingerprint. Geometry: a minimum is the same over any split. Oracle: gpulsh/backends/reference/sketches.py.
#include "minima.cuh"

template <i32 COLUMNS>
__device__ __forceinline__ void minhash(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents,
                                        const u32* __restrict__ multiplier, const u32* __restrict__ addend, i32 columns,
                                        i32 span, u32* __restrict__ signatures) {
    __shared__ Four stages[MAX_WARPS][MAX_SPAN / 4];
    const i32 lane = threadIdx.x & 31;
    Rows rows(offset, documents, span);
    u32* stage = reinterpret_cast<u32*>(stages[threadIdx.x >> 5]);
#pragma unroll 8
    for (i32 i = lane; i < rows.length; i += 32) stage[i] = (u32)(values[rows.begin + i] >> 32);

    const i32 column = blockIdx.y * 32 * COLUMNS + lane;
    Minima<COLUMNS> minima;
    minima.load(multiplier, addend, column, columns);
    __syncwarp();
    for (i32 at = 0; at < rows.length;) {
        const i32 to = rows.find(at);
        minima.clear();
        minima.take(stage, at, to);
        u32* signature = signatures + rows.row * columns + column;
        if (rows.is_whole(at)) {
            minima.store(signature, columns - column);
        } else {
            minima.merge(signature, columns - column);
        }
        at = to;
    }
}

extern "C" __global__ void __launch_bounds__(SPAN_THREADS, 8)
    minhash_2_columns(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents,
                      const u32* __restrict__ multiplier, const u32* __restrict__ addend, i32 columns, i32 span,
                      u32* __restrict__ signatures) {
    minhash<2>(values, offset, documents, multiplier, addend, columns, span, signatures);
}

extern "C" __global__ void __launch_bounds__(SPAN_THREADS, 8)
    minhash_4_columns(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents,
                      const u32* __restrict__ multiplier, const u32* __restrict__ addend, i32 columns, i32 span,
                      u32* __restrict__ signatures) {
    minhash<4>(values, offset, documents, multiplier, addend, columns, span, signatures);
}

extern "C" __global__ void __launch_bounds__(SPAN_THREADS, 8)
    minhash_8_columns(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents,
                      const u32* __restrict__ multiplier, const u32* __restrict__ addend, i32 columns, i32 span,
                      u32* __restrict__ signatures) {
    minhash<8>(values, offset, documents, multiplier, addend, columns, span, signatures);
}
