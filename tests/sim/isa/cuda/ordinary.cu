// Ordinary kernels of kinds that `common.cu` has not: sorts, tables, scans by segment, named barriers, atomics on
// halves, FP64, bytes, bits, 64-bit division, pointers into the stack, parts of warps.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// One pass of a radix sort by warp-wide matching: where each key of a block goes.
extern "C" __global__ void radix(const unsigned *keys, unsigned *place, int shift)
{
    __shared__ unsigned count[8][16], base[16];
    int t = threadIdx.x, warp = t >> 5, lane = t & 31;
    for (int k = t; k < 128; k += blockDim.x)
        ((unsigned *)count)[k] = 0;
    __syncthreads();
    unsigned digit = keys[t] >> shift & 15, peers = ~0u;
    for (int bit = 0; bit < 4; bit++) {
        unsigned vote = __ballot_sync(~0u, digit >> bit & 1);
        peers &= digit >> bit & 1 ? vote : ~vote;
    }
    unsigned rank = __popc(peers & ((1u << lane) - 1));
    if (rank == 0)
        count[warp][digit] = __popc(peers);
    __syncthreads();
    if (t < 16) {
        unsigned sum = 0;
        for (int w = 0; w < 8; w++) {
            unsigned here = count[w][t];
            count[w][t] = sum;
            sum += here;
        }
        base[t] = sum;
    }
    __syncthreads();
    if (t == 0) {
        unsigned sum = 0;
        for (int d = 0; d < 16; d++) {
            unsigned here = base[d];
            base[d] = sum;
            sum += here;
        }
    }
    __syncthreads();
    place[t] = base[digit] + count[warp][digit] + rank;
}

// A scan within segments: a head flag begins a new sum.
extern "C" __global__ void segments(const int *value, const unsigned char *head, int *out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31, x = value[t];
    unsigned heads = __ballot_sync(~0u, head[t]) | 1;
    int begin = 31 - __clz(heads & (0xffffffffu >> (31 - lane)));
    for (int d = 1; d < 32; d *= 2) {
        int y = __shfl_up_sync(~0u, x, d);
        if (lane - d >= begin)
            x += y;
    }
    out[t] = x;
}

// Keys counted in a table with open addressing; 64-bit slots of key and count.
extern "C" __global__ void insert(const unsigned *keys, unsigned long long *table, unsigned size, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n)
        return;
    unsigned key = keys[t], at = key * 2654435761u % size;
    while (true) {
        unsigned long long seen = table[at];
        if (seen >> 32 == key) {
            atomicAdd(&table[at], 1ull);
            return;
        }
        if (seen == 0) {
            unsigned long long old = atomicCAS(&table[at], 0ull, (unsigned long long)key << 32 | 1);
            if (old == 0)
                return;
            continue;
        }
        at = at + 1 == size ? 0 : at + 1;
    }
}

extern "C" __global__ void sums(const float *x, float *single, double *wide, __half2 *pair, __nv_bfloat162 *brain)
{
    __shared__ float s;
    __shared__ double d;
    if (threadIdx.x == 0)
        s = 0, d = 0;
    __syncthreads();
    float v = x[threadIdx.x];
    atomicAdd(&s, v);
    atomicAdd(&d, (double)v);
    atomicAdd(pair + (threadIdx.x & 3), __floats2half2_rn(v, -v));
#if __CUDA_ARCH__ >= 900
    atomicAdd(brain + (threadIdx.x & 3), __floats2bfloat162_rn(v, -v));
#endif
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(single, s);
        atomicAdd(wide, d);
    }
}

// The first warp fetches, the other three compute: each buffer has a barrier for "full" and one for "empty".
extern "C" __global__ void specialised(const int *in, int *out, int rounds)
{
    __shared__ int buffer[2][96];
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    if (warp == 0) {
        for (int r = 0; r < rounds; r++) {
            int b = r & 1;
            if (r >= 2)
                asm volatile("bar.sync %0, 128;" ::"r"(3 + b) : "memory");
            for (int k = lane; k < 96; k += 32)
                buffer[b][k] = in[96 * r + k];
            asm volatile("bar.arrive %0, 128;" ::"r"(1 + b) : "memory");
        }
    } else {
        int sum = 0, t = threadIdx.x - 32;
        for (int r = 0; r < rounds; r++) {
            int b = r & 1;
            asm volatile("bar.sync %0, 128;" ::"r"(1 + b) : "memory");
            sum += buffer[b][95 - t] * (r + 1);
            if (r + 2 < rounds)
                asm volatile("bar.arrive %0, 128;" ::"r"(3 + b) : "memory");
        }
        out[t] = sum;
    }
}

