// exact for many coefficients: n = 2^m, a comb of B = R1·R2 bins, and all multiprocessors at work in a
// chain of short kernels; everything between them lies in the second cache. What is not plain is
// left to sparse.cuh (the status says so).
//
// 1. comb:   teeth j = R2·j1 + j2 of eight shifts; transforms over j1, turned by w_B^{j2·k1}. Beside it
//            the verifying window is folded, and the counters of the others are cleared.
// 2. bins:   transforms over j2 of the first four shifts: the bins k1 + R1·k2. Those that hold something
//            are listed. Beside it, the verifying buckets' transforms over their columns.
// 3. decode: one frequency or two from four shifts. Beside it, the transforms over their rows.
// 4. open:   what is left gets its other four shifts, as single sums over j2, and up to four frequencies.
// 5. judge:  what was found was put into cells, by frequency and by verifying bucket. Cell by cell it is
//            the answer in order; and it leaves the verifying buckets, which are judged.
//
// Atomics count and hand out places, and add no values up: two runs give the same bits.
#include "four.cuh"

struct Wide {
    u64 x, n, mask;
    double inverse;
    u64 tables, work, out;
    u32 format, capacity, actives, opens;
    double sigmas, threshold[5];
    // Of the comb: logarithms of its bins and of R1, distance of its teeth, 1/B.
    u32 log_bins, log_first;
    u64 step;
    double bin;
    // Roots of unity: B, R1, R2; V, V1, V2.
    u64 roots, first_roots, second_roots;
    u64 verify_roots, verify_first_roots, verify_second_roots;
    // Of the verifying window, as in Hash.
    u64 verify_step, verify_back, verify_taps, verify_series;
    u32 log_n, log_verify, log_verify_first, log_cells;
    u32 verify_reads, verify_terms;
    double verify_energy, verify_leak, verify_beta2, verify_slope;
    // Places in the workspace.
    u64 points, more, folded, columns, verify;
    u64 energies, wides, state, active, active_bins, open, known;
    u64 cells, ordered, reached;
    // Blocks that gather teeth, and that fold.
    u32 combs, folds;
};

// What kernels tell each other; zeros at first.
struct __align__(16) State {
    u32 active, open, known, still, left, done, status, crowded;
    u32 full, pad;
    double power, more[2];
};

// Finds that a cell has room for. There are one or two on average.
const u32 SLOTS = 16;
const u32 COMB_THREADS = 512, THREADS_2 = 256, OPEN_THREADS = 256;

template <class T> DEV T* at(const Wide& a, u64 offset) {
    return (T*)(a.work + offset);
}
template <class T> DEV const T* table(const Wide& a, u64 offset) {
    return (const T*)(a.tables + offset);
}
// Kernels after the first are launched before the one ahead has ended, and wait for it here; each lets
// the next one come as soon as it runs itself.
DEV void in_turn() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;\n"
                 "griddepcontrol.wait;" ::
                     : "memory");
#endif
}

DEV State& state(const Wide& a) { return *at<State>(a, a.state); }
DEV u32 second_log(const Wide& a) { return a.log_bins - a.log_first; }

// Sums over a block in a fixed order; everyone gets them.
DEV double block_sum(double v) {
    __shared__ double board[33];
    v = warp_sum(v);
    const u32 warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    __syncthreads();
    if (lane == 0) board[warp] = v;
    __syncthreads();
    if (warp == 0) {
        v = warp_sum(lane < blockDim.x / 32 ? board[lane] : 0.0);
        if (lane == 0) board[32] = v;
    }
    __syncthreads();
    return board[32];
}

