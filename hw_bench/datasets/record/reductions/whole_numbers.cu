// Sums of an array of whole numbers, each block's sum to its own place, with a test at each load that it lies in the array. Written
// from the kernels that R100001/Programming-Massively-Parallel-Processors measured, which follow M. Harris, Optimizing Parallel
// Reduction in CUDA (2007). The number of threads is known at the launch only.

typedef unsigned int Number;

#define PARAMETERS const Number *values, Number count, Number *sums

extern __shared__ Number part[];

__device__ void store_one(const Number *values, Number count)
{
    Number at = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = at < count ? values[at] : 0;
    __syncthreads();
}

__device__ void add_within(Number to, Number distance, Number count)
{
    part[to] += to + distance < count ? part[to + distance] : 0;
}

__device__ void store_sum(Number *sums)
{
    if (threadIdx.x == 0)
        sums[blockIdx.x] = part[0];
}

extern "C" __global__ void modulo(PARAMETERS)
{
    store_one(values, count);
    for (Number distance = 1; distance < blockDim.x; distance <<= 1) {
        if (threadIdx.x % (2 * distance) == 0)
            add_within(threadIdx.x, distance, count);
        __syncthreads();
    }
    store_sum(sums);
}

extern "C" __global__ void strided(PARAMETERS)
{
    store_one(values, count);
    for (Number distance = 1; distance < blockDim.x; distance <<= 1) {
        int to = 2 * distance * threadIdx.x;
        if (to < blockDim.x)
            add_within(to, distance, count);
        __syncthreads();
    }
    store_sum(sums);
}

extern "C" __global__ void halved(PARAMETERS)
{
    store_one(values, count);
    for (Number distance = blockDim.x / 2; distance > 0; distance >>= 1) {
        if (threadIdx.x < distance)
            add_within(threadIdx.x, distance, count);
        __syncthreads();
    }
    store_sum(sums);
}

__device__ void store_two(const Number *values, Number count, Number at)
{
    part[threadIdx.x] = at < count ? values[at] : 0;
    part[threadIdx.x] += at + blockDim.x < count ? values[at + blockDim.x] : 0;
}

__device__ void halve_down_to(Number last)
{
    for (Number distance = blockDim.x / 2; distance > last; distance >>= 1) {
        if (threadIdx.x < distance)
            part[threadIdx.x] += part[threadIdx.x + distance];
        __syncthreads();
    }
}

extern "C" __global__ void two_loads(PARAMETERS)
{
    store_two(values, count, blockIdx.x * (blockDim.x * 2) + threadIdx.x);
    __syncthreads();
    halve_down_to(0);
    store_sum(sums);
}

// The last 64 values by one warp, which runs in step by itself; the tests of the block's size are those of the original.
__device__ void last_warp(volatile Number *part, Number thread)
{
    if (blockDim.x >= 64)
        part[thread] += part[thread + 32];
    if (blockDim.x >= 32)
        part[thread] += part[thread + 16];
    if (blockDim.x >= 16)
        part[thread] += part[thread + 8];
    if (blockDim.x >= 8)
        part[thread] += part[thread + 4];
    if (blockDim.x >= 4)
        part[thread] += part[thread + 2];
    if (blockDim.x >= 2)
        part[thread] += part[thread + 1];
}

extern "C" __global__ void warp_last(PARAMETERS)
{
    store_two(values, count, blockIdx.x * (blockDim.x * 2) + threadIdx.x);
    __syncthreads();
    halve_down_to(32);
    if (threadIdx.x < 32)
        last_warp(part, threadIdx.x);
    store_sum(sums);
}

__device__ void written_out(Number *sums)
{
    Number thread = threadIdx.x;
    __syncthreads();
    if (blockDim.x >= 512 && thread < 256)
        part[thread] += part[thread + 256];
    __syncthreads();
    if (blockDim.x >= 256 && thread < 128)
        part[thread] += part[thread + 128];
    __syncthreads();
    if (blockDim.x >= 128 && thread < 64)
        part[thread] += part[thread + 64];
    __syncthreads();
    if (thread < 32)
        last_warp(part, thread);
    store_sum(sums);
}

extern "C" __global__ void unrolled(PARAMETERS)
{
    store_two(values, count, blockIdx.x * (blockDim.x * 2) + threadIdx.x);
    written_out(sums);
}

extern "C" __global__ void many_loads(PARAMETERS)
{
    Number step = gridDim.x * (blockDim.x * 2);
    part[threadIdx.x] = 0;
    for (Number at = blockIdx.x * (blockDim.x * 2) + threadIdx.x; at < count; at += step) {
        part[threadIdx.x] += values[at];
        part[threadIdx.x] += at + blockDim.x < count ? values[at + blockDim.x] : 0;
    }
    written_out(sums);
}
