// What a kernel needs of CUDA, on the host: the threads of a block are fibres, run in a chosen order until each waits
// or ends.
//
// A barrier that not every thread reaches, a warp operation whose lanes disagree, an access outside guarded memory, a
// shift by the width of its type, a signed sum that overflows or a loop without end make `launch` return a message.
// Atomics of the random order may yield before they act, so that lock-free code interleaves. Shared memory is filled
// with a pattern before each block.
// Test-only; blocks run one after the other.
#pragma once
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static __attribute__((section("gpu_shared")))
#define __restrict__ __restrict

extern "C" unsigned char __start_gpu_shared[] __attribute__((weak, visibility("hidden")));
extern "C" unsigned char __stop_gpu_shared[] __attribute__((weak, visibility("hidden")));

struct Index {
    unsigned x, y, z;
};
static Index threadIdx, blockIdx, blockDim, gridDim;

template <class T>
inline T min(T a, T b) {
    return b < a ? b : a;
}
template <class T>
inline T max(T a, T b) {
    return a < b ? b : a;
}

namespace host {

enum State : unsigned char { READY, BARRIER, WARP, DONE };
enum Order : int { ASCENDING, DESCENDING, RANDOM };
constexpr size_t STACK = 128 * 1024;
constexpr unsigned MAX_FIBRES = 1024;

struct Fibre {
    void* stack;  // saved stack pointer
    State state;
};

struct Warp {
    uint64_t values[32], results[32];
    unsigned arrived, operation, mask;
};

static Fibre fibres[MAX_FIBRES];
static Warp warps[MAX_FIBRES / 32];
static unsigned char* stacks;
static void* scheduler;
static unsigned current, order[MAX_FIBRES];
static Order mode;
static uint64_t seed;
static const char* failure;
static sigjmp_buf escape;
static void (*body)(void**);
static void** arguments;

// Saves the callee-saved registers on this stack, its pointer in *from, and goes on where `to` was saved.
extern "C" void gpulsh_switch(void** from, void* to);
#if defined(__x86_64__)
asm(R"(
.text
.local gpulsh_switch
.type gpulsh_switch, @function
gpulsh_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");
constexpr size_t SAVED = 6, RETURN = 6;  // words saved, and which is returned to
#elif defined(__aarch64__)
asm(R"(
.text
.local gpulsh_switch
.type gpulsh_switch, %function
gpulsh_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
)");
constexpr size_t SAVED = 20, RETURN = 11;
#else
#error "the host launcher has no context switch for this processor"
#endif

static uint64_t random() {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

[[noreturn]] static void fail(const char* message) {
    failure = message;
    siglongjmp(escape, 1);
}

static void yield() {
    gpulsh_switch(&fibres[current].stack, scheduler);
}

static void enter() {
    body(arguments);
    fibres[current].state = DONE;
    yield();
    abort();  // a finished fibre is never resumed
}

static void prepare(unsigned index) {
    // The stack is entered by a return into `enter`, aligned as after a call.
    uintptr_t top = (uintptr_t)(stacks + (index + 1) * STACK) & ~(uintptr_t)15;
    void** words = (void**)top - (SAVED + 2);
    memset(words, 0, (SAVED + 2) * sizeof(void*));
    words[RETURN] = (void*)enter;
    fibres[index] = {words, READY};
}

static void barrier() {
    fibres[current].state = BARRIER;
    yield();
}

// All lanes of `mask` give a value and get everyone's. A result is read before its lane can take part in the next.
static const uint64_t* exchange(unsigned operation, unsigned mask, uint64_t value) {
    Warp& warp = warps[current / 32];
    const unsigned lane = current % 32;
    if (!(mask >> lane & 1)) fail("a lane outside the mask takes part in a warp operation");
    if (warp.arrived == 0) {
        warp.operation = operation;
        warp.mask = mask;
    }
    if (warp.operation != operation || warp.mask != mask) fail("the lanes of a warp are at different warp operations");
    warp.values[lane] = value;
    warp.arrived |= 1u << lane;
    if (warp.arrived != mask) {
        fibres[current].state = WARP;
        yield();
    } else {
        memcpy(warp.results, warp.values, sizeof warp.values);
        warp.arrived = 0;
        for (unsigned i = 0; i < 32; ++i) {
            if (mask >> i & 1) fibres[current / 32 * 32 + i].state = READY;
        }
    }
    return warp.results;
}

static void interleave() {
    if (mode == RANDOM && (random() & 3) == 0) yield();
}

static void arrange(unsigned count) {
    for (unsigned i = 0; i < count; ++i) order[i] = mode == DESCENDING ? count - 1 - i : i;
    for (unsigned i = count; mode == RANDOM && i > 1; --i) {
        const unsigned j = random() % i, kept = order[i - 1];
        order[i - 1] = order[j];
        order[j] = kept;
    }
}

static void run_block() {
    const unsigned count = blockDim.x;
    if (__start_gpu_shared) memset(__start_gpu_shared, 0xA5, __stop_gpu_shared - __start_gpu_shared);
    memset(warps, 0, (count + 31) / 32 * sizeof(Warp));
    for (unsigned i = 0; i < count; ++i) prepare(i);
    for (unsigned done = 0; done < count;) {
        bool resumed = false;
        arrange(count);
        for (unsigned i = 0; i < count; ++i) {
            current = order[i];
            if (fibres[current].state != READY) continue;
            resumed = true;
            threadIdx.x = current;
            gpulsh_switch(&scheduler, fibres[current].stack);
            done += fibres[current].state == DONE;
        }
        if (resumed) continue;
        bool warp = false, ended = false;
        for (unsigned i = 0; i < count; ++i) {
            warp |= fibres[i].state == WARP;
            ended |= fibres[i].state == DONE;
            fibres[i].state = READY;
        }
        if (warp) fail("some lanes of a warp never reach a warp operation");
        if (ended) fail("some threads of a block never reach a barrier");
    }
}

static pthread_t launching;

static void on_signal(int signal) {
    if (!pthread_equal(pthread_self(), launching)) {  // a timer's signal reaches any thread of the process
        pthread_kill(launching, signal);
        return;
    }
    failure = signal == SIGVTALRM                     ? "a kernel does not end"
              : signal == SIGSEGV || signal == SIGBUS ? "a kernel reads or writes outside an array"
                                                      : "a kernel shifts, counts or indexes beyond bounds";
    siglongjmp(escape, 1);
}

constexpr int SIGNALS[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGVTALRM};

static unsigned first_block = 0;  // of a grid of which a part alone is run

// Runs all blocks; null, or what went wrong.
static const char* launch(void (*kernel)(void**), void** given, unsigned x, unsigned y, unsigned threads,
                          int order_mode, uint64_t order_seed) {
    static unsigned char signal_stack[64 * 1024];
    if (!stacks) {
        stacks = (unsigned char*)mmap(nullptr, MAX_FIBRES * STACK, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    body = kernel;
    arguments = given;
    mode = (Order)order_mode;
    seed = order_seed | 1;
    failure = nullptr;
    launching = pthread_self();
    gridDim = {x, y, 1};
    blockDim = {threads, 1, 1};
    threadIdx = blockIdx = {0, 0, 0};
    stack_t stack = {}, old_stack;
    stack.ss_sp = signal_stack;
    stack.ss_size = sizeof signal_stack;
    sigaltstack(&stack, &old_stack);
    struct sigaction action = {}, old_actions[5];
    action.sa_handler = on_signal;
    action.sa_flags = SA_ONSTACK | SA_NODEFER;
    for (int i = 0; i < 5; ++i) sigaction(SIGNALS[i], &action, &old_actions[i]);
    itimerval limit = {{0, 0}, {LIMIT_SECONDS, 0}}, none = {};
    setitimer(ITIMER_VIRTUAL, &limit, nullptr);
    if (sigsetjmp(escape, 1) == 0) {
        const unsigned blocks = x * y;
        for (unsigned i = 0; i < blocks; ++i) {
            const unsigned block = mode == DESCENDING ? blocks - 1 - i : i;
            blockIdx = {first_block + block % x, block / x, 0};
            run_block();
        }
    }
    setitimer(ITIMER_VIRTUAL, &none, nullptr);
    for (int i = 0; i < 5; ++i) sigaction(SIGNALS[i], &old_actions[i], nullptr);
    sigaltstack(&old_stack, nullptr);
    return failure;
}

}  // namespace host

inline void __syncthreads() {
    host::barrier();
}

inline void __syncwarp(unsigned mask = ~0u) {
    host::exchange(1, mask, 0);
}

template <class T>
inline T __shfl_sync(unsigned mask, T value, int source) {
    return (T)host::exchange(2, mask, (uint64_t)value)[source & 31];
}

template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned step) {
    const unsigned lane = host::current % 32;
    const uint64_t* values = host::exchange(3, mask, (uint64_t)value);
    return lane < step ? value : (T)values[lane - step];
}

inline unsigned __ballot_sync(unsigned mask, int predicate) {
    const uint64_t* values = host::exchange(4, mask, predicate != 0);
    unsigned votes = 0;
    for (unsigned i = 0; i < 32; ++i) votes |= (mask >> i & 1 && values[i]) ? 1u << i : 0;
    return votes;
}

inline int __all_sync(unsigned mask, int predicate) {
    return __ballot_sync(mask, predicate) == mask;
}

inline int __popcll(unsigned long long x) {
    return __builtin_popcountll(x);
}

inline int __popc(unsigned x) {
    return __builtin_popcount(x);
}

inline int __clz(int x) {
    return x ? __builtin_clz(x) : 32;
}

inline int __clzll(long long x) {
    return x ? __builtin_clzll(x) : 64;
}

inline int __ffs(int x) {
    return __builtin_ffs(x);
}

// Each nibble of `selector` takes one byte of `high`:`low`.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    const uint64_t both = (uint64_t)high << 32 | low;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) result |= (unsigned)(both >> (selector >> 4 * i & 7) * 8 & 0xFF) << 8 * i;
    return result;
}

// One after the other, each reads and writes in a moment; another thread may come before it.
#define ATOMIC(NAME, AFTER)              \
    template <class T>                   \
    inline T NAME(T* address, T value) { \
        host::interleave();              \
        const T before = *address;       \
        *address = AFTER;                \
        return before;                   \
    }
ATOMIC(atomicAdd, before + value)
ATOMIC(atomicOr, before | value)
ATOMIC(atomicXor, before ^ value)
ATOMIC(atomicMin, value < before ? value : before)

template <class T>
inline T atomicCAS(T* address, T expected, T value) {
    host::interleave();
    const T before = *address;
    if (before == expected) *address = value;
    return before;
}
