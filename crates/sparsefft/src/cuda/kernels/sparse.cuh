// exact and robust, end to end, by one group of blocks: gather, fold, bucket FFT, locate, peel,
// estimate, certify. Every stage is a loop over its items by all threads of the group, with a
// barrier of the group between stages; whatever one stage hands to the next lies in global memory,
// which at these sizes is the L2 cache. Decisions (more lines? another window? enough?) are taken
// from reduced numbers that every thread sees, so no host is needed in between.
//
// The mathematics and the thresholds are those of algorithms/peeling.rs; names are the same.
// Not done here: retries with more bins, joint refinement of all values; hashes without a comb are in windows.cuh.
// The status tells the host, which then goes on.
//
// Items are shared out by thread number and nothing depends on how many threads there are, so the
// same code runs on a CPU with any number of threads (emulate.cpp), where it is tested.
#pragma once
#include "locate.cuh"

// Most lines of four shifts per bin, most frequencies of one bin, most window hashes.
const u32 LINES = 12, MOST = 6, ROUNDS = 4;
// Rungs are tabulated for signal-to-noise ratios 16·2^i.
const u32 GAMMAS = 80;
// Transforms of 64 points that a block makes at a time.
const u32 TILES = 24;
// Coefficients that a block peels at a time.
const u32 HITS = 112;
// Energies that a quantile is taken of.
const u32 SAMPLE = 4096;

const double ROUNDING = 1e-13, OWN_ROUNDING = 1e-26, CROWDED = 0.35, TINY_POWER = 1e-250;
const double LEAST_GAMMA = 16.0;

// One way to spread the frequencies over bins. Offsets are in bytes: taps, roots, series in the
// tables; bins and spare in the workspace, [line][bin][shift].
struct Hash {
    u32 buckets, reads, passes, lines;
    // Of each pass: its radix, the product of the radices before, the number of butterflies.
    u32 radix[8], stride[8], items[8];
    u64 step, back;
    u64 taps, roots, series, bins, spare;
    u32 terms, window;
    // buckets - 1 for powers of two, else 0; where its samples lie if the host gathered them.
    u64 mask, staged;
    double inverse, energy, leak, beta2, slope;

