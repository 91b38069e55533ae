// frequencies: how often each slot of fingerprints occurs, in bytes that stop at 255.
//
//   in   values u64 [count], bits (log2 of the slots)
//   out  counts u8 [2^bits] as 32-bit words [max(1, 2^bits / 4)], added to
//
// Mapping: a thread per fingerprint; a compare-and-swap of the word that holds its byte. A full byte is only read.
// Bound: random reads and atomics of 32 bits.
// Geometry: each fingerprint adds 1 to a byte below 255, in any order.
// Oracle: gpulsh/backends/reference/rows.py.
#include "bits.cuh"

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    frequencies(const u64* __restrict__ values, i64 count, i32 bits, u32* counts) {
    const i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= count) return;
    const u64 slot = bits > 0 ? values[index] >> (64 - bits) : 0;
    const u32 shift = (u32)(slot & 3) * 8;
    u32* word = counts + (slot >> 2);
    u32 seen = *(volatile u32*)word;
    while ((seen >> shift & 0xFF) != 0xFF) {
        const u32 before = atomicCAS(word, seen, seen + (1u << shift));
        if (before == seen) return;
        seen = before;
    }
}
