// The digest of one band, and the multipliers that its places share.
#pragma once
#include "bits.cuh"

// Multipliers of the first places, computed once a block; the others are computed where they are needed.
constexpr i32 BAND_KEYS = 64;

__device__ __forceinline__ void band_keys(i32 rows, u64 (&keys)[BAND_KEYS]) {
#pragma unroll 1
    for (i32 i = threadIdx.x; i < min(rows, BAND_KEYS); i += blockDim.x) keys[i] = key(STREAM_BAND, i);
}

// Of the `rows` values of band number `band`.
template <typename Value>
__device__ __forceinline__ u64 band_digest(const Value* values, i32 band, i32 rows, const u64* keys) {
    u64 sum = (u64)(band + 1) * GOLDEN;
#pragma unroll 4
    for (i32 row = 0; row < min(rows, BAND_KEYS); ++row) sum += keys[row] * values[row];
#pragma unroll 1
    for (i32 row = BAND_KEYS; row < rows; ++row) sum += key(STREAM_BAND, row) * values[row];
    const u64 digest = mix64(sum);
    return digest == NO_DIGEST ? INSTEAD_OF_NO_DIGEST : digest;
}
