// UTF-8 text in strips of 28 bytes, a thread per strip, as bit masks. All rules are local: a code point starts at a
// byte exactly where a well-formed sequence (Unicode, table 3-7) starts there and ends within the document; every byte
// in no such sequence is a separator. A lead byte is never a continuation byte, so no sequence hides another, and the
// code point before a byte begins at most four bytes back: a thread looks at its strip and the 4 bytes before, 32 bits
// in all. ASCII, 7 bits per byte, is classified four bytes at a time; the Unicode table is read for lead bytes only,
// and for ASCII if the reading has its own table: BY_TABLE.
#pragma once
#include "search.cuh"

constexpr i32 SEPARATOR = 0, WORD = 1, SINGLE = 2;
constexpr i32 BLOCK_BITS = 7;  // of the two-level table: stage2[stage1[cp >> 7] << 7 | cp & 127]
constexpr i32 STRIP = 28;      // bytes; 7 words, an odd number, so that the lanes of a warp read different banks
constexpr i32 BEFORE = 4;      // bytes of context in front of a strip: a code point that ends where it begins
constexpr i32 AFTER = 7;       // and behind: the rest of one that starts at its last byte, to the end of a word
constexpr u32 HIGH_BITS = 0x80808080u;

// Sixteen bytes, moved at once.
struct alignas(16) Vector {
    u32 words[4];
};

// The size of a tile at any alignment of the text.
constexpr i32 TILE_VECTORS = (15 + BEFORE + MAX_THREADS * STRIP + AFTER + 15) / 16;

// Copies text[begin - BEFORE, begin + blockDim.x * STRIP + AFTER) to `tile`, with zeros outside [first,
// last), where it reads nothing. Returns the place of byte begin - BEFORE in the tile: vectors are aligned in both.
// Ends with a barrier.
__device__ __forceinline__ i32 load_tile(const u8* __restrict__ text, i64 first, i64 last, i64 begin, Vector* tile) {
    const i32 shift = (i32)((u64)(text + begin - BEFORE) & 15);
    const i64 start = begin - BEFORE - shift;
    const i32 vectors = (shift + BEFORE + (i32)blockDim.x * STRIP + AFTER + 15) / 16;
    for (i32 i = threadIdx.x; i < vectors; i += blockDim.x) {
        const i64 at = start + 16 * i;
        if (at >= first && at + 16 <= last) {
            tile[i] = *(const Vector*)(text + at);
        } else {
            u8* bytes = (u8*)(tile + i);
#pragma unroll 1
            for (i32 j = 0; j < 16; ++j) bytes[j] = at + j >= first && at + j < last ? text[at + j] : 0;
        }
    }
    __syncthreads();
    return shift;
}

// Four bytes from byte `at` on, the first lowest.
__device__ __forceinline__ u32 four_bytes(const u32* words, i32 at) {
    const u32 low = words[at >> 2], high = words[(at >> 2) + 1];
    return (u32)(((u64)high << 32 | low) >> ((at & 3) * 8));
}

