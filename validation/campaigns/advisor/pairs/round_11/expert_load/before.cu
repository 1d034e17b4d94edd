// Load of the experts of a mixture model: how many tokens each expert got, and the sum of their gates.
#define EXPERTS 64

extern "C" __global__ void expert_load(const int *__restrict__ expert, const float *__restrict__ gate,
                                       int *__restrict__ tokens, float *__restrict__ gates, int routes)
{
    const int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < routes; i += stride) {
        const int chosen = expert[i];
        atomicAdd(&tokens[chosen], 1);
        atomicAdd(&gates[chosen], gate[i]);
    }
}
