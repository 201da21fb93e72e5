// exact and robust without a comb, end to end, by one group of blocks: prime and other lengths, frequencies whose
// structure a comb cannot spread, and what a comb leaves open in noise. The order of steps and the thresholds are
// those of algorithms/peeling (window_attempt, resolve, conclude).
//
// 1. A window hash of all frequencies is measured, and the verifying one beside it. Noise fills its quiet buckets:
//    a quantile of their energies tells how much, and its weakest peak which lines the ladder needs.
// 2. Every peak among its buckets is decoded as one frequency or as two, over all lines; a frequency must lie where
//    its bucket says, it must be strong enough to be placed, and no window may deny it.
// 3. A find joins the lists of the four buckets that it reaches in every window. Buckets whose list has grown are
//    computed anew: what was measured less the sum over the list, in the order of the frequencies. So the answer
//    does not depend on which thread was first, and rounding does not add up.
// 4. Steps 2 and 3 until nothing more is found; then a further window, with a fresh permutation and room for what
//    is left.
// 5. All values are corrected by least squares over all windows (conjugate gradients). With noise this comes before
//    every further window too: values that share their buckets carry each other's errors.
// 6. Every bucket of every window, and of the verifying one, must be explained.
//
// Where the lines do not place a weak frequency, the status says so.
#pragma once
#include "sparse.cuh"

// Most windows of one transform, beside the verifying one, and its number.
const u32 WINDOWS = 10, VERIFYING = WINDOWS;
// Least buckets of a window: 2^LEAST_LOG.
const u32 LEAST_LOG = 5;
// Buckets of a further window for each frequency that is left.
const u32 BUCKETS_EACH = 16;
// Share of the weakest coefficient, at the edge of a bucket, that the lines of a further window place.
const double WEAKER = 0.1;
// Share of occupied buckets above which a window is too small.
const double CROWDED_WINDOW = 0.8;
// Rounding relative to the energy of the same bucket.
const double WINDOW_ROUNDING = 1e-24;

// A coefficient in the list of a bucket: number c is in nodes 4c to 4c + 3 of a window. `next` is one more than
// the number of the next node.
struct __align__(16) Node {
    u64 f;
    double gain;
    u32 next, pad[3];
};

// Longest list that is put in order in one go.
const u32 SHORT = 16;

// A window hash, and where its things lie in the workspace: what the known leave, [line][bucket][shift], and the
// energies of that; of each bucket the head of its list, one more than a node, and the head that its energy stands
// for; of each coefficient the lowest bucket that it reaches, its nodes, and its phasors at the lines. Offsets of
// the lines so far, and the least |value|² in a bucket that they place.
struct Spread {
    Hash h;
    u64 rest, energies, heads, seen, low, nodes, bases;
    u64 offsets[LINES];
    double least;
    u32 most, lines;
};

