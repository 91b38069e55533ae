// winnow: marks fingerprints that are the least of some `size` consecutive ones of their row, the last of equal ones.
//
//   in   values u64 [>= offset[documents]], offset i64 [documents + 1], size, items (fingerprints per thread)
//   out  chosen u8 [offset[documents] - offset[0]]: 0 or 1
//
// Mapping: a thread per fingerprint at a time, flat over all rows. It looks left and right until one is less, at most
// `size` in all: if that many are not less, it is the least of that window.
// Bound: bytes from the first-level cache; of hashes, a thread looks at about 2 + 2 log(size).
// Geometry: a fingerprint is compared with its row alone. Oracle: gpulsh/backends/reference/rows.py.
#include "search.cuh"

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    winnow(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents, i64 size, i32 items,
           u8* __restrict__ chosen) {
    for_positions(offset, documents, items, [=](i64 i, i64 document) {
        const u64 value = values[i];
        const i64 first = max(offset[document], i - size + 1);
        i64 left = i;
        while (left > first && values[left - 1] >= value) --left;
        const i64 last = min(offset[document + 1], left + size);
        i64 right = i + 1;
        while (right < last && values[right] > value) ++right;
        chosen[i - offset[0]] = right - left == size;
    });
}
