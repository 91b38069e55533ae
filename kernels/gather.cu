// gather: copies scattered rows of text end to end.
//
//   in   values u8 [bytes], begin i64 [rows]: where each row begins in them, offset i64 [rows + 1]: where it begins in
//        the result, from 0, items (words per thread)
//   out  gathered u8 [offset[rows]], on a 4-byte boundary
//
// Mapping: a block takes a tile of consecutive result bytes, a thread every blockDim-th word of four bytes,
// of any row, so one row of half a gigabyte costs as much as a million short ones. A thread searches its next row only
// when its byte is after its last row. Bound: bytes, read once and written once; a word's
// four loads are single bytes, because rows begin anywhere, but go out together.
// Geometry: each result byte is a copy of one byte. Oracle: gpulsh/backends/reference/texts.py.
#include "search.cuh"

constexpr i32 WORD_BYTES = 4;

// The row that holds a result byte; `next` and `last` bound the search.
struct Row {
    i64 next;   // the row behind it
    i64 end;    // its end in the result
    i64 shift;  // from a byte of the result to its source
};

__device__ __forceinline__ void find_row(const i64* __restrict__ begin, const i64* __restrict__ offset, i64 last,
                                         i64 place, Row& row) {
    row.next = upper_bound_near(offset, row.next, last, place);
    row.end = offset[row.next];
    row.shift = begin[row.next - 1] - offset[row.next - 1];
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    gather(const u8* __restrict__ values, const i64* __restrict__ begin, const i64* __restrict__ offset, i64 rows,
           i32 items, u8* __restrict__ gathered) {
    __shared__ i64 range[2];
    const i64 tile = (i64)blockDim.x * items * WORD_BYTES, first = blockIdx.x * tile;
    const i64 stop = min(first + tile, offset[rows]);
    block_range(offset, rows, first, stop - 1, range);

    Row row = {range[0], first, 0};  // none is known yet
    for (i64 place = first + threadIdx.x * WORD_BYTES; place < stop; place += blockDim.x * WORD_BYTES) {
        if (place >= row.end) find_row(begin, offset, range[1], place, row);
        if (place + WORD_BYTES <= row.end) {
            const u8* from = values + (place + row.shift);
            const u32 low = from[0] | from[1] << 8, high = from[2] | from[3] << 8;
            *(u32*)(gathered + place) = low | high << 16;
            continue;
        }
        const i64 behind = min(place + WORD_BYTES, stop);
        for (i64 byte = place; byte < behind; ++byte) {
            if (byte >= row.end) find_row(begin, offset, range[1], byte, row);
            gathered[byte] = values[byte + row.shift];
        }
    }
}
