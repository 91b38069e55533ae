// sketch: token sums to band digests, in one kernel that writes neither fingerprints nor signatures.
//
//   in   sums u64 [tokens], starts i64 [documents + 1] (see tokens.cu), skip, size (see shingle.cu), multiplier,
//        addend u32 [columns], columns (at most MAX_COLUMNS), bands, rows (bands * rows <= columns),
//        span (tokens per warp, at most MAX_SPAN)
//   out  digests u64 [documents, bands], NO_DIGEST on entry; it stays where a document has no shingle
//   between the two kernels, for the documents whose shingles begin in several spans:
//        minima u32 [spans, columns], all ones on entry: row s is for the document that begins in span s and leaves it;
//        straddlers i64 [spans]: the number of this document, -1 if there is none
//
// Mapping: a warp takes `span` consecutive tokens, across the borders of documents. First it computes the upper half
// of the fingerprint that would begin at each, four a lane at a time, into shared memory; those with tokens in two
// documents are never read. Then it walks over its documents with minima in the registers of its lanes, as in
// minhash.cu, by groups of 64, 128 or 256 columns. A document inside the span has its signature in shared memory for a
// moment, a lane per band; atomicMin joins the pieces of a divided one, and sketch_straddlers digests them, a
// warp per span. Bound: arithmetic, as in minhash.cu and shingle.cu; bytes: 8 per token. Geometry: a minimum is the
// same over any split, a digest has one writer. Oracle: gpulsh/backends/protocol.py.
#include "digest.cuh"
#include "minima.cuh"

constexpr i32 MAX_SIZE = 64;
constexpr i32 CHUNK = 128;        // tokens whose shingles a warp computes at a time
constexpr i32 MAX_COLUMNS = 512;  // of a signature
constexpr i32 SCRATCH = 256;      // words of 64 bits per warp: hashes of a chunk and what follows it, then a signature
static_assert(SCRATCH >= CHUNK + MAX_SIZE - 1 && 2 * SCRATCH >= MAX_COLUMNS && MAX_COLUMNS % 256 == 0);

struct Shared {  // of a block
    Four stages[MAX_WARPS][MAX_SPAN / 4];
    u64 scratch[MAX_WARPS][SCRATCH];
    u64 shingle_keys[MAX_SIZE], band_keys[BAND_KEYS];
};

struct Sketch {
    const u64* sums;
    i64 tokens;
    const i64* starts;
    i64 documents;
    i32 skip, size;
    const u32 *multiplier, *addend;
    i32 columns, bands, rows, span;
    u64* digests;
    u32* minima;
    i64* straddlers;
    const u64 *shingle_keys, *band_keys;  // in shared memory, set by `run`

    __device__ __forceinline__ u64 hash(i64 token) const { return token < tokens ? mix64(sums[token]) : 0; }

    // stage[i]: the upper half of the fingerprint of the `size` tokens from begin + i on, for i < length and some more.
    __device__ __forceinline__ void shingle(i64 begin, i32 length, u64* hashes, u32* stage) const {
        const i32 lane = threadIdx.x & 31, before = size - 1;
#pragma unroll 1
        for (i32 i = lane; i < before; i += 32) hashes[i] = hash(begin + i);
        for (i32 chunk = 0; chunk < length; chunk += CHUNK) {
#pragma unroll
            for (i32 i = lane; i < CHUNK; i += 32) hashes[before + i] = hash(begin + chunk + before + i);
            __syncwarp();
            u64 sum[CHUNK / 32];
#pragma unroll
            for (i32 k = 0; k < CHUNK / 32; ++k) sum[k] = size * LENGTH;
#pragma unroll 4
            for (i32 j = 0; j < size; ++j) {
                const u64 key = shingle_keys[j];
#pragma unroll
                for (i32 k = 0; k < CHUNK / 32; ++k) sum[k] += key * hashes[lane + 32 * k + j];
            }
#pragma unroll
            for (i32 k = 0; k < CHUNK / 32; ++k) stage[chunk + lane + 32 * k] = (u32)(mix64(sum[k]) >> 32);
            __syncwarp();
#pragma unroll 1
            for (i32 i = lane; i < before; i += 32) hashes[i] = hashes[CHUNK + i];
            __syncwarp();
        }
    }

    // Likewise for all `count` tokens of a document with fewer than `size`.
    __device__ __forceinline__ u32 short_shingle(i64 first, i32 count) const {
        const i32 lane = threadIdx.x & 31;
        u64 sum = 0;
#pragma unroll 1
        for (i32 j = lane; j < count; j += 32) sum += shingle_keys[j] * mix64(sums[first + j]);
        sum = merged_lanes(sum, [](u64 a, u64 b) { return a + b; });
        return (u32)(mix64(sum + count * LENGTH) >> 32);
    }

    // All bands of a signature that is not all ones.
    __device__ __forceinline__ void digest(i64 document, const u32* signature) const {
#pragma unroll 1
        for (i32 band = threadIdx.x & 31; band < bands; band += 32) {
            digests[document * bands + band] = band_digest(signature + band * rows, band, rows, band_keys);
        }
    }

