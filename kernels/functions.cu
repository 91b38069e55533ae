// functions: the minimum of each of a family's functions over each document's fingerprints, a kernel per family.
//
//   in   values u64 [>= offset[documents]], offset i64 [documents + 1], the parameters of the family's functions
//        (below), columns, span (fingerprints per warp, at most MAX_SPAN)
//   out  minima u32 or u64 [documents, columns], all ones on entry
//
// Mapping: a warp takes `span` consecutive fingerprints, across the borders of documents, a lane one of 32 columns,
// grid y all of them; the lanes read the same fingerprint at once. atomicMin joins a document that spans divide.
// Bound: arithmetic, the function and a minimum per fingerprint and column; table look-ups in `tabulation`. Geometry: a
// minimum is the same over any split. Oracle: gpulsh/backends/reference/sketches.py.
#include "span_walk.cuh"

constexpr u64 PRIME = (1ull << 61) - 1;

__device__ __forceinline__ i32 column_of_lane() {
    return blockIdx.y * 32 + (threadIdx.x & 31);
}

// `function` maps a fingerprint to the Value of this lane's column.
template <typename Value, typename Function>
__device__ __forceinline__ void function_minima(const u64* __restrict__ values, const i64* __restrict__ offset,
                                                i64 documents, Function function, i32 columns, i32 span,
                                                Value* __restrict__ minima) {
    const i32 column = column_of_lane();
    Rows rows(offset, documents, span);
    for (i32 at = 0; at < rows.length;) {
        const i32 to = rows.find(at);
        Value least = (Value)~0ull;
#pragma unroll 4
        for (i32 i = at; i < to; ++i) least = min(least, function(values[rows.begin + i]));
        if (column < columns) {
            Value* minimum = &minima[rows.row * columns + column];
            if (rows.is_whole(at)) {
                *minimum = least;
            } else {
                atomicMin(minimum, least);
            }
        }
        at = to;
    }
}

// a x + b modulo 2^64, then `Shape`d: a and b are multiplier, addend u64 [columns].
template <typename Value, typename Shape>
__device__ __forceinline__ void affine_minima(const u64* __restrict__ values, const i64* __restrict__ offset,
                                              i64 documents, const u64* __restrict__ multiplier,
                                              const u64* __restrict__ addend, Shape shape, i32 columns, i32 span,
                                              Value* __restrict__ minima) {
    const i32 column = min(column_of_lane(), columns - 1);
    const u64 a = multiplier[column], b = addend[column];
    const auto function = [&](u64 x) { return (Value)shape(a * x + b); };
    function_minima(values, offset, documents, function, columns, span, minima);
}

// affine64: a x + b modulo 2^64.
extern "C" __global__ void __launch_bounds__(SPAN_THREADS)
    affine64(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents,
             const u64* __restrict__ multiplier, const u64* __restrict__ addend, i32 columns, i32 span,
             u64* __restrict__ minima) {
    const auto shape = [](u64 y) { return y; };
    affine_minima(values, offset, documents, multiplier, addend, shape, columns, span, minima);
}

// multiply_shift: the upper half of a x + b modulo 2^64, a odd.
extern "C" __global__ void __launch_bounds__(SPAN_THREADS)
    multiply_shift(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents,
                   const u64* __restrict__ multiplier, const u64* __restrict__ addend, i32 columns, i32 span,
                   u32* __restrict__ minima) {
    const auto shape = [](u64 y) { return y >> 32; };
    affine_minima(values, offset, documents, multiplier, addend, shape, columns, span, minima);
}

// wrapped: a x + b modulo a power of two, then modulo a prime, as words overflow before they are divided. `word` are
// the bits that are kept, `shift` the prime's length: 61, 32 or 16. Values of 32 bits are the lower halves.
__device__ __forceinline__ u64 wrapped(u64 y, u64 word, u64 prime, i32 shift) {
    // 2^61 is 1 modulo its prime, and a word of the other two has no bits beyond the prime's length.
    const u64 value = (y & word & ((1ull << shift) - 1)) + ((y & word) >> shift);
    return value >= prime ? value - prime : value;
}

extern "C" __global__ void __launch_bounds__(SPAN_THREADS)
    wrapped_uint32(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents,
                   const u64* __restrict__ multiplier, const u64* __restrict__ addend, u64 word, u64 prime, i32 shift,
                   i32 columns, i32 span, u32* __restrict__ minima) {
    const auto shape = [&](u64 y) { return wrapped(y, word, prime, shift); };
    affine_minima(values, offset, documents, multiplier, addend, shape, columns, span, minima);
}