// A sequence of two to four bytes that begins with `lead`.
__device__ __forceinline__ i32 sequence_length(u32 lead) {
    return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

// The code point of a well-formed sequence, the first byte lowest.
__device__ __forceinline__ u32 code_point(u32 bytes, i32 length) {
    const u32 joined =
        (bytes & (0x7Fu >> length)) << 18 | (bytes & 0x3F00u) << 4 | (bytes & 0x3F0000u) >> 10 | (bytes >> 24 & 0x3Fu);
    return joined >> (6 * (4 - length));
}

__device__ __forceinline__ bool well_formed(u32 bytes, i32 length, u32 code_point) {
    const u32 lead = bytes & 0xFF, marks = 0xC0C0C000u & (0xFFFFFFFFu >> (8 * (4 - length)));
    if (lead < 0xC2 || lead > 0xF4 || (bytes & marks) != (HIGH_BITS & marks)) return false;
    if (length == 3) return code_point >= 0x800 && (code_point < 0xD800 || code_point >= 0xE000);
    return length == 2 || (code_point >= 0x10000 && code_point <= 0x10FFFF);
}

// (folded - code point) << 2 | class.
__device__ __forceinline__ i32 classify(u32 code_point, const u16* __restrict__ stage1,
                                        const i32* __restrict__ stage2) {
    const u32 block = stage1[code_point >> BLOCK_BITS];
    return stage2[block << BLOCK_BITS | (code_point & ((1u << BLOCK_BITS) - 1))];
}

// The high bit of each byte that is an ASCII letter or digit: class WORD of the table below U+0080.
__device__ __forceinline__ u32 ascii_words(u32 bytes) {
    const u32 low = bytes & 0x7F7F7F7Fu, letter = low | 0x20202020u;
    const u32 letters = (letter + 0x1F1F1F1Fu) & ~(letter + 0x05050505u);  // from 'a', not beyond 'z'
    const u32 digits = (low + 0x50505050u) & ~(low + 0x46464646u);         // from '0', not beyond '9'
    return (letters | digits) & ~bytes & HIGH_BITS;
}

// Four bytes; ASCII bytes of class word are folded.
__device__ __forceinline__ u32 fold_ascii(u32 bytes) {
    return bytes | (bytes & 0x40404040u) >> 1;
}

// The high bits of four bytes, side by side: the products do not overlap.
__device__ __forceinline__ u32 high_bits_of(u32 high_bits) {
    return high_bits * 0x00204081u >> 28;
}

// A strip's bytes, one a bit, the first lowest.
struct Marks {
    u32 code_points;  // of class word or single begin here
    u32 starts;       // those of them that no code point they could continue stands before
};

// The marks of the strip whose context begins at byte `at` of the tile. A code point continues one of class word, with
// `characters` one of either class. `documents` points to the strip's mask of first bytes of documents, between those
// of its neighbours. With BY_TABLE the table is read for ASCII, too.
template <bool BY_TABLE>
__device__ __forceinline__ Marks mark(const u32* tile, i32 at, const u32* __restrict__ documents,
                                      const u16* __restrict__ stage1, const i32* __restrict__ stage2, i32 characters) {
    u32 found = 0, leads = 0;
#pragma unroll
    for (i32 i = STRIP + BEFORE - 4; i >= 0; i -= 4) {
        const u32 bytes = four_bytes(tile, at + i);
        if (BY_TABLE) {
            leads = leads << 4 | high_bits_of((~bytes | bytes << 1) & HIGH_BITS);
        } else {
            found = found << 4 | high_bits_of(ascii_words(bytes));
            leads = leads << 4 | high_bits_of(bytes & bytes << 1 & HIGH_BITS);
        }
    }
    u32 words = found, alone = 0;  // all bytes of code points that can be continued; those that continue nothing
    const u64 begins = (u64)documents[1] << 32 | documents[0] << BEFORE | documents[-1] >> (STRIP - BEFORE);
    while (leads != 0) {
        const u32 bit = leads & (0 - leads);
        const i32 i = __ffs(bit) - 1;
        leads ^= bit;
        const u32 bytes = four_bytes(tile, at + i);
        const bool ascii = BY_TABLE && (bytes & 0x80) == 0;
        const i32 length = ascii ? 1 : sequence_length(bytes & 0xFF);
        const u32 value = ascii ? bytes & 0x7F : code_point(bytes, length);
        const u32 cut = (u32)(begins >> (i + 1)) & ((1u << (length - 1)) - 1);
        if (cut != 0 || !(ascii || well_formed(bytes, length, value))) continue;
        const i32 klass = classify(value, stage1, stage2) & 3;
        if (klass == SEPARATOR) continue;
        found |= bit;
        if (klass == WORD || characters) {
            words |= bit * ((1u << length) - 1);
        } else {
            alone |= bit;
        }
    }
    const u32 starts = found & (alone | ~(words << 1) | (u32)begins);
    return {found >> BEFORE, starts >> BEFORE};
}
