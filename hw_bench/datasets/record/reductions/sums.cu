// Sums of an array of VALUEs, each block's sum to its own place. Written from the descriptions of two public ladders, which both
// follow M. Harris, Optimizing Parallel Reduction in CUDA (2007). A block has 256 threads.

#define THREADS 256
#ifndef VALUE
#define VALUE float
#endif

// Steps 0 and 1: distances double. MODULO asks which threads take part; else they are the first ones, at a distance.
template <bool MODULO>
__device__ void doubling(const VALUE *values, VALUE *sums)
{
    __shared__ VALUE part[THREADS];
    unsigned int thread = threadIdx.x;
    part[thread] = values[blockIdx.x * blockDim.x + thread];
    __syncthreads();
    for (unsigned int distance = 1; distance < blockDim.x; distance *= 2) {
        if (MODULO) {
            if (thread % (2 * distance) == 0)
                part[thread] += part[thread + distance];
        } else {
            unsigned int at = 2 * distance * thread;
            if (at < blockDim.x)
                part[at] += part[at + distance];
        }
        __syncthreads();
    }
    if (thread == 0)
        sums[blockIdx.x] = part[0];
}

extern "C" __global__ void modulo(const VALUE *values, VALUE *sums, int) { doubling<true>(values, sums); }
extern "C" __global__ void strided(const VALUE *values, VALUE *sums, int) { doubling<false>(values, sums); }

// The last 64 values by one warp, which runs in step by itself.
__device__ void last_warp(volatile VALUE *part, unsigned int thread)
{
    part[thread] += part[thread + 32];
    part[thread] += part[thread + 16];
    part[thread] += part[thread + 8];
    part[thread] += part[thread + 4];
    part[thread] += part[thread + 2];
    part[thread] += part[thread + 1];
}

// Steps 2 to 4: distances halve. LOADS values are added by each thread first; LAST is where one warp takes over.
template <int LOADS, unsigned int LAST>
__device__ void halving(const VALUE *values, VALUE *sums)
{
    __shared__ VALUE part[THREADS];
    unsigned int thread = threadIdx.x, at = blockIdx.x * (blockDim.x * LOADS) + thread;
    part[thread] = LOADS == 2 ? values[at] + values[at + blockDim.x] : values[at];
    __syncthreads();
    for (unsigned int distance = blockDim.x / 2; distance > LAST; distance >>= 1) {
        if (thread < distance)
            part[thread] += part[thread + distance];
        __syncthreads();
    }
    if (LAST != 0 && thread < 32)
        last_warp(part, thread);
    if (thread == 0)
        sums[blockIdx.x] = part[0];
}

extern "C" __global__ void halved(const VALUE *values, VALUE *sums, int) { halving<1, 0>(values, sums); }
extern "C" __global__ void two_loads(const VALUE *values, VALUE *sums, int) { halving<2, 0>(values, sums); }
extern "C" __global__ void warp_last(const VALUE *values, VALUE *sums, int) { halving<2, 32>(values, sums); }

// Steps 5 and 6: all distances written out.
__device__ void written_out(VALUE *part, unsigned int thread, VALUE *sums)
{
    if (thread < 128)
        part[thread] += part[thread + 128];
    __syncthreads();
    if (thread < 64)
        part[thread] += part[thread + 64];
    __syncthreads();
    if (thread < 32)
        last_warp(part, thread);
    if (thread == 0)
        sums[blockIdx.x] = part[0];
}

extern "C" __global__ void unrolled(const VALUE *values, VALUE *sums, int)
{
    __shared__ VALUE part[THREADS];
    unsigned int thread = threadIdx.x, at = blockIdx.x * (THREADS * 2) + thread;
    part[thread] = values[at] + values[at + THREADS];
    __syncthreads();
    written_out(part, thread, sums);
}

// Step 6: 1,024 blocks, so that a thread adds 128 values.
extern "C" __global__ void many_loads(const VALUE *values, VALUE *sums, int)
{
    __shared__ VALUE part[THREADS];
    unsigned int thread = threadIdx.x, at = blockIdx.x * (THREADS * 128) + thread;
    part[thread] = 0;
#pragma unroll
    for (int k = 0; k < 128; ++k)
        part[thread] += values[at + k * THREADS];
    __syncthreads();
    written_out(part, thread, sums);
}

template <int WIDTH>
__device__ float warp_sum(float sum)
{
#pragma unroll
    for (int distance = WIDTH / 2; distance > 0; distance /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, distance);
    return sum;
}

// Two rounds of shuffles, one word of shared memory a warp between them.
__device__ void shuffled(float sum, float *sums)
{
    __shared__ float of_warp[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    sum = warp_sum<32>(sum);
    if (lane == 0)
        of_warp[warp] = sum;
    __syncthreads();
    sum = threadIdx.x < THREADS / 32 ? of_warp[lane] : 0;
    if (warp == 0)
        sum = warp_sum<THREADS / 32>(sum);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
}

// Step 7: as step 6, and shuffles.
extern "C" __global__ void shuffles(const float *values, float *sums, int)
{
    float sum = 0;
    unsigned int at = blockIdx.x * (THREADS * 128) + threadIdx.x;
#pragma unroll
    for (int k = 0; k < 128; ++k)
        sum += values[at + k * THREADS];
    shuffled(sum, sums);
}

// Step 8: four values a load, blocks for one wave.
extern "C" __global__ void packed(const float4 *values, float *sums, int count)
{
    float4 sum = {0, 0, 0, 0};
    for (int at = blockDim.x * blockIdx.x + threadIdx.x; at < count / 4; at += blockDim.x * gridDim.x) {
        float4 value = values[at];
        sum.x += value.x;
        sum.y += value.y;
        sum.z += value.z;
        sum.w += value.w;
    }
    shuffled(sum.x + sum.y + sum.z + sum.w, sums);
}