template <int FORMAT> DEV Z sample(const Wide& a, u64 i) {
    const void* x = (const void*)(a.x);
    if (FORMAT == 0) return ((const Z*)x)[i];
    if (FORMAT == 1) {
        float2 v = ((const float2*)x)[i];
        return z_of(v.x, v.y);
    }
    if (FORMAT == 2) return z_of(((const double*)x)[i], 0.0);
    return z_of(((const float*)x)[i], 0.0);
}
// COUNT samples, place(i) apart.
template <u32 COUNT, class Place> DEV void samples(const Wide& a, Z* v, Place place) {
#define LOAD(FORMAT) \
    _Pragma("unroll") for (u32 i = 0; i < COUNT; i++) v[i] = sample<FORMAT>(a, place(i));
    switch (a.format) {
    case 0: LOAD(0) break;
    case 1: LOAD(1) break;
    case 2: LOAD(2) break;
    default: LOAD(3) break;
    }
#undef LOAD
}

// Transforms of 2^LOGR points, COUNT of them side by side, 2^LOGP points per thread.
template <int LOGR, u32 THREADS> struct Tile {
    static const int LOGP = LOGR > 9 ? 4 : 3;
    static const u32 R = 1u << LOGR, P = 1u << LOGP, T = R / P, COUNT = THREADS / T;
    // Rows of less than 128 bytes are spread over the banks.
    static const u32 POINTS = (COUNT < 8 ? R + R / 8 : R) * COUNT;
    u32 g;
    int y;
    __device__ Tile() : g(threadIdx.x % COUNT), y(threadIdx.x / COUNT) {}
    __device__ void run(Z* v, Z* shared, const Z* roots) {
        const u32 g = this->g;
        Steps<LOGR, LOGP, 0>::run(
            v, shared, roots, y, [=](u32 e) { return (COUNT < 8 ? e + (e >> 3) : e) * COUNT + g; }, [] {});
    }
    // Output number q of this thread is turned by w^{c·(qT + y)}, from a table of 2^log roots w.
    __device__ void turn(Z* v, const Z* roots, u32 c, u32 log) {
        Z w[LOGP];
        const u32 mask = (1u << log) - 1;
#pragma unroll
        for (int b = 0; b < LOGP; b++) w[b] = roots[((c * T) << b) & mask];
        Turn<LOGP, 1, Z>::by(v, roots[c * y & mask], w);
    }
};

// fold: one bucket and shift of the verifying window per thread.
DEV void fold(const Wide& a, u32 block) {
    const u32 item = block * COMB_THREADS + threadIdx.x, V = 1u << a.log_verify;
    Z sum = z_of(0.0, 0.0);
    if (item < 4 * V) {
        const u32 shift = item & 3, reads = a.verify_reads, reach = reads / 2;
        const u32 begin = ((item >> 2) + reach) & (V - 1);
        const double* taps = table<double>(a, a.verify_taps);
        Z u[5];
        double g[5];
        samples<5>(a, u, [&](u32 k) {
            u32 tap = begin + k * V;
            tap = tap < reads ? tap : begin;
            return (a.verify_back + a.verify_step * tap + shift) & a.mask;
        });
#pragma unroll
        for (u32 k = 0; k < 5; k++) {
            const u32 tap = begin + k * V;
            g[k] = tap < reads ? taps[tap > reach ? tap - reach : reach - tap] : 0.0;
        }
#pragma unroll
        for (u32 k = 0; k < 5; k++) {
            sum.x = fma(g[k], u[k].x, sum.x);
            sum.y = fma(g[k], u[k].y, sum.y);
        }
        at<Z>(a, a.folded)[item] = sum;
    }
    const double wide = block_sum(norm(sum));
    if (threadIdx.x == 0) at<double>(a, a.wides)[block] = wide;
}

