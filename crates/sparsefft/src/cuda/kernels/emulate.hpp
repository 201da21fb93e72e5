// What the compiler of kernels brings along, for the emulations.
#pragma once
#include <cmath>

struct float2 {
    float x, y;
};
static float2 make_float2(float x, float y) { return {x, y}; }
static float __fdividef(float a, float b) { return a / b; }
#define __sincosf warp_sincosf
static void warp_sincosf(float a, float* s, float* c) {
    *s = std::sin(a);
    *c = std::cos(a);
}