// Two halves of a block, each with a barrier of its own; then what a whole block says.
extern "C" __global__ void by_half(const int *in, int *out)
{
    __shared__ int s[128];
    int t = threadIdx.x, half = t >> 6;
    for (int step = 0; step < 1 + half; step++) {
        s[t] = in[t] + step;
        if (half)
            asm volatile("bar.sync 2, 64;" ::: "memory");
        else
            asm volatile("bar.sync 1, 64;" ::: "memory");
        int other = s[t ^ 63];
        if (half)
            asm volatile("bar.sync 2, 64;" ::: "memory");
        else
            asm volatile("bar.sync 1, 64;" ::: "memory");
        s[t] = other;
    }
    int seen = s[t], found = __syncthreads_count(seen > 10);
    found += 1000 * __syncthreads_and(seen > -1000) + 2000 * __syncthreads_or(seen == 7);
    out[t] = found + seen * 10000;
}

extern "C" __global__ void gravity(const double4 *body, double4 *pull, int n)
{
    __shared__ double4 tile[64];
    double4 me = body[blockIdx.x * 64 + threadIdx.x], a = make_double4(0, 0, 0, 0);
    for (int first = 0; first < n; first += 64) {
        tile[threadIdx.x] = body[first + threadIdx.x];
        __syncthreads();
        for (int k = 0; k < 64; k++) {
            double4 b = tile[k];
            double x = b.x - me.x, y = b.y - me.y, z = b.z - me.z, r = x * x + y * y + z * z + 1e-3;
            double w = b.w / (r * sqrt(r));
            a.x += w * x, a.y += w * y, a.z += w * z;
        }
        __syncthreads();
    }
    pull[blockIdx.x * 64 + threadIdx.x] = a;
}

// Text in words of four bytes: upper case, sums of differences, dot products, bytes that change places.
extern "C" __global__ void text(const unsigned *a, const unsigned *b, unsigned *out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n)
        return;
    unsigned x = a[t], y = b[t];
    unsigned lower = __vcmpgeu4(x, 0x61616161) & __vcmpleu4(x, 0x7a7a7a7a);
    out[8 * t] = x - (lower & 0x20202020);
    out[8 * t + 1] = __vsadu4(x, y);
    out[8 * t + 2] = __vadd4(x, y);
    out[8 * t + 3] = __vmaxs2(x, y);
#if __CUDA_ARCH__ >= 610
    out[8 * t + 4] = __dp4a(x, y, 7u) + __dp4a((int)x, (int)y, -3) + __dp2a_lo((int)x, (int)y, 5);
#endif
    out[8 * t + 5] = __byte_perm(x, y, 0x3715) + __byte_perm(x, y, x & 0x7777);
    out[8 * t + 6] = __vavgu4(x, y);
    out[8 * t + 7] = __vabsdiffs4(x, y);
}

extern "C" __global__ void bits(const unsigned *a, const unsigned long long *b, unsigned *out, unsigned long long *wide)
{
    int t = threadIdx.x;
    unsigned x = a[t];
    unsigned long long y = b[t], z = b[t ^ 1];
    out[8 * t] = __clz(x) + 100 * __ffs(x) + 10000 * __popc(x);
    out[8 * t + 1] = __brev(x);
    out[8 * t + 2] = (x & 0xf0f0f0f0) | (~x & 0x0f0f0f0f & __brev(x));
    out[8 * t + 3] = __funnelshift_l(x, ~x, x & 63) ^ __funnelshift_rc(x, ~x, x & 63);
    out[8 * t + 4] = __clzll(y) + 100 * __ffsll(y) + 10000 * __popcll(y);
    out[8 * t + 5] = __umulhi(x, (unsigned)y) + __mulhi((int)x, (int)z) + __mul24(x, (int)y);
    out[8 * t + 6] = __rhadd((int)x, (int)y) + __uhadd(x, (unsigned)y) + __sad((int)x, (int)z, 5u);
    out[8 * t + 7] = x << (y & 31) ^ (int)x >> (z & 31);
    wide[6 * t] = y / (z | 1);
    wide[6 * t + 1] = y % (z >> 40 | 3);
    wide[6 * t + 2] = (long long)y / (long long)(z >> 33 | 1);
    wide[6 * t + 3] = (long long)y % ((long long)z >> 20 | 1);
    wide[6 * t + 4] = __umul64hi(y, z) + __mul64hi((long long)y, (long long)z);
    wide[6 * t + 5] = __brevll(y) + (y << (x & 63)) + ((long long)z >> (x & 63));
}

__device__ __noinline__ int walk(const int *p, int n)
{
    int sum = 0;
    for (int k = 0; k < n; k++)
        sum = sum * 3 + p[k];
    return sum;
}

