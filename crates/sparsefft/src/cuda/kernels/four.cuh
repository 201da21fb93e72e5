// Bins with up to four frequencies, from eight shifts.
#pragma once
#include "several.cuh"
#include "sparse.cuh"

// Up to four frequencies of a bin from its eight shifts, of which this lane has number lane mod 8, by
// a warp. Σ_k c_k u[i + k] = 0 is solved by elimination, lane 8i + k with the entry u[i + k]; lane j
// then finds the root number j of Σ_k c_k z^k by Aberth's iteration, and makes it exact by Newton's.
// Gives their number, or 0 where it fails; f and a are those of this lane.
DEV u32 up_to_four(const Ring& ring, Z mine, u32 b, u32 bins, double bin, double tolerance,
                      u32 lane, u64& f, Z& a) {
    const u32 row = lane >> 3, column = lane & 7;
    Z h = shuffled(mine, (row + column) & 7);
    u32 order = 0, used = 0, m = 4;
    double first = 0.0;
#pragma unroll 1
    for (u32 p = 0; p < 4; p++) {
        // The largest pivot among the rows that are left.
        const Z entry = shuffled(h, (lane & 24) | p);
        double size = used >> row & 1 ? -1.0 : norm(entry);
        u32 pivot = row;
#pragma unroll
        for (u32 d = 8; d < 32; d <<= 1) {
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
        const Z top = shuffled(h, pivot * 8 + p);
        const Z scaled_row = times(shuffled(h, pivot * 8 + column), scaled(conj(top), 1.0 / size));
        h = row == pivot ? scaled_row : minus(h, times(entry, scaled_row));
        used |= 1u << pivot;
        order |= pivot << (8 * p);
    }
    // c_m = -1; rows stand where their pivots were.
    Z c[5];
#pragma unroll
    for (u32 k = 0; k < 5; k++) {
        c[k] = shuffled(h, (order >> (8 * (k & 3)) & 3) * 8 + m);
        if (k >= m) c[k] = z_of(k == m ? -1.0 : 0.0, 0.0);
    }
    const bool active = lane < m;
    Z root = root_of(c, m, lane, 1);
#pragma unroll 1
    for (u32 turn = 0; turn < 3; turn++) {
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
    const Z own = ring.root(f);
    Z q[4] = {z_of(1.0, 0.0), z_of(0.0, 0.0), z_of(0.0, 0.0), z_of(0.0, 0.0)}, product = q[0];
    bool distinct = true;
#pragma unroll 1
    for (u32 k = 0; k < m; k++) {
        const u64 other = __shfl_sync(~0u, f, k);
        const Z at = shuffled(own, k);
        if (k != lane) {
            distinct &= other != f;
#pragma unroll
            for (int i = 3; i >= 0; i--)
                q[i] = minus(i ? q[i - 1] : z_of(0.0, 0.0), times(q[i], at));
            product = times(product, minus(own, at));
        }
    }
    Z low = z_of(0.0, 0.0), high = low;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        low = plus(low, times(q[i], shuffled(mine, i)));
        high = plus(high, times(q[i], shuffled(mine, 4 + i)));
    }
    const Z two = times(own, own);
    a = scaled(quotient(plus(low, times(high, conj(times(two, two)))), product), 0.5);
    // What is left at the shift of this lane.
    Z rest = mine;
#pragma unroll 1
    for (u32 k = 0; k < m; k++) {
        const u64 other = __shfl_sync(~0u, f, k);
        rest = minus(rest, times(shuffled(a, k), ring.phase(other, lane & 7)));
    }
    const double left = warp_sum(norm(rest)), energy = warp_sum(norm(mine));
    const bool good = __all_sync(~0u, !active || distinct) && left <= 4.0 * tolerance + 1e-23 * energy;
    return good ? m : 0;
}
