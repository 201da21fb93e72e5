// A transform of R = 2^LOGR points by R/P threads that hold P points each.
//
// Stockham's scheme, which needs no bit reversal. With L = R/r and S the product of the radices
// before, one step takes the points i·L + c (i < r) of sub-column c, transforms them, turns
// output k by w_{R/S}^{k·(c/S)}, and puts it at ((c/S)·r + k)·S + c%S.
// Thread y holds the points q·T + y, T = R/P, before every step and after the last one.
// Between steps the points change hands through shared memory. Radices are P and, last, what is
// left.
#pragma once

template <class V> __device__ __forceinline__ V plus(V a, V b) {
    a.x += b.x;
    a.y += b.y;
    return a;
}

template <class V> __device__ __forceinline__ V minus(V a, V b) {
    a.x -= b.x;
    a.y -= b.y;
    return a;
}

template <class V> __device__ __forceinline__ V times(V a, V b) {
    V r;
    r.x = a.x * b.x - a.y * b.y;
    r.y = a.x * b.y + a.y * b.x;
    return r;
}

// -i·a
template <class V> __device__ __forceinline__ V quarter(V a) {
    V r;
    r.x = a.y;
    r.y = -a.x;
    return r;
}

template <class V> __device__ __forceinline__ void radix2(V& a, V& b) {
    V s = plus(a, b);
    b = minus(a, b);
    a = s;
}

template <class V> __device__ __forceinline__ void radix4(V& a, V& b, V& c, V& d) {
    radix2(a, c);
    radix2(b, d);
    d = quarter(d);
    radix2(a, b);
    radix2(c, d);
    // Now a, c, b, d are the outputs 0, 1, 2, 3.
    V t = b;
    b = c;
    c = t;
}

// The points v[M·i + m], i < 2^LOGR, in natural order in and out.
template <int LOGR, int M, class V> struct Radix;

template <int M, class V> struct Radix<0, M, V> {
    static __device__ __forceinline__ void run(V*) {}
};

template <int M, class V> struct Radix<1, M, V> {
    static __device__ __forceinline__ void run(V* v) { radix2(v[0], v[M]); }
};

template <int M, class V> struct Radix<2, M, V> {
    static __device__ __forceinline__ void run(V* v) { radix4(v[0], v[M], v[2 * M], v[3 * M]); }
};

template <int M, class V> struct Radix<3, M, V> {
    static __device__ __forceinline__ void run(V* v) {
        const auto h = (decltype(v[0].x))0.70710678118654752440;
        radix4(v[0], v[2 * M], v[4 * M], v[6 * M]);
        radix4(v[M], v[3 * M], v[5 * M], v[7 * M]);
        V t = v[3 * M];
        v[3 * M].x = h * (t.x + t.y);
        v[3 * M].y = h * (t.y - t.x);
        v[5 * M] = quarter(v[5 * M]);
        t = v[7 * M];
        v[7 * M].x = h * (t.y - t.x);
        v[7 * M].y = -h * (t.x + t.y);
        // Even outputs in 0, 2, 4, 6; odd ones, turned, in 1, 3, 5, 7.
        radix2(v[0], v[M]);
        radix2(v[2 * M], v[3 * M]);
        radix2(v[4 * M], v[5 * M]);
        radix2(v[6 * M], v[7 * M]);
        V o1 = v[2 * M], o2 = v[4 * M], o3 = v[6 * M], o4 = v[M], o5 = v[3 * M], o6 = v[5 * M];
        v[M] = o1;
        v[2 * M] = o2;
        v[3 * M] = o3;
        v[4 * M] = o4;
        v[5 * M] = o5;
        v[6 * M] = o6;
    }
};

