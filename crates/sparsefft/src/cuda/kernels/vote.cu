// vote and comb-vote on the device: fold, cutoff, votes, medians, peel, witness. The bucket FFTs of
// all hashes are one batch of dense_fft.cu between fold and first.
//
// The mathematics is that of stages/flat_hash.rs, flat_window.rs and tally.rs; names are the same.
// A thread folds one bucket, so that nothing is added up by atomics. The cutoff is a selection in
// linear time by digits of the energies. Votes are counted for the frequencies of kept buckets only:
// there is no array of scores.
//
// The model is kept in integers, in units of a fraction of the largest bucket: sums do not depend on
// the order of the additions, so two runs give the same bits.

typedef unsigned long long u64;
typedef unsigned int u32;
typedef long long i64;

struct __align__(16) Z {
    double x, y;
};

#define DEV static __device__ __forceinline__

const u32 ROWS = 9, NODES = 641;
const u32 DIGITS = 2048;
// Low bits of each digit of an energy: exponent, then twice eleven bits of the mantissa.
#define DIGIT_SHIFT(pass) (52u - 11u * (pass))
const double PER_BUCKET = 352.0 / 0.66;

// One hash: y[t] = x[(σt + τ) mod n]. `start` is where its first tap reads, `leap` = σB mod n.
struct Voter {
    u64 sigma, inverse, tau, start, leap;
};

// Selection of one rank in one row.
struct Rank {
    u64 prefix;
    u32 left, pad;
};

// Numbers that stages hand to each other, of one attempt.
struct Found {
    // Of the whole attempt: bits of the largest part of any bucket; rows with sums not finite.
    u64 largest;
    u32 bad, pad;
    // Of one stage: bits of the largest energy and of the largest |change|² of two corrections; two
    // measures of noise, buckets above a threshold, elected
    // frequencies; energies that reach and exceed the threshold of their row, and those kept.
    u64 loudest, change[2];
    double noise[2];
    u32 above, elected;
    u32 reach[ROWS + 1], exceed[ROWS + 1], listed[ROWS + 1];
};

struct Vote {
    u64 x, n, mask;
    double inverse, scale;
    u32 format, rows, buckets, half, width, teeth, combs, pad;
    u64 offset[4];
    const double* taps;
    const double* table;
    Z* z;       // [row][bucket]
    i64* model; // [row][bucket][part]
    Z* comb;    // [comb][tooth]
    double* energies; // [row][bucket], then [tooth]
    u32* map;         // bits: [row][bucket], then [tooth]
    u32* list;        // kept of these, in any order
    u32* digits;      // [row][which][DIGITS]
    Rank* ranks;      // [row][which]
    Found* found;
    Voter voter[ROWS];
};

