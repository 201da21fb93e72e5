// Spectra for benchmarks, written where they are needed: white noise or nothing, then coefficients. An inverse
// transform makes the signals. Not part of the library.
typedef unsigned int u32;
typedef unsigned long long u64;

// Number i of a sequence of hashed counters (splitmix64), uniform from -1 to 1.
static __device__ double uniform(u64 seed, u64 i) {
    u64 v = seed + (i + 1) * 0x9e3779b97f4a7c15ull;
    v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9ull;
    v = (v ^ (v >> 27)) * 0x94d049bb133111ebull;
    v ^= v >> 31;
    return (double)(v >> 11) * 0x1p-52 - 1.0;
}

// Both parts of all values become uniform from -each to each.
extern "C" __global__ void hiss(double2* x, u64 count, double each, u64 seed) {
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (u64)blockDim.x)
        x[i] = make_double2(each * uniform(seed, 2 * i), each * uniform(seed, 2 * i + 1));
}

// x[at] = value. A place and the bits of its value follow each other.
extern "C" __global__ void place(double2* x, const u64* values, u32 count) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const u64* its = values + 3 * (u64)i;
    x[its[0]] = make_double2(__longlong_as_double(its[1]), __longlong_as_double(its[2]));
}