template <int M, class V> struct Radix<4, M, V> {
    static __device__ __forceinline__ void run(V* v) {
        using S = decltype(v[0].x);
        // cos and sin of 2πj/16.
        const S c1 = (S)0.92387953251128675613, s1 = (S)0.38268343236508977173;
        const S h = (S)0.70710678118654752440;
#pragma unroll
        for (int t = 0; t < 4; t++) {
            radix4(v[t * M], v[(t + 4) * M], v[(t + 8) * M], v[(t + 12) * M]);
        }
        // v[t + 4·k] is turned by w16^{t·k}.
        auto turn = [](V& z, S c, S s) {
            V r;
            r.x = z.x * c + z.y * s;
            r.y = z.y * c - z.x * s;
            z = r;
        };
        turn(v[5 * M], c1, s1);
        turn(v[6 * M], h, h);
        turn(v[7 * M], s1, c1);
        turn(v[9 * M], h, h);
        v[10 * M] = quarter(v[10 * M]);
        turn(v[11 * M], -h, h);
        turn(v[13 * M], s1, c1);
        turn(v[14 * M], -h, h);
        turn(v[15 * M], -c1, -s1);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            radix4(v[4 * k * M], v[(4 * k + 1) * M], v[(4 * k + 2) * M], v[(4 * k + 3) * M]);
        }
        // Output k1 + 4·k2 is in v[4·k1 + k2].
#pragma unroll
        for (int a = 0; a < 4; a++) {
#pragma unroll
            for (int b = a + 1; b < 4; b++) {
                V t = v[(4 * a + b) * M];
                v[(4 * a + b) * M] = v[(4 * b + a) * M];
                v[(4 * b + a) * M] = t;
            }
        }
    }
};

// v[k·M] *= a·w^k for k < 2^B, from w, w², w⁴, … in w[0], w[1], w[2], …: no power is more than
// B - 1 products away from a table, and few are held at a time.
template <int B, int M, class V> struct Turn {
    static __device__ __forceinline__ void by(V* v, V a, const V* w) {
        Turn<B - 1, M, V>::by(v, a, w);
        Turn<B - 1, M, V>::by(v + (M << (B - 1)), times(a, w[B - 1]), w);
    }
    // The same for a = 1.
    static __device__ __forceinline__ void powers(V* v, const V* w) {
        Turn<B - 1, M, V>::powers(v, w);
        Turn<B - 1, M, V>::by(v + (M << (B - 1)), w[B - 1], w);
    }
};

template <int M, class V> struct Turn<0, M, V> {
    static __device__ __forceinline__ void by(V* v, V a, const V*) { v[0] = times(v[0], a); }
    static __device__ __forceinline__ void powers(V*, const V*) {}
};

// Who waits for whom between steps: a block, or a warp that holds whole transforms.
struct BlockSync {
    static __device__ __forceinline__ void sync() { __syncthreads(); }
};

// The steps from S = 2^LOGS on. `place(e)` is the place of point e of this thread's column in
// shared memory, `roots` are the R-th roots of unity. `hand_over()` runs between the last write
// and the last read: it may change which column and which y this thread works on.
template <int LOGR, int LOGP, int LOGS, class Sync = BlockSync> struct Steps {
    static const int LEFT = LOGR - LOGS;
    static const int LOGRADIX = LEFT < LOGP ? LEFT : LOGP;
    static const int M = 1 << (LOGP - LOGRADIX);
    static const int T = 1 << (LOGR - LOGP);
    static const bool LAST = LEFT <= LOGP;

    template <class V, class Place, class HandOver>
    static __device__ __forceinline__ void run(V* v, V* shared, const V* __restrict__ roots, int& y,
                                               Place place, HandOver hand_over) {
#pragma unroll
        for (int m = 0; m < M; m++) Radix<LOGRADIX, M, V>::run(v + m);
        if constexpr (!LAST) {
#pragma unroll
            for (int m = 0; m < M; m++) {
                int c = y + m * T;
                int turn = (c >> LOGS) << LOGS;
                V w[LOGRADIX];
#pragma unroll
                for (int b = 0; b < LOGRADIX; b++) w[b] = roots[turn << b];
                Turn<LOGRADIX, M, V>::powers(v + m, w);
            }
            if (LOGS > 0) Sync::sync();
#pragma unroll
            for (int m = 0; m < M; m++) {
                int c = y + m * T;
                int base = ((c >> LOGS) << (LOGS + LOGRADIX)) + (c & ((1 << LOGS) - 1));
#pragma unroll
                for (int k = 0; k < (1 << LOGRADIX); k++) {
                    shared[place(base + (k << LOGS))] = v[m + k * M];
                }
            }
            Sync::sync();
            if (LEFT - LOGRADIX <= LOGP) hand_over();
#pragma unroll
            for (int q = 0; q < (1 << LOGP); q++) v[q] = shared[place(q * T + y)];
            Steps<LOGR, LOGP, LOGS + LOGRADIX, Sync>::run(v, shared, roots, y, place, hand_over);
        }
    }
};
