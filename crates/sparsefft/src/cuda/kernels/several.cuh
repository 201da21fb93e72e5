// Two to four frequencies of one noisy bin, by a warp, from eight lines of four shifts.
//
// The lines lie at 0, 4, 8, 12, at e, 2e, 3e, and at 32e, so there are sequences of equal steps on three scales:
// sixteen shifts in a row, and four at distances 4 and e for each of four neighbours. Frequencies that
// are close on one scale are apart on another. For one scale and m frequencies:
// 1. predict: c minimises Σ|y[i+m] - Σ_k c_k y[i+k]|² over the sequences; the phasors of one step are
//    the roots of z^m = Σ_k c_k z^k. With fewer frequencies than m the last pivot of these equations is no more than
//    noise, with more of them what they leave is more than noise, and nothing else is tried.
// 2. unwrap: the values of the four neighbours give a coarse phase per shift, which tells how many
//    turns a step of 4 or e has made.
// 3. refine: Gauss and Newton's steps, y[x] = Σ_i (a_i + x·d_i) w^{x·t_i} by least squares, and
//    t_i += Im(d_i/a_i)/2π; farther lines join as the phases become certain. In single precision, far below the
//    noise: the next step corrects the last one, and step 4 asks again.
// 4. settle: the nearest frequencies that the bin allows, if the covariance of step 3 says that they
//    are `CERTAIN` standard deviations from the next ones; their values, and what they leave.
// Two frequencies that no scale tells apart are the best of all pairs of neighbours, instead of steps 1 to 3.
//
// Lane 8i + k of the warp holds entry (i, k) of every matrix; frequency i belongs to the lanes 8i + k.
#pragma once
#include "locate.cuh"

// Steps 1 … 4 are scales; so are e, and neighbours on all lines. CLOSE tries pairs instead of steps 1 to 3. With SPLIT
// one frequency more is looked for, with PATIENT every step of refine is made twice.
const u32 FAR = 5, LINE = 6, CLOSE = 7, SPLIT = 16, PATIENT = 32;
// Neighbouring frequencies of the bin that CLOSE tries in pairs.
const u32 TRIED = 64;
const u32 NEAR_LINES = 4, ALL_LINES = 8, ALL_LANES = 4 * ALL_LINES;
// Distance of the phasors of one frequency from those of the next: two neighbours of four lie in other banks.
const u32 APART = ALL_LANES + 2;
// Standard deviations between a frequency and the border to the next, as the ladder's least margin.
const double CERTAIN = 6.0;
// Share of the energy that a first step with enough frequencies hardly leaves.
const float HOPELESS = 0.05f;
// Of what noise is expected to leave of a sample that others predict: fewer frequencies than are looked for leave
// less than FEW times this, more than are looked for leave more than MANY times this and what rounding does.
const float FEW = 2.0f, MANY = 16.0f, ROUNDED = 1e-5f;
// Turns that a phase may be off before the nearest whole number of them is taken.
const double SKIP = 0.1;

DEV Z shuffled(Z v, u32 lane) { return z_of(__shfl_sync(~0u, v.x, lane), __shfl_sync(~0u, v.y, lane)); }
DEV double warp_sum(double v) {
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
    return v;
}
DEV float2 times_f(float2 a, float2 b) {
    return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}
// 1/v for normal v.
DEV float inverse_f(float v) {
#ifdef __CUDA_ARCH__
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
#else
    return 1.0f / v;
#endif
}
// √v.
DEV float root_f(float v) {
#ifdef __CUDA_ARCH__
    float r;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
#else
    return sqrtf(v);
#endif
}
DEV float2 quotient_f(float2 a, float2 b) {
    const float r = inverse_f(b.x * b.x + b.y * b.y);
    return make_float2((a.x * b.x + a.y * b.y) * r, (a.y * b.x - a.x * b.y) * r);
}

