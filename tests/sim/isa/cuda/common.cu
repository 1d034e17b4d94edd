// What ordinary CUDA C uses, a kernel for each: held against NumPy on every architecture.
#include <cuda_fp16.h>

extern "C" __global__ void halves(const __half *a, const __half *b, __half *out, float *single, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    __half x = a[i], y = b[i];
    out[8 * i] = __hadd(x, y);
    out[8 * i + 1] = __hmul(x, y);
    out[8 * i + 2] = __hfma(x, y, x);
    out[8 * i + 3] = __hsub(x, y);
    out[8 * i + 4] = x < y ? x : y;
    out[8 * i + 5] = __float2half(__half2float(x) * 1.7f);
    out[8 * i + 6] = __hneg(x);
    out[8 * i + 7] = __habs(y);
    single[i] = __half2float(x) + (__hgt(x, y) ? 1.f : 0.f);
}

extern "C" __global__ void scaled(const __half *a, __half *out, int n, __half factor, __half least)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    __half x = __hmul(a[i], factor);
    out[i] = __hlt(x, least) ? least : __hfma(x, factor, least);
}

extern "C" __global__ void packed(const __half2 *a, const __half2 *b, __half2 *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    __half2 x = a[i], y = b[i], sum = __float2half2_rn(0.f);
    for (int k = 0; k < 3; k++)
        sum = __hfma2(x, y, sum);
    sum = __hadd2(sum, __hmul2(x, y));
    sum = __hadd2(sum, __low2half2(y));
    sum = __hmul2(sum, __high2half2(x));
    if (__hbgt2(x, y))
        sum = __hadd2(sum, x);
    out[2 * i] = sum;
    out[2 * i + 1] = __floats2half2_rn(__low2float(sum) * 0.5f, __high2float(sum) + 1.f);
}

extern "C" __global__ void conversions(const __half *a, int *whole, short *shorts, double *wide, __half *back, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    whole[i] = __half2int_rn(a[i]);
    shorts[i] = __half2short_rz(a[i]);
    wide[i] = (double)__half2float(a[i]);
    back[i] = __int2half_rn(i * 7 - 100);
}

extern "C" __global__ void choices(const int *in, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int v = in[i], r;
    switch (v & 15) {
    case 0: r = v * 3; break;
    case 1: r = v ^ 77; break;
    case 2: r = v - 9; break;
    case 3: r = v << 3; break;
    case 4: r = v / 7; break;
    case 5: r = v % 11; break;
    case 6: r = ~v; break;
    case 7: r = v * v; break;
    case 8: r = __popc(v); break;
    case 9: r = __clz(v); break;
    case 10: r = v | 5; break;
    case 11: r = v & 0x3c; break;
    default: r = 0;
    }
    out[i] = r;
}

__device__ __noinline__ int fibonacci(int n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

extern "C" __global__ void recursion(int *out, int n)
{
    int i = threadIdx.x;
    if (i < n)
        out[i] = fibonacci(i % 9);
}

typedef int (*reader)(const int *, int);
__device__ __noinline__ int forwards(const int *p, int k) { return p[k & 31]; }
__device__ __noinline__ int backwards(const int *p, int k) { return p[31 - (k & 31)]; }

// A local array whose address goes through a pointer to a function: generic addresses.
extern "C" __global__ void pointers(const int *index, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int table[32];
    for (int k = 0; k < 32; k++)
        table[k] = k * i + 1;
    reader read = index[i] & 1 ? forwards : backwards;
    int sum = 0;
    for (int k = 0; k < 8; k++)
        sum += read(table, index[i] + k * 5);
    out[i] = sum;
}

extern "C" __global__ void scan(const int *in, int *out)
{
    __shared__ int s[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    s[t] = in[i];
    __syncthreads();
    for (int o = 1; o < 256; o <<= 1) {
        int v = t >= o ? s[t - o] : 0;
        __syncthreads();
        s[t] += v;
        __syncthreads();
    }
    out[i] = s[t];
}

extern "C" __global__ void reduction(const float *in, float *out, int n)
{
    __shared__ float partial[32];
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += in[i];
    for (int o = 16; o; o >>= 1)
        sum += __shfl_down_sync(~0u, sum, o);
    if (!(threadIdx.x & 31))
        partial[threadIdx.x >> 5] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0;
        for (int o = 16; o; o >>= 1)
            sum += __shfl_xor_sync(~0u, sum, o);
        if (!threadIdx.x)
            atomicAdd(out, sum);
    }
}

extern "C" __global__ void transpose(const double *in, double *out, int n)
{
    __shared__ double tile[16][17];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = in[y * n + x];
    __syncthreads();
    x = blockIdx.y * 16 + threadIdx.x;
    y = blockIdx.x * 16 + threadIdx.y;
    out[y * n + x] = tile[threadIdx.x][threadIdx.y];
}

// Two warps produce, two consume: named barriers with a count of threads.
extern "C" __global__ void handover(int *out)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    if (t < 64) {
        s[t] = t * 3;
        asm volatile("bar.arrive 1, 128;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 128;" ::: "memory");
        out[t - 64] = s[t - 64];
    }
    asm volatile("bar.sync 2, 128;" ::: "memory");
    if (t < 64)
        out[64 + t] = s[63 - t];
}

