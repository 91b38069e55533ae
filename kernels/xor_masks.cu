// xor_masks: the minima of the upper halves, exclusive-or masks.
//
//   in   masks u32 [columns]
//
// in, out, mapping, bound and geometry: function_minima.cuh. Oracle: gpulsh/backends/reference/sketches/functions.py.
#include "function_minima.cuh"

extern "C" __global__ void __launch_bounds__(SPAN_THREADS)
    xor_masks(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents,
              const u32* __restrict__ masks, i32 columns, i32 span, u32* __restrict__ minima) {
    const i32 column = min(column_of_lane(), columns - 1);
    const u32 mask = masks[column];
    const auto function = [&](u64 x) { return (u32)(x >> 32) ^ mask; };
    function_minima(values, offset, documents, function, columns, span, minima);
}
