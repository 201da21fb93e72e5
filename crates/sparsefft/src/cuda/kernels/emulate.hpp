// What the compiler of kernels brings along, for the emulations.
#pragma once
#include <cmath>

struct float2 {
    float x, y;
};
struct uint4 {
    unsigned x, y, z, w;
};
static float2 make_float2(float x, float y) { return {x, y}; }
#define __sincosf warp_sincosf
static void warp_sincosf(float a, float* s, float* c) {
    *s = std::sin(a);
    *c = std::cos(a);
}
