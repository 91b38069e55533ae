// tabulation: the minima of simple tabulation of the upper halves.
//
//   in   tables u32 [4, 256, columns]
//
// in, out, mapping, bound and geometry: function_minima.cuh. Oracle: gpulsh/backends/reference/sketches/functions.py.
#include "function_minima.cuh"

extern "C" __global__ void __launch_bounds__(SPAN_THREADS)
    tabulation(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents,
               const u32* __restrict__ tables, i32 columns, i32 span, u32* __restrict__ minima) {
    const u32* table = tables + min(column_of_lane(), columns - 1);
    const auto function = [&](u64 x) {
        const u32 y = (u32)(x >> 32);  // a table has less than 2^27 entries
        return table[(y & 0xFF) * columns] ^ table[(256 | y >> 8 & 0xFF) * columns] ^
               table[(512 | y >> 16 & 0xFF) * columns] ^ table[(768 | y >> 24) * columns];
    };
    function_minima(values, offset, documents, function, columns, span, minima);
}
