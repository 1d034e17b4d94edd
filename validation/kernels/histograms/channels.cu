// Histograms of bytes by channel: x holds `rows` rows of `channels` bytes each, out[channel][256] counts them.
// The kernels of a public work log on an H100, written anew from its description; its entries are named.
// All take (x, out, rows, channels).

// Entry 3: a thread a channel, atomics on global memory; blocks along y share the rows.
extern "C" __global__ void channels_global(
    const unsigned char* __restrict__ x, int* out, int rows, int channels)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    for (int r = blockIdx.y; r < rows; r += gridDim.y)
        atomicAdd(&out[c * 256 + x[(size_t)r * channels + c]], 1);
}

// Entry 4: a block counts 32 channels (threadIdx.x) in shared memory. STRIDE 257 is entry 5, UNROLL 8 entry 6;
// entry 8 is entry 6 launched with 32 by 32 threads on a grid of (16, 32).
#ifndef STRIDE
#define STRIDE 256
#endif
#ifndef UNROLL
#define UNROLL 1
#endif

extern "C" __global__ void channels_shared(
    const unsigned char* __restrict__ x, int* out, int rows, int channels)
{
    __shared__ int s[32 * STRIDE];
    int threads = blockDim.x * blockDim.y, me = threadIdx.y * blockDim.x + threadIdx.x;
    for (int i = me; i < 32 * STRIDE; i += threads)
        s[i] = 0;
    __syncthreads();
    int c = blockIdx.x * 32 + threadIdx.x, step = blockDim.y * gridDim.y;
    int* own = s + threadIdx.x * STRIDE;
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    for (; r + (UNROLL - 1) * step < rows; r += UNROLL * step) {
        int v[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            v[u] = x[(size_t)(r + u * step) * channels + c];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            atomicAdd(&own[v[u]], 1);
    }
    for (; r < rows; r += step)
        atomicAdd(&own[x[(size_t)r * channels + c]], 1);
    __syncthreads();
    for (int i = me; i < 32 * 256; i += threads)
        atomicAdd(&out[blockIdx.x * 32 * 256 + i], s[i / 256 * STRIDE + i % 256]);
}
