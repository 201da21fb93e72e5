// quick.cu and noisy.cu on the CPU: every thread of a cluster is a context, and these take turns. Gates count bytes as the
// machine's do, so that one that waits for too many or too few shows. Built by the tests.
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <vector>

#include "emulate.hpp"

#define EMULATED
#define __device__
#define __global__
#define __grid_constant__
#define __constant__
#define __forceinline__ inline
#define __noinline__
#define __align__(n) alignas(n)
#define __cluster_dims__(...)
#define __launch_bounds__(...)
#define SHARED_MEMORY char* memory = cluster->shared[me().block].data();
using std::copysign, std::fabs, std::floor, std::fma, std::fmax, std::fmin, std::log2, std::rint,
    std::sqrt;
using std::atan2;
static double rsqrt(double v) { return 1.0 / sqrt(v); }
typedef unsigned int u32;
// Who waits for whom: so many arrive, then the next turn begins.
struct Meeting {
    u32 came = 0, turn = 0;
};
// A gate: who has to arrive, bytes to come, and whether all have.
struct Gate {
    int arrivals = 0, bytes = 0;
    u32 open = 0;
    void look() { open |= arrivals == 0 && bytes == 0; }
};
struct Thread {
    ucontext_t at;
    u32 block, x;
    // Waits while *turn is `seen`.
    const u32* turn = nullptr;
    u32 seen = 0, side = 0;
    bool ended = false;
    const char* where = "";
};
struct Cluster {
    static const u32 STACK = 1 << 16;
    u32 blocks, threads, now = 0;
    ucontext_t home;
    std::vector<char> stacks;
    std::vector<Thread> all;
    std::vector<std::vector<char>> shared;
    std::vector<std::vector<Gate>> gates;
    std::vector<std::vector<Meeting>> named;
    std::vector<Meeting> warps;
    Meeting everyone;
    std::vector<uint64_t> boards[2];
    std::function<void()> work;

    Cluster(u32 blocks, u32 threads, size_t bytes)
        : blocks(blocks), threads(threads), stacks((size_t)STACK * blocks * threads), all(blocks * threads),
          shared(blocks, std::vector<char>(bytes + 16, (char)0xff)), gates(blocks, std::vector<Gate>(16)),
          named(blocks, std::vector<Meeting>(16)), warps(blocks * threads / 32) {
        for (auto& b : boards) b.resize(blocks * threads);
    }
    static void start();
    // False where nobody can go on. `seed` chooses who comes first.
    bool run(u32 seed);
    void wait(const u32* turn, u32 seen, const char* where) {
        Thread& t = all[now];
        t.turn = turn;
        t.seen = seen;
        t.where = where;
        swapcontext(&t.at, &home);
    }
    void meet(Meeting& m, u32 count, const char* where) {
        const u32 turn = m.turn;
        if (++m.came == count) {
            m.came = 0;
            m.turn++;
        } else {
            wait(&m.turn, turn, where);
        }
    }
};
static thread_local Cluster* cluster;
static Thread& me() { return cluster->all[cluster->now]; }
void Cluster::start() {
    cluster->work();
    me().ended = true;
    swapcontext(&me().at, &cluster->home);
}
bool Cluster::run(u32 seed) {
    std::vector<u32> order(all.size());
    for (u32 i = 0; i < all.size(); i++) {
        order[i] = i;
        Thread& t = all[i];
        t.block = i / threads;
        t.x = i % threads;
        getcontext(&t.at);
        t.at.uc_stack.ss_sp = stacks.data() + (size_t)i * STACK;
        t.at.uc_stack.ss_size = STACK;
        t.at.uc_link = nullptr;
        makecontext(&t.at, (void (*)())start, 0);
    }
    uint64_t random = seed * 0x9e3779b97f4a7c15ull + 1;
    for (u32 i = all.size(); i > 1 && seed; i--) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        std::swap(order[i - 1], order[random % i]);
    }
    for (bool any = true; any;) {
        any = false;
        for (u32 i : order) {
            Thread& t = all[i];
            if (t.ended || (t.turn && *t.turn == t.seen)) continue;
            t.turn = nullptr;
            now = i;
            any = true;
            swapcontext(&home, &t.at);
        }
    }
    for (Thread& t : all)
        if (!t.ended) {
            fprintf(stderr, "block %u thread %u waits at %s\n", t.block, t.x, t.where);
            return false;
        }
    return true;
}

struct Index {
    u32 x;
};
static Index thread_index() { return {me().x}; }
static Index block_index() { return {me().block}; }
#define threadIdx thread_index()
#define blockIdx block_index()

