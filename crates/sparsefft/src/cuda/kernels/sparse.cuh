// exact and robust, end to end, by one group of blocks: gather, fold, bucket FFT, locate, peel,
// estimate, certify. Every stage is a loop over its items by all threads of the group, with a
// barrier of the group between stages; whatever one stage hands to the next lies in global memory,
// which at these sizes is the L2 cache. Decisions (more lines? another window? enough?) are taken
// from reduced numbers that every thread sees, so no host is needed in between.
//
// The mathematics and the thresholds are those of algorithms/peeling.rs; names are the same.
// Not done here: retries with more bins, hashes without a comb, joint refinement of all values.
// The status tells the host, which then goes on.
//
// Items are shared out by thread number and nothing depends on how many threads there are, so the
// same code runs on a CPU with any number of threads (emulate.cpp), where it is tested.
#pragma once
#include "fft.cuh"

typedef unsigned long long u64;
typedef unsigned int u32;
typedef long long i64;

struct __align__(16) Z {
    double x, y;
};

// Most lines of four shifts per bin, most frequencies of one bin, most window hashes.
const u32 LINES = 12, MOST = 6, ROUNDS = 4;
// Rungs are tabulated for signal-to-noise ratios 16·2^i.
const u32 GAMMAS = 80;
// Energies that a quantile is taken of.
const u32 SAMPLE = 4096;

const double ROUNDING = 1e-13, OWN_ROUNDING = 1e-26, CROWDED = 0.35, TINY_POWER = 1e-250;
const double LEAST_GAMMA = 16.0;

// One way to spread the frequencies over bins. Offsets are in bytes: taps, roots, series in the
// tables; bins and spare in the workspace, [line][bin][shift].
struct Hash {
    u32 buckets, reads, passes, lines;
    u32 radix[8];
    u64 step, back;
    u64 taps, roots, series, bins, spare;
    u32 terms, window;
    double energy, leak, beta2, slope;
};

struct Ladder {
    u32 count, pad;
    u64 offsets[LINES];
};

// One coefficient as it goes to the host: X = n·a.
struct Entry {
    u64 f;
    double re, im;
};

enum Status {
    EXPLAINED = 1, // every bin and the independent hash are explained
    TOO_CROWDED = 2,
    OPEN = 3,
    BLIND = 4,
    WEAK = 5,
    STRANGE = 6, // not finite, or too small to square
    FULL = 7     // a list has no room
};

// What comes back ahead of the entries.
struct Header {
    u32 status, known, open, weak, active, lines, left, noisy;
    u32 rounds, buckets, climbs, steps;
    u64 lines_read;
    double power, noise, least, verified;
    double pad[5];
};

// A comb bin with three frequencies or more.
struct Slot {
    u32 bin, closed, count, fresh;
    u64 f[MOST];
    Z a[MOST];
    u64 new_f[MOST];
    Z new_a[MOST];
};

struct Counters {
    u32 known, changes, slots, open, weak, progress, active, full;
};

struct Args {
    u64 x, stride, n, mask;
    double inverse;
    u64 tables, work, work_stride, out, out_stride;
    u32 format, batch, exact, speculate;
    u32 planned, rounds;
    u64 offsets[LINES];
    u32 capacity, changes, slots, pad;
    u64 counters, partials, energies, slot_of, slot, change;
    u64 comb_ladders, window_ladders;
    double sigmas, threshold[4 * LINES + 1], normal[33];
    Hash comb, verify, window[ROUNDS];
};

#define DEV static __device__ __forceinline__
// Called from several places: one copy keeps the code small.
#define FAR_MEMBER __device__ __noinline__

DEV Z z_of(double x, double y) {
    Z r;
    r.x = x;
    r.y = y;
    return r;
}
DEV Z conj(Z a) { return z_of(a.x, -a.y); }
DEV Z scaled(Z a, double s) { return z_of(a.x * s, a.y * s); }
DEV double norm(Z a) { return a.x * a.x + a.y * a.y; }
// to + a·conj(b)
DEV Z add_conj(Z to, Z a, Z b) {
    return z_of(fma(a.x, b.x, fma(a.y, b.y, to.x)), fma(a.y, b.x, fma(-a.x, b.y, to.y)));
}

DEV double horner(const double* c, int count, double u) {
    double p = c[0];
    for (int i = 1; i < count; i++) p = fma(p, u, c[i]);
    return p;
}

// e^{2πix}, as in cpu/math.rs.
DEV Z cis(double x) {
    double quarter = rint(4.0 * x);
    double r = fma(quarter, -0.25, x);
    double u = r * r;
    double s = 3.7808689593022955;
    s = fma(s, u, -15.093804209987114);
    s = fma(s, u, 42.058685020160894);
    s = fma(s, u, -76.70585970427455);
    s = fma(s, u, 81.60524927594804);
    s = fma(s, u, -41.341702240399636);
    s = fma(s, u, 6.283185307179586476925);
    s *= r;
    double c = -1.6968494702918827;
    c = fma(c, u, 7.903091687751698);
    c = fma(c, u, -26.426250908622136);
    c = fma(c, u, 60.244641328867293);
    c = fma(c, u, -85.45681720652271);
    c = fma(c, u, 64.93939402266796);
    c = fma(c, u, -19.739208802178717);
    c = fma(c, u, 1.0);
    int q = (int)(i64)quarter & 3;
    double a = q & 1 ? -s : c, b = q & 1 ? c : s;
    return q & 2 ? z_of(-a, -b) : z_of(a, b);
}

// arg(v)/2π, as in cpu/math.rs.
DEV double turns(Z v) {
    double ax = fabs(v.x), ay = fabs(v.y);
    bool steep = ax < ay;
    double lo = steep ? ax : ay, hi = steep ? ay : ax;
    bool upper = 0.41421356237309505 * hi < lo;
    double num = upper ? lo - hi : lo, den = upper ? lo + hi : hi;
    double t = num / (den > 0.0 ? den : 1.0);
    double u = t * t;
    double p = 0.0033637991121386407;
    p = fma(p, u, -0.00692014002952943);
    p = fma(p, u, 0.00905328897479615);
    p = fma(p, u, -0.01056826053314365);
    p = fma(p, u, 0.012238941110840395);
    p = fma(p, u, -0.014468414713824675);
    p = fma(p, u, 0.017683874718384725);
    p = fma(p, u, -0.02273642027500392);
    p = fma(p, u, 0.03183098861655692);
    p = fma(p, u, -0.05305164769729066);
    p = fma(p, u, 0.15915494309189533);
    double a = fma(t, p, upper ? 0.125 : 0.0);
    a = steep ? 0.25 - a : a;
    a = v.x < 0.0 ? 0.5 - a : a;
    return v.y < 0.0 ? -a : a;
}

DEV Z quotient(Z a, Z b) { return scaled(times(a, conj(b)), 1.0 / norm(b)); }

DEV Z square_root(Z v) {
    double r = sqrt(norm(v));
    double a = sqrt(0.5 * (r + fabs(v.x)));
    if (a == 0.0) return z_of(0.0, 0.0);
    double b = 0.5 * v.y / a;
    return v.x >= 0.0 ? z_of(a, b) : z_of(fabs(b), copysign(a, v.y));
}