// Root number lane/8 of Σ_k c_k z^k, k ≤ m ≤ 4, by Aberth's iteration, in single precision. Of the eight
// lanes of a root, half have the polynomial and half its derivative, and each another root. A loop keeps the
// code short: it runs once, and waits for its instructions otherwise.
DEV float2 root_of(const float2* c, u32 m, u32 lane) {
    const u32 mine = lane >> 3, other = lane & 3;
    float2 cf[5], z;
#pragma unroll
    for (u32 k = 0; k < 5; k++) {
        const float2 rise = k < 4 ? make_float2((k + 1.0f) * c[k < 4 ? k + 1 : 4].x, (k + 1.0f) * c[k < 4 ? k + 1 : 4].y)
                                  : make_float2(0.0f, 0.0f);
        cf[k] = lane & 4 ? rise : c[k];
    }
    __sincosf(6.2831853f * ((float)mine + 0.35f) / (float)m, &z.y, &z.x);
#pragma unroll 1
    for (u32 turn = 0; turn < 16; turn++) {
        float2 p = cf[4], sum;
#pragma unroll
        for (int k = 3; k >= 0; k--) {
            p = times_f(p, z);
            p = make_float2(p.x + cf[k].x, p.y + cf[k].y);
        }
        const u32 low = lane & ~4u, high = lane | 4;
        const float2 value = make_float2(__shfl_sync(~0u, p.x, low), __shfl_sync(~0u, p.y, low));
        const float2 rise = make_float2(__shfl_sync(~0u, p.x, high), __shfl_sync(~0u, p.y, high));
        const float2 gap = make_float2(z.x - __shfl_sync(~0u, z.x, 8 * other), z.y - __shfl_sync(~0u, z.y, 8 * other));
        sum = quotient_f(make_float2(1.0f, 0.0f), gap);
        if (other >= m || other == mine) sum = make_float2(0.0f, 0.0f);
#pragma unroll
        for (u32 d = 1; d < 4; d <<= 1)
            sum = make_float2(sum.x + __shfl_xor_sync(~0u, sum.x, d), sum.y + __shfl_xor_sync(~0u, sum.y, d));
        const float2 ratio = quotient_f(value, rise);
        float2 slope = times_f(ratio, sum);
        slope = make_float2(1.0f - slope.x, -slope.y);
        const float2 step = quotient_f(ratio, slope);
        z = make_float2(z.x - step.x, z.y - step.y);
        // The iteration is of third order: the next step would be far below the precision.
        if (!__any_sync(~0u, mine < m && step.x * step.x + step.y * step.y > 1e-6f)) break;
    }
    return z;
}
DEV Z root_of(const Z* c, u32 m, u32 lane) {
    float2 cf[5];
#pragma unroll
    for (u32 k = 0; k < 5; k++) cf[k] = make_float2((float)c[k].x, (float)c[k].y);
    const float2 z = root_of(cf, m, lane);
    return z_of(z.x, z.y);
}

DEV float2 shuffled_f(float2 v, u32 lane) {
    return make_float2(__shfl_sync(~0u, v.x, lane), __shfl_sync(~0u, v.y, lane));
}
// to + a·conj(b), and a - b·c.
DEV float2 add_conj_f(float2 to, float2 a, float2 b) {
    return make_float2(to.x + a.x * b.x + a.y * b.y, to.y + a.y * b.x - a.x * b.y);
}
DEV float2 less_f(float2 a, float2 b, float2 c) {
    return make_float2(a.x - b.x * c.x + b.y * c.y, a.y - b.x * c.y - b.y * c.x);
}
// arg(v)/2π, likewise: `turns` with a shorter polynomial.
DEV float turns_f(float2 v) {
    const float ax = fabsf(v.x), ay = fabsf(v.y);
    const bool steep = ax < ay;
    const float lo = steep ? ax : ay, hi = steep ? ay : ax;
    const bool upper = 0.41421356f * hi < lo;
    const float num = upper ? lo - hi : lo, den = upper ? lo + hi : hi;
    const float t = num * inverse_f(den > 0.0f ? den : 1.0f), u = t * t;
    float p = 0.01270846f;
    p = p * u - 0.02204531f;
    p = p * u + 0.03179025f;
    p = p * u - 0.05305079f;
    p = p * u + 0.15915494f;
    float a = t * p + (upper ? 0.125f : 0.0f);
    a = steep ? 0.25f - a : a;
    a = v.x < 0.0f ? 0.5f - a : a;
    return v.y < 0.0f ? -a : a;
}

