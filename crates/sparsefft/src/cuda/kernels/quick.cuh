// What the kernels of one cluster share: quick.cu without noise, noisy.cu with it.
#pragma once
#include "gates.cuh"
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
    u64 verify_step, verify_back, verify_taps, verify_roots;
    u32 verify_reads, pad;
    double verify_energy, verify_leak;
};

// Clock readings, behind the entries.
#ifdef PROFILE
#define STAMP(i) \
    if (c == 0 && t == 0) ((u64*)((char*)head + args.out_stride - 512))[i] = clock64();
// By the last warp, in any block, that comes here.
#define WORK_STAMP(i) \
    if (lane == 0) ((u64*)((char*)head + args.out_stride - 512))[i] = clock64();
// By a thread of those that do something else meanwhile.
#define OTHER_STAMP(i) \
    if (c == 0 && t == S::HALF) ((u64*)((char*)head + args.out_stride - 512))[i] = clock64();
#else
#define STAMP(i)
#define WORK_STAMP(i)
#define OTHER_STAMP(i)
#endif

#ifndef EMULATED
#define SHARED_MEMORY extern __shared__ __align__(16) char memory[];
#endif

struct WarpSync {
    static __device__ __forceinline__ void sync() { __syncwarp(); }
};

// Σ over the lanes up to this one.
DEV u32 sum_up_to(u32 v, u32 lane) {
#pragma unroll
    for (u32 d = 1; d < 32; d <<= 1) {
        const u32 before = __shfl_up_sync(~0u, v, d);
        if (lane >= d) v += before;
    }
    return v;
}

// What one bin was decoded to.
struct Guess {
    u64 f[2];
    Z a[2];
    u32 good, pad[3];
};

DEV u32 padded_at(u32 e) { return e + (e >> 3); }

// What both kernels have: B = R² bins, LINES_ lines of four shifts, V verifying buckets.
template <u32 LOGB, u32 LOGV_, u32 CLUSTER, u32 LINES_> struct Frame {
    static const u32 BLOCKS = CLUSTER, LINES = LINES_, B = 1u << LOGB, LOGR = LOGB / 2, R = 1u << LOGR;
    // Threads of one transform, columns (then rows) of a block, threads with points of a line, of all.
    static const u32 T = R / 8, ROWS = R / CLUSTER, ONE = ROWS * 4 * T, COMB = LINES_ * ONE;
    static const u32 WARPS = COMB / 32, BINS = B / CLUSTER, POINTS = ONE / 4;
    // Distance of the points of one shift: neighbouring shifts lie in other banks.
    static const u32 PAD = R + R / 8 + (10 - R / 8 % 8) % 8, TILES = 4 * LINES_ * ROWS * PAD;
    // Verifying buckets, those of a block, points of a thread, threads of a transform; shifts that a
    // block transforms, a warp each.
    static const u32 LOGV = LOGV_, V = 1u << LOGV, OWN = V / CLUSTER;
    static const u32 LOGP = LOGV > 8 ? 4 : 3, TV = V >> LOGP, HELPERS = CLUSTER < 4 ? 4 / CLUSTER : 1;
    static const u32 FOLDED = V + V / 8;
    // The first of the blocks that transform the window, a shift each: the last blocks solve the fewest bins.
    static const u32 WINDOW = CLUSTER < 4 ? 0 : CLUSTER - 4;
    // Coefficients that one block sends another: to its buckets, and to be put in order.
    static const u32 EACH = CLUSTER == 1 ? 128 : CLUSTER == 4 ? 48 : 24;
    static const u32 SHARE = CLUSTER == 1 ? EACH : CLUSTER == 4 ? 40 : 16;
    static const u32 SLOTS = CLUSTER * SHARE, LIST = 48;
    // Threads that judge the buckets of a block.
    static const u32 JUDGES = (4 * OWN + 31) / 32 * 32;
};

// What one block tells another when it has sent what it found: how many for every part of the frequencies, how
// many to this block's buckets; bins that it could not solve, and something wrong.
template <u32 CLUSTER> struct __align__(16) Note {
    unsigned short shares[CLUSTER < 8 ? 8 : CLUSTER];
    u32 came, still, wrong, pad;
    static const u32 PIECES = (CLUSTER < 8 ? 1 : CLUSTER / 8) + 1, CAME = PIECES - 1;
};
// And before: how many bins it left open, which, and whether it has too many; its quiet bins and their energy.
struct __align__(16) Opens {
    u32 open, crowded, pad[2];
    unsigned short bins[16];
    double quiet, quiet_energy;
    static const u32 PIECES = 4;
};

