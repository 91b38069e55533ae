// affine64: the minima of a x + b modulo 2^64.
//
//   in   multiplier, addend u64 [columns]
//
// in, out, mapping, bound and geometry: function_minima.cuh. Oracle: gpulsh/backends/reference/sketches/functions.py.
#include "function_minima.cuh"

extern "C" __global__ void __launch_bounds__(SPAN_THREADS)
    affine64(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents,
             const u64* __restrict__ multiplier, const u64* __restrict__ addend, i32 columns, i32 span,
             u64* __restrict__ minima) {
    const i32 column = min(column_of_lane(), columns - 1);
    const u64 a = multiplier[column], b = addend[column];
    const auto function = [&](u64 x) { return a * x + b; };
    function_minima(values, offset, documents, function, columns, span, minima);
}
