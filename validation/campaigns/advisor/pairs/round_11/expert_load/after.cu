// Load of the experts of a mixture model: how many tokens each expert got, and the sum of their gates.
#define EXPERTS 64

extern "C" __global__ void expert_load(const int *__restrict__ expert, const float *__restrict__ gate,
                                       int *__restrict__ tokens, float *__restrict__ gates, int routes)
{
    __shared__ int block_tokens[EXPERTS];
    __shared__ float block_gates[EXPERTS];
    for (int e = threadIdx.x; e < EXPERTS; e += blockDim.x) {
        block_tokens[e] = 0;
        block_gates[e] = 0.0f;
    }
    __syncthreads();

    const int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < routes; i += stride) {
        const int chosen = expert[i];
        atomicAdd(&block_tokens[chosen], 1);
        atomicAdd(&block_gates[chosen], gate[i]);
    }
    __syncthreads();

    for (int e = threadIdx.x; e < EXPERTS; e += blockDim.x) {
        atomicAdd(&tokens[e], block_tokens[e]);
        atomicAdd(&gates[e], block_gates[e]);
    }
}
