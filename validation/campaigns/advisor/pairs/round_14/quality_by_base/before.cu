// Sequencing: sum of the Phred qualities, and number, of each kind of base (2 bits) in a run.
#define KINDS 4

extern "C" __global__ void quality_by_base(const unsigned char *bases, const unsigned char *qualities,
                                           unsigned int *sums, unsigned int *counts, int calls)
{
    __shared__ unsigned int quality_sum[KINDS];
    __shared__ unsigned int base_count[KINDS];
    if (threadIdx.x < KINDS) {
        quality_sum[threadIdx.x] = 0;
        base_count[threadIdx.x] = 0;
    }
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < calls; i += gridDim.x * blockDim.x) {
        int base = bases[i] & 3;
        atomicAdd(&quality_sum[base], (unsigned int)qualities[i]);
        atomicAdd(&base_count[base], 1u);
    }
    __syncthreads();
    if (threadIdx.x < KINDS) {
        atomicAdd(&sums[threadIdx.x], quality_sum[threadIdx.x]);
        atomicAdd(&counts[threadIdx.x], base_count[threadIdx.x]);
    }
}
