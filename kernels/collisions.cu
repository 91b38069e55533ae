// collisions: takes the digests of a range that may repeat, in their order, so that only these are sorted.
//
//   in   digests u64 [count], ids i64 [count], lowest, highest (the range, both inclusive; NO_DIGEST in none),
//        last_slot (slots - 1, slots a power of two)
//   out  table u32 [max(1, slots / 16)], zeros on entry: two bits per slot, for a first and for a second digest;
//        members u32 [blocks * warps] and sizes u32 [blocks], zeros on entry; taken_digests u64 [m],
//        taken_ids i64 [m]
//
// Mapping: a thread per digest. `collisions_mark` sets the bits of each digest's slot; `collisions_members` votes for
// the digests whose slot has both bits, a word per warp and a sum per block; `collisions_take` writes them to their
// ranks, by `before` i64 [blocks + 1], the sums before each block. Equal digests share a slot, so every repeated one is
// taken. Unequal digests in one slot only cost a place in the sort. Bound: bytes: 8 per digest and kernel, and a sector
// of 32 of the table, written back once. A full slot is only read, so a digest of a million documents does not queue
// for one word. Geometry: a slot's bits say whether 0, 1 or more digests came, in any order; ranks follow the input.
// Oracle: gpulsh/backends/reference/buckets.py.
#include "warp.cuh"

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    collisions_mark(const u64* __restrict__ digests, i64 count, u64 lowest, u64 highest, u64 last_slot, u32* table) {
    const i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= count) return;
    const u64 digest = digests[index];
    if (digest < lowest || digest > highest) return;
    const u64 slot = digest & last_slot;
    u32* word = table + (slot >> 4);
    const u32 once = 1u << 2 * (u32)(slot & 15), twice = once << 1;
    u32 seen = *(volatile u32*)word;
    if ((seen & once) == 0) seen = atomicOr(word, once);
    if ((seen & once) != 0 && (seen & twice) == 0) atomicOr(word, twice);
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    collisions_members(const u64* __restrict__ digests, i64 count, u64 lowest, u64 highest, u64 last_slot,
                       const u32* __restrict__ table, u32* __restrict__ members, u32* __restrict__ sizes) {
    const i32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = (blockDim.x + 31) >> 5;
    const u32 mask = mask_of_warp();
    const i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    bool member = false;
    if (index < count) {
        const u64 digest = digests[index], slot = digest & last_slot;
        if (digest >= lowest && digest <= highest) member = table[slot >> 4] >> 2 * (u32)(slot & 15) & 2;
    }
    const u32 votes = __ballot_sync(mask, member);
    if (lane == 0 && votes != 0) {
        members[(i64)blockIdx.x * warps + warp] = votes;
        atomicAdd(&sizes[blockIdx.x], (u32)__popc(votes));
    }
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    collisions_take(const u64* __restrict__ digests, const i64* __restrict__ ids, const u32* __restrict__ members,
                    const i64* __restrict__ before, u64* __restrict__ taken_digests, i64* __restrict__ taken_ids) {
    const i32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = (blockDim.x + 31) >> 5;
    const u32* words = members + (i64)blockIdx.x * warps;
    if ((words[warp] >> lane & 1) == 0) return;
    i64 rank = before[blockIdx.x] + __popc(words[warp] & ((1u << lane) - 1));
    for (i32 earlier = 0; earlier < warp; ++earlier) rank += __popc(words[earlier]);
    const i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    taken_digests[rank] = digests[index];
    taken_ids[rank] = ids[index];
}