template <int LOGR> DEV void comb(const Wide& a, Z* shared) {
    typedef Tile<LOGR, COMB_THREADS> T;
    const u32 COLUMNS = T::COUNT / 8;
    in_turn();
    // Counters and cells, for the kernels that follow.
    const u32 cells = (1u << a.log_cells) + (1u << a.log_verify);
    for (u32 i = blockIdx.x * COMB_THREADS + threadIdx.x; i < cells; i += gridDim.x * COMB_THREADS)
        at<u32>(a, a.cells)[i] = 0;
    if (blockIdx.x == 0 && threadIdx.x < sizeof(State) / 4) at<u32>(a, a.state)[threadIdx.x] = 0;
    if (blockIdx.x >= a.combs) {
        fold(a, blockIdx.x - a.combs);
        return;
    }
    T tile;
    const u32 R2 = 1u << second_log(a), shift = tile.g & 7, j2 = blockIdx.x * COLUMNS + (tile.g >> 3);
    const u64 first = a.step * (R2 * tile.y + j2) + shift, step = a.step * (R2 * T::T);
    Z v[T::P];
    samples<T::P>(a, v, [&](u32 q) { return first + q * step; });
    double energy = 0.0;
#pragma unroll
    for (u32 q = 0; q < T::P; q++) energy += norm(v[q]);
    tile.run(v, shared, table<Z>(a, a.first_roots));
    tile.turn(v, table<Z>(a, a.roots), j2, a.log_bins);
    Z* to = at<Z>(a, shift < 4 ? a.points : a.more) + (shift & 3);
#pragma unroll
    for (u32 q = 0; q < T::P; q++) to[((u64)(q * T::T + tile.y) * R2 + j2) * 4] = v[q];
    energy = block_sum(energy);
    if (threadIdx.x == 0) at<double>(a, a.energies)[blockIdx.x] = energy;
}

// bucket FFT of the verifying window: columns, then rows.
template <int LOGR> DEV void verify_columns(const Wide& a, u32 block, Z* shared) {
    typedef Tile<LOGR, THREADS_2> T;
    T tile;
    const u32 log2 = a.log_verify - LOGR, all = 4u << log2, g = block * T::COUNT + tile.g;
    const Z* from = at<Z>(a, a.folded);
    Z v[T::P];
#pragma unroll
    for (u32 q = 0; q < T::P; q++)
        v[q] = g < all ? from[(q * T::T + tile.y) * all + g] : z_of(0.0, 0.0);
    tile.run(v, shared, table<Z>(a, a.verify_first_roots));
    tile.turn(v, table<Z>(a, a.verify_roots), g >> 2, a.log_verify);
    Z* to = at<Z>(a, a.columns);
    if (g < all) {
#pragma unroll
        for (u32 q = 0; q < T::P; q++) to[(q * T::T + tile.y) * all + g] = v[q];
    }
}
template <int LOGR> DEV void verify_rows(const Wide& a, u32 block, Z* shared) {
    typedef Tile<LOGR, THREADS_2> T;
    T tile;
    const u32 rows = 1u << a.log_verify_first, g = block * T::COUNT + tile.g, k1 = g >> 2, shift = g & 3;
    const Z* from = at<Z>(a, a.columns);
    const bool there = k1 < rows;
    Z v[T::P];
#pragma unroll
    for (u32 q = 0; q < T::P; q++)
        v[q] = there ? from[((k1 << LOGR) + q * T::T + tile.y) * 4 + shift] : z_of(0.0, 0.0);
    tile.run(v, shared, table<Z>(a, a.verify_second_roots));
    Z* to = at<Z>(a, a.verify);
    if (there) {
#pragma unroll
        for (u32 q = 0; q < T::P; q++) to[(k1 + (q * T::T + tile.y) * rows) * 4 + shift] = v[q];
    }
}

// One copy of each serves all kernels.
static __device__ __noinline__ void verify_first(const Wide& a, u32 block, Z* shared) {
    switch (a.log_verify_first) {
    case 5: verify_columns<5>(a, block, shared); break;
    case 6: verify_columns<6>(a, block, shared); break;
    case 7: verify_columns<7>(a, block, shared); break;
    case 8: verify_columns<8>(a, block, shared); break;
    default: verify_columns<9>(a, block, shared); break;
    }
}
static __device__ __noinline__ void verify_second(const Wide& a, u32 block, Z* shared) {
    switch (a.log_verify - a.log_verify_first) {
    case 5: verify_rows<5>(a, block, shared); break;
    case 6: verify_rows<6>(a, block, shared); break;
    case 7: verify_rows<7>(a, block, shared); break;
    case 8: verify_rows<8>(a, block, shared); break;
    default: verify_rows<9>(a, block, shared); break;
    }
}

