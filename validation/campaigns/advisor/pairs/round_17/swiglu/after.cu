// Transformer: gated activation of the feed-forward layer in half precision, gate * sigmoid(gate) * up,
// with gate and up side by side in each token's row. The width is a multiple of eight.
#include <cuda_fp16.h>

extern "C" __global__ void swiglu(const __half *projected, __half *out, int tokens, int width)
{
    int packs = width / 8, total = tokens * packs;
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += stride) {
        int token = (unsigned int)i / (unsigned int)packs;
        int pack = i - token * packs;
        const uint4 *row = (const uint4 *)(projected + (size_t)token * 2 * width);
        uint4 gates = row[pack];
        uint4 ups = row[packs + pack];
        uint4 results;
        const __half2 *gate2 = (const __half2 *)&gates;
        const __half2 *up2 = (const __half2 *)&ups;
        __half2 *result2 = (__half2 *)&results;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float2 gate = __half22float2(gate2[j]);
            float2 up = __half22float2(up2[j]);
            float x = gate.x / (1.0f + __expf(-gate.x)) * up.x;
            float y = gate.y / (1.0f + __expf(-gate.y)) * up.y;
            result2[j] = __floats2half2_rn(x, y);
        }
        ((uint4 *)out)[i] = results;
    }
}