// What the lanes of a warp exchange lies on one of two boards in turn.
static const uint64_t* exchanged(uint64_t v) {
    Thread& t = me();
    t.side ^= 1;
    auto& board = cluster->boards[t.side];
    const u32 first = cluster->now / 32 * 32;
    board[cluster->now] = v;
    cluster->meet(cluster->warps[first / 32], 32, "the warp");
    return board.data() + first;
}
template <class T> static T __shfl_sync(unsigned, T v, unsigned from) {
    uint64_t bits = 0;
    memcpy(&bits, &v, sizeof v);
    bits = exchanged(bits)[from % 32];
    memcpy(&v, &bits, sizeof v);
    return v;
}
template <class T> static T __shfl_xor_sync(unsigned mask, T v, unsigned d) {
    return __shfl_sync(mask, v, me().x ^ d);
}
template <class T> static T __shfl_up_sync(unsigned mask, T v, unsigned d) {
    const u32 lane = me().x % 32;
    return __shfl_sync(mask, v, lane < d ? lane : lane - d);
}
static u32 __ballot_sync(unsigned, bool v) {
    const uint64_t* all = exchanged(v);
    u32 mask = 0;
    for (u32 i = 0; i < 32; i++) mask |= (u32)(all[i] != 0) << i;
    return mask;
}
static bool __any_sync(unsigned, bool v) { return __ballot_sync(~0u, v) != 0; }
static bool __all_sync(unsigned, bool v) { return __ballot_sync(~0u, v) == ~0u; }
static void __syncwarp() { exchanged(0); }
static u32 __reduce_add_sync(unsigned, u32 v) {
    const uint64_t* all = exchanged(v);
    u32 sum = 0;
    for (u32 i = 0; i < 32; i++) sum += (u32)all[i];
    return sum;
}
static u32 __reduce_max_sync(unsigned, u32 v) {
    const uint64_t* all = exchanged(v);
    return (u32)*std::max_element(all, all + 32);
}
static u32 __reduce_min_sync(unsigned, u32 v) {
    const uint64_t* all = exchanged(v);
    return (u32)*std::min_element(all, all + 32);
}
static void named_sync(u32 number, u32 count) {
    cluster->meet(cluster->named[me().block][number], count, "a barrier");
}
static void __syncthreads() { named_sync(0, cluster->threads); }
static u32 atomicAdd(u32* p, u32 v) {
    const u32 before = *p;
    *p += v;
    return before;
}
static u32 atomicOr(u32* p, u32 v) {
    const u32 before = *p;
    *p |= v;
    return before;
}
static u32 atomicExch(u32* p, u32 v) {
    const u32 before = *p;
    *p = v;
    return before;
}
template <class T> static T __ldg(const T* p) { return *p; }
static int __popc(u32 v) { return __builtin_popcount(v); }
static int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
static double __hiloint2double(int high, int low) {
    const uint64_t bits = (uint64_t)(u32)high << 32 | (u32)low;
    double v;
    memcpy(&v, &bits, 8);
    return v;
}
static long long __double_as_longlong(double v) {
    long long bits;
    memcpy(&bits, &v, 8);
    return bits;
}
static double __longlong_as_double(long long bits) {
    double v;
    memcpy(&v, &bits, 8);
    return v;
}

#include "gates.cuh"

template <class Shared> DEV Gate& gate_of(Shared&, Gates gate, u32 block) { return cluster->gates[block][gate]; }
template <class S, class Shared, class T> DEV void put(Shared& s, Gates gate, u32 block, T* p, T v) {
    if (S::BLOCKS == 1) {
        *p = v;
        return;
    }
    char* at = cluster->shared[block].data() + ((char*)p - cluster->shared[me().block].data());
    memcpy(at, &v, sizeof v);
    Gate& g = gate_of(s, gate, block);
    g.bytes -= sizeof v;
    g.look();
}
template <class Shared> DEV void make_gate(Shared& s, Gates gate, u32 count) {
    gate_of(s, gate, me().block).arrivals = count;
}
DEV void gates_made() {}
template <class S, class Shared> DEV void announce(Shared& s, Gates gate, u32 block, u32 bytes) {
    Gate& g = gate_of(s, gate, block);
    g.arrivals--;
    g.bytes += bytes;
    g.look();
}
template <class Shared> DEV void expect(Shared& s, Gates gate, u32 bytes) {
    announce<Shared>(s, gate, me().block, bytes);
}
template <class S, class Shared> DEV void pass(Shared& s, Gates gate) {
    static const char* const names[] = {"points", "window", "verify", "energy", "open", "find", "order", "sum", "more"};
    Gate& g = gate_of(s, gate, me().block);
    if (S::BLOCKS > 1 && !g.open) cluster->wait(&g.open, 0, names[gate]);
}
DEV void copy_here(Z* to, const Z* from) { *to = *from; }
DEV void copied_here() {}
template <class S> DEV void arrive() {}
template <class S> DEV void await() {
    if (S::BLOCKS > 1) cluster->meet(cluster->everyone, cluster->blocks * cluster->threads, "the cluster");
}
template <class S> DEV void part() {
    if (S::BLOCKS == 1) __syncthreads();
}
template <class S> DEV void meet() { __syncthreads(); }
template <u32 COUNT, u32 NUMBER = 1> DEV void some_threads_sync() { named_sync(NUMBER, COUNT); }
DEV void wait_for_others(u32) {}

#define Check QuickCheck
#include "quick.cu"
#undef Check
#include "noisy.cu"

// The kernel for so many bins. False where threads wait for ever.
extern "C" bool emulate_quick(const Quick* args, u32 bins, u32 threads, u32 bytes, u32 seed) {
    const u32 blocks = bins == 256 ? 1 : bins == 1024 ? 4 : 16;
    Cluster all(blocks, threads, bytes);
    cluster = &all;
    all.work = [&] {
        if (bins == 256) quick_8_5_1(*args);
        else if (bins == 1024) quick_10_7_4(*args);
        else quick_12_9_16(*args);
    };
    const bool ended = all.run(seed);
    cluster = nullptr;
    return ended;
}
// The kernel for so many bins and verifying buckets, with noise.
extern "C" bool emulate_noisy(const Noisy* args, u32 bins, u32 verify, u32 threads, u32 bytes, u32 seed) {
    Cluster all(16, threads, bytes);
    cluster = &all;
    all.work = [&] {
        if (bins == 1024) noisy_10_5_16(*args);
        else if (verify == 128) noisy_12_7_16(*args);
        else noisy_12_9_16(*args);
    };
    const bool ended = all.run(seed);
    cluster = nullptr;
    return ended;
}
extern "C" double emulate_response(double x) { return fabs(x) <= 1.0 ? near_response(x) : far_response(x); }
extern "C" u32 emulate_quick_size() { return sizeof(Quick); }
extern "C" u32 emulate_noisy_size() { return sizeof(Noisy); }
