/* The best rate this machine reaches for m = min(m, a * x + b) on u32: coefficients and minima stay in registers, x
   comes from the first-level cache, one load for P permutations, as a minhash kernel would have it at best. The sum of
   the minima is printed so that nothing is removed. LANES and P are given by -D; each pair worth trying is built and
   run. C++ for its vector `?:`, which compilers turn into the minimum instruction. */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

typedef uint32_t vec __attribute__((vector_size(LANES * 4)));

static inline vec lesser(vec a, vec b) {
    return a < b ? a : b;
}

constexpr int X = 256; /* vectors of x: 16 KiB at most */
static vec x[X];

int main(int argc, char** argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 0.3;
    uint32_t state = 1;
    for (int i = 0; i < X; i++)
        for (int l = 0; l < LANES; l++) x[i][l] = state = state * 1664525u + 1013904223u;
    vec a[P], b[P], m[P];
    for (int p = 0; p < P; p++)
        for (int l = 0; l < LANES; l++) {
            a[p][l] = (uint32_t)(2 * p + 1) * 2654435761u | 1;
            b[p][l] = (uint32_t)p * 40503u;
            m[p][l] = UINT32_MAX;
        }
    struct timespec from, to;
    double best = 0, spent = 0;
    while (spent < seconds) {
        clock_gettime(CLOCK_MONOTONIC, &from);
        for (int turn = 0; turn < 2000; turn++) {
            for (int i = 0; i < X; i++) {
                vec v = x[i];
#pragma GCC unroll 16
                for (int p = 0; p < P; p++) m[p] = lesser(m[p], a[p] * v + b[p]);
            }
            __asm__ volatile("" ::: "memory");
        }
        clock_gettime(CLOCK_MONOTONIC, &to);
        double t = (to.tv_sec - from.tv_sec) + 1e-9 * (to.tv_nsec - from.tv_nsec);
        double rate = 2000.0 * (X)*P * LANES / t;
        if (rate > best) best = rate;
        spent += t;
    }
    uint32_t sum = 0;
    for (int p = 0; p < P; p++)
        for (int l = 0; l < LANES; l++) sum += m[p][l];
    printf("%.6e %u\n", best, sum);
    return 0;
}