// Where a lane of the eight lines lies.
DEV u32 place_of(u32 l, u32 e) {
    const u32 line = l >> 2;
    return (line < NEAR_LINES ? 4 * line : line < 7 ? (line - 3) * e : 32 * e) + (l & 3);
}

// Four equations, of which `size` count, and their right sides in other columns: h becomes what the
// inverse makes of it. Positive definite, so any pivot will do.
DEV void eliminate(Z& h, u32 size, u32 row, u32 column) {
#pragma unroll 1
    for (u32 p = 0; p < size; p++) {
        const double inverse = inverse_of(__shfl_sync(~0u, h.x, 9 * p));
        const Z top = scaled(shuffled(h, 8 * p + column), inverse), entry = shuffled(h, 8 * row + p);
        h = row == p ? top : minus(h, times(entry, top));
    }
}

// The same in single precision. Gives the last pivot.
DEV float eliminate_f(float2& h, u32 size, u32 row, u32 column) {
    float pivot = 0.0f;
#pragma unroll 1
    for (u32 p = 0; p < size; p++) {
        pivot = __shfl_sync(~0u, h.x, 9 * p);
        const float inverse = inverse_f(pivot);
        float2 top = shuffled_f(h, 8 * p + column);
        const float2 entry = shuffled_f(h, 8 * row + p);
        top = make_float2(top.x * inverse, top.y * inverse);
        h = row == p ? top : less_f(h, entry, top);
    }
    return pivot;
}

struct Several {
    const Ring& ring;
    // The lanes of the bin, their energy, and the same of energy one in single precision; where they lie, and room
    // for four phasors at each of them.
    const Z* u;
    double energy;
    const float2* w;
    const float2* places;
    Z* phasors;
    // Of others that have explained the bin, eight times the number of their frequencies and their rank among
    // those with as many: `others` numbers, read and written by atomics, since nobody waits for them.
    u32* solved;
    u32 others;
    // The third scale, the warp's lane, the bin and its comb.
    u32 e, lane, b, bins;
    double bin;

    // Whether the bin is explained by one that comes before this order, whose find counts in any case.
    __device__ bool stopped(u32 order) const {
        const u32 its = lane < others ? atomicOr(solved + lane, 0u) : 0;
        return __any_sync(~0u, its != 0 && its < order);
    }

