// gather: rows of text that lie apart, copied end to end.
//
//   in   values u8 [bytes], begin i64 [rows]: where each row begins in them, offset i64 [rows + 1]: where it begins in
//        the result, from 0, items (bytes a thread)
//   out  gathered u8 [offset[rows]]
//
// Mapping: a block takes a tile of consecutive result bytes, a thread every blockDim-th of them, whatever rows they
// belong to, so that one row of half a gigabyte and a million short ones are alike. A thread's next row is searched
// only when its byte lies behind the row of its last one. Bound: bytes, read once and written once.
// Geometry: each result byte is a copy of one byte. Oracle: gpulsh/backends/reference/gather.py.
#include "search.cuh"

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    gather(const u8* __restrict__ values, const i64* __restrict__ begin, const i64* __restrict__ offset, i64 rows,
           i32 items, u8* __restrict__ gathered) {
    __shared__ i64 range[2];
    const i64 first = (i64)blockIdx.x * blockDim.x * items;
    const i64 stop = min(first + (i64)blockDim.x * items, offset[rows]);
    block_range(offset, rows, first, stop - 1, range);

    i64 next = range[0];  // the row behind that of the byte
    i64 end = first;      // of the row, in the result; none is known yet
    i64 shift = 0;        // from a result byte of the row to where it lies
    for (i64 place = first + threadIdx.x; place < stop; place += blockDim.x) {
        if (place >= end) {
            next = next < range[1] ? upper_bound_near(offset, next, range[1], place) : range[1];
            end = offset[next];
            shift = begin[next - 1] - offset[next - 1];
        }
        gathered[place] = values[place + shift];
    }
}
