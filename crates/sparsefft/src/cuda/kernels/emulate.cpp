// sparse.cuh and windows.cuh on the CPU: every block of a group is one thread, so that the logic and, under
// ThreadSanitizer, the barriers can be tested without a GPU. several.cuh likewise: the lanes of a warp
// are contexts that take turns; and four.cuh. Built by the tests.
#include <ucontext.h>

#include <atomic>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "emulate.hpp"

#define __device__
#define __forceinline__ inline
#define __noinline__
#define __align__(n) alignas(n)
using std::atan2, std::copysign, std::fabs, std::floor, std::fma, std::fmax, std::fmin, std::log2, std::rint,
    std::sqrt;
static double rsqrt(double v) { return 1.0 / sqrt(v); }
static void __syncthreads() {}

// Every lane runs until it needs the others, then the next one does; what they exchange lies on one of
// two boards in turn.
struct Warp {
    ucontext_t home, at[32];
    std::vector<char> stacks = std::vector<char>(32 << 17);
    std::function<void(u_int32_t)> work;
    bool ended[32];
    uint64_t board[2][32];
    int side[32] = {}, now = 0;

    void next() {
        const int me = now;
        now = (now + 1) % 32;
        swapcontext(&at[me], &at[now]);
    }
    uint64_t* put(uint64_t v) {
        uint64_t* b = board[side[now] ^= 1];
        b[now] = v;
        next();
        return b;
    }
    static void lane(int i);
    void run(std::function<void(u_int32_t)> f) {
        work = f;
        now = 0;
        for (int i = 0; i < 32; i++) {
            ended[i] = false;
            getcontext(&at[i]);
            at[i].uc_stack.ss_sp = stacks.data() + (i << 17);
            at[i].uc_stack.ss_size = 1 << 17;
            at[i].uc_link = nullptr;
            makecontext(&at[i], (void (*)())lane, 1, i);
        }
        swapcontext(&home, &at[0]);
    }
};
static thread_local Warp* warp;
void Warp::lane(int i) {
    warp->work(i);
    warp->ended[i] = true;
    while (true) {
        bool all = true;
        for (bool e : warp->ended) all &= e;
        if (all) setcontext(&warp->home);
        warp->next();
    }
}
template <class T> static T __shfl_sync(unsigned, T v, unsigned from) {
    uint64_t bits = 0;
    memcpy(&bits, &v, sizeof v);
    const uint64_t got = warp->put(bits)[from % 32];
    memcpy(&v, &got, sizeof v);
    return v;
}
template <class T> static T __shfl_xor_sync(unsigned mask, T v, unsigned d) {
    return __shfl_sync(mask, v, warp->now ^ d);
}
static bool __any_sync(unsigned, bool v) {
    const uint64_t* all = warp->put(v);
    bool any = false;
    for (int i = 0; i < 32; i++) any |= all[i] != 0;
    return any;
}
static bool __all_sync(unsigned mask, bool v) { return !__any_sync(mask, !v); }
static void __syncwarp() { warp->put(0); }
static unsigned atomicOr(unsigned* p, unsigned v) { return std::atomic_ref<unsigned>(*p).fetch_or(v); }

#define ANY_LENGTH
#include "windows.cuh"
#include "several.cuh"
#include "four.cuh"

struct Threads {
    static thread_local const Args* given;
    static const Args& args() { return *given; }
    template <class T> static T* global(u64 at) { return (T*)at; }
    static const u32 MOST_BLOCKS = 256;
    static const u32 MOST_OWN = 192;
    u32 id, block, blocks, thread, threads, rank, size;
    std::barrier<>* barrier;
    std::vector<u32> values;
    std::vector<Z> buckets;
    u32 hits = 0;

