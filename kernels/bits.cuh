// The integers, constants and hash functions of gpulsh/backends/protocol.py, where they are defined. A test compares
// the constants with that file. NVRTC compiles without system headers, so the fixed-width types are named here.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
typedef double f64;

constexpr u64 MIX_1 = 0x3C79AC492BA7B653ull;
constexpr u64 MIX_2 = 0x1C69B3F74AC4AE35ull;
constexpr u64 GOLDEN = 0x9E3779B97F4A7C15ull;
constexpr u64 LENGTH = 0xD1B54A32D192ED03ull;
constexpr u64 STREAM_TOKEN = 0x243F6A8885A308D3ull;
constexpr u64 STREAM_SHINGLE = 0x13198A2E03707344ull;
constexpr u64 STREAM_BAND = 0xA4093822299F31D0ull;

constexpr u32 NO_VALUE = 0xFFFFFFFFu;
constexpr u64 NO_DIGEST = 0xFFFFFFFFFFFFFFFFull;
constexpr u64 INSTEAD_OF_NO_DIGEST = 0xFFFFFFFFFFFFFFFEull;

constexpr i32 THROWS = 7;
constexpr i32 VALUE_BITS = 28;
constexpr u32 CIRCULANT_1 = 0x7FEB352Du;
constexpr u32 CIRCULANT_2 = 0x846CA68Bu;
constexpr i32 ROUND_SHIFT = 52;

// The first key of each use, as defined in gpulsh/secret.py.
constexpr i32 PLACES = 64;          // of a token, with a key of their own
constexpr i32 EXACT_PLACES = 1024;  // of a document
constexpr i32 DIGIT_BITS = 10, DIGITS = 1 << DIGIT_BITS, LEVELS = 3;
constexpr i32 SHINGLE = 64;
constexpr i32 TOKEN_FAR = 128;
constexpr i32 EXACT = 3200;
constexpr i32 EXACT_FAR = 5248;
constexpr i32 EXACT_SPREAD = 11392;

// The most threads a block of these kernels has; shared arrays and register budgets count on it.
constexpr i32 MAX_THREADS = 256;

// A bijection of 64-bit integers with full avalanche.
__device__ __forceinline__ u64 mix64(u64 x) {
    x ^= x >> 27;
    x *= MIX_1;
    x ^= x >> 33;
    x *= MIX_2;
    return x ^ (x >> 27);
}

// The odd multiplier of one place of a sum.
__device__ __forceinline__ u64 key(u64 stream, u64 place) {
    return mix64(stream + (place + 1) * GOLDEN) | 1;
}

// The far key of `number` = place / PLACES, the factor of the near keys of its places. `far` has a table for each
// digit.
__device__ __forceinline__ u64 far_key(const u64* __restrict__ far, u64 number) {
    constexpr u64 DIGIT = DIGITS - 1;
    return far[number & DIGIT] * far[DIGITS + (number >> DIGIT_BITS & DIGIT)] *
           far[2 * DIGITS + (number >> 2 * DIGIT_BITS)];
}
