// LLM inference: one token through a linear layer whose weights are 8-bit with one scale a row. A warp takes a row.
extern "C" __global__ void int8_gemv(const signed char *weights, const float *scales, const float *hidden, float *out,
                                     int rows, int columns)
{
    int lane = threadIdx.x & 31;
    int row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    if (row >= rows)
        return;
    const char4 *w = (const char4 *)(weights + (size_t)row * columns);
    const float4 *x = (const float4 *)hidden;
    float sum = 0.0f;
    for (int c = lane; c < columns / 4; c += 32) {
        char4 four = w[c];
        float4 h = x[c];
        sum += (float)four.x * h.x + (float)four.y * h.y + (float)four.z * h.z + (float)four.w * h.w;
    }
    for (int far = 16; far > 0; far >>= 1)
        sum += __shfl_down_sync(0xffffffffu, sum, far);
    if (lane == 0)
        out[row] = sum * scales[row];
}
