// Sequencing: sum of the Phred qualities, and number, of each kind of base (2 bits) in a run.
#define KINDS 4
#define COPIES 32

extern "C" __global__ void quality_by_base(const unsigned char *bases, const unsigned char *qualities,
                                           unsigned int *sums, unsigned int *counts, int calls)
{
    __shared__ unsigned int quality_sum[KINDS * COPIES];
    __shared__ unsigned int base_count[KINDS * COPIES];
    for (int k = threadIdx.x; k < KINDS * COPIES; k += blockDim.x) {
        quality_sum[k] = 0;
        base_count[k] = 0;
    }
    __syncthreads();
    int lane = threadIdx.x & (COPIES - 1);
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < calls; i += gridDim.x * blockDim.x) {
        int base = bases[i] & 3;
        atomicAdd(&quality_sum[base * COPIES + lane], (unsigned int)qualities[i]);
        atomicAdd(&base_count[base * COPIES + lane], 1u);
    }
    __syncthreads();
    if (threadIdx.x < KINDS) {
        unsigned int quality = 0, count = 0;
        for (int copy = 0; copy < COPIES; copy++) {
            int column = (copy + threadIdx.x) & (COPIES - 1);
            quality += quality_sum[threadIdx.x * COPIES + column];
            count += base_count[threadIdx.x * COPIES + column];
        }
        atomicAdd(&sums[threadIdx.x], quality);
        atomicAdd(&counts[threadIdx.x], count);
    }
}