    // predict and unwrap: the phase per shift of this row's frequency, in single precision as well. `share` is that
    // of a lane's noise in the energy. Where the samples do not show as many frequencies on this scale, or, unless
    // one is to be split, show more, `good` becomes false.
    __device__ double start(u32 scale, u32 m, float share, bool split, bool& good) const {
        const u32 row = lane >> 3, column = lane & 7;
        // Equations come in runs of neighbours; sample k of the run j begins there.
        const u32 runs = scale <= 4 ? 1 : scale == LINE ? ALL_LINES : 4 - m;
        const u32 each = scale <= 4 ? 16 - scale * m : scale == LINE ? 4 - m : 4;
        const auto begin = [&](u32 j, u32 k) {
            return scale <= 4 ? scale * k : scale == LINE ? 4 * j + k : j + k == 0 ? 0 : 4 * (j + k + 3);
        };
        float2 h = make_float2(0.0f, 0.0f), c[5], z;
        float norms = 0.0f;
        const u32 other = column <= m ? column : m;
#pragma unroll 1
        for (u32 j = 0; j < runs; j++) {
            const float2 *theirs = w + begin(j, other), *ours = w + begin(j, row <= m ? row : 0);
#pragma unroll 4
            for (u32 i = 0; i < each; i++) h = add_conj_f(h, theirs[i], ours[i]);
        }
        // The last pivot is what the samples before leave of one, and row m what all of them leave of the next.
        const float unit = share * (float)(runs * each), last = eliminate_f(h, m, row, column);
        const float rest = __shfl_sync(~0u, h.x, 9 * (m & 3));
#pragma unroll
        for (u32 k = 0; k < 5; k++) {
            c[k] = shuffled_f(h, 8 * (k & 3) + m);
            if (k >= m) c[k] = make_float2(k == m ? -1.0f : 0.0f, 0.0f);
            norms += c[k].x * c[k].x + c[k].y * c[k].y;
        }
        good = last > FEW * (m == 2 ? 2.0f : m == 3 ? 6.0f : 20.0f) * unit &&
               (m == 4 || split || rest <= MANY * norms * unit + ROUNDED);
        if (!good) return 0.0;
        if (m == 2) {
            // c1/2 ± √(c1²/4 + c0).
            const float2 half = make_float2(0.5f * c[1].x, 0.5f * c[1].y);
            const float2 d = less_f(c[0], make_float2(-half.x, -half.y), half);
            const float a = root_f(0.5f * (root_f(d.x * d.x + d.y * d.y) + fabsf(d.x)));
            const float b = a > 0.0f ? 0.5f * fabsf(d.y) * inverse_f(a) : 0.0f;
            float2 r = d.x >= 0.0f ? make_float2(a, b) : make_float2(b, a);
            if (d.y < 0.0f) r.y = -r.y;
            z = row & 1 ? make_float2(half.x - r.x, half.y - r.y) : make_float2(half.x + r.x, half.y + r.y);
        } else {
            z = root_of(c, m, lane);
        }
        const float fine = turns_f(z);
        if (scale == 1 || scale == LINE) return fine;
        __sincosf(6.2831853f * fine, &z.y, &z.x);
        // Gram's matrix in the first four columns, the neighbours in the others.
        const float2 theirs = shuffled_f(z, 8 * (column & 3));
        float2 mine = make_float2(1.0f, 0.0f), right = mine;
        h = make_float2(0.0f, 0.0f);
        const u32 points = scale <= 4 ? 12 / scale + 1 : 4;
#pragma unroll 1
        for (u32 k = 0; k < points; k++) {
            const u32 at = scale <= 4 ? scale * k : k == 0 ? 0 : 4 * (k + 3);
            h = add_conj_f(h, column < 4 ? right : w[at + (column & 3)], mine);
            mine = times_f(mine, z);
            right = times_f(right, theirs);
        }
        eliminate_f(h, m, row, column);
        float2 p = make_float2(0.0f, 0.0f), before = shuffled_f(h, 8 * row + 4);
#pragma unroll
        for (u32 k = 5; k < 8; k++) {
            const float2 next = shuffled_f(h, 8 * row + k);
            p = add_conj_f(p, next, before);
            before = next;
        }
        const double step = scale <= 4 ? scale : e;
        return (rint(turns_f(p) * step - fine) + fine) * inverse_of(step);
    }

