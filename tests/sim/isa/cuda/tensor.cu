// Products of matrices on tensor cores, by the PTX instruction; fragments as PTX lays them out.
extern "C" __global__ void k8(const unsigned *a, const unsigned *b, const float *c, float *d)
{
    int t = threadIdx.x;
    float s[4];
    for (int k = 0; k < 4; k++) s[k] = c[4 * t + k];
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]) : "r"(a[2 * t]), "r"(a[2 * t + 1]), "r"(b[t]));
    for (int k = 0; k < 4; k++) d[4 * t + k] = s[k];
}
extern "C" __global__ void h8(const unsigned *a, const unsigned *b, const unsigned *c, unsigned *d)
{
    int t = threadIdx.x;
    unsigned s[2] = {c[2 * t], c[2 * t + 1]};
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3}, {%4}, {%0,%1};"
        : "+r"(s[0]), "+r"(s[1]) : "r"(a[2 * t]), "r"(a[2 * t + 1]), "r"(b[t]));
    d[2 * t] = s[0]; d[2 * t + 1] = s[1];
}
#if __CUDA_ARCH__ >= 800
extern "C" __global__ void k16(const unsigned *a, const unsigned *b, const float *c, float *d)
{
    int t = threadIdx.x;
    float s[4];
    for (int k = 0; k < 4; k++) s[k] = c[4 * t + k];
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
        : "r"(a[4 * t]), "r"(a[4 * t + 1]), "r"(a[4 * t + 2]), "r"(a[4 * t + 3]), "r"(b[2 * t]), "r"(b[2 * t + 1]));
    for (int k = 0; k < 4; k++) d[4 * t + k] = s[k];
}
extern "C" __global__ void h16(const unsigned *a, const unsigned *b, const unsigned *c, unsigned *d)
{
    int t = threadIdx.x;
    unsigned s[2] = {c[2 * t], c[2 * t + 1]};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
        : "+r"(s[0]), "+r"(s[1]) : "r"(a[4 * t]), "r"(a[4 * t + 1]), "r"(a[4 * t + 2]), "r"(a[4 * t + 3]), "r"(b[2 * t]), "r"(b[2 * t + 1]));
    d[2 * t] = s[0]; d[2 * t + 1] = s[1];
}
extern "C" __global__ void bf16(const unsigned *a, const unsigned *b, const float *c, float *d)
{
    int t = threadIdx.x;
    float s[4];
    for (int k = 0; k < 4; k++) s[k] = c[4 * t + k];
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
        : "r"(a[4 * t]), "r"(a[4 * t + 1]), "r"(a[4 * t + 2]), "r"(a[4 * t + 3]), "r"(b[2 * t]), "r"(b[2 * t + 1]));
    for (int k = 0; k < 4; k++) d[4 * t + k] = s[k];
}
extern "C" __global__ void i32(const unsigned *a, const unsigned *b, const int *c, int *d)
{
    int t = threadIdx.x;
    int s[4];
    for (int k = 0; k < 4; k++) s[k] = c[4 * t + k];
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3])
        : "r"(a[4 * t]), "r"(a[4 * t + 1]), "r"(a[4 * t + 2]), "r"(a[4 * t + 3]), "r"(b[2 * t]), "r"(b[2 * t + 1]));
    for (int k = 0; k < 4; k++) d[4 * t + k] = s[k];
}
// A product of matrices in tiles of 32 x 32, fetched by asynchronous copies two tiles ahead, read by ldmatrix.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
extern "C" __global__ void product(const __half *A, const __half *B, float *C, int n)
{
    __shared__ __align__(16) __half a[2][32][40], b[2][32][40];
    int t = threadIdx.x, warp = t >> 5, lane = t & 31, row = blockIdx.y * 32, col = blockIdx.x * 32;
    float s[2][4] = {};
    auto fetch = [&](int k, int into) {
        int r = t >> 2, c = (t & 3) * 8;
        __pipeline_memcpy_async(&a[into][r][c], &A[(row + r) * n + k + c], 16);
        __pipeline_memcpy_async(&b[into][r][c], &B[(k + r) * n + col + c], 16);
        __pipeline_commit();
    };
    fetch(0, 0);
    for (int k = 0, now = 0; k < n; k += 32, now ^= 1) {
        if (k + 32 < n) fetch(k + 32, now ^ 1); else __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        for (int j = 0; j < 32; j += 16) {
            unsigned x[4], y[4];
            int r = (warp >> 1) * 16, c = (warp & 1) * 16;
            unsigned at = __cvta_generic_to_shared(&a[now][r + (lane & 15)][j + (lane >> 4) * 8]);
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(at));
            at = __cvta_generic_to_shared(&b[now][j + (lane & 15)][c + (lane >> 4) * 8]);
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(y[0]), "=r"(y[1]), "=r"(y[2]), "=r"(y[3]) : "r"(at));
            for (int h = 0; h < 2; h++)
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                    : "+f"(s[h][0]), "+f"(s[h][1]), "+f"(s[h][2]), "+f"(s[h][3])
                    : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[2 * h]), "r"(y[2 * h + 1]));
        }
        __syncthreads();
    }
    int r = row + (warp >> 1) * 16 + (lane >> 2), c = col + (warp & 1) * 16 + (lane & 3) * 2;
    for (int h = 0; h < 2; h++) {
        C[r * n + c + 8 * h] = s[h][0];
        C[r * n + c + 8 * h + 1] = s[h][1];
        C[(r + 8) * n + c + 8 * h] = s[h][2];
        C[(r + 8) * n + c + 8 * h + 1] = s[h][3];
    }
}
extern "C" __global__ void stencil(const float *in, float *out, int n, int rows)
{
    extern __shared__ float line[];  // three lines of n + 2
    int t = threadIdx.x;
    auto fetch = [&](int r) {
        for (int k = t; k < n + 2; k += blockDim.x)
            __pipeline_memcpy_async(&line[r % 4 * (n + 2) + k], &in[r * (n + 2) + k], 4);
        __pipeline_commit();
    };
    fetch(0); fetch(1); fetch(2);
    for (int r = 0; r < rows; r++) {
        if (r + 3 < rows + 2) fetch(r + 3); else __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        for (int k = t; k < n; k += blockDim.x) {
            float *up = line + r % 4 * (n + 2) + k, *mid = line + (r + 1) % 4 * (n + 2) + k, *down = line + (r + 2) % 4 * (n + 2) + k;
            out[r * n + k] = up[1] + mid[0] + mid[2] + down[1] - 4 * mid[1];
        }
        __syncthreads();
    }
}
#endif
