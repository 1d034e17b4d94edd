// Warps whose lanes are asked for in part, and operations on two halves of a word: held against NumPy.
#include <cuda_fp16.h>

// Lanes come to the synchronisations of their mask at different times.
extern "C" __global__ void partial(const int *in, const unsigned *masks, int *out)
{
    __shared__ int given[64];
    unsigned lane = threadIdx.x & 31, mask = masks[lane / 8];
    int v = in[threadIdx.x];
    if (mask >> lane & 1) {
#pragma unroll 1
        for (unsigned k = 0; k < (lane & 3); k++)
            v = v * 5 + k;
        given[threadIdx.x] = v;
        __syncwarp(mask);
        v = given[threadIdx.x ^ 1] + __shfl_xor_sync(mask, v, 2);
        unsigned odd = __ballot_sync(mask, v & 1);
        if (v & 1)
            v += __shfl_sync(odd, v, __ffs(odd) - 1);
        __syncwarp(mask);
        v = v * 64 + __popc(odd) + (__any_sync(mask, v > 5000) ? 32 : 0);
    }
    out[threadIdx.x] = v;
}

// Lanes that run together, each eight with a mask of their own.
extern "C" __global__ void octets(const int *in, int *out)
{
    unsigned lane = threadIdx.x & 31, mask = 0xffu << (lane & 24);
    int v = in[threadIdx.x];
    if (lane < 24) {
        for (int k = 4; k; k /= 2)
            v += __shfl_xor_sync(mask, v, k, 8);
        v = v * 64 + __popc(__ballot_sync(mask, in[threadIdx.x] & 1));
        v += __all_sync(mask, in[threadIdx.x] > 0) ? 1000 : 0;
    }
    out[threadIdx.x] = v;
}

extern "C" __global__ void pairs(__half2 *sum, __half2 *apart, const __half2 *in, const __half2 *whole, __half2 *old)
{
    __shared__ __half2 together[4];
    int i = threadIdx.x;
    if (i < 4)
        together[i] = __float2half2_rn(0.f);
    __syncthreads();
    old[i] = atomicAdd(&apart[i], in[i]);
    atomicAdd(&together[i & 3], whole[i]);
    atomicAdd(&sum[4 + (i & 3)], whole[i]);
    __syncthreads();
    if (i < 4)
        sum[i] = together[i];
}

extern "C" __global__ void shorts(const int *a, const int *b, const int *c, int *out)
{
    int i = threadIdx.x;
    out[6 * i] = __vmaxs2(a[i], b[i]);
    out[6 * i + 1] = __vminu2(a[i], b[i]);
    out[6 * i + 2] = __vmins2(a[i], b[i]);
    out[6 * i + 3] = __vimax_s16x2_relu(a[i], b[i]);
    out[6 * i + 4] = __viaddmax_s16x2(a[i], b[i], c[i]);
    out[6 * i + 5] = __viaddmin_u16x2(a[i], b[i], c[i]);
}

extern "C" __global__ void sums(const int *a, const int *b, const int *c, int *out)
{
    int i = threadIdx.x;
    out[2 * i] = __viaddmax_s32_relu(a[i], b[i], c[i]);
    out[2 * i + 1] = __viaddmin_s32_relu(a[i], b[i], c[i]);
}

extern "C" __global__ void doubles(double *out, const double *in, unsigned long long *least)
{
    __shared__ double together[3];
    __shared__ unsigned long long lowest;
    int i = threadIdx.x;
    if (i < 3)
        together[i] = -0.5;
    if (i == 0)
        lowest = ~0ull;
    __syncthreads();
    atomicAdd(&together[i % 3], in[i]);
    atomicMin(&lowest, __double_as_longlong(in[i]));
    __syncthreads();
    if (i < 3)
        out[i] = together[i];
    if (i == 0)
        *least = lowest;
    float x = static_cast<float>(in[i]), y = static_cast<float>(i);
    out[3 + i] = x * y * 0.5f + x * x * 8.0f;
}
