// components: the smallest id of each id's connected component.
//
//   in   pairs i64 [edges, 2] in [0, count)
//   out  parent u64 [count], parent[i] = i on entry: a forest, a root the smallest id of its component
//        labels i64 [count]
//
// Mapping: `components_hook`, a thread an edge, joins two trees by hanging the larger root under the smaller with one
// compare-and-swap, without locks; `components_label`, a thread an id, climbs to the root.
// Bound: latency of dependent reads; bytes: 16 an edge.
// Geometry: a parent is never larger than its child, so however the hooks interleave (the forest may differ) the root
// of each finished tree is its smallest id, the label. Oracle: gpulsh/backends/reference/components.py.
#include "bits.cuh"

// The root above `id`. What is read may be old, but it was an ancestor and still is; the path is halved on the way by
// writing an ancestor over a parent, which no order of such writes can undo.
__device__ __forceinline__ u64 climb(volatile u64* parent, u64 id) {
    for (u64 up = parent[id]; up != id; up = parent[id]) {
        const u64 above = parent[up];
        parent[id] = above;
        id = above;
    }
    return id;
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

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    components_label(const u64* __restrict__ parent, i64 count, i64* __restrict__ labels) {
    const i64 id = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= count) return;
    u64 root = id;
    while (parent[root] != root) root = parent[root];
    labels[id] = (i64)root;
}