// Floors and limits, as in peeling.
DEV double floor_of(const Wide& a, double power) { return ROUNDING * ROUNDING * power * a.bin; }

template <int LOGR> DEV void bins(const Wide& a, Z* shared) {
    typedef Tile<LOGR, THREADS_2> T;
    const u32 ROWS = T::COUNT / 4, blocks = (1u << a.log_first) / ROWS;
    in_turn();
    if (blockIdx.x >= blocks) {
        verify_first(a, blockIdx.x - blocks, shared);
        return;
    }
    __shared__ u32 before[THREADS_2 / 32], base;
    T tile;
    const u32 t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const u32 shift = tile.g & 3, k1 = blockIdx.x * ROWS + (tile.g >> 2);
    const Z* from = at<Z>(a, a.points) + ((u64)k1 << (LOGR + 2)) + shift;
    Z v[T::P];
#pragma unroll
    for (u32 q = 0; q < T::P; q++) v[q] = from[(q * T::T + tile.y) * 4];
    // The mean energy of a sample, from what all blocks have read.
    double power = 0.0;
    for (u32 i = t; i < a.combs; i += THREADS_2) power += at<double>(a, a.energies)[i];
    power = block_sum(power) * (0.125 * a.bin);
    tile.run(v, shared, table<Z>(a, a.second_roots));
    const double limit = floor_of(a, power) * a.threshold[4];
    // locate: which bins hold anything.
    u32 full = 0;
#pragma unroll
    for (u32 q = 0; q < T::P; q++) {
        v[q] = scaled(v[q], a.bin);
        double e = norm(v[q]);
        e += __shfl_xor_sync(~0u, e, 1);
        e += __shfl_xor_sync(~0u, e, 2);
        full |= (e > limit) << q;
    }
    u32 count = shift == 0 ? __popc(full) : 0, place = count;
#pragma unroll
    for (u32 d = 1; d < 32; d <<= 1) {
        const u32 other = __shfl_up_sync(~0u, place, d);
        if (lane >= d) place += other;
    }
    if (lane == 31) before[warp] = place;
    place -= count;
    __syncthreads();
    if (t == 0) {
        u32 sum = 0;
        for (u32 i = 0; i < THREADS_2 / 32; i++) {
            const u32 here = before[i];
            before[i] = sum;
            sum += here;
        }
        base = sum ? atomicAdd(&state(a).active, sum) : 0;
    }
    __syncthreads();
    place = __shfl_sync(~0u, place, lane & ~3u) + before[warp] + base;
    Z* to = at<Z>(a, a.active);
    u32* names = at<u32>(a, a.active_bins);
#pragma unroll
    for (u32 q = 0; q < T::P; q++) {
        if (full >> q & 1) {
            if (place < a.actives) {
                to[place * 4 + shift] = v[q];
                if (shift == 0) names[place] = k1 + ((q * T::T + tile.y) << a.log_first);
            }
            place++;
        }
    }
    if (blockIdx.x == 0) {
        double wide = 0.0;
        for (u32 i = t; i < a.folds; i += THREADS_2) wide += at<double>(a, a.wides)[i];
        wide = block_sum(wide) / (4.0 * a.verify_energy);
        if (t == 0) {
            u32 status = EXPLAINED;
            if (!(power < 1e300) || !(wide < 1e300) || (power > 0.0 && power < TINY_POWER))
                status = STRANGE;
            else if (wide > 100.0 * power)
                status = BLIND;
            state(a).power = power;
            state(a).status = status;
        }
    }
}

