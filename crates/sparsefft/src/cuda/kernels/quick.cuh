// What the kernels of one cluster share: quick.cu without noise, noisy.cu with it.
#pragma once
#include "several.cuh"
#include "sparse.cuh"

// What of Args is needed here: short arguments launch sooner.
struct Quick {
    u64 x, stride, n, mask;
    double inverse;
    u64 tables, out, out_stride;
    u32 format, capacity;
    double sigmas, threshold[5];
    // Of the comb: distance of its teeth, roots, 1/B. Of the verifying window as in Hash.
    u64 step, roots;
    double bin;
    u64 verify_step, verify_back, verify_taps, verify_roots, verify_series;
    u32 verify_reads, verify_terms;
    double verify_energy, verify_leak, verify_beta2, verify_slope;
};

struct WarpSync {
    static __device__ __forceinline__ void sync() { __syncwarp(); }
};

// What one bin was decoded to.
struct Guess {
    u64 f[2];
    Z a[2];
    u32 good, pad[3];
};
// A coefficient that reaches a block's verifying buckets.
struct Find {
    Z a;
    u64 f;
};

DEV u32 padded_at(u32 e) { return e + (e >> 3); }

// The same place in the shared memory of another block of the cluster.
template <class T> DEV T* remote(T* p, u32 block) {
    u64 at;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(at) : "l"((u64)p), "r"(block));
    return (T*)at;
}
DEV void arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
DEV void await() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// A barrier of the first COUNT threads. Tools that look for races know barriers of whole blocks only:
// with RACECHECK the others wait as well.
template <u32 COUNT> DEV void some_threads_sync() {
#ifdef RACECHECK
    __syncthreads();
#else
    asm volatile("bar.sync 1, %0;" ::"n"(COUNT) : "memory");
#endif
}
DEV void wait_for_others(u32 times) {
#ifdef RACECHECK
    for (u32 i = 0; i < times; i++) __syncthreads();
#endif
}

// COUNT samples, at(i) apart.
template <int FORMAT> DEV Z load_one(const void* x, u64 i) {
    if (FORMAT == 0) {
        // The neighbours come along into the second cache: crowded bins ask for them.
        Z v;
        asm("ld.global.nc.L2::128B.v2.f64 {%0, %1}, [%2];" : "=d"(v.x), "=d"(v.y) : "l"((const Z*)x + i));
        return v;
    }
    if (FORMAT == 1) {
        float2 v = ((const float2*)x)[i];
        return z_of(v.x, v.y);
    }
    if (FORMAT == 2) return z_of(((const double*)x)[i], 0.0);
    return z_of(((const float*)x)[i], 0.0);
}
template <u32 COUNT, class At> DEV void load(const void* x, u32 format, Z* v, At at) {
#define LOAD(FORMAT) \
    _Pragma("unroll") for (u32 i = 0; i < COUNT; i++) v[i] = load_one<FORMAT>(x, at(i));
    switch (format) {
    case 0: LOAD(0) break;
    case 1: LOAD(1) break;
    case 2: LOAD(2) break;
    default: LOAD(3) break;
    }
#undef LOAD
}

// The response of the verifying window, by four short chains. `c` has a multiple of four terms,
// highest first.
DEV double response_at(const Quick& a, const double* c, u32 terms, double away) {
    if (fabs(away) >= 2.0) return 0.0;
    double u = fma(away * away, -a.verify_slope, a.verify_beta2), u2 = u * u, u4 = u2 * u2;
    double p3 = c[0], p2 = c[1], p1 = c[2], p0 = c[3];
#pragma unroll 2
    for (u32 i = 4; i < terms; i += 4) {
        p3 = fma(p3, u4, c[i]);
        p2 = fma(p2, u4, c[i + 1]);
        p1 = fma(p1, u4, c[i + 2]);
        p0 = fma(p0, u4, c[i + 3]);
    }
    return fma(fma(p3, u, p2), u2, fma(p1, u, p0));
}

// Sends a coefficient to the blocks whose verifying buckets it reaches.
template <class S, class Shared> DEV void send(const Quick& args, Shared& s, u64 f, Z a) {
    const double p = (double)(args.verify_step * f & args.mask) * S::V * args.inverse;
    const i64 low = (i64)::floor(p) - 1;
    // Places first, all at once; then what goes there.
    u32 owner[4], at[4];
#pragma unroll
    for (u32 j = 0; j < 4; j++) {
        owner[j] = ((u32)(low + j) & (S::V - 1)) / S::OWN;
        const bool again = j > 0 && owner[j] == owner[j > 0 ? j - 1 : 0];
        at[j] = again ? S::FINDS : atomicAdd(remote(&s.count, owner[j]), 1u);
    }
    Find find;
    find.a = a;
    find.f = f;
#pragma unroll
    for (u32 j = 0; j < 4; j++)
        if (at[j] < S::FINDS) *remote(s.finds + at[j], owner[j]) = find;
}

