// exact and robust on the device: sparse.cuh, or windows.cuh where there is no comb, by a thread-block cluster (compute capability 9.0),
// or by groups of blocks of one cooperative launch (7.0 and up).
#define ANY_LENGTH
#include "windows.cuh"

#ifndef THREADS
#define THREADS 256
#endif
#ifndef CLUSTER
#define CLUSTER 16
#endif

struct Blocks {
    static const u32 MOST_BLOCKS = 256;
    // Buckets that a block can hold in shared memory.
    static const u32 MOST_OWN = 192;
    u32 id, block, blocks, thread, threads, rank, size;

    __device__ Blocks(u32 id, u32 block, u32 blocks)
        : id(id), block(block), blocks(blocks), thread(threadIdx.x), threads(blockDim.x) {
        // Neighbouring warps of items go to different blocks, so that short stages use them all.
        rank = ((thread >> 5) * blocks + block) * 32 + (thread & 31);
        size = threads * blocks;
    }
    __device__ static Args& args() {
        __shared__ Args args;
        return args;
    }
    // Arguments are read often and by index: shared memory is the place for that.
    static __device__ void keep(const Args& a) {
        const u32* from = (const u32*)&a;
        for (u32 i = threadIdx.x; i < sizeof(Args) / 4; i += blockDim.x) ((u32*)&args())[i] = from[i];
        __syncthreads();
        for (u32 w = 1; w <= 2; w++) {
            const Hash& h = w == 1 ? args().window[0] : args().verify;
            const double* c = global<double>(args().tables + h.series);
            for (u32 i = threadIdx.x; i < h.terms; i += blockDim.x) series(w)[i] = c[i];
        }
        __syncthreads();
    }
    template <class T> static __device__ T* global(u64 at) {
        return (T*)__cvta_global_to_generic(at);
    }
    __device__ void block_sync() { __syncthreads(); }
    __device__ double* board() {
        __shared__ double board[33];
        return board;
    }
    // Shared memory for buckets, points of transforms or samples of energies: never two at once,
    // but for a list of numbers beside the buckets.
    __device__ Z* pool() {
        __shared__ Z pool[4 * (MOST_OWN + 2) + SAMPLE / 4];
        return pool;
    }
    __device__ u32* sample() { return (u32*)(pool() + 4 * (MOST_OWN + 2)); }
    __device__ u32* tally() {
        __shared__ u32 tally;
        return &tally;
    }
    // Items rounded up to whole warps.
    __device__ u32 warps(u32 items) { return (items + 31) & ~31u; }
    // Room in the lists of finds (none to two each) and of slots, for a whole warp at once.
    __device__ void reserve(Counters& to, u32 found, u32 slot, u32 active, u32& at, u32& slot_at) {
        u32 lane = thread & 31, before = (1u << lane) - 1;
        u32 one = __ballot_sync(~0u, found & 1), two = __ballot_sync(~0u, found & 2);
        u32 slots = __ballot_sync(~0u, slot), actives = __ballot_sync(~0u, active);
        if (actives == 0) return;
        u32 base = 0;
        if (lane < 3) {
            u32 all = lane == 0   ? __popc(one) + 2 * __popc(two)
                      : lane == 1 ? __popc(slots)
                                  : __popc(actives);
            // known, slots and active lie side by side.
            base = atomicAdd(&to.known + lane, all);
        }
        at = __shfl_sync(~0u, base, 0) + __popc(one & before) + 2 * __popc(two & before);
        slot_at = __shfl_sync(~0u, base, 1) + __popc(slots & before);
    }
    __device__ Tone* tones() {
        __shared__ Tone tones[HITS];
        return tones;
    }
    // The windows of windows.cuh, which knows no tones.
    __device__ Spread* spreads() {
        static_assert((WINDOWS + 1) * sizeof(Spread) <= HITS * sizeof(Tone), "no room for the windows");
        return (Spread*)tones();
    }
    // The responses of the two kinds of windows.
    __device__ static double* series(u32 window) {
        __shared__ double series[2][96];
        return series[window - 1];
    }
    template <class Op> __device__ __noinline__ double reduce(double v, double neutral, Op op) {
        double* board = this->board();
#pragma unroll
        for (int d = 16; d > 0; d >>= 1) v = op(v, __shfl_xor_sync(~0u, v, d));
        if ((thread & 31) == 0) board[thread >> 5] = v;
        __syncthreads();
        if (thread < 32) {
            v = thread < threads / 32 ? board[thread] : neutral;
#pragma unroll
            for (int d = 16; d > 0; d >>= 1) v = op(v, __shfl_xor_sync(~0u, v, d));
            if (thread == 0) board[32] = v;
        }
        __syncthreads();
        return board[32];
    }
    __device__ double block_sum(double v) {
        return reduce(v, 0.0, [](double a, double b) { return a + b; });
    }
    __device__ double block_min(double v) {
        return reduce(v, 1e300, [](double a, double b) { return fmin(a, b); });
    }
    __device__ u32 add(u32* at, u32 v) { return atomicAdd(at, v); }
    __device__ u32 exchange(u32* at, u32 v) { return atomicExch(at, v); }
    __device__ void add(double* at, double v) { atomicAdd(at, v); }
    __device__ u64 bits(double v) { return (u64)__double_as_longlong(v); }
    __device__ double value(u64 v) { return __longlong_as_double((i64)v); }
};

