// The minimum of each of a family's functions over each document's fingerprints, by any function.
//
//   in   values u64 [>= offset[documents]], offset i64 [documents + 1], function: (fingerprint) -> Value of this lane's
//        column, columns, span (fingerprints a warp, at most MAX_SPAN)
//   out  minima Value [documents, columns], all ones on entry
//
// Mapping: a warp takes `span` consecutive fingerprints, across the borders of documents, a lane one of 32 columns,
// grid y all of them; the lanes read the same fingerprint at once. A document that spans divide meets by atomicMin.
// Bound: arithmetic, the function and a minimum a fingerprint and column. Geometry: a minimum is the same over any
// split.
#pragma once
#include "span_walk.cuh"

__device__ __forceinline__ i32 column_of_lane() {
    return blockIdx.y * 32 + (threadIdx.x & 31);
}

template <typename Value, typename Function>
__device__ __forceinline__ void function_minima(const u64* __restrict__ values, const i64* __restrict__ offset,
                                                i64 documents, Function function, i32 columns, i32 span,
                                                Value* __restrict__ minima) {
    const i32 column = column_of_lane();
    const i64 begin = offset[0] + ((i64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5)) * span;
    const i32 length = (i32)min((i64)span, offset[documents] - begin);
    if (length <= 0) return;  // the whole warp
    Rows rows(offset, documents, begin);
    for (i32 at = 0; at < length;) {
        rows.find(at);
        const i32 to = min(rows.stop, length);
        Value least = (Value)~0ull;
#pragma unroll 4
        for (i32 i = at; i < to; ++i) least = min(least, function(values[begin + i]));
        if (column < columns) {
            Value* minimum = &minima[rows.row * columns + column];
            if (rows.stop <= length && (at > 0 || offset[rows.row] == begin)) {
                *minimum = least;
            } else {
                atomicMin(minimum, least);
            }
        }
        at = to;
    }
}
