// kleinberg_tardos: the value of the first dart of each function that hits a row.
//
//   in   rows u64 [documents, columns] (the bits of floating-point numbers, none negative), greatest u64 [documents],
//        columns, multiplier, addend, place_word, value_word u64, table u64 [2^SEGMENT_BITS + 1], functions,
//        total (documents * functions)
//   out  signatures u32 [documents, functions], all ones on entry
//
// Mapping: a thread per function of a row; a warp's throw at one row. Bound: 64-bit multiplies, of a row that
// fills a share s of columns * its greatest number, 1/s darts. Geometry: the first dart is a function of the row and
// has one writer. Oracle: gpulsh/backends/reference/weighted.py.
#include "darts.cuh"

constexpr i32 DEPTH = 32;

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    kleinberg_tardos(const u64* __restrict__ rows, const u64* __restrict__ greatest, i64 columns, u64 multiplier,
                     u64 addend, u64 place_word, u64 value_word, const u64* __restrict__ table, i32 functions,
                     i64 total, u32* __restrict__ signatures) {
    const i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= total) return;
    const i64 row = at / functions, function = at % functions;
    const u64* numbers = rows + row * columns;
    const i32 top = exponent_of(greatest[row]);
    if (top < MIN_OF_ROW) return;
    u64 first = NOTHING;
    for (i32 reach = -top; first == NOTHING; ++reach) {
        for (i32 level = top; level > top - DEPTH; --level) {
            const u64 limit = rank_limit(reach, level);
            const u64 lowest = (u64)(level + EXPONENT_BIAS) << FRACTION_BITS;
            Darts darts(table, multiplier, addend, place_word, value_word, function, level);
            while (darts.next(limit)) {
                if ((lowest | darts.fraction()) < numbers[darts.bin(columns)]) {
                    first = min(first, darts.order());
                    break;
                }
            }
        }
    }
    signatures[at] = (u32)first;
}
