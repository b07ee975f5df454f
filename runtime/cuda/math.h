// Functions of one real number that device code and its emulation share: the single-precision ones for float.
#pragma once

#include <math.h>

#include "runtime/cuda/launch.h"

namespace unity::cuda {

#define UNITY_FUNCTION(name)                                \
  UNITY_DEVICE float name(float x) { return ::name##f(x); } \
  UNITY_DEVICE double name(double x) { return ::name(x); }
UNITY_FUNCTION(ceil)
UNITY_FUNCTION(cos)
UNITY_FUNCTION(erf)
UNITY_FUNCTION(exp)
UNITY_FUNCTION(fabs)
UNITY_FUNCTION(floor)
UNITY_FUNCTION(log)
UNITY_FUNCTION(log1p)
UNITY_FUNCTION(sin)
UNITY_FUNCTION(sqrt)
UNITY_FUNCTION(tanh)
#undef UNITY_FUNCTION
UNITY_DEVICE float pow(float x, float y) { return ::powf(x, y); }
UNITY_DEVICE double pow(double x, double y) { return ::pow(x, y); }

// The larger and the smaller; of NaN and a number, the number.
UNITY_DEVICE float fmax(float x, float y) { return ::fmaxf(x, y); }
UNITY_DEVICE double fmax(double x, double y) { return ::fmax(x, y); }
UNITY_DEVICE float fmin(float x, float y) { return ::fminf(x, y); }
UNITY_DEVICE double fmin(double x, double y) { return ::fmin(x, y); }

// e^x of x <= 0 in three instructions: its relative error is below 2^-21 + |x| 2^-23, and it is 0 below 2^-126.
UNITY_DEVICE float exp_of_negative(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.4426950408889634f));
  return y;
#else
  return exp(x);
#endif
}
UNITY_DEVICE double exp_of_negative(double x) { return exp(x); }

// 1 / x of x >= 1, in one instruction: within 2^-23 of it, and 0 above 2^126.
UNITY_DEVICE float reciprocal(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1 / x;
#endif
}
UNITY_DEVICE double reciprocal(double x) { return 1 / x; }

template <class T>
UNITY_DEVICE T sigmoid(T x) {
  return 1 / (1 + exp(-x));
}

}  // namespace unity::cuda
