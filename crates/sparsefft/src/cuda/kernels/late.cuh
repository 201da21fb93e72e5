// Open bins of a comb, which hold three frequencies or more, or two that are close, without noise.
//
// Four shifts do not tell three frequencies apart. The verifying buckets do: what is known has left them, and
// the few frequencies of open bins are alone there, or two together. Order:
// 1. look: a bucket's four shifts give one frequency, or two: the nearest that an open bin allows, if the fit
//    leaves no more than the window leaks, and if this bucket is the nearest to it. One that this does not
//    find is found in step 3.
// 2. show: every block hears of all of them.
// 3. solve: the frequencies of one bin, by four lanes. Their values come from the comb, which does not leak:
//    Σ_i a_i z_i^τ = u_τ by Lagrange's polynomials. If the values that the buckets gave leave something of the bin,
//    it is one frequency more, or two.
//
// The buckets that find a frequency judge it as well. All they give is a number of a few bits, which one of the
// frequencies of a bin it is: the value comes from the comb. A wrong frequency has a wrong value, which neither
// the comb's four shifts (with three frequencies at most) nor the four buckets that it reaches, of four shifts
// each, would bear; and every other bucket is judged as before.
#pragma once
#include "quick.cuh"

// Least size of Π(z_i - z_k) over the others: what rounding does to a value is divided by it.
const double LEAST_GAP = 1e-5;

// Where the finds that came lie, side by side; gives their number. By the DECODE threads, who meet afterwards.
template <class S, class Shared> DEV u32 line_up(Shared& s, u32 lane, u32 t) {
    if (S::BLOCKS == 1) return s.came[0];
    const u32 its = lane < S::BLOCKS ? s.came[lane] : 0, ends = sum_up_to(its, lane);
    const u32 most = __reduce_max_sync(~0u, its), slots = (most * S::BLOCKS + 31) / 32 * 32;
#pragma unroll 1
    for (u32 i = t; i < slots; i += S::DECODE) {
        const u32 sender = i % S::BLOCKS, number = i / S::BLOCKS;
        const u32 count = __shfl_sync(~0u, its, sender), at = __shfl_sync(~0u, ends, sender) - count + number;
        if (number < count) s.order[at] = i;
    }
    return __shfl_sync(~0u, ends, 31);
}
// Tells the others how many were sent to be ordered; by THREADS threads, after they have met.
template <class S, u32 THREADS, class Shared> DEV void tell_shares(Shared& s, u32 c, u32 thread) {
    const u32 pieces = Note<S::BLOCKS>::CAME;
    for (u32 i = thread; i < pieces * S::BLOCKS; i += THREADS)
        put<S>(s, ORDER_GATE, i / pieces, (Z*)&s.notes[0][c] + i % pieces, shares_piece<S>(s, i % pieces));
    if (thread < S::BLOCKS)
        announce<S>(s, ORDER_GATE, thread,
                    16 * pieces + 24 * (s.given[thread] < S::SHARE ? s.given[thread] : S::SHARE));
}
// The number of open bins, and what follows for the status.
template <class S, class Shared> DEV u32 count_opens(const Shared& s, u32 lane, u32& status) {
    const u32 its = lane < S::BLOCKS ? s.opens[lane].open : 0;
    if (status == EXPLAINED && __any_sync(~0u, lane < S::BLOCKS && s.opens[lane].crowded)) status = TOO_CROWDED;
    if (status == EXPLAINED && __any_sync(~0u, its > S::OPENS)) status = OPEN;
    return __reduce_add_sync(~0u, its);
}
// Lists them, by one warp.
template <class S, class Shared> DEV void list_opens(Shared& s, u32 lane) {
    const u32 its = lane < S::BLOCKS ? s.opens[lane].open : 0, count = its < S::OPENS ? its : S::OPENS;
    const u32 before = sum_up_to(count, lane) - count;
    for (u32 i = 0; i < count; i++) {
        s.open_bins[before + i] = S::BLOCKS == 1 ? s.opened[i] : s.opens[lane].bins[i];
        s.open_at[before + i] = lane * S::OPENS + i;
    }
}

