// Dense transforms of n = 2^8 … 2^30 points in one, two or three passes over memory.
//
// A pass is one step of Stockham's scheme (fft.cuh) on the whole signal, with radix R = 64 …
// 1024 and the step itself done in shared memory: with M = n/R columns and S the product of the
// radices before, column c is x[t·M + c], t < R; output k is turned by w_{n/S}^{k·(c/S)} and goes
// to ((c/S)·R + k)·S + c%S. A block takes C neighbouring columns, so that memory is read and
// written in runs of C values or more.
//
// first: S = 1. Output k of column c goes to c·R + k: the threads change columns before the last
//        step in shared memory, so that neighbours write neighbours.
// rest:  S ≥ C. All columns of a block have the same c/S. The last pass (S = M) may work in place.
// whole: n = R, one or more signals per block.
//
// The inverse is conj ∘ forward ∘ conj: `in_im`, `out_re` and `out_im` are factors for the parts
// that are read and written; they carry the sign and the scale.
//
// Compiled once per precision: V and S are double2 and double, or float2 and float.
#include "fft.cuh"

#ifdef SINGLE
typedef float2 V;
typedef float S;
#else
typedef double2 V;
typedef double S;
#endif

// With STREAM, loads and stores tell the cache that the data are not needed again.
__device__ __forceinline__ V load(const V* p) {
#ifdef STREAM
    return __ldcs(p);
#else
    return *p;
#endif
}

__device__ __forceinline__ void store(V* p, V z) {
#ifdef STREAM
    __stcs(p, z);
#else
    *p = z;
#endif
}

struct Pass {
    const V* input;
    V* output;
    const V* roots; // w_R
    const V* high;  // w_n^j = high[j >> shift] · low[j & (2^shift - 1)]
    const V* low;
    unsigned shift;
    unsigned log_n;
    unsigned log_s;
    unsigned batch;
    S in_im, out_re, out_im;
};

__device__ __forceinline__ V root(const Pass& p, unsigned j) {
    return times(__ldg(p.high + (j >> p.shift)), __ldg(p.low + (j & ((1u << p.shift) - 1))));
}

template <int LOGR, int LOGP, int LOGC, bool FIRST>
__device__ __forceinline__ void pass(const Pass& p, V* shared) {
    const int R = 1 << LOGR, P = 1 << LOGP, C = 1 << LOGC, T = R / P;
    const unsigned log_m = p.log_n - LOGR;
    const unsigned blocks = log_m - LOGC;
    const size_t signal = (size_t)(blockIdx.x >> blocks) << p.log_n;
    const unsigned c0 = (blockIdx.x & ((1u << blocks) - 1)) << LOGC;
    int cx = threadIdx.x & (C - 1), y = threadIdx.x >> LOGC;

    V v[P];
    const V* input = p.input + signal + c0 + cx + ((size_t)y << log_m);
#pragma unroll
    for (int q = 0; q < P; q++, input += (size_t)T << log_m) v[q] = load(input);
#pragma unroll
    for (int q = 0; q < P; q++) v[q].y *= p.in_im;

    // A column padded to an odd length spreads the C columns over the banks; without change of
    // columns a row of C values is one line of banks.
    auto place = [&](int e) { return FIRST ? cx * (R + 1) + e : e * C + cx; };
    auto hand_over = [&]() {
        if (FIRST) {
            cx = threadIdx.x >> (LOGR - LOGP);
            y = threadIdx.x & (T - 1);
        }
    };
    Steps<LOGR, LOGP, 0>::run(v, shared, p.roots, y, place, hand_over);

    const unsigned c = c0 + cx;
    const unsigned turn = FIRST ? c : c >> p.log_s;
    if (turn != 0 && log_m != p.log_s) {
        // v[q] is output q·T + y: w^{turn·y} times the powers of w^{turn·T}.
        V w[LOGP];
#pragma unroll
        for (int b = 0; b < LOGP; b++) w[b] = root(p, (turn << (LOGR - LOGP + b)) << p.log_s);
        Turn<LOGP, 1, V>::by(v, root(p, (turn * y) << p.log_s), w);
    }
    V* output = p.output + signal;
    size_t step;
    if (FIRST) {
        output += ((size_t)c << LOGR) + y;
        step = T;
    } else {
        unsigned rest = c & ((1u << p.log_s) - 1);
        output += ((size_t)turn << (LOGR + p.log_s)) + rest + ((size_t)y << p.log_s);
        step = (size_t)T << p.log_s;
    }
#pragma unroll
    for (int q = 0; q < P; q++, output += step) {
        v[q].x *= p.out_re;
        v[q].y *= p.out_im;
        store(output, v[q]);
    }
}

template <int LOGR, int LOGG> __device__ __forceinline__ void whole(const Pass& p, V* shared) {
    const int LOGP = 3, R = 1 << LOGR, P = 1 << LOGP, T = R / P;
    // One value of padding for every line of banks.
    const int LINE = 128 / sizeof(V);
    int y = threadIdx.x & (T - 1);
    int g = threadIdx.x >> (LOGR - LOGP);
    size_t signal = ((size_t)blockIdx.x << LOGG) + g;
    bool there = signal < p.batch;
    V v[P];
#pragma unroll
    for (int q = 0; q < P; q++) {
        v[q].x = 0;
        v[q].y = 0;
        if (there) v[q] = p.input[(signal << LOGR) + q * T + y];
        v[q].y *= p.in_im;
    }
    auto place = [&](int e) { return g * (R + R / LINE) + e + e / LINE; };
    Steps<LOGR, LOGP, 0>::run(v, shared, p.roots, y, place, []() {});
#pragma unroll
    for (int q = 0; q < P; q++) {
        V z = v[q];
        z.x *= p.out_re;
        z.y *= p.out_im;
        if (there) p.output[(signal << LOGR) + q * T + y] = z;
    }
}

