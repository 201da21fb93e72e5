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
// 4. What was found leaves the verifying buckets. Bins with three frequencies or more, or two that are
//    close, are still open: their frequencies are what the buckets hold now, mostly alone. They are
//    decoded there, as one or two; every block hears of them, and solves the open bins (late.cuh).
// 5. These leave the buckets as well, and all buckets are judged; what was found goes out in order.
#include "late.cuh"
#include "quick.cuh"

template <u32 LOGB, u32 LOGV, u32 CLUSTER> struct Shape : Frame<LOGB, LOGV, CLUSTER, 1> {
    typedef Frame<LOGB, LOGV, CLUSTER, 1> F;
    // More threads than hold points decode, where warps are few. They also peel and judge; the others put what was
    // found in order.
    static const u32 DECODE = CLUSTER == 1 ? F::COMB : 2 * F::COMB, ORDER = 128;
    static const u32 THREADS = DECODE + ORDER;
    static_assert(32 * F::HELPERS <= ORDER, "");
    // Threads for one shift of a bucket.
    static const u32 WAYS = DECODE / (4 * F::OWN);
    // Open bins of a block, frequencies that it sees in its buckets; those of all open bins, and those of them
    // that reach the buckets of a block.
    static const u32 OPENS = 8, SEEN = 16, LATE = 128, REACH = 32;
    static_assert(F::OWN == 32, "a bucket for every lane of a warp");
    // Warps that fold, one bucket and shift per thread.
    static const u32 FOLDERS = 4;
    static_assert(4 * F::V / CLUSTER <= 32 * FOLDERS && F::COMB + 32 * FOLDERS <= THREADS, "");
    static const u32 MOST = F::BINS * 3 / 8, ACTIVE = MOST < DECODE / 2 ? MOST : DECODE / 2;

    struct Shared : Kept<F, FOLDERS, 2 * ACTIVE> {
        Z tiles[F::TILES];
        Tone tones[F::EACH * CLUSTER + REACH];
        Z folded[F::HELPERS * F::FOLDED];
        // Of bins, and of buckets, while others may still read those.
        Guess one[ACTIVE], two[ACTIVE], bucket_one[F::OWN], bucket_two[F::OWN];
        // The open bins of every block; all of them in order, and where they are among those.
        Z open_lanes[CLUSTER * OPENS][4];
        unsigned short open_bins[CLUSTER * OPENS], open_at[CLUSTER * OPENS];
        // What the buckets of every block show, [number][sender], and what its own do.
        Z seen_values[SEEN * CLUSTER], own_values[SEEN];
        u64 seen_keys[SEEN * CLUSTER], own_keys[SEEN];
        u32 seen[CLUSTER], came[CLUSTER];
        // Those of every open bin; what was found in the end, and what of it reaches buckets of this block.
        u32 picks[CLUSTER * OPENS];
        u64 picked[CLUSTER * OPENS][4], late_keys[LATE], reach_keys[REACH];
        Z picked_values[CLUSTER * OPENS][4], late_values[LATE], reach_values[REACH];
        u32 late, reach;
        double power, wideness;
        u32 act[ACTIVE];
        // Finds that came, side by side; how many were put in order.
        unsigned short order[F::EACH * CLUSTER];
        u32 ordered;
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
    SHARED_MEMORY
    typename S::Shared& s = *(typename S::Shared*)memory;
    const u32 t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const u32 c = blockIdx.x % CLUSTER, signal = blockIdx.x / CLUSTER;
    const void* x = (const void*)(args.x + signal * args.stride);
    Header* head = (Header*)(args.out + signal * args.out_stride);
    const Ring ring = {args.n, args.mask, args.inverse};
    STAMP(0)

    // permute and fold: samples are asked for before anything else.
    const bool combs = t < S::COMB, helper = t >= S::DECODE;
    const u32 i = t - S::COMB;
    Z v[8], w[4];
    Fold<S> fold;
    if (combs) {
        const Point<S> at(t);
        const u32 j2 = c * ROWS + at.column;
        const u64 first = args.step * (R * at.y + j2) + at.tau, step = args.step * (R * T);
        load<8>(x, args.format, v, [&](u32 q) { return first + q * step; });
        ask_turns<S>(args, w, j2, at.y);
    } else {
        if (i == 0) make_gates<S>(s, c, false);
        if (i == 32) s.late = s.reach = 0;
        if (i < CLUSTER * S::OPENS) s.picks[i] = 0;
        Tables<S>(args, i).keep(s, i);
        if (i < 32 * S::FOLDERS) fold.ask(args, x, c, i);
    }
    __syncthreads();
    arrive<S>();
    if (combs) {
        STAMP(1)
        columns<S>(s, v, w, c, t);
        STAMP(2)
    } else {
        if (i < 32 * S::FOLDERS) {
            fold.send(s, c, i);
        } else {
            if (CLUSTER > 1) wait_for_others(1);
            await<S>();
        }
        pass<S>(s, WINDOW_GATE);
    }
    part<S>();
    if (!helper) pass<S>(s, POINTS_GATE);
    STAMP(3)

    if (helper) {
        const u32 shift = CLUSTER == 1 ? warp - S::DECODE / 32 : c - S::WINDOW;
        if (shift < 4 && warp < S::DECODE / 32 + S::HELPERS) transform_window<S>(args, s, shift, lane);
        wait_for_others(2);
    } else {
        if (!combs || CLUSTER == 1) {
            const double power = sum_of<CLUSTER * S::WARPS>(s.energy, lane) * (0.25 * args.bin);
            const double wide = sum_of<CLUSTER * S::FOLDERS>(s.wide, lane) * (0.25 / args.verify_energy);
            if (t == S::DECODE - 1) {
                s.power = power;
                s.wideness = wide;
            }
        }
        if (combs) rows<S>(args, s, v, t);
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
    }
    __syncthreads();
    STAMP(6)
    const u32 active = s.active < S::ACTIVE ? s.active : S::ACTIVE;
    // Number i of what may have been found.
    const auto found_at = [&](u32 i, u64& f, Z& a) {
        const u32 entry = i >> 1, which = i & 1;
        const bool there = i < 2 * active, one = there && s.one[entry].good;
        const bool two = there && !one && s.two[entry].good;
        if (there && !one && !two && !which && t < S::DECODE) {
            const u32 at = atomicAdd(&s.open, 1u);
            if (at < S::OPENS) s.opened[at] = bin_of<S>(c, s.act[entry]);
        }
        if (!two && !(one && !which)) return false;
        const Guess& g = one ? s.one[entry] : s.two[entry];
        f = g.f[which];
        a = g.a[which];
        return true;
    };
    u64 f = 0;
    Z a = z_of(0.0, 0.0);
    if (t < S::DECODE) {
        // Finds go to the blocks whose buckets they reach.
        for (u32 i = t; i < (2 * active + 31) / 32 * 32; i += S::DECODE) {
            const bool found = found_at(i, f, a);
            u32 at = 0;
            if (CLUSTER == 1) {
                const u32 mask = __ballot_sync(~0u, found);
                if (lane == 0 && mask) at = atomicAdd(&s.found, __popc(mask));
                at = __shfl_sync(~0u, at, 0) + __popc(mask & ((1u << lane) - 1));
            }
            if (found) send_to_buckets<S>(args, s, FIND_GATE, c, at, f, a);
        }
        some_threads_sync<S::DECODE>();
        const u32 mine = s.open < S::OPENS ? s.open : S::OPENS;
        if (CLUSTER == 1) {
            if (t == 0) {
                s.came[0] = s.found < S::EACH ? s.found : S::EACH;
                s.opens[0].open = s.open;
                s.opens[0].crowded = s.active > S::ACTIVE;
            }
        } else if (t < CLUSTER) {
            const u32 sent = s.sent[t] < S::EACH ? s.sent[t] : S::EACH;
            put<S>(s, FIND_GATE, t, s.came + c, sent);
            announce<S>(s, FIND_GATE, t, 4 + 24 * sent);
        } else if (t >= S::DECODE / 2) {
            const u32 others = S::DECODE / 2, thread = t - others;
            tell_opens<S, others>(s, c, s.active > S::ACTIVE, z_of(0.0, 0.0), thread);
            for (u32 i = thread; i < 4 * mine * CLUSTER; i += others) {
                const u32 tau = i & 3, number = i / 4 % mine, to = i / 4 / mine, b = s.opened[number];
                put<S>(s, OPEN_GATE, to, &s.open_lanes[c * S::OPENS + number][tau],
                       s.rows[(b % ROWS * 4 + tau) * S::PAD + b / R]);
            }
            if (thread < CLUSTER) announce<S>(s, OPEN_GATE, thread, sizeof(Opens) + 64 * mine);
        }
        wait_for_others(CLUSTER == 1 ? 0 : 1);
    } else {
        // And to the blocks of their part of the frequencies, which put them in order.
        const u32 thread = t - S::DECODE;
        if (CLUSTER > 1) {
            for (u32 i = thread; i < (2 * active + 31) / 32 * 32; i += S::ORDER) {
                const bool found = found_at(i, f, a);
                const u32 mask = __ballot_sync(~0u, found);
                u32 at = 0;
                if (lane == 0 && mask) at = atomicAdd(&s.found, __popc(mask));
                at = __shfl_sync(~0u, at, 0) + __popc(mask & ((1u << lane) - 1));
                if (found) {
                    Entry e = {f, a.x, a.y};
                    s.known[at] = e;
                    send_to_order<S>(args, s, ORDER_GATE, c, f, a);
                }
            }
            some_threads_sync<S::ORDER, 2>();
            tell_shares<S, S::ORDER>(s, c, thread);
        }
        wait_for_others(1);
    }
    STAMP(7)
    part<S>();
    const double power = s.power, floor = ROUNDING * ROUNDING * power * args.bin;
    const double leaks = args.verify_leak * args.verify_leak * power;
    const double floor_v = fma(ROUNDING * ROUNDING * power, args.verify_energy, leaks);
    const double limit_v = floor_v * args.threshold[4];
    u32 status = first_status(power, s.wideness), seen = 0, open = 0;
    if (t < S::DECODE) {
        // peel: what was found leaves the verifying buckets.
        pass<S>(s, FIND_GATE);
        STAMP(8)
        const u32 came = line_up<S>(s, lane, t);
        if (CLUSTER > 1) some_threads_sync<S::DECODE>();
        if (CLUSTER == 1) wait_for_others(1);
        STAMP(15)
        // The last warp has little to peel.
        if (warp == S::DECODE / 32 - 1) {
            pass<S>(s, OPEN_GATE);
            list_opens<S>(s, lane);
        }
#pragma unroll 1
        for (u32 i = t; i < 2 * came; i += S::DECODE) {
            const u32 slot = CLUSTER == 1 ? i / 2 : s.order[i / 2];
            peel_half<S>(args, s, c, slot, i & 1, s.find_keys[slot], s.find_values[slot]);
        }
        STAMP(16)
        pass<S>(s, VERIFY_GATE);
        some_threads_sync<S::DECODE>();
        STAMP(9)
        pass<S>(s, OPEN_GATE);
        open = count_opens<S>(s, lane, status);
        if (status == EXPLAINED && open) {
            const Z left = explain<S, S::WAYS>(s, t, seen);
            if (t / 4 % S::WAYS == 0) s.verify[t / (4 * S::WAYS) * 4 + (t & 3)] = left;
            some_threads_sync<S::DECODE>();
            STAMP(10)
            if (t < 96) {
                // locate: one frequency of a bucket by a lane of the first warp, two by two of the others.
                if (warp == 0) {
                    look_for_one<S>(args, s, lane, open, limit_v, floor_v, c);
                } else {
                    look_for_two<S>(args, s, t - 32, open, limit_v, floor_v, c);
                }
                some_threads_sync<96, 3>();
                STAMP(11)
                if (warp == 0) show<S>(s, c, lane);
            } else {
                wait_for_others(1);
            }
        }
    } else {
        const u32 thread = t - S::DECODE;
        pass<S>(s, ORDER_GATE);
        const Shares<S> shares(s, 0, c, lane);
        if (thread == 0) {
            s.ordered = shares.all;
            // The host may begin.
            if (c == 0) ((u64*)head)[ROUNDS_WORD] = shares.all < args.capacity ? shares.all : args.capacity;
        }
        deliver<S, S::ORDER>(args, s, (Entry*)(head + 1), shares, 0, (Entry*)s.tiles, c, thread);
        pass<S>(s, OPEN_GATE);
        open = count_opens<S>(s, lane, status);
        if (status == EXPLAINED && open) wait_for_others(2);
    }
    Header h = {};
    h.lines = 1;
    h.steps = 3;
    // Everyone comes to the same status.
    if (status == EXPLAINED && open) {
        part<S>();
        pass<S>(s, MORE_GATE);
        STAMP(12)
        share_out<S>(s, open, lane, t);
        __syncthreads();
        // Four lanes for a bin.
#pragma unroll 1
        for (u32 first = 8 * warp; first < open; first += S::THREADS / 4) {
            const u32 o = first + lane / 4, b = o < open ? s.open_bins[o] : 0, at = o < open ? s.open_at[o] : 0;
            Z u[4];
            if (CLUSTER == 1) {
                const One l = bin_at<S>(s.rows, b % ROWS * R + b / R);
#pragma unroll
                for (u32 tau = 0; tau < 4; tau++) u[tau] = l.u[tau];
            } else {
#pragma unroll
                for (u32 tau = 0; tau < 4; tau++) u[tau] = s.open_lanes[at][tau];
            }
            const u32 m = solve<S>(args, s, u, o, o < open, b, floor * args.threshold[4], limit_v, lane, f, a);
            if (o < open && m == 0 && (lane & 3) == 0) atomicAdd(&s.still, 1u);
            WORK_STAMP(13)
            take_late<S>(args, s, (lane & 3) < m, f, a, c, lane);
        }
        h.steps = 5;
    }
    __syncthreads();
    STAMP(14)
    h.open = s.still;
    if (status == EXPLAINED && h.open) status = OPEN;
    // The end: the certificate, and what the host reads.
    if (t < S::DECODE) {
        judge<S, S::WAYS>(s, limit_v, t, seen);
    } else if (c == 0) {
        const u32 room = s.ordered < args.capacity ? args.capacity - s.ordered : 0, thread = t - S::DECODE;
        const u32 late = s.late < S::LATE ? s.late : S::LATE;
        deliver_late<S>(s, (Entry*)(head + 1) + args.capacity - room, late < room ? late : room, late, thread);
        if (thread == S::ORDER - 1) {
            h.rounds = args.capacity - room;
            h.known = h.rounds + (late < room ? late : room);
            h.lines_read = S::B + args.verify_reads;
            h.power = power;
            if (status == EXPLAINED && s.ordered + s.late > args.capacity) status = FULL;
            write_header(args, head, h, status, floor_v, limit_v, true);
        }
    }
    __syncthreads();
    STAMP(19)
    if (t == 0) write_verdict(args, s, head, c);
    STAMP(20)
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
template struct Check<10, 7, 4, 384, 144 << 10>;
template struct Check<12, 9, 16, 384, 176 << 10>;
