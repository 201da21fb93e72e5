// exact at its fastest: one comb, one certificate, by one cluster with everything between the samples
// and the answer in its shared memory. For lengths 2^m, and combs of B = 4^m bins. What is not plain
// is left to sparse.cuh (the status says so).
//
// Order, with R = √B and the bins b = k1 + R·k2 shared out by k1:
// 1. Teeth j = R·j1 + j2: a block reads some columns j2 and makes their transforms over j1; the
//    points go to the blocks of their k1. Other warps fold part of the verifying window.
// 2. Transforms over j2: the bins. A warp of its own transforms one shift of the verifying window.
// 3. Bins that hold something are listed and decoded, as one frequency by half of the threads and as
//    two by the others. What is found goes to the blocks whose verifying buckets it reaches.
// 4. Bins with three or four frequencies, or two that are close, get four more shifts, of these bins
//    alone, by the definition; their frequencies are the roots of the polynomial that the eight
//    shifts satisfy. These shifts are read at the start, with their neighbours.
// 5. What was found leaves the verifying buckets, and they are judged; what was found goes out in order.
#include "four.cuh"
#include "quick.cuh"

template <u32 LOGB, u32 LOGV, u32 CLUSTER> struct Shape : Frame<LOGB, LOGV, CLUSTER, 1> {
    typedef Frame<LOGB, LOGV, CLUSTER, 1> F;
    // More threads than hold points decode, where warps are few.
    static const u32 DECODE = CLUSTER == 1 ? F::COMB : 2 * F::COMB, THREADS = DECODE + 32 * F::HELPERS;
    // Of them, some send what was found while others ask for more about the rest.
    static const u32 SENDERS = CLUSTER == 1 ? DECODE : DECODE / 2;
    // A warp solves a bin with three frequencies or more.
    static const u32 OPENS = 8;
    static_assert(32 * OPENS <= THREADS, "");
    // Warps that fold, one bucket and shift per thread.
    static const u32 FOLDERS = (THREADS - F::COMB) / 32;
    static_assert(4 * F::V / CLUSTER <= 32 * FOLDERS, "");
    static const u32 MOST = F::BINS * 3 / 8, ACTIVE = MOST < DECODE / 2 ? MOST : DECODE / 2;

    struct Shared : Kept<F, FOLDERS, 2 * ACTIVE + 4 * OPENS> {
        Z tiles[F::TILES];
        Tone tones[F::EACH * CLUSTER];
        Z folded[F::HELPERS * F::FOLDED];
        Guess one[ACTIVE], two[ACTIVE];
        // The other four shifts of the teeth, eight teeth summed up for each remainder of a bin mod 8;
        // of the open bins, from every block.
        Z later[8][F::COMB];
        Z more[OPENS][CLUSTER][4];
        double power, wideness;
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
template <class S> DEV u32 bin_of(u32 c, u32 i) { return c * S::ROWS + i / S::R + S::R * (i % S::R); }

template <u32 LOGB, u32 LOGV, u32 CLUSTER> static __device__ void quick(const Quick& args) {
    typedef Shape<LOGB, LOGV, CLUSTER> S;
    const u32 R = S::R, T = S::T, ROWS = S::ROWS;
    extern __shared__ __align__(16) char memory[];
    typename S::Shared& s = *(typename S::Shared*)memory;
    const u32 t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const u32 c = blockIdx.x % CLUSTER, signal = blockIdx.x / CLUSTER;
    const void* x = (const void*)(args.x + signal * args.stride);
    Header* head = (Header*)(args.out + signal * args.out_stride);
    const Ring ring = {args.n, args.mask, args.inverse};
    STAMP(0)

    // permute and fold: samples are asked for before anything else.
    const bool combs = t < S::COMB, helper = t >= S::DECODE;
    if (combs) {
        const Point<S> at(t);
        const u32 j2 = c * ROWS + at.column;
        const u64 first = args.step * (R * at.y + j2) + at.tau, step = args.step * (R * T);
        Z v[8], later[8], w[4];
        load<8>(x, args.format, v, [&](u32 q) { return first + q * step; });
        ask_turns<S>(args, w, j2, at.y);
        load<8>(x, args.format, later, [&](u32 q) { return first + 4 + q * step; });
        block_sync();
        arrive<S>();
        STAMP(1)
        columns<S>(s, v, w, c, t);
        STAMP(2)
        // Teeth lie B/8 apart: Σ_q v[q]·w8^{qb} is one output of a short transform.
        Radix<3, 1, Z>::run(later);
#pragma unroll
        for (u32 k = 0; k < 8; k++) s.later[k][t] = later[k];
    } else {
        const u32 i = t - S::COMB;
        if (i == 0) make_gates<S>(s, c, false);
        Tables<S>(args, i).keep(s, i);
        Fold<S> fold(args, x, c, i);
        block_sync();
        arrive<S>();
        fold.send(s, c, i);
        pass<S>(s, WINDOW_GATE);
    }
    part<S>();
    if (!helper) pass<S>(s, POINTS_GATE);
    const u32 terms = (args.verify_terms + 3) & ~3u;
    STAMP(3)

    if (helper) {
        const u32 shift = CLUSTER == 1 ? warp - S::DECODE / 32 : c;
        if (shift < 4) transform_window<S>(args, s, shift, lane);
        wait_for_others(CLUSTER == 1 ? 4 : 5);
    } else {
        if (!combs || CLUSTER == 1) {
            const double power = sum_of<CLUSTER * S::WARPS>(s.energy, lane) * (0.25 * args.bin);
            const double wide = sum_of<CLUSTER * S::FOLDERS>(s.wide, lane) * (0.25 / args.verify_energy);
            if (t == S::DECODE - 1) {
                s.power = power;
                s.wideness = wide;
            }
        }
        if (combs) {
            Z v[8];
            rows<S>(args, s, v, t);
        }
        some_threads_sync<S::DECODE>();
        STAMP(4)
        // locate: which bins hold anything.
        const double floor = ROUNDING * ROUNDING * s.power * args.bin, limit = floor * args.threshold[4];
        const bool plain = first_status(s.power, s.wideness) == EXPLAINED;
        for (u32 i = t; i < S::BINS; i += S::DECODE) {
            const bool full = plain && bin_at<S>(s.rows, i).energy() > limit;
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
        const u32 i = pairs ? t - half : t;
        if (i < active) {
            const u32 local = s.act[i], b = bin_of<S>(c, local);
            const One l = bin_at<S>(s.rows, local);
            const double own = OWN_ROUNDING * l.energy();
            double left, away;
            u64 f[2];
            Z a[2];
            if (!pairs) {
                f[0] = ring.snap(single(l), S::B, args.bin, b, away);
                left = fit_one(ring, l, f[0], a[0]);
                s.one[i].f[0] = f[0];
                s.one[i].a[0] = a[0];
                s.one[i].good = left <= floor * args.threshold[3] + own;
            } else {
                double turn[2];
                bool good = twin(l, turn);
                if (good) {
                    f[0] = ring.snap(turn[0], S::B, args.bin, b, away);
                    f[1] = ring.snap(turn[1], S::B, args.bin, b, away);
                    good = f[0] != f[1] && fit_two(ring, l, f, a, left) &&
                           left <= floor * args.threshold[2] + own;
                    s.two[i].f[0] = f[0];
                    s.two[i].f[1] = f[1];
                    s.two[i].a[0] = a[0];
                    s.two[i].a[1] = a[1];
                }
                s.two[i].good = good;
            }
        }
        some_threads_sync<S::DECODE>();
        STAMP(6)
        const auto note_open = [&](u32 i) {
            const u32 at = atomicAdd(&s.open, 1u);
            if (at < S::OPENS) s.opened[at] = bin_of<S>(c, s.act[i]);
        };
        if (CLUSTER > 1) {
            for (u32 i = t; i < active; i += S::DECODE)
                if (!s.one[i].good && !s.two[i].good) note_open(i);
            some_threads_sync<S::DECODE>();
        }
        if (t >= S::SENDERS) {
            tell_opens<S, S::DECODE - S::SENDERS>(s, c, s.active > S::ACTIVE, z_of(0.0, 0.0), t - S::SENDERS);
            wait_for_others(1);
        } else {
            // Finds go into this block's list, and to the blocks whose buckets they reach.
            for (u32 i = t; i < (2 * active + 31) / 32 * 32; i += S::SENDERS) {
                const u32 entry = i >> 1, which = i & 1;
                const bool there = i < 2 * active, one = there && s.one[entry].good;
                const bool two = there && !one && s.two[entry].good, found = two || (one && !which);
                const u32 mask = __ballot_sync(~0u, found);
                u32 at = 0;
                if (CLUSTER == 1 && there && !one && !two && !which) note_open(entry);
                if (lane == 0 && mask) at = atomicAdd(&s.found, __popc(mask));
                at = __shfl_sync(~0u, at, 0) + __popc(mask & ((1u << lane) - 1));
                if (found) {
                    const Guess& g = one ? s.one[entry] : s.two[entry];
                    keep<S>(args, s, FIND_GATE, c, at, g.f[which], g.a[which]);
                }
            }
            some_threads_sync<S::SENDERS, 3>();
            tell<S, S::SENDERS>(s, c, 0, 0, t);
            if (CLUSTER == 1 && t == 0) {
                s.opens[0].open = s.open;
                s.opens[0].crowded = s.active > S::ACTIVE;
            }
        }
    }
    STAMP(7)
    part<S>();
    pass<S>(s, OPEN_GATE);
    STAMP(8)

    // Lane b has the number of open bins up to those of block b.
    u32 open = lane < CLUSTER ? s.opens[lane].open : 0;
    const u32 own = s.opens[c].open;
    const bool crowded = __any_sync(~0u, lane < CLUSTER && s.opens[lane].crowded);
    const bool many = __any_sync(~0u, open > S::OPENS);
#pragma unroll
    for (u32 d = 1; d < 32; d <<= 1) {
        const u32 before = __shfl_up_sync(~0u, open, d);
        if (lane >= d) open += before;
    }
    const u32 ends = open;
    open = __shfl_sync(~0u, open, 31);
    const double power = s.power, floor = ROUNDING * ROUNDING * power * args.bin;
    u32 status = first_status(power, s.wideness);
    if (status == EXPLAINED && crowded) status = TOO_CROWDED;
    if (status == EXPLAINED && many) status = OPEN;
    bool peeled = false, second = false;
    Header h = {};
    h.lines = 1;
    h.steps = 3;
    // Everyone comes to the same status.
    if (status == EXPLAINED && open) {
        if (CLUSTER > 1 && own && t == 0) expect(s, SUM_GATE, 64 * CLUSTER * own);
        // Sixteen threads sum up a bin: its four shifts, a quarter of the points each. Others send meanwhile.
        const u32 summing = CLUSTER == 1 ? 0 : S::SENDERS / 32;
#pragma unroll 1
        for (u32 o = 2 * (warp - summing); warp >= summing && o < open; o += S::THREADS / 16 - 2 * summing) {
            const u32 low = __popc(__ballot_sync(~0u, ends <= o)), high = __popc(__ballot_sync(~0u, ends <= o + 1));
            const u32 b = lane < 16 ? low : high, start = __shfl_sync(~0u, ends, b - 1 & 31);
            const u32 number = o + (lane >> 4), i = number - (b ? start : 0), tau = t & 3;
            const bool there = number < open;
            const u32 bin = !there ? 0 : CLUSTER == 1 ? s.opened[i] : s.opens[b].bins[i];
            Z sum = z_of(0.0, 0.0);
#pragma unroll 4
            for (u32 p = t / 4 % 4; p < S::POINTS; p += 4) {
                const u32 turn = (R * (p % T) + c * ROWS + p / T) * bin & (S::B - 1);
                const Z by = times(s.roots[turn / R], s.fine[turn % R]);
                sum = plus(sum, times(s.later[bin & 7][4 * p + tau], by));
            }
            sum = plus(sum, shuffled(sum, lane ^ 4));
            sum = plus(sum, shuffled(sum, lane ^ 8));
            if (there && (t & 12) == 0) put<S>(s, SUM_GATE, b, &s.more[i][c][tau], sum);
        }
        part<S>();
        // Those who have not sent anything solve.
        const u32 all = S::THREADS / 32, solver = warp >= summing ? warp - summing : warp + all - summing;
        if (solver < own) pass<S>(s, SUM_GATE);
        STAMP(9)
        peeled = 32 * own < S::THREADS;
        if (solver >= own) {
            // The others peel what is known already.
            pass<S>(s, FIND_GATE);
            peel<S>(args, s, terms, c, false, false, 32 * (solver - own) + lane, S::THREADS - 32 * own);
        } else {
            const u32 b = s.opened[solver], local = b % ROWS * R + b / R;
            Z sum = z_of(0.0, 0.0);
#pragma unroll
            for (u32 i = 0; i < CLUSTER; i += 8)
                if (i + lane / 4 < CLUSTER) sum = plus(sum, s.more[solver][i + lane / 4][lane & 3]);
#pragma unroll
            for (u32 d = 4; d < 32 && d < 4 * CLUSTER; d <<= 1) sum = plus(sum, shuffled(sum, lane ^ d));
            sum = shuffled(scaled(sum, args.bin), lane & 3);
            // Shift number lane mod 8.
            const Z* low = s.rows + local / R * 4 * S::PAD + local % R;
            const Z mine = lane & 4 ? sum : low[(lane & 3) * S::PAD];
            Z a;
            u64 f;
            WORK_STAMP(11)
            const u32 m = up_to_four(ring, mine, b, S::B, args.bin, floor * args.threshold[4], lane, f, a);
            if (lane < m) keep<S>(args, s, MORE_GATE, c, atomicAdd(&s.found, 1u), f, a);
            if (m == 0 && lane == 0) atomicAdd(&s.still, 1u);
            WORK_STAMP(12)
        }
        STAMP(10)
        __syncthreads();
        second = true;
        tell<S, S::THREADS>(s, c, 1, 0, t);
        part<S>();
        pass<S>(s, MORE_GATE);
        open = __reduce_add_sync(~0u, lane < CLUSTER ? s.notes[1][lane].still : 0);
        h.steps = 5;
    }
    meet<S>();
    pass<S>(s, FIND_GATE);
    STAMP(15)
    if (status == EXPLAINED && open) status = OPEN;
    h.open = open;
    h.lines_read = 2 * S::B + args.verify_reads;
    h.power = power;
    const double leaks = args.verify_leak * args.verify_leak * power;
    const double floor_v = fma(ROUNDING * ROUNDING * power, args.verify_energy, leaks);
    conclude<S>(args, s, head, h, status, floor_v, floor_v * args.threshold[4], terms, c, peeled, second, t);
}

#define QUICK(LOGB, LOGV, CLUSTER)                                                              \
    extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1)                                  \
        __launch_bounds__(Shape<LOGB, LOGV, CLUSTER>::THREADS, 1)                               \
            quick_##LOGB##_##LOGV##_##CLUSTER(const __grid_constant__ Quick a) {                \
        quick<LOGB, LOGV, CLUSTER>(a);                                                          \
    }
QUICK(8, 5, 1)
QUICK(10, 7, 4)
QUICK(12, 9, 16)

// As QUICK in sparse.rs.
template <u32 LOGB, u32 LOGV, u32 CLUSTER, u32 THREADS, u32 BYTES> struct Check {
    typedef Shape<LOGB, LOGV, CLUSTER> S;
    static_assert(S::THREADS == THREADS && sizeof(typename S::Shared) <= BYTES, "");
};
template struct Check<8, 5, 1, 256, 112 << 10>;
template struct Check<10, 7, 4, 288, 144 << 10>;
template struct Check<12, 9, 16, 288, 176 << 10>;