// fold: thread i of the folders makes one bucket and shift of the verifying window, and its energy.
// They go to the blocks that ask for them once everyone is there.
template <class S, class Shared> DEV void fold_window(const Quick& args, Shared& s, const void* x, u32 c, u32 i) {
    const double* taps = (const double*)(args.tables + args.verify_taps);
    const u32 items = 4 * S::V / S::BLOCKS, reads = args.verify_reads, reach = reads / 2;
    const u32 item = c * items + i, shift = item & 3, bucket = item >> 2;
    const u32 begin = (bucket + reach) & (S::V - 1);
    Z u[5], sum = z_of(0.0, 0.0);
    double g[5];
    if (i < items) {
        load<5>(x, args.format, u, [&](u32 k) {
            u32 tap = begin + k * S::V;
            tap = tap < reads ? tap : begin;
            return (args.verify_back + args.verify_step * tap + shift) & args.mask;
        });
#pragma unroll
        for (u32 k = 0; k < 5; k++) {
            u32 tap = begin + k * S::V;
            g[k] = tap < reads ? taps[tap > reach ? tap - reach : reach - tap] : 0.0;
        }
#pragma unroll
        for (u32 k = 0; k < 5; k++) {
            sum.x = fma(g[k], u[k].x, sum.x);
            sum.y = fma(g[k], u[k].y, sum.y);
        }
    }
    const double wide = warp_sum(norm(sum));
    wait_for_others(1);
    await();
    if (i < items) *remote(s.folded + padded_at(bucket), shift) = sum;
    if (i % 32 < S::BLOCKS) *remote(s.wide + c * S::FOLDERS + i / 32, i % 32) = wide;
}

// bucket FFT: one shift of the verifying window, by one warp; spare lanes do the same again.
template <class S, class Shared> DEV void transform_window(const Quick& args, Shared& s, u32 c, u32 lane) {
    const u32 P = 1u << S::LOGP;
    int thread = lane & (S::TV - 1);
    Z p[P];
#pragma unroll
    for (u32 q = 0; q < P; q++) p[q] = s.folded[padded_at(q * S::TV + thread)];
    __syncwarp();
    Steps<S::LOGV, S::LOGP, 0, WarpSync>::run(
        p, s.folded, (const Z*)(args.tables + args.verify_roots), thread,
        [](u32 e) { return padded_at(e); }, [] {});
    if (lane < S::TV) {
#pragma unroll
        for (u32 q = 0; q < P; q++) {
            const u32 b = q * S::TV + thread;
            *remote(s.verify + (b % S::OWN) * 4 + c, b / S::OWN) = p[q];
        }
    }
}

// peel: gains and tones of the coefficients from..to that reached this block.
template <class S, class Shared>
DEV void peel_finds(const Quick& args, Shared& s, u32 terms, u32 c, u32 from, u32 to, u32 thread, u32 threads) {
    const Ring ring = {args.n, args.mask, args.inverse};
    for (u32 i = 4 * from + thread; i < 4 * (to < S::FINDS ? to : S::FINDS); i += threads) {
        const Find find = s.finds[i >> 2];
        const u32 k = i & 3;
        const double p = (double)(args.verify_step * find.f & args.mask) * S::V * args.inverse;
        const double lowest = ::floor(p) - 1.0;
        const u32 b = (u32)((i64)lowest + k) & (S::V - 1);
        Tone& tone = s.tones[i >> 2];
        tone.gain[k] = response_at(args, s.series, terms, lowest + k - p);
        tone.v[k] = times(find.a, ring.root(find.f * k & args.mask));
        if (b / S::OWN == c) {
            const u32 at = atomicAdd(s.listed + b % S::OWN, 1u);
            if (at < S::LIST) s.list[b % S::OWN][at] = i;
        }
    }
}

// certify: counts this block's buckets that what was found does not explain.
template <class S, class Shared> DEV void judge(Shared& s, double limit, u32 t) {
    for (u32 i = t; i < (4 * S::OWN + 31) / 32 * 32; i += S::THREADS) {
        double energy = 0.0;
        if (i < 4 * S::OWN) {
            const u32 b = i >> 2, shift = i & 3, count = s.listed[b];
            Z sum = s.verify[i];
            for (u32 e = 0; e < (count < S::LIST ? count : S::LIST); e++) {
                const u32 at = s.list[b][e];
                const Tone& tone = s.tones[at >> 2];
                const double gain = tone.gain[at & 3];
                sum.x = fma(-gain, tone.v[shift].x, sum.x);
                sum.y = fma(-gain, tone.v[shift].y, sum.y);
            }
            if (count > S::LIST) s.full = 1;
            energy = norm(sum);
        }
        energy += __shfl_xor_sync(~0u, energy, 1);
        energy += __shfl_xor_sync(~0u, energy, 2);
        const u32 mask = __ballot_sync(~0u, (i & 3) == 0 && energy > limit);
        if (t % 32 == 0 && mask) atomicAdd(&s.left, __popc(mask));
    }
}

#ifdef PROFILE
#define STAMP(i) \
    if (c == 0 && t == 0) stamps[i] = clock64();
#else
#define STAMP(i)
#endif
