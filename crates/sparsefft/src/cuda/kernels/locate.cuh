// Bins of hashes: where their frequencies lie, and with which values. One or two per bin, from the
// phases of its four shifts on one line or several; the same for a comb and for a window.
#pragma once
#include "fft.cuh"

typedef unsigned long long u64;
typedef unsigned int u32;
typedef long long i64;

struct __align__(16) Z {
    double x, y;
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

// 1/v for normal v, without the branches of a division.
DEV double inverse_of(double v) {
#ifdef __CUDA_ARCH__
    double r;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(v));
    r = fma(r, fma(-v, r, 1.0), r);
    return fma(r, fma(-v, r, 1.0), r);
#else
    return 1.0 / v;
#endif
}
// 1/√v likewise.
DEV double inverse_root_of(double v) {
#ifdef __CUDA_ARCH__
    double r;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(v));
    const double e = fma(-v * r, r, 1.0);
    return fma(r * e, fma(e, 0.375, 0.5), r);
#else
    return 1.0 / sqrt(v);
#endif
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
    double t = num * inverse_of(den > 0.0 ? den : 1.0);
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

DEV Z quotient(Z a, Z b) { return scaled(times(a, conj(b)), inverse_of(norm(b))); }

DEV Z square_root(Z v) {
    const double size = norm(v);
    if (size < 1e-290) return z_of(0.0, 0.0);
    const double w = 0.5 * fma(size, inverse_root_of(size), fabs(v.x)), inverse = inverse_root_of(w);
    const double a = w * inverse, b = 0.5 * v.y * inverse;
    return v.x >= 0.0 ? z_of(a, b) : z_of(fabs(b), copysign(a, v.y));
}

// Indices and roots mod n.
struct Ring {
    u64 n, mask;
    double inverse;

    // v mod n, for v below n·2^40.
    __device__ u64 reduced(u64 v) const {
        if (mask) return v & mask;
#ifdef ANY_LENGTH
        // The quotient is estimated to within one, which costs far less than a division of whole numbers.
        i64 r = (i64)(v - (u64)((double)v * inverse) * n);
        r = r < 0 ? r + (i64)n : r;
        return (u64)(r >= (i64)n ? r - (i64)n : r);
#else
        return v % n;
#endif
    }
    __device__ Z root(u64 r) const { return cis((double)r * inverse); }
    __device__ Z phase(u64 f, u64 t) const { return root(reduced(f * t)); }
    // The nearest integer of residue class b mod m to t turns, |t| < 1; `inverse` is 1/m.
    __device__ u64 snap(double t, double modulus, double inverse, double residue,
                        double& away) const {
        double n = (double)this->n, goal = t * n;
        double f = fma(rint((goal - residue) * inverse), modulus, residue);
        away = fabs(f - goal);
        f = f < 0.0 ? f + n : f;
        f = f >= n ? f - n : f;
        return (u64)f;
    }
};

// The same with one line, in registers: loops over lines vanish.
struct One {
    Z u[4];
    static const u32 lines = 1;
    __device__ One() {}
    __device__ explicit One(const Z* p) {
#pragma unroll
        for (u32 tau = 0; tau < 4; tau++) u[tau] = p[tau];
    }
    __device__ Z at(u32, u32 tau) const { return u[tau]; }
    __device__ u64 offset(u32) const { return 0; }
    __device__ u32 count() const { return 4; }
    __device__ double energy() const {
        return (norm(u[0]) + norm(u[1])) + (norm(u[2]) + norm(u[3]));
    }
};

// Σ_τ line[τ]·conj(z)^τ.
template <class L>
DEV Z project(const L& l, u32 j, Z z) {
    Z v = l.at(j, 3);
    v = add_conj(l.at(j, 2), v, z);
    v = add_conj(l.at(j, 1), v, z);
    return add_conj(l.at(j, 0), v, z);
}

// locate: one frequency.
template <class L>
DEV double single(const L& l) {
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
            const Z value = project(l, i, z);
            const double back = -t * (double)l.offset(i);
            sum = plus(sum, l.offset(i) ? times(value, cis(back - rint(back))) : value);
        }
        const double distance = (double)l.offset(j), back = -t * distance;
        Z here = times(project(l, j, z), cis(back - rint(back)));
        t += turns(times(here, conj(sum))) * inverse_of(distance);
    }
    return t;
}

// The two values that explain one line best at these turns.
template <class L>
DEV bool pair(const L& l, u32 j, const double* t, Z* v) {
    Z z0 = cis(t[0] - rint(t[0])), z1 = cis(t[1] - rint(t[1]));
    Z w = times(conj(z0), z1);
    Z s = z_of(w.x + 1.0, w.y);
    s = times(w, s);
    s = times(w, z_of(s.x + 1.0, s.y));
    Z gram = z_of(s.x + 1.0, s.y);
    double det = 16.0 - norm(gram);
    if (det < 1e-9) return false;
    Z r0 = project(l, j, z0), r1 = project(l, j, z1);
    const double inverse = inverse_of(det);
    v[0] = scaled(minus(scaled(r0, 4.0), times(gram, r1)), inverse);
    v[1] = scaled(minus(scaled(r1, 4.0), times(conj(gram), r0)), inverse);
    return true;
}

