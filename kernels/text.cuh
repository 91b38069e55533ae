// Code points of UTF-8 text, read in parallel. All rules are local: a code point starts at a byte exactly where a
// well-formed sequence (Unicode, table 3-7) starts there and ends within the document; every byte in no such sequence
// is a separator. A lead byte is never a continuation byte, so no sequence hides another, and the code point before a
// byte is found by looking back at most four bytes.
#pragma once
#include "search.cuh"

constexpr i32 SEPARATOR = 0, WORD = 1, SINGLE = 2;
constexpr u32 SPACE = 0x20;
constexpr i32 BLOCK_BITS = 7;   // of the two-level table: stage2[stage1[cp >> 7] << 7 | cp & 127]
constexpr i32 MAX_TILE = 5120;  // bytes a block reads
constexpr i32 BEFORE = 4;       // bytes of context in front of a tile: a code point that ends at its first byte
constexpr i32 AFTER = 3;        // and behind: the rest of one that starts at its last byte

struct CodePoint {
    u32 value;
    i32 length;  // in bytes
};

// The code point that starts at bytes[at] and ends at or before `end`; where none does, one byte of U+0000: a
// separator.
__device__ __forceinline__ CodePoint decode(const u8* bytes, i32 at, i64 end) {
    const u32 lead = bytes[at];
    if (lead < 0x80) return {lead, 1};
    if (lead < 0xC2 || lead > 0xF4) return {0, 1};
    const i32 length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (at + length > end) return {0, 1};
    u32 value = lead & (0x7F >> length);
    for (i32 i = 1; i < length; ++i) {
        const u32 byte = bytes[at + i];
        if ((byte & 0xC0) != 0x80) return {0, 1};
        value = value << 6 | (byte & 0x3F);
    }
    if (length == 3 && (value < 0x800 || (value >= 0xD800 && value < 0xE000))) return {0, 1};
    if (length == 4 && (value < 0x10000 || value > 0x10FFFF)) return {0, 1};
    return {value, length};
}

// (folded - code point) << 2 | class.
__device__ __forceinline__ i32 classify(u32 code_point, const u16* __restrict__ stage1,
                                        const i32* __restrict__ stage2) {
    const u32 block = stage1[code_point >> BLOCK_BITS];
    return stage2[block << BLOCK_BITS | (code_point & ((1u << BLOCK_BITS) - 1))];
}

// Copies text[begin - BEFORE, begin + length + AFTER) to `tile`, with zeros for what lies outside [first, last).
// No barrier: `block_range` follows.
__device__ __forceinline__ void load_tile(const u8* __restrict__ text, i64 first, i64 last, i64 begin, i32 length,
                                          u8* tile) {
    for (i32 i = threadIdx.x; i < BEFORE + length + AFTER; i += blockDim.x) {
        const i64 position = begin - BEFORE + i;
        tile[i] = position >= first && position < last ? text[position] : 0;
    }
}

// One thread's bytes [from, to) of a tile whose byte 0 is the text's byte `begin`: calls visitor.document(d) at the
// first byte of each document d that has any, and visitor.code_point(folded, class, class before it in its document)
// at each code point of class word or single. `next` is the first document that starts at or after begin + from; one
// that starts after it must exist (offset's last element is the text's end), at most `limit`. `bytes[i]` is byte i,
// from -BEFORE on.
template <class Visitor>
__device__ __forceinline__ void walk(const u8* bytes, i64 begin, i32 from, i32 to, const i64* __restrict__ offset,
                                     i64 next, i64 limit, const u16* __restrict__ stage1,
                                     const i32* __restrict__ stage2, Visitor& visitor) {
    i32 at = from;
    i32 previous = SEPARATOR;
    i64 end = offset[next] - begin;
    if (end > from) {  // inside a document: what precedes, and is a code point still running?
        const i64 start = offset[next - 1] - begin;
        for (i32 back = 1; back <= BEFORE && from - back >= start; ++back) {
            if ((bytes[from - back] & 0xC0) == 0x80) continue;
            const CodePoint before = decode(bytes, from - back, end);
            if (before.length >= back) {
                previous = classify(before.value, stage1, stage2) & 3;
                at += before.length - back;
            }
            break;
        }
    }
    while (at < to) {
        if (end == at) {
            next = upper_bound_near(offset, next + 1, limit, begin + at);
            visitor.document(next - 1);
            previous = SEPARATOR;
            end = offset[next] - begin;
        }
        const CodePoint found = decode(bytes, at, end);
        const i32 entry = classify(found.value, stage1, stage2);
        const i32 klass = entry & 3;
        if (klass != SEPARATOR) visitor.code_point(found.value + (entry >> 2), klass, previous);
        previous = klass;
        at += found.length;
    }
}