    Threads(u32 block, u32 blocks, std::barrier<>* barrier)
        : id(0), block(block), blocks(blocks), thread(0), threads(1), rank(block), size(blocks),
          barrier(barrier), values(SAMPLE),
          buckets(4 * (MOST_OWN + 2) + SAMPLE / 4) {}
    void sync() { barrier->arrive_and_wait(); }
    void block_sync() {}
    u32* sample() { return values.data(); }
    Z* pool() { return buckets.data(); }
    u32* tally() { return &hits; }
    u32 warps(u32 items) { return items; }
    void reserve(Counters& to, u32 found, u32 slot, u32 active, u32& at, u32& slot_at) {
        at = add(&to.known, found);
        slot_at = add(&to.slots, slot);
        add(&to.active, active);
    }
    std::vector<Tone> met = std::vector<Tone>(HITS);
    Tone* tones() { return met.data(); }
    std::vector<Spread> windows = std::vector<Spread>(WINDOWS + 1);
    Spread* spreads() { return windows.data(); }
    const double* series(u32 window) {
        const Hash& h = window == 1 ? args().window[0] : args().verify;
        return global<double>(args().tables + h.series);
    }
    double block_sum(double v) { return v; }
    double block_min(double v) { return v; }
    u32 add(u32* at, u32 v) { return std::atomic_ref<u32>(*at).fetch_add(v); }
    u32 exchange(u32* at, u32 v) { return std::atomic_ref<u32>(*at).exchange(v); }
    void add(double* at, double v) { std::atomic_ref<double>(*at).fetch_add(v); }
    u64 bits(double v) {
        u64 b;
        memcpy(&b, &v, 8);
        return b;
    }
    double value(u64 b) {
        double v;
        memcpy(&v, &b, 8);
        return v;
    }
};

thread_local const Args* Threads::given = nullptr;

extern "C" void emulate(const Args* a, u32 blocks) {
    std::barrier<> barrier(blocks);
    std::vector<std::thread> threads;
    for (u32 b = 0; b < blocks; b++)
        threads.emplace_back([=, &barrier] {
            Threads::given = a;
            Threads g(b, blocks, &barrier);
            for (u32 s = 0; s < a->batch; s++) {
                if (a->spread_windows && a->exact) {
                    Windows<Threads, false>(g, s).transform(s + 1 == a->batch);
                } else if (a->spread_windows) {
                    Windows<Threads, true>(g, s).transform(s + 1 == a->batch);
                } else {
                    Engine<Threads>(g, s).transform(s + 1 == a->batch);
                }
            }
        });
    for (auto& t : threads) t.join();
}

extern "C" u32 emulate_size(u32 what) {
    switch (what) {
    case 0: return sizeof(Args);
    case 1: return sizeof(Header);
    case 2: return sizeof(Entry);
    case 3: return sizeof(Slot);
    case 4: return sizeof(Counters);
    case 5: return sizeof(Ladder);
    case 6: return sizeof(Spread);
    default: return sizeof(Hash);
    }
}

// One try of several.cuh: whether m frequencies explain these lanes, and which.
extern "C" bool emulate_several(u64 n, u32 bins, u32 b, u32 e, u32 scale, u32 m, const Z* u, double noise,
                                double limit, u64* f, Z* a) {
    Warp lanes;
    warp = &lanes;
    const Ring ring = {n, n - 1, 1.0 / n};
    std::vector<Z> phasors(4 * APART);
    float2 places[ALL_LANES];
    float2 w[ALL_LANES];
    double energy = 0.0;
    for (u32 l = 0; l < ALL_LANES; l++) energy += norm(u[l]);
    for (u32 l = 0; l < ALL_LANES; l++) {
        const float place = place_of(l, e);
        places[l] = make_float2(place, place * place);
        w[l] = make_float2(u[l].x / sqrt(energy), u[l].y / sqrt(energy));
    }
    u32 none = 0;
    bool good[32];
    lanes.run([&](u32 lane) {
        const Several several = {ring, u, energy, w, places, phasors.data(), &none, 0, e, lane, b, bins, 1.0 / bins};
        u64 frequency;
        Z value;
        good[lane] = several.solve(scale, m, 8 * m, noise, limit, 0.0, frequency, value);
        if (lane % 8 == 0) {
            f[lane / 8] = frequency;
            a[lane / 8] = value;
        }
    });
    return good[0];
}

// four.cuh on the eight shifts of a bin: how many frequencies explain them, and which.
extern "C" u32 emulate_four(u64 n, u32 bins, u32 b, const Z* u, double tolerance, u64* f, Z* a) {
    Warp lanes;
    warp = &lanes;
    const Ring ring = {n, n - 1, 1.0 / n};
    u32 found[32];
    lanes.run([&](u32 lane) {
        u64 frequency = 0;
        Z value = z_of(0.0, 0.0);
        found[lane] = up_to_four(ring, u[lane % 8], b, bins, 1.0 / bins, tolerance, lane, frequency, value);
        if (lane < 4) {
            f[lane] = frequency;
            a[lane] = value;
        }
    });
    return found[0];
}