// One transform under way: its arguments, its group, and what all threads know.
template <class Group> struct Engine {
    const Args& a;
    Group& g;
    char* work;
    const char* tables;
    const char* x;
    Header* head;
    Entry* known;

    double power, noise, least;
    bool noisy;
    u32 comb_lines, window_lines[ROUNDS];
    u64 comb_offsets[LINES], window_offsets[ROUNDS][LINES];
    u32 rounds, climbs, steps;
    u64 lines_read;
    u32 slot_turn, first_known;

    __device__ Engine(const Args& a, Group& g, u32 signal)
        : a(a), g(g), work((char*)(a.work + g.id * a.work_stride)), tables((const char*)a.tables),
          x((const char*)(a.x + signal * a.stride)),
          head((Header*)(a.out + signal * a.out_stride)), known((Entry*)(head + 1)) {
        power = noise = least = 0.0;
        noisy = false;
        comb_lines = 0;
        rounds = climbs = steps = 0;
        lines_read = 0;
        slot_turn = first_known = 0;
        for (u32 r = 0; r < ROUNDS; r++) window_lines[r] = 0;
    }

    __device__ Counters& count() { return *(Counters*)(work + a.counters); }
    __device__ Z* bins(const Hash& h, u32 line) {
        return (Z*)(work + h.bins) + (u64)line * h.buckets * 4;
    }
    __device__ Slot* slots() { return (Slot*)(work + a.slot); }
    __device__ u32* slot_of() { return (u32*)(work + a.slot_of); }
    __device__ double* energies() { return (double*)(work + a.energies); }
    __device__ Entry* changes() { return (Entry*)(work + a.change); }

    // Reductions over the group: every block leaves its part, and after the barrier all add up.
    __device__ double* part(u32 kind) {
        return (double*)(work + a.partials) + ((slot_turn & 7) * 4 + kind) * Group::MOST_BLOCKS;
    }
    __device__ void leave(u32 kind, double v) {
        v = g.block_sum(v);
        if (g.thread == 0) part(kind)[g.block] = v;
    }
    __device__ void leave_least(u32 kind, double v) {
        v = g.block_min(v);
        if (g.thread == 0) part(kind)[g.block] = v;
    }
    __device__ double sum(u32 kind) {
        double v = 0.0;
        for (u32 i = g.thread; i < g.blocks; i += g.threads) v += part(kind)[i];
        return g.block_sum(v);
    }
    __device__ double minimum(u32 kind) {
        double v = 1e300;
        for (u32 i = g.thread; i < g.blocks; i += g.threads) v = fmin(v, part(kind)[i]);
        return g.block_min(v);
    }
    // The parts of the next stage go elsewhere: a block may still read the last ones.
    __device__ void sync() {
#ifdef PROFILE
        // Clock readings of one thread behind the entries, for measurements.
        u64* stamps = (u64*)((char*)head + a.out_stride - 512);
        if (g.rank == 0 && steps < 32) stamps[2 * steps] = clock64();
#endif
        g.sync();
#ifdef PROFILE
        if (g.rank == 0 && steps < 32) stamps[2 * steps + 1] = clock64();
#endif
        steps++;
    }
    __device__ void next_parts() { slot_turn++; }

    __device__ u64 reduced(u64 v) { return a.mask ? v & a.mask : v % a.n; }
    __device__ Z root(u64 r) { return cis((double)r * a.inverse); }
    __device__ Z phase(u64 f, u64 t) { return root(reduced(f * t)); }

    __device__ Z sample(u64 i) {
        switch (a.format) {
        case 0: return ((const Z*)x)[i];
        case 1: {
            const float* p = (const float*)x + 2 * i;
            return z_of(p[0], p[1]);
        }
        case 2: return z_of(((const double*)x)[i], 0.0);
        default: return z_of(((const float*)x)[i], 0.0);
        }
    }

    // permute: sample j of the walk of a hash, at offset d and shift tau.
    __device__ Z walk(const Hash& h, u64 j, u64 d, u32 tau) {
        u64 i = h.back + h.step * j + d + tau;
        // The teeth of a comb wrap once at most; division is slow.
        return sample(h.window ? reduced(i) : i < a.n ? i : i - a.n);
    }

    // Floor and limits, as in peeling.rs.
    __device__ double floor_of(const Hash& h) {
        double rounding = ROUNDING * ROUNDING * power;
        double v = (noise + rounding) * h.energy;
        return h.window ? fma(h.leak * h.leak, fmax(power - noise, 0.0), v) : v;
    }
    __device__ double limit(const Hash& h, u32 lanes) { return floor_of(h) * a.threshold[lanes]; }
    __device__ static double threshold(u32 lanes, double z) {
        double m = lanes;
        double root = fmax(1.0 - 1.0 / (9.0 * m) + z / (3.0 * sqrt(m)), 0.0);
        return m * root * root * root;
    }

    // bucket FFT: where pass p of a hash writes, and what it reads.
    __device__ Z* target(const Hash& h, u32 p, u32 line) {
        u64 at = (h.passes - 1 - p) & 1 ? h.spare : h.bins;
        return (Z*)(work + at) + (u64)line * h.buckets * 4;
    }
    __device__ Z* source(const Hash& h, u32 p, u32 line) {
        u64 at = (h.passes - 1 - p) & 1 ? h.bins : h.spare;
        return (Z*)(work + at) + (u64)line * h.buckets * 4;
    }

    // fold: one bucket and shift of a window hash.
    __device__ double fold(const Hash& h, u32 line, u64 d, u32 item) {
        u32 tau = item & 3, j = item >> 2;
        // Step t = j - h.reach mod buckets of the walk that starts at -reach.
        u32 reach = h.reads / 2;
        const double* taps = (const double*)(tables + h.taps);
        u32 first = (j + reach) % h.buckets;
        Z sum = z_of(0.0, 0.0);
#pragma unroll 4
        for (u32 i = first; i < h.reads; i += h.buckets) {
            Z v = walk(h, i, d, tau);
            double w = taps[i > reach ? i - reach : reach - i];
            sum.x = fma(w, v.x, sum.x);
            sum.y = fma(w, v.y, sum.y);
        }
        source(h, 0, line)[item] = sum;
        return norm(sum);
    }

    // One butterfly of pass p. The first pass of a comb reads the samples themselves; `energy`
    // then adds up |x|².
    template <int LOGR>
    __device__ void butterfly(const Hash& h, u32 p, u32 line, u64 d, u32 item, u32 S,
                              double& energy) {
        const u32 R = 1 << LOGR;
        u32 tau = item & 3, c = item >> 2, length = h.buckets / R;
        Z v[R];
        if (p == 0 && !h.window) {
#pragma unroll
            for (u32 i = 0; i < R; i++) v[i] = walk(h, i * length + c, d, tau);
#pragma unroll
            for (u32 i = 0; i < R; i++) energy += norm(v[i]);
        } else {
            const Z* from = source(h, p, line);
#pragma unroll
            for (u32 i = 0; i < R; i++) v[i] = from[(i * length + c) * 4 + tau];
        }
        u32 q = c / S, base = q * S;
        Z w[LOGR];
        if (p + 1 < h.passes) {
            const Z* roots = (const Z*)(tables + h.roots);
#pragma unroll
            for (int b = 0; b < LOGR; b++) w[b] = roots[base << b];
        }
        Radix<LOGR, 1, Z>::run(v);
        Z* to = target(h, p, line);
        u32 at = base * R + c % S;
        if (p + 1 < h.passes) {
            Turn<LOGR, 1, Z>::powers(v, w);
#pragma unroll
            for (u32 k = 0; k < R; k++) to[(at + k * S) * 4 + tau] = v[k];
        } else {
            double s = h.window ? 1.0 : 1.0 / h.buckets;
#pragma unroll
            for (u32 k = 0; k < R; k++) to[(at + k * S) * 4 + tau] = scaled(v[k], s);
        }
    }

    // The same for radix 3 and 5, by the definition.
    template <int R>
    __device__ void odd(const Hash& h, u32 p, u32 line, u64 d, u32 item, u32 S, double& energy) {
        u32 tau = item & 3, c = item >> 2, length = h.buckets / R;
        const Z* roots = (const Z*)(tables + h.roots);
        const Z* from = source(h, p, line);
        bool first = p == 0 && !h.window, last = p + 1 == h.passes;
        Z v[R];
#pragma unroll
        for (int i = 0; i < R; i++) {
            v[i] = first ? walk(h, i * length + c, d, tau) : from[(i * length + c) * 4 + tau];
            if (first) energy += norm(v[i]);
        }
        u32 base = c / S * S, at = base * R + c % S;
        Z* to = target(h, p, line);
        double s = last && !h.window ? 1.0 / h.buckets : 1.0;
#pragma unroll
        for (int k = 0; k < R; k++) {
            Z sum = v[0];
#pragma unroll
            for (int i = 1; i < R; i++) sum = plus(sum, times(v[i], roots[i * k % R * length]));
            if (!last) sum = times(sum, roots[base * k]);
            to[(at + k * S) * 4 + tau] = scaled(sum, s);
        }
    }

    __device__ u32 pass_items(const Hash& h, u32 p) { return h.buckets / h.radix[p] * 4; }

    __device__ void pass(const Hash& h, u32 p, u32 line, u64 d, u32 item, double& energy) {
        u32 S = 1;
        for (u32 i = 0; i < p; i++) S *= h.radix[i];
        switch (h.radix[p]) {
        case 16: butterfly<4>(h, p, line, d, item, S, energy); break;
        case 8: butterfly<3>(h, p, line, d, item, S, energy); break;
        case 4: butterfly<2>(h, p, line, d, item, S, energy); break;
        case 2: butterfly<1>(h, p, line, d, item, S, energy); break;
        case 3: odd<3>(h, p, line, d, item, S, energy); break;
        default: odd<5>(h, p, line, d, item, S, energy); break;
        }
    }

    // A hash that is being measured: lines from..to.
    struct Job {
        const Hash* h;
        const u64* offsets;
        u32 from, to;
    };

    // Step k of up to three hashes at once: a comb makes pass k, a window folds and then makes
    // pass k - 1. Adds up the energy of a comb's samples and of the first window's folded ones.
    // Items go to the last threads first: the first ones may have other work in this stage.
    FAR_MEMBER void advance(const Job* jobs, u32 count, u32 k, double* energy) {
        u32 items[3], end[3], all = 0;
        for (u32 i = 0; i < count; i++) {
            const Hash& h = *jobs[i].h;
            if (!h.window) {
                items[i] = k < h.passes ? pass_items(h, k) : 0;
            } else {
                items[i] = k == 0 ? h.buckets * 4 : k <= h.passes ? pass_items(h, k - 1) : 0;
            }
            all += items[i] * (jobs[i].to - jobs[i].from);
            end[i] = all;
        }
        for (u32 at = g.size - 1 - g.rank; at < all; at += g.size) {
            u32 i = 0;
            while (at >= end[i]) i++;
            u32 within = i ? at - end[i - 1] : at;
            const Hash& h = *jobs[i].h;
            u32 line = jobs[i].from + within / items[i], item = within % items[i];
            u64 d = jobs[i].offsets[line];
            if (h.window && k == 0) {
                double e = fold(h, line, d, item);
                if (i == 1) energy[1] += e;
            } else {
                pass(h, h.window ? k - 1 : k, line, d, item, energy[0]);
            }
        }
    }
    __device__ u32 steps_of(const Hash& h) { return h.window ? h.passes + 1 : h.passes; }

    // Measures lines from..to of one hash.
    FAR_MEMBER void measure(const Hash& h, const u64* offsets, u32 from, u32 to) {
        double unused[2];
        Job job = {&h, offsets, from, to};
        for (u32 k = 0; k < steps_of(h); k++) {
            advance(&job, 1, k, unused);
            sync();
        }
        lines_read += (u64)(to - from) * h.reads;
    }

    // The comb, the first window and the verifying window.
    __device__ void first_jobs(Job* jobs) {
        comb_lines = a.planned;
        for (u32 j = 0; j < a.planned; j++) comb_offsets[j] = a.offsets[j];
        window_lines[0] = 1;
        window_offsets[0][0] = 0;
        Job comb = {&a.comb, comb_offsets, 0, a.planned};
        Job window = {&a.window[0], window_offsets[0], 0, 1};
        Job verify = {&a.verify, window_offsets[0], 0, 1};
        jobs[0] = comb;
        jobs[1] = window;
        jobs[2] = verify;
        lines_read += (u64)a.comb.reads * a.planned + a.window[0].reads + a.verify.reads;
    }

    // The lanes of one bin.
    struct Lanes {
        const Z* p;
        u64 stride;
        u32 lines;
        const u64* offsets;
        __device__ Z at(u32 j, u32 tau) const { return p[j * stride + tau]; }
        __device__ u32 count() const { return 4 * lines; }
        __device__ double energy() const {
            double e = 0.0;
            for (u32 j = 0; j < lines; j++)
                e += (norm(at(j, 0)) + norm(at(j, 1))) + (norm(at(j, 2)) + norm(at(j, 3)));
            return e;
        }
    };
    __device__ Lanes comb_lanes(u32 b) {
        Lanes l = {bins(a.comb, 0) + 4 * b, (u64)a.comb.buckets * 4, comb_lines, comb_offsets};
        return l;
    }
    __device__ Lanes window_lanes(u32 r, u32 b) {
        const Hash& h = a.window[r];
        Lanes l = {bins(h, 0) + 4 * b, (u64)h.buckets * 4, window_lines[r], window_offsets[r]};
        return l;
    }

    // Σ_τ line[τ]·conj(z)^τ.
    __device__ static Z project(const Lanes& l, u32 j, Z z) {
        Z v = l.at(j, 3);
        v = add_conj(l.at(j, 2), v, z);
        v = add_conj(l.at(j, 1), v, z);
        return add_conj(l.at(j, 0), v, z);
    }

    // The nearest integer of residue class b mod m to t turns.
    __device__ u64 snap(double t, u64 modulus, u64 residue, double& away) {
        double goal = t * (double)a.n;
        double m = rint((goal - (double)residue) / (double)modulus);
        double f = fma(m, (double)modulus, (double)residue);
        away = fabs(f - goal);
        i64 r = (i64)f % (i64)a.n;
        return (u64)(r < 0 ? r + (i64)a.n : r);
    }

    // locate: one frequency.
    __device__ static double single(const Lanes& l) {
        Z p = z_of(0.0, 0.0);
        for (u32 j = 0; j < l.lines; j++) {
            Z u = l.at(j, 0);
#pragma unroll
            for (u32 tau = 0; tau < 3; tau++) {
                Z next = l.at(j, tau + 1);
                p = add_conj(p, next, u);
                u = next;
            }
        }
        double t = turns(p);
        for (u32 j = 1; j < l.lines; j++) {
            Z z = cis(t - rint(t));
            Z sum = z_of(0.0, 0.0);
            for (u32 i = 0; i < j; i++) {
                double back = -t * (double)l.offsets[i];
                sum = plus(sum, times(project(l, i, z), cis(back - rint(back))));
            }
            double back = -t * (double)l.offsets[j];
            Z here = times(project(l, j, z), cis(back - rint(back)));
            t += turns(times(here, conj(sum))) / (double)l.offsets[j];
        }
        return t;
    }

    // The two values that explain one line best at these turns.
    __device__ static bool pair(const Lanes& l, u32 j, const double* t, Z* v) {
        Z z0 = cis(t[0] - rint(t[0])), z1 = cis(t[1] - rint(t[1]));
        Z w = times(conj(z0), z1);
        Z s = z_of(w.x + 1.0, w.y);
        s = times(w, s);
        s = times(w, z_of(s.x + 1.0, s.y));
        Z gram = z_of(s.x + 1.0, s.y);
        double det = 16.0 - norm(gram);
        if (det < 1e-9) return false;
        Z r0 = project(l, j, z0), r1 = project(l, j, z1);
        v[0] = scaled(minus(scaled(r0, 4.0), times(gram, r1)), 1.0 / det);
        v[1] = scaled(minus(scaled(r1, 4.0), times(conj(gram), r0)), 1.0 / det);
        return true;
    }

    // locate: two frequencies.
    __device__ static bool twin(const Lanes& l, double* t) {
        Z c0, c1;
        if (l.lines == 1) {
            Z u0 = l.at(0, 0), u1 = l.at(0, 1), u2 = l.at(0, 2), u3 = l.at(0, 3);
            Z det = minus(times(u0, u2), times(u1, u1));
            double e = norm(u0) + norm(u1) + norm(u2) + norm(u3);
            double size = norm(det);
            if (size <= 1e-24 * e * e) return false;
            Z inverse = scaled(conj(det), 1.0 / size);
            c0 = times(minus(times(u1, u3), times(u2, u2)), inverse);
            c1 = times(minus(times(u1, u2), times(u0, u3)), inverse);
        } else {
            double a00 = 0.0, a11 = 0.0;
            Z a01 = z_of(0.0, 0.0), b0 = a01, b1 = a01;
            for (u32 j = 0; j < l.lines; j++) {
                for (u32 i = 0; i < 2; i++) {
                    Z u0 = l.at(j, i), u1 = l.at(j, i + 1), u2 = l.at(j, i + 2);
                    a00 += norm(u0);
                    a11 += norm(u1);
                    a01 = add_conj(a01, u1, u0);
                    b0 = add_conj(b0, scaled(u2, -1.0), u0);
                    b1 = add_conj(b1, scaled(u2, -1.0), u1);
                }
            }
            double det = a00 * a11 - norm(a01);
            if (det <= 1e-12 * a00 * a11) return false;
            c0 = scaled(minus(scaled(b0, a11), times(a01, b1)), 1.0 / det);
            c1 = scaled(minus(scaled(b1, a00), times(conj(a01), b0)), 1.0 / det);
        }
        Z half = scaled(c1, -0.5);
        Z r = square_root(minus(times(half, half), c0));
        t[0] = turns(plus(half, r));
        t[1] = turns(minus(half, r));
        for (u32 j = 1; j < l.lines; j++) {
            double d = (double)l.offsets[j];
            Z v0[2], vj[2];
            if (!pair(l, 0, t, v0) || !pair(l, j, t, vj)) return false;
            for (u32 i = 0; i < 2; i++) {
                double back = -t[i] * d;
                Z here = times(vj[i], cis(back - rint(back)));
                t[i] += turns(times(here, conj(v0[i]))) / d;
            }
        }
        return true;
    }

    // estimate: one value and what it leaves.
    __device__ double fit_one(const Lanes& l, u64 f, Z& value) {
        Z z = root(f);
        Z sum = z_of(0.0, 0.0);
        for (u32 j = 0; j < l.lines; j++) {
            Z v = project(l, j, z);
            sum = l.offsets[j] ? add_conj(sum, v, phase(f, l.offsets[j])) : plus(sum, v);
        }
        value = scaled(sum, 1.0 / l.count());
        double left = 0.0;
        for (u32 j = 0; j < l.lines; j++) {
            Z p = l.offsets[j] ? times(value, phase(f, l.offsets[j])) : value;
            for (u32 tau = 0; tau < 4; tau++) {
                left += norm(minus(l.at(j, tau), p));
                p = times(p, z);
            }
        }
        return left;
    }

    // Least squares of `m` frequencies in one bin, with two steps of refinement; false where
    // their phasors are dependent.
    FAR_MEMBER bool fit(const Lanes& l, const u64* f, u32 m, Z* values, double& left) {
        u32 lanes = l.count();
        if (m > MOST || m >= lanes) return false;
        Z rows[MOST][4 * LINES];
        for (u32 i = 0; i < m; i++) {
            Z z = root(f[i]);
            for (u32 j = 0; j < l.lines; j++) {
                Z p = l.offsets[j] ? phase(f[i], l.offsets[j]) : z_of(1.0, 0.0);
                for (u32 tau = 0; tau < 4; tau++) {
                    rows[i][4 * j + tau] = p;
                    p = times(p, z);
                }
            }
        }
        Z factor[MOST][MOST];
        for (u32 i = 0; i < m; i++) {
            for (u32 j = 0; j <= i; j++) {
                Z sum = z_of(0.0, 0.0);
                for (u32 lane = 0; lane < lanes; lane++)
                    sum = add_conj(sum, rows[j][lane], rows[i][lane]);
                for (u32 k = 0; k < j; k++)
                    sum = minus(sum, times(factor[i][k], conj(factor[j][k])));
                if (i == j) {
                    if (sum.x <= 1e-12 * lanes) return false;
                    factor[i][i] = z_of(sqrt(sum.x), 0.0);
                } else {
                    factor[i][j] = scaled(sum, 1.0 / factor[j][j].x);
                }
            }
            values[i] = z_of(0.0, 0.0);
        }
        for (u32 step = 0; step < 3; step++) {
            Z right[MOST];
            for (u32 i = 0; i < m; i++) right[i] = z_of(0.0, 0.0);
            left = 0.0;
            for (u32 lane = 0; lane < lanes; lane++) {
                Z rest = l.at(lane / 4, lane % 4);
                for (u32 i = 0; i < m; i++) rest = minus(rest, times(values[i], rows[i][lane]));
                left += norm(rest);
                for (u32 i = 0; i < m; i++) right[i] = add_conj(right[i], rest, rows[i][lane]);
            }
            for (u32 i = 0; i < m; i++) {
                for (u32 k = 0; k < i; k++) right[i] = minus(right[i], times(factor[i][k], right[k]));
                right[i] = scaled(right[i], 1.0 / factor[i][i].x);
            }
            for (u32 i = m; i-- > 0;) {
                for (u32 k = i + 1; k < m; k++)
                    right[i] = minus(right[i], times(conj(factor[k][i]), right[k]));
                right[i] = scaled(right[i], 1.0 / factor[i][i].x);
            }
            for (u32 i = 0; i < m; i++) values[i] = plus(values[i], right[i]);
        }
        return true;
    }

    __device__ void note(u64 f, Z v) {
        u32 i = g.add(&count().known, 1u);
        if (i >= a.capacity) {
            g.add(&count().full, 1u);
            return;
        }
        Entry e = {f, v.x, v.y};
        known[i] = e;
    }
    __device__ void change(u64 f, Z v) {
        u32 i = g.add(&count().changes, 1u);
        if (i >= a.changes) {
            g.add(&count().full, 1u);
            return;
        }
        Entry e = {f, v.x, v.y};
        changes()[i] = e;
    }

    // Distance of two phases on the circle.
    __device__ static double apart(double s, double t) {
        double d = s - t;
        return fabs(d - rint(d));
    }

    // Decodes one active bin of the comb: one frequency, or two, or a slot for later.
    __device__ void decode_bin(u32 b, double energy, u32& weak) {
        const Hash& c = a.comb;
        Lanes l = comb_lanes(b);
        u32 lanes = l.count();
        double floor = floor_of(c), own = OWN_ROUNDING * energy, away;
        u64 f = snap(single(l), c.buckets, b, away);
        Z v;
        double left = fit_one(l, f, v);
        if (left <= floor * a.threshold[lanes - 1] + own) {
            weak += norm(v) < least;
            note(f, v);
            slot_of()[b] = 0;
            return;
        }
        double t[2];
        if (twin(l, t) && !(noisy && apart(t[0], t[1]) < 0.08)) {
            u64 two[2] = {snap(t[0], c.buckets, b, away), snap(t[1], c.buckets, b, away)};
            Z values[2];
            if (two[0] != two[1] && fit_two(l, two, values, left) &&
                left <= floor * a.threshold[lanes - 2] + own) {
                weak += norm(values[0]) < least || norm(values[1]) < least;
                note(two[0], values[0]);
                note(two[1], values[1]);
                slot_of()[b] = 0;
                return;
            }
        }
        u32 s = g.add(&count().slots, 1u);
        g.add(&count().open, 1u);
        if (s >= a.slots) {
            g.add(&count().full, 1u);
            slot_of()[b] = 0;
            return;
        }
        Slot& slot = slots()[s];
        slot.bin = b;
        slot.closed = slot.count = slot.fresh = 0;
        slot_of()[b] = s + 1;
    }

    // Least-squares values of two frequencies over all lanes.
    __device__ bool fit_two(const Lanes& l, const u64* f, Z* v, double& left) {
        Z z0 = root(f[0]), z1 = root(f[1]);
        Z w = times(conj(z0), z1);
        Z s = z_of(w.x + 1.0, w.y);
        s = times(w, s);
        s = times(w, z_of(s.x + 1.0, s.y));
        Z line_gram = z_of(s.x + 1.0, s.y);
        Z gram = z_of(0.0, 0.0), r0 = gram, r1 = gram;
        for (u32 j = 0; j < l.lines; j++) {
            Z p0 = project(l, j, z0), p1 = project(l, j, z1);
            if (l.offsets[j]) {
                Z b0 = phase(f[0], l.offsets[j]), b1 = phase(f[1], l.offsets[j]);
                gram = plus(gram, times(times(conj(b0), b1), line_gram));
                r0 = add_conj(r0, p0, b0);
                r1 = add_conj(r1, p1, b1);
            } else {
                gram = plus(gram, line_gram);
                r0 = plus(r0, p0);
                r1 = plus(r1, p1);
            }
        }
        double m = l.count(), det = m * m - norm(gram);
        if (det < 1e-12 * m * m) return false;
        v[0] = scaled(minus(scaled(r0, m), times(gram, r1)), 1.0 / det);
        v[1] = scaled(minus(scaled(r1, m), times(conj(gram), r0)), 1.0 / det);
        left = 0.0;
        for (u32 j = 0; j < l.lines; j++) {
            Z p0 = v[0], p1 = v[1];
            if (l.offsets[j]) {
                p0 = times(p0, phase(f[0], l.offsets[j]));
                p1 = times(p1, phase(f[1], l.offsets[j]));
            }
            for (u32 tau = 0; tau < 4; tau++) {
                left += norm(minus(minus(l.at(j, tau), p0), p1));
                p0 = times(p0, z0);
                p1 = times(p1, z1);
            }
        }
        return true;
    }

    // Decodes the comb. Returns how many bins are active.
    FAR_MEMBER void decode_comb() {
        const Hash& c = a.comb;
        double limit = this->limit(c, 4 * comb_lines);
        double active = 0.0, quiet = 0.0, quiet_energy = 0.0;
        u32 weak = 0;
        for (u32 i = g.rank; i < c.buckets; i += g.size) {
            double e = comb_lanes(i).energy();
            if (e > limit) {
                active += 1.0;
                decode_bin(i, e, weak);
            } else {
                quiet += 1.0;
                quiet_energy += e;
                slot_of()[i] = 0;
            }
        }
        if (weak) g.add(&count().weak, weak);
        next_parts();
        leave(0, active);
        leave(1, quiet);
        leave(2, quiet_energy);
    }

    // The noise power from the quiet bins of the comb, as in peeling.rs: the 0.3-quantile of a
    // sample of energies, corrected for the share that is occupied. Every block works alone.
    FAR_MEMBER void measure_noise() {
        const Hash& c = a.comb;
        u32 lanes = 4 * comb_lines;
        const double p = 0.3;
        u32 step = (c.buckets + SAMPLE - 1) / SAMPLE, m = (c.buckets + step - 1) / step;
        u32 rank = (u32)(m * p);
        u32* sample = g.sample();
        // Energies are positive, so their bits are ordered like them.
        for (u32 i = g.thread; i < m; i += g.threads)
            sample[i] = (u32)(g.bits(energies()[(u64)i * step]) >> 32);
        g.block_sync();
        u32 value = 0;
        for (int bit = 30; bit >= 0; bit--) {
            u32 trial = value | 1u << bit;
            double below = 0.0;
            for (u32 i = g.thread; i < m; i += g.threads) below += sample[i] < trial;
            if (g.block_sum(below) <= rank) value = trial;
        }
        double quantile = g.value((u64)value << 32 | 0x80000000u);
        noise = quantile / threshold(lanes, a.normal[0]) * c.buckets;
        double limit = this->limit(c, lanes);
        u32 bound = (u32)(g.bits(limit) >> 32);
        double above = 0.0;
        for (u32 i = g.thread; i < m; i += g.threads) above += sample[i] > bound;
        double occupied = g.block_sum(above) / m;
        double quiet = fmin(p / (1.0 - fmin(occupied, 0.6)), 0.75);
        double at = (quiet - p) / 0.45 * 32.0;
        u32 i = at < 31.0 ? (u32)at : 31;
        double z = a.normal[i] + (at - i) * (a.normal[i + 1] - a.normal[i]);
        noise *= threshold(lanes, a.normal[0]) / threshold(lanes, z);
        noisy = true;
        g.block_sync();
    }

    // Energies of all comb bins, how many exceed the limit, and the least of those.
    FAR_MEMBER double count_active(bool fill, double& weakest) {
        const Hash& c = a.comb;
        double limit = this->limit(c, 4 * comb_lines);
        double active = 0.0, least = 1e300;
        for (u32 b = g.rank; b < c.buckets; b += g.size) {
            double e = fill ? comb_lanes(b).energy() : energies()[b];
            if (fill) energies()[b] = e;
            if (e > limit) {
                active += 1.0;
                least = fmin(least, e);
            }
        }
        next_parts();
        leave(0, active);
        leave_least(1, least);
        sync();
        weakest = minimum(1);
        return sum(0);
    }

    // Standard deviations that a ladder leaves at this signal-to-noise ratio per lane.
    __device__ double margin(const u64* offsets, u32 lines, double gamma, double unit) {
        const double tau = 6.283185307179586476925;
        double error = 1.0 / (tau * 3.0 * sqrt(gamma)), c = 1e300;
        for (u32 j = 1; j < lines; j++) {
            double phase = sqrt((1.0 + 1.0 / j) / (8.0 * gamma)) / tau;
            c = fmin(c, 0.5 / (offsets[j] * error + phase));
            error = phase / offsets[j];
        }
        return fmin(c, unit / (2.0 * a.n) / error);
    }

    // Adds the lines that this signal-to-noise ratio asks for. False if no ladder can climb.
    FAR_MEMBER bool climb(const Hash& h, u64* offsets, u32& lines, double gamma, double unit,
                          u64 table, u32& added) {
        added = 0;
        double c = margin(offsets, lines, gamma, unit);
        if (c < 12.0 && (c < 6.0 || lines == 1)) {
            int i = (int)floor(log2(gamma / 16.0));
            if (i < 0) return false;
            if (i >= (int)GAMMAS) i = GAMMAS - 1;
            const Ladder& ladder = ((const Ladder*)(tables + table))[i];
            if (ladder.count == 0) return false;
            u32 from = lines, want = 0;
            u64 fresh[LINES];
            for (u32 j = 0; j < ladder.count; j++) {
                bool have = false;
                for (u32 i = 0; i < from; i++) have |= offsets[i] == ladder.offsets[j];
                if (!have) fresh[want++] = ladder.offsets[j];
            }
            if (from + want > h.lines) return false;
            for (u32 j = 0; j < want; j++) offsets[lines++] = fresh[j];
            if (lines > from) {
                measure(h, offsets, from, lines);
                added = lines - from;
                climbs++;
            }
            c = margin(ladder.offsets, ladder.count, gamma, unit);
        }
        least = noisy || lines > 1 ? gamma * floor_of(h) * (25.0 / (c * c)) : 0.0;
        return true;
    }

    // Where f lies among the buckets of a window hash.
    __device__ double position(const Hash& h, u64 f) {
        return (double)reduced(h.step * f) * h.buckets * a.inverse;
    }
    __device__ double response(const Hash& h, double away) {
        if (fabs(away) >= 2.0) return 0.0;
        return horner((const double*)(tables + h.series), h.terms,
                      fma(away * away, -h.slope, h.beta2));
    }

    // peel: one coefficient from one of the four buckets it reaches, lines from..to.
    FAR_MEMBER void peel(const Hash& h, const u64* offsets, u32 from, u32 to, const Entry& e,
                         u32 i) {
        double p = position(h, e.f), first = floor(p) - 1.0;
        double gain = response(h, first + i - p);
        if (gain == 0.0) return;
        i64 b = (i64)first + i;
        b = b < 0 ? b + h.buckets : b >= h.buckets ? b - h.buckets : b;
        Z z = root(e.f);
        for (u32 j = from; j < to; j++) {
            Z v = z_of(-gain * e.re, -gain * e.im);
            if (offsets[j]) v = times(v, phase(e.f, offsets[j]));
            Z* at = bins(h, j) + 4 * b;
#pragma unroll
            for (u32 tau = 0; tau < 4; tau++) {
                g.add(&at[tau].x, v.x);
                g.add(&at[tau].y, v.y);
                v = times(v, z);
            }
        }
    }
    // The same for a number: first what the comb gave, then the changes since.
    __device__ void peel_item(const Hash& h, const u64* offsets, u32 from, u32 to, u32 item) {
        u32 c = item >> 2;
        const Entry& e = c < first_known ? known[c] : changes()[c - first_known];
        peel(h, offsets, from, to, e, item & 3);
    }

    __device__ bool is_peak(u32 r, u32 b, double e) {
        u32 size = a.window[r].buckets;
        u32 up = b + 1 == size ? 0 : b + 1, down = b == 0 ? size - 1 : b - 1;
        return e >= window_lanes(r, up).energy() && e >= window_lanes(r, down).energy();
    }

    // Whether some window denies v at f.
    __device__ bool contradicted(u64 f, Z v, u32 last) {
        for (u32 r = 0; r <= last; r++) {
            const Hash& h = a.window[r];
            double p = position(h, f), at = rint(p), gain = response(h, at - p);
            u32 b = (u32)at == h.buckets ? 0 : (u32)at;
            double limit = this->limit(h, 4 * window_lines[r]);
            if (window_lanes(r, b).energy() <= limit &&
                4 * window_lines[r] * gain * gain * norm(v) > 4.0 * limit)
                return true;
        }
        return false;
    }

    // The frequency nearest to t turns that an open comb bin allows; its slot, or none.
    __device__ u32 snap_open(double t, u64& f) {
        double away, best = 1e300;
        if (!noisy) {
            f = snap(t, 1, 0, away);
            return slot_of()[f % a.comb.buckets];
        }
        u32 found = 0, slots = count().slots;
        for (u32 s = 0; s < slots; s++) {
            const Slot& slot = this->slots()[s];
            if (slot.closed) continue;
            u64 g = snap(t, a.comb.buckets, slot.bin, away);
            if (away < best) {
                best = away;
                f = g;
                found = s + 1;
            }
        }
        return found;
    }

    __device__ void propose(u32 s, u64 f, Z v) {
        Slot& slot = slots()[s - 1];
        u32 i = g.add(&slot.fresh, 1u);
        if (i < MOST) {
            slot.new_f[i] = f;
            slot.new_a[i] = v;
        }
    }

    // One or two frequencies of a window bucket.
    FAR_MEMBER void decode_bucket(u32 r, u32 b, double energy) {
        const Hash& h = a.window[r];
        Lanes l = window_lanes(r, b);
        double floor = floor_of(h), own = 1e-24 * energy, left;
        auto gain_at = [&](u64 f) {
            double away = position(h, f) - b;
            away -= h.buckets * rint(away / h.buckets);
            return fabs(away) < 0.8 ? response(h, away) : 0.0;
        };
        u64 f[2] = {0, 0};
        u32 s[2];
        Z v[2];
        s[0] = snap_open(single(l), f[0]);
        if (s[0]) {
            double gain = gain_at(f[0]);
            if (gain > 0.0 && fit_one(l, f[0], v[0]) <= floor * a.threshold[l.count() - 1] + own) {
                v[0] = scaled(v[0], 1.0 / gain);
                if (!contradicted(f[0], v[0], r)) propose(s[0], f[0], v[0]);
                return;
            }
        }
        double t[2];
        if (!twin(l, t) || apart(t[0], t[1]) < 0.115) return;
        for (u32 i = 0; i < 2; i++) {
            s[i] = snap_open(t[i], f[i]);
            if (!s[i]) return;
        }
        double gain[2] = {gain_at(f[0]), gain_at(f[1])};
        if (f[0] == f[1] || gain[0] == 0.0 || gain[1] == 0.0 || !fit_two(l, f, v, left)) return;
        if (left > floor * a.threshold[l.count() - 2] + own) return;
        for (u32 i = 0; i < 2; i++) {
            Z value = scaled(v[i], 1.0 / gain[i]);
            if (!contradicted(f[i], value, r)) propose(s[i], f[i], value);
        }
    }

    __device__ void close(Slot& slot, u32 had, u32 m, const u64* f, const Z* values) {
        for (u32 i = 0; i < m; i++) {
            change(f[i], i < had ? minus(values[i], slot.a[i]) : values[i]);
            note(f[i], values[i]);
        }
        slot.closed = 1;
        slot_of()[slot.bin] = 0;
        g.add(&count().open, ~0u);
    }

    // Takes the proposals for one open comb bin, and what is left of the bin with them; closes it
    // where a joint fit explains it. `again`: the comb has more lines than before.
    FAR_MEMBER void settle(u32 s, bool again, u32 last) {
        Slot& slot = slots()[s];
        if (slot.closed) return;
        u32 had = slot.count, fresh = slot.fresh < MOST ? slot.fresh : MOST, m = had;
        u64 f[MOST];
        Z values[MOST];
        for (u32 i = 0; i < had; i++) f[i] = slot.f[i];
        for (u32 i = 0; i < fresh; i++) {
            bool new_one = true;
            for (u32 j = 0; j < m; j++) new_one &= f[j] != slot.new_f[i];
            if (new_one && m < MOST) {
                f[m] = slot.new_f[i];
                slot.a[m] = slot.new_a[i];
                m++;
            }
        }
        slot.fresh = 0;
        if (m == had && !(again && m > 0)) return;
        const Hash& c = a.comb;
        Lanes l = comb_lanes(slot.bin);
        u32 lanes = l.count();
        double energy = l.energy(), floor = floor_of(c), own = OWN_ROUNDING * energy, left, away;
        if (fit(l, f, m, values, left) && left <= floor * a.threshold[lanes - m] + own) {
            close(slot, had, m, f, values);
            g.add(&count().progress, 1u);
            return;
        }
        // Decode what the windows' values leave, and judge by a joint fit of the measured bin.
        Z rest[4 * LINES];
        for (u32 j = 0; j < l.lines; j++)
            for (u32 tau = 0; tau < 4; tau++) rest[4 * j + tau] = l.at(j, tau);
        for (u32 i = 0; i < m; i++) {
            Z z = root(f[i]);
            for (u32 j = 0; j < l.lines; j++) {
                Z p = slot.a[i];
                if (l.offsets[j]) p = times(p, phase(f[i], l.offsets[j]));
                for (u32 tau = 0; tau < 4; tau++) {
                    rest[4 * j + tau] = minus(rest[4 * j + tau], p);
                    p = times(p, z);
                }
            }
        }
        Lanes r = {rest, 4, l.lines, l.offsets};
        for (u32 more = 1; more <= 2 && m + more <= MOST; more++) {
            double t[2];
            if (more == 1) {
                t[0] = single(r);
            } else if (!twin(r, t)) {
                break;
            }
            bool distinct = true;
            for (u32 i = 0; i < more; i++) {
                f[m + i] = snap(t[i], c.buckets, slot.bin, away);
                for (u32 j = 0; j < m + i; j++) distinct &= f[j] != f[m + i];
            }
            if (!distinct || !fit(l, f, m + more, values, left)) continue;
            if (left > floor * a.threshold[lanes - m - more] + own) continue;
            bool denied = false;
            for (u32 i = 0; i < more; i++) denied |= contradicted(f[m + i], values[m + i], last);
            if (denied) continue;
            close(slot, had, m + more, f, values);
            g.add(&count().progress, 1u);
            return;
        }
        if (m > had) {
            for (u32 i = had; i < m; i++) {
                slot.f[i] = f[i];
                change(f[i], slot.a[i]);
            }
            slot.count = m;
            g.add(&count().progress, 1u);
        }
    }

    // Decodes window r and the open bins against each other until nothing more is found.
    // `peeled` changes have left the window already.
    FAR_MEMBER void exchange(u32 r, u32& peeled) {
        const Hash& h = a.window[r];
        bool again = false;
        for (u32 turn = 0; turn < 24; turn++) {
            double limit = this->limit(h, 4 * window_lines[r]), weakest = 1e300;
            u32 before = count().progress;
            for (u32 b = g.rank; b < h.buckets; b += g.size) {
                double e = window_lanes(r, b).energy();
                if (e > limit && is_peak(r, b, e)) {
                    weakest = fmin(weakest, e);
                    if (!noisy || turn > 0) decode_bucket(r, b, e);
                }
            }
            next_parts();
            leave_least(0, weakest);
            sync();
            if (turn == 0) {
                // The ladder of this window, for its weakest peak.
                weakest = minimum(0);
                u32 had = window_lines[r], added;
                if (weakest < 1e300) {
                    double per_lane = weakest / (4 * had) / floor_of(h);
                    double gamma = fmax(per_lane - 1.0, LEAST_GAMMA), kept = least;
                    climb(h, window_offsets[r], window_lines[r], gamma, 1.0, a.window_ladders,
                          added);
                    least = fmin(kept, least);
                    if (added) {
                        for (u32 i = g.rank; i < 4 * (first_known + peeled); i += g.size)
                            peel_item(h, window_offsets[r], had, window_lines[r], i);
                        sync();
                        for (u32 s = g.rank; s < count().slots; s += g.size) slots()[s].fresh = 0;
                        sync();
                        continue;
                    }
                }
                if (noisy) continue;
            }
            for (u32 s = g.rank; s < count().slots; s += g.size) settle(s, again, r);
            sync();
            again = false;
            u32 end = count().changes, progress = count().progress, open = count().open;
            if (count().full || open == 0) return;
            if (progress == before) {
                // Bins with as many frequencies as lanes need more lanes.
                if (!noisy && comb_lines == 1 && a.comb.lines > 1) {
                    comb_offsets[1] = 4;
                    measure(a.comb, comb_offsets, 1, 2);
                    comb_lines = 2;
                    again = true;
                    continue;
                }
                return;
            }
            for (u32 i = g.rank; i < 4 * (end - peeled); i += g.size)
                peel(h, window_offsets[r], 0, window_lines[r], changes()[peeled + i / 4], i & 3);
            peeled = end;
            sync();
        }
    }

    __device__ static u32 min_u32(u32 a, u32 b) { return a < b ? a : b; }

    // The whole transform; returns the status.
    __device__ u32 run() {
        const Hash& c = a.comb;
        Job jobs[3];
        first_jobs(jobs);
        double energy[2] = {0.0, 0.0};
        u32 k = 0;
        for (; k < c.passes; k++) {
            advance(jobs, 3, k, energy);
            if (k == 0) {
                leave(0, energy[0]);
                leave(1, energy[1]);
                if (g.rank == 0) {
                    Counters zero = {};
                    count() = zero;
                }
            }
            sync();
        }
        power = sum(0) / (4.0 * a.planned * c.buckets);
        // Parseval: Σ|V|² = buckets·Σ|folded|², and the window weights a sample's power by ΣG².
        double wide = sum(1) / (4.0 * a.window[0].energy);
        if (!(power < 1e300) || !(wide < 1e300) || (power > 0.0 && power < TINY_POWER))
            return STRANGE;
        // The windows are finished beside the decoding of the comb.
        u32 most = steps_of(a.window[0]);
        if (steps_of(a.verify) > most) most = steps_of(a.verify);
        bool decoded = a.exact || a.speculate;
        if (k < most) advance(jobs, 3, k++, energy);
        if (decoded) decode_comb();
        sync();
        for (; k < most; k++) {
            advance(jobs, 3, k, energy);
            sync();
        }
        double weakest;
        double active = decoded ? sum(0) : count_active(true, weakest);
        if (active > CROWDED * c.buckets) {
            if (a.exact) return TOO_CROWDED;
            if (decoded) {
                // There is noise after all: decode again with its floor.
                if (g.rank == 0) {
                    Counters zero = {};
                    count() = zero;
                }
                active = count_active(true, weakest);
                decoded = false;
            }
            measure_noise();
            active = count_active(false, weakest);
            if (active > CROWDED * c.buckets) return TOO_CROWDED;
            if (active > 0.0) {
                double gamma =
                    fmax(weakest / (4 * comb_lines) / floor_of(c) - 1.0, LEAST_GAMMA);
                u32 added;
                if (!climb(c, comb_offsets, comb_lines, gamma, c.buckets, a.comb_ladders, added))
                    return WEAK;
                if (added) {
                    active = count_active(true, weakest);
                    measure_noise();
                    active = count_active(false, weakest);
                    if (active > CROWDED * c.buckets) return TOO_CROWDED;
                }
            }
        }
        if (!decoded) {
            decode_comb();
            sync();
            active = sum(0);
        }
        u32 first = first_known = min_u32(count().known, a.capacity);
        head_active = active;
        if (count().full) return FULL;
        if (count().weak) return WEAK;
        if (noisy) {
            double quiet = sum(1), energy = sum(2);
            if (quiet > 16.0) noise = energy / (quiet * 4 * comb_lines) * c.buckets;
        }
        if (wide > 100.0 * power) return BLIND;
        // What is known leaves the windows.
        bool open = count().open > 0;
        u32 nw = open ? 4 * first : 0;
        u64 zero_offset[1] = {0};
        for (u32 i = g.rank; i < nw + 4 * first; i += g.size) {
            if (i < nw) {
                peel(a.window[0], zero_offset, 0, 1, known[i >> 2], i & 3);
            } else {
                peel(a.verify, zero_offset, 0, 1, known[(i - nw) >> 2], i & 3);
            }
        }
        sync();
        if (open) {
            u32 peeled = 0;
            rounds = 1;
            exchange(0, peeled);
            while (count().open > 0 && !count().full && rounds < a.rounds) {
                u32 r = rounds++;
                const Hash& h = a.window[r];
                window_offsets[r][0] = 0;
                window_lines[r] = 1;
                measure(h, window_offsets[r], 0, 1);
                peeled = count().changes;
                for (u32 i = g.rank; i < 4 * (first + peeled); i += g.size)
                    peel_item(h, window_offsets[r], 0, 1, i);
                sync();
                exchange(r, peeled);
            }
            if (count().full) return FULL;
            if (count().open) return OPEN;
            u32 end = count().changes;
            for (u32 i = g.rank; i < 4 * end; i += g.size)
                peel(a.verify, zero_offset, 0, 1, changes()[i >> 2], i & 3);
            sync();
        }
        // certify: the independent hash must be explained.
        const Hash& v = a.verify;
        double limit = this->limit(v, 4);
        if (noisy) {
            double read = 4.0 * comb_lines * c.buckets;
            double shared = 1.0 + (double)count().known / v.buckets;
            limit += 4.0 * 20.0 * shared * noise / read;
        }
        double left = 0.0;
        for (u32 b = g.rank; b < v.buckets; b += g.size) {
            const Z* p = bins(v, 0) + 4 * b;
            left += (norm(p[0]) + norm(p[1])) + (norm(p[2]) + norm(p[3])) > limit;
        }
        next_parts();
        leave(0, left);
        sync();
        head_left = sum(0);
        head_verified = (sqrt(limit) + a.sigmas * sqrt(floor_of(v))) / (2.0 * 0.4);
        return head_left > 0.0 ? BLIND : EXPLAINED;
    }

    double head_active = 0.0, head_left = 0.0, head_verified = 0.0;

    __device__ void transform() {
        u32 status = run();
        if (g.rank == 0) {
            const Counters& n = count();
            Header h = {};
            h.status = status;
            h.known = min_u32(n.known, a.capacity);
            h.open = n.open;
            h.weak = n.weak;
            h.active = (u32)head_active;
            h.lines = comb_lines;
            h.left = (u32)head_left;
            h.noisy = noisy;
            h.rounds = rounds;
            for (u32 r = 0; r < rounds; r++) h.buckets += a.window[r].buckets;
            h.climbs = climbs;
            h.steps = steps;
            h.lines_read = lines_read;
            h.power = power;
            h.noise = noise;
            h.least = least;
            h.verified = head_verified;
            *head = h;
        }
        // The next transform of this group reuses the workspace.
        g.sync();
    }
};