// The bucket of the verifying window that is nearest to a frequency, and how far that is.
template <class S> DEV u32 nearest_bucket(const Quick& args, u64 f, double& away) {
    const double p = (double)(args.verify_step * f & args.mask) * S::V * args.inverse, near = rint(p);
    away = near - p;
    return (u32)(i64)near & (S::V - 1);
}

// The frequency nearest to a phase per shift that one of the open bins allows.
template <class S, class Shared> DEV u64 allowed(const Quick& args, Shared& s, u32 open, double turn) {
    const Ring ring = {args.n, args.mask, args.inverse};
    // Distances of residues on a circle of 2^32.
    const double part = turn * (double)args.n * args.bin;
    const u32 here = (u32)(i64)((part - ::floor(part)) * 4294967296.0), unit = (u32)(4294967296.0 * args.bin);
    u32 least = ~0u, bin = 0;
#pragma unroll 4
    for (u32 o = 0; o < open; o++) {
        const u32 b = s.open_bins[o], gap = here - b * unit, distance = gap >> 31 ? 0u - gap : gap;
        bin = distance < least ? b : bin;
        least = distance < least ? distance : least;
    }
    double away;
    return ring.snap(turn, S::B, args.bin, bin, away);
}

// locate: a bucket as one frequency, by one lane. `good` has bit 0 if this bucket is the nearest to it, and bit 2
// for a fit.
template <class S, class Shared>
DEV void look_for_one(const Quick& args, Shared& s, u32 i, u32 open, double limit, double floor, u32 c) {
    const Ring ring = {args.n, args.mask, args.inverse};
    const One l(s.verify + 4 * i);
    const double energy = l.energy();
    Guess& guess = s.bucket_one[i];
    u32 good = 0;
    if (energy > limit) {
        double away;
        Z a;
        const u64 f = allowed<S>(args, s, open, single(l));
        const double left = fit_one(ring, l, f, a);
        if (left <= floor * args.threshold[3] + OWN_ROUNDING * energy)
            good = nearest_bucket<S>(args, f, away) == c * S::OWN + i ? 5 : 4;
        guess.f[0] = f;
        guess.a[0] = a;
    }
    guess.good = good;
}
// As two, of which each of two neighbouring lanes has one; bits 0 and 1 are for these.
template <class S, class Shared>
DEV void look_for_two(const Quick& args, Shared& s, u32 t, u32 open, double limit, double floor, u32 c) {
    const Ring ring = {args.n, args.mask, args.inverse};
    const u32 i = t >> 1, which = t & 1;
    const One l(s.verify + 4 * i);
    const double energy = l.energy();
    Guess& guess = s.bucket_two[i];
    bool good = energy > limit;
    u64 f = 0;
    // z² + c1·z + c0 vanishes at both.
    const Z det = minus(times(l.u[0], l.u[2]), times(l.u[1], l.u[1]));
    const double size = norm(det);
    good &= size > 1e-24 * energy * energy;
    if (good) {
        const Z inverse = scaled(conj(det), inverse_of(size));
        const Z c0 = times(minus(times(l.u[1], l.u[3]), times(l.u[2], l.u[2])), inverse);
        const Z half = scaled(times(minus(times(l.u[1], l.u[2]), times(l.u[0], l.u[3])), inverse), -0.5);
        const Z r = square_root(minus(times(half, half), c0));
        f = allowed<S>(args, s, open, turns(which ? minus(half, r) : plus(half, r)));
    }
    // The values of both by least squares.
    const u64 other = __shfl_xor_sync(~0u, f, 1);
    const Z z = ring.root(f), z1 = shuffled(z, t ^ 1), w = times(conj(z), z1);
    Z gram = times(w, z_of(w.x + 1.0, w.y));
    gram = times(w, z_of(gram.x + 1.0, gram.y));
    gram = z_of(gram.x + 1.0, gram.y);
    const Z mine = project(l, 0, z), its = shuffled(mine, t ^ 1);
    const double den = 16.0 - norm(gram);
    good &= f != other && den >= 1e-12 * 16.0;
    const Z a = scaled(minus(scaled(mine, 4.0), times(gram, its)), inverse_of(good ? den : 1.0));
    Z p = a;
    double left = 0.0;
#pragma unroll
    for (u32 tau = 0; tau < 4; tau++) {
        left += norm(minus(minus(l.u[tau], p), shuffled(p, t ^ 1)));
        p = times(p, z);
    }
    good &= left <= floor * args.threshold[2] + OWN_ROUNDING * energy;
    double away;
    good &= nearest_bucket<S>(args, f, away) == c * S::OWN + i;
    guess.f[which] = f;
    guess.a[which] = a;
    const bool both[2] = {(bool)__shfl_sync(~0u, (u32)good, t & ~1u), (bool)__shfl_sync(~0u, (u32)good, t | 1u)};
    if (which == 0) guess.good = both[0] | both[1] << 1;
}

