// prefixes: of each row the fingerprints whose slots occur least, rows of at most `longest` fingerprints.
//
//   in   values u64 [>= last offset], rows ascending; offset i64 [rows + 1], frequencies u8 [2^bits], bits,
//        lengths i64 [rows], longest (at most MAX_ROW)
//   out  chosen u64 [offset[rows] - offset[0]]: each row from its old place on, as many as counts i64 [rows] says;
//        nothing for longer rows
//
// Mapping: a block per row, whole warps; a histogram of the 256 possible frequencies in shared memory gives the
// greatest one that is in the prefix and how many of that one are, the first in order; votes keep the order. Bound:
// random reads of the frequencies; bytes: 16 per fingerprint. Geometry: the prefix is a function of the row. Oracle:
// gpulsh/backends/reference/rows.py.
#include "row.cuh"
#include "warp.cuh"

constexpr i32 FREQUENCIES = 256;
constexpr i32 A_LANE = FREQUENCIES / 32;

// Where the sum of `bins` reaches `length` (1 to the whole sum): the bin, and how much of it is needed. For one warp.
__device__ __forceinline__ void find_cut(const u32 (&bins)[FREQUENCIES], i64 length, i32& cut, i32& quota) {
    const i32 lane = threadIdx.x & 31;
    i32 sum = 0;
    for (i32 bin = 0; bin < A_LANE; ++bin) sum += bins[lane * A_LANE + bin];
    const i32 through = sum_through_lane(sum);
    i32 before = through - sum;
    if (before >= length || length > through) return;  // all lanes but one
    i32 bin = lane * A_LANE;
    while (before + (i32)bins[bin] < length) before += bins[bin++];
    cut = bin;
    quota = (i32)(length - before);
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    prefixes(const u64* __restrict__ values, const i64* __restrict__ offset, const u8* __restrict__ frequencies,
             i32 bits, const i64* __restrict__ lengths, i32 longest, u64* __restrict__ chosen,
             i64* __restrict__ counts) {
    __shared__ u8 row[MAX_ROW];
    __shared__ u32 bins[FREQUENCIES];
    __shared__ i32 rarer[ROW_WARPS], equal[ROW_WARPS];
    __shared__ i32 cut, quota;
    const i64 begin = offset[blockIdx.x];
    if (offset[blockIdx.x + 1] - begin > longest) return;
    const i32 size = (i32)(offset[blockIdx.x + 1] - begin);
    const i64 length = min(lengths[blockIdx.x], (i64)size);
    if (length <= 0) {
        if (threadIdx.x == 0) counts[blockIdx.x] = 0;
        return;
    }
    for (i32 bin = threadIdx.x; bin < FREQUENCIES; bin += blockDim.x) bins[bin] = 0;
    __syncthreads();
    for (i32 i = threadIdx.x; i < size; i += blockDim.x) {
        row[i] = frequencies[bits > 0 ? values[begin + i] >> (64 - bits) : 0];
        atomicAdd(&bins[row[i]], 1u);
    }
    __syncthreads();
    if (threadIdx.x < 32) find_cut(bins, length, cut, quota);
    __syncthreads();

    const i32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const Part part = part_of_warp(size);
    i32 below = 0, at_cut = 0;
    for (i32 i = part.begin + lane; i - lane < part.end; i += 32) {
        const bool inside = i < part.end;
        below += __popc(__ballot_sync(0xFFFFFFFFu, inside && row[i] > 1 && row[i] < cut));
        at_cut += __popc(__ballot_sync(0xFFFFFFFFu, inside && row[i] == cut));
    }
    if (lane == 0) {
        rarer[warp] = below;
        equal[warp] = at_cut;
    }
    __syncthreads();
    const i32 wanted = cut > 1 ? quota : 0;  // fingerprints that occur once are left out
    i32 seen = before_warp(equal);
    i64 at = begin - offset[0] + before_warp(rarer) + min(seen, wanted);
    for (i32 i = part.begin + lane; i - lane < part.end; i += 32) {
        const bool inside = i < part.end, same = inside && row[i] == cut;
        const u32 sames = __ballot_sync(0xFFFFFFFFu, same);
        const bool keep = same ? seen + before_lane(sames) < wanted : inside && row[i] > 1 && row[i] < cut;
        const u32 votes = __ballot_sync(0xFFFFFFFFu, keep);
        if (keep) chosen[at + before_lane(votes)] = values[begin + i];
        at += __popc(votes);
        seen += __popc(sames);
    }
    if (threadIdx.x == blockDim.x - 1) counts[blockIdx.x] = at - (begin - offset[0]);
}