    // refine: one step over the first lanes, of `mine`: samples lane mod 8, and every eighth after it. Gives t of
    // this row, its variance over that of a sample, and the share of the samples' energy that is left; or ends early
    // where another explains the bin.
    __device__ double refine(double t, u32 m, u32 lanes, u32 order, const float2* mine, float& variance,
                             float& left) const {
        const u32 row = lane >> 3, column = lane & 7;
        const float scale = inverse_f(places[lanes - 1].x);
        float2* p = (float2*)phasors;
        const double place = places[lane].x;
        __syncwarp();
        // Of all four, which wait together.
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            const double turn = __shfl_sync(~0u, t, 8 * i) * place;
            float2 v;
            __sincosf(6.2831853f * (float)(turn - rint(turn)), &v.y, &v.x);
            p[i * APART + lane] = v;
        }
        __syncwarp();
        // Σ_l x^a conj(p_row) p_(column mod 4) over the first lanes, a = 0, 1, 2; x = place·scale.
        float energy = 0.0f;
        float2 s0 = make_float2(0.0f, 0.0f), s1 = s0, s2 = s0, r0 = s0, r1 = s0;
        const float2 *ours = p + row * APART, *theirs = p + (column & 3) * APART;
#pragma unroll 2
        for (u32 first = 0; first < lanes; first += 4) {
            // Lanes come in fours.
#pragma unroll
            for (u32 k = 0; k < 4; k += 2) {
                const u32 l = first + k + (column >> 2);
                const float2 v = add_conj_f(make_float2(0.0f, 0.0f), theirs[l], ours[l]), x = places[l];
                s0 = make_float2(s0.x + v.x, s0.y + v.y);
                s1 = make_float2(s1.x + x.x * v.x, s1.y + x.x * v.y);
                s2 = make_float2(s2.x + x.y * v.x, s2.y + x.y * v.y);
            }
        }
        s1 = make_float2(s1.x * scale, s1.y * scale);
        s2 = make_float2(s2.x * scale * scale, s2.y * scale * scale);
        const float2 h0 = shuffled_f(s0, lane ^ 4), h1 = shuffled_f(s1, lane ^ 4), h2 = shuffled_f(s2, lane ^ 4);
        s0 = make_float2(s0.x + h0.x, s0.y + h0.y);
        s1 = make_float2(s1.x + h1.x, s1.y + h1.y);
        s2 = make_float2(s2.x + h2.x, s2.y + h2.y);
        // Σ_l x^a conj(p_row) u, a = 0, 1.
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            const u32 l = column + 8 * i;
            if (l >= lanes) continue;
            const float2 v = add_conj_f(make_float2(0.0f, 0.0f), mine[i], ours[l]);
            const float x = places[l].x * scale;
            r0 = make_float2(r0.x + v.x, r0.y + v.y);
            r1 = make_float2(r1.x + x * v.x, r1.y + x * v.y);
            energy += mine[i].x * mine[i].x + mine[i].y * mine[i].y;
        }
#pragma unroll
        for (u32 d = 1; d < 8; d <<= 1) {
            const float2 a = shuffled_f(r0, lane ^ d), b = shuffled_f(r1, lane ^ d);
            r0 = make_float2(r0.x + a.x, r0.y + a.y);
            r1 = make_float2(r1.x + b.x, r1.y + b.y);
            energy += __shfl_xor_sync(~0u, energy, d);
        }
        left = 1.0f;
        if (stopped(order)) return t;
        const float2 b0 = r0, b1 = r1;
        // Rows 0…3 are for values, 4…7 for slopes; columns likewise. The inverse takes the place of the matrix. Values
        // come first: slopes are close to differences of values where frequencies are close.
        float2 a0 = column < 4 ? s0 : s1, a1 = column < 4 ? s1 : s2;