    // i mod buckets.
    __device__ u32 first(u32 i) const { return mask ? i & (u32)mask : i % buckets; }
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
    FULL = 7,    // a list has no room
    DENIED = 9   // the independent hash is not explained (windows.cuh)
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

// A coefficient that reaches the buckets of a block: its gain in four of them, from `low` on, and
// its value at the four shifts.
struct Tone {
    double gain[4];
    Z v[4];
    u32 low, pad[3];
};

struct Counters {
    u32 known, slots, active, changes, shut, weak, progress, full;
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
    // windows.cuh, if there are any: tables of windows and of their shapes by size; in the workspace
    // roots of coefficients, and vectors of the joint fit; coefficients that were asked for, if known.
    u64 spreads, shapes, spread_roots, spread_fit;
    // With noise, the least signal-to-noise ratio that the lines of the first window place.
    double spread_k, spread_gamma;
    u32 spread_windows;
    // Lines of the first of them.
    u32 spread_lines;
};

// One transform under way: its arguments, its group, and what all threads know.
template <class Group> struct Engine {
    Group& g;
    u32 signal;

    double power, noise, least;
    bool noisy;
    u32 comb_lines, window_lines[ROUNDS];
    u64 comb_offsets[LINES], window_offsets[ROUNDS][LINES];
    u32 rounds, climbs, steps;
    u64 lines_read;
    u32 slot_turn, first_known;

    // Read from shared memory by every stage.
    __device__ static const Args& args() { return Group::args(); }

    __device__ Engine(Group& g, u32 signal)
        : g(g), signal(signal) {
        power = noise = least = 0.0;
        noisy = false;
        comb_lines = 0;
        rounds = climbs = steps = 0;
        lines_read = 0;
        slot_turn = first_known = 0;
        for (u32 r = 0; r < ROUNDS; r++) window_lines[r] = 0;
    }

    // Addresses that the compiler knows to be global.
    template <class T> __device__ T* work(u64 at) {
        return Group::template global<T>(args().work + g.id * args().work_stride + at);
    }
    template <class T> __device__ const T* table(u64 at) {
        return Group::template global<T>(args().tables + at);
    }
    template <class T> __device__ const T* samples() {
        return Group::template global<T>(args().x + signal * args().stride);
    }
    __device__ Header* head() {
        return Group::template global<Header>(args().out + signal * args().out_stride);
    }
    __device__ Entry* known() { return (Entry*)(head() + 1); }

    __device__ Counters& count() { return *work<Counters>(args().counters); }
    __device__ u32 still_open() { return count().slots - count().shut; }
    __device__ Z* bins(const Hash& h, u32 line) {
        return work<Z>(h.bins) + (u64)line * h.buckets * 4;
    }
    __device__ Slot* slots() { return work<Slot>(args().slot); }
    __device__ u32* slot_of() { return work<u32>(args().slot_of); }
    __device__ double* energies() { return work<double>(args().energies); }
    __device__ Entry* changes() { return work<Entry>(args().change); }

    // Reductions over the group: every block leaves its part, and after the barrier all add up.
    __device__ double* part(u32 kind) {
        return work<double>(args().partials) + ((slot_turn & 7) * 4 + kind) * Group::MOST_BLOCKS;
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
        u64* stamps = (u64*)((char*)head() + args().out_stride - 512);
        if (g.rank == 0 && steps < 31) stamps[2 * steps] = clock64();
#endif
        g.sync();
#ifdef PROFILE
        if (g.rank == 0 && steps < 31) stamps[2 * steps + 1] = clock64();
#endif
        steps++;
    }
    __device__ void next_parts() { slot_turn++; }

    __device__ static Ring ring() {
        Ring r = {args().n, args().mask, args().inverse};
        return r;
    }
    __device__ u64 reduced(u64 v) { return ring().reduced(v); }
    __device__ Z root(u64 r) { return ring().root(r); }
    __device__ Z phase(u64 f, u64 t) { return ring().phase(f, t); }

    // One sample, in the format that the arguments name.
    template <int FORMAT> __device__ Z load(u64 i) {
        if (FORMAT == 0) return samples<Z>()[i];
        if (FORMAT == 1) {
            float2 v = samples<float2>()[i];
            return z_of(v.x, v.y);
        }
        if (FORMAT == 2) return z_of(samples<double>()[i], 0.0);
        return z_of(samples<float>()[i], 0.0);
    }

    // permute: teeth of a comb, from number j on at distances `by`.
    template <int FORMAT, u32 COUNT>
    __device__ void walk(const Hash& h, u64 j, u64 by, u32 line, u64 d, u32 tau, Z* v) {
        if (FORMAT == 4) {
            // Gathered by the host: [line][j][shift].
            const Z* from = samples<Z>() + h.staged + 4 * (line * (u64)h.reads + j) + tau;
#pragma unroll
            for (u32 i = 0; i < COUNT; i++) v[i] = from[4 * i * by];
            return;
        }
        const u64 n = args().n, first = h.step * j + d + tau, step = h.step * by;
        // The teeth of a comb wrap once at most; division is slow.
#pragma unroll
        for (u32 i = 0; i < COUNT; i++) {
            u64 at = first + i * step;
            v[i] = load<FORMAT>(at < n ? at : at - n);
        }
    }
    template <u32 COUNT>
    __device__ void walk(const Hash& h, u64 j, u64 by, u32 line, u64 d, u32 tau, Z* v) {
        switch (args().format) {
        case 0: walk<0, COUNT>(h, j, by, line, d, tau, v); break;
        case 1: walk<1, COUNT>(h, j, by, line, d, tau, v); break;
        case 2: walk<2, COUNT>(h, j, by, line, d, tau, v); break;
        case 3: walk<3, COUNT>(h, j, by, line, d, tau, v); break;
        default: walk<4, COUNT>(h, j, by, line, d, tau, v); break;
        }
    }

    // Floor and limits, as in peeling.rs.
    __device__ double floor_of(const Hash& h) {
        double rounding = ROUNDING * ROUNDING * power;
        double v = (noise + rounding) * h.energy;
        return h.window ? fma(h.leak * h.leak, fmax(power - noise, 0.0), v) : v;
    }
    __device__ double limit(const Hash& h, u32 lanes) { return floor_of(h) * args().threshold[lanes]; }
    __device__ static double threshold(u32 lanes, double z) {
        double m = lanes;
        double root = fmax(1.0 - 1.0 / (9.0 * m) + z / (3.0 * sqrt(m)), 0.0);
        return m * root * root * root;
    }

    // bucket FFT: where pass p of a hash writes, and what it reads.
    __device__ Z* target(const Hash& h, u32 p, u32 line) {
        u64 at = (h.passes - 1 - p) & 1 ? h.spare : h.bins;
        return work<Z>(at) + (u64)line * h.buckets * 4;
    }
    __device__ Z* source(const Hash& h, u32 p, u32 line) {
        u64 at = (h.passes - 1 - p) & 1 ? h.bins : h.spare;
        return work<Z>(at) + (u64)line * h.buckets * 4;
    }

    // fold: one bucket and shift of a window hash. A bucket has five taps at most.
    // `peak`: the largest |x|².
    template <int FORMAT> __device__ Z folded(const Hash& h, u64 d, u32 item, double& peak) {
        const u32 tau = item & 3, reads = h.reads, reach = reads / 2;
        const double* taps = table<double>(h.taps);
        // Step i of the walk is t = i - reach, and falls into bucket t mod buckets.
        const u32 first = h.first((item >> 2) + reach);
        Z v[5], sum = z_of(0.0, 0.0);
        double w[5];
#pragma unroll
        for (u32 k = 0; k < 5; k++) {
            u32 i = first + k * h.buckets;
            if (i < reads) {
                v[k] = FORMAT == 4 ? samples<Z>()[h.staged + 4 * i + tau]
                                   : load<FORMAT>(reduced(h.back + h.step * i + d + tau));
                w[k] = taps[i > reach ? i - reach : reach - i];
            } else {
                v[k] = z_of(0.0, 0.0);
                w[k] = 0.0;
            }
        }
#pragma unroll
        for (u32 k = 0; k < 5; k++) {
            sum.x = fma(w[k], v[k].x, sum.x);
            sum.y = fma(w[k], v[k].y, sum.y);
            peak = fmax(peak, norm(v[k]));
        }
        return sum;
    }
    __device__ double fold(const Hash& h, u32 line, u64 d, u32 item, double& peak) {
        Z sum;
        switch (args().format) {
        case 0: sum = folded<0>(h, d, item, peak); break;
        case 1: sum = folded<1>(h, d, item, peak); break;
        case 2: sum = folded<2>(h, d, item, peak); break;
        case 3: sum = folded<3>(h, d, item, peak); break;
        default: sum = folded<4>(h, d, item, peak); break;
        }
        source(h, 0, line)[item] = sum;
        return norm(sum);
    }

    // One butterfly of pass p. The first pass of a comb reads the samples themselves; `energy`
    // then adds up |x|².
    // Factors of two come first, so S is a power of two here.
    template <int LOGR>
    __device__ void butterfly(const Hash& h, u32 p, u32 line, u64 d, u32 item, double& energy) {
        const u32 R = 1 << LOGR, S = h.stride[p];
        u32 tau = item & 3, c = item >> 2, length = h.buckets >> LOGR;
        Z v[R];
        if (p == 0 && !h.window) {
            walk<R>(h, c, length, line, d, tau, v);
#pragma unroll
            for (u32 i = 0; i < R; i++) energy += norm(v[i]);
        } else {
            const Z* from = source(h, p, line);
#pragma unroll
            for (u32 i = 0; i < R; i++) v[i] = from[(i * length + c) * 4 + tau];
        }
        u32 base = c & ~(S - 1);
        Z w[LOGR];
        if (p + 1 < h.passes) {
            const Z* roots = table<Z>(h.roots);
#pragma unroll
            for (int b = 0; b < LOGR; b++) w[b] = roots[base << b];
        }
        Radix<LOGR, 1, Z>::run(v);
        Z* to = target(h, p, line);
        u32 at = base * R + (c & (S - 1));
        if (p + 1 < h.passes) {
            Turn<LOGR, 1, Z>::powers(v, w);
#pragma unroll
            for (u32 k = 0; k < R; k++) to[(at + k * S) * 4 + tau] = v[k];
        } else {
            double s = h.window ? 1.0 : h.inverse;
#pragma unroll
            for (u32 k = 0; k < R; k++) to[(at + k * S) * 4 + tau] = scaled(v[k], s);
        }
    }

    // The same for radix 3 and 5, by the definition.
    template <int R>
    __device__ void odd(const Hash& h, u32 p, u32 line, u64 d, u32 item, double& energy) {
        u32 S = h.stride[p], tau = item & 3, c = item >> 2, length = h.buckets / R;
        const Z* roots = table<Z>(h.roots);
        const Z* from = source(h, p, line);
        bool first = p == 0 && !h.window, last = p + 1 == h.passes;
        Z v[R];
        if (first) walk<R>(h, c, length, line, d, tau, v);
#pragma unroll
        for (int i = 0; i < R; i++) {
            if (first) {
                energy += norm(v[i]);
            } else {
                v[i] = from[(i * length + c) * 4 + tau];
            }
        }
        u32 base = c / S * S, at = base * R + c % S;
        Z* to = target(h, p, line);
        double s = last && !h.window ? h.inverse : 1.0;
#pragma unroll
        for (int k = 0; k < R; k++) {
            Z sum = v[0];
#pragma unroll
            for (int i = 1; i < R; i++) sum = plus(sum, times(v[i], roots[i * k % R * length]));
            if (!last) sum = times(sum, roots[base * k]);
            to[(at + k * S) * 4 + tau] = scaled(sum, s);
        }
    }

    __device__ void pass(const Hash& h, u32 p, u32 line, u64 d, u32 item, double& energy) {
        switch (h.radix[p]) {
        case 16: butterfly<4>(h, p, line, d, item, energy); break;
        case 8: butterfly<3>(h, p, line, d, item, energy); break;
        case 4: butterfly<2>(h, p, line, d, item, energy); break;
        case 2: butterfly<1>(h, p, line, d, item, energy); break;
        case 3: odd<3>(h, p, line, d, item, energy); break;
        default: odd<5>(h, p, line, d, item, energy); break;
        }
    }

    // A hash that is being measured: lines from..to.
    struct Job {
        const Hash* h;
        const u64* offsets;
        u32 from, to;
    };

    // Radix 64 by eight threads of a block, eight points each, in two halves with the points in
    // shared memory between: thread y takes the points 8q + y, makes their transform over q, and
    // turns output k by w64^{yk}; then it takes output y of all eight and makes the other one.
    __device__ static u32 padded(u32 e) { return e + (e >> 3); }
    __device__ void half_first(const Hash& h, u32 p, u32 line, u64 d, u32 item, u32 y, Z* tile,
                               double& energy) {
        const u32 tau = item & 3, c = item >> 2, length = h.buckets >> 6;
        const Z* roots = table<Z>(h.roots);
        Z v[8], w[3];
        if (p == 0 && !h.window) {
            walk<8>(h, y * length + c, 8 * length, line, d, tau, v);
        } else {
            const Z* from = source(h, p, line);
#pragma unroll
            for (u32 q = 0; q < 8; q++) v[q] = from[((8 * q + y) * length + c) * 4 + tau];
        }
#pragma unroll
        for (u32 b = 0; b < 3; b++) w[b] = roots[(y << b) * length];
        if (p == 0 && !h.window) {
#pragma unroll
            for (u32 q = 0; q < 8; q++) energy += norm(v[q]);
        }
        Radix<3, 1, Z>::run(v);
        Turn<3, 1, Z>::powers(v, w);
#pragma unroll
        for (u32 k = 0; k < 8; k++) tile[padded(8 * k + y)] = v[k];
    }
    __device__ void half_second(const Hash& h, u32 p, u32 line, u32 item, u32 y, const Z* tile) {
        const u32 S = h.stride[p], tau = item & 3, c = item >> 2;
        const u32 base = c & ~(S - 1), at = base * 64 + (c & (S - 1));
        const bool last = p + 1 == h.passes;
        Z v[8], w[3], first;
        if (!last) {
            const Z* roots = table<Z>(h.roots);
            first = roots[base * y];
#pragma unroll
            for (u32 b = 0; b < 3; b++) w[b] = roots[(base * 8) << b];
        }
#pragma unroll
        for (u32 q = 0; q < 8; q++) v[q] = tile[padded(8 * y + q)];
        Radix<3, 1, Z>::run(v);
        if (!last) {
            Turn<3, 1, Z>::by(v, first, w);
        } else if (!h.window) {
#pragma unroll
            for (u32 k = 0; k < 8; k++) v[k] = scaled(v[k], h.inverse);
        }
        Z* to = target(h, p, line);
#pragma unroll
        for (u32 k = 0; k < 8; k++) to[(at + (y + 8 * k) * S) * 4 + tau] = v[k];
    }

    // Step k of up to three hashes at once: a comb makes pass k, a window folds and then makes
    // pass k - 1. Adds up the energy of a comb's samples and of the first window's folded ones, and keeps the
    // largest |x|² of those that a window reads.
    // Radix 64 is shared out by blocks; other items go to the last threads first, which have less
    // of that to do.
    FAR_MEMBER void advance(const Job* jobs, u32 count, u32 k, double* energy) {
        u32 items[3], end[3], tile_end[3], all = 0, tiles = 0;
        for (u32 i = 0; i < count; i++) {
            const Hash& h = *jobs[i].h;
            const u32 lines = jobs[i].to - jobs[i].from;
            const bool folds = h.window && k == 0;
            const u32 p = h.window ? k - 1 : k;
            items[i] = folds ? h.buckets * 4 : p < h.passes ? h.items[p] : 0;
            const bool tiled = !folds && p < h.passes && h.radix[p] == 64;
            all += tiled ? 0 : items[i] * lines;
            tiles += tiled ? items[i] * lines : 0;
            end[i] = all;
            tile_end[i] = tiles;
        }
        bool once = true;
        for (u32 first = g.block; once || first < tiles; first += g.blocks * TILES) {
            for (u32 half = 0; half < 2; half++) {
                for (u32 i = g.thread; i < 8 * TILES; i += g.threads) {
                    u32 at = first + i / 8 * g.blocks;
                    if (at >= tiles) continue;
                    u32 j = 0;
                    while (at >= tile_end[j]) j++;
                    const Hash& h = *jobs[j].h;
                    u32 item = j ? at - tile_end[j - 1] : at, line = jobs[j].from;
                    if (item >= items[j]) {
                        line += item / items[j];
                        item %= items[j];
                    }
                    const u32 p = h.window ? k - 1 : k;
                    Z* tile = g.pool() + i / 8 * 72;
                    if (half == 0) {
                        half_first(h, p, line, jobs[j].offsets[line], item, i & 7, tile, energy[0]);
                    } else {
                        half_second(h, p, line, item, i & 7, tile);
                    }
                }
                if (once) {
                    once = false;
                    for (u32 at = g.size - 1 - g.rank; at < all; at += g.size) {
                        u32 i = 0;
                        while (at >= end[i]) i++;
                        const Hash& h = *jobs[i].h;
                        u32 item = i ? at - end[i - 1] : at, line = jobs[i].from;
                        if (item >= items[i]) {
                            line += item / items[i];
                            item %= items[i];
                        }
                        u64 d = jobs[i].offsets[line];
                        if (h.window && k == 0) {
                            double e = fold(h, line, d, item, energy[2]);
                            if (i == 1) energy[1] += e;
                        } else {
                            pass(h, h.window ? k - 1 : k, line, d, item, energy[0]);
                        }
                    }
                }
                if (tiles == 0) return;
                g.block_sync();
            }
        }
    }
    __device__ u32 steps_of(const Hash& h) { return h.window ? h.passes + 1 : h.passes; }

    // Measures lines from..to of one hash.
    FAR_MEMBER void measure(const Hash& h, const u64* offsets, u32 from, u32 to) {
        double unused[3] = {0.0, 0.0, 0.0};
        Job job = {&h, offsets, from, to};
        for (u32 k = 0; k < steps_of(h); k++) {
            advance(&job, 1, k, unused);
            sync();
        }
        lines_read += (u64)(to - from) * h.reads;
    }

    // The comb, the first window and the verifying window.
    __device__ void first_jobs(Job* jobs) {
        comb_lines = args().planned;
        for (u32 j = 0; j < args().planned; j++) comb_offsets[j] = args().offsets[j];
        window_lines[0] = 1;
        window_offsets[0][0] = 0;
        Job comb = {&args().comb, comb_offsets, 0, args().planned};
        Job window = {&args().window[0], window_offsets[0], 0, 1};
        Job verify = {&args().verify, window_offsets[0], 0, 1};
        jobs[0] = comb;
        jobs[1] = window;
        jobs[2] = verify;
        lines_read += (u64)args().comb.reads * args().planned + args().window[0].reads + args().verify.reads;
    }

    // The lanes of one bin.
    struct Lanes {
        const Z* p;
        u64 stride;
        u32 lines;
        const u64* offsets;
        __device__ Z at(u32 j, u32 tau) const { return p[j * stride + tau]; }
        __device__ u64 offset(u32 j) const { return offsets[j]; }
        __device__ u32 count() const { return 4 * lines; }
        __device__ double energy() const {
            double e = 0.0;
            for (u32 j = 0; j < lines; j++)
                e += (norm(at(j, 0)) + norm(at(j, 1))) + (norm(at(j, 2)) + norm(at(j, 3)));
            return e;
        }
    };
    __device__ Lanes comb_lanes(u32 b) {
        Lanes l = {bins(args().comb, 0) + 4 * b, (u64)args().comb.buckets * 4, comb_lines, comb_offsets};
        return l;
    }
    __device__ Lanes window_lanes(u32 r, u32 b) {
        const Hash& h = args().window[r];
        Lanes l = {bins(h, 0) + 4 * b, (u64)h.buckets * 4, window_lines[r], window_offsets[r]};
        return l;
    }

    __device__ u64 snap_comb(double t, u32 b, double& away) {
        return ring().snap(t, args().comb.buckets, args().comb.inverse, b, away);
    }
    __device__ u32 comb_bin(u64 f) {
        const Hash& c = args().comb;
        return (u32)(c.mask ? f & c.mask : f % c.buckets);
    }
    __device__ u64 snap_all(double t) {
        double away;
        return ring().snap(t, 1.0, 1.0, 0.0, away);
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
        if (i >= args().capacity) {
            g.add(&count().full, 1u);
            return;
        }
        Entry e = {f, v.x, v.y};
        known()[i] = e;
    }
    __device__ void change(u64 f, Z v) {
        u32 i = g.add(&count().changes, 1u);
        if (i >= args().changes) {
            g.add(&count().full, 1u);
            return;
        }
        Entry e = {f, v.x, v.y};
        changes()[i] = e;
    }

    // Decodes one active bin of the comb: one frequency, or two, or a slot for later.
    __device__ void decode_bin(u32 b, double energy, u32& weak) {
        const Hash& c = args().comb;
        Lanes l = comb_lanes(b);
        u32 lanes = l.count();
        double floor = floor_of(c), own = OWN_ROUNDING * energy, away;
        u64 f = snap_comb(single(l), b, away);
        Z v;
        double left = fit_one(ring(), l, f, v);
        if (left <= floor * args().threshold[lanes - 1] + own) {
            weak += norm(v) < least;
            note(f, v);
            slot_of()[b] = 0;
            return;
        }
        double t[2];
        if (twin(l, t) && !(noisy && apart(t[0], t[1]) < 0.08)) {
            u64 two[2] = {snap_comb(t[0], b, away), snap_comb(t[1], b, away)};
            Z values[2];
            if (two[0] != two[1] && fit_two(ring(), l, two, values, left) &&
                left <= floor * args().threshold[lanes - 2] + own) {
                weak += norm(values[0]) < least || norm(values[1]) < least;
                note(two[0], values[0]);
                note(two[1], values[1]);
                slot_of()[b] = 0;
                return;
            }
        }
        u32 s = g.add(&count().slots, 1u);
        if (s >= args().slots) {
            g.add(&count().full, 1u);
            slot_of()[b] = 0;
            return;
        }
        Slot& slot = slots()[s];
        slot.bin = b;
        slot.closed = slot.count = slot.fresh = 0;
        slot_of()[b] = s + 1;
    }

    // Decodes the comb. Returns how many bins are active.
    FAR_MEMBER void decode_comb() {
        const Hash& c = args().comb;
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
        g.add(&count().active, (u32)active);
        if (noisy) {
            next_parts();
            leave(1, quiet);
            leave(2, quiet_energy);
        }
    }

    // The same for a comb of one line. Finds are noted by whole warps.
    FAR_MEMBER void decode_comb_one() {
        const Hash& c = args().comb;
        const double floor = floor_of(c), limit = floor * args().threshold[4];
        const double one = floor * args().threshold[3], two = floor * args().threshold[2];
        const bool noisy = this->noisy;
        const Z* bins = this->bins(c, 0);
        u32* slot_of = this->slot_of();
        double quiet = 0.0, quiet_energy = 0.0, away;
        u32 weak = 0;
        for (u32 b = g.rank; b < g.warps(c.buckets); b += g.size) {
            u32 found = 0, slot = 0;
            u64 f[2];
            Z v[2];
            if (b < c.buckets) {
                One l(bins + 4 * b);
                double e = l.energy(), own = OWN_ROUNDING * e, left;
                if (e > limit) {
                    f[0] = snap_comb(single(l), b, away);
                    if (fit_one(ring(), l, f[0], v[0]) <= one + own) {
                        found = 1;
                    } else {
                        double t[2];
                        if (twin(l, t) && !(noisy && apart(t[0], t[1]) < 0.08)) {
                            f[0] = snap_comb(t[0], b, away);
                            f[1] = snap_comb(t[1], b, away);
                            if (f[0] != f[1] && fit_two(ring(), l, f, v, left) && left <= two + own)
                                found = 2;
                        }
                        slot = found == 0;
                    }
                    weak += found && norm(v[0]) < least;
                    weak += found > 1 && norm(v[1]) < least;
                } else {
                    quiet += 1.0;
                    quiet_energy += e;
                }
            }
            u32 i, s;
            g.reserve(count(), found, slot, slot + (found > 0), i, s);
            for (u32 j = 0; j < found; j++) {
                if (i + j < args().capacity) {
                    Entry e = {f[j], v[j].x, v[j].y};
                    known()[i + j] = e;
                }
            }
            if (slot && s < args().slots) {
                Slot& open = slots()[s];
                open.bin = b;
                open.closed = open.count = open.fresh = 0;
            }
            if (b < c.buckets) slot_of[b] = slot && s < args().slots ? s + 1 : 0;
        }
        if (weak) g.add(&count().weak, weak);
        if (noisy) {
            next_parts();
            leave(1, quiet);
            leave(2, quiet_energy);
        }
    }

    __device__ void decode() {
        if (comb_lines == 1) {
            decode_comb_one();
        } else {
            decode_comb();
        }
    }

    // The noise power from the quiet bins of a hash, as in peeling.rs: the 0.3-quantile of a
    // sample of energies, corrected for the share that is occupied. Every block works alone.
    FAR_MEMBER void measure_noise(const Hash& c, const double* energies, u32 lanes) {
        const double p = 0.3;
        u32 step = (c.buckets + SAMPLE - 1) / SAMPLE, m = (c.buckets + step - 1) / step;
        u32 rank = (u32)(m * p);
        u32* sample = g.sample();
        // Energies are positive, so their bits are ordered like them.
        for (u32 i = g.thread; i < m; i += g.threads)
            sample[i] = (u32)(g.bits(energies[(u64)i * step]) >> 32);
        g.block_sync();
        u32 value = 0;
        for (int bit = 30; bit >= 0; bit--) {
            u32 trial = value | 1u << bit;
            double below = 0.0;
            for (u32 i = g.thread; i < m; i += g.threads) below += sample[i] < trial;
            if (g.block_sum(below) <= rank) value = trial;
        }
        double quantile = g.value((u64)value << 32 | 0x80000000u);
        noise = quantile / threshold(lanes, args().normal[0]) / c.energy;
        double limit = this->limit(c, lanes);
        u32 bound = (u32)(g.bits(limit) >> 32);
        double above = 0.0;
        for (u32 i = g.thread; i < m; i += g.threads) above += sample[i] > bound;
        double occupied = g.block_sum(above) / m;
        double quiet = fmin(p / (1.0 - fmin(occupied, 0.6)), 0.75);
        double at = (quiet - p) / 0.45 * 32.0;
        u32 i = at < 31.0 ? (u32)at : 31;
        double z = args().normal[i] + (at - i) * (args().normal[i + 1] - args().normal[i]);
        noise *= threshold(lanes, args().normal[0]) / threshold(lanes, z);
        noisy = true;
        g.block_sync();
    }

    // Energies of all comb bins, how many exceed the limit, and the least of those.
    FAR_MEMBER double count_active(bool fill, double& weakest) {
        const Hash& c = args().comb;
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
        return fmin(c, unit / (2.0 * args().n) / error);
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
            const Ladder& ladder = this->template table<Ladder>(table)[i];
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
        return (double)reduced(h.step * f) * h.buckets * args().inverse;
    }
    __device__ double response(const Hash& h, double away) {
        if (fabs(away) >= 2.0) return 0.0;
        // Even and odd terms apart: two short chains instead of a long one. The table has an even
        // number of terms, highest first.
        const double* c = g.series(h.window);
        double u = fma(away * away, -h.slope, h.beta2), u2 = u * u;
        double odd = c[0], even = c[1];
#pragma unroll 8
        for (u32 i = 2; i < h.terms; i += 2) {
            odd = fma(odd, u2, c[i]);
            even = fma(even, u2, c[i + 1]);
        }
        return fma(odd, u, even);
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
        const Entry& e = c < first_known ? known()[c] : changes()[c - first_known];
        peel(h, offsets, from, to, e, item & 3);
    }

    // The buckets of one-line window hashes are shared out among the blocks, so that each peels its
    // own in shared memory. `beside` more on each side let a block see its neighbours' edges.
    __device__ u32 share(const Hash& h) { return (h.buckets + g.blocks - 1) / g.blocks; }
    __device__ bool shareable(const Hash& h) {
        // Every bin that is settled later changes at most twelve values.
        return first_known + 12 * count().slots <= SAMPLE && share(h) <= Group::MOST_OWN &&
               h.buckets >= 2 * share(h) + 16;
    }
    // Loads the buckets from `first` on into the pool and peels known and changes from them.
    FAR_MEMBER void peel_owned(const Hash& h, u32 first, u32 size, u32 known_end, u32 end) {
        Z* pool = g.pool();
        u32* hits = g.sample();
        const Z* from = bins(h, 0);
        const u32 buckets = h.buckets;
        for (u32 i = g.thread; i < 4 * size; i += g.threads) {
            u32 b = first + i / 4;
            pool[i] = from[4 * (b >= buckets ? b - buckets : b) + i % 4];
        }
        if (g.thread == 0) *g.tally() = 0;
        g.block_sync();
#pragma unroll 4
        for (u32 c = g.thread; c < end; c += g.threads) {
            u64 f = c < known_end ? known()[c].f : changes()[c - known_end].f;
            // The lowest bucket that f reaches, counted from `first`.
            i64 low = (i64)floor(position(h, f)) - 1 - first;
            u32 at = (u32)(low < 0 ? low + buckets : low);
            if (at < size || at + 3 >= buckets) hits[g.add(g.tally(), 1u)] = c;
        }
        g.block_sync();
        const u32 count = *g.tally();
        for (u32 part = 0; part < count; part += HITS) {
            const u32 here = min_u32(count - part, HITS);
            // Gains and tones of the coefficients that this block meets.
            for (u32 i = g.thread; i < 4 * here; i += g.threads) {
                u32 c = hits[part + i / 4], k = i & 3;
                Entry e = c < known_end ? known()[c] : changes()[c - known_end];
                double p = position(h, e.f), lowest = floor(p) - 1.0;
                i64 at = (i64)lowest - first;
                Tone& tone = g.tones()[i / 4];
                tone.gain[k] = response(h, lowest + k - p);
                // Shift τ = k of its tone.
                tone.v[k] = times(z_of(e.re, e.im), root(reduced(e.f * k)));
                if (k == 0) tone.low = (u32)(at < 0 ? at + buckets : at);
            }
            g.block_sync();
            for (u32 i = g.thread; i < 16 * here; i += g.threads) {
                const Tone& tone = g.tones()[i / 16];
                const u32 k = i / 4 & 3, tau = i & 3;
                u32 at = tone.low + k;
                at = at >= buckets ? at - buckets : at;
                if (at < size) {
                    g.add(&pool[4 * at + tau].x, -tone.gain[k] * tone.v[tau].x);
                    g.add(&pool[4 * at + tau].y, -tone.gain[k] * tone.v[tau].y);
                }
            }
            g.block_sync();
        }
    }

    // certify: how many of this block's buckets of the verifying hash are not explained, or no numbers.
    __device__ double unexplained(double limit, u32 known_end, u32 end) {
        const Hash& v = args().verify;
        u32 per = share(v), low = g.block * per;
        if (low >= v.buckets) return 0.0;
        u32 size = min_u32(per, v.buckets - low);
        peel_owned(v, low, size, known_end, end);
        double left = 0.0;
        for (u32 b = g.thread; b < size; b += g.threads) left += !(One(g.pool() + 4 * b).energy() <= limit);
        return left;
    }

    // Peels what is known from the first window and decodes its peaks, all in one stage.
    FAR_MEMBER void decode_first_window(bool decode) {
        const Hash& h = args().window[0];
        u32 per = share(h), low = g.block * per;
        double weakest = 1e300;
        if (low < h.buckets) {
            u32 size = min_u32(per, h.buckets - low);
            peel_owned(h, low == 0 ? h.buckets - 1 : low - 1, size + 2, first_known, first_known);
            const Z* pool = g.pool();
            Z* to = bins(h, 0) + 4 * low;
            double floor = floor_of(h), limit = floor * args().threshold[4];
            for (u32 i = g.thread; i < 4 * size; i += g.threads) to[i] = pool[4 + i];
            for (u32 i = g.thread; i < size && decode; i += g.threads) {
                One l(pool + 4 * (i + 1));
                double e = l.energy();
                if (e <= limit || e < One(pool + 4 * i).energy() ||
                    e < One(pool + 4 * (i + 2)).energy())
                    continue;
                weakest = fmin(weakest, e);
                decode_bucket_one(h, l, low + i, e, floor);
            }
        }
        next_parts();
        leave_least(0, weakest);
    }

    // One or two frequencies of a bucket of one line, without noise.
    __device__ void decode_bucket_one(const Hash& h, const One& l, u32 b, double energy,
                                      double floor) {
        double own = 1e-24 * energy, left;
        double t[2] = {single(l), 0.0};
        u64 f[2];
        Z v[2];
        u32 s[2];
        f[0] = snap_all(t[0]);
        s[0] = slot_of()[comb_bin(f[0])];
        double gain = gain_at(h, f[0], b);
        if (s[0] && gain > 0.0 && fit_one(ring(), l, f[0], v[0]) <= floor * args().threshold[3] + own) {
            propose(s[0], f[0], scaled(v[0], 1.0 / gain));
            return;
        }
        if (!twin(l, t) || apart(t[0], t[1]) < 0.115) return;
        double gains[2];
        for (u32 i = 0; i < 2; i++) {
            f[i] = snap_all(t[i]);
            s[i] = slot_of()[comb_bin(f[i])];
            gains[i] = gain_at(h, f[i], b);
        }
        if (!s[0] || !s[1] || f[0] == f[1] || gains[0] == 0.0 || gains[1] == 0.0) return;
        if (!fit_two(ring(), l, f, v, left) || left > floor * args().threshold[2] + own) return;
        for (u32 i = 0; i < 2; i++) propose(s[i], f[i], scaled(v[i], 1.0 / gains[i]));
    }

    // Gain of f in bucket b, zero if it does not belong there.
    __device__ double gain_at(const Hash& h, u64 f, u32 b) {
        double away = position(h, f) - b;
        away -= h.buckets * rint(away * h.inverse);
        return fabs(away) < 0.8 ? response(h, away) : 0.0;
    }

    // Least squares of M frequencies in one line, in registers.
    template <int M>
    __device__ bool fit_few(const One& l, const u64* f, Z* values, double& left) {
        Z row[M][4];
#pragma unroll
        for (int i = 0; i < M; i++) {
            Z z = root(f[i]);
            row[i][0] = z_of(1.0, 0.0);
            row[i][1] = z;
            row[i][2] = times(z, z);
            row[i][3] = times(row[i][2], z);
        }
        Z factor[M][M];
        double inverse[M];
#pragma unroll
        for (int i = 0; i < M; i++) {
#pragma unroll
            for (int j = 0; j <= i; j++) {
                Z sum = z_of(0.0, 0.0);
#pragma unroll
                for (int t = 0; t < 4; t++) sum = add_conj(sum, row[j][t], row[i][t]);
#pragma unroll
                for (int k = 0; k < j; k++) sum = minus(sum, times(factor[i][k], conj(factor[j][k])));
                if (i == j) {
                    if (sum.x <= 4e-12) return false;
                    inverse[i] = rsqrt(sum.x);
                } else {
                    factor[i][j] = scaled(sum, inverse[j]);
                }
            }
            values[i] = z_of(0.0, 0.0);
        }
        Z rest[4];
#pragma unroll
        for (int step = 0; step < 3; step++) {
            left = 0.0;
#pragma unroll
            for (int t = 0; t < 4; t++) {
                rest[t] = l.u[t];
#pragma unroll
                for (int i = 0; i < M; i++) rest[t] = minus(rest[t], times(values[i], row[i][t]));
                left += norm(rest[t]);
            }
            Z right[M];
#pragma unroll
            for (int i = 0; i < M; i++) {
                Z sum = z_of(0.0, 0.0);
#pragma unroll
                for (int t = 0; t < 4; t++) sum = add_conj(sum, rest[t], row[i][t]);
#pragma unroll
                for (int k = 0; k < i; k++) sum = minus(sum, times(factor[i][k], right[k]));
                right[i] = scaled(sum, inverse[i]);
            }
#pragma unroll
            for (int i = M - 1; i >= 0; i--) {
#pragma unroll
                for (int k = i + 1; k < M; k++)
                    right[i] = minus(right[i], times(conj(factor[k][i]), right[k]));
                right[i] = scaled(right[i], inverse[i]);
                values[i] = plus(values[i], right[i]);
            }
        }
        return true;
    }

    __device__ static void order(u64& a, u64& b) {
        u64 low = a < b ? a : b, high = a < b ? b : a;
        a = low;
        b = high;
    }

    // settle for three frequencies of a one-line comb, one to three of which a window has shown.
    // Other bins are left to the general one, with their proposals.
    FAR_MEMBER void settle_first() {
        const Hash& c = args().comb;
        for (u32 s = g.rank; s < count().slots; s += g.size) {
            Slot& slot = slots()[s];
            u32 fresh = slot.fresh;
            if (fresh == 0 || fresh > 3) continue;
            One l(bins(c, 0) + 4 * slot.bin);
            double energy = l.energy(), away, left, t[2];
            u64 f[3];
            Z v[3];
            for (u32 i = 0; i < fresh; i++) f[i] = slot.new_f[i];
            if (fresh > 1 && f[0] == f[1]) continue;
            if (fresh < 3) {
                // What the window's values leave.
                One r = l;
                for (u32 i = 0; i < fresh; i++) {
                    Z z = root(f[i]), p = slot.new_a[i];
#pragma unroll
                    for (u32 tau = 0; tau < 4; tau++) {
                        r.u[tau] = minus(r.u[tau], p);
                        p = times(p, z);
                    }
                }
                if (fresh == 1) {
                    if (!twin(r, t)) continue;
                    f[1] = snap_comb(t[0], slot.bin, away);
                    f[2] = snap_comb(t[1], slot.bin, away);
                } else {
                    f[2] = snap_comb(single(r), slot.bin, away);
                }
            }
            // Proposals come in any order; the fit in this one, so that every run gives the same.
            order(f[0], f[1]);
            order(f[1], f[2]);
            order(f[0], f[1]);
            if (f[0] == f[1] || f[1] == f[2]) continue;
            if (!fit_few<3>(l, f, v, left)) continue;
            if (left > floor_of(c) * args().threshold[1] + OWN_ROUNDING * energy) continue;
            u32 at = g.add(&count().changes, 3u), to = g.add(&count().known, 3u);
            g.add(&count().shut, 1u);
            for (u32 i = 0; i < 3; i++) {
                Entry e = {f[i], v[i].x, v[i].y};
                if (at + i < args().changes) changes()[at + i] = e;
                if (to + i < args().capacity) known()[to + i] = e;
            }
            if (at + 3 > args().changes || to + 3 > args().capacity) g.add(&count().full, 1u);
            slot.closed = 1;
            slot_of()[slot.bin] = 0;
        }
    }

    __device__ bool is_peak(u32 r, u32 b, double e) {
        u32 size = args().window[r].buckets;
        u32 up = b + 1 == size ? 0 : b + 1, down = b == 0 ? size - 1 : b - 1;
        return e >= window_lanes(r, up).energy() && e >= window_lanes(r, down).energy();
    }

    // Whether some window denies v at f.
    __device__ bool contradicted(u64 f, Z v, u32 last) {
        for (u32 r = 0; r <= last; r++) {
            const Hash& h = args().window[r];
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
            f = snap_all(t);
            return slot_of()[comb_bin(f)];
        }
        u32 found = 0, slots = count().slots;
        for (u32 s = 0; s < slots; s++) {
            const Slot& slot = this->slots()[s];
            if (slot.closed) continue;
            u64 g = snap_comb(t, slot.bin, away);
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
        const Hash& h = args().window[r];
        Lanes l = window_lanes(r, b);
        double floor = floor_of(h), own = 1e-24 * energy, left;
        u64 f[2] = {0, 0};
        u32 s[2];
        Z v[2];
        s[0] = snap_open(single(l), f[0]);
        if (s[0]) {
            double gain = gain_at(h, f[0], b);
            if (gain > 0.0 && fit_one(ring(), l, f[0], v[0]) <= floor * args().threshold[l.count() - 1] + own) {
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
        double gain[2] = {gain_at(h, f[0], b), gain_at(h, f[1], b)};
        if (f[0] == f[1] || gain[0] == 0.0 || gain[1] == 0.0 || !fit_two(ring(), l, f, v, left)) return;
        if (left > floor * args().threshold[l.count() - 2] + own) return;
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
        g.add(&count().shut, 1u);
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
        // Proposals come in any order; sorted, every run gives the same.
        for (u32 i = 1; i < fresh; i++) {
            for (u32 j = i; j > 0 && slot.new_f[j] < slot.new_f[j - 1]; j--) {
                u64 t = slot.new_f[j];
                Z v = slot.new_a[j];
                slot.new_f[j] = slot.new_f[j - 1];
                slot.new_a[j] = slot.new_a[j - 1];
                slot.new_f[j - 1] = t;
                slot.new_a[j - 1] = v;
            }
        }
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
        const Hash& c = args().comb;
        Lanes l = comb_lanes(slot.bin);
        u32 lanes = l.count();
        double energy = l.energy(), floor = floor_of(c), own = OWN_ROUNDING * energy, left, away;
        if (fit(l, f, m, values, left) && left <= floor * args().threshold[lanes - m] + own) {
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
                f[m + i] = snap_comb(t[i], slot.bin, away);
                for (u32 j = 0; j < m + i; j++) distinct &= f[j] != f[m + i];
            }
            if (!distinct || !fit(l, f, m + more, values, left)) continue;
            if (left > floor * args().threshold[lanes - m - more] + own) continue;
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
        const Hash& h = args().window[r];
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
                    climb(h, window_offsets[r], window_lines[r], gamma, 1.0, args().window_ladders,
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
            u32 end = count().changes, progress = count().progress, open = count().slots - count().shut;
            if (count().full || open == 0) return;
            if (progress == before) {
                // Bins with as many frequencies as lanes need more lanes.
                if (!noisy && comb_lines == 1 && args().comb.lines > 1) {
                    comb_offsets[1] = 4;
                    measure(args().comb, comb_offsets, 1, 2);
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
        const Hash& c = args().comb;
        Job jobs[3];
        first_jobs(jobs);
        double energy[3] = {0.0, 0.0, 0.0};
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
        power = sum(0) / (4.0 * args().planned * c.buckets);
        // Parseval: Σ|V|² = buckets·Σ|folded|², and the window weights a sample's power by ΣG².
        double wide = sum(1) / (4.0 * args().window[0].energy);
        if (!(power < 1e300) || !(wide < 1e300) || (power > 0.0 && power < TINY_POWER))
            return STRANGE;
        // The windows are finished beside the decoding of the comb.
        u32 most = steps_of(args().window[0]);
        if (steps_of(args().verify) > most) most = steps_of(args().verify);
        bool decoded = args().exact || args().speculate;
        if (k < most) advance(jobs, 3, k++, energy);
        if (decoded) decode();
        sync();
        for (; k < most; k++) {
            advance(jobs, 3, k, energy);
            sync();
        }
        double weakest;
        double active = decoded ? count().active : count_active(true, weakest);
        if (active > CROWDED * c.buckets) {
            if (args().exact) return TOO_CROWDED;
            if (decoded) {
                // There is noise after all: decode again with its floor. The barrier lets everyone
                // read the counters before they are cleared.
                sync();
                if (g.rank == 0) {
                    Counters zero = {};
                    count() = zero;
                }
                active = count_active(true, weakest);
                decoded = false;
            }
            measure_noise(c, energies(), 4 * comb_lines);
            active = count_active(false, weakest);
            if (active > CROWDED * c.buckets) return TOO_CROWDED;
            if (active > 0.0) {
                double gamma =
                    fmax(weakest / (4 * comb_lines) / floor_of(c) - 1.0, LEAST_GAMMA);
                u32 added;
                if (!climb(c, comb_offsets, comb_lines, gamma, c.buckets, args().comb_ladders, added))
                    return WEAK;
                if (added) {
                    active = count_active(true, weakest);
                    measure_noise(c, energies(), 4 * comb_lines);
                    active = count_active(false, weakest);
                    if (active > CROWDED * c.buckets) return TOO_CROWDED;
                }
            }
        }
        if (!decoded) {
            decode();
            sync();
            active = count().active;
        }
        u32 first = first_known = min_u32(count().known, args().capacity);
        head_active = active;
        if (count().full || count().known > args().capacity || count().slots > args().slots) return FULL;
        if (count().weak) return WEAK;
        if (noisy) {
            double quiet = sum(1), energy = sum(2);
            if (quiet > 16.0) noise = energy / (quiet * 4 * comb_lines) * c.buckets;
        }
        if (wide > 100.0 * power) return BLIND;
        // What is known leaves the windows.
        bool open = still_open() > 0;
        bool own = shareable(args().window[0]), own_verify = shareable(args().verify);
        u64 zero_offset[1] = {0};
        if (open || !own_verify) {
            if (open && own) decode_first_window(!noisy);
            u32 nw = open && !own ? 4 * first : 0, nv = own_verify ? 0 : 4 * first;
            for (u32 i = g.rank; i < nw + nv; i += g.size) {
                if (i < nw) {
                    peel(args().window[0], zero_offset, 0, 1, known()[i >> 2], i & 3);
                } else {
                    peel(args().verify, zero_offset, 0, 1, known()[(i - nw) >> 2], i & 3);
                }
            }
            sync();
        }
        if (open) {
            u32 peeled = 0;
            rounds = 1;
            bool quick = own && !noisy && comb_lines == 1;
            if (quick) {
                settle_first();
                sync();
            }
            if (still_open() && !count().full) {
                u32 end = peeled = count().changes;
                for (u32 i = g.rank; i < 4 * end; i += g.size)
                    peel(args().window[0], zero_offset, 0, 1, changes()[i >> 2], i & 3);
                for (u32 s = g.rank; s < count().slots; s += g.size) slots()[s].fresh = 0;
                sync();
                exchange(0, peeled);
            }
            while (still_open() && !count().full && rounds < args().rounds) {
                u32 r = rounds++;
                const Hash& h = args().window[r];
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
            if (still_open()) return OPEN;
            if (!own_verify) {
                u32 end = count().changes;
                for (u32 i = g.rank; i < 4 * end; i += g.size)
                    peel(args().verify, zero_offset, 0, 1, changes()[i >> 2], i & 3);
                sync();
            }
        }
        // certify: the independent hash must be explained.
        const Hash& v = args().verify;
        double limit = this->limit(v, 4);
        if (noisy) {
            double read = 4.0 * comb_lines * c.buckets;
            double shared = 1.0 + (double)count().known / v.buckets;
            limit += 4.0 * 20.0 * shared * noise / read;
        }
        double left = 0.0;
        if (own_verify) {
            left = unexplained(limit, first, first + count().changes);
        } else {
            for (u32 b = g.rank; b < v.buckets; b += g.size)
                left += !(One(bins(v, 0) + 4 * b).energy() <= limit);
        }
        next_parts();
        leave(0, left);
        sync();
        head_left = sum(0);
        head_verified = (sqrt(limit) + args().sigmas * sqrt(floor_of(v))) / (2.0 * 0.4);
        return head_left > 0.0 ? BLIND : EXPLAINED;
    }

    double head_active = 0.0, head_left = 0.0, head_verified = 0.0;

    __device__ void transform(bool last) {
#ifdef PROFILE
        if (g.rank == 0) ((u64*)((char*)head() + args().out_stride - 512))[63] = clock64();
#endif
        u32 status = run(), buckets = 0;
        for (u32 r = 0; r < rounds; r++) buckets += args().window[r].buckets;
        report(status, min_u32(count().known, args().capacity), buckets, last);
    }

    // What comes back ahead of the entries.
    __device__ void report(u32 status, u32 known, u32 buckets, bool last) {
        if (g.rank == 0) {
            const Counters& n = count();
            Header h = {};
            h.status = status;
            h.known = known;
            h.open = still_open();
            h.weak = n.weak;
            h.active = (u32)head_active;
            h.lines = comb_lines;
            h.left = (u32)head_left;
            h.noisy = noisy;
            h.rounds = rounds;
            h.buckets = buckets;
            h.climbs = climbs;
            h.steps = steps;
            h.lines_read = lines_read;
            h.power = power;
            h.noise = noise;
            h.least = least;
            h.verified = head_verified;
            *head() = h;
        }
        // The next transform of this group reuses the workspace.
        if (!last) g.sync();
    }
};
