// Transformer: gated activation of the feed-forward layer in half precision, gate * sigmoid(gate) * up,
// with gate and up side by side in each token's row.
#include <cuda_fp16.h>

__device__ float gated(float gate, float up)
{
    return gate / (1.0f + __expf(-gate)) * up;
}

// Eight neighbouring halves a load and a store. The width has to be a multiple of eight, else one by one.
extern "C" __global__ void swiglu(const __half *projected, __half *out, int tokens, int width)
{
    int total = tokens * width;
    int stride = gridDim.x * blockDim.x;
    int start = blockIdx.x * blockDim.x + threadIdx.x;
    if (width % 8 == 0) {
        int packs = width / 8;
        for (int i = start; i < total / 8; i += stride) {
            int token = (unsigned int)i / (unsigned int)packs;
            int column = i - token * packs;
            const uint4 *row = (const uint4 *)(projected + (size_t)token * 2 * width);
            uint4 gates = row[column], ups = row[packs + column], result;
            const __half2 *g = (const __half2 *)&gates, *u = (const __half2 *)&ups;
            __half2 *r = (__half2 *)&result;
#pragma unroll
            for (int k = 0; k < 4; k++) {
                float2 gate = __half22float2(g[k]), up = __half22float2(u[k]);
                r[k] = __floats2half2_rn(gated(gate.x, up.x), gated(gate.y, up.y));
            }
            ((uint4 *)out)[i] = result;
        }
        return;
    }
    for (int i = start; i < total; i += stride) {
        int token = (unsigned int)i / (unsigned int)width;
        int column = i - token * width;
        const __half *row = projected + (size_t)token * 2 * width;
        out[i] = __float2half(gated(__half2float(row[column]), __half2float(row[width + column])));
    }
}
