// What the integer units of a device give, as minhash asks of them. A measuring rod, no part of the library.
//
//   multiply_add           16 independent chains x = x * a + b a thread: the rate of 32-bit multiply-adds
//                          out u32 [threads of the grid], the XOR of the chains
//   multiply_add_minimum   minhash's own mix without its bookkeeping: each input, broadcast from shared memory, is
//                          multiplied and added to with 8 coefficients, and two results at a time meet the minimum
//                          out u32 [threads of the grid], the XOR of the 8 minima
//
// Mapping: every thread works alone, the grid fills the device. Bound: arithmetic; nothing but `out` touches device
// memory. The result does not depend on the geometry, only on a thread's number. Oracle: cases/roofline.py, in NumPy.
typedef unsigned int u32;
typedef int i32;

constexpr i32 MAX_THREADS = 256;
constexpr i32 CHAINS = 16;
constexpr i32 STEPS = 8;  // of each chain a round
constexpr i32 COLUMNS = 8;
constexpr i32 STAGE = 128;  // inputs
constexpr u32 SPREAD = 0x9E3779B1u, STRIDE = 0x85EBCA77u;

struct alignas(16) Four {
    u32 x, y, z, w;
};

__device__ __forceinline__ u32 min3(u32 a, u32 b, u32 c) {
#ifdef __CUDA_ARCH__
    return __vimin3_u32(a, b, c);
#else
    return min(a, min(b, c));
#endif
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    multiply_add(i32 rounds, u32 a, u32 b, u32* __restrict__ out) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    u32 x[CHAINS];
#pragma unroll
    for (i32 c = 0; c < CHAINS; ++c) x[c] = (thread + c) * SPREAD;
#pragma unroll 1
    for (i32 round = 0; round < rounds; ++round) {
#pragma unroll
        for (i32 step = 0; step < STEPS; ++step) {
#pragma unroll
            for (i32 c = 0; c < CHAINS; ++c) x[c] = x[c] * a + b;
        }
    }
    u32 all = 0;
#pragma unroll
    for (i32 c = 0; c < CHAINS; ++c) all ^= x[c];
    out[thread] = all;
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    multiply_add_minimum(i32 rounds, u32 a, u32 b, u32* __restrict__ out) {
    __shared__ Four stage[STAGE / 4];
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    for (u32 i = threadIdx.x; i < STAGE / 4; i += blockDim.x) {
        stage[i] = {4 * i * SPREAD, (4 * i + 1) * SPREAD, (4 * i + 2) * SPREAD, (4 * i + 3) * SPREAD};
    }
    __syncthreads();
    u32 least[COLUMNS], factor[COLUMNS], addend[COLUMNS];
#pragma unroll
    for (i32 c = 0; c < COLUMNS; ++c) {
        least[c] = 0xFFFFFFFFu;
        // No sum of one another, or the compiler would derive one product from the next.
        factor[c] = ((thread * COLUMNS + c) * SPREAD ^ a) | 1;
        addend[c] = (thread * COLUMNS + c) * STRIDE ^ b;
    }
#pragma unroll 1
    for (i32 round = 0; round < rounds; ++round) {
#pragma unroll 2
        for (i32 i = 0; i < STAGE / 4; ++i) {
            const Four at = stage[i];
#pragma unroll
            for (i32 c = 0; c < COLUMNS; ++c) {
                least[c] = min3(least[c], factor[c] * at.x + addend[c], factor[c] * at.y + addend[c]);
                least[c] = min3(least[c], factor[c] * at.z + addend[c], factor[c] * at.w + addend[c]);
            }
        }
#pragma unroll
        for (i32 c = 0; c < COLUMNS; ++c) addend[c] += SPREAD;  // or every round would be the first again
    }
    u32 all = 0;
#pragma unroll
    for (i32 c = 0; c < COLUMNS; ++c) all ^= least[c];
    out[thread] = all;
}