// Sends what the buckets show, one lane for each of them, to all blocks; by one warp.
template <class S, class Shared> DEV void show(Shared& s, u32 c, u32 lane) {
    const bool one = s.bucket_one[lane].good & 4;
    const Guess& g = one ? s.bucket_one[lane] : s.bucket_two[lane];
    const u32 good = g.good & 3, count = __popc(good);
    const u32 ends = sum_up_to(count, lane);
    u32 all = __shfl_sync(~0u, ends, 31), at = ends - count;
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
        if (!(good >> i & 1) || at >= S::SEEN) continue;
        s.own_keys[at] = g.f[i];
        s.own_values[at] = g.a[i];
        at++;
    }
    all = all < S::SEEN ? all : S::SEEN;
    __syncwarp();
    if (lane < S::BLOCKS) put<S>(s, MORE_GATE, lane, s.seen + c, all);
#pragma unroll 1
    for (u32 i = lane; i < all * S::BLOCKS; i += 32) {
        const u32 to = i % S::BLOCKS, number = i / S::BLOCKS, slot = number * S::BLOCKS + c;
        put<S>(s, MORE_GATE, to, s.seen_keys + slot, s.own_keys[number]);
        put<S>(s, MORE_GATE, to, s.seen_values + slot, s.own_values[number]);
    }
    if (S::BLOCKS > 1 && lane < S::BLOCKS) announce<S>(s, MORE_GATE, lane, 4 + 24 * all);
}

// What the tones of four lanes leave of four shifts.
DEV One left_by(const Z* u, Z value, Z own, u32 lane) {
    One rest;
#pragma unroll
    for (u32 tau = 0; tau < 4; tau++) {
        Z sum = plus(value, shuffled(value, lane ^ 1));
        sum = plus(sum, shuffled(sum, lane ^ 2));
        rest.u[tau] = minus(u[tau], sum);
        value = times(value, own);
    }
    return rest;
}

// Gives every open bin its frequencies; by all threads, who meet afterwards.
template <class S, class Shared> DEV void share_out(Shared& s, u32 open, u32 lane, u32 t) {
    const u32 its = lane < S::BLOCKS ? s.seen[lane] : 0, most = __reduce_max_sync(~0u, its);
#pragma unroll 1
    for (u32 i = t; i < (most * S::BLOCKS + 31) / 32 * 32; i += S::THREADS) {
        if (i / S::BLOCKS >= __shfl_sync(~0u, its, i % S::BLOCKS)) continue;
        const u64 key = s.seen_keys[i];
        const u32 bin = (u32)key & (S::B - 1);
        u32 o = open;
#pragma unroll 4
        for (u32 k = 0; k < open; k++) o = s.open_bins[k] == bin ? k : o;
        if (o == open) continue;
        const u32 at = atomicAdd(s.picks + o, 1u);
        if (at < 4) {
            s.picked[o][at] = key;
            s.picked_values[o][at] = s.seen_values[i];
        }
    }
}

