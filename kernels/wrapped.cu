// wrapped: the minima of a x + b modulo a power of two, then modulo a prime, as words overflow before they are divided.
//
//   in   multiplier, addend u64 [columns], word (the bits that are kept), prime, shift (its length: 61, 32 or 16)
//
// in, out, mapping, bound and geometry: function_minima.cuh. Values of 32 bits are the lower halves. Oracle:
// gpulsh/backends/reference/sketches/functions.py.
#include "function_minima.cuh"

// A word modulo the prime: 2^61 is 1, and a word of the other two has no bits beyond the prime's length.
__device__ __forceinline__ u64 reduced(u64 value, u64 prime, i32 shift) {
    value = (value & ((1ull << shift) - 1)) + (value >> shift);
    return value >= prime ? value - prime : value;
}

template <typename Value>
__device__ __forceinline__ void wrapped(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents,
                                        const u64* __restrict__ multiplier, const u64* __restrict__ addend, u64 word,
                                        u64 prime, i32 shift, i32 columns, i32 span, Value* __restrict__ minima) {
    const i32 column = min(column_of_lane(), columns - 1);
    const u64 a = multiplier[column], b = addend[column];
    const auto function = [&](u64 x) { return (Value)reduced((a * x + b) & word, prime, shift); };
    function_minima(values, offset, documents, function, columns, span, minima);
}

extern "C" __global__ void __launch_bounds__(SPAN_THREADS)
    wrapped_uint32(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents,
                   const u64* __restrict__ multiplier, const u64* __restrict__ addend, u64 word, u64 prime, i32 shift,
                   i32 columns, i32 span, u32* __restrict__ minima) {
    wrapped(values, offset, documents, multiplier, addend, word, prime, shift, columns, span, minima);
}

extern "C" __global__ void __launch_bounds__(SPAN_THREADS)
    wrapped_uint64(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents,
                   const u64* __restrict__ multiplier, const u64* __restrict__ addend, u64 word, u64 prime, i32 shift,
                   i32 columns, i32 span, u64* __restrict__ minima) {
    wrapped(values, offset, documents, multiplier, addend, word, prime, shift, columns, span, minima);
}
