// components: the smallest id of each id's connected component.
//
//   in   pairs i64 [edges, 2] in [0, count)
//   out  parent u64 [count], parent[i] = i on entry: a forest, a root the smallest id of its component; after
//        `components_label` each id's root
//
// Mapping: `components_hook`, a thread an edge, joins two trees by hanging the larger root under the smaller with one
// compare-and-swap, without locks; `components_label`, a thread an id, climbs to the root, in place.
// Bound: latency of dependent reads; bytes: 16 an edge and a sector of 32 for each end. Nothing is written for an edge
// whose ends hang under one root already, as most of a large component's do; swaps that fail meet only where one root
// is hung, and find a smaller one.
// Geometry: a parent is never larger than its child, so however the hooks interleave (the forest may differ) the root
// of each finished tree is its smallest id, the label. Oracle: gpulsh/backends/reference/buckets.py.
#include "bits.cuh"

// The root above `id`. A value read may be old, but it was an ancestor and still is. The path is halved on the way: a
// parent gives way to the grandparent, and only ever decreases, so that nobody's older knowledge undoes it. All chains
// shorten each other: no order of threads climbs a long one again and again.
__device__ __forceinline__ u64 climb(volatile u64* parent, u64 id) {
    while (true) {
        const u64 up = parent[id];
        if (up == id) return id;
        const u64 above = parent[up];
        if (above == up) return up;
        atomicMin((u64*)&parent[id], above);
        id = above;
    }
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    components_hook(const i64* __restrict__ pairs, i64 edges, volatile u64* parent) {
    const i64 edge = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (edge >= edges) return;
    u64 a = pairs[2 * edge], b = pairs[2 * edge + 1];
    while (true) {
        a = climb(parent, a);
        b = climb(parent, b);
        if (a == b) return;
        const u64 low = min(a, b), high = max(a, b);
        if (atomicCAS((u64*)&parent[high], high, low) == high) return;
        a = low;
        b = high;
    }
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS) components_label(i64 count, volatile u64* parent) {
    const i64 id = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= count) return;
    const u64 root = climb(parent, id);
    if (parent[id] != root) atomicMin((u64*)&parent[id], root);
}
