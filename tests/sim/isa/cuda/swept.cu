// Kernels of kinds that once were refused or came out wrong.
#include <cuda_fp16.h>

#define THREAD (blockIdx.x * blockDim.x + threadIdx.x)

extern "C" __global__ void places(unsigned *out)
{
    unsigned warp, bytes;
    asm("mov.u32 %0, %warpid;" : "=r"(warp));
    asm("mov.u32 %0, %dynamic_smem_size;" : "=r"(bytes));
    out[2 * THREAD] = warp;
    out[2 * THREAD + 1] = bytes;
}

extern "C" __global__ void saturated(const int *a, const int *b, int *out)
{
    int sum, difference;
    asm("add.sat.s32 %0, %1, %2;" : "=r"(sum) : "r"(a[THREAD]), "r"(b[THREAD]));
    asm("sub.sat.s32 %0, %1, %2;" : "=r"(difference) : "r"(a[THREAD]), "r"(b[THREAD]));
    out[2 * THREAD] = sum;
    out[2 * THREAD + 1] = difference;
}

extern "C" __global__ void extended(const unsigned *a, unsigned *out)
{
    unsigned found;
    asm("szext.wrap.u32 %0, %1, %2;" : "=r"(found) : "r"(a[THREAD]), "r"(a[THREAD] & 63));
    out[THREAD] = found;
}

extern "C" __global__ void rounded(const float *x, const int *n, __half *out)
{
    __half *mine = out + 8 * THREAD;
    mine[0] = __float2half_rn(x[THREAD]);
    mine[1] = __float2half_rz(x[THREAD]);
    mine[2] = __float2half_ru(x[THREAD]);
    mine[3] = __float2half_rd(x[THREAD]);
    mine[4] = __int2half_rn(n[THREAD]);
    mine[5] = __int2half_rz(n[THREAD]);
    mine[6] = __int2half_ru(n[THREAD]);
    mine[7] = __int2half_rd(n[THREAD]);
}

extern "C" __global__ void floors(const __half2 *x, __half2 *out)
{
    out[THREAD] = h2floor(x[THREAD]);
}

extern "C" __global__ void flushed(const __half2 *a, const __half2 *b, __half2 *out)
{
    unsigned x = *(const unsigned *)(a + THREAD), y = *(const unsigned *)(b + THREAD), found;
    asm("fma.rn.ftz.f16x2 %0, %1, %2, %1;" : "=r"(found) : "r"(x), "r"(y));
    *(unsigned *)(out + THREAD) = found;
}

extern "C" __global__ void heap(int *out)
{
    int *piece = (int *)malloc(10 * sizeof(int));
    for (int i = 0; i < 10; i++)
        piece[i] = i * threadIdx.x;
    int sum = 0;
    for (int i = 0; i < 10; i++)
        sum += piece[i];
    out[THREAD] = sum + (malloc(1 << 30) == nullptr);
    free(piece);
}

extern "C" __global__ void complex_products(const __half2 *a, const __half2 *b, __half2 *out)
{
    out[THREAD] = __hcmadd(a[THREAD], b[THREAD], a[THREAD]);
}
