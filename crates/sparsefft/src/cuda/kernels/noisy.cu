// robust at its fastest, for known noise: a comb of two lines, the rest of its crowded bins by six more
// lines, one certificate; by one cluster with everything between the samples and the answer in its
// shared memory. For lengths 2^m, and combs of B = 4^m bins. What is not plain (weak coefficients, no
// noise at all, bins that stay open) is left to sparse.cuh; the status says so.
//
// Order, with R = √B and the bins b = k1 + R·k2 shared out by k1, as in quick.cu:
// 1. Teeth j = R·j1 + j2 of the lines at 0 and 3e: columns, their transforms over j1; the points go to
//    the blocks of their k1. Some warps fold the verifying window.
// 2. Transforms over j2: the bins. Their energies go to every block. Those warps ask for the lines at 4, 8, 12,
//    e, 2e, 32e and make their transforms over j1.
// 3. Every block takes the quantile of the energies, hence the noise, and the power that two lines
//    place. Bins above the noise are decoded, as one frequency by half of the threads and
//    as two by the others. What is found goes to the blocks whose verifying buckets it reaches.
// 4. The other bins, and those too weak for two lines, get these lines by single sums over j2, and six warps each look
//    for two to four frequencies on scales of their own, in a second turn on others (several.cuh). Warps without a bin
//    transform the verifying window, one shift each of four blocks.
// 5. What was found leaves the verifying buckets, and they are judged.
#include "quick.cuh"

struct Noisy : Quick {
    // Lines lie at 0 and 3e; where the normal quantiles are in the tables.
    u32 e, pad;
    u64 normal;
    // Of the lanes of two lines, less one, less two; of those of eight less two, three, four.
    double two_lines[3], eight_lines[3];
};

const u32 MORE_LINES = 6;

template <u32 LOGB, u32 LOGV, u32 CLUSTER> struct Rough : Frame<LOGB, LOGV, CLUSTER, 2> {
    typedef Frame<LOGB, LOGV, CLUSTER, 2> F;
    static const u32 FOLDERS = 4, THREADS = F::COMB + 32 * FOLDERS;
    static_assert(4 * F::V / CLUSTER <= 32 * FOLDERS, "");
    static const u32 HALF = F::COMB / 2, OTHERS = THREADS - HALF;
    // Threads that decode one frequency; the others decode two.
    static const u32 SINGLES = (F::COMB * 3 / 8 + 31) / 32 * 32;
    static const u32 ACTIVE = F::BINS * 3 / 8 < HALF ? F::BINS * 3 / 8 : HALF;
    // Open bins: that a block may have, of all, that a block solves; groups of warps that solve them.
    static const u32 MINE = 12, OPENS = 48, SOLVES = OPENS / CLUSTER, ROLES = 6;
    static const u32 GROUPS = THREADS / (32 * ROLES);
    // Steps of the energies' histogram: 64 for a factor of two.
    static const u32 DIGITS = 2048;

    // What lies in the same memory: energies and what is decoded by them; what solves open bins, after the sums.
    struct Energies {
        u32 sample[F::B];
        __align__(16) u32 digits[DIGITS];
    };
    struct Guesses {
        Guess one[ACTIVE], two[ACTIVE];
    };
    struct Levels {
        double energies[F::BINS];
        union {
            Energies all;
            Guesses guess;
        };
    };
    struct Solver {
        Z u[SOLVES][ALL_LANES], phasors[ROLES * GROUPS][4 * APART];
        // The same of energy one, in single precision.
        float2 w[SOLVES][ALL_LANES];
        double energies[SOLVES];
    };
    struct Shared : Kept<F, FOLDERS, 2 * ACTIVE + 4 * SOLVES> {
        // The other lines come after the exchange, tones after the sums.
        union {
            Z tiles[F::TILES];
            Z lines[MORE_LINES][8][F::ONE];
            Tone tones[F::EACH * CLUSTER];
        };
        union {
            Levels levels;
            Solver solver;
        };
        Z folded[F::FOLDED];
        double parts[2 * F::WARPS], normal[33];
        // What the noise is found to be, and what follows.
        double noise, least;
        u32 status, all_active;
        // Of the bins that this block solves: the six lines from every block, the other two from one.
        Z sums[SOLVES][CLUSTER][4 * MORE_LINES], lanes[SOLVES][8];
        u32 bins[OPENS];
        u32 solved[GROUPS][ROLES];
        // Where the lanes of the eight lines lie, and the squares of that.
        float2 places[ALL_LANES];
        u32 counted[3][3 * F::WARPS];
        u32 act[ACTIVE];
    };
};