extern "C" __global__ void __launch_bounds__(SPAN_THREADS)
    wrapped_uint64(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents,
                   const u64* __restrict__ multiplier, const u64* __restrict__ addend, u64 word, u64 prime, i32 shift,
                   i32 columns, i32 span, u64* __restrict__ minima) {
    const auto shape = [&](u64 y) { return wrapped(y, word, prime, shift); };
    affine_minima(values, offset, documents, multiplier, addend, shape, columns, span, minima);
}

// affine61: a x + b modulo the prime 2^61 - 1; multiplier, addend u64 [columns], below the prime.

// Congruent to x modulo the prime, and at most 7 beyond it: 2^61 is 1.
__device__ __forceinline__ u64 reduced(u64 x) {
    return (x & PRIME) + (x >> 61);
}

// a x + b modulo the prime; a, b < 2^61, x < 2^61 + 8.
__device__ __forceinline__ u64 affine61_of(u64 a, u64 x, u64 b) {
    const u64 a_upper = a >> 32, a_lower = (u32)a, x_upper = x >> 32, x_lower = (u32)x;
    const u64 middle = a_upper * x_lower + a_lower * x_upper;  // times 2^32
    const u64 upper = (a_upper * x_upper << 3) + (middle >> 29) + ((middle & ((1u << 29) - 1)) << 32);
    const u64 value = reduced(reduced(upper) + reduced(a_lower * x_lower) + b);
    return value >= PRIME ? value - PRIME : value;
}

extern "C" __global__ void __launch_bounds__(SPAN_THREADS)
    affine61(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents,
             const u64* __restrict__ multiplier, const u64* __restrict__ addend, i32 columns, i32 span,
             u64* __restrict__ minima) {
    const i32 column = min(column_of_lane(), columns - 1);
    const u64 a = multiplier[column], b = addend[column];
    const auto function = [&](u64 x) { return affine61_of(a, reduced(x), b); };
    function_minima(values, offset, documents, function, columns, span, minima);
}

// xor_masks: the upper halves, exclusive-or masks u32 [columns].
extern "C" __global__ void __launch_bounds__(SPAN_THREADS)
    xor_masks(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents,
              const u32* __restrict__ masks, i32 columns, i32 span, u32* __restrict__ minima) {
    const u32 mask = masks[min(column_of_lane(), columns - 1)];
    const auto function = [&](u64 x) { return (u32)(x >> 32) ^ mask; };
    function_minima(values, offset, documents, function, columns, span, minima);
}

// tabulation: simple tabulation of upper halves by tables u32 [4, 256, columns].
extern "C" __global__ void __launch_bounds__(SPAN_THREADS)
    tabulation(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents,
               const u32* __restrict__ tables, i32 columns, i32 span, u32* __restrict__ minima) {
    const u32* table = tables + min(column_of_lane(), columns - 1);
    const auto function = [&](u64 x) {
        const u32 y = (u32)(x >> 32);  // a table has less than 2^27 entries
        return table[(y & 0xFF) * columns] ^ table[(256 | y >> 8 & 0xFF) * columns] ^
               table[(512 | y >> 16 & 0xFF) * columns] ^ table[(768 | y >> 24) * columns];
    };
    function_minima(values, offset, documents, function, columns, span, minima);
}

// c_minhash: one permutation, shifted by one more place for each column. multiplier, addend u64 belong to the first
// permutation; inner, outer u32 are the keys of the second.
extern "C" __global__ void __launch_bounds__(SPAN_THREADS)
    c_minhash(const u64* __restrict__ values, const i64* __restrict__ offset, i64 documents, u64 multiplier, u64 addend,
              u32 inner, u32 outer, i32 columns, i32 span, u32* __restrict__ minima) {
    const u32 column = column_of_lane();
    const auto function = [&](u64 x) {
        u32 y = (u32)((multiplier * x + addend) >> 32) + column;
        y = (y ^ y >> 16) * CIRCULANT_1 ^ inner;
        y = (y ^ y >> 15) * CIRCULANT_2;
        return y ^ y >> 16 ^ outer;
    };
    function_minima(values, offset, documents, function, columns, span, minima);
}
