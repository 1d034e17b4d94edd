// Transformer: gated activation of the feed-forward layer in half precision, gate * sigmoid(gate) * up,
// with gate and up side by side in each token's row.
#include <cuda_fp16.h>

extern "C" __global__ void swiglu(const __half *projected, __half *out, int tokens, int width)
{
    int total = tokens * width;
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += stride) {
        int token = (unsigned int)i / (unsigned int)width;
        int column = i - token * width;
        const __half *row = projected + (size_t)token * 2 * width;
        float gate = __half2float(row[column]);
        float up = __half2float(row[width + column]);
        out[i] = __float2half(gate / (1.0f + __expf(-gate)) * up);
    }
}