// The lanes of a bin of two lines.
template <class S> struct Two {
    const Z* p;
    u64 far;
    static const u32 lines = 2;
    __device__ Z at(u32 j, u32 tau) const { return p[(j * S::ROWS * 4 + tau) * S::PAD]; }
    __device__ u64 offset(u32 j) const { return j ? far : 0; }
    __device__ u32 count() const { return 8; }
    __device__ double energy() const {
        double e = 0.0;
#pragma unroll
        for (u32 i = 0; i < 8; i++) e += norm(at(i >> 2, i & 3));
        return e;
    }
};

// locate and estimate: two frequencies that are not close, one of them by each of two neighbouring lanes; as twin
// and fit_two in locate.cuh. True for both if they explain the bin.
template <class S>
DEV bool pair_of_lines(const Ring& ring, const Two<S>& l, u32 b, double bin, double limit, u32 lane, u64& f, Z& a) {
    const u32 which = lane & 1, its = lane ^ 1;
    const double far = (double)l.far;
    Z c0, c1;
    bool good = predict_two(l, c0, c1);
    const Z half = scaled(c1, -0.5);
    const Z r = square_root(minus(times(half, half), c0));
    double t = turns(which ? minus(half, r) : plus(half, r)), away;
    // The values on both lines say how far the phase has turned.
    Z z = cis(t), w = times(conj(z), shuffled(z, its));
    Z gram = times(w, z_of(w.x + 1.0, w.y));
    gram = times(w, z_of(gram.x + 1.0, gram.y));
    gram = z_of(gram.x + 1.0, gram.y);
    double det = 16.0 - norm(gram);
    good &= det >= 1e-9;
    const Z near = project(l, 0, z), there = project(l, 1, z);
    const Z near_value = minus(scaled(near, 4.0), times(gram, shuffled(near, its)));
    const Z far_value = minus(scaled(there, 4.0), times(gram, shuffled(there, its)));
    const double back = -t * far;
    t += turns(times(times(far_value, cis(back - rint(back))), conj(near_value))) * inverse_of(far);
    good &= apart(t, __shfl_xor_sync(~0u, t, 1)) >= 0.08;
    f = ring.snap(t, S::B, bin, b, away);
    good &= f != __shfl_xor_sync(~0u, f, 1);
    // Least squares over both lines.
    z = ring.root(f);
    const Z turn = ring.phase(f, l.far), other = shuffled(z, its), other_turn = shuffled(turn, its);
    w = times(conj(z), other);
    gram = times(w, z_of(w.x + 1.0, w.y));
    gram = times(w, z_of(gram.x + 1.0, gram.y));
    gram = z_of(gram.x + 1.0, gram.y);
    gram = plus(gram, times(times(conj(turn), other_turn), gram));
    det = 64.0 - norm(gram);
    good &= det >= 1e-12 * 64.0;
    const Z right = add_conj(project(l, 0, z), project(l, 1, z), turn);
    a = scaled(minus(scaled(right, 8.0), times(gram, shuffled(right, its))), inverse_of(good ? det : 1.0));
    // What they leave, of one line each.
    Z mine = a, theirs = shuffled(a, its);
    if (which) {
        mine = times(mine, turn);
        theirs = times(theirs, other_turn);
    }
    double left = 0.0;
#pragma unroll
    for (u32 tau = 0; tau < 4; tau++) {
        left += norm(minus(minus(l.at(which, tau), mine), theirs));
        mine = times(mine, z);
        theirs = times(theirs, other);
    }
    left += __shfl_xor_sync(~0u, left, 1);
    const u32 mine_good = good && left <= limit, its_good = __shfl_xor_sync(~0u, mine_good, 1);
    return mine_good && its_good;
}

// Of positive numbers; what is not a number stays below 2^31 as well.
DEV u32 high_bits(double v) { return (u32)(__double_as_longlong(v) >> 32) & 0x7fffffffu; }
DEV double of_high_bits(u32 v) { return __longlong_as_double((i64)((u64)v << 32 | 0x80000000u)); }

// As threshold in certify.rs.
DEV double threshold_of(double m, double z) {
    const double root = fmax(1.0 - 1.0 / (9.0 * m) + z / (3.0 * sqrt(m)), 0.0);
    return m * root * root * root;
}

