// band_digests: a 64-bit digest of each band of each signature.
//
//   in   signatures u32 [documents, columns], bands, rows (bands * rows <= columns)
//   out  digests u64 [documents, bands]
//
// Mapping: a thread a digest, bands of one document beside each other. Whether a row is all ones is decided by the
// first value that is not: almost always the first. Bound: bytes: 4 a signature value, 8 a digest; arithmetic: a 64-bit
// multiply-add a value. Geometry: a digest is a function of its row and has one writer. Oracle:
// gpulsh/backends/reference/band_digests.py.
#include "bits.cuh"

constexpr i32 KEYS = 64;  // of the first rows, computed once a block

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    band_digests(const u32* __restrict__ signatures, i64 documents, i32 columns, i32 bands, i32 rows,
                 u64* __restrict__ digests) {
    __shared__ u64 keys[KEYS];
    for (i32 i = threadIdx.x; i < KEYS; i += blockDim.x) keys[i] = key(STREAM_BAND, i);
    __syncthreads();
    const i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= documents * bands) return;
    const i64 document = index / bands;
    const i32 band = (i32)(index - document * bands);
    const u32* signature = signatures + document * columns;
    i32 column = 0;
    while (column < columns && signature[column] == NO_VALUE) ++column;
    if (column == columns) {
        digests[index] = NO_DIGEST;
        return;
    }
    const u32* values = signature + (i64)band * rows;
    u64 sum = (u64)(band + 1) * GOLDEN;
    for (i32 row = 0; row < rows; ++row) sum += (row < KEYS ? keys[row] : key(STREAM_BAND, row)) * values[row];
    const u64 digest = mix64(sum);
    digests[index] = digest == NO_DIGEST ? INSTEAD_OF_NO_DIGEST : digest;
}
