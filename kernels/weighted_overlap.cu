// weighted_overlap: of each pair of rows the sums of the lesser and of the greater weights.
//
//   in   pairs i64 [count, 2], values u64 [>= offset[documents]], ascending within a row, weights f64, offset i64
//   out  least, greatest f64 [count]
//
// Mapping: a thread per pair, both rows merged in order. Bound: latency of dependent reads. Geometry: a pair has one
// writer, and its sums run in the order of the values. Oracle: gpulsh/backends/reference/weighted.py.
#include "bits.cuh"

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    weighted_overlap(const i64* __restrict__ pairs, i64 count, const u64* __restrict__ values,
                     const f64* __restrict__ weights, const i64* __restrict__ offset, f64* __restrict__ least,
                     f64* __restrict__ greatest) {
    const i64 pair = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (pair >= count) return;
    const i64 left = pairs[2 * pair], right = pairs[2 * pair + 1];
    i64 i = offset[left], j = offset[right];
    const i64 i_end = offset[left + 1], j_end = offset[right + 1];
    f64 low = 0, high = 0;
    while (i < i_end && j < j_end) {
        const u64 a = values[i], b = values[j];
        const f64 x = a <= b ? weights[i] : 0, y = b <= a ? weights[j] : 0;
        low += min(x, y);
        high += max(x, y);
        i += a <= b;
        j += b <= a;
    }
    for (; i < i_end; ++i) high += weights[i];
    for (; j < j_end; ++j) high += weights[j];
    least[pair] = low;
    greatest[pair] = high;
}