// estimate: the values of m frequencies f = own phasor, one of each of the first of four lanes, that explain four
// shifts. Of fewer than four, from the first shifts and from the last. True for all four lanes, or for none.
DEV bool settle(const Z* u, u32 m, double tolerance, u32 lane, u64 f, Z own, Z& a) {
    const u32 first = lane & ~3u, mine = lane & 3;
    const Z two = times(own, own), none = z_of(0.0, 0.0);
    // The polynomial that vanishes at the others.
    Z q[4] = {z_of(1.0, 0.0), none, none, none}, product = q[0];
    bool good = true;
#pragma unroll
    for (u32 k = 1; k < 4; k++) {
        const u64 other = __shfl_xor_sync(~0u, f, k);
        const Z at = shuffled(own, lane ^ k);
        if ((mine ^ k) < m) {
            good &= other != f;
            add_root(q, at);
            product = times(product, minus(own, at));
        }
    }
    good &= norm(product) >= LEAST_GAP * LEAST_GAP;
    const u32 more = 4 - m;
    Z last[4], low = z_of(0.0, 0.0), high = low, back = z_of(1.0, 0.0);
#pragma unroll
    for (u32 i = 0; i < 4; i++) last[i] = more & 1 && i < 3 ? u[i < 3 ? i + 1 : 3] : u[i];
#pragma unroll
    for (u32 i = 0; i < 2; i++) last[i] = more & 2 ? last[i + 2] : last[i];
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        low = plus(low, times(q[i], u[i]));
        high = plus(high, times(q[i], last[i]));
    }
    if (more & 1) back = conj(own);
    if (more & 2) back = times(back, conj(two));
    a = scaled(quotient(plus(low, times(high, back)), product), 0.5);
    const One rest = left_by(u, mine < m ? a : z_of(0.0, 0.0), own, lane);
    const double energy = (norm(u[0]) + norm(u[1])) + (norm(u[2]) + norm(u[3]));
    good = (mine >= m || good) && rest.energy() <= tolerance + 1e-23 * energy;
    return (__ballot_sync(~0u, good) >> first & 15) == 15;
}

// The frequencies of an open bin with the four shifts u, and their values, one for each of the first of four lanes.
// Gives their number, or 0 where they do not explain it. Lanes without a bin come along.
template <class S, class Shared>
DEV u32 solve(const Quick& args, Shared& s, const Z* u, u32 o, bool there, u32 b, double tolerance, double limit,
              u32 lane, u64& f, Z& a) {
    const Ring ring = {args.n, args.mask, args.inverse};
    const u32 first = lane & ~3u, mine = lane & 3;
    u32 m = there ? s.picks[o] : 0, more = 0;
    bool going = m > 0 && m <= 4;
    if (!going) m = 0;
    f = b;
    Z value = z_of(0.0, 0.0);
    if (mine < m) {
        f = s.picked[o][mine];
        value = s.picked_values[o][mine];
    }
    // In the order of their frequencies, whoever came first.
    u32 rank = mine;
    if (mine < m) rank = 0;
#pragma unroll
    for (u32 k = 1; k < 4; k++) {
        const u64 other = __shfl_xor_sync(~0u, f, k);
        if (mine < m && (mine ^ k) < m) rank += other < f || (other == f && (mine ^ k) < mine);
    }
    u32 from = mine;
#pragma unroll
    for (u32 k = 0; k < 4; k++) from = __shfl_sync(~0u, rank, first + k) == mine ? k : from;
    f = __shfl_sync(~0u, f, first + from);
    value = shuffled(value, first + from);
    Z own = ring.root(f);
    u32 found = 0;
    // Three or four are mostly all; fewer are not. Where that is wrong, the other way: values of buckets that two
    // frequencies share may be far off.
#pragma unroll 1
    for (u32 turn = 0; turn < 2 && __any_sync(~0u, going); turn++) {
        const bool fewer = turn ? m >= 3 : m < 3;
        if (turn) going &= m >= 3 || more > 0;
        if (!fewer) more = 0;
        if (__any_sync(~0u, going && fewer)) {
            // What the values of the buckets leave, which are off by what the window leaks.
            double away;
            nearest_bucket<S>(args, f, away);
            const One rest = left_by(u, scaled(value, inverse_of(near_response(away))), own, lane);
            const double bound = 4096.0 * limit;
            if (going && fewer && rest.energy() > bound) {
                double turns_of[2] = {single(rest), 0.0};
                Z one;
                more = 1;
                if (m < 3 && fit_one(ring, rest, ring.snap(turns_of[0], S::B, args.bin, b, away), one) > bound) {
                    more = 2;
                    going = twin(rest, turns_of);
                }
                going &= m + more <= 4;
                if (mine >= m && mine < m + more) {
                    f = ring.snap(mine == m ? turns_of[0] : turns_of[1], S::B, args.bin, b, away);
                    own = ring.root(f);
                }
            }
        }
        Z values;
        const u32 count = m + more <= 4 ? m + more : 4;
        if (settle(u, count, tolerance, lane, f, own, values) && going) {
            found = count;
            a = values;
            going = false;
        }
    }
    return found;
}

