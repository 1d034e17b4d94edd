// Quantisation of activations to 8 bits with one scale a row (symmetric, by the greatest magnitude). A block has a row.
#define THREADS 256

extern "C" __global__ void quantise_rows(const float *__restrict__ x, signed char *__restrict__ q,
                                         float *__restrict__ scales, int columns)
{
    __shared__ float greatest[THREADS];
    __shared__ float scale;
    const int row = blockIdx.x, tid = threadIdx.x;
    const float *in = x + (size_t)row * columns;
    signed char *out = q + (size_t)row * columns;

    float mine = 0.0f;
    for (int c = tid; c < columns; c += THREADS)
        mine = fmaxf(mine, fabsf(in[c]));
    greatest[tid] = mine;
    __syncthreads();

    if (tid == 0) {
        float top = greatest[0];
        for (int t = 1; t < THREADS; t++)
            top = fmaxf(top, greatest[t]);
        scale = fmaxf(top, 1e-8f) / 127.0f;
        scales[row] = scale;
    }
    __syncthreads();

    const float inverse = 1.0f / scale;
    for (int c = tid; c < columns; c += THREADS)
        out[c] = (signed char)__float2int_rn(in[c] * inverse);
}
