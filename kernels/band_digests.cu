// band_digests: a 64-bit digest of each band of each signature.
//
//   in   signatures u32 [documents, columns], bands, rows (bands * rows <= columns)
//   out  digests u64 [documents, bands]
//
// Mapping: a thread a digest, bands of one document beside each other. Whether a row is all ones is decided by the
// first value that is not: almost always the first. Bound: bytes: 4 a signature value, 8 a digest; arithmetic: a 64-bit
// multiply-add a value. Geometry: a digest is a function of its row and has one writer. Oracle:
// gpulsh/backends/reference/band_digests.py.
#include "digest.cuh"

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    band_digests(const u32* __restrict__ signatures, i64 documents, i32 columns, i32 bands, i32 rows,
                 u64* __restrict__ digests) {
    __shared__ u64 keys[KEYS];
    __shared__ i64 first;  // document of the block's first digest, and its band
    __shared__ i32 first_band;
    band_keys(rows, keys);
    const i64 begin = (i64)blockIdx.x * blockDim.x;
    if (threadIdx.x == 0) {  // the one division of 64 bits
        first = begin / bands;
        first_band = (i32)(begin - first * bands);
    }
    __syncthreads();
    if (begin + threadIdx.x >= documents * bands) return;
    const u32 place = first_band + threadIdx.x, documents_on = place / (u32)bands;
    const i32 band = (i32)(place - documents_on * bands);
    const u32* signature = signatures + (first + documents_on) * columns;
    i32 column = 0;
    while (column < columns && signature[column] == NO_VALUE) ++column;
    digests[begin + threadIdx.x] =
        column < columns ? band_digest(signature + band * rows, band, rows, keys) : NO_DIGEST;
}
