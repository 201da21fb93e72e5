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
#include "four.cuh"
#include "quick.cuh"

template <u32 LOGB, u32 LOGV_, u32 CLUSTER> struct Shape {
    static const u32 B = 1u << LOGB, LOGR = LOGB / 2, R = 1u << LOGR;
    static const u32 BLOCKS = CLUSTER;
    // Threads of one transform, columns (then rows) of a block, threads with points of the comb.
    static const u32 T = R / 8, ROWS = R / CLUSTER, COMB = ROWS * 4 * T, WARPS = COMB / 32;
    // Verifying buckets, and those of a block.
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

// Bin number i of a block: row i / R, k2 = i mod R.
template <class S> DEV One bin_at(const Z* rows, u32 i) {
    const Z* p = rows + i / S::R * 4 * S::PAD + i % S::R;
    One l;
#pragma unroll
    for (u32 tau = 0; tau < 4; tau++) l.u[tau] = p[tau * S::PAD];
    return l;
}

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
        fold_window<S>(args, s, x, c, t - S::COMB);
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
        if (c < 4) transform_window<S>(args, s, c, lane);
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
            peel_finds<S>(args, s, terms, c, 0, peeled, t - 32 * own, S::THREADS - 32 * own);
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
    peel_finds<S>(args, s, terms, c, peeled, s.count, t, S::THREADS);
    if (t == 0 && s.count > S::FINDS) s.full = 1;
    __syncthreads();
    STAMP(9)
    double leaks = args.verify_leak * args.verify_leak * power;
    const double floor_v = fma(ROUNDING * ROUNDING * power, args.verify_energy, leaks);
    const double limit = floor_v * args.threshold[4];
    judge<S>(s, limit, t);
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
        h.status = 0;
        h.known = all < args.capacity ? all : args.capacity;
        h.open = open;
        h.lines = 1;
        h.left = left;
        h.steps = 3;
        h.lines_read = lines;
        h.power = power;
        h.verified = verified;
        *head = h;
        // The host may be waiting for the status alone: the coefficients, which the others wrote before the
        // barrier, and the header come first.
        __threadfence_system();
        *(volatile u32*)&head->status = status;
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