// The high bits of all energies, shared out among the threads of the comb.
template <class S> struct Sample {
    static const u32 EACH = S::B / S::COMB, WARPS = S::WARPS;
    u32 v[EACH];

    __device__ Sample(typename S::Shared& s, u32 t) {
#pragma unroll
        for (u32 i = 0; i < EACH; i++) v[i] = s.levels.all.sample[i * S::COMB + t];
    }

    // The one of this rank, by a histogram in steps of 1/64 from 2^-28 times `size` on, and in between by
    // its rank in its step. What lies outside counts as the nearest step.
    __device__ double ranked(typename S::Shared& s, u32 rank, double size, u32 t) const {
        const u32 lane = t & 31, warp = t >> 5, PART = S::DIGITS / S::COMB, FINE = 14;
        static_assert(S::DIGITS % (4 * S::COMB) == 0, "");
        u32* digits = s.levels.all.digits;
        const u32 top = high_bits(size) >> FINE, base = top > 28 * 64 ? top - 28 * 64 : 0;
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            const u32 at = v[i] >> FINE, digit = at > base ? at - base : 0;
            atomicAdd(digits + (digit < S::DIGITS ? digit : S::DIGITS - 1), 1u);
        }
        some_threads_sync<S::COMB>();
        // Every thread adds up some digits, the warps what their threads have, all the warps.
        u32 each[PART], own = 0;
#pragma unroll
        for (u32 i = 0; i < PART; i += 4) {
            const uint4 four = *(const uint4*)(digits + t * PART + i);
            each[i] = four.x;
            each[i + 1] = four.y;
            each[i + 2] = four.z;
            each[i + 3] = four.w;
            own += (four.x + four.y) + (four.z + four.w);
        }
        u32 upto = own;
#pragma unroll
        for (u32 d = 1; d < 32; d <<= 1) {
            const u32 before = __shfl_up_sync(~0u, upto, d);
            if (lane >= d) upto += before;
        }
        if (lane == 31) s.counted[0][warp] = upto;
        some_threads_sync<S::COMB>();
#pragma unroll
        for (u32 i = 0; i < WARPS; i++) upto += i < warp ? s.counted[0][i] : 0;
        if (upto > rank && upto - own <= rank) {
            u32 left = rank - (upto - own), at = 0, count = 1;
            bool here = false;
#pragma unroll
            for (u32 i = 0; i < PART; i++) {
                if (!here && left < each[i]) {
                    here = true;
                    at = i;
                    count = each[i];
                }
                if (!here) left -= each[i];
            }
            const u32 digit = base + t * PART + at;
            const double low = of_high_bits(digit << FINE), high = of_high_bits((digit + 1) << FINE);
            s.noise = low + (high - low) * (left + 0.5) * inverse_of(count);
        }
        some_threads_sync<S::COMB>();
        return s.noise;
    }

    // How many exceed a bound and another, and the least that exceeds the first; the first time or the second.
    __device__ void above(typename S::Shared& s, u32 time, u32 bound, u32 other, u32 t, u32& count, u32& others,
                          u32& least) const {
        u32* counted = s.counted[1 + time];
        count = others = 0;
        least = ~0u;
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            count += v[i] > bound;
            others += v[i] > other;
            least = v[i] > bound && v[i] < least ? v[i] : least;
        }
        count = __reduce_add_sync(~0u, count);
        others = __reduce_add_sync(~0u, others);
        least = __reduce_min_sync(~0u, least);
        if (t % 32 == 0) {
            counted[t / 32] = count;
            counted[WARPS + t / 32] = others;
            counted[2 * WARPS + t / 32] = least;
        }
        some_threads_sync<S::COMB>();
        count = others = 0;
        least = ~0u;
#pragma unroll
        for (u32 i = 0; i < WARPS; i++) {
            count += counted[i];
            others += counted[WARPS + i];
            least = counted[2 * WARPS + i] < least ? counted[2 * WARPS + i] : least;
        }
    }
};