// One function reads the stack, shared and global memory, by generic addresses; a pointer is chosen by lane.
extern "C" __global__ void generic(const int *in, int *out)
{
    __shared__ int s[32];
    int mine[8], t = threadIdx.x;
    for (int k = 0; k < 8; k++)
        mine[k] = in[t + k] + k;
    s[t] = in[t];
    __syncthreads();
    out[4 * t] = walk(mine, 8);
    out[4 * t + 1] = walk(s + (t & 15), 8);
    out[4 * t + 2] = walk(in + t, 8);
    const int *any = t % 3 == 0 ? mine : t % 3 == 1 ? s + (t & 15) : in + t;
    out[4 * t + 3] = walk(any, 8);
}

// What cooperative groups compile to: tiles of eight lanes, and the lanes that happen to be together.
extern "C" __global__ void groups(const int *in, int *out)
{
    int t = threadIdx.x, lane = t & 31, x = in[t], sum = x;
    unsigned tile = 0xffu << (lane & 24);
    for (int d = 4; d; d /= 2)
        sum += __shfl_xor_sync(tile, sum, d, 8);
    int best = 0;
    if (x & 1) {
        unsigned odd = __activemask();
        best = __popc(odd) * 100 + __popc(odd & ((1u << lane) - 1));
        __syncwarp(odd);
        best += 10000 * __shfl_sync(odd, x, __ffs(odd) - 1);
    }
    __syncwarp(tile);
    __syncthreads();
    out[t] = sum + (best << 8) + __any_sync(tile, x == 5) + (lane >> 3);
}

// fmax and fmin of doubles, with numbers that are none and zeros of both signs.
extern "C" __global__ void extremes(const double *a, const double *b, double *most, double *least, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        most[i] = fmax(a[i], b[i]);
        least[i] = fmin(a[i], b[i]);
    }
}

// Sums of rows by shuffles, the last of them in a branch that one warp takes.
extern "C" __global__ void row_sums(const float *in, float *out, int columns)
{
    extern __shared__ float of_warp[];
    float sum = 0;
    for (int c = threadIdx.x; c < columns; c += blockDim.x)
        sum += in[blockIdx.x * columns + c];
    for (int lanes = 16; lanes; lanes /= 2)
        sum += __shfl_down_sync(~0u, sum, lanes);
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? of_warp[threadIdx.x] : 0;
        for (int lanes = 16; lanes; lanes /= 2)
            sum += __shfl_down_sync(~0u, sum, lanes);
        if (threadIdx.x == 0)
            of_warp[0] = sum;
    }
    __syncthreads();
    for (int c = threadIdx.x; c < columns; c += blockDim.x)
        out[blockIdx.x * columns + c] = of_warp[0] - in[blockIdx.x * columns + c];
}

// Short numbers: saturated, packed, rounded to zero below zero, and functions of pairs of halves. What an
// architecture lacks is left zero.
extern "C" __global__ void short_numbers(const int *whole, const float *real, unsigned *out, int n)
{
    int i = threadIdx.x;
    if (i >= n)
        return;
    int a = whole[i], b = whole[(i + 1) % n];
    float x = real[i], y = real[(i + 1) % n];
    unsigned word, half, *row = out + 12 * i;
    asm("{.reg .b16 s; cvt.sat.s8.s32 s, %1; cvt.s32.s16 %0, s;}" : "=r"(word) : "r"(a));
    row[0] = word;
    asm("{.reg .b16 s; cvt.sat.u16.s32 s, %1; cvt.u32.u16 %0, s;}" : "=r"(word) : "r"(a));
    row[1] = word;
    asm("{.reg .b16 s; cvt.rni.u8.f32 s, %1; cvt.u32.u16 %0, s;}" : "=r"(word) : "f"(x));
    row[2] = word & 255;
    asm("{.reg .b16 l, h; cvt.rn.f16.f32 h, %1; cvt.rn.f16.f32 l, %2; mov.b32 %0, {l, h};}"
        : "=r"(half)
        : "f"(x), "f"(y));
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; cvt.rzi.s32.f16 %0, h;}" : "=r"(word) : "r"(half));
    row[3] = word;
    asm("vmax4.u32.u32.u32 %0, %1, %2, %3;" : "=r"(word) : "r"(a), "r"(b), "r"(0));
    row[7] = word;
    asm("vsub4.u32.u32.u32 %0, %1, %2, %3;" : "=r"(word) : "r"(a), "r"(b), "r"(0));
    row[8] = word;
    double wide;
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f64.f16 %0, h;}" : "=d"(wide) : "r"(half));
    row[9] = __float_as_uint((float)wide);
#if __CUDA_ARCH__ >= 750
    asm("ex2.approx.f16x2 %0, %1;" : "=r"(word) : "r"(half));
    row[4] = word;
    asm("tanh.approx.f16x2 %0, %1;" : "=r"(word) : "r"(half));
    row[5] = word;
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(a), "r"(b), "r"(0xabcd));
    row[10] = word;
#endif
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(x), "f"(y));
    row[11] = word;
#endif
}
