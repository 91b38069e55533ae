// one_permutation: each document's least value in each of `bins` bins, and the bins that stayed empty filled from
// others.
//
//   in   values u64 [>= offset[documents]], offset i64 [documents + 1], multiplier, addend u64, bins,
//        span (fingerprints per warp, at most MAX_SPAN)
//   out  minima u32 [documents, bins], all ones on entry
//
//   in   minima u32 [documents, bins], bins, probe u64
//   out  signatures u32 [documents, bins]; all ones where a document is empty
//
// Mapping: a warp takes `span` consecutive fingerprints, across the borders of documents, a lane per fingerprint, which
// meet by atomicMin; to fill, a warp takes a document, a lane every 32nd bin. Bound: atomics in the second-level cache;
// to fill, 64-bit multiplies: of a document that fills a share s of its bins, 1/s probes an empty bin, and none where
// all values are equal. Geometry: a minimum is the same over any split, a probe depends on the bin alone. Oracle:
// gpulsh/backends/reference/sketches.py.
#include "span_walk.cuh"

constexpr i32 ROUNDS = 64;  // times `bins` probes; then the next bin that has a value

extern "C" __global__ void __launch_bounds__(SPAN_THREADS)
    one_permutation(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents, u64 multiplier,
                    u64 addend, i32 bins, i32 span, u32* __restrict__ minima) {
    const i32 lane = threadIdx.x & 31;
    Rows rows(offset, documents, span);
    for (i32 at = 0; at < rows.length;) {
        const i32 to = rows.find(at);
        u32* least = minima + rows.row * bins;
        for (i32 i = at + lane; i < to; i += 32) {
            const u64 y = multiplier * values[rows.begin + i] + addend;
            atomicMin(&least[(y >> 32) * (u64)bins >> 32], min((u32)y, NO_VALUE - 1));
        }
        at = to;
    }
}

extern "C" __global__ void __launch_bounds__(SPAN_THREADS)
    one_permutation_fill(const u32* __restrict__ minima, i64 documents, i32 bins, u64 probe,
                         u32* __restrict__ signatures) {
    const i32 lane = threadIdx.x & 31;
    const i64 document = (i64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    if (document >= documents) return;  // the whole warp
    const u32* least = minima + document * bins;
    u32 low = NO_VALUE, high = 0;  // of the bins that have a value
    for (i32 bin = lane; bin < bins; bin += 32) {
        low = min(low, least[bin]);
        if (least[bin] != NO_VALUE) high = max(high, least[bin]);
    }
    low = least_of_lanes(low);
    high = ~least_of_lanes(~high);
    const bool filled = low != NO_VALUE;
    for (i32 bin = lane; bin < bins; bin += 32) {
        u32 value = least[bin];
        if (low == high && value == NO_VALUE) value = low;  // the value of any bin that a probe finds
        for (i64 t = 0; filled && value == NO_VALUE && t < (i64)ROUNDS * bins; ++t) {
            value = least[(mix64(probe + ((u64)bin << 32 | (u64)t)) >> 32) * (u64)bins >> 32];
        }
        for (i32 next = bin; filled && value == NO_VALUE;) {
            next = next + 1 < bins ? next + 1 : 0;
            value = least[next];
        }
        signatures[document * bins + bin] = value;
    }
}