DEV Z z_of(double x, double y) {
    Z r;
    r.x = x;
    r.y = y;
    return r;
}
DEV Z times(Z a, Z b) { return z_of(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
DEV double norm(Z a) { return a.x * a.x + a.y * a.y; }

DEV u64 product(const Vote& a, u64 u, u64 v) { return a.mask ? u * v & a.mask : u * v % a.n; }

DEV Z sample(const Vote& a, u64 at) {
    switch (a.format) {
    case 0: return ((const Z*)a.x)[at];
    case 1: {
        float2 v = ((const float2*)a.x)[at];
        return z_of(v.x, v.y);
    }
    case 2: return z_of(((const double*)a.x)[at], 0.0);
    default: return z_of(((const float*)a.x)[at], 0.0);
    }
}

DEV u32 rank_of() { return blockIdx.x * blockDim.x + threadIdx.x; }
DEV u32 size_of_grid() { return gridDim.x * blockDim.x; }

// Where the row of a hash, or that of the combs, begins, and how long it is.
DEV u32 length_of(const Vote& a, u32 row) { return row < a.rows ? a.buckets : a.teeth; }
DEV u64 begin_of(const Vote& a, u32 row) { return (u64)(row < a.rows ? row : a.rows) * a.buckets; }
DEV u32* map_of(const Vote& a, u32 row) { return a.map + begin_of(a, row) / 32; }
DEV bool marked(const u32* map, u32 i) { return map[i >> 5] >> (i & 31) & 1; }

// fold: bucket j of hash y takes the taps i ≡ j + half mod B.
extern "C" __global__ void vote_fold(const __grid_constant__ Vote a) {
    const Voter& v = a.voter[blockIdx.y];
    for (u32 j = rank_of(); j < a.buckets; j += size_of_grid()) {
        u32 i = (j + a.half) & (a.buckets - 1);
        u64 at = v.start + product(a, v.sigma, i);
        at = at >= a.n ? at - a.n : at;
        Z sum = z_of(0.0, 0.0);
#pragma unroll 4
        for (; i < a.width; i += a.buckets) {
            Z x = sample(a, at);
            double g = a.taps[i];
            sum.x = fma(g, x.x, sum.x);
            sum.y = fma(g, x.y, sum.y);
            at += v.leap;
            at = at >= a.n ? at - a.n : at;
        }
        a.z[(u64)blockIdx.y * a.buckets + j] = sum;
    }
}

// permute of the combs: every n/W-th sample from an offset on.
extern "C" __global__ void vote_teeth(const __grid_constant__ Vote a) {
    u64 step = a.n / a.teeth;
    for (u32 j = rank_of(); j < a.teeth; j += size_of_grid())
        a.comb[(u64)blockIdx.y * a.teeth + j] = sample(a, a.offset[blockIdx.y] + j * step);
}

// The units of the model: 2^-50 of the largest part of any bucket.
DEV double unit_of(const Vote& a) {
    i64 bits = (i64)(a.found->largest >> 52) - 50;
    return __longlong_as_double((bits < 1 ? 1 : bits) << 52);
}
DEV Z rest_at(const Vote& a, u64 at, double unit) {
    Z z = a.z[at];
    z.x = fma(-unit, (double)a.model[2 * at], z.x);
    z.y = fma(-unit, (double)a.model[2 * at + 1], z.y);
    return z;
}

// After the bucket FFTs: no model yet, the largest part, and whether all is finite.
extern "C" __global__ void vote_first(const __grid_constant__ Vote a) {
    u64 largest = 0;
    u32 bad = 0;
    for (u64 i = rank_of(); i < (u64)a.rows * a.buckets; i += size_of_grid()) {
        Z z = a.z[i];
        a.model[2 * i] = a.model[2 * i + 1] = 0;
        double part = fmax(fabs(z.x), fabs(z.y));
        largest = max(largest, (u64)__double_as_longlong(part));
        if (!(norm(z) < 1e307)) bad |= 1u << (i / a.buckets);
    }
    for (u32 j = rank_of(); j < a.teeth; j += size_of_grid()) {
        double e = 0.0;
        for (u32 c = 0; c < a.combs; c++) e += norm(a.comb[(u64)c * a.teeth + j]);
        a.energies[(u64)a.rows * a.buckets + j] = e;
        if (!(e < 1e307)) bad |= 1u << ROWS;
    }
    for (int d = 16; d > 0; d >>= 1) {
        largest = max(largest, __shfl_xor_sync(~0u, largest, d));
        bad |= __shfl_xor_sync(~0u, bad, d);
    }
    if ((threadIdx.x & 31) == 0) {
        atomicMax(&a.found->largest, largest);
        if (bad) atomicOr(&a.found->bad, bad);
    }
}

// Energies of what the model leaves, of rows from..to; the largest of them.
extern "C" __global__ void vote_energies(const __grid_constant__ Vote a, u32 from, u32 to) {
    double unit = unit_of(a), loudest = 0.0;
    u64 end = (u64)to * a.buckets;
    for (u64 i = (u64)from * a.buckets + rank_of(); i < end; i += size_of_grid()) {
        double e = norm(rest_at(a, i, unit));
        a.energies[i] = e;
        loudest = fmax(loudest, e);
    }
    u64 bits = (u64)__double_as_longlong(loudest);
    for (int d = 16; d > 0; d >>= 1) bits = max(bits, __shfl_xor_sync(~0u, bits, d));
    if ((threadIdx.x & 31) == 0) atomicMax(&a.found->loudest, bits);
}

// How many energies of a row exceed a threshold.
DEV void count_above(const Vote& a, u32 row, double threshold) {
    u32 above = 0;
    const double* e = a.energies + begin_of(a, row);
    for (u32 i = rank_of(); i < length_of(a, row); i += size_of_grid()) above += e[i] > threshold;
    for (int d = 16; d > 0; d >>= 1) above += __shfl_xor_sync(~0u, above, d);
    if ((threadIdx.x & 31) == 0 && above) atomicAdd(&a.found->above, above);
}
extern "C" __global__ void vote_above(const __grid_constant__ Vote a, u32 row, double threshold) {
    count_above(a, row, threshold);
}

// cutoff, one digit of a selection: counts the energies of a row, gridDim.y rows from `row` on, that
// have the digits found so far, by their next digit. Two ranks at once.
extern "C" __global__ void vote_count(const __grid_constant__ Vote a, u32 row, u32 pass) {
    __shared__ u32 counts[2][DIGITS];
    row += blockIdx.y;
    for (u32 i = threadIdx.x; i < 2 * DIGITS; i += blockDim.x) counts[0][i] = 0;
    __syncthreads();
    const u64* e = (const u64*)(a.energies + begin_of(a, row));
    const Rank* ranks = a.ranks + 2 * row;
    const u32 shift = DIGIT_SHIFT(pass);
    const u64 first = ranks[0].prefix, second = ranks[1].prefix;
    for (u32 i = rank_of(); i < length_of(a, row); i += size_of_grid()) {
        u64 key = e[i] >> shift;
        u32 digit = (u32)key & (DIGITS - 1);
        if (pass == 0 || key >> 11 == first) atomicAdd(&counts[0][digit], 1u);
        if (pass == 0 || key >> 11 == second) atomicAdd(&counts[1][digit], 1u);
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < 2 * DIGITS; i += blockDim.x)
        if (counts[0][i]) atomicAdd(a.digits + 2 * row * DIGITS + i, counts[0][i]);
}

// The digit that holds the rank. One block per row (y) and rank (x); 1024 threads, two digits each.
extern "C" __global__ void __launch_bounds__(1024)
vote_pick(const __grid_constant__ Vote a, u32 row, u32 pass, u64 rank_first, u64 rank_second,
          u64 rank_teeth) {
    __shared__ u32 sums[32];
    row += blockIdx.y;
    const u32 which = blockIdx.x, t = threadIdx.x;
    Rank& rank = a.ranks[2 * row + which];
    u32* digits = a.digits + (2 * row + which) * DIGITS;
    u32 left = rank.left;
    if (pass == 0)
        left = which ? (u32)(row < a.rows ? rank_second : length_of(a, row) / 4)
                     : (u32)(row < a.rows ? rank_first : rank_teeth);
    u64 prefix = pass == 0 ? 0 : rank.prefix;
    u32 one = digits[2 * t], two = digits[2 * t + 1], sum = one + two;
    digits[2 * t] = digits[2 * t + 1] = 0;
    u32 before = sum;
    for (u32 d = 1; d < 32; d <<= 1) {
        u32 other = __shfl_up_sync(~0u, before, d);
        if ((t & 31) >= d) before += other;
    }
    if ((t & 31) == 31) sums[t >> 5] = before;
    __syncthreads();
    if (t < 32) {
        u32 v = sums[t];
        for (u32 d = 1; d < 32; d <<= 1) {
            u32 other = __shfl_up_sync(~0u, v, d);
            if (t >= d) v += other;
        }
        sums[t] = v;
    }
    __syncthreads();
    before += (t >> 5 ? sums[(t >> 5) - 1] : 0) - sum;
    if (left >= before && left < before + sum) {
        bool later = left >= before + one;
        rank.prefix = prefix << 11 | (2 * t + later);
        rank.left = left - before - (later ? one : 0);
    }
}

// The energy that a finished selection stands for, rounded down to its digits.
DEV double energy_of(const Rank& r) { return __longlong_as_double((i64)(r.prefix << DIGIT_SHIFT(2))); }

DEV double threshold_of(const Vote& a, u32 row, double floor) {
    // Mean over lower quartile of noise summed over one to four looks, as in tally.rs.
    const double ratio[4] = {3.476, 2.081, 1.737, 1.577};
    u32 looks = row < a.rows ? 1 : a.combs;
    double noise = energy_of(a.ranks[2 * row + 1]) * ratio[looks - 1];
    return fmax(fmax(energy_of(a.ranks[2 * row]), 3.0 * noise), row < a.rows ? floor : 0.0);
}

// How many energies reach the threshold of their row, and how many exceed it; clears the maps.
extern "C" __global__ void vote_reach(const __grid_constant__ Vote a, double floor) {
    const u32 row = blockIdx.y;
    const double threshold = threshold_of(a, row, floor);
    const double* e = a.energies + begin_of(a, row);
    u32 reach = 0, exceed = 0, length = length_of(a, row);
    for (u32 i = rank_of(); i < length; i += size_of_grid()) {
        reach += e[i] >= threshold;
        exceed += e[i] > threshold;
        if ((i & 31) == 0) map_of(a, row)[i >> 5] = 0;
    }
    for (int d = 16; d > 0; d >>= 1) {
        reach += __shfl_xor_sync(~0u, reach, d);
        exceed += __shfl_xor_sync(~0u, exceed, d);
    }
    if ((threadIdx.x & 31) == 0 && reach) {
        atomicAdd(&a.found->reach[row], reach);
        atomicAdd(&a.found->exceed[row], exceed);
    }
}

// The kept buckets, as a list and as a map. Equal energies would keep everything: then none of them.
extern "C" __global__ void vote_keep(const __grid_constant__ Vote a, double floor, u32 keep,
                                     u32 keep_teeth) {
    const u32 row = blockIdx.y, most = row < a.rows ? keep : keep_teeth;
    const double threshold = threshold_of(a, row, floor);
    const bool strict = a.found->reach[row] > most + most / 2 || threshold == 0.0;
    const double* e = a.energies + begin_of(a, row);
    const u32 length = length_of(a, row);
    for (u32 i = rank_of(); i < length; i += size_of_grid()) {
        if (!(strict ? e[i] > threshold : e[i] >= threshold)) continue;
        atomicOr(map_of(a, row) + (i >> 5), 1u << (i & 31));
        u32 at = atomicAdd(&a.found->listed[row], 1u);
        a.list[begin_of(a, row) + at] = i;
    }
}

// The bucket of hash h that shows f.
DEV u32 bucket_of(const Vote& a, u32 h, u64 f) {
    double place = (double)product(a, a.voter[h].sigma, f) * a.scale;
    return (u32)(i64)rint(place) & (a.buckets - 1);
}
// The first place of a bucket: ⌊m·n/2B⌋ + 1 for m = 2b - 1 ≥ -1, plus n so that it is positive. B is a
// power of two, `log` that of 2B.
DEV u64 edge(const Vote& a, i64 m, u32 log) {
    const i64 n = (i64)a.n, whole = (n >> log) * m, rest = (n & ((1ll << log) - 1)) * m;
    return (u64)(whole + (rest >> log) + 1 + n);
}

// votes: the frequencies of the kept buckets of hash `proposer`; a block takes a bucket at a time,
// or a part of one. Behind a comb, only those with a kept residue: all places of the bucket are
// tested, or all residues are tried, whichever are fewer.
extern "C" __global__ void vote_elect(const __grid_constant__ Vote a, u32 proposer, u32 loops,
                                      u32 locate_loops, u32 votes, u32 confirmations, u32 parts,
                                      u64* out, u32 room) {
    const u32 kept = a.teeth ? a.found->listed[a.rows] : 0, teeth = a.teeth;
    const u32 teeth_mask = teeth & (teeth - 1) ? 0 : teeth - 1;
    const u32 all = a.found->listed[proposer] * parts;
    const u32* list = a.list + begin_of(a, proposer);
    const u32* residues = map_of(a, a.rows);
    const u32* kept_list = a.list + begin_of(a, a.rows);
    const u64 n = a.n, inverse = a.voter[proposer].inverse;
    const u64 sigma = teeth ? a.voter[proposer].sigma % teeth : 0;
    const u32 log = 32 - __clz(a.buckets);
    auto consider = [&](u64 p, bool test) {
        u64 place = p >= 2 * n ? p - 2 * n : p >= n ? p - n : p;
        u64 f = product(a, inverse, place);
        if (test && !marked(residues, teeth_mask ? (u32)f & teeth_mask : (u32)(f % teeth))) return;
        u32 count = 0;
        bool earlier = false;
        for (u32 h = 0; h < locate_loops; h++) {
            bool yes = h == proposer || marked(map_of(a, h), bucket_of(a, h, f));
            count += yes;
            earlier |= yes && h < proposer;
        }
        // What an earlier proposer shows, it has enumerated.
        if (count < votes || earlier) return;
        for (u32 h = locate_loops; h < loops; h++) count += marked(map_of(a, h), bucket_of(a, h, f));
        if (count < confirmations) return;
        u32 at = atomicAdd(&a.found->elected, 1u);
        if (at < room) out[at] = f;
    };
    for (u32 item = blockIdx.x; item < all; item += gridDim.x) {
        const i64 bucket = list[item / parts];
        const u64 lo = edge(a, 2 * bucket - 1, log), end = edge(a, 2 * bucket + 1, log);
        const u32 first = item % parts * blockDim.x + threadIdx.x, step = parts * blockDim.x;
        const u64 turns = kept && teeth_mask ? (end - lo) >> (31 - __clz(teeth)) : kept ? (end - lo) / teeth : 0;
        if (kept && kept * (turns + 1) < end - lo) {
            const u32 low = teeth_mask ? (u32)lo & teeth_mask : (u32)(lo % teeth);
            for (u32 i = first; i < kept; i += step) {
                u64 r = sigma * kept_list[i];
                u32 residue = teeth_mask ? (u32)r & teeth_mask : (u32)(r % teeth);
                u64 p = lo + (residue >= low ? residue - low : residue + teeth - low);
                for (; p < end; p += teeth) consider(p, false);
            }
        } else {
            for (u64 p = lo + first; p < end; p += step) consider(p, kept > 0);
        }
    }
}

// e^{2πix}.
DEV Z cis(double x) {
    double s, c;
    sincospi(2.0 * x, &s, &c);
    return z_of(c, s);
}

DEV double response(const Vote& a, double u) {
    double x = fabs(u) * PER_BUCKET;
    u32 i = (u32)x;
    if (i + 1 >= NODES) return 0.0;
    double s = x - i;
    const double* t = a.table + 2 * i;
    double g0 = t[0], d0 = t[1], g1 = t[2], d1 = t[3], rise = g1 - g0;
    double c2 = 3.0 * rise - 2.0 * d0 - d1, c3 = d0 + d1 - 2.0 * rise;
    return g0 + s * (d0 + s * (c2 + s * c3));
}

// Where and how a frequency shows in hash h.
struct Place {
    u32 bucket;
    double offset;
    Z phase;
};
DEV Place place_of(const Vote& a, u32 h, u64 f) {
    double place = (double)product(a, a.voter[h].sigma, f) * a.scale, nearest = rint(place);
    Place p;
    p.bucket = (u32)(i64)nearest & (a.buckets - 1);
    p.offset = nearest - place;
    p.phase = cis((double)product(a, f, a.voter[h].tau) * a.inverse);
    return p;
}

DEV void order(double& a, double& b) {
    double low = fmin(a, b), high = fmax(a, b);
    a = low;
    b = high;
}

// estimate: medians over the hashes, eight lanes per frequency, one hash each.
// `elected`: of those just elected, at most so many. The second time the changes are zero if those of the
// first were below `factor` times the noise that was left, or times the floor.
extern "C" __global__ void vote_medians(const __grid_constant__ Vote a, u32 loops, const u64* fs,
                                        u32 count, Z* out, u32 elected, u32 again, double floor,
                                        double factor) {
    const double unit = unit_of(a);
    if (elected) count = min(count, a.found->elected);
    const bool settled = again && __longlong_as_double((i64)a.found->change[0]) <
                                      factor * fmax(a.found->noise[0], floor);
    double largest = 0.0;
    const u32 lane = threadIdx.x & 7, all = (8 * count + 31) & ~31u;
    for (u32 i = rank_of(); i < all; i += size_of_grid()) {
        const u32 item = i >> 3;
        Z v = z_of(1e308, 1e308);
        if (item < count && lane < loops) {
            Place p = place_of(a, lane, fs[item]);
            Z z = rest_at(a, (u64)lane * a.buckets + p.bucket, unit);
            double gain = response(a, p.offset);
            v = times(z, z_of(p.phase.x, -p.phase.y));
            v.x /= gain;
            v.y /= gain;
        }
        // Lane 0 sorts the real parts, lane 1 the imaginary ones.
        double part[8];
#pragma unroll
        for (u32 l = 0; l < 8; l++) {
            double re = __shfl_sync(~0u, v.x, l, 8), im = __shfl_sync(~0u, v.y, l, 8);
            part[l] = lane == 1 ? im : re;
        }
        // A network of 19 comparisons sorts eight.
        order(part[0], part[2]); order(part[1], part[3]); order(part[4], part[6]); order(part[5], part[7]);
        order(part[0], part[4]); order(part[1], part[5]); order(part[2], part[6]); order(part[3], part[7]);
        order(part[0], part[1]); order(part[2], part[3]); order(part[4], part[5]); order(part[6], part[7]);
        order(part[2], part[4]); order(part[3], part[5]);
        order(part[1], part[4]); order(part[3], part[6]);
        order(part[1], part[2]); order(part[3], part[4]); order(part[5], part[6]);
        double mine = 0.0;
        if (item < count && lane < 2) {
            double low = 0.0, high = 0.0;
#pragma unroll
            for (u32 l = 0; l < 8; l++) {
                if (l == (loops - 1) / 2) low = part[l];
                if (l == loops / 2) high = part[l];
            }
            double* to = (double*)(out + item);
            to[lane] = mine = settled ? 0.0 : 0.5 * (low + high);
        }
        const double other = __shfl_xor_sync(~0u, mine, 1);
        largest = fmax(largest, fma(mine, mine, other * other));
    }
    u64 bits = (u64)__double_as_longlong(largest);
    for (int d = 16; d > 0; d >>= 1) bits = max(bits, __shfl_xor_sync(~0u, bits, d));
    if ((threadIdx.x & 31) == 0 && bits) atomicMax(&a.found->change[again], bits);
}

DEV void add_model(const Vote& a, u64 at, Z v, double gain, double per_unit) {
    if (gain == 0.0) return;
    atomicAdd((u64*)a.model + 2 * at, (u64)__double2ll_rn(v.x * gain * per_unit));
    atomicAdd((u64*)a.model + 2 * at + 1, (u64)__double2ll_rn(v.y * gain * per_unit));
}

// peel: adds amplitudes, times a sign, to the model in rows from..to.
extern "C" __global__ void vote_subtract(const __grid_constant__ Vote a, u32 from, u32 to,
                                         const u64* fs, const Z* values, u32 count, double sign) {
    const double per_unit = 1.0 / unit_of(a);
    const u32 rows = to - from, mask = a.buckets - 1;
    for (u32 i = rank_of(); i < rows * count; i += size_of_grid()) {
        const u32 item = i / rows, row = from + i % rows;
        Place p = place_of(a, row, fs[item]);
        Z v = values[item];
        v = times(z_of(sign * v.x, sign * v.y), p.phase);
        const u64 base = (u64)row * a.buckets;
        add_model(a, base + p.bucket, v, response(a, p.offset), per_unit);
        add_model(a, base + ((p.bucket + 1) & mask), v, response(a, p.offset + 1.0), per_unit);
        add_model(a, base + ((p.bucket - 1) & mask), v, response(a, p.offset - 1.0), per_unit);
    }
}

// The energy of a rank among the first buckets of two hashes, exactly, with all energies in
// registers. The exponent bit by bit, since most have the same few; then digits of the mantissa, until
// one energy is left. One block of 1024 threads.
extern "C" __global__ void __launch_bounds__(1024)
vote_noise(const __grid_constant__ Vote a, u32 each, u32 rank, double divisor, u32 which) {
    __shared__ u32 sums[2][32], counts[DIGITS], many, place;
    __shared__ u64 found;
    const double unit = unit_of(a);
    const u32 t = threadIdx.x, lane = t & 31, warp = t >> 5;
    u64 keys[8];
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
        u32 at = i * 1024 + t, hash = at >= each;
        keys[i] = ~0ull;
        if (at < 2 * each)
            keys[i] = (u64)__double_as_longlong(
                norm(rest_at(a, (u64)hash * a.buckets + at - hash * each, unit)));
    }
    u64 value = 0;
    // Energies below `value`.
    u32 before = 0;
    for (int bit = 62; bit >= 52; bit--) {
        const u64 trial = value | 1ull << bit;
        u32 below = 0;
#pragma unroll
        for (u32 i = 0; i < 8; i++) below += keys[i] < trial;
        for (int d = 16; d > 0; d >>= 1) below += __shfl_xor_sync(~0u, below, d);
        if (lane == 0) sums[bit & 1][warp] = below;
        __syncthreads();
        below = sums[bit & 1][lane];
        for (int d = 16; d > 0; d >>= 1) below += __shfl_xor_sync(~0u, below, d);
        if (below <= rank) {
            value = trial;
            before = below;
        }
    }
    u32 left = rank - before;
    u64 prefix = value >> 52;
    for (int high = 52; high > 0;) {
        const int low = high > 11 ? high - 11 : 0;
        counts[t] = counts[t + 1024] = 0;
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < 8; i++)
            if (keys[i] >> high == prefix)
                atomicAdd(&counts[(u32)(keys[i] >> low) & ((1u << (high - low)) - 1)], 1u);
        __syncthreads();
        const u32 one = counts[2 * t], sum = one + counts[2 * t + 1];
        u32 up = sum;
        for (u32 d = 1; d < 32; d <<= 1) {
            const u32 other = __shfl_up_sync(~0u, up, d);
            if (lane >= d) up += other;
        }
        if (lane == 31) sums[0][warp] = up;
        __syncthreads();
        u32 all = sums[0][lane];
        for (u32 d = 1; d < 32; d <<= 1) {
            const u32 other = __shfl_up_sync(~0u, all, d);
            if (lane >= d) all += other;
        }
        const u32 warps = __shfl_sync(~0u, all, warp > 0 ? warp - 1 : 0);
        up += (warp > 0 ? warps : 0) - sum;
        if (left >= up && left < up + sum) {
            const bool later = left >= up + one;
            found = prefix << (high - low) | (2 * t + later);
            place = left - up - (later ? one : 0);
            many = later ? sum - one : one;
        }
        __syncthreads();
        prefix = found;
        left = place;
        high = low;
        if (many == 1) {
            // The one that is left is known to its thread.
            __syncthreads();
#pragma unroll
            for (u32 i = 0; i < 8; i++)
                if (keys[i] >> high == prefix) found = keys[i];
            __syncthreads();
            prefix = found;
            break;
        }
    }
    if (t == 0) a.found->noise[which] = __longlong_as_double((i64)prefix) / divisor;
}