template <u32 LOGB, u32 LOGV, u32 CLUSTER> static __device__ void noisy(const Noisy& args) {
    typedef Rough<LOGB, LOGV, CLUSTER> S;
    const u32 R = S::R, T = S::T, ROWS = S::ROWS, PAD = S::PAD;
    SHARED_MEMORY
    typename S::Shared& s = *(typename S::Shared*)memory;
    const u32 t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const u32 c = blockIdx.x % CLUSTER, signal = blockIdx.x / CLUSTER;
    const void* x = (const void*)(args.x + signal * args.stride);
    Header* head = (Header*)(args.out + signal * args.out_stride);
    const Ring ring = {args.n, args.mask, args.inverse};
    const u64 far = 3 * args.e;
    STAMP(0)

    // permute and fold: samples are asked for before anything else.
    const bool combs = t < S::COMB;
    const u32 tau = t & 3;
    Z v[8], w[4];
    Fold<S> fold;
    if (combs) {
        const Point<S> at(t);
        const u32 j2 = c * ROWS + at.column;
        const u64 first = args.step * (R * at.y + j2) + tau + (at.line ? far : 0), step = args.step * (R * T);
        load<8>(x, args.format, v, [&](u32 q) { return (first + q * step) & args.mask; });
        ask_turns<S>(args, w, j2, at.y);
    } else {
        const u32 i = t - S::COMB;
        if (i == 0) make_gates<S>(s, c, true);
        double normal = 0.0;
        if (i < 33) normal = __ldg((const double*)(args.tables + args.normal) + i);
        Tables<S>(args, i).keep(s, i);
        if (i < 33) s.normal[i] = normal;
        if (i < ALL_LANES) {
            const float place = place_of(i, args.e);
            s.places[i] = make_float2(place, place * place);
        }
        fold.ask(args, x, c, i);
    }
    __syncthreads();
    arrive<S>();
    if (combs) {
        STAMP(1)
        columns<S>(s, v, w, c, t);
    } else {
        fold.send(s, c, t - S::COMB);
    }
    STAMP(2)
    // The other lines take the place of the points that have been sent.
    meet<S>();
    // Tooth q of point `point` of the other lines.
    const auto other_line = [&](u32 number, u32 point, u32 q) {
        const u32 j = R * (point / 4 % T) + c * ROWS + point / (4 * T) + q * (R * T);
        const u32 offset = number < 3 ? 4 * (number + 1) : number < 5 ? (number - 2) * args.e : 32 * args.e;
        return (args.step * j + offset + (point & 3)) & args.mask;
    };
    // They are asked for before it is known whether there are open bins.
    if (!combs && args.format == 0) {
        for (u32 i = t - S::COMB; i < MORE_LINES * 8 * S::ONE; i += 32 * S::FOLDERS) {
            const u32 point = i % S::ONE, q = i / S::ONE % 8, number = i / S::ONE / 8;
            copy_here(&s.lines[number][q][point], (const Z*)x + other_line(number, point, q));
        }
    }
    pass<S>(s, POINTS_GATE);
    pass<S>(s, WINDOW_GATE);
    STAMP(3)

    const double power = sum_of<CLUSTER * S::WARPS>(s.energy, lane) * (0.125 * args.bin);
    const double rounding = ROUNDING * ROUNDING * power;
    if (combs) {
        rows<S>(args, s, v, t);
        some_threads_sync<S::COMB>();
        // Energies, in the order of the blocks: quantiles do not mind.
        const auto lanes_of = [&](u32 i) {
            const Two<S> l = {s.rows + i / R * 4 * PAD + i % R, far};
            return l;
        };
        for (u32 i = t; i < S::BINS; i += S::COMB) {
            const double e = lanes_of(i).energy();
            s.levels.energies[i] = e;
            const u32 bits = high_bits(e);
#pragma unroll
            for (u32 b = 0; b < CLUSTER; b++) put<S>(s, ENERGY_GATE, b, s.levels.all.sample + c * S::BINS + i, bits);
        }
        for (u32 i = t; i < S::DIGITS; i += S::COMB) s.levels.all.digits[i] = 0;
        some_threads_sync<S::COMB>();
        STAMP(4)
        const double wide = sum_of<CLUSTER * S::FOLDERS>(s.wide, lane) * (0.25 / args.verify_energy);
        u32 status = first_status(power, wide);
        part<S>();
        pass<S>(s, ENERGY_GATE);
        STAMP(5)
        // The noise: the 0.3-quantile of the energies, corrected for the share that is occupied.
        const Sample<S> sample(s, t);
        const double share = 0.3, lowest = threshold_of(8.0, s.normal[0]);
        const double quantile = sample.ranked(s, (u32)(S::B * share), 8.0 * args.bin * power, t);
        double noise = quantile * inverse_of(lowest) * S::B, limit;
        limit = (noise + rounding) * args.bin * args.two_lines[0];
        u32 all_active, loud, weakest;
        sample.above(s, 0, high_bits(limit), high_bits(rounding * args.bin * args.two_lines[0]), t, all_active, loud,
                     weakest);
        // Without noise, others look.
        if (status == EXPLAINED && loud <= CROWDED * S::B) status = OPEN;
        {
            const double occupied = (double)all_active * args.bin;
            const double quiet = fmin(share * inverse_of(1.0 - fmin(occupied, 0.6)), 0.75);
            const double at = (quiet - share) * (32.0 / 0.45);
            const u32 i = at < 31.0 ? (u32)at : 31;
            const double z = s.normal[i] + (at - i) * (s.normal[i + 1] - s.normal[i]);
            noise = quantile * inverse_of(threshold_of(8.0, z)) * S::B;
        }
        const double floor = (noise + rounding) * args.bin;
        limit = floor * args.two_lines[0];
        sample.above(s, 1, high_bits(limit), 0, t, all_active, loud, weakest);
        if (status == EXPLAINED && all_active > CROWDED * S::B) status = TOO_CROWDED;
        STAMP(6)

        // locate: which bins hold more than noise.
        double quiet = 0.0, quiet_energy = 0.0;
        for (u32 i = t; i < S::BINS; i += S::COMB) {
            const double e = s.levels.energies[i];
            const bool full = status == EXPLAINED && e > limit;
            const u32 mask = __ballot_sync(~0u, full);
            quiet += full ? 0.0 : 1.0;
            quiet_energy += full ? 0.0 : e;
            u32 at = 0;
            if (mask) {
                if (lane == 0) at = atomicAdd(&s.active, __popc(mask));
                at = __shfl_sync(~0u, at, 0) + __popc(mask & ((1u << lane) - 1));
                if (full && at < S::ACTIVE) s.act[at] = i;
            }
        }
        quiet = warp_sum(quiet);
        quiet_energy = warp_sum(quiet_energy);
        if (lane == 0) {
            s.parts[warp] = quiet;
            s.parts[S::WARPS + warp] = quiet_energy;
        }
        some_threads_sync<S::COMB>();
        const u32 active = s.active < S::ACTIVE ? s.active : S::ACTIVE;
        if (t < S::SINGLES) {
            for (u32 entry = t; entry < active; entry += S::SINGLES) {
                const u32 local = s.act[entry], b = c * ROWS + local / R + R * (local % R);
                const Two<S> l = lanes_of(local);
                Guess& guess = s.levels.guess.one[entry];
                double away;
                guess.f[0] = ring.snap(single(l), S::B, args.bin, b, away);
                const double left = fit_one(ring, l, guess.f[0], guess.a[0]);
                guess.good = left <= floor * args.two_lines[1] + OWN_ROUNDING * s.levels.energies[local];
            }
            if (warp == S::SINGLES / 32 - 1) {
                // The power that has a margin of 5 on the ladder, as in sparse.cuh; by the warp with the fewest bins.
                double least = 0.0;
                if (all_active > 0) {
                    const double gamma = fmax(of_high_bits(weakest) * inverse_of(8.0 * floor) - 1.0, LEAST_GAMMA);
                    const double two_pi = 6.283185307179586476925, weakness = inverse_root_of(gamma);
                    const double error = weakness * (1.0 / (two_pi * 3.0)), phase = weakness * (0.5 / two_pi);
                    const double margin = fmin(0.5 * inverse_of(far * error + phase),
                                               0.5 * S::B * args.inverse * far * inverse_of(phase));
                    least = gamma * floor * 25.0 * inverse_of(margin * margin);
                }
                if (lane == 0) {
                    s.noise = noise;
                    s.least = least;
                    s.status = status;
                    s.all_active = all_active;
                }
            }
        } else {
            // Two neighbouring lanes for two frequencies.
            const u32 half = (S::COMB - S::SINGLES) / 2;
            for (u32 first = 0; first < active; first += half) {
                const u32 entry = first + (t - S::SINGLES) / 2, local = s.act[entry < active ? entry : 0];
                const u32 b = c * ROWS + local / R + R * (local % R);
                const double limit = floor * args.two_lines[2] + OWN_ROUNDING * s.levels.energies[local];
                u64 f;
                Z a;
                const bool good = pair_of_lines<S>(ring, lanes_of(local), b, args.bin, limit, lane, f, a);
                if (entry >= active) continue;
                Guess& guess = s.levels.guess.two[entry];
                guess.f[t & 1] = f;
                guess.a[t & 1] = a;
                if ((t & 1) == 0) guess.good = good;
            }
        }
        some_threads_sync<S::COMB>();
        STAMP(7)
        const double least = s.least;
        // With a margin below 6 two lines do not say enough of a bin, which may be weak because its frequencies cancel.
        const double enough = 8.0 * (36.0 / 25.0 * least + floor);
        for (u32 i = t; i < active; i += S::COMB) {
            Guess &one = s.levels.guess.one[i], &two = s.levels.guess.two[i];
            const u32 local = s.act[i];
            if (s.levels.energies[local] < enough) one.good = two.good = 0;
            if (one.good) {
                if (norm(one.a[0]) < least) s.weak = 1;
            } else if (two.good) {
                if (norm(two.a[0]) < least || norm(two.a[1]) < least) s.weak = 1;
            } else {
                const u32 at = atomicAdd(&s.open, 1u);
                if (at < S::MINE) s.opened[at] = c * ROWS + local / R + R * (local % R);
            }
        }
        some_threads_sync<S::COMB>();
        if (t < S::HALF) {
            // Finds go into this block's list, and to the blocks whose buckets they reach.
            for (u32 i = t; i < (2 * active + 31) / 32 * 32; i += S::HALF) {
                const u32 entry = i >> 1, which = i & 1;
                const bool there = i < 2 * active, one = there && s.levels.guess.one[entry].good;
                const bool two = there && !one && s.levels.guess.two[entry].good, found = two || (one && !which);
                const u32 mask = __ballot_sync(~0u, found);
                u32 at = 0;
                if (lane == 0 && mask) at = atomicAdd(&s.found, __popc(mask));
                at = __shfl_sync(~0u, at, 0) + __popc(mask & ((1u << lane) - 1));
                if (found) {
                    const Guess& g = one ? s.levels.guess.one[entry] : s.levels.guess.two[entry];
                    keep<S>(args, s, FIND_GATE, c, at, g.f[which], g.a[which]);
                }
            }
            some_threads_sync<S::HALF, 3>();
            tell<S, S::HALF>(s, c, 0, 0, t);
        } else {
            Z calm = z_of(0.0, 0.0);
#pragma unroll
            for (u32 i = 0; i < S::WARPS; i++) calm = plus(calm, z_of(s.parts[i], s.parts[S::WARPS + i]));
            tell_opens<S, S::HALF>(s, c, (s.active > S::ACTIVE ? 1 : 0) | s.weak << 1, calm, t - S::HALF);
            wait_for_others(1);
        }
    } else {
        // Nobody waits for these warps before the finds are sent. Where threads have asked for the samples of others,
        // these must have come as well.
        copied_here();
        if (S::ONE < 32 * S::FOLDERS) some_threads_sync<32 * S::FOLDERS, 5>();
        else wait_for_others(1);
        // bucket FFT: over j1, as in `columns`.
        const u32 i = t - S::COMB, column = i / (4 * T);
        if (i < S::ONE) {
#pragma unroll 1
            for (u32 number = 0; number < MORE_LINES; number++) {
                Z v[8], *tile = s.lines[number][0] + 4 * T * column + tau;
                int y = i / 4 % T;
                if (args.format == 0) {
#pragma unroll
                    for (u32 q = 0; q < 8; q++) v[q] = s.lines[number][q][i];
                } else {
                    load<8>(x, args.format, v, [&](u32 q) { return other_line(number, i, q); });
                }
                __syncwarp();
                Steps<S::LOGR, 3, 0, WarpSync>::run(
                    v, tile, s.roots, y, [](u32 e) { return e / T * S::ONE + e % T * 4; }, [] {});
                __syncwarp();
#pragma unroll
                for (u32 q = 0; q < 8; q++) s.lines[number][q][i] = v[q];
            }
        }
        wait_for_others(1);
        part<S>();
        wait_for_others(9);
    }
    STAMP(8)
    part<S>();
    pass<S>(s, OPEN_GATE);
    STAMP(9)
    OTHER_STAMP(21)

    u32 status = s.status, open = 0, flags = 0, most = 0, lines = 2 * S::B + args.verify_reads;
    double noise = s.noise, quiet = 0.0, quiet_energy = 0.0;
    const double least = s.least;
#pragma unroll
    for (u32 b = 0; b < CLUSTER; b++) {
        const Opens& its = s.opens[b];
        open += its.open;
        most = its.open > most ? its.open : most;
        flags |= its.crowded;
        quiet += its.quiet;
        quiet_energy += its.quiet_energy;
    }
    if (status == EXPLAINED && flags & 1) status = TOO_CROWDED;
    if (status == EXPLAINED && flags & 2) status = WEAK;
    if (status == EXPLAINED && (most > S::MINE || open > S::OPENS)) status = OPEN;
    if (quiet > 16.0) noise = quiet_energy / (quiet * 8.0) * S::B;
    const double floor = (noise + rounding) * args.bin;
    const bool windows = t >= S::THREADS - 32 && c >= S::WINDOW;
    bool peeled = false, second = false;
    // The six lines were asked for in any case.
    if (args.format == 0 || open) lines += MORE_LINES * S::B;
    Header h = {};
    h.steps = 5;
    // Everyone comes to the same status.
    if (status == EXPLAINED && open) {
        const u32 slots = open > c ? (open - c + CLUSTER - 1) / CLUSTER : 0;
        if (t < S::HALF) {
            wait_for_others(1);
        } else {
            // The others send meanwhile.
            const u32 u = t - S::HALF;
            if (u < 32) {
                const u32 its = lane < CLUSTER ? s.opens[lane].open : 0, first = sum_up_to(its, lane) - its;
                for (u32 i = 0; i < its; i++) s.bins[first + i] = s.opens[lane].bins[i];
            }
            if (slots && u == 0) expect(s, SUM_GATE, 16 * slots * (CLUSTER * 4 * MORE_LINES + 8));
            some_threads_sync<S::OTHERS, 4>();
            OTHER_STAMP(22)
            // The two lines that were transformed.
            for (u32 i = u; i < 8 * open; i += S::OTHERS) {
                const u32 o = i / 8, k1 = s.bins[o] % R, row = (i & 4 ? ROWS : 0) + k1 % ROWS;
                if (k1 / ROWS == c)
                    put<S>(s, SUM_GATE, o % CLUSTER, &s.lanes[o / CLUSTER][i & 7],
                           s.rows[(row * 4 + (i & 3)) * PAD + s.bins[o] / R]);
            }
            OTHER_STAMP(23)
            // A warp for a bin, a lane for a shift of a line: what the columns of this block add to it.
            for (u32 o = u / 32; o < open; o += S::OTHERS / 32) {
                const u32 bin = s.bins[o], k1 = bin % R;
                const Z* from = s.lines[lane < 4 * MORE_LINES ? lane / 4 : 0][k1 / T] + k1 % T * 4 + tau;
                Z sum = z_of(0.0, 0.0);
#pragma unroll
                for (u32 column = 0; column < ROWS; column++) {
                    const u32 at = (c * ROWS + column) * bin & (S::B - 1);
                    sum = plus(sum, times(from[4 * T * column], times(s.roots[at / R], s.fine[at % R])));
                }
                if (lane < 4 * MORE_LINES) put<S>(s, SUM_GATE, o % CLUSTER, &s.sums[o / CLUSTER][c][lane], sum);
            }
        }
        OTHER_STAMP(24)
        part<S>();
        if (slots) pass<S>(s, SUM_GATE);
        OTHER_STAMP(25)
        // What was decoded has been sent.
        __syncthreads();
        STAMP(11)
        const u32 busy = 32 * S::ROLES * (slots < S::GROUPS ? slots : S::GROUPS);
        // The window has time until the bins are solved. The last warp has none to solve, mostly.
        if (windows) transform_window<S>(args, s, c - S::WINDOW, lane);
        peeled = busy < S::THREADS;
        const u32 rounds = (slots + S::GROUPS - 1) / S::GROUPS;
        if (t >= busy) {
            // The others peel what is known already.
            pass<S>(s, FIND_GATE);
            peel<S>(args, s, c, false, false, t - busy, S::THREADS - busy);
            wait_for_others(5 * rounds);
        } else {
            const u32 group = warp / S::ROLES, role = warp % S::ROLES;
            const auto group_sync = [&] { named_sync(2 + group, 32 * S::ROLES); };
            // Numbers of frequencies, ranks and scales that find the most together, one after the other.
            const u32 tries = role == 0   ? 2 << 11 | FAR | 3 << 27 | FAR << 16
                              : role == 1 ? 2 << 11 | 1 << 8 | 2 | 4 << 27 | 2 << 24 | 2 << 16
                              : role == 2 ? 3 << 11 | 1 << 8 | 2
                              : role == 3 ? 3 << 11 | 2 << 8 | (SPLIT + LINE)
                              : role == 4 ? 4 << 11 | 1
                                          : 4 << 11 | 1 << 8 | (SPLIT + 1);
            // And those that find the most of what these leave.
            const u32 rare = role == 0   ? 2 << 11 | 2 << 8 | CLOSE | 4 << 27 | 3 << 24 | (PATIENT + SPLIT + 2) << 16
                             : role == 1 ? 3 << 11 | 3 << 8 | (PATIENT + 3)
                             : role == 2 ? 3 << 11 | 4 << 8 | (PATIENT + 2)
                             : role == 3 ? 3 << 11 | 5 << 8 | (PATIENT + SPLIT + 1)
                             : role == 4 ? 4 << 11 | 4 << 8 | (PATIENT + 2)
                                         : 4 << 11 | 5 << 8 | (PATIENT + 1);
#pragma unroll 1
            for (u32 slot = group; slot < slots; slot += S::GROUPS) {
                const u32 b = s.bins[slot * CLUSTER + c];
                if (role == 0) {
                    // Two lines were transformed, six summed.
                    const u32 line = lane >> 2;
                    Z sum = z_of(0.0, 0.0);
                    if (line == 0 || line == 6) {
                        sum = s.lanes[slot][(line ? 4 : 0) + tau];
                    } else {
                        const u32 r = 4 * (line - 1 - (line == 7)) + tau;
#pragma unroll
                        for (u32 k = 0; k < CLUSTER; k++) sum = plus(sum, s.sums[slot][k][r]);
                        sum = scaled(sum, args.bin);
                    }
                    s.solver.u[slot][lane] = sum;
                    const double energy = warp_sum(norm(sum)), unit = inverse_root_of(energy);
                    s.solver.w[slot][lane] = make_float2((float)(sum.x * unit), (float)(sum.y * unit));
                    if (lane == 0) s.solver.energies[slot] = energy;
                }
                if (lane == 0) s.solved[group][role] = 0;
                group_sync();
                WORK_STAMP(26)
                const double energy = s.solver.energies[slot], own = OWN_ROUNDING * energy;
                const Several several = {ring,          s.solver.u[slot], energy,
                                         s.solver.w[slot], s.places,      s.solver.phasors[warp],
                                         s.solved[group],  S::ROLES,      args.e,
                                         lane,             b,             S::B,
                                         args.bin};
                u64 f = 0;
                Z a;
                u32 m = 0, winner = S::ROLES, turn = 0;
#pragma unroll 1
                for (; turn < 2 && winner == S::ROLES; turn++) {
                    // Everyone has seen that nothing was found.
                    if (turn) group_sync();
#pragma unroll 1
                    for (u32 rest = turn ? rare : tries; rest && m == 0; rest >>= 16) {
                        const u32 order = rest >> 8 & 255, many = order >> 3;
                        if (several.stopped(order)) break;
                        const double limit = floor * args.eight_lines[many - 2] + own;
                        if (several.solve(rest & 255, many, order, floor, limit, least, f, a)) {
                            m = many;
                            if (lane == 0) atomicExch(&s.solved[group][role], order);
                        }
                    }
                    WORK_STAMP(27)
                    group_sync();
                    WORK_STAMP(28)
                    // The fewest frequencies, then the first rank.
                    u32 best = ~0u;
#pragma unroll
                    for (u32 k = 0; k < S::ROLES; k++) {
                        const u32 its = s.solved[group][k];
                        if (its && its < best) {
                            best = its;
                            winner = k;
                        }
                    }
                }
                if (turn == 1) wait_for_others(2);
                if (role == winner && (lane & 7) == 0 && lane / 8 < m)
                    keep<S>(args, s, MORE_GATE, c, atomicAdd(&s.found, 1u), f, a);
                if (winner == S::ROLES && role == 0 && lane == 0) atomicAdd(&s.still, 1u);
                WORK_STAMP(29)
                group_sync();
            }
            if ((rounds - 1) * S::GROUPS + group >= slots) wait_for_others(5);
        }
        STAMP(12)
        __syncthreads();
        second = true;
        tell<S, S::THREADS>(s, c, 1, 0, t);
        part<S>();
        pass<S>(s, MORE_GATE);
        open = 0;
        for (u32 b = 0; b < CLUSTER; b++) open += s.notes[1][b].still;
        h.steps = 7;
    }
    if (windows && !second) transform_window<S>(args, s, c - S::WINDOW, lane);
    meet<S>();
    pass<S>(s, FIND_GATE);
    STAMP(15)
    if (status == EXPLAINED && open) status = OPEN;
    h.open = open;
    h.active = s.all_active;
    h.lines = 2;
    h.noisy = 1;
    h.lines_read = lines;
    h.power = power;
    h.noise = noise;
    h.least = least;
    const double tones = args.verify_leak * args.verify_leak * fmax(power - noise, 0.0);
    const double floor_v = fma(noise + rounding, args.verify_energy, tones);
    // The values carry errors of their own into the buckets, as in sparse.cuh.
    const double shared = 1.0 + (double)Shares<S>(s, second, c, lane).all / S::V;
    const double limit_v = floor_v * args.threshold[4] + 80.0 * shared * noise / (8.0 * S::B);
    conclude<S>(args, s, head, h, status, floor_v, limit_v, c, peeled, second, t);
}

#define NOISY(LOGB, LOGV, CLUSTER)                                                              \
    extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1)                                  \
        __launch_bounds__(Rough<LOGB, LOGV, CLUSTER>::THREADS, 1)                               \
            noisy_##LOGB##_##LOGV##_##CLUSTER(const __grid_constant__ Noisy a) {                \
        noisy<LOGB, LOGV, CLUSTER>(a);                                                          \
    }
NOISY(10, 5, 16)
NOISY(12, 7, 16)
NOISY(12, 9, 16)

// As NOISY in sparse.rs.
template <u32 LOGB, u32 LOGV, u32 CLUSTER, u32 THREADS, u32 BYTES> struct Check {
    typedef Rough<LOGB, LOGV, CLUSTER> S;
    static_assert(S::THREADS == THREADS && sizeof(typename S::Shared) <= BYTES, "");
};
template struct Check<10, 5, 16, 192, 112 << 10>;
template struct Check<12, 7, 16, 384, 227 << 10>;
template struct Check<12, 9, 16, 384, 227 << 10>;