// locate: z² + c1·z + c0 that vanishes at two frequencies, the best that predicts every sample of a line from the
// two before it. False where one frequency would do.
template <class L>
DEV bool predict_two(const L& l, Z& c0, Z& c1) {
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
    const double det = a00 * a11 - norm(a01);
    const bool good = det > 1e-12 * a00 * a11;
    const double inverse = inverse_of(good ? det : 1.0);
    c0 = scaled(minus(scaled(b0, a11), times(a01, b1)), inverse);
    c1 = scaled(minus(scaled(b1, a00), times(conj(a01), b0)), inverse);
    return good;
}

// locate: two frequencies.
template <class L>
DEV bool twin(const L& l, double* t) {
    Z c0, c1;
    if (l.lines == 1) {
        Z u0 = l.at(0, 0), u1 = l.at(0, 1), u2 = l.at(0, 2), u3 = l.at(0, 3);
        Z det = minus(times(u0, u2), times(u1, u1));
        double e = norm(u0) + norm(u1) + norm(u2) + norm(u3);
        double size = norm(det);
        if (size <= 1e-24 * e * e) return false;
        Z inverse = scaled(conj(det), inverse_of(size));
        c0 = times(minus(times(u1, u3), times(u2, u2)), inverse);
        c1 = times(minus(times(u1, u2), times(u0, u3)), inverse);
    } else {
        if (!predict_two(l, c0, c1)) return false;
    }
    Z half = scaled(c1, -0.5);
    Z r = square_root(minus(times(half, half), c0));
    t[0] = turns(plus(half, r));
    t[1] = turns(minus(half, r));
    for (u32 j = 1; j < l.lines; j++) {
        double d = (double)l.offset(j);
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
template <class L>
DEV double fit_one(const Ring& ring, const L& l, u64 f, Z& value) {
    Z z = ring.root(f);
    Z sum = z_of(0.0, 0.0);
    for (u32 j = 0; j < l.lines; j++) {
        Z v = project(l, j, z);
        sum = l.offset(j) ? add_conj(sum, v, ring.phase(f, l.offset(j))) : plus(sum, v);
    }
    value = scaled(sum, 1.0 / l.count());
    double left = 0.0;
    for (u32 j = 0; j < l.lines; j++) {
        Z p = l.offset(j) ? times(value, ring.phase(f, l.offset(j))) : value;
#pragma unroll
        for (u32 tau = 0; tau < 4; tau++) {
            left += norm(minus(l.at(j, tau), p));
            p = times(p, z);
        }
    }
    return left;
}

// Least-squares values of two frequencies over all lanes.
template <class L>
DEV bool fit_two(const Ring& ring, const L& l, const u64* f, Z* v, double& left) {
    Z z0 = ring.root(f[0]), z1 = ring.root(f[1]);
    Z w = times(conj(z0), z1);
    Z s = z_of(w.x + 1.0, w.y);
    s = times(w, s);
    s = times(w, z_of(s.x + 1.0, s.y));
    Z line_gram = z_of(s.x + 1.0, s.y);
    Z gram = z_of(0.0, 0.0), r0 = gram, r1 = gram;
    for (u32 j = 0; j < l.lines; j++) {
        Z p0 = project(l, j, z0), p1 = project(l, j, z1);
        if (l.offset(j)) {
            Z b0 = ring.phase(f[0], l.offset(j)), b1 = ring.phase(f[1], l.offset(j));
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
    const double inverse = inverse_of(det);
    v[0] = scaled(minus(scaled(r0, m), times(gram, r1)), inverse);
    v[1] = scaled(minus(scaled(r1, m), times(conj(gram), r0)), inverse);
    left = 0.0;
    for (u32 j = 0; j < l.lines; j++) {
        Z p0 = v[0], p1 = v[1];
        if (l.offset(j)) {
            p0 = times(p0, ring.phase(f[0], l.offset(j)));
            p1 = times(p1, ring.phase(f[1], l.offset(j)));
        }
#pragma unroll
        for (u32 tau = 0; tau < 4; tau++) {
            left += norm(minus(minus(l.at(j, tau), p0), p1));
            p0 = times(p0, z0);
            p1 = times(p1, z1);
        }
    }
    return true;
}

// One root more for a polynomial of degree up to three, lowest coefficient first. Written out, so that these stay in
// registers.
DEV void add_root(Z* q, Z at) {
    q[3] = minus(q[2], times(q[3], at));
    q[2] = minus(q[1], times(q[2], at));
    q[1] = minus(q[0], times(q[1], at));
    q[0] = minus(z_of(0.0, 0.0), times(q[0], at));
}

// Distance of two phases on the circle.
DEV double apart(double s, double t) {
    double d = s - t;
    return fabs(d - rint(d));
}
