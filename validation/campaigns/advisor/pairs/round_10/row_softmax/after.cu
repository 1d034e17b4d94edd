// Machine learning: softmax of each row of logits, one block a row.
#define THREADS 256
#define WARPS (THREADS / 32)

extern "C" __global__ void softmax(const float *logits, float *out, int columns)
{
    __shared__ float part_top[WARPS];
    __shared__ float part_sum[WARPS];
    const float *row = logits + blockIdx.x * columns;
    float top = -3.4e38f;
    for (int c = threadIdx.x; c < columns; c += THREADS)
        top = fmaxf(top, row[c]);
    for (int half = 16; half > 0; half /= 2)
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, half));
    if (threadIdx.x % 32 == 0)
        part_top[threadIdx.x / 32] = top;
    __syncthreads();
    top = part_top[0];
    for (int w = 1; w < WARPS; w++)
        top = fmaxf(top, part_top[w]);

    float sum = 0.0f;
    for (int c = threadIdx.x; c < columns; c += THREADS)
        sum += expf(row[c] - top);
    for (int half = 16; half > 0; half /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, half);
    if (threadIdx.x % 32 == 0)
        part_sum[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int w = 0; w < WARPS; w++)
        sum += part_sum[w];
    float inverse = 1.0f / sum;
    for (int c = threadIdx.x; c < columns; c += THREADS)
        out[blockIdx.x * columns + c] = expf(row[c] - top) * inverse;
}