// Blocks of a cooperative launch, which all run at once: a counter in memory is their barrier.
struct Grid : Blocks {
    u32* counter;
    u32 target;
    __device__ Grid(u32 id, u32 block, u32 blocks, u32* counter)
        : Blocks(id, block, blocks), counter(counter), target(0) {}
    __device__ void sync() {
        __syncthreads();
        if (blocks == 1) return;
        target += blocks;
        if (thread == 0) {
            __threadfence();
            atomicAdd(counter, 1u);
            u32 seen;
            do {
                asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
            } while (seen < target);
            __threadfence();
        }
        __syncthreads();
    }
    // The last block to leave makes the counters ready for the next launch.
    __device__ void leave() {
        if (thread == 0 && atomicAdd(counter + 1, 1u) == blocks - 1) {
            counter[0] = 0;
            counter[1] = 0;
        }
    }
};

// Windows in noise, with a frame of their own: the others need not carry it along.
template <class Group> static __device__ __noinline__ void noisy_windows(Group& g, u32 signal, bool last) {
    Windows<Group, true>(g, signal).transform(last);
}

// One transform by a group.
template <class Group> static __device__ void transform(Group& g, u32 signal, bool last) {
    if (g.args().spread_windows && g.args().exact) {
        Windows<Group, false>(g, signal).transform(last);
    } else if (g.args().spread_windows) {
        noisy_windows(g, signal, last);
    } else {
        Engine<Group>(g, signal).transform(last);
    }
}

// Two words behind the counters of the lists.
static __device__ u32* barrier_of(const Args& a, u32 id) {
    return (u32*)(a.work + id * a.work_stride + a.counters + sizeof(Counters));
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
sparse_grid(const __grid_constant__ Args a, u32 blocks) {
    Blocks::keep(a);
    u32 id = blockIdx.x / blocks, groups = gridDim.x / blocks;
    Grid g(id, blockIdx.x % blocks, blocks, barrier_of(a, id));
    for (u32 s = id; s < a.batch; s += groups) transform(g, s, s + groups >= a.batch);
    g.leave();
}

#if __CUDA_ARCH__ >= 900
struct Cluster : Blocks {
    using Blocks::Blocks;
    __device__ void sync() {
        asm volatile("barrier.cluster.arrive.release.aligned;\n"
                     "barrier.cluster.wait.acquire.aligned;" ::
                         : "memory");
    }
};

template <u32 SIZE> static __device__ void by_cluster(const Args& a) {
    Blocks::keep(a);
    u32 id = blockIdx.x / SIZE, groups = gridDim.x / SIZE;
    Cluster g(id, blockIdx.x % SIZE, SIZE);
    for (u32 s = id; s < a.batch; s += groups) transform(g, s, s + groups >= a.batch);
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
sparse_cluster(const __grid_constant__ Args a) { by_cluster<CLUSTER>(a); }
#endif

static __device__ Z sample_at(const void* x, u32 format, u64 at) {
    switch (format) {
    case 0: return ((const Z*)x)[at];
    case 1: return z_of(((const float*)x)[2 * at], ((const float*)x)[2 * at + 1]);
    case 2: return z_of(((const double*)x)[at], 0.0);
    default: return z_of(((const float*)x)[at], 0.0);
    }
}

// Single samples for the host: out[i] = x[indices[i]].
extern "C" __global__ void pick(const void* x, u32 format, const u64* indices, u64 count, Z* out) {
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < count;
         i += (u64)gridDim.x * blockDim.x)
        out[i] = sample_at(x, format, indices[i]);
}

// Lines of the signal for the host: out[4·j + τ] = x[(start + j·step + τ) mod n].
extern "C" __global__ void gather(const void* x, u32 format, u64 n, u64 start, u64 step, u32 lanes,
                                  u64 count, Z* out) {
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < count;
         i += (u64)gridDim.x * blockDim.x) {
        u64 j = i / lanes;
        // step·j mod n without overflow: n can be as large as 2^52, j is below 2^32.
        u64 at = start % n, by = step % n;
        for (u64 left = j; left; left >>= 1) {
            if (left & 1) at = at + by >= n ? at + by - n : at + by;
            by = by + by >= n ? by + by - n : by + by;
        }
        at += i % lanes;
        at = at >= n ? at % n : at;
        out[i] = sample_at(x, format, at);
    }
}
