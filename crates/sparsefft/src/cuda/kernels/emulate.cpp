// sparse.cuh on the CPU: every block of a group is one thread, so that the logic and, under
// ThreadSanitizer, the barriers can be tested without a GPU. Built by the tests.
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#define __device__
#define __forceinline__ inline
#define __noinline__
#define __align__(n) alignas(n)
using std::copysign, std::fabs, std::floor, std::fma, std::fmax, std::fmin, std::log2, std::rint,
    std::sqrt;
static double rsqrt(double v) { return 1.0 / sqrt(v); }
static void __syncthreads() {}

struct float2 {
    float x, y;
};
#include "sparse.cuh"

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
    const double* series(u32 window) {
        const Hash& h = window == 1 ? args().window[0] : args().verify;
        return global<double>(args().tables + h.series);
    }
    double block_sum(double v) { return v; }
    double block_min(double v) { return v; }
    u32 add(u32* at, u32 v) { return std::atomic_ref<u32>(*at).fetch_add(v); }
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
            for (u32 s = 0; s < a->batch; s++) Engine<Threads>(g, s).transform(s + 1 == a->batch);
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
    default: return sizeof(Hash);
    }
}
