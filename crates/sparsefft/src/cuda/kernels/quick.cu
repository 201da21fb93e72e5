// exact at its fastest: one comb, one certificate, by one cluster with everything between the samples
// and the answer in its shared memory. For lengths 2^m, and combs of B = 4^m bins. What is not plain
// is left to sparse.cuh (the status says so).
//
// Order, with R = √B and the bins b = k1 + R·k2 shared out by k1:
// 1. Teeth j = R·j1 + j2: a block reads some columns j2 and makes their transforms over j1; the
//    points go to the blocks of their k1. A warp of its own folds part of the verifying window.
// 2. Transforms over j2: the bins. That warp transforms one shift of the verifying window.
// 3. Bins that hold something are listed and decoded, as one frequency by half of the threads and as
//    two by the others. What is found goes to the blocks whose verifying buckets it reaches.
// 4. Bins with three or four frequencies, or two that are close, get four more shifts, of these bins
//    alone, by the definition; their frequencies are the roots of the polynomial that the eight
//    shifts satisfy.
// 5. What was found leaves the verifying buckets, and they are judged.
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
// A coefficient that reaches a block's verifying buckets, from bucket `low` on.
struct Find {
    Z a;
    u64 f;
};

template <u32 LOGB, u32 LOGV_, u32 CLUSTER> struct Shape {
    static const u32 B = 1u << LOGB, LOGR = LOGB / 2, R = 1u << LOGR;
    // Threads of one transform, columns (then rows) of a block, threads with points of the comb.
    static const u32 T = R / 8, ROWS = R / CLUSTER, COMB = ROWS * 4 * T, WARPS = COMB / 32;
    // Verifying buckets, and those of a block; a warp transforms one shift of them.
    static const u32 LOGV = LOGV_, V = 1u << LOGV, OWN = V / CLUSTER;
    static const u32 LOGP = LOGV > 8 ? 4 : 3, TV = V >> LOGP;
    // Crowded combs take more threads to decode. A warp solves a bin with three frequencies or more.
    static const u32 DECODE = LOGB == LOGV + 3 ? 256 : COMB < 64 ? 64 : COMB, THREADS = DECODE + 32;
    static const u32 OPENS = DECODE / 32;
    // Warps that fold, one bucket and shift per thread.
    static const u32 FOLDERS = (THREADS - COMB) / 32;
    static_assert(4 * V / CLUSTER <= 32 * FOLDERS, "");
    static const u32 BINS = B / CLUSTER, ACTIVE = BINS * 3 / 8 < DECODE / 2 ? BINS * 3 / 8 : DECODE / 2;
    // Distance of the points of one shift: neighbouring shifts lie in other banks.
    static const u32 PAD = R + R / 8 + (10 - R / 8 % 8) % 8;
    static const u32 FINDS = 128, LIST = 48;

    struct Shared {
        Z rows[4 * ROWS * PAD];
        Z tiles[4 * ROWS * PAD];
        Tone tones[FINDS];
        Z roots[R], fine[R];
        double series[100];
        Z folded[V + V / 8];
        Z verify[4 * OWN];
        double energy[CLUSTER * WARPS], wide[CLUSTER * FOLDERS];
        Guess one[ACTIVE], two[ACTIVE];
        Entry known[2 * ACTIVE + 4 * OPENS];
        Find finds[FINDS];
        // Four more shifts of open bins, from every block and column.
        Z more[OPENS][CLUSTER * ROWS][4];
        u32 active, count, found, open, full, left, still, pad;
        u32 counts[CLUSTER], opens[CLUSTER], crowds[CLUSTER], lefts[CLUSTER], stills[CLUSTER];
        u32 mine[OPENS], opened[CLUSTER][OPENS];
        u32 listed[OWN];
        unsigned short list[OWN][LIST], list_pad[4];
        u32 act[ACTIVE];
    };
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

DEV double warp_sum(double v) {
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
    return v;
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

// Bin number i of a block: row i / R, k2 = i mod R.
template <class S> DEV One bin_at(const Z* rows, u32 i) {
    const Z* p = rows + i / S::R * 4 * S::PAD + i % S::R;
    One l;
#pragma unroll
    for (u32 tau = 0; tau < 4; tau++) l.u[tau] = p[tau * S::PAD];
    return l;
}

// Sends a coefficient to the blocks whose verifying buckets it reaches.
template <class S> DEV void send(const Quick& args, typename S::Shared& s, u64 f, Z a) {
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

DEV Z shuffled(Z v, u32 lane) { return z_of(__shfl_sync(~0u, v.x, lane), __shfl_sync(~0u, v.y, lane)); }
DEV float2 times_f(float2 a, float2 b) {
    return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}
DEV float2 quotient_f(float2 a, float2 b) {
    const float r = __fdividef(1.0f, b.x * b.x + b.y * b.y);
    return make_float2((a.x * b.x + a.y * b.y) * r, (a.y * b.x - a.x * b.y) * r);
}

// Up to four frequencies of a bin from its eight shifts, of which this lane has number lane mod 8, by
// a warp. Σ_k c_k u[i + k] = 0 is solved by elimination, lane 8i + k with the entry u[i + k]; lane j
// then finds the root number j of Σ_k c_k z^k by Aberth's iteration, and makes it exact by Newton's.
// Gives their number, or 0 where it fails; f and a are those of this lane. Loops keep the code short:
// it runs once, and waits for its instructions otherwise.
DEV u32 up_to_four(const Ring& ring, Z mine, u32 b, u32 bins, double bin, double tolerance,
                      u32 lane, u64& f, Z& a) {
    const u32 row = lane >> 3, column = lane & 7;
    Z h = shuffled(mine, (row + column) & 7);
    u32 order = 0, used = 0, m = 4;
    double first = 0.0;
#pragma unroll 1
    for (u32 p = 0; p < 4; p++) {
        // The largest pivot among the rows that are left.
        const Z entry = shuffled(h, (lane & 24) | p);
        double size = used >> row & 1 ? -1.0 : norm(entry);
        u32 pivot = row;
#pragma unroll
        for (u32 d = 8; d < 32; d <<= 1) {
            const double other = __shfl_xor_sync(~0u, size, d);
            const u32 its = __shfl_xor_sync(~0u, pivot, d);
            if (other > size || (other == size && its < pivot)) {
                size = other;
                pivot = its;
            }
        }
        if (p == 0) first = size;
        // A pivot vanishes where the frequencies before it explain the shifts.
        if (size <= 1e-18 * first) {
            if (p < 2) return 0;
            m = p;
            break;
        }
        const Z top = shuffled(h, pivot * 8 + p);
        const Z scaled_row = times(shuffled(h, pivot * 8 + column), scaled(conj(top), 1.0 / size));
        h = row == pivot ? scaled_row : minus(h, times(entry, scaled_row));
        used |= 1u << pivot;
        order |= pivot << (8 * p);
    }
    // c_m = -1; rows stand where their pivots were.
    Z c[5];
    float2 cf[5], z;
#pragma unroll
    for (u32 k = 0; k < 5; k++) {
        c[k] = shuffled(h, (order >> (8 * (k & 3)) & 3) * 8 + m);
        if (k >= m) c[k] = z_of(k == m ? -1.0 : 0.0, 0.0);
        cf[k] = make_float2((float)c[k].x, (float)c[k].y);
    }
    const bool active = lane < m;
    __sincosf(6.2831853f * ((float)lane + 0.35f) / (float)m, &z.y, &z.x);
#pragma unroll 1
    for (u32 turn = 0; turn < 16; turn++) {
        float2 p = cf[4], d = make_float2(0.0f, 0.0f);
#pragma unroll
        for (int k = 3; k >= 0; k--) {
            d = times_f(d, z);
            d = make_float2(d.x + p.x, d.y + p.y);
            p = times_f(p, z);
            p = make_float2(p.x + cf[k].x, p.y + cf[k].y);
        }
        const float2 ratio = quotient_f(p, d);
        float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll
        for (u32 k = 0; k < 4; k++) {
            const float2 other = make_float2(__shfl_sync(~0u, z.x, k), __shfl_sync(~0u, z.y, k));
            const float2 gap = make_float2(z.x - other.x, z.y - other.y);
            const float2 term = quotient_f(make_float2(1.0f, 0.0f), gap);
            if (k < m && k != lane) sum = make_float2(sum.x + term.x, sum.y + term.y);
        }
        float2 slope = times_f(ratio, sum);
        slope = make_float2(1.0f - slope.x, -slope.y);
        const float2 step = quotient_f(ratio, slope);
        z = make_float2(z.x - step.x, z.y - step.y);
        // The iteration is of third order: the next step would be far below the precision.
        if (!__any_sync(~0u, active && step.x * step.x + step.y * step.y > 1e-6f)) break;
    }
    Z root = z_of(z.x, z.y);
#pragma unroll 1
    for (u32 turn = 0; turn < 3; turn++) {
        Z p = c[4], d = z_of(0.0, 0.0);
#pragma unroll
        for (int k = 3; k >= 0; k--) {
            d = plus(times(d, root), p);
            p = plus(times(p, root), c[k]);
        }
        root = minus(root, quotient(p, d));
    }
    double away;
    f = ring.snap(turns(root), bins, bin, b, away);
    // Values by the polynomial q that vanishes at the other frequencies, from both halves.
    const Z own = ring.root(f);
    Z q[4] = {z_of(1.0, 0.0), z_of(0.0, 0.0), z_of(0.0, 0.0), z_of(0.0, 0.0)}, product = q[0];
    bool distinct = true;
#pragma unroll 1
    for (u32 k = 0; k < m; k++) {
        const u64 other = __shfl_sync(~0u, f, k);
        const Z at = shuffled(own, k);
        if (k != lane) {
            distinct &= other != f;
#pragma unroll
            for (int i = 3; i >= 0; i--)
                q[i] = minus(i ? q[i - 1] : z_of(0.0, 0.0), times(q[i], at));
            product = times(product, minus(own, at));
        }
    }
    Z low = z_of(0.0, 0.0), high = low;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        low = plus(low, times(q[i], shuffled(mine, i)));
        high = plus(high, times(q[i], shuffled(mine, 4 + i)));
    }
    const Z two = times(own, own);
    a = scaled(quotient(plus(low, times(high, conj(times(two, two)))), product), 0.5);
    // What is left at the shift of this lane.
    Z rest = mine;
#pragma unroll 1
    for (u32 k = 0; k < m; k++) {
        const u64 other = __shfl_sync(~0u, f, k);
        rest = minus(rest, times(shuffled(a, k), ring.phase(other, lane & 7)));
    }
    const double left = warp_sum(norm(rest)), energy = warp_sum(norm(mine));
    const bool good = __all_sync(~0u, !active || distinct) && left <= 4.0 * tolerance + 1e-23 * energy;
    return good ? m : 0;
}

#ifdef PROFILE
#define STAMP(i) \
    if (c == 0 && t == 0) stamps[i] = clock64();
#else
#define STAMP(i)
#endif

template <u32 LOGB, u32 LOGV, u32 CLUSTER> static __device__ void quick(const Quick& args) {
    typedef Shape<LOGB, LOGV, CLUSTER> S;
    const u32 R = S::R, T = S::T, ROWS = S::ROWS, PAD = S::PAD;
    extern __shared__ __align__(16) char memory[];
    typename S::Shared& s = *(typename S::Shared*)memory;
    const u32 t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const u32 c = blockIdx.x % CLUSTER, signal = blockIdx.x / CLUSTER;
    const void* x = (const void*)(args.x + signal * args.stride);
    Header* head = (Header*)(args.out + signal * args.out_stride);
    Entry* known = (Entry*)(head + 1);
    const char* tables = (const char*)args.tables;
    const Ring ring = {args.n, args.mask, args.inverse};
#ifdef PROFILE
    u64* stamps = (u64*)((char*)head + args.out_stride - 512);
#endif
    STAMP(0)
    if (t == 0) s.active = s.count = s.found = s.open = s.full = s.left = s.still = 0;
    if (t < S::OWN) s.listed[t] = 0;

    // permute and fold: samples are asked for before anything else.
    const bool combs = t < S::COMB, helper = t >= S::DECODE;
    // Shifts lie side by side in memory.
    const u32 tau = t & 3, y = t / 4 % T, column = t / (4 * T);
    const Z* roots = (const Z*)(tables + args.roots);
    Z v[8], w[4];
    if (combs) {
        const u32 j2 = c * ROWS + column;
        const u64 first = args.step * (R * y + j2) + tau, step = args.step * (R * T);
        load<8>(x, args.format, v, [&](u32 q) { return first + q * step; });
        w[3] = roots[j2 * y];
#pragma unroll
        for (u32 b = 0; b < 3; b++) w[b] = roots[((j2 * T) << b) & (S::B - 1)];
    }
    for (u32 i = t; i < R; i += S::THREADS) {
        s.roots[i] = roots[i * R];
        s.fine[i] = roots[i];
    }
    // Zeros ahead make the number of terms a multiple of four.
    const u32 terms = (args.verify_terms + 3) & ~3u, ahead = terms - args.verify_terms;
    const double* series = (const double*)(tables + args.verify_series);
    for (u32 i = t; i < terms; i += S::THREADS) s.series[i] = i < ahead ? 0.0 : series[i - ahead];
    __syncthreads();
    // Everyone is there and ready to be written to.
    arrive();
    STAMP(1)
    if (!combs) {
        const double* taps = (const double*)(tables + args.verify_taps);
        const u32 items = 4 * S::V / CLUSTER, reads = args.verify_reads, reach = reads / 2;
        const u32 i = t - S::COMB, item = c * items + i, shift = item & 3, bucket = item >> 2;
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
        if (lane < CLUSTER) *remote(s.wide + c * S::FOLDERS + i / 32, lane) = wide;
    } else {
        // bucket FFT: over j1.
        double energy = 0.0;
        int thread = y;
        Z* tile = s.tiles + (column * 4 + tau) * PAD;
#pragma unroll
        for (u32 q = 0; q < 8; q++) energy += norm(v[q]);
        Steps<S::LOGR, 3, 0, WarpSync>::run(
            v, tile, s.roots, thread, [](u32 e) { return padded_at(e); }, [] {});
        Turn<3, 1, Z>::by(v, w[3], w);
        __syncwarp();
#pragma unroll
        for (u32 q = 0; q < 8; q++) tile[padded_at(q * T + y)] = v[q];
        energy = warp_sum(energy);
        some_threads_sync<S::COMB>();
        await();
        // Columns side by side: points travel in company.
#pragma unroll
        for (u32 m = 0; m < 8; m++) {
            const u32 i = m * S::COMB + t, from = i % ROWS, shift = i / ROWS & 3;
            const u32 k1 = i / ROWS / 4;
            Z* to = s.rows + (k1 % ROWS * 4 + shift) * PAD + padded_at(c * ROWS + from);
            *remote(to, k1 / ROWS) = s.tiles[(from * 4 + shift) * PAD + padded_at(k1)];
        }
        if (lane < CLUSTER) *remote(s.energy + c * S::WARPS + warp, lane) = energy;
    }
    STAMP(2)
    arrive();
    await();
    STAMP(3)

    u32 status = EXPLAINED;
    double power = 0.0;
    for (u32 i = lane; i < CLUSTER * S::WARPS; i += 32) power += s.energy[i];
    power = warp_sum(power) / (4.0 * S::B);
    double wide = 0.0;
    for (u32 i = lane; i < CLUSTER * S::FOLDERS; i += 32) wide += s.wide[i];
    wide = warp_sum(wide) / (4.0 * args.verify_energy);
    if (!(power < 1e300) || !(wide < 1e300) || (power > 0.0 && power < TINY_POWER)) status = STRANGE;
    if (status == EXPLAINED && wide > 100.0 * power) status = BLIND;
    const double floor = ROUNDING * ROUNDING * power * args.bin;
    if (helper) {
        if (c < 4) {
            // One shift of the verifying window, by one warp; spare lanes do the same again.
            const u32 P = 1u << S::LOGP;
            int thread = lane & (S::TV - 1);
            Z p[P];
#pragma unroll
            for (u32 q = 0; q < P; q++) p[q] = s.folded[padded_at(q * S::TV + thread)];
            __syncwarp();
            Steps<S::LOGV, S::LOGP, 0, WarpSync>::run(
                p, s.folded, (const Z*)(tables + args.verify_roots), thread,
                [](u32 e) { return padded_at(e); }, [] {});
            if (lane < S::TV) {
#pragma unroll
                for (u32 q = 0; q < P; q++) {
                    const u32 b = q * S::TV + thread;
                    *remote(s.verify + (b % S::OWN) * 4 + c, b / S::OWN) = p[q];
                }
            }
        }
        wait_for_others(4);
    } else {
        if (combs) {
            // bucket FFT: over j2.
            int thread = y;
            Z* tile = s.rows + (column * 4 + tau) * PAD;
#pragma unroll
            for (u32 q = 0; q < 8; q++) v[q] = tile[padded_at(q * T + y)];
            __syncwarp();
            Steps<S::LOGR, 3, 0, WarpSync>::run(
                v, tile, s.roots, thread, [](u32 e) { return padded_at(e); }, [] {});
            // The bins take the place of the points.
            __syncwarp();
#pragma unroll
            for (u32 q = 0; q < 8; q++) tile[q * T + y] = scaled(v[q], args.bin);
        }
        some_threads_sync<S::DECODE>();
        STAMP(4)
        // locate: which bins hold anything.
        const double limit = floor * args.threshold[4];
        for (u32 i = t; i < S::BINS; i += S::DECODE) {
            const bool full =
                status == EXPLAINED && bin_at<S>(s.rows, i).energy() > limit;
            const u32 mask = __ballot_sync(~0u, full);
            u32 at = 0;
            if (mask) {
                if (lane == 0) at = atomicAdd(&s.active, __popc(mask));
                at = __shfl_sync(~0u, at, 0) + __popc(mask & ((1u << lane) - 1));
                if (full && at < S::ACTIVE) s.act[at] = i;
            }
        }
        some_threads_sync<S::DECODE>();
        STAMP(5)
        const u32 active = s.active < S::ACTIVE ? s.active : S::ACTIVE, half = S::DECODE / 2;
        const bool pairs = t >= half;
        for (u32 i = pairs ? t - half : t; i < active; i += half) {
            const u32 local = s.act[i], b = c * ROWS + local / R + R * (local % R);
            const One l = bin_at<S>(s.rows, local);
            const double own = OWN_ROUNDING * l.energy();
            double left, away;
            Guess guess;
            if (!pairs) {
                guess.f[0] = ring.snap(single(l), S::B, args.bin, b, away);
                left = fit_one(ring, l, guess.f[0], guess.a[0]);
                s.one[i].f[0] = guess.f[0];
                s.one[i].a[0] = guess.a[0];
                s.one[i].good = left <= floor * args.threshold[3] + own;
            } else {
                double turn[2];
                bool good = twin(l, turn);
                if (good) {
                    guess.f[0] = ring.snap(turn[0], S::B, args.bin, b, away);
                    guess.f[1] = ring.snap(turn[1], S::B, args.bin, b, away);
                    good = guess.f[0] != guess.f[1] && fit_two(ring, l, guess.f, guess.a, left) &&
                           left <= floor * args.threshold[2] + own;
                    s.two[i].f[0] = guess.f[0];
                    s.two[i].f[1] = guess.f[1];
                    s.two[i].a[0] = guess.a[0];
                    s.two[i].a[1] = guess.a[1];
                }
                s.two[i].good = good;
            }
        }
        some_threads_sync<S::DECODE>();
        STAMP(6)
        // Finds go into this block's list, and to the blocks whose buckets they reach.
        for (u32 i = t; i < (2 * active + 31) / 32 * 32; i += S::DECODE) {
            const u32 entry = i >> 1, which = i & 1;
            const bool there = i < 2 * active, one = there && s.one[entry].good;
            const bool two = there && !one && s.two[entry].good;
            if (there && !one && !two && !which) {
                const u32 at = atomicAdd(&s.open, 1u);
                if (at < S::OPENS) s.mine[at] = s.act[entry];
            }
            const bool found = two || (one && !which);
            const u32 mask = __ballot_sync(~0u, found);
            u32 at = 0;
            if (lane == 0 && mask) at = atomicAdd(&s.found, __popc(mask));
            at = __shfl_sync(~0u, at, 0) + __popc(mask & ((1u << lane) - 1));
            if (found) {
                const Guess& g = one ? s.one[entry] : s.two[entry];
                const u64 f = g.f[which];
                const Z a = g.a[which];
                Entry e = {f, a.x, a.y};
                s.known[at] = e;
                send<S>(args, s, f, a);
            }
        }
        some_threads_sync<S::DECODE>();
        if (t < CLUSTER) {
            *remote(s.opens + c, t) = s.open;
            *remote(s.crowds + c, t) = s.active > S::ACTIVE;
            for (u32 i = 0; i < s.open && i < S::OPENS; i++) {
                const u32 local = s.mine[i];
                *remote(&s.opened[c][i], t) = c * ROWS + local / R + R * (local % R);
            }
            *remote(s.counts + c, t) = s.found;
        }
    }
    STAMP(7)
    arrive();
    await();
    STAMP(8)

    // peel: gains and tones of the coefficients from..to that reached this block.
    auto peel = [&](u32 from, u32 to, u32 thread, u32 threads) {
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
    };
    u32 peeled = 0;
    u32 before = 0, all = 0, open = 0, crowded = 0, most = 0, lines = S::B + args.verify_reads;
#pragma unroll
    for (u32 b = 0; b < CLUSTER; b++) {
        open += s.opens[b];
        most = s.opens[b] > most ? s.opens[b] : most;
        crowded |= s.crowds[b];
    }
    if (status == EXPLAINED && crowded) status = TOO_CROWDED;
    if (status == EXPLAINED && most > S::OPENS) status = OPEN;
    // Everyone comes to the same status.
    if (status == EXPLAINED && open) {
        if (combs) {
            const u32 j = R * y + c * ROWS + column;
            const u64 first = args.step * j + 4 + tau, step = args.step * (R * T);
            load<8>(x, args.format, v, [&](u32 q) { return first + q * step; });
            // Teeth lie B/8 apart: Σ_q v[q]·w8^{qb} is one output of a short transform.
            Radix<3, 1, Z>::run(v);
#pragma unroll
            for (u32 k = 0; k < 8; k++) s.tiles[k * S::COMB + t] = v[k];
        }
        __syncthreads();
        // Warps with the same column take bins in turn.
        if (!helper) {
            const u32 point = t % S::COMB, col = point / (4 * T), j = R * (point / 4 % T) + c * ROWS + col;
            u32 number = t / S::COMB;
#pragma unroll 1
            for (u32 b = 0; b < CLUSTER; b++) {
#pragma unroll 1
                for (u32 i = 0; i < s.opens[b]; i++) {
                    if (number++ % (S::DECODE / S::COMB)) continue;
                    const u32 bin = s.opened[b][i], turn = j * bin & (S::B - 1);
                    Z sum = s.tiles[(bin & 7) * S::COMB + point];
                    sum = times(sum, times(s.roots[turn / R], s.fine[turn % R]));
#pragma unroll
                    for (u32 d = 4; d < 4 * T; d <<= 1) {
                        sum.x += __shfl_xor_sync(~0u, sum.x, d);
                        sum.y += __shfl_xor_sync(~0u, sum.y, d);
                    }
                    if (point / 4 % T == 0) *remote(&s.more[i][c * ROWS + col][tau], b) = sum;
                }
            }
        }
        peeled = s.count;
        arrive();
        await();
        STAMP(12)
        const u32 own = s.opens[c];
        if (warp >= own) {
            // The others peel what is known already.
            peel(0, peeled, t - 32 * own, S::THREADS - 32 * own);
        } else {
            const u32 local = s.mine[warp], b = s.opened[c][warp];
            const One l = bin_at<S>(s.rows, local);
            Z sum = z_of(0.0, 0.0);
            for (u32 i = lane >> 2; i < CLUSTER * ROWS; i += 8)
                sum = plus(sum, s.more[warp][i][lane & 3]);
#pragma unroll
            for (u32 d = 4; d < 32; d <<= 1) {
                sum.x += __shfl_xor_sync(~0u, sum.x, d);
                sum.y += __shfl_xor_sync(~0u, sum.y, d);
            }
            sum = scaled(sum, args.bin);
            // Shift number lane mod 8.
            Z mine = (lane & 7) == 0 ? l.u[0] : (lane & 7) == 1 ? l.u[1] : (lane & 7) == 2 ? l.u[2] : l.u[3];
            if (lane & 4) mine = sum;
            Z a;
            u64 f;
            const u32 m = up_to_four(ring, mine, b, S::B, args.bin, floor * args.threshold[4], lane,
                                        f, a);
            if (lane < m) {
                Entry e = {f, a.x, a.y};
                s.known[atomicAdd(&s.found, 1u)] = e;
                send<S>(args, s, f, a);
            }
            if (m == 0 && lane == 0) atomicAdd(&s.still, 1u);
        }
        STAMP(13)
        __syncthreads();
        if (t < CLUSTER) {
            *remote(s.counts + c, t) = s.found;
            *remote(s.stills + c, t) = s.still;
        }
        arrive();
        await();
        open = 0;
        lines += S::B;
        for (u32 b = 0; b < CLUSTER; b++) open += s.stills[b];
    }
    for (u32 b = 0; b < CLUSTER; b++) {
        before += b < c ? s.counts[b] : 0;
        all += s.counts[b];
    }
    if (status == EXPLAINED && open) status = OPEN;
    STAMP(14)
    if (status == EXPLAINED && all > args.capacity) status = FULL;
    for (u32 i = t; i < s.found && before + i < args.capacity; i += S::THREADS)
        known[before + i] = s.known[i];
    // peel: the rest of what reached this block.
    peel(peeled, s.count, t, S::THREADS);
    if (t == 0 && s.count > S::FINDS) s.full = 1;
    __syncthreads();
    STAMP(9)
    double leaks = args.verify_leak * args.verify_leak * power;
    const double floor_v = fma(ROUNDING * ROUNDING * power, args.verify_energy, leaks);
    const double limit = floor_v * args.threshold[4];
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
        if (lane == 0 && mask) atomicAdd(&s.left, __popc(mask));
    }
    __syncthreads();
    STAMP(10)
    if (t == 0) *remote(s.lefts + c, 0) = s.left | (s.full ? 1u << 31 : 0);
    arrive();
    if (c > 0 || warp > 0) return;
    const double verified = (sqrt(limit) + args.sigmas * sqrt(floor_v)) / (2.0 * 0.4);
    await();
    u32 left = lane < CLUSTER ? s.lefts[lane] : 0;
    const bool full = __any_sync(~0u, left >> 31);
    left &= ~(1u << 31);
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) left += __shfl_xor_sync(~0u, left, d);
    if (status == EXPLAINED && full) status = FULL;
    if (status == EXPLAINED && left) status = BLIND;
    if (t == 0) {
        Header h = {};
        h.status = status;
        h.known = all < args.capacity ? all : args.capacity;
        h.open = open;
        h.lines = 1;
        h.left = left;
        h.steps = 3;
        h.lines_read = lines;
        h.power = power;
        h.verified = verified;
        *head = h;
    }
    STAMP(11)
}

#define QUICK(LOGB, LOGV, CLUSTER)                                                              \
    extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1)                                  \
        __launch_bounds__(Shape<LOGB, LOGV, CLUSTER>::THREADS, 1)                               \
            quick_##LOGB##_##LOGV##_##CLUSTER(const __grid_constant__ Quick a) {                \
        quick<LOGB, LOGV, CLUSTER>(a);                                                          \
    }
QUICK(10, 5, 16)
QUICK(10, 5, 4)
QUICK(12, 7, 16)
QUICK(12, 9, 16)

// As QUICK in sparse.rs.
template <u32 LOGB, u32 LOGV, u32 CLUSTER, u32 THREADS, u32 BYTES> struct Check {
    typedef Shape<LOGB, LOGV, CLUSTER> S;
    static_assert(S::THREADS == THREADS && sizeof(typename S::Shared) <= BYTES, "");
};
template struct Check<10, 5, 16, 96, 48 << 10>;
template struct Check<10, 5, 4, 160, 96 << 10>;
template struct Check<12, 7, 16, 160, 112 << 10>;
template struct Check<12, 9, 16, 288, 144 << 10>;