extern "C" __global__ void bytes(const signed char *a, const unsigned char *b, int *dots, long long *quotients, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    dots[i] = __dp4a(((const int *)a)[i], ((const int *)b)[i] & 0x7f7f7f7f, i);
    quotients[i] = (long long)a[i] * b[i] / (i % 5 + 1);
}

extern "C" __global__ void shorts(const short *a, const unsigned short *b, float *out, short *cut, unsigned char *low, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    out[i] = (float)a[i] * 0.5f + (float)b[i];
    cut[i] = (short)((float)a[i] * 0.25f);
    low[i] = (unsigned char)(b[i] * 0.001f);
}

extern "C" __global__ void quantised(const char4 *a, const uchar4 *b, const short2 *c, const ushort2 *d, float4 *out, double *wide, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    char4 x = a[i];
    uchar4 y = b[i];
    short2 z = c[i];
    ushort2 w = d[i];
    out[i] = make_float4((float)x.x + y.w, (float)x.y * y.z + z.y, (float)x.z * y.y + w.y, (float)x.w * y.x + z.x);
    wide[i] = (double)x.w - (double)y.z + (double)w.y;
}

extern "C" __global__ void atomics(int *words, unsigned long long *longs, float *single, double *wide)
{
    int i = threadIdx.x;
    atomicMin(&words[0], i - 7);
    atomicMax((unsigned *)&words[1], i * 3u);
    atomicAnd(&words[2], ~(1 << (i & 31)));
    atomicOr(&words[3], 1 << (i & 31));
    atomicXor(&words[4], i);
    atomicExch(&words[5], 5);
    atomicInc((unsigned *)&words[6], 10);
    atomicDec((unsigned *)&words[7], 10);
    atomicAdd(&longs[0], (unsigned long long)i << 20);
    atomicMax(&longs[1], (unsigned long long)i * i);
    atomicAdd(single, 0.5f * i);
    atomicAdd(wide, 0.25 * i);
    atomicCAS(&words[8], i, i + 1);
}

extern "C" __global__ void functions(const float *a, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float x = a[i];
    out[8 * i] = sinf(x);
    out[8 * i + 1] = expf(x);
    out[8 * i + 2] = logf(x + 2);
    out[8 * i + 3] = powf(x + 1.5f, 1.3f);
    out[8 * i + 4] = x / 3.3f;
    out[8 * i + 5] = rsqrtf(x + 2);
    out[8 * i + 6] = tanhf(x);
    out[8 * i + 7] = fmodf(x * 10, 0.7f);
}

extern "C" __global__ void votes(const int *a, unsigned *out)
{
    int t = threadIdx.x;
    unsigned mask = __ballot_sync(~0u, a[t] > 5);
    out[t] = mask + __all_sync(~0u, a[t] < 100) + 2 * __any_sync(~0u, a[t] == 3) + __match_any_sync(~0u, a[t] & 3);
}