// Puts a find into its cells; i is its number.
DEV void put(const Wide& a, u32 i, u32 one, u32 two, u32 cell, u32 bucket, u64 f, Z v) {
    const Entry e = {f, v.x, v.y};
    if (i < a.capacity) at<Entry>(a, a.known)[i] = e;
    if (one < SLOTS)
        at<Entry>(a, a.ordered)[(u64)cell * SLOTS + one] = e;
    else
        state(a).crowded = 1;
    if (two < SLOTS)
        at<Entry>(a, a.reached)[(u64)bucket * SLOTS + two] = e;
    else
        state(a).full = 1;
}
// Notes what the lanes of a warp have found, COUNT frequencies each or none. All numbers are asked for
// before any is waited for.
template <u32 COUNT> DEV void note(const Wide& a, bool found, const u64* f, const Z* v) {
    const u32 lane = threadIdx.x & 31, mask = __ballot_sync(~0u, found);
    if (mask == 0) return;
    u32* cells = at<u32>(a, a.cells);
    u32 i = 0, cell[COUNT], bucket[COUNT], one[COUNT], two[COUNT];
    if (lane == 0) i = atomicAdd(&state(a).known, COUNT * __popc(mask));
    if (found) {
#pragma unroll
        for (u32 k = 0; k < COUNT; k++) {
            cell[k] = (u32)(f[k] >> (a.log_n - a.log_cells));
            bucket[k] = (u32)((a.verify_step * f[k] & a.mask) >> (a.log_n - a.log_verify));
            one[k] = atomicAdd(cells + cell[k], 1u);
            two[k] = atomicAdd(cells + (1u << a.log_cells) + bucket[k], 1u);
        }
    }
    i = __shfl_sync(~0u, i, 0) + COUNT * __popc(mask & ((1u << lane) - 1));
    if (found) {
#pragma unroll
        for (u32 k = 0; k < COUNT; k++) put(a, i + k, one[k], two[k], cell[k], bucket[k], f[k], v[k]);
    }
}

DEV Ring ring_of(const Wide& a) {
    Ring r = {a.n, a.mask, a.inverse};
    return r;
}

extern "C" __global__ void __launch_bounds__(THREADS_2, 2)
wide_decode(const __grid_constant__ Wide a, u32 blocks) {
    __shared__ Z shared[Tile<9, THREADS_2>::POINTS];
    in_turn();
    if (blockIdx.x >= blocks) {
        verify_second(a, blockIdx.x - blocks, shared);
        return;
    }
    __shared__ u32 listed, list[THREADS_2];
    const u32 t = threadIdx.x, active = state(a).active, B = 1u << a.log_bins;
    if (active > a.actives || state(a).status != EXPLAINED) return;
    const double floor = floor_of(a, state(a).power);
    const Ring ring = ring_of(a);
    const Z* from = at<Z>(a, a.active);
    const u32* names = at<u32>(a, a.active_bins);
    double away, left;
    for (u32 first = blockIdx.x * THREADS_2; first < active; first += blocks * THREADS_2) {
        if (t == 0) listed = 0;
        __syncthreads();
        u32 i = first + t;
        u64 f[2] = {0, 0};
        Z v[2];
        bool found = false;
        if (i < active) {
            const One l(from + 4 * i);
            f[0] = ring.snap(single(l), B, a.bin, names[i], away);
            found = fit_one(ring, l, f[0], v[0]) <= floor * a.threshold[3] + OWN_ROUNDING * l.energy();
            if (!found) list[atomicAdd(&listed, 1u)] = i;
        }
        note<1>(a, found, f, v);
        __syncthreads();
        const u32 count = listed;
        for (u32 k = t; k < (count + 31) / 32 * 32; k += THREADS_2) {
            found = false;
            if (k < count) {
                i = list[k];
                const One l(from + 4 * i);
                double turn[2];
                if (twin(l, turn)) {
                    f[0] = ring.snap(turn[0], B, a.bin, names[i], away);
                    f[1] = ring.snap(turn[1], B, a.bin, names[i], away);
                    found = f[0] != f[1] && fit_two(ring, l, f, v, left) &&
                            left <= floor * a.threshold[2] + OWN_ROUNDING * l.energy();
                }
                if (!found) {
                    const u32 o = atomicAdd(&state(a).open, 1u);
                    if (o < a.opens) at<u32>(a, a.open)[o] = i;
                }
            }
            note<2>(a, found, f, v);
        }
        __syncthreads();
    }
}