#pragma unroll
        for (u32 slopes = 0; slopes < 2; slopes++) {
#pragma unroll 1
            for (u32 p = 0; p < m; p++) {
                const u32 pivot = slopes ? p + 4 : p;
                const bool here = row == p;
                const float2 e0 = shuffled_f(a0, 8 * row + pivot), e1 = shuffled_f(a1, 8 * row + pivot);
                const float inverse = inverse_f(__shfl_sync(~0u, slopes ? a1.x : a0.x, 8 * p + pivot));
                if (column == pivot) {
                    a0 = make_float2(!slopes && here ? 1.0f : 0.0f, 0.0f);
                    a1 = make_float2(slopes && here ? 1.0f : 0.0f, 0.0f);
                }
                float2 top = shuffled_f(slopes ? a1 : a0, 8 * p + column), right = shuffled_f(slopes ? r1 : r0, 8 * p);
                top = make_float2(top.x * inverse, top.y * inverse);
                right = make_float2(right.x * inverse, right.y * inverse);
                a0 = here && !slopes ? top : less_f(a0, e0, top);
                a1 = here && slopes ? top : less_f(a1, e1, top);
                r0 = here && !slopes ? right : less_f(r0, e0, right);
                r1 = here && slopes ? right : less_f(r1, e1, right);
            }
        }
        const float size = r0.x * r0.x + r0.y * r0.y, per = scale * inverse_f(6.2831853f * size);
        float known = row < m ? b0.x * r0.x + b0.y * r0.y + b1.x * r1.x + b1.y * r1.y : 0.0f;
        known += __shfl_xor_sync(~0u, known, 8);
        known += __shfl_xor_sync(~0u, known, 16);
        left = 1.0f - known * inverse_f(energy);
        variance = 0.5f * __shfl_sync(~0u, a1.x, 8 * row + 4 + (row & 3)) * per * per * size;
        return t + (double)((r1.y * r0.x - r1.x * r0.y) * per);
    }

    // split: of m - 1 phases that near lines give, the one that does not turn evenly over the far lines
    // is two. Gives m phases.
    __device__ double split(double t, u32 m) const {
        const u32 row = lane >> 3, column = lane & 7;
        const Z z = cis(t - rint(t)), theirs = shuffled(z, 8 * (column & 3));
        Z mine = z_of(1.0, 0.0), right = mine, h = z_of(0.0, 0.0);
        // Gram's matrix in the first four columns, the lines 0, e, 2e, 3e in the others.
        const u32 at = column < 5 ? 0 : 4 * (column - 1);
#pragma unroll
        for (u32 k = 0; k < 4; k++) {
            h = add_conj(h, column < 4 ? right : u[at + k], mine);
            mine = times(mine, z);
            right = times(right, theirs);
        }
        eliminate(h, m - 1, row, column);
        One l;
#pragma unroll
        for (u32 k = 0; k < 4; k++) l.u[k] = shuffled(h, 8 * row + 4 + k);
        Z p = z_of(0.0, 0.0);
#pragma unroll
        for (u32 k = 0; k < 3; k++) p = add_conj(p, l.u[k + 1], l.u[k]);
        double fine = turns(p), pairs[2] = {fine, fine};
        // What an even turn leaves, relative to a fixed power so that it means the same for all rows.
        const Z step = cis(fine), value = scaled(project(l, 0, step), 0.25);
        double odd = l.energy() - 4.0 * norm(value);
        u32 which = row;
        if (row >= m - 1) odd = -1.0;
#pragma unroll
        for (u32 d = 8; d < 32; d <<= 1) {
            const double other = __shfl_xor_sync(~0u, odd, d);
            const u32 its = __shfl_xor_sync(~0u, which, d);
            if (other > odd || (other == odd && its < which)) {
                odd = other;
                which = its;
            }
        }
        twin(l, pairs);
        const double near = row == m - 1 ? __shfl_sync(~0u, t, 8 * which) : (__shfl_sync(~0u, t, 8 * which), t);
        const double second = __shfl_sync(~0u, pairs[1], 8 * which);
        fine = row == m - 1 ? second : row == which ? pairs[0] : fine;
        return (rint(near * e - fine) + fine) * inverse_of(e);
    }

    // Σ_l v[l] conj(w^{x_l·f}), or the same of ones.
    __device__ Z matched(u64 f, const Z* v) const {
        const Z z = ring.root(f), one = z_of(1.0, 0.0);
        Z sum = z_of(0.0, 0.0);
#pragma unroll 2
        for (u32 j = 0; j < ALL_LINES; j++) {
            const Z turn = ring.root(ring.reduced(f * place_of(4 * j, e)));
            Z line = v ? v[4 * j + 3] : one;
#pragma unroll
            for (int k = 2; k >= 0; k--) line = add_conj(v ? v[4 * j + k] : one, line, z);
            sum = add_conj(sum, line, turn);
        }
        return sum;
    }

    // Two frequencies that are one to all lines but the farthest: of all pairs of TRIED that the bin allows around the
    // phase of the near lines, the one whose fit leaves the least. Rows 0 and 1 get them. False where another pair
    // leaves less than CERTAIN²/2 times the noise more: a wrong one would come first with a chance of CERTAIN standard
    // deviations at most, whatever lies between them.
    __device__ bool closest(u32 order, double noise, u64& f) const {
        const u32 row = lane >> 3;
        Z p = z_of(0.0, 0.0);
        if (lane < 4 * NEAR_LINES - 1) p = add_conj(p, u[lane + 1], u[lane]);
        p = z_of(warp_sum(p.x), warp_sum(p.y));
        double away;
        const u64 middle = ring.snap(turns(p), bins, bin, b, away);
        const auto candidate = [&](u32 i) {
            return ring.reduced(middle + ring.n + (u64)bins * i - (u64)bins * (TRIED / 2));
        };
        Z *matches = phasors, *overlaps = phasors + TRIED;
        __syncwarp();
#pragma unroll 1
        for (u32 i = lane; i < 2 * TRIED; i += 32) {
            const bool first = i < TRIED;
            phasors[i] = matched(first ? candidate(i) : (u64)bins * (i - TRIED), first ? u : nullptr);
        }
        __syncwarp();
        if (stopped(order)) return false;
        // What a pair explains of the energy; a lane has all pairs of two distances, which are as many for everyone.
        const double all = ALL_LANES;
        double best = 0.0, second = 0.0;
        u32 which = 0;
#pragma unroll 1
        for (u32 turn = 0; turn < (lane == 31 ? 1 : 2); turn++) {
            const u32 apart = turn ? TRIED - 1 - lane : lane + 1;
            const Z overlap = overlaps[apart];
            const double inverse = inverse_of(all * all - norm(overlap));
#pragma unroll 4
            for (u32 i = 0; i + apart < TRIED; i++) {
                const Z one = matches[i], two = matches[i + apart], cross = add_conj(z_of(0.0, 0.0), two, one);
                const double both = cross.x * overlap.x + cross.y * overlap.y;
                const double gain = (all * (norm(one) + norm(two)) - 2.0 * both) * inverse;
                if (gain > best) {
                    second = best;
                    best = gain;
                    which = apart << 8 | i;
                } else if (gain > second) {
                    second = gain;
                }
            }
        }
#pragma unroll
        for (u32 d = 1; d < 32; d <<= 1) {
            const double other = __shfl_xor_sync(~0u, best, d), others = __shfl_xor_sync(~0u, second, d);
            const u32 its = __shfl_xor_sync(~0u, which, d);
            const bool mine = best > other || (best == other && which < its);
            second = mine ? fmax(second, other) : fmax(others, best);
            best = mine ? best : other;
            which = mine ? which : its;
        }
        const u32 low = which & 255, high = low + (which >> 8);
        f = candidate(row == 0 ? low : high);
        // Beyond the last one tried there may be a better one.
        return low > 0 && high + 1 < TRIED && best - second >= 0.5 * CERTAIN * CERTAIN * noise;
    }

    // Steps 1 to 3 for one scale and m frequencies: the nearest f that the bin allows to this row's phase. False where
    // it is not certain.
    __device__ bool climb(u32 kind, u32 m, u32 order, double noise, u64& f) const {
        const u32 row = lane >> 3, column = lane & 7, scale = kind & (PATIENT - 1);
        bool again = kind & PATIENT;
        float2 mine[4];
#pragma unroll
        for (u32 i = 0; i < 4; i++) mine[i] = w[column + 8 * i];
        float variance = 0.0f, left_over;
        const bool splits = scale >= SPLIT;
        bool good;
        const float share = (float)(noise * inverse_of(energy));
        double t = start(splits ? scale - SPLIT : scale, splits ? m - 1 : m, share, splits, good);
        if (!good) return false;
        // Farther lines as the phases become certain; phases that are split come after one step with all of them.
        const u32 first = splits || scale == FAR ? 2 : 0;
        u32 whole = splits ? 1 : 0;
#pragma unroll 1
        for (u32 turn = splits ? 0 : first; turn < 4; turn++) {
            if (stopped(order)) return false;
            const u32 lanes = turn == 0 ? 16 : turn == 1 ? 20 : turn == 2 ? 28 : 32;
            t = refine(t, m - whole, lanes, order, mine, variance, left_over);
            if (whole) {
                t = split(t, m);
                whole = 0;
                turn = 1;
                continue;
            }
            if (again) {
                again = false;
                turn--;
                continue;
            }
            again = kind & PATIENT;
            // Others are waiting: too few frequencies show at once.
            if (turn == first && left_over > HOPELESS) return false;
            // The line at e may be left out where the phases are good enough for those at 2e and 3e.
            const double off = variance * noise * (9.0 * e * e);
            if (turn == 0 && __all_sync(~0u, row >= m || CERTAIN * CERTAIN * off <= SKIP * SKIP * energy)) turn = 1;
        }
        t -= rint(t);
        double away;
        f = ring.snap(t, bins, bin, b, away);
        const double border = 0.5 * bins * ring.inverse;
        good = row >= m || CERTAIN * CERTAIN * variance * noise <= border * border * energy;
        for (u32 k = 0; k < m; k++) {
            const u64 other = __shfl_sync(~0u, f, 8 * k);
            good &= k == row || row >= m || other != f;
        }
        return good;
    }

    // The whole, for one scale and m frequencies. `noise` is the power of a lane, `limit` what the fit
    // may leave, `least` the power of the weakest value that counts. True if this row's f and a, and
    // those of the other rows below m, explain the bin.
    __device__ bool solve(u32 scale, u32 m, u32 order, double noise, double limit, double least, u64& f, Z& a) const {
        const u32 row = lane >> 3, column = lane & 7;
        bool good;
        if (scale == CLOSE) {
            good = closest(order, noise, f);
        } else {
            good = climb(scale, m, order, noise, f);
        }
        if (!__all_sync(~0u, good) || stopped(order)) return false;
        __syncwarp();
        // Of all four, which wait together.
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            const u64 at = ring.reduced(__shfl_sync(~0u, f, 8 * i) * place_of(lane, e));
            phasors[i * APART + lane] = ring.root(at);
        }
        __syncwarp();
        // Gram's matrix in the first four columns, in two halves; the samples, in four parts, in the others.
        Z h = z_of(0.0, 0.0), right = h;
        const Z *ours = phasors + row * APART, *theirs = phasors + (column & 3) * APART;
#pragma unroll 8
        for (u32 l = column >> 2; l < ALL_LANES; l += 2) h = add_conj(h, theirs[l], ours[l]);
        h = plus(h, shuffled(h, lane ^ 4));
#pragma unroll
        for (u32 l = column; l < ALL_LANES; l += 8) right = add_conj(right, u[l], ours[l]);
#pragma unroll
        for (u32 d = 1; d < 8; d <<= 1) right = plus(right, shuffled(right, lane ^ d));
        if (column >= 4) h = right;
        eliminate(h, m, row, column);
        a = shuffled(h, 8 * row + 4);
        Z rest = u[lane];
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            const Z value = shuffled(a, 8 * i);
            if (i < m) rest = minus(rest, times(value, phasors[i * APART + lane]));
        }
        const double left = warp_sum(norm(rest));
        good = row >= m || norm(a) >= least;
        return __all_sync(~0u, good) && left <= limit;
    }
};
