// Bins with up to four frequencies, from eight shifts.
#pragma once
#include "several.cuh"
#include "sparse.cuh"

// Up to four frequencies of a bin from its eight shifts, of which this lane has number lane mod 8, by
// a warp. Σ_k c_k u[i + k] = 0 is solved by elimination, row i with the lanes i mod 4; lane j then finds
// the root number j of Σ_k c_k z^k by Aberth's iteration, and makes it exact by Newton's. Gives their
// number, or 0 where it fails; f and a are those of this lane. One warp waits for every operation here,
// so what can be done side by side is.
DEV u32 up_to_four(const Ring& ring, Z mine, u32 b, u32 bins, double bin, double tolerance,
                      u32 lane, u64& f, Z& a) {
    const u32 row = lane & 3;
    Z h[5], u[8], c[5];
#pragma unroll
    for (u32 k = 0; k < 5; k++) h[k] = shuffled(mine, row + k);
    u32 order = 0, used = 0, m = 4;
    double first = 0.0;
#pragma unroll
    for (u32 p = 0; p < 4; p++) {
        // The largest pivot among the rows that are left.
        double size = used >> row & 1 ? -1.0 : norm(h[p]);
        u32 pivot = row;
#pragma unroll
        for (u32 d = 1; d < 4; d <<= 1) {
            const double other = __shfl_xor_sync(~0u, size, d);
            const u32 its = __shfl_xor_sync(~0u, pivot, d);
            if (other > size || (other == size && its < pivot)) {
                size = other;
                pivot = its;
            }
        }
        if (p == 0) first = size;
        // A pivot vanishes where the frequencies before it explain the shifts.
        if (size <= 1e-18 * first) {
            if (p < 2) return 0;
            m = p;
            break;
        }
        const Z inverse = scaled(conj(shuffled(h[p], pivot)), inverse_of(size)), entry = h[p];
#pragma unroll
        for (u32 k = p + 1; k < 5; k++) {
            const Z top = times(shuffled(h[k], pivot), inverse);
            h[k] = row == pivot ? top : minus(h[k], times(entry, top));
        }
        used |= 1u << pivot;
        order |= pivot << (8 * p);
    }
    // c_m = -1; rows stand where their pivots were.
    const Z right = m == 4 ? h[4] : m == 3 ? h[3] : h[2];
#pragma unroll
    for (u32 k = 0; k < 5; k++) {
        c[k] = shuffled(right, order >> (8 * (k & 3)) & 3);
        if (k >= m) c[k] = z_of(k == m ? -1.0 : 0.0, 0.0);
        u[k] = shuffled(mine, k);
    }
#pragma unroll
    for (u32 k = 5; k < 8; k++) u[k] = shuffled(mine, k);
    const bool active = lane < m;
    Z root = shuffled(root_of(c, m, lane), 8 * (lane & 3));
#pragma unroll 1
    for (u32 turn = 0; turn < 2; turn++) {
        Z p = c[4], d = z_of(0.0, 0.0);
#pragma unroll
        for (int k = 3; k >= 0; k--) {
            d = plus(times(d, root), p);
            p = plus(times(p, root), c[k]);
        }
        root = minus(root, quotient(p, d));
    }
    double away;
    f = ring.snap(turns(root), bins, bin, b, away);
    // Values by the polynomial q that vanishes at the other frequencies, from both halves.
    const Z own = ring.root(f), two = times(own, own), four = times(two, two);
    Z q[4] = {z_of(1.0, 0.0), z_of(0.0, 0.0), z_of(0.0, 0.0), z_of(0.0, 0.0)}, product = q[0];
    bool distinct = true;
#pragma unroll
    for (u32 k = 0; k < 4; k++) {
        const u64 other = __shfl_sync(~0u, f, k);
        const Z at = shuffled(own, k);
        if (k != lane && k < m) {
            distinct &= other != f;
            add_root(q, at);
            product = times(product, minus(own, at));
        }
    }
    Z low = z_of(0.0, 0.0);
#pragma unroll
    for (u32 i = 0; i < 4; i++) low = plus(low, times(q[i], add_conj(u[i], u[4 + i], four)));
    a = scaled(quotient(low, product), 0.5);
    // What is left at the shift lane mod 8: eight lanes for every frequency.
    Z term = shuffled(a, lane >> 3);
    const Z by1 = shuffled(own, lane >> 3), by2 = shuffled(two, lane >> 3), by4 = shuffled(four, lane >> 3);
    if (lane & 1) term = times(term, by1);
    if (lane & 2) term = times(term, by2);
    if (lane & 4) term = times(term, by4);
    if (lane >> 3 >= m) term = z_of(0.0, 0.0);
    term = plus(term, shuffled(term, lane ^ 8));
    term = plus(term, shuffled(term, lane ^ 16));
    double left = norm(minus(mine, term)), energy = norm(mine);
#pragma unroll
    for (u32 d = 1; d < 8; d <<= 1) {
        left += __shfl_xor_sync(~0u, left, d);
        energy += __shfl_xor_sync(~0u, energy, d);
    }
    const bool good = __all_sync(~0u, !active || distinct) && left <= tolerance + 1e-23 * energy;
    return good ? m : 0;
}