    template <i32 COLUMNS>
    __device__ __forceinline__ void run() {
        __shared__ Shared shared;
#pragma unroll 1
        for (i32 i = threadIdx.x; i < size; i += blockDim.x) shared.shingle_keys[i] = key(STREAM_SHINGLE, i);
        ::band_keys(rows, shared.band_keys);
        __syncthreads();
        shingle_keys = shared.shingle_keys, band_keys = shared.band_keys;
        u32* stage = reinterpret_cast<u32*>(shared.stages[threadIdx.x >> 5]);
        u64* scratch = shared.scratch[threadIdx.x >> 5];

        const i32 lane = threadIdx.x & 31;
        const i64 number = (i64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), begin = number * span;
        if (begin >= tokens) return;  // the whole warp
        const i32 length = (i32)min((i64)span, tokens - begin);
        shingle(begin, length, scratch, stage);

        u32* signature = reinterpret_cast<u32*>(scratch);
        Minima<COLUMNS> least;
        least.load(multiplier, addend, lane, columns);
        Rows documents_met(starts, documents, begin, tokens, span);
        i64 straddler = -1;
        for (i32 at = 0; at < length;) {
            documents_met.find(at);
            const i64 document = documents_met.row;
            const i64 ahead = at > 0 ? at : starts[document] - begin;  // not above 0 where it begins before the span
            const i32 first = (i32)max(ahead, (i64)-FAR) + skip, last = documents_met.stop;
            const i32 stop = max(last - size, first) + 1;  // behind its last shingle
            const i32 from = max(first, 0), to = min(stop, length);
            at = last;
            if (first >= last || from >= to) continue;  // it has no shingle, or none here
            if (last - first < size) {
                const u32 x = short_shingle(begin + first, last - first);
                if (lane == 0) stage[first] = x;
                __syncwarp();
            }
            const bool whole = first >= 0 && stop <= length;
            bool real = false;
            for (i32 group = 0; group < columns; group += 32 * COLUMNS) {
                const i32 column = group + lane;
                if (columns > 32 * COLUMNS) least.load(multiplier, addend, column, columns);
                least.clear();
                least.take(stage, from, to);
                real |= least.any();
                if (whole) {
                    least.store(signature + column, 32 * COLUMNS);  // there is room for whole groups
                } else {
                    const i64 home = first >= 0 ? number : (starts[document] + skip) / span;
                    least.merge(minima + home * columns + column, columns - column);
                }
            }
            if (whole) {
                if (__ballot_sync(~0u, real)) {
                    __syncwarp();  // the signature is written
                    digest(document, signature);
                }
                __syncwarp();  // it is read
            } else if (first >= 0) {
                straddler = document;
            }
        }
        if (lane == 0) straddlers[number] = straddler;
    }
};

extern "C" __global__ void __launch_bounds__(SPAN_THREADS, 8)
    sketch_2_columns(const u64* __restrict__ sums, i64 tokens, const i64* __restrict__ starts, i64 documents, i32 skip,
                     i32 size, const u32* __restrict__ multiplier, const u32* __restrict__ addend, i32 columns,
                     i32 bands, i32 rows, i32 span, u64* __restrict__ digests, u32* __restrict__ minima,
                     i64* __restrict__ straddlers) {
    Sketch sketch = {sums,    tokens, starts, documents, skip,    size,   multiplier, addend,
                     columns, bands,  rows,   span,      digests, minima, straddlers};
    sketch.run<2>();
}

extern "C" __global__ void __launch_bounds__(SPAN_THREADS, 8)
    sketch_4_columns(const u64* __restrict__ sums, i64 tokens, const i64* __restrict__ starts, i64 documents, i32 skip,
                     i32 size, const u32* __restrict__ multiplier, const u32* __restrict__ addend, i32 columns,
                     i32 bands, i32 rows, i32 span, u64* __restrict__ digests, u32* __restrict__ minima,
                     i64* __restrict__ straddlers) {
    Sketch sketch = {sums,    tokens, starts, documents, skip,    size,   multiplier, addend,
                     columns, bands,  rows,   span,      digests, minima, straddlers};
    sketch.run<4>();
}

extern "C" __global__ void __launch_bounds__(SPAN_THREADS, 8)
    sketch_8_columns(const u64* __restrict__ sums, i64 tokens, const i64* __restrict__ starts, i64 documents, i32 skip,
                     i32 size, const u32* __restrict__ multiplier, const u32* __restrict__ addend, i32 columns,
                     i32 bands, i32 rows, i32 span, u64* __restrict__ digests, u32* __restrict__ minima,
                     i64* __restrict__ straddlers) {
    Sketch sketch = {sums,    tokens, starts, documents, skip,    size,   multiplier, addend,
                     columns, bands,  rows,   span,      digests, minima, straddlers};
    sketch.run<8>();
}

extern "C" __global__ void __launch_bounds__(SPAN_THREADS)
    sketch_straddlers(const u32* __restrict__ minima, const i64* __restrict__ straddlers, i64 spans, i32 columns,
                      i32 bands, i32 rows, u64* __restrict__ digests) {
    __shared__ u64 keys[BAND_KEYS];
    band_keys(rows, keys);
    __syncthreads();
    const i32 lane = threadIdx.x & 31;
    const i64 number = (i64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    if (number >= spans || straddlers[number] < 0) return;  // the whole warp
    const u32* signature = minima + number * columns;
    bool real = false;
    for (i32 column = lane; column < columns; column += 32) real |= signature[column] != NO_VALUE;
    if (__ballot_sync(~0u, real) == 0) return;
    const i64 document = straddlers[number];
    for (i32 band = lane; band < bands; band += 32) {
        digests[document * bands + band] = band_digest(signature + band * rows, band, rows, keys);
    }
}