// Four more shifts of one bin by a block, its frequencies by a warp.
extern "C" __global__ void __launch_bounds__(OPEN_THREADS)
wide_open(const __grid_constant__ Wide a) {
    __shared__ Z parts[OPEN_THREADS / 32][4];
    in_turn();
    const u32 t = threadIdx.x, lane = t & 31, warp = t >> 5, shift = t & 3, R2 = 1u << second_log(a);
    const u32 open = state(a).open < a.opens ? state(a).open : 0;
    const double tolerance = floor_of(a, state(a).power) * a.threshold[4];
    const Z* roots = table<Z>(a, a.second_roots);
    for (u32 o = blockIdx.x; o < open; o += gridDim.x) {
        const u32 i = at<u32>(a, a.open)[o], b = at<u32>(a, a.active_bins)[i];
        const u32 k1 = b & ((1u << a.log_first) - 1), k2 = b >> a.log_first;
        const Z* from = at<Z>(a, a.more) + (u64)k1 * R2 * 4 + shift;
        Z sum = z_of(0.0, 0.0);
#pragma unroll 8
        for (u32 j = t >> 2; j < R2; j += OPEN_THREADS / 4)
            sum = plus(sum, times(from[j * 4], roots[j * k2 & (R2 - 1)]));
#pragma unroll
        for (u32 d = 4; d < 32; d <<= 1) {
            sum.x += __shfl_xor_sync(~0u, sum.x, d);
            sum.y += __shfl_xor_sync(~0u, sum.y, d);
        }
        __syncthreads();
        if (lane < 4) parts[warp][lane] = sum;
        __syncthreads();
        if (warp) continue;
        sum = parts[0][shift];
#pragma unroll
        for (u32 k = 1; k < OPEN_THREADS / 32; k++) sum = plus(sum, parts[k][shift]);
        const Z mine = lane & 4 ? scaled(sum, a.bin) : at<Z>(a, a.active)[4 * i + shift];
        u64 f = 0;
        Z v;
        const u32 m = up_to_four(ring_of(a), mine, b, 1u << a.log_bins, a.bin, tolerance, lane, f, v);
        note<1>(a, lane < m, &f, &v);
        if (m == 0 && lane == 0) atomicAdd(&state(a).still, 1u);
    }
}

// The response of the verifying window; `c` has an even number of terms, highest first.
DEV double response(const Wide& a, const double* c, double away) {
    if (fabs(away) >= 2.0) return 0.0;
    const double u = fma(away * away, -a.verify_slope, a.verify_beta2), u2 = u * u;
    double odd = c[0], even = c[1];
#pragma unroll 4
    for (u32 i = 2; i < a.verify_terms; i += 2) {
        odd = fma(odd, u2, c[i]);
        even = fma(even, u2, c[i + 1]);
    }
    return fma(odd, u, even);
}

// Sums over four neighbouring lanes.
DEV Z four_sum(Z v) {
    v.x += __shfl_xor_sync(~0u, v.x, 1);
    v.y += __shfl_xor_sync(~0u, v.y, 1);
    v.x += __shfl_xor_sync(~0u, v.x, 2);
    v.y += __shfl_xor_sync(~0u, v.y, 2);
    return v;
}

