// token_bounds: where tokens begin and end in the bytes of their documents.
//
//   in   text u8 [>= offset[documents]], offset i64 [documents + 1], characters (0: unit="word", 1: unit="char"),
//        code_points, token_starts u32 [strips], by `tokens_count`, row i64 [count], token i64 [count]: a document, and
//        the number of a token in it
//   out  tokens i64 [strips], points i64 [strips]: tokens and code points that begin in each strip, which the caller
//        adds up to inclusive sums
//        bounds i64 [count, 2]
//
// Mapping: a thread per strip; then a thread per wanted token, which finds its strip by binary search in the sums, and
// its byte in the strip's bit mask. A word ends with the last code point before the next token's start: that code point
// is found the same way, so no loop is as long as a token or a gap. Bound: latency of dependent reads. Geometry: counts
// over all text before a byte do not depend on where strips begin. Oracle: gpulsh/backends/reference/texts.py.
#include "text.cuh"

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    token_bounds_counts(const u32* __restrict__ code_points, const u32* __restrict__ token_starts, i64 strips,
                        i32 characters, i64* __restrict__ tokens, i64* __restrict__ points) {
    const i64 strip = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (strip >= strips) return;
    const i32 found = __popc(code_points[strip]);
    points[strip] = found;
    tokens[strip] = __popc(token_starts[strip]) + (characters ? found : 0);
}

// The sum before a strip.
__device__ __forceinline__ i64 before(const i64* __restrict__ ends, i64 strip) {
    return strip > 0 ? ends[strip - 1] : 0;
}

// The byte of the set bit of this number.
__device__ __forceinline__ i64 byte_at(const u32* __restrict__ masks, const i64* __restrict__ ends, i64 strips,
                                       i64 number) {
    const i64 strip = upper_bound(ends, 0, strips, number);
    u32 mask = masks[strip];
    for (i64 left = number - before(ends, strip); left > 0; --left) mask &= mask - 1;
    return strip * STRIP + __ffs(mask) - 1;
}

// How many bits are set before a byte.
__device__ __forceinline__ i64 bits_before(const u32* __restrict__ masks, const i64* __restrict__ ends, i64 byte) {
    return before(ends, byte / STRIP) + __popc(masks[byte / STRIP] & ((1u << (u32)(byte % STRIP)) - 1));
}

__device__ __forceinline__ i32 length_at(const u8* __restrict__ text, i64 byte) {
    return text[byte] < 0x80 ? 1 : sequence_length(text[byte]);
}

// `tokens`, `points`: inclusive sums.
extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    token_bounds(const u8* __restrict__ text, const i64* __restrict__ offset, i32 characters,
                 const u32* __restrict__ code_points, const u32* __restrict__ token_starts,
                 const i64* __restrict__ tokens, const i64* __restrict__ points, i64 strips,
                 const i64* __restrict__ row, const i64* __restrict__ token, i64 count, i64* __restrict__ bounds) {
    const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const i64 origin = offset[row[i]] - offset[0];
    const u8* first = text + offset[0];
    i64 begin, end;
    if (characters) {
        // A document's tokens begin with a space that is none.
        const i64 strip = origin / STRIP;
        const u32 earlier = (1u << (u32)(origin % STRIP)) - 1;
        const i64 number = before(tokens, strip) + __popc(code_points[strip] & earlier) +
                           __popc(token_starts[strip] & earlier) + 1 + token[i];
        const i64 at = upper_bound(tokens, 0, strips, number);
        i64 left = number - before(tokens, at);
        u32 rest = code_points[at];
        while (true) {
            const u32 bit = rest & (0 - rest), starts = (token_starts[at] & bit) != 0;
            begin = at * STRIP + __ffs(bit) - 1;
            if (left < 1 + starts) {
                end = begin + length_at(first, begin);
                if (starts && left == 0) {
                    end = begin;
                    const i64 last = byte_at(code_points, points, strips, bits_before(code_points, points, begin) - 1);
                    begin = last + length_at(first, last);
                }
                break;
            }
            left -= 1 + starts;
            rest ^= bit;
        }
    } else {
        const i64 number = bits_before(token_starts, tokens, origin) + token[i];
        begin = byte_at(token_starts, tokens, strips, number);
        i64 behind = points[strips - 1];  // code points before the next token
        if (number + 1 < tokens[strips - 1]) {
            behind = bits_before(code_points, points, byte_at(token_starts, tokens, strips, number + 1));
        }
        const i64 last = byte_at(code_points, points, strips, behind - 1);
        end = last + length_at(first, last);
    }
    bounds[2 * i] = begin - origin;
    bounds[2 * i + 1] = end - origin;
}
