// The darts of a line at a level, in the order of their ranks; gpulsh/backends/darts.py defines them.
#pragma once
#include "bits.cuh"

constexpr i32 RANK_BITS = 40;
constexpr i32 SEGMENT_BITS = 10;
constexpr i32 MANTISSA_BITS = 20;
constexpr i32 RANK_BIAS = 1100;
constexpr i32 MIN_EXPONENT = -1022;
constexpr i32 MIN_OF_ROW = MIN_EXPONENT + 32;
constexpr i32 LONGEST = 63;  // bits of a limit

// The layout of floating-point weights, as bits.
constexpr i32 EXPONENT_BIAS = 1023, FRACTION_BITS = 52;
constexpr u64 FRACTION = (1ull << FRACTION_BITS) - 1;

constexpr u64 NOTHING = ~0ull;  // after every dart

__device__ __forceinline__ i32 exponent_of(u64 number) {
    return (i32)(number >> FRACTION_BITS) - EXPONENT_BIAS;
}

// -log2(word / 2^64) in units of 2^-RANK_BITS.
__device__ __forceinline__ u64 surprise(const u64* __restrict__ table, u64 word) {
    const i32 before = __clzll(word | 1);
    const u64 behind = (word | 1) << before << 1;
    const u64* segment = table + (behind >> (64 - SEGMENT_BITS));
    const u64 rest = behind << SEGMENT_BITS >> 32;
    return ((u64)(before + 1) << RANK_BITS) - (segment[0] + ((segment[1] - segment[0]) * rest >> 32));
}

// The limit of a level's ranks that keeps ranks of all levels below 2^reach; 0 if no rank is below it.
__device__ __forceinline__ u64 rank_limit(i32 reach, i32 level) {
    const i32 room = reach + level + RANK_BITS;
    return room > 0 ? 1ull << min(room, LONGEST) : 0;
}

struct Darts {
    const u64* table;
    u64 place_word, value_word;
    i32 level;
    u64 word, rank, place;

    __device__ __forceinline__ Darts(const u64* __restrict__ table, u64 multiplier, u64 addend, u64 place_word,
                                     u64 value_word, u64 line, i32 level)
        : table(table), place_word(place_word), value_word(value_word), level(level), rank(0) {
        word = mix64(multiplier * line + addend + (u64)(i64)level * GOLDEN);
    }

    // The next dart, if its rank is below `limit`.
    __device__ __forceinline__ bool next(u64 limit) {
        rank += surprise(table, word);
        if (rank >= limit) return false;
        place = mix64(word ^ place_word);
        word = mix64(place + GOLDEN);
        return true;
    }

    __device__ __forceinline__ i64 bin(i64 count) const { return (i64)((place >> 32) * (u64)count >> 32); }

    // Of the height, as of a floating-point number; its exponent is the level.
    __device__ __forceinline__ u64 fraction() const { return (place & 0xFFFFFFFFu) << (FRACTION_BITS - 32); }

    // The rank, at any level, above the dart's value.
    __device__ __forceinline__ u64 order() const {
        const i32 before = __clzll(rank);
        const u32 mantissa = (u32)(rank << before << 1 >> (64 - MANTISSA_BITS));
        const u32 exponent = 64 - before - level + RANK_BIAS;
        const u32 value = min((u32)(mix64(place ^ value_word) >> 32), NO_VALUE - 1);
        return (u64)(exponent << MANTISSA_BITS | mantissa) << 32 | value;
    }
};