extern __shared__ __align__(16) unsigned char shared_bytes[];

// Points per thread (2^P) and columns per block (2^C) of every radix; a run of C values is 128
// bytes, or 64 where a block would grow beyond 64 KiB. The host has the same table.
#ifndef P6
#define P6 3
#define P7 3
#define P8 3
#ifdef SINGLE
#define P9 4
#define C6 4
#define C7 4
#define C8 4
#define C9 4
#define C10 3
#else
#define P9 3
#define C6 3
#define C7 3
#define C8 3
#define C9 3
#define C10 2
#endif
#define P10 4
#endif

#define THREADS(LOGR, LOGP, LOGC) (1 << (LOGR - LOGP + LOGC))
// Two blocks or more per multiprocessor: one loads while another computes.
#define BOUNDS(LOGR, LOGP, LOGC)                                                                   \
    __launch_bounds__(THREADS(LOGR, LOGP, LOGC), THREADS(LOGR, LOGP, LOGC) > 512 ? 1 : 2)

#define PASS(LOGR, LOGP, LOGC)                                                                     \
    extern "C" __global__ void BOUNDS(LOGR, LOGP, LOGC) first_##LOGR(const Pass p) {               \
        pass<LOGR, LOGP, LOGC, true>(p, (V*)shared_bytes);                                         \
    }                                                                                              \
    extern "C" __global__ void BOUNDS(LOGR, LOGP, LOGC) rest_##LOGR(const Pass p) {                \
        pass<LOGR, LOGP, LOGC, false>(p, (V*)shared_bytes);                                        \
    }

PASS(6, P6, C6)
PASS(7, P7, C7)
PASS(8, P8, C8)
PASS(9, P9, C9)
PASS(10, P10, C10)

#define WHOLE(LOGR, LOGG)                                                                          \
    extern "C" __global__ void __launch_bounds__(1 << (LOGR - 3 + LOGG))                           \
        whole_##LOGR(const Pass p) {                                                               \
        whole<LOGR, LOGG>(p, (V*)shared_bytes);                                                    \
    }

WHOLE(8, 3)
WHOLE(9, 2)
WHOLE(10, 1)
WHOLE(11, 0)
WHOLE(12, 0)

// Bluestein's algorithm around a transform of m points: out[t] = in[t]·chirp[t], zeros after n.
// `in_im` is -1 for the inverse, which is conj ∘ forward ∘ conj. Row y of the grid is signal y.
extern "C" __global__ void chirp_in(const V* input, const V* chirp, V* output, size_t n, size_t m,
                                    S in_im) {
    size_t t = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= m) return;
    input += blockIdx.y * n;
    output += blockIdx.y * m;
    V z;
    z.x = 0;
    z.y = 0;
    if (t < n) {
        z = input[t];
        z.y *= in_im;
        z = times(z, chirp[t]);
    }
    output[t] = z;
}

extern "C" __global__ void multiply(V* values, const V* factors, size_t m) {
    size_t t = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    values += blockIdx.y * m;
    if (t < m) values[t] = times(values[t], factors[t]);
}

extern "C" __global__ void chirp_out(const V* input, const V* chirp, V* output, size_t n, size_t m,
                                     S out_re, S out_im) {
    size_t t = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    input += blockIdx.y * m;
    output += blockIdx.y * n;
    V z = times(input[t], chirp[t]);
    z.x *= out_re;
    z.y *= out_im;
    output[t] = z;
}

// The k largest: a histogram of the leading bits of |X|² as f32 (sign, exponent, four bits of
// mantissa), then all values in the bins above the k-th.
#define BINS 4096
__device__ __forceinline__ unsigned bin(V z) {
    float power = (float)z.x * (float)z.x + (float)z.y * (float)z.y;
    return __float_as_uint(power) >> 19;
}

extern "C" __global__ void histogram(const V* values, size_t n, S scale, unsigned* counts) {
    __shared__ unsigned own[BINS];
    for (int i = threadIdx.x; i < BINS; i += blockDim.x) own[i] = 0;
    __syncthreads();
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        V z = values[i];
        z.x *= scale;
        z.y *= scale;
        atomicAdd(&own[bin(z)], 1u);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < BINS; i += blockDim.x) {
        if (own[i]) atomicAdd(&counts[i], own[i]);
    }
}

extern "C" __global__ void collect(const V* values, size_t n, S scale, unsigned lowest,
                                   unsigned room, unsigned* count, unsigned long long* indices,
                                   V* found) {
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        V z = values[i], scaled = z;
        scaled.x *= scale;
        scaled.y *= scale;
        if (bin(scaled) < lowest) continue;
        unsigned at = atomicAdd(count, 1u);
        if (at < room) {
            indices[at] = i;
            found[at] = z;
        }
    }
}