// MANY: with noise, or with several lines; without, what these need costs nothing.
template <class Group, bool MANY> struct Windows : Engine<Group> {
    typedef Engine<Group> Base;
    typedef typename Base::Job Job;
    typedef typename Base::Lanes Lanes;
    using Base::advance;
    using Base::args;
    using Base::bins;
    using Base::climb;
    using Base::count;
    using Base::floor_of;
    using Base::g;
    using Base::gain_at;
    using Base::head_active;
    using Base::head_left;
    using Base::head_verified;
    using Base::known;
    using Base::leave;
    using Base::leave_least;
    using Base::lines_read;
    using Base::measure_noise;
    using Base::minimum;
    using Base::next_parts;
    using Base::noise;
    using Base::noisy;
    using Base::phase;
    using Base::position;
    using Base::power;
    using Base::reduced;
    using Base::response;
    using Base::ring;
    using Base::root;
    using Base::snap_all;
    using Base::steps_of;
    using Base::sum;
    using Base::sync;

    // Windows so far, and coefficients so far.
    u32 made, total;
    // Whether something has come since the last joint fit.
    bool fresh;
    // Finds of the last pass that were known.
    double amended;
    // Buckets that are not explained: of the last window, and of all.
    double open_last, open_all;
    // Finds that the lines do not place, the largest |x|² of any sample, the least |value|² that is known, buckets of
    // the further windows.
    double weak, peak, weakest;
    u32 more_buckets;

    __device__ Windows(Group& g, u32 signal) : Base(g, signal) {
        made = total = more_buckets = 0;
        amended = 0.0;
        fresh = false;
        open_last = open_all = weak = peak = 0.0;
        weakest = 1e300;
    }

    template <class T> __device__ T* at(u64 place) { return this->template work<T>(place); }
    // Every block keeps the windows in its shared memory.
    __device__ const Spread& spread(u32 w) { return g.spreads()[w]; }
    __device__ Z* roots() { return at<Z>(args().spread_roots); }

    // Empty lists.
    __device__ void clear(const Spread& s, u32 buckets) {
        u32 *heads = at<u32>(s.heads), *seen = at<u32>(s.seen);
        for (u32 b = g.rank; b < buckets; b += g.size) {
            heads[b] = 0;
            seen[b] = ~0u;
        }
    }

    __device__ static u32 lines_of(const Spread& s) { return MANY ? s.lines : 1; }
    __device__ bool loud() { return MANY && noisy; }

    // Where bucket b of line j lies.
    __device__ static u64 place(const Spread& s, u32 j, u32 b) { return 4 * ((u64)j * s.h.buckets + b); }

    // v of coefficient c at line j: its phase there.
    __device__ Z at_line(const Spread& s, u32 c, u32 j, Z v) {
        return j == 0 ? v : times(v, at<Z>(s.bases)[(u64)c * LINES + j]);
    }
    // The phasors of coefficient c at the lines from..
    __device__ void turn(const Spread& s, u32 c, u64 f, u32 from) {
        for (u32 j = from; j < lines_of(s); j++) at<Z>(s.bases)[(u64)c * LINES + j] = phase(f, s.offsets[j]);
    }

    // Puts coefficient c into the lists of the buckets that it reaches in window w.
    FAR_MEMBER void enlist(u32 w, u32 c, u64 f) {
        const Spread& s = spread(w);
        const Hash& h = s.h;
        double p = position(h, f), first = floor(p) - 1.0;
        u32 low = first < 0.0 ? h.buckets - 1 : (u32)first;
        at<u32>(s.low)[c] = low;
        for (u32 i = 0; i < 4; i++) {
            u32 b = low + i >= h.buckets ? low + i - h.buckets : low + i, node = 4 * c + i;
            Node n = {f, response(h, first + i - p), g.exchange(at<u32>(s.heads) + b, node + 1), {}};
            at<Node>(s.nodes)[node] = n;
        }
        turn(s, c, f, 1);
    }

    // Does something with every coefficient that reaches bucket b, its gain there and the number of the line, in the
    // order of the frequencies, line by line between `begin` and `end`. Lists are short: there are no fewer buckets
    // than coefficients.
    template <class Begin, class Do, class End>
    __device__ void each(const Spread& s, u32 b, Begin begin, Do act, End end) {
        const Node* nodes = at<Node>(s.nodes);
        const u32 head = at<u32>(s.heads)[b];
        u64 f[SHORT];
        double gain[SHORT];
        u32 c[SHORT], m = 0;
        for (u32 node = head; node; m++) {
            if (m == SHORT) {
                for (u32 j = 0; j < lines_of(s); j++) {
                    begin(j);
                    each_of_many(nodes, head, j, act);
                    end(j);
                }
                return;
            }
            const Node n = nodes[node - 1];
            u32 i = m;
            for (; i > 0 && (f[i - 1] > n.f || (f[i - 1] == n.f && c[i - 1] > (node - 1) >> 2)); i--) {
                f[i] = f[i - 1];
                gain[i] = gain[i - 1];
                c[i] = c[i - 1];
            }
            f[i] = n.f;
            gain[i] = n.gain;
            c[i] = (node - 1) >> 2;
            node = n.next;
        }
        for (u32 j = 0; j < lines_of(s); j++) {
            begin(j);
            for (u32 i = 0; i < m; i++) act(c[i], gain[i], j);
            end(j);
        }
    }
    // The same for one line of a long list: the next one is looked for every time.
    template <class Do> __device__ void each_of_many(const Node* nodes, u32 head, u32 j, Do act) {
        u64 last_f = 0;
        u32 last_c = 0;
        bool begun = false;
        while (true) {
            u64 best_f = 0;
            u32 best = 0;
            for (u32 node = head; node; node = nodes[node - 1].next) {
                u32 c = (node - 1) >> 2;
                u64 f = nodes[node - 1].f;
                if (begun && (f < last_f || (f == last_f && c <= last_c))) continue;
                if (best && (f > best_f || (f == best_f && c > (best - 1) >> 2))) continue;
                best = node;
                best_f = f;
            }
            if (!best) return;
            last_f = best_f;
            last_c = (best - 1) >> 2;
            begun = true;
            act(last_c, nodes[best - 1].gain, j);
        }
    }

    // Adds v, one shift further each time, to the four shifts of a bucket.
    __device__ static void add_tone(Z* to, Z v, Z z) {
#pragma unroll
        for (u32 tau = 0; tau < 4; tau++) {
            to[tau] = plus(to[tau], v);
            v = times(v, z);
        }
    }

    // Computes the buckets anew whose lists have grown, or of which values have changed, and counts those that are
    // not explained, in the windows from..to.
    FAR_MEMBER void refresh(u32 from, u32 to, bool changed) {
        double last = 0.0, all = 0.0;
        for (u32 w = from; w < to; w++) {
            const Spread& s = spread(w);
            const Hash& h = s.h;
            const double limit = this->limit(h, 4 * lines_of(s));
            double* energies = at<double>(s.energies);
            for (u32 b = g.rank; b < h.buckets; b += g.size) {
                const u32 head = at<u32>(s.heads)[b];
                if (head != at<u32>(s.seen)[b] || (changed && head)) {
                    One l;
                    double energy = 0.0;
                    each(
                        s, b, [&](u32 j) { l = One(bins(h, j) + 4 * b); },
                        [&](u32 c, double gain, u32 j) {
                            const Entry e = known()[c];
                            add_tone(l.u, at_line(s, c, j, z_of(-gain * e.re, -gain * e.im)), roots()[c]);
                        },
                        [&](u32 j) {
                            Z* rest = at<Z>(s.rest) + place(s, j, b);
#pragma unroll
                            for (u32 tau = 0; tau < 4; tau++) rest[tau] = l.u[tau];
                            energy += l.energy();
                        });
                    energies[b] = energy;
                    at<u32>(s.seen)[b] = head;
                }
                const double e = energies[b];
                // Not what is no number either.
                if (!(e <= limit) && !(e <= limit + 4.0 * OWN_ROUNDING * measured(s, b))) {
                    all += 1.0;
                    last += w + 1 == to;
                }
            }
        }
        next_parts();
        leave(0, last);
        leave(1, all);
        sync();
        open_last = sum(0);
        open_all = sum(1);
    }
    // Energy of a bucket as it was measured.
    __device__ double measured(const Spread& s, u32 b) {
        double e = 0.0;
        for (u32 j = 0; j < lines_of(s); j++) e += One(bins(s.h, j) + 4 * b).energy();
        return e;
    }

    // Whether some window denies v at f: the bucket that should hold it holds nothing.
    __device__ bool denied(u64 f, Z v) {
        for (u32 w = 0; w < made; w++) {
            const Spread& s = spread(w);
            double p = position(s.h, f), nearest = rint(p), gain = response(s.h, nearest - p);
            u32 b = (u32)nearest == s.h.buckets ? 0 : (u32)nearest;
            double limit = this->limit(s.h, 4 * lines_of(s));
            if (at<double>(s.energies)[b] <= limit && 4 * lines_of(s) * gain * gain * norm(v) > 4.0 * limit) return true;
        }
        return false;
    }

    // The least |value|² in a bucket of a window that its lines place.
    __device__ double least_of(const Spread& s, double floor) {
        if (loud() || lines_of(s) > 1) return s.least;
        // Four neighbouring shifts place it to 1/6π·√(noise/signal) turns: six standard deviations are asked for.
        return floor * 0.405285 * (double)args().n * (double)args().n;
    }

    // Adds v to what is known of f, if it was in the list of bucket b before this pass. What noise leaves of a
    // frequency may look like that frequency again.
    __device__ bool amend(const Spread& s, u32 b, u64 f, Z v) {
        const Node* nodes = at<Node>(s.nodes);
        u32 node = at<u32>(s.seen)[b];
        while (node && nodes[node - 1].f != f) node = nodes[node - 1].next;
        if (!node) return false;
        Entry& e = known()[(node - 1) >> 2];
        e.re += v.x;
        e.im += v.y;
        return true;
    }

    // Notes a find, v in bucket b of a window where its gain is this. How many it was.
    FAR_MEMBER u32 take(const Spread& s, u32 b, u64 f, Z v, double gain, double floor, double& weak) {
        if (norm(v) < least_of(s, floor)) {
            weak += 1.0;
            return 0;
        }
        v = scaled(v, 1.0 / gain);
        if (denied(f, v)) return 0;
        if (loud() && amend(s, b, f, v)) {
            amended += 1.0;
            return 0;
        }
        if (MANY) weakest = fmin(weakest, norm(v));
        u32 c = g.add(&count().known, 1u);
        if (c < args().capacity) {
            Entry e = {f, v.x, v.y};
            known()[c] = e;
            roots()[c] = root(f);
            for (u32 w = 0; w < made; w++) enlist(w, c, f);
        }
        return 1;
    }

    // One or two frequencies of a bucket.
    template <class L>
    __device__ __forceinline__ u32 decode_lanes(const Spread& s, const L& l, u32 b, double energy, double& weak) {
        const Hash& h = s.h;
        const double floor = floor_of(h), own = WINDOW_ROUNDING * energy;
        u64 f[2] = {snap_all(single(l)), 0};
        Z v[2];
        double gain[2] = {gain_at(h, f[0], b), 0.0}, t[2], left;
        if (gain[0] > 0.0 && fit_one(ring(), l, f[0], v[0]) <= floor * args().threshold[l.count() - 1] + own)
            return take(s, b, f[0], v[0], gain[0], floor, weak);
        if (!twin(l, t) || apart(t[0], t[1]) < 0.115) return 0;
        for (u32 i = 0; i < 2; i++) {
            f[i] = snap_all(t[i]);
            gain[i] = gain_at(h, f[i], b);
        }
        if (f[0] == f[1] || gain[0] == 0.0 || gain[1] == 0.0) return 0;
        if (!fit_two(ring(), l, f, v, left) || left > floor * args().threshold[l.count() - 2] + own) return 0;
        u32 found = 0;
        for (u32 i = 0; i < 2; i++) found += take(s, b, f[i], v[i], gain[i], floor, weak);
        return found;
    }
    FAR_MEMBER u32 decode_line(const Spread& s, u32 b, double energy, double& weak) {
        const One l(at<Z>(s.rest) + 4 * b);
        return decode_lanes(s, l, b, energy, weak);
    }
    FAR_MEMBER u32 decode_lines(const Spread& s, u32 b, double energy, double& weak) {
        const Lanes l = {at<Z>(s.rest) + 4 * b, 4 * (u64)s.h.buckets, s.lines, s.offsets};
        return decode_lanes(s, l, b, energy, weak);
    }

    // Decodes the peaks of window w. How many were found, all threads together. Of two equal neighbours one is
    // the peak, so that nothing is found twice.
    FAR_MEMBER u32 decode(u32 w) {
        const Spread& s = spread(w);
        const u32 last = s.h.buckets - 1;
        const double limit = this->limit(s.h, 4 * lines_of(s));
        const double* energies = at<double>(s.energies);
        double found = 0.0, weak = 0.0;
        amended = 0.0;
        for (u32 b = g.rank; b <= last; b += g.size) {
            const double e = energies[b];
            if (!is_peak(energies, b, last, e, limit)) continue;
            found += lines_of(s) == 1 ? decode_line(s, b, e, weak) : decode_lines(s, b, e, weak);
        }
        next_parts();
        leave(0, found);
        leave(1, weak);
        if (MANY) {
            leave(2, amended);
            leave_least(3, weakest);
        }
        sync();
        this->weak = sum(1);
        if (MANY) {
            amended = sum(2);
            weakest = minimum(3);
        }
        return (u32)sum(0);
    }
    __device__ static bool is_peak(const double* energies, u32 b, u32 last, double e, double limit) {
        return e > limit && e > energies[b == 0 ? last : b - 1] && e >= energies[b == last ? 0 : b + 1];
    }

    // Adds the lines that the weakest peak of window w asks for, or one of this signal-to-noise ratio if it is
    // weaker, or the weakest for which there is a ladder. What is weaker is left to other windows.
    FAR_MEMBER void climb_window(u32 w, double least_gamma) {
        Spread& s = g.spreads()[w];
        const u32 last = s.h.buckets - 1, had = s.lines;
        const double limit = this->limit(s.h, 4 * had);
        const double* energies = at<double>(s.energies);
        double weakest = 1e300;
        for (u32 b = g.rank; b <= last; b += g.size)
            if (is_peak(energies, b, last, energies[b], limit)) weakest = fmin(weakest, energies[b]);
        next_parts();
        leave_least(0, weakest);
        sync();
        weakest = minimum(0);
        if (!(weakest < 1e300)) return;
        u64 offsets[LINES];
        u32 lines = had, added;
        for (u32 j = 0; j < had; j++) offsets[j] = s.offsets[j];
        double gamma = fmax(fmax(weakest / (4 * had) / floor_of(s.h) - 1.0, least_gamma), LEAST_GAMMA);
        bool placed = false;
        for (; gamma < 1e20; gamma *= 2.0) {
            placed = climb(s.h, offsets, lines, gamma, 1.0, args().window_ladders, added);
            if (placed) break;
        }
        g.block_sync();
        if (g.thread == 0) {
            s.least = placed ? this->least : 1e300;
            s.lines = lines;
            for (u32 j = had; j < lines; j++) s.offsets[j] = offsets[j];
        }
        g.block_sync();
        if (lines == had) return;
        for (u32 c = g.rank; c < total; c += g.size) turn(s, c, known()[c].f, had);
        for (u32 b = g.rank; b <= last; b += g.size) at<u32>(s.seen)[b] = ~0u;
        sync();
    }

    __device__ bool full() { return total > args().capacity; }

    // Decodes all windows against each other until nothing more is found.
    __device__ void exchange() {
        for (u32 turn = 0; turn < 24; turn++) {
            bool progress = false;
            for (u32 w = 0; w < made; w++) {
                u32 found = decode(w);
                if (!found && amended == 0.0) continue;
                total += found;
                fresh = true;
                if (full()) return;
                progress = true;
                refresh(0, made, amended > 0.0);
                if (open_all == 0.0) return;
            }
            if (!progress) return;
        }
    }

    // Σ over the buckets that c reaches in all windows of what they hold, against its tone; the buckets are
    // `rest` or, where `image`, those that the hash needs no more.
    __device__ Z against(u32 c, bool image, double best, double& gains) {
        const Z z = roots()[c];
        Z all = z_of(0.0, 0.0);
        gains = 0.0;
        for (u32 w = 0; w < made; w++) {
            const Spread& s = spread(w);
            const Z* held = at<Z>(image ? s.h.spare : s.rest);
            const Node* nodes = at<Node>(s.nodes) + 4 * c;
            const u32 low = at<u32>(s.low)[c];
            const double weight = best / floor_of(s.h);
#pragma unroll
            for (u32 i = 0; i < 4; i++) {
                const double gain = nodes[i].gain;
                const u32 b = low + i >= s.h.buckets ? low + i - s.h.buckets : low + i;
                Z sum = project(One(held + 4 * b), 0, z);
                for (u32 j = 1; j < lines_of(s); j++)
                    sum = add_conj(sum, project(One(held + place(s, j, b)), 0, z),
                                   at<Z>(s.bases)[(u64)c * LINES + j]);
                all = plus(all, scaled(sum, weight * gain));
                gains += 4.0 * lines_of(s) * weight * gain * gain;
            }
        }
        return all;
    }

    // Least squares of all values over all windows: conjugate gradients with columns scaled to one, in the form
    // that adds up both its products at once (Chronopoulos and Gear), so that a step has two barriers. Vectors of
    // the last step stay as they were while all threads compute the next ones. Returns whether some value changed
    // by more than a thousandth.
    FAR_MEMBER bool polish() {
        const u32 size = args().capacity;
        Z *change = at<Z>(args().spread_fit), *direction = change + size, *image = direction + size,
          *right[2] = {image + size, image + 2 * size}, *turned[2] = {image + 3 * size, image + 4 * size};
        double* scale = (double*)(image + 5 * size);
        double best = 1e300;
        for (u32 w = 0; w < made; w++) best = fmin(best, floor_of(spread(w).h));
        const double negligible = MANY ? this->negligible() : 0.0;
        double energy = 0.0, least = 1e300, gains;
        for (u32 c = g.rank; c < total; c += g.size) {
            const Z r = against(c, false, best, gains), zero = z_of(0.0, 0.0);
            const double by = 1.0 / sqrt(gains);
            scale[c] = by;
            right[0][c] = right[1][c] = scaled(r, by);
            change[c] = direction[c] = image[c] = turned[0][c] = turned[1][c] = zero;
            const Entry e = known()[c];
            energy += (e.re * e.re + e.im * e.im) * gains;
        }
        next_parts();
        leave(0, energy);
        sync();
        double goal = 1e-31 * sum(0), length = 0.0, alpha = 0.0, beta = 0.0;
        for (u32 step = 0; step < 80; step++) {
            const Z *r = right[step & 1], *t = turned[step & 1];
            // r - α(w + βs): what the last step left.
            auto next = [&](u32 c) { return minus(r[c], scaled(plus(image[c], scaled(t[c], beta)), alpha)); };
            for (u32 w = 0; w < made; w++) {
                const Spread& s = spread(w);
                for (u32 b = g.rank; b < s.h.buckets; b += g.size) {
                    if (!at<u32>(s.heads)[b]) continue;
                    Z v[4];
                    each(
                        s, b,
                        [&](u32) {
                            for (u32 tau = 0; tau < 4; tau++) v[tau] = z_of(0.0, 0.0);
                        },
                        [&](u32 c, double gain, u32 j) {
                            add_tone(v, at_line(s, c, j, scaled(next(c), gain * scale[c])), roots()[c]);
                        },
                        [&](u32 j) {
                            Z* to = at<Z>(s.h.spare) + place(s, j, b);
                            for (u32 tau = 0; tau < 4; tau++) to[tau] = v[tau];
                        });
                }
            }
            for (u32 c = g.rank; c < total; c += g.size) {
                const Z d = plus(r[c], scaled(direction[c], beta));
                if (step > 0) {
                    direction[c] = d;
                    change[c] = plus(change[c], scaled(d, alpha));
                }
                right[~step & 1][c] = next(c);
                turned[~step & 1][c] = plus(image[c], scaled(t[c], beta));
            }
            sync();
            double square = 0.0, product = 0.0;
            for (u32 c = g.rank; c < total; c += g.size) {
                const Z q = scaled(against(c, true, best, gains), scale[c]), d = right[~step & 1][c];
                image[c] = q;
                square += norm(d);
                product += d.x * q.x + d.y * q.y;
            }
            next_parts();
            leave(0, square);
            leave(1, product);
            sync();
            square = sum(0);
            product = sum(1);
            // Noise limits the values long before rounding does.
            if (step == 0) goal = fmax(goal, (MANY && noise > 1e-8 * power ? 1e-7 : 1e-16) * square);
            if (square <= goal) break;
            beta = step == 0 ? 0.0 : square / length;
            const double curvature = product - (step == 0 ? 0.0 : beta * square / alpha);
            if (!(curvature > 0.0)) break;
            alpha = square / curvature;
            length = square;
        }
        double much = 0.0;
        for (u32 c = g.rank; c < total; c += g.size) {
            Entry& e = known()[c];
            const Z by = scaled(change[c], scale[c]);
            much += norm(by) > 1e-6 * (e.re * e.re + e.im * e.im);
            e.re += by.x;
            e.im += by.y;
            const double size = e.re * e.re + e.im * e.im;
            if (size > negligible) least = fmin(least, size);
        }
        next_parts();
        leave(0, much);
        if (MANY) leave_least(1, least);
        sync();
        if (MANY) weakest = minimum(1);
        return sum(0) > 0.0;
    }
    __device__ void polish_all() {
        fresh = false;
        for (u32 pass = 0; pass < 2; pass++) {
            const bool much = polish();
            refresh(0, made, true);
            if (!much || (MANY && noise > 1e-8 * power)) return;
        }
    }

    // |a|² of coefficients that corrections have brought down to the noise.
    __device__ double negligible() {
        const Spread& s = spread(0);
        const u32 lanes = 4 * lines_of(s);
        return loud() ? 0.25 * this->limit(s.h, lanes) / lanes : 0.0;
    }

    // Takes the largest |x|² of the samples that were read.
    __device__ void note_peak() { peak = fmax(peak, -minimum(2)); }

    // One more window, of 2^log buckets, less everything that is known. Its lines place what has this share of the
    // weakest coefficient so far.
    FAR_MEMBER void widen(u32 log, double share) {
        const u32 w = made;
        if (g.thread == 0) {
            Spread s = this->template table<Spread>(args().spreads)[w];
            Hash h = this->template table<Hash>(args().shapes)[log - LEAST_LOG];
            h.bins = s.h.bins;
            h.spare = s.h.spare;
            // Fewer buckets leave room for more lines.
            h.lines = min_u32(LINES, s.h.lines * (s.most >> log));
            h.step = s.h.step;
            const u64 back = reduced(h.step * (h.reads / 2));
            h.back = back ? args().n - back : 0;
            s.h = h;
            g.spreads()[w] = s;
        }
        g.block_sync();
        const Spread& s = spread(w);
        clear(s, s.h.buckets);
        const u64 offsets[1] = {0};
        const Job job = {&s.h, offsets, 0, 1};
        double energy[3] = {0.0, 0.0, 0.0};
        for (u32 k = 0; k < steps_of(s.h); k++) {
            advance(&job, 1, k, energy);
            if (k == 1)
                for (u32 c = g.rank; c < total; c += g.size) enlist(w, c, known()[c].f);
            if (k == 0) {
                next_parts();
                leave_least(2, -energy[2]);
            }
            sync();
            if (k == 0) note_peak();
        }
        lines_read += s.h.reads;
        more_buckets += s.h.buckets;
        made = w + 1;
        fresh = true;
        refresh(0, made, false);
        if (MANY && (noisy || args().spread_lines > 1)) {
            climb_window(w, weakest < 1e300 ? share * weakest / floor_of(s.h) : 0.0);
            refresh(0, made, false);
        }
    }

    // Further windows until all buckets are explained. Returns why that failed, or zero.
    __device__ u32 resolve() {
        const Spread* given = this->template table<Spread>(args().spreads);
        const double k = args().spread_k;
        double stalled = 0.0;
        for (u32 round = 0; open_all > 0.0; round++) {
            const u32 before = total;
            exchange();
            if (round > 0) stalled = total == before ? stalled + 1.0 : 0.0;
            if (full()) return FULL;
            // Noise leaves no doubt while frequencies are known to be missing.
            if (open_last > 0.0 && (stalled > 0.0 || weak > 0.0 || (loud() && total >= k))) {
                // What is left may be the error of values that share their buckets.
                polish_all();
                exchange();
                if (full()) return FULL;
            }
            if (open_last == 0.0) break;
            if (stalled >= 3.0 || made == args().spread_windows) return weak > 0.0 ? WEAK : OPEN;
            // What was asked for is not what is there.
            if (k > 0.0 && total + 3.0 * open_last > 4.0 * k + 16.0) return OPEN;
            // A frequency opens up to four buckets.
            double wanted = fmax(floor(0.25 * open_last + 0.75), k - total) * BUCKETS_EACH, share = WEAKER;
            for (u32 i = 0; i < round / 2; i++) wanted *= 2.0;
            for (double i = 0.0; i < stalled; i += 1.0) {
                wanted *= 4.0;
                share *= 0.25;
            }
            // Noise must not hide the weakest.
            if (loud()) wanted = fmax(wanted, 100.0 * noise / weakest);
            // No fewer than would make lists long.
            wanted = fmin(fmax(wanted, total), given[made].most);
            u32 log = LEAST_LOG;
            while ((1u << log) < wanted) log++;
            widen(log, share);
        }
        return 0;
    }

    // The noise power from what is left of the first window, once everything is peeled, if it was taken from
    // occupied buckets: a lower one tightens every limit. Whether it did.
    FAR_MEMBER bool settle_noise() {
        if (!loud() || total == 0) return false;
        const Spread& s = spread(0);
        const Hash& h = s.h;
        double energy = 0.0;
        for (u32 b = g.rank; b < h.buckets; b += g.size) energy += at<double>(s.energies)[b];
        next_parts();
        leave(0, energy);
        sync();
        const double left = sum(0) / (4.0 * s.lines * h.buckets * h.energy);
        if (left > 0.3 * noise) return false;
        // What rounding and leakage leave is not noise.
        const double clean = ROUNDING * ROUNDING + h.leak * h.leak / h.energy;
        noisy = left > 30.0 * clean * power;
        noise = noisy ? left : 0.0;
        refresh(0, made, false);
        return true;
    }

    // The whole transform; returns the status.
    __device__ u32 run() {
        const Hash &h = args().window[0], &v = args().verify;
        const Spread* given = this->template table<Spread>(args().spreads);
        if (g.rank == 0) {
            Counters zero = {};
            count() = zero;
        }
        const u32 lines = MANY ? args().spread_lines : 1;
        if (g.thread == 0) {
            Spread& first = g.spreads()[0];
            first = given[0];
            first.lines = lines;
            for (u32 j = 0; j < lines; j++) first.offsets[j] = args().offsets[j];
            g.spreads()[VERIFYING] = given[VERIFYING];
        }
        g.block_sync();
        clear(given[0], h.buckets);
        clear(given[VERIFYING], v.buckets);
        // The first line is at zero.
        const Job jobs[2] = {{&v, args().offsets, 0, 1}, {&h, args().offsets, 0, lines}};
        const u32 steps = steps_of(h) > steps_of(v) ? steps_of(h) : steps_of(v);
        double energy[3] = {0.0, 0.0, 0.0};
        for (u32 k = 0; k < steps; k++) {
            advance(jobs, 2, k, energy);
            if (k == 0) {
                next_parts();
                leave(1, energy[1]);
                leave_least(2, -energy[2]);
            }
            sync();
            if (k == 0) {
                // Parseval: Σ|V|² = buckets·Σ|folded|², and the window weights a sample's power by ΣG².
                power = sum(1) / (4.0 * lines * h.energy);
                note_peak();
            }
        }
        lines_read += (u64)lines * h.reads + v.reads;
        if (!(power < 1e300) || !(peak < 1e300) || (power < TINY_POWER && peak > 0.0)) return STRANGE;
        made = 1;
        refresh(0, 1, false);
        const double k = args().spread_k;
        // Above what the frequencies that were asked for light, and before a window is too small.
        const double most = k > 0.0 ? fmin(CROWDED_WINDOW, fmax(CROWDED, 4.5 * k / h.buckets)) : CROWDED_WINDOW;
        if (MANY && open_last > most * h.buckets) {
            const double silent = floor_of(h);
            measure_noise(h, at<double>(spread(0).energies), 4 * lines);
            // No more than rounding and leakage.
            if (noise * h.energy < silent) {
                noisy = false;
                noise = 0.0;
            }
            refresh(0, 1, false);
        }
        head_active = open_last;
        if (open_last > CROWDED_WINDOW * h.buckets) return TOO_CROWDED;
        if (MANY && (noisy || lines > 1)) {
            climb_window(0, noisy ? args().spread_gamma : 0.0);
            if (spread(0).lines > lines) refresh(0, 1, false);
        }
        this->comb_lines = lines_of(spread(0));
        for (u32 turn = 0; turn < 4; turn++) {
            const u32 status = resolve();
            if (status) return status;
            if (total > 0 && (!MANY || fresh)) polish_all();
            if (!settle_noise()) break;
        }
        if (open_all > 0.0) return OPEN;
        // certify: the independent hash must be explained, without what corrections have brought down to the noise.
        const double negligible = this->negligible();
        double values = 0.0, kept = 0.0;
        for (u32 c = g.rank; c < total; c += g.size) {
            Entry& e = known()[c];
            if (loud() && e.re * e.re + e.im * e.im <= negligible) e.re = e.im = 0.0;
            const double size = sqrt(e.re * e.re + e.im * e.im);
            enlist(VERIFYING, c, e.f);
            values += size;
            kept += size > 0.0;
        }
        next_parts();
        leave(2, values);
        leave(3, kept);
        sync();
        values = sum(2);
        double limit = this->limit(v, 4);
        if (loud()) {
            // The values carry their own error, noise/(samples that gave them), into the four lanes.
            const double read = 4.0 * lines_of(spread(0)) * h.buckets, shared = 1.0 + sum(3) / v.buckets;
            limit += 4.0 * 20.0 * shared * noise / read;
        }
        refresh(VERIFYING, VERIFYING + 1, false);
        const double* energies = at<double>(spread(VERIFYING).energies);
        double left = 0.0;
        for (u32 b = g.rank; b < v.buckets; b += g.size) left += !(energies[b] <= limit);
        next_parts();
        leave(0, left);
        sync();
        head_left = sum(0);
        // The window weighs its ends down, but no sample anywhere can exceed the sum of all values and the noise.
        const double hiss = sqrt(noise * (20.0 + 0.6931471805599453 * log2(4.0 * v.buckets)));
        if (sqrt(peak) > values * (1.0 + 1e-9) + hiss + ROUNDING * sqrt(power)) head_left += 1.0;
        head_verified = (sqrt(limit) + args().sigmas * sqrt(floor_of(v))) / (2.0 * 0.4);
        return head_left > 0.0 ? DENIED : EXPLAINED;
    }

    __device__ void transform(bool last) {
        const u32 status = run();
        this->rounds = made > 0 ? made - 1 : 0;
        this->report(status, min_u32(total, args().capacity), more_buckets, last);
    }
    __device__ static u32 min_u32(u32 a, u32 b) { return a < b ? a : b; }
};
