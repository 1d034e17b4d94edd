// What Ampere added: asynchronous copies, reductions of a warp; and a product of matrices in TF32, which is refused by name.
#include <cuda_pipeline.h>

extern "C" __global__ void matrices(const float *A, const float *B, float *C, int n)
{
    __shared__ __align__(16) float a[2][16][16], b[2][16][16];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx, tiles = n / 16;
    float sum = 0;
    __pipeline_memcpy_async(&a[0][ty][tx], &A[row * n + tx], 4);
    __pipeline_memcpy_async(&b[0][ty][tx], &B[ty * n + col], 4);
    __pipeline_commit();
    for (int k = 0; k < tiles; k++) {
        if (k + 1 < tiles) {
            int at = (k + 1) * 16, into = (k + 1) & 1;
            __pipeline_memcpy_async(&a[into][ty][tx], &A[row * n + at + tx], 4);
            __pipeline_memcpy_async(&b[into][ty][tx], &B[(at + ty) * n + col], 4);
        }
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        for (int j = 0; j < 16; j++)
            sum += a[k & 1][ty][j] * b[k & 1][j][tx];
        __syncthreads();
    }
    C[row * n + col] = sum;
}

extern "C" __global__ void reversed(const float4 *in, float4 *out)
{
    __shared__ float4 s[128];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&s[t], &in[blockIdx.x * 128 + t], 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[blockIdx.x * 128 + t] = s[127 - t];
}

extern "C" __global__ void warps(const int *a, int *out)
{
    out[threadIdx.x] = __reduce_add_sync(~0u, a[threadIdx.x]) + __reduce_max_sync(~0u, a[threadIdx.x]);
}

extern "C" __global__ void tensor(const unsigned *a, const unsigned *b, float *c)
{
    int t = threadIdx.x;
    float d[4] = {0, 0, 0, 0};
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[4 * t]), "r"(a[4 * t + 1]), "r"(a[4 * t + 2]), "r"(a[4 * t + 3]), "r"(b[2 * t]), "r"(b[2 * t + 1]));
    for (int k = 0; k < 4; k++)
        c[4 * t + k] = d[k];
}