// Takes the coefficients of open bins, in the first block for the host, and wherever they reach buckets; by a warp.
template <class S, class Shared>
DEV void take_late(const Quick& args, Shared& s, bool there, u64 f, Z a, u32 c, u32 lane) {
    const u32 mask = __ballot_sync(~0u, there), below = (1u << lane) - 1;
    if (c == 0) {
        u32 at = 0;
        if (lane == 0 && mask) at = atomicAdd(&s.late, __popc(mask));
        at = __shfl_sync(~0u, at, 0) + __popc(mask & below);
        if (there && at < S::LATE) {
            s.late_keys[at] = f;
            s.late_values[at] = a;
        } else if (there) {
            s.full = 1;
        }
    }
    // peel: two lanes for every frequency.
    const double p = (double)(args.verify_step * f & args.mask) * S::V * args.inverse;
    const u32 low = (u32)(i64)p - 1, first = (low & (S::V - 1)) / S::OWN, last = (low + 3 & (S::V - 1)) / S::OWN;
    const bool reaches = there && (first == c || last == c);
    const u32 those = __ballot_sync(~0u, reaches), count = __popc(those);
    if (count == 0) return;
    u32 begin = 0;
    if (lane == 0) begin = atomicAdd(&s.reach, count);
    begin = __shfl_sync(~0u, begin, 0);
    if (begin + count > S::REACH) {
        s.full = 1;
        return;
    }
    if (reaches) {
        s.reach_keys[begin + __popc(those & below)] = f;
        s.reach_values[begin + __popc(those & below)] = a;
    }
    __syncwarp();
    for (u32 i = lane; i < 2 * count; i += 32) {
        const u32 slot = begin + i / 2;
        peel_half<S>(args, s, c, S::EACH * S::BLOCKS + slot, i & 1, s.reach_keys[slot], s.reach_values[slot]);
    }
}

// The coefficients of open bins go out in the order of their frequencies, as many as there is room for.
template <class S, class Shared> DEV void deliver_late(Shared& s, Entry* out, u32 room, u32 late, u32 thread) {
    if (thread >= late) return;
    const u64 key = s.late_keys[thread];
    u32 rank = 0;
#pragma unroll 4
    for (u32 i = 0; i < late; i++) rank += s.late_keys[i] < key;
    const Z a = s.late_values[thread];
    Entry e = {key, a.x, a.y};
    if (rank < room) out[rank] = e;
}
