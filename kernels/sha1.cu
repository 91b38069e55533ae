// sha1: the first 64 bits of SHA-1 of each text (FIPS 180-4, section 6.1), as a little-endian number.
//
//   in   values u8 [>= offset[texts]], offset i64 [texts + 1]
//   out  heads u64 [texts]
//
// Mapping: a thread a text, a block of 64 bytes after another: a digest is serial in its text, and texts are tokens.
// Bound: instructions; single bytes read. Geometry: texts do not meet. Oracle: gpulsh/backends/reference/texts.py.
#include "bits.cuh"

__device__ __forceinline__ u32 rotated(u32 word, i32 left) {
    return word << left | word >> (32 - left);
}

__device__ __forceinline__ u32 swapped(u32 word) {
    return word << 24 | (word & 0xFF00u) << 8 | (word >> 8 & 0xFF00u) | word >> 24;
}

// A text, the bit behind it, and zeros.
__device__ __forceinline__ u32 padded(const u8* __restrict__ text, i64 length, i64 at) {
    return at < length ? text[at] : at == length ? 0x80u : 0u;
}

__device__ __forceinline__ void add_block(u32 (&state)[5], u32 (&words)[16]) {
    u32 a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
#pragma unroll
    for (i32 i = 0; i < 80; ++i) {
        if (i >= 16) {
            const u32 mixed = words[(i - 3) & 15] ^ words[(i - 8) & 15] ^ words[(i - 14) & 15] ^ words[i & 15];
            words[i & 15] = rotated(mixed, 1);
        }
        const u32 chosen = i < 20 ? d ^ (b & (c ^ d)) : i >= 40 && i < 60 ? (b & c) | (d & (b | c)) : b ^ c ^ d;
        const u32 addend = i < 20 ? 0x5A827999u : i < 40 ? 0x6ED9EBA1u : i < 60 ? 0x8F1BBCDCu : 0xCA62C1D6u;
        const u32 next = rotated(a, 5) + chosen + e + addend + words[i & 15];
        e = d;
        d = c;
        c = rotated(b, 30);
        b = a;
        a = next;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    sha1(const u8* __restrict__ values, const i64* __restrict__ offset, i64 texts, u64* __restrict__ heads) {
    const i64 text = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (text >= texts) return;
    const i64 begin = offset[text], length = offset[text + 1] - begin;
    u32 state[5] = {0x67452301u, 0xEFCDAB89u, 0x98BADCFEu, 0x10325476u, 0xC3D2E1F0u};
    for (i64 start = 0; start <= length + 8; start += 64) {
        u32 words[16];
#pragma unroll
        for (i32 i = 0; i < 16; ++i) {
            words[i] = 0;
            for (i32 j = 0; j < 4; ++j) words[i] = words[i] << 8 | padded(values + begin, length, start + 4 * i + j);
        }
        if (length + 8 < start + 64) {  // the last block, with the length in bits
            words[14] = (u32)(length >> 29);
            words[15] = (u32)(length << 3);
        }
        add_block(state, words);
    }
    heads[text] = swapped(state[0]) | (u64)swapped(state[1]) << 32;
}