// What both kernels keep in shared memory. FOLDERS are the warps that fold the window, FOUND the most
// coefficients that a block finds.
template <class F, u32 FOLDERS, u32 FOUND> struct Kept {
    static const u32 CLUSTER = F::BLOCKS;
    Z rows[F::TILES];
    Z roots[F::R], fine[F::R];
    Z verify[4 * F::OWN];
    // What came from each block: [number][sender].
    Z find_values[F::EACH * CLUSTER], values[F::SLOTS];
    u64 find_keys[F::EACH * CLUSTER], keys[F::SLOTS], close[F::SLOTS + 32];
    unsigned short close_at[F::SLOTS];
    u64 gates[GATES];
    // What the blocks tell each other, the first and the second time; open bins of this one.
    Note<CLUSTER> notes[2][CLUSTER];
    Opens opens[CLUSTER];
    __align__(16) unsigned short opened[16];
    Entry known[FOUND];
    double energy[CLUSTER * F::WARPS], wide[CLUSTER * FOLDERS];
    u32 active, found, open, full, left, still, weak, pad;
    // How many were sent to every block, and how many to be ordered; how many of them it knows of.
    u32 sent[CLUSTER], given[CLUSTER], told[CLUSTER];
    u32 listed[F::OWN];
    unsigned short list[F::OWN][F::LIST], list_pad[4];
};

