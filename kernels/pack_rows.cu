// pack_rows: rows with room behind each, end to end.
//
//   in   loose u64 [offset[rows] - offset[0]], offset i64 [rows + 1] (where a row begins and its room ends),
//        packed_offset i64 [rows + 1] from 0 on, items (values a thread)
//   out  packed u64 [packed_offset[rows]]
//
// Mapping: flat over the packed values, across the borders of rows. Bound: bytes: 16 per value.
// Geometry: a copy. Oracle: gpulsh/backends/reference/rows.py.
#include "search.cuh"

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    pack_rows(const u64* __restrict__ loose, const i64* __restrict__ offset, const i64* __restrict__ packed_offset,
              i64 rows, i32 items, u64* __restrict__ packed) {
    for_positions(packed_offset, rows, items,
                  [=](i64 i, i64 row) { packed[i] = loose[offset[row] - offset[0] + i - packed_offset[row]]; });
}
