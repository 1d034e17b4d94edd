// A product of matrices as a beginner writes it: a warp has 32 neighbouring columns of one row, so that all of
// its lanes load one word of a, and the 32 warps of a block load one line of b. UNROLL steps are between two
// waits. ONLY_A and ONLY_B load one of the two matrices.

#ifndef UNROLL
#define UNROLL 4
#endif

extern "C" __global__ void plain_product(const float *a, const float *b, float *c, int columns, int depth)
{
    const int row = blockIdx.x * 32 + threadIdx.x / 32;
    const int column = blockIdx.y * 32 + threadIdx.x % 32;
    float sum = 0.0f;
#pragma unroll UNROLL
    for (int k = 0; k < depth; ++k) {
#if defined(ONLY_A)
        sum += a[row * depth + k];
#elif defined(ONLY_B)
        sum += b[k * columns + column];
#else
        sum += a[row * depth + k] * b[k * columns + column];
#endif
    }
    c[row * columns + column] = sum;
}

// What a launch before leaves in L2.
extern "C" __global__ void touch(const float *a, const float *b, float *c, int words)
{
    float sum = 0.0f;
    for (int k = blockIdx.x * blockDim.x + threadIdx.x; k < words; k += gridDim.x * blockDim.x)
        sum += a[k] + b[k];
    if (sum == 1.5f)
        c[0] = sum;
}