// COUNT samples, at(i) apart.
template <int FORMAT> DEV Z load_one(const void* x, u64 i) {
    if (FORMAT == 0) {
#ifdef EMULATED
        return ((const Z*)x)[i];
#else
        Z v;
        asm("ld.global.nc.L2::128B.v2.f64 {%0, %1}, [%2];" : "=d"(v.x), "=d"(v.y) : "l"((const Z*)x + i));
        return v;
#endif
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

// The response of the verifying window (VERIFY_BETA in plan/choose.rs) as a polynomial in y, highest first: for
// |x| ≤ 1 in y = 2x² - 1, for 1 ≤ |x| ≤ 2 in y = (2x² - 5)/3; each to 3e-16.
static __constant__ const double NEAR[16] = {
    -1.383107196524528e-12, 2.4072670969432265e-11, -3.714999577455388e-10, 5.184217040245276e-09,
    -6.421072778565704e-08, 7.00282808893396e-07,   -6.664691264407406e-06, 5.475704033808488e-05,
    -0.00038331059821020206, 0.002248981672285299,  -0.010827471701422314,  0.04156276975670013,
    -0.12206357508684589,    0.2570250515591752,    -0.3448190289560351,    0.22100761886301393};
static __constant__ const double BEYOND[20] = {
    -3.3670635398025956e-10, 2.565049548349507e-09,  -1.6178525110217826e-08, 1.0009348387266929e-07,
    -5.599553159645994e-07,  2.7900016905991483e-06, -1.235426644552272e-05,  4.830282363385333e-05,
    -0.00016542790004193424, 0.0004918723690728439,  -0.0012567289501956072,  0.0027260701647289073,
    -0.004948403701985584,   0.007384454618543333,   -0.00885731074523928,    0.008286854334373935,
    -0.005796087026609137,   0.0028371989598490834,  -0.0008629953215467421,  0.00012223845218518764};
// Even and odd powers apart: two chains of half the length.
template <u32 TERMS> DEV double polynomial(const double* c, double y) {
    const double yy = y * y;
    double odd = c[0], even = c[1];
#pragma unroll
    for (u32 i = 2; i < TERMS; i += 2) {
        odd = fma(odd, yy, c[i]);
        even = fma(even, yy, c[i + 1]);
    }
    return fma(odd, y, even);
}
DEV double near_response(double x) { return polynomial<16>(NEAR, fma(x * x, 2.0, -1.0)); }
DEV double far_response(double x) { return polynomial<20>(BEYOND, fma(x * x, 2.0 / 3.0, -5.0 / 3.0)); }

// Makes the gates; by one thread. What comes is known but for finds and sums.
template <class S, class Shared> DEV void make_gates(Shared& s, u32 c, bool energies) {
    if (S::BLOCKS == 1) return;
#pragma unroll
    for (u32 i = 0; i < GATES; i++) {
        const bool all = i == FIND_GATE || i == ORDER_GATE || i == MORE_GATE || (i == OPEN_GATE && !energies);
        make_gate(s, (Gates)i, all ? S::BLOCKS : 1);
    }
    gates_made();
    expect(s, POINTS_GATE, 64 * S::LINES * S::ROWS * S::R + 8 * S::BLOCKS * S::WARPS);
    expect(s, WINDOW_GATE, (c >= S::WINDOW ? 16 * S::V : 0) + 8 * S::BLOCKS * S::FOLDERS);
    expect(s, VERIFY_GATE, 64 * S::OWN);
    if (energies) {
        expect(s, OPEN_GATE, sizeof(Opens) * S::BLOCKS);
        expect(s, ENERGY_GATE, 4 * S::B);
    }
}

// Tables for shared memory, asked for together before anything waits; by the threads without points.
template <class S> struct Tables {
    Z root, fine;

    __device__ Tables(const Quick& args, u32 t) {
        const char* tables = (const char*)args.tables;
        const Z* roots = (const Z*)(tables + args.roots);
        if (t < S::R) {
            root = load_one<0>(roots, t * S::R);
            fine = load_one<0>(roots, t);
        }
    }
    template <class Shared> __device__ void keep(Shared& s, u32 t) const {
        if (t == 0) s.active = s.found = s.open = s.full = s.left = s.still = s.weak = 0;
        if (t < S::BLOCKS) s.sent[t] = s.given[t] = s.told[t] = 0;
        if (t < S::OWN) s.listed[t] = 0;
        if (t < S::R) {
            s.roots[t] = root;
            s.fine[t] = fine;
        }
    }
};

// Where a thread's points of the comb lie.
template <class S> struct Point {
    // Shifts lie side by side in memory.
    u32 line, tau, y, column;
    __device__ explicit Point(u32 t)
        : line(t / S::ONE), tau(t & 3), y(t / 4 % S::T), column(t % S::ONE / (4 * S::T)) {}
    __device__ u32 tile() const { return ((line * S::ROWS + column) * 4 + tau) * S::PAD; }
};

// Turns of a column's points after its transform.
template <class S> DEV void ask_turns(const Quick& args, Z* w, u32 j2, u32 y) {
    const Z* roots = (const Z*)(args.tables + args.roots);
    w[3] = load_one<0>(roots, j2 * y);
#pragma unroll
    for (u32 b = 0; b < 3; b++) w[b] = load_one<0>(roots, ((j2 * S::T) << b) & (S::B - 1));
}

// bucket FFT: over j1; the points go to the blocks of their rows, once everyone is there.
template <class S, class Shared> DEV void columns(Shared& s, Z* v, const Z* w, u32 c, u32 t) {
    const Point<S> at(t);
    const u32 lane = t & 31;
    double energy = 0.0;
    int thread = at.y;
    Z* tile = s.tiles + at.tile();
#pragma unroll
    for (u32 q = 0; q < 8; q++) energy += norm(v[q]);
    Steps<S::LOGR, 3, 0, WarpSync>::run(
        v, tile, s.roots, thread, [](u32 e) { return padded_at(e); }, [] {});
    Turn<3, 1, Z>::by(v, w[3], w);
    if (S::BLOCKS == 1) {
        Z* to = s.rows + (at.line * S::ROWS * 4 + at.tau) * S::PAD + padded_at(at.column);
#pragma unroll
        for (u32 q = 0; q < 8; q++) to[(q * S::T + at.y) * 4 * S::PAD] = v[q];
    } else {
        __syncwarp();
#pragma unroll
        for (u32 q = 0; q < 8; q++) tile[padded_at(q * S::T + at.y)] = v[q];
        some_threads_sync<S::COMB>();
        await<S>();
        // Columns side by side: points travel in company.
#pragma unroll
        for (u32 m = 0; m < 8; m++) {
            const u32 i = m * S::COMB + t, from = i % S::ROWS, shift = i / S::ROWS & 3;
            const u32 k1 = i / S::ROWS / 4 % S::R, which = i / S::ROWS / 4 / S::R;
            Z* to = s.rows + ((which * S::ROWS + k1 % S::ROWS) * 4 + shift) * S::PAD + padded_at(c * S::ROWS + from);
            const Z point = s.tiles[((which * S::ROWS + from) * 4 + shift) * S::PAD + padded_at(k1)];
            put<S>(s, POINTS_GATE, k1 / S::ROWS, to, point);
        }
    }
    // While the points travel.
    energy = warp_sum(energy);
    if (lane < S::BLOCKS) put<S>(s, POINTS_GATE, lane, s.energy + c * S::WARPS + t / 32, energy);
}

// bucket FFT: over j2. The bins take the place of the points.
template <class S, class Shared> DEV void rows(const Quick& args, Shared& s, Z* v, u32 t) {
    const Point<S> at(t);
    int thread = at.y;
    Z* tile = s.rows + at.tile();
#pragma unroll
    for (u32 q = 0; q < 8; q++) v[q] = tile[padded_at(q * S::T + at.y)];
    __syncwarp();
    Steps<S::LOGR, 3, 0, WarpSync>::run(
        v, tile, s.roots, thread, [](u32 e) { return padded_at(e); }, [] {});
    __syncwarp();
#pragma unroll
    for (u32 q = 0; q < 8; q++) tile[q * S::T + at.y] = scaled(v[q], args.bin);
}

// Σ over what the warps of all blocks have, the same for everyone.
template <u32 COUNT> DEV double sum_of(const double* parts, u32 lane) {
    double sum = 0.0;
    if (COUNT <= 8) {
#pragma unroll
        for (u32 i = 0; i < COUNT; i++) sum += parts[i];
        return sum;
    }
#pragma unroll
    for (u32 i = 0; i < COUNT; i += 32)
        if (i + lane < COUNT) sum += parts[i + lane];
    return warp_sum(sum);
}

// What the energies say before anything is decoded.
DEV u32 first_status(double power, double wide) {
    if (!(power < 1e300) || !(wide < 1e300) || (power > 0.0 && power < TINY_POWER)) return STRANGE;
    return wide > 100.0 * power ? BLIND : EXPLAINED;
}

// fold: thread i of the folders makes one bucket and shift of the verifying window, and its energy.
template <class S> struct Fold {
    Z u[5];
    double g[5];
    u32 shift, bucket;
    bool there;

    // The samples are asked for.
    __device__ void ask(const Quick& args, const void* x, u32 c, u32 i) {
        const double* taps = (const double*)(args.tables + args.verify_taps);
        const u32 items = 4 * S::V / S::BLOCKS, reads = args.verify_reads, reach = reads / 2;
        const u32 item = c * items + i;
        shift = item & 3;
        bucket = item >> 2;
        there = i < items;
        if (!there) return;
        const u32 begin = (bucket + reach) & (S::V - 1);
        load<5>(x, args.format, u, [&](u32 k) {
            u32 tap = begin + k * S::V;
            tap = tap < reads ? tap : begin;
            return (args.verify_back + args.verify_step * tap + shift) & args.mask;
        });
#pragma unroll
        for (u32 k = 0; k < 5; k++) {
            const u32 tap = begin + k * S::V;
            g[k] = tap < reads ? __ldg(taps + (tap > reach ? tap - reach : reach - tap)) : 0.0;
        }
    }

    // They go to the blocks that transform them once everyone is there.
    template <class Shared> __device__ void send(Shared& s, u32 c, u32 i) {
        Z sum = z_of(0.0, 0.0);
        if (there) {
#pragma unroll
            for (u32 k = 0; k < 5; k++) {
                sum.x = fma(g[k], u[k].x, sum.x);
                sum.y = fma(g[k], u[k].y, sum.y);
            }
        }
        const double wide = warp_sum(norm(sum));
        if (S::BLOCKS > 1) {
            wait_for_others(1);
            await<S>();
        }
        const u32 own = S::BLOCKS == 1 ? shift * S::FOLDED : 0;
        if (there) put<S>(s, WINDOW_GATE, S::BLOCKS == 1 ? 0 : S::WINDOW + shift, s.folded + own + padded_at(bucket), sum);
        if (i % 32 < S::BLOCKS) put<S>(s, WINDOW_GATE, i % 32, s.wide + c * S::FOLDERS + i / 32, wide);
    }
};

// bucket FFT: one shift of the verifying window, by one warp; spare lanes do the same again.
template <class S, class Shared> DEV void transform_window(const Quick& args, Shared& s, u32 shift, u32 lane) {
    const u32 P = 1u << S::LOGP;
    int thread = lane & (S::TV - 1);
    Z p[P], *folded = s.folded + (S::BLOCKS == 1 ? shift * S::FOLDED : 0);
#pragma unroll
    for (u32 q = 0; q < P; q++) p[q] = folded[padded_at(q * S::TV + thread)];
    __syncwarp();
    Steps<S::LOGV, S::LOGP, 0, WarpSync>::run(
        p, folded, (const Z*)(args.tables + args.verify_roots), thread, [](u32 e) { return padded_at(e); }, [] {});
    if (lane < S::TV) {
#pragma unroll
        for (u32 q = 0; q < P; q++) {
            const u32 b = q * S::TV + thread;
            put<S>(s, VERIFY_GATE, b / S::OWN, s.verify + (b % S::OWN) * 4 + shift, p[q]);
        }
    }
}

// Sends a coefficient to the blocks whose verifying buckets it reaches. Every block has room of its own in each
// of the others, so that nobody waits for a counter far away. One block has one numbering for all.
template <class S, class Shared>
DEV void send_to_buckets(const Quick& args, Shared& s, Gates gate, u32 c, u32 found, u64 f, Z a) {
    if (S::BLOCKS == 1) {
        if (found < S::EACH) {
            s.find_values[found] = a;
            s.find_keys[found] = f;
        } else {
            s.full = 1;
        }
        return;
    }
    const double p = (double)(args.verify_step * f & args.mask) * S::V * args.inverse;
    const u32 low = (u32)(i64)p - 1;
    const u32 owner = (low & (S::V - 1)) / S::OWN, other = (low + 3 & (S::V - 1)) / S::OWN;
#pragma unroll 1
    for (u32 to = owner;; to = (to + 1) % S::BLOCKS) {
        const u32 at = atomicAdd(s.sent + to, 1u), slot = at * S::BLOCKS + c;
        if (at < S::EACH) {
            put<S>(s, gate, to, s.find_values + slot, a);
            put<S>(s, gate, to, s.find_keys + slot, f);
        } else {
            s.full = 1;
        }
        if (to == other) break;
    }
}
// And to the block that puts its frequency in order.
template <class S, class Shared>
DEV void send_to_order(const Quick& args, Shared& s, Gates gate, u32 c, u64 f, Z a) {
    if (S::BLOCKS == 1) return;
    const u32 orderer = (u32)((f * S::BLOCKS) >> __popcll(args.mask));
    const u32 place = atomicAdd(s.given + orderer, 1u);
    if (place < S::SHARE) {
        const u32 slot = place * S::BLOCKS + c;
        put<S>(s, gate, orderer, s.values + slot, a);
        put<S>(s, gate, orderer, s.keys + slot, f);
    }
}
// Notes what was found, and sends it to both.
template <class S, class Shared> DEV void keep(const Quick& args, Shared& s, Gates gate, u32 c, u32 at, u64 f, Z a) {
    Entry e = {f, a.x, a.y};
    s.known[at] = e;
    send_to_buckets<S>(args, s, gate, c, at, f, a);
    send_to_order<S>(args, s, gate, c, f, a);
}
// Tells the others about open bins; by THREADS threads, after the decoders have met.
template <class S, u32 THREADS, class Shared>
DEV void tell_opens(Shared& s, u32 c, u32 crowded, Z quiet, u32 thread) {
#pragma unroll 1
    for (u32 i = thread; i < Opens::PIECES * S::BLOCKS; i += THREADS) {
        const u32 piece = i % Opens::PIECES, to = i / Opens::PIECES;
        Z v = quiet;
        if (piece == 0) v = z_of(__hiloint2double(crowded, s.open), 0.0);
        if (piece == 1 || piece == 2) v = ((const Z*)s.opened)[piece - 1];
        put<S>(s, OPEN_GATE, to, (Z*)&s.opens[c] + piece, v);
    }
}
// Eight numbers of coefficients that were sent to be ordered.
template <class S, class Shared> DEV Z shares_piece(const Shared& s, u32 piece) {
    u32 g[4];
#pragma unroll
    for (u32 k = 0; k < 4; k++) {
        const u32 at = 8 * piece + 2 * k;
        g[k] = (at < S::BLOCKS ? s.given[at] : 0) | (at + 1 < S::BLOCKS ? s.given[at + 1] : 0) << 16;
    }
    return z_of(__hiloint2double(g[1], g[0]), __hiloint2double(g[3], g[2]));
}
// Tells the others how many were sent, the first or the second time; by THREADS threads, after they have met.
template <class S, u32 THREADS, class Shared>
DEV void tell(Shared& s, u32 c, u32 time, u32 wrong, u32 thread) {
    typedef Note<S::BLOCKS> N;
    const Gates gate = time ? MORE_GATE : FIND_GATE;
#pragma unroll 1
    for (u32 i = thread; i < N::PIECES * S::BLOCKS; i += THREADS) {
        const u32 piece = i % N::PIECES, to = i / N::PIECES;
        Z v;
        if (piece < N::CAME) {
            v = shares_piece<S>(s, piece);
        } else {
            const u32 sent = s.sent[to] < S::EACH ? s.sent[to] : S::EACH;
            v = z_of(__hiloint2double(s.still, sent), __hiloint2double(0, wrong));
        }
        put<S>(s, gate, to, (Z*)&s.notes[time][c] + piece, v);
    }
    if (thread < S::BLOCKS) {
        const u32 to = thread, sent = s.sent[to] < S::EACH ? s.sent[to] : S::EACH;
        const u32 bytes = 24 * (sent + (s.given[to] < S::SHARE ? s.given[to] : S::SHARE));
        announce<S>(s, gate, to, sizeof(N) + bytes - s.told[to]);
        s.told[to] = bytes;
    }
}

// peel: half of a coefficient that has this place among the tones: two of its four buckets and of its four shifts.
template <class S, class Shared>
DEV void peel_half(const Quick& args, Shared& s, u32 c, u32 slot, u32 half, u64 f, Z value) {
    const Ring ring = {args.n, args.mask, args.inverse};
    const double p = (double)(args.verify_step * f & args.mask) * S::V * args.inverse;
    const double lowest = ::floor(p) - 1.0;
    Tone& tone = s.tones[slot];
    const Z z = ring.root(f);
    if (half) value = times(value, times(z, z));
    tone.v[2 * half] = value;
    tone.v[2 * half + 1] = times(value, z);
    u32 at[2];
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
        const u32 b = (u32)((i64)lowest + 2 * half + i) & (S::V - 1);
        at[i] = b / S::OWN == c ? atomicAdd(s.listed + b % S::OWN, 1u) : S::LIST;
        if (at[i] < S::LIST) s.list[b % S::OWN][at[i]] = 4 * slot + 2 * half + i;
    }
    // Distances from -2 on: the first and the last of the four lie beyond one.
    const double from = lowest - p;
    tone.gain[half ? 2 : 1] = near_response(from + (half ? 2.0 : 1.0));
    tone.gain[half ? 3 : 0] = far_response(from + (half ? 3.0 : 0.0));
}
// The coefficients that reached this block: those that came the first time, the second time, or both; by whole warps.
template <class S, class Shared>
DEV void peel(const Quick& args, Shared& s, u32 c, bool from_second, bool to_second, u32 thread,
              u32 threads) {
    // Side by side, those of one sender after those of another.
    const u32 lane = thread & 31;
    const u32 before = from_second && lane < S::BLOCKS ? s.notes[0][lane].came : 0;
    const u32 its = lane < S::BLOCKS ? s.notes[to_second][lane].came - before : 0;
    const u32 ends = sum_up_to(its, lane), count = __shfl_sync(~0u, ends, 31), first = before + its - ends;
#pragma unroll 1
    for (u32 i = thread; i < (2 * count + 31) / 32 * 32; i += threads) {
        u32 sender = 0;
#pragma unroll
        for (u32 b = 0; b < S::BLOCKS - 1; b++) sender += __shfl_sync(~0u, ends, b) <= i / 2;
        const u32 slot = (i / 2 + __shfl_sync(~0u, first, sender)) * S::BLOCKS + sender;
        if (i < 2 * count) peel_half<S>(args, s, c, slot, i & 1, s.find_keys[slot], s.find_values[slot]);
    }
}

// peel: what the coefficients of its list leave of a bucket at one shift, by four times WAYS threads for a
// bucket. `seen` of them have left it before.
template <class S, u32 WAYS, class Shared> DEV Z explain(Shared& s, u32 i, u32& seen) {
    const bool there = i < 4 * WAYS * S::OWN;
    const u32 b = there ? i / (4 * WAYS) : 0, way = i / 4 % WAYS, shift = i & 3;
    const u32 all = s.listed[b], count = all < S::LIST ? all : S::LIST;
    Z sum = way ? z_of(0.0, 0.0) : s.verify[4 * b + shift];
    // Some at a time, so that their reads wait together.
    const u32 SOME = 8;
    Z other = z_of(0.0, 0.0);
#pragma unroll 1
    for (u32 e = seen + SOME * way; e < count; e += SOME * WAYS) {
        double gain[SOME];
        Z v[SOME];
#pragma unroll
        for (u32 k = 0; k < SOME; k++) {
            const u32 at = s.list[b][e + k < count ? e + k : e];
            const Tone& tone = s.tones[at >> 2];
            gain[k] = e + k < count ? tone.gain[at & 3] : 0.0;
            v[k] = tone.v[shift];
        }
#pragma unroll
        for (u32 k = 0; k < SOME; k += 2) {
            sum.x = fma(-gain[k], v[k].x, sum.x);
            sum.y = fma(-gain[k], v[k].y, sum.y);
            other.x = fma(-gain[k + 1], v[k + 1].x, other.x);
            other.y = fma(-gain[k + 1], v[k + 1].y, other.y);
        }
    }
    sum = plus(sum, other);
    if (all > S::LIST) s.full = 1;
    seen = count;
    if (WAYS == 2) sum = plus(sum, shuffled(sum, i ^ 4));
    return there ? sum : z_of(0.0, 0.0);
}
// certify: counts this block's buckets that what was found does not explain.
template <class S, u32 WAYS, class Shared> DEV void judge(Shared& s, double limit, u32 i, u32 seen) {
    double energy = norm(explain<S, WAYS>(s, i, seen));
    energy += __shfl_xor_sync(~0u, energy, 1);
    energy += __shfl_xor_sync(~0u, energy, 2);
    // Also where it is no number.
    const u32 mask = __ballot_sync(~0u, i % (4 * WAYS) == 0 && !(energy <= limit));
    if (i % 32 == 0 && mask) atomicAdd(&s.left, __popc(mask));
}

// How many coefficients there are: in all, of frequencies or of blocks before this one, of its part; the most
// that one block sent for any part, and for this one.
template <class S> struct Shares {
    u32 all, before, found_before, mine, most, top;

    template <class Shared> __device__ Shares(Shared& s, u32 second, u32 c, u32 lane) {
        if (S::BLOCKS == 1) {
            all = mine = most = top = s.found;
            before = found_before = 0;
            return;
        }
        all = before = found_before = mine = most = top = 0;
#pragma unroll
        for (u32 k = 0; k < S::BLOCKS * S::BLOCKS; k += 32) {
            const u32 i = k + lane, sender = i / S::BLOCKS, orderer = i % S::BLOCKS;
            const u32 count = i < S::BLOCKS * S::BLOCKS ? s.notes[second][sender].shares[orderer] : 0;
            all += count;
            before += orderer < c ? count : 0;
            found_before += sender < c ? count : 0;
            mine += orderer == c ? count : 0;
            most = count > most ? count : most;
            top = orderer == c && count > top ? count : top;
        }
        all = __reduce_add_sync(~0u, all);
        before = __reduce_add_sync(~0u, before);
        found_before = __reduce_add_sync(~0u, found_before);
        mine = __reduce_add_sync(~0u, mine);
        most = __reduce_max_sync(~0u, most);
        top = __reduce_max_sync(~0u, top);
    }
};

// The coefficients go out in the order of their frequencies, those of this block's part of them; by
// whole warps. Where too many fall into one part, every block brings what it found and the host sorts.
// `room` is for SLOTS entries.
template <class S, u32 THREADS, class Shared>
DEV void deliver(const Quick& args, Shared& s, Entry* out, const Shares<S>& shares, u32 second, Entry* room, u32 c,
                 u32 thread) {
    const u32 lane = thread & 31;
    const auto sync = [] { some_threads_sync<THREADS, 2>(); };
    u32 before = shares.before, mine = shares.mine;
    const Entry* from = s.known;
    if (shares.most <= S::SHARE) {
        // Side by side, those of one sender after those of another; then nothing, to the end of a row of 32.
        if (S::BLOCKS > 1) {
            const u32 its = lane < S::BLOCKS ? s.notes[second][lane].shares[c] : 0;
            u32 ends = its;
#pragma unroll
            for (u32 d = 1; d < S::BLOCKS; d <<= 1) {
                const u32 other = __shfl_up_sync(~0u, ends, d);
                if (lane >= d) ends += other;
            }
            for (u32 i = thread; i < (shares.top * S::BLOCKS + 31) / 32 * 32; i += THREADS) {
                const u32 sender = i % S::BLOCKS, number = i / S::BLOCKS;
                const u32 count = __shfl_sync(~0u, its, sender), at = __shfl_sync(~0u, ends, sender) - count + number;
                if (number < count) {
                    s.close[at] = s.keys[i];
                    s.close_at[at] = i;
                }
            }
        } else {
            for (u32 i = thread; i < mine; i += THREADS) s.close[i] = s.find_keys[i];
        }
        if (thread < 32) s.close[mine + thread] = ~0ull;
        sync();
        // Four lanes compare one frequency with the others.
        static_assert(S::SLOTS * sizeof(Entry) <= sizeof(Z) * S::TILES, "");
#pragma unroll 1
        for (u32 i = thread; i < (4 * mine + 31) / 32 * 32; i += THREADS) {
            const u32 at = i / 4;
            const u64 key = at < mine ? s.close[at] : 0;
            u32 rank = 0;
#pragma unroll 1
            for (u32 k = i & 3; k < mine; k += 32) {
#pragma unroll
                for (u32 j = 0; j < 32; j += 4) rank += s.close[k + j] < key;
            }
            rank += __shfl_xor_sync(~0u, rank, 1);
            rank += __shfl_xor_sync(~0u, rank, 2);
            if ((i & 3) == 0 && at < mine) {
                const Z a = S::BLOCKS > 1 ? s.values[s.close_at[at]] : s.find_values[at];
                Entry e = {key, a.x, a.y};
                room[rank] = e;
            }
        }
        from = room;
    } else {
        wait_for_others(1);
        before = shares.found_before;
        mine = s.found;
    }
    sync();
    if (before >= args.capacity) return;
    if (mine > args.capacity - before) mine = args.capacity - before;
    // As words, so that neighbours travel together.
    for (u32 i = thread; i < 3 * mine; i += THREADS) ((u64*)(out + before))[i] = ((const u64*)from)[i];
}

// What the host reads first. Behind it come h.rounds coefficients in order, and then the rest of them in order.
// The host waits for every word, and adds up what the blocks say: nothing here needs an order, but every word is
// written once. That of h.rounds may have been.
const u32 ROUNDS_WORD = 4;
DEV void write_header(const Quick& args, Header* head, Header h, u32 status, double floor, double limit, bool early) {
    h.status = status;
    h.verified = (sqrt(limit) + args.sigmas * sqrt(floor)) / (2.0 * 0.4);
#pragma unroll
    for (u32 i = 0; i < sizeof h / 8; i++)
        if (i != ROUNDS_WORD || !early) ((u64*)head)[i] = ((const u64*)&h)[i];
}
// How many buckets of a block are left unexplained.
template <class Shared> DEV void write_verdict(const Quick& args, Shared& s, Header* head, u32 c) {
    ((u64*)((Entry*)(head + 1) + args.capacity))[c] = s.left | (s.full ? 1u << 31 : 0);
}

// The end: what is left of the peeling, the certificate, and what the host reads. `h` says the rest. Finds that
// came the first time have been peeled or not, and there was a second time or not.
template <class S, class Shared>
DEV void conclude(const Quick& args, Shared& s, Header* head, Header h, u32 status, double floor, double limit,
                  u32 c, bool peeled, bool second, u32 t) {
    const Shares<S> shares(s, second, c, t & 31);
    // Where most has been peeled, the others send the results meanwhile.
    const bool together = !peeled;
    if (together || t < S::JUDGES) {
        peel<S>(args, s, c, peeled, second, t, together ? S::THREADS : S::JUDGES);
        pass<S>(s, VERIFY_GATE);
    }
    if (together) __syncthreads();
    STAMP(16)
    if (t < S::JUDGES) {
        if (together) {
            wait_for_others(1);
        } else {
            some_threads_sync<S::JUDGES>();
        }
        STAMP(17)
        judge<S, 1>(s, limit, t, 0);
        wait_for_others(1);
    } else {
        // The bins are not needed any more.
        deliver<S, S::THREADS - S::JUDGES>(args, s, (Entry*)(head + 1), shares, second, (Entry*)s.rows, c,
                                           t - S::JUDGES);
    }
    STAMP(18)
    if (c == 0 && t == S::JUDGES) {
        h.known = h.rounds = shares.all < args.capacity ? shares.all : args.capacity;
        if (status == EXPLAINED && shares.all > args.capacity) status = FULL;
        write_header(args, head, h, status, floor, limit, false);
    }
    __syncthreads();
    STAMP(19)
    if (t == 0) write_verdict(args, s, head, c);
    STAMP(20)
}
