// c_minhash: the minima of one permutation, shifted by one more place for each column.
//
//   in   multiplier, addend u64 of the first permutation, inner, outer u32: keys of the second
//
// in, out, mapping, bound and geometry: function_minima.cuh. Oracle: gpulsh/backends/reference/sketches/functions.py.
#include "function_minima.cuh"

extern "C" __global__ void __launch_bounds__(SPAN_THREADS)
    c_minhash(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents, u64 multiplier, u64 addend,
              u32 inner, u32 outer, i32 columns, i32 span, u32* __restrict__ minima) {
    const u32 column = column_of_lane();
    const auto function = [&](u64 x) {
        u32 y = (u32)((multiplier * x + addend) >> 32) + column;
        y = (y ^ y >> 16) * CIRCULANT_1 ^ inner;
        y = (y ^ y >> 15) * CIRCULANT_2;
        return y ^ y >> 16 ^ outer;
    };
    function_minima(values, offset, documents, function, columns, span, minima);
}
