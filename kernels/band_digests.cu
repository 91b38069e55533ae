// band_digests: a 64-bit digest of each band of each signature.
//
//   in   signatures u32 or u64 [documents, columns], bands, rows (bands * rows <= columns)
//   out  digests u64 [documents, bands]
//
// Mapping: a thread per digest, bands of one document side by side. Whether a row is all ones is decided by the
// first value that is not: almost always the first. Bound: bytes: 4 or 8 per signature value, 8 per digest; arithmetic:
// a 64-bit multiply-add a value. Geometry: a digest is a function of its row and has one writer. Oracle:
// gpulsh/backends/reference/buckets.py.
#include "digest.cuh"

struct First {  // digest of a block: its document and band
    i64 document;
    i32 band;
};

template <typename Value>
__device__ __forceinline__ void digests_of(const Value* __restrict__ signatures, i64 documents, i32 columns, i32 bands,
                                           i32 rows, u64* __restrict__ digests) {
    __shared__ u64 keys[BAND_KEYS];
    __shared__ First first;
    band_keys(rows, keys);
    const i64 begin = (i64)blockIdx.x * blockDim.x;
    if (threadIdx.x == 0) {  // the one division of 64 bits
        first.document = begin / bands;
        first.band = (i32)(begin - first.document * bands);
    }
    __syncthreads();
    if (begin + threadIdx.x >= documents * bands) return;
    const u32 place = first.band + threadIdx.x, documents_on = place / (u32)bands;
    const i32 band = (i32)(place - documents_on * bands);
    const Value* signature = signatures + (first.document + documents_on) * columns;
    i32 column = 0;
    while (column < columns && signature[column] == (Value)~0ull) ++column;
    digests[begin + threadIdx.x] =
        column < columns ? band_digest(signature + band * rows, band, rows, keys) : NO_DIGEST;
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    band_digests(const u32* __restrict__ signatures, i64 documents, i32 columns, i32 bands, i32 rows,
                 u64* __restrict__ digests) {
    digests_of(signatures, documents, columns, bands, rows, digests);
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    wide_band_digests(const u64* __restrict__ signatures, i64 documents, i32 columns, i32 bands, i32 rows,
                      u64* __restrict__ digests) {
    digests_of(signatures, documents, columns, bands, rows, digests);
}