// The finds of 4·THREADS_2 cells in order of frequency, behind those of the cells before.
DEV void order(const Wide& a, u32 block, u32 blocks, Entry* answer) {
    __shared__ u32 sums[THREADS_2 / 32], board[THREADS_2 / 32];
    const u32 t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const uint4* cells = at<uint4>(a, a.cells);
    if (state(a).crowded) {
        // Many frequencies side by side: in any order, for the host to sort.
        const u32 known = state(a).known < a.capacity ? state(a).known : 0;
        for (u32 i = block * THREADS_2 + t; i < known; i += blocks * THREADS_2)
            answer[i] = at<Entry>(a, a.known)[i];
        return;
    }
    u32 prior = 0;
#pragma unroll 8
    for (u32 i = t; i < block * THREADS_2; i += THREADS_2) {
        const uint4 c = cells[i];
        prior += c.x + c.y + c.z + c.w;
    }
    const u32 first = block * THREADS_2 + t;
    const uint4 c = cells[first];
    u32 sum = c.x + c.y + c.z + c.w, place = sum;
#pragma unroll
    for (u32 d = 1; d < 32; d <<= 1) {
        const u32 other = __shfl_up_sync(~0u, place, d);
        if (lane >= d) place += other;
        prior += __shfl_xor_sync(~0u, prior, d);
    }
    if (lane == 31) sums[warp] = place;
    if (lane == 0) board[warp] = prior;
    __syncthreads();
    place -= sum;
#pragma unroll
    for (u32 i = 0; i < THREADS_2 / 32; i++) place += board[i] + (i < warp ? sums[i] : 0);
    const Entry* from = at<Entry>(a, a.ordered) + (u64)first * 4 * SLOTS;
    const u32 counts[4] = {c.x, c.y, c.z, c.w};
    // Most cells have two finds at most: those of all four are asked for at once.
    Entry low[4], high[4];
#pragma unroll
    for (u32 k = 0; k < 4; k++) {
        if (counts[k] > 0) low[k] = from[k * SLOTS];
        if (counts[k] > 1) high[k] = from[k * SLOTS + 1];
    }
#pragma unroll
    for (u32 k = 0; k < 4; k++, from += SLOTS) {
        if (place + counts[k] > a.capacity) break;
        if (counts[k] == 1) {
            answer[place] = low[k];
        } else if (counts[k] == 2) {
            const bool swap = high[k].f < low[k].f;
            answer[place + swap] = low[k];
            answer[place + !swap] = high[k];
        } else {
            for (u32 i = 0; i < counts[k]; i++) {
                const Entry e = from[i];
                u32 before = 0;
                for (u32 j = 0; j < counts[k]; j++) before += from[j].f < e.f;
                answer[place + before] = e;
            }
        }
        place += counts[k];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS_2)
wide_judge(const __grid_constant__ Wide a, u32 ordering) {
    __shared__ double series[96];
    __shared__ bool last;
    const u32 t = threadIdx.x, size = (gridDim.x - ordering) * THREADS_2;
    const bool orders = blockIdx.x < ordering;
    Header* head = (Header*)(a.out);
    for (u32 i = t; i < a.verify_terms; i += THREADS_2)
        series[i] = table<double>(a, a.verify_series)[i];
    in_turn();
    __syncthreads();
    if (orders) order(a, blockIdx.x, ordering, (Entry*)(head + 1));
    // peel and certify: bucket b is reached from the cells b - 2 … b + 1, one lane each. Their order
    // differs from run to run, and with it the last bit of what is judged, but of no value.
    const u32 V = 1u << a.log_verify, shift = a.log_n - a.log_verify;
    const double power = state(a).power, scale = (double)V * a.inverse;
    const double leaks = a.verify_leak * a.verify_leak * power;
    const double floor = fma(ROUNDING * ROUNDING * power, a.verify_energy, leaks);
    const double limit = floor * a.threshold[4];
    const Ring ring = ring_of(a);
    const u32* reached = at<u32>(a, a.cells) + (1u << a.log_cells);
    u32 left = 0;
    for (u32 i = (blockIdx.x - ordering) * THREADS_2 + t; i < 4 * V && !orders; i += size) {
        const u32 b = i >> 2, lane = i & 3, cell = (b + V - 2 + lane) & (V - 1);
        const u32 count = min(reached[cell], SLOTS);
        const Entry* finds = at<Entry>(a, a.reached) + (u64)cell * SLOTS;
        const Z bucket = at<Z>(a, a.verify)[i];
        Z s0 = z_of(0.0, 0.0), s1 = s0, s2 = s0, s3 = s0;
        Entry next = finds[0];
#pragma unroll 1
        for (u32 k = 0; k < count; k++) {
            const Entry e = next;
            if (k + 1 < count) next = finds[k + 1];
            const u64 rest = (a.verify_step * e.f & a.mask) & ((1ull << shift) - 1);
            const double gain = response(a, series, 2.0 - (double)lane - (double)rest * scale);
            const Z z = ring.root(e.f);
            Z v = z_of(gain * e.re, gain * e.im);
            s0 = plus(s0, v);
            v = times(v, z);
            s1 = plus(s1, v);
            v = times(v, z);
            s2 = plus(s2, v);
            s3 = plus(s3, times(v, z));
        }
        // Lane τ takes the sum of shift τ.
        s0 = four_sum(s0);
        s1 = four_sum(s1);
        s2 = four_sum(s2);
        s3 = four_sum(s3);
        const Z mine = lane == 0 ? s0 : lane == 1 ? s1 : lane == 2 ? s2 : s3;
        double energy = norm(minus(bucket, mine));
        energy += __shfl_xor_sync(~0u, energy, 1);
        energy += __shfl_xor_sync(~0u, energy, 2);
        left += lane == 0 && !(energy <= limit);
    }
#pragma unroll
    for (u32 d = 16; d > 0; d >>= 1) left += __shfl_xor_sync(~0u, left, d);
    if ((t & 31) == 0 && left) atomicAdd(&state(a).left, left);
    __threadfence();
    __syncthreads();
    if (t == 0) last = atomicAdd(&state(a).done, 1u) == gridDim.x - 1;
    __syncthreads();
    if (!last || t) return;
    // What other blocks have added is not in this one's first cache.
    State s;
#pragma unroll
    for (u32 i = 0; i < sizeof(State) / 16; i++) ((uint4*)&s)[i] = __ldcg((const uint4*)&state(a) + i);
    u32 status = s.status;
    if (status == EXPLAINED && (s.active > a.actives || s.active > CROWDED * (1u << a.log_bins)))
        status = TOO_CROWDED;
    if (status == EXPLAINED && (s.open >= a.opens || s.still)) status = OPEN;
    if (status == EXPLAINED && (s.known >= a.capacity || s.full)) status = FULL;
    if (status == EXPLAINED && s.left) status = BLIND;
    Header h = {};
    h.status = status;
    h.known = s.known < a.capacity ? s.known : 0;
    h.open = s.open >= a.opens ? s.open : s.still;
    h.active = s.active;
    h.lines = 1;
    h.left = s.left;
    h.steps = 5;
    h.lines_read = (2ull << a.log_bins) + a.verify_reads;
    h.power = power;
    h.verified = (sqrt(limit) + a.sigmas * sqrt(floor)) / (2.0 * 0.4);
    *head = h;
}

#define COMB(LOGR, LEAST)                                                                           \
    extern "C" __global__ void __launch_bounds__(COMB_THREADS, LEAST)                               \
        wide_comb_##LOGR(const __grid_constant__ Wide a) {                                          \
        comb<LOGR>(a, (Z*)memory);                                                                  \
    }
#define BINS(LOGR, LEAST)                                                                           \
    extern "C" __global__ void __launch_bounds__(THREADS_2, LEAST)                                  \
        wide_bins_##LOGR(const __grid_constant__ Wide a) {                                          \
        bins<LOGR>(a, (Z*)memory);                                                                  \
    }
extern __shared__ __align__(16) unsigned char memory[];
COMB(7, 2)
COMB(8, 2)
COMB(9, 2)
COMB(10, 1)
BINS(6, 4)
BINS(7, 4)
BINS(8, 4)
BINS(9, 4)
BINS(10, 2)
