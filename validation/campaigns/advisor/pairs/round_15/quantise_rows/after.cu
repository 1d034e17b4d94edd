// Quantisation of activations to 8 bits with one scale a row (symmetric, by the greatest magnitude). A block has a row;
// the greatest is found by shuffles, first of each warp, then of the warps.
#define THREADS 256
#define WARPS (THREADS / 32)

__device__ __forceinline__ float warp_max(float v)
{
#pragma unroll
    for (int half = 16; half > 0; half /= 2)
        v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, half));
    return v;
}

extern "C" __global__ void quantise_rows(const float *__restrict__ x, signed char *__restrict__ q,
                                         float *__restrict__ scales, int columns)
{
    __shared__ float greatest[WARPS];
    const int row = blockIdx.x, tid = threadIdx.x;
    const float *in = x + (size_t)row * columns;
    signed char *out = q + (size_t)row * columns;

    float mine = 0.0f;
    for (int c = tid; c < columns; c += THREADS)
        mine = fmaxf(mine, fabsf(in[c]));
    mine = warp_max(mine);
    if (tid % 32 == 0)
        greatest[tid / 32] = mine;
    __syncthreads();

    float top = greatest[0];
#pragma unroll
    for (int w = 1; w < WARPS; w++)
        top = fmaxf(top, greatest[w]);
    const float scale = fmaxf(top, 1e-8f) / 127.0f;
    if (tid == 0)
        scales[row] = scale;

    const float inverse = 1.0f / scale;
    for (int c = tid; c < columns; c += THREADS)
        out[c] = (signed char)__float2int_rn(in[c] * inverse);
}
