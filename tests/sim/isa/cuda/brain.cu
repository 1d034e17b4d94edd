// Arithmetic on brain floats (__nv_bfloat16), as common code does it: by twos, one by one, compared, converted,
// added atomically. Architectures from sm_80 on.
#include <cuda_bf16.h>

typedef __nv_bfloat162 Pair;
typedef __nv_bfloat16 Brain;

extern "C" __global__ void arithmetic(const Pair *a, const Pair *b, const Pair *c, Pair *out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    Pair x = a[t], y = b[t], z = c[t];
    out[t] = __hadd2(x, y);
    out[t + n] = __hsub2(x, y);
    out[t + 2 * n] = __hmul2(x, y);
    out[t + 3 * n] = __hfma2(x, y, z);
    out[t + 4 * n] = __hfma2_relu(x, y, z);
    out[t + 5 * n] = __hmax2(x, y);
    out[t + 6 * n] = __hmin2_nan(x, y);
    out[t + 7 * n] = __hneg2(__habs2(x));
    out[t + 8 * n] = __hfma2(__low2bfloat162(x), __high2bfloat162(y), __hneg2(z));
}

extern "C" __global__ void compared(const Pair *a, const Pair *b, Pair *out, int *found)
{
    int t = threadIdx.x, n = blockDim.x;
    Pair x = a[t], y = b[t];
    out[t] = __hlt2(x, y);
    out[t + n] = __hgeu2(x, y);
    found[t] = __hbeq2(x, y) + 2 * (int)__hisnan(__low2bfloat16(x)) + 4 * __hble2(x, y);
}

extern "C" __global__ void converted(const float *single, const double *twice, const int *whole, Brain *out, int *back)
{
    int t = threadIdx.x, n = blockDim.x;
    Pair both = __floats2bfloat162_rn(single[t], single[t] * 3);
    out[t] = both.x;
    out[t + n] = both.y;
    out[t + 2 * n] = __float2bfloat16_rz(single[t]);
    out[t + 3 * n] = __float2bfloat16_ru(single[t]);
    out[t + 4 * n] = __double2bfloat16(twice[t]);
    out[t + 5 * n] = __int2bfloat16_rn(whole[t]);
    out[t + 6 * n] = hfloor(both.x);
    back[t] = __bfloat162int_rz(both.x);
}

extern "C" __global__ void added(Pair *sums, const Pair *values)
{
    atomicAdd(&sums[threadIdx.x % 4], values[threadIdx.x]);
}
