// affine61: the minima of a x + b modulo the prime 2^61 - 1.
//
//   in   multiplier, addend u64 [columns], below the prime
//
// in, out, mapping, bound and geometry: function_minima.cuh. Oracle: gpulsh/backends/reference/sketches/functions.py.
#include "function_minima.cuh"

constexpr u64 PRIME = (1ull << 61) - 1;

// Congruent to x modulo the prime, and at most 7 beyond it: 2^61 is 1.
__device__ __forceinline__ u64 folded(u64 x) {
    return (x & PRIME) + (x >> 61);
}

// a x + b modulo the prime; a, b < 2^61, x < 2^61 + 8.
__device__ __forceinline__ u64 affine61_of(u64 a, u64 x, u64 b) {
    const u64 a_upper = a >> 32, a_lower = (u32)a, x_upper = x >> 32, x_lower = (u32)x;
    const u64 middle = a_upper * x_lower + a_lower * x_upper;  // times 2^32
    const u64 upper = (a_upper * x_upper << 3) + (middle >> 29) + ((middle & ((1u << 29) - 1)) << 32);
    const u64 value = folded(folded(upper) + folded(a_lower * x_lower) + b);
    return value >= PRIME ? value - PRIME : value;
}

extern "C" __global__ void __launch_bounds__(SPAN_THREADS)
    affine61(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents,
             const u64* __restrict__ multiplier, const u64* __restrict__ addend, i32 columns, i32 span,
             u64* __restrict__ minima) {
    const i32 column = min(column_of_lane(), columns - 1);
    const u64 a = multiplier[column], b = addend[column];
    const auto function = [&](u64 x) { return affine61_of(a, folded(x), b); };
    function_minima(values, offset, documents, function, columns, span, minima);
}
