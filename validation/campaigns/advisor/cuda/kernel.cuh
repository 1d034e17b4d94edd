// What the study's kernels begin with: arguments that are all alike, names for a thread's place, and the macros that
// changes set.
#define KERNEL(name) extern "C" __global__ void name(const float* __restrict__ a, const float* __restrict__ b, \
    float* __restrict__ c, const int* __restrict__ k, int* h, int n, int m)
#define ALL (gridDim.x * blockDim.x)
#define ME (blockIdx.x * blockDim.x + threadIdx.x)
#define T threadIdx.x
#ifndef UNROLL
#define UNROLL 1
#endif
#ifndef COPIES
#define COPIES 1
#endif
#ifndef CHAINS
#define CHAINS 1
#endif
#ifndef PAD
#define PAD 0
#endif
