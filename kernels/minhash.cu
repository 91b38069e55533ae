// minhash: the minimum of each hash function over each document's fingerprints.
//
//   in   values u64 [>= offset[documents]], offset i64 [documents + 1], multiplier, addend u32 [columns],
//        span (fingerprints a warp)
//   out  signatures u32 [documents, columns], all ones on entry; a row stays so where a document is empty
//
// Mapping: a warp takes `span` consecutive fingerprints, whatever documents they belong to, and 128 columns, four
// minima in the registers of each lane; it stages the upper halves in shared memory and reads them back as broadcasts.
// A document inside one span is stored, the pieces of one that spans divide meet by atomicMin: a long document is
// spread over warps, short ones share one. Blocks are whole warps; grid y walks over the columns. Bound: arithmetic, a
// multiply-add and half a three-way minimum a fingerprint and column; bytes: 8 a fingerprint. Geometry: a minimum is
// the same over any split. Oracle: gpulsh/backends/reference/minhash.py.
#include "search.cuh"

constexpr i32 COLUMNS = 4;  // a lane
constexpr i32 STAGE = 128;  // fingerprints a warp holds in shared memory

// One instruction on sm_100, two before.
__device__ __forceinline__ u32 min3(u32 a, u32 b, u32 c) {
#ifdef __CUDA_ARCH__
    return __vimin3_u32(a, b, c);
#else
    return min(a, min(b, c));
#endif
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    minhash(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents,
            const u32* __restrict__ multiplier, const u32* __restrict__ addend, i32 columns, i64 span,
            u32* __restrict__ signatures) {
    __shared__ u32 stages[MAX_THREADS / 32][STAGE];
    const i32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const i64 begin = offset[0] + ((i64)blockIdx.x * (blockDim.x >> 5) + warp) * span;
    const i64 end = min(begin + span, offset[documents]);
    if (begin >= end) return;  // the whole warp
    u32* stage = stages[warp];
    const i32 column = blockIdx.y * 32 * COLUMNS + lane;

    u32 a[COLUMNS], b[COLUMNS], least[COLUMNS];
#pragma unroll
    for (i32 c = 0; c < COLUMNS; ++c) {
        const bool used = column + 32 * c < columns;
        a[c] = used ? multiplier[column + 32 * c] : 0;
        b[c] = used ? addend[column + 32 * c] : 0;
        least[c] = NO_VALUE;
    }

    i64 document = upper_bound(offset, 0, documents, begin) - 1;
    i64 first = offset[document], last = offset[document + 1];
    for (i64 chunk = begin; chunk < end; chunk += STAGE) {
        const i64 stop = min(chunk + STAGE, end);
        for (i64 i = chunk + lane; i < stop; i += 32) stage[i - chunk] = (u32)(values[i] >> 32);
        __syncwarp();
        i64 at = chunk;
        while (at < stop) {
            const i32 to = (i32)(min(last, stop) - chunk);
            i32 i = (i32)(at - chunk);
            for (; i + 1 < to; i += 2) {
                const u32 x = stage[i], y = stage[i + 1];
#pragma unroll
                for (i32 c = 0; c < COLUMNS; ++c) least[c] = min3(least[c], a[c] * x + b[c], a[c] * y + b[c]);
            }
            if (i < to) {
                const u32 x = stage[i];
#pragma unroll
                for (i32 c = 0; c < COLUMNS; ++c) least[c] = min(least[c], a[c] * x + b[c]);
            }
            at = chunk + to;
            if (at == last || at == end) {  // the document ends, or the span
                const bool whole = first >= begin && last <= end;
                u32* row = signatures + document * columns;
#pragma unroll
                for (i32 c = 0; c < COLUMNS; ++c) {
                    if (column + 32 * c < columns) {
                        if (whole) {
                            row[column + 32 * c] = least[c];
                        } else {
                            atomicMin(&row[column + 32 * c], least[c]);
                        }
                    }
                    least[c] = NO_VALUE;
                }
                if (at < end) {
                    first = last;
                    document = upper_bound_near(offset, document + 2, documents, first) - 1;
                    last = offset[document + 1];
                }
            }
        }
        __syncwarp();  // all lanes have read the stage before it is filled again
    }
}