// The noise of the witness from a finished selection, and how many of its energies exceed `factor` times that,
// or times the floor.
extern "C" __global__ void vote_witness(const __grid_constant__ Vote a, u32 row, double divisor,
                                        double floor, double factor) {
    const double noise = energy_of(a.ranks[2 * row]) / divisor;
    if (rank_of() == 0) a.found->noise[0] = noise;
    count_above(a, row, factor * fmax(noise, floor));
}

// certify: the answer at one instant per block, out[instant] = Σ a_f e^{2πift/n}, always added up
// in the same order; behind these, the samples.
extern "C" __global__ void __launch_bounds__(256)
vote_instants(const __grid_constant__ Vote a, const u64* instants, const u64* fs, const Z* values,
              u32 count, Z* out) {
    __shared__ Z parts[8];
    const u64 t = instants[blockIdx.x];
    Z sum = z_of(0.0, 0.0);
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) {
        Z v = times(values[i], cis((double)product(a, fs[i], t) * a.inverse));
        sum.x += v.x;
        sum.y += v.y;
    }
    for (int d = 16; d > 0; d >>= 1) {
        sum.x += __shfl_xor_sync(~0u, sum.x, d);
        sum.y += __shfl_xor_sync(~0u, sum.y, d);
    }
    if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (u32 w = 1; w < 8; w++) {
            sum.x += parts[w].x;
            sum.y += parts[w].y;
        }
        out[blockIdx.x] = sum;
        out[gridDim.x + blockIdx.x] = sample(a, t);
    }
}
