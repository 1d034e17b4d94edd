// Kernels that the estimators were not shaped on, the fourth round, with the changes that a program can make (macros).

#ifdef K_where_odd
KERNEL(where_odd)
{
    float sum = 0;
#pragma unroll UNROLL
    for (int r = 0; r < m; r++)
        sum += k[ME + r * ALL] & 1 ? a[ME + r * ALL] : b[ME + r * ALL];
    c[ME] = sum;
}
#endif

#ifdef K_complex_product
KERNEL(complex_product)
{
    // Pairs of real and imaginary parts; PLANES: all real parts first.
    float x = 1, y = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        int i = ME + r * ALL;
#if defined(PLANES)
        float u = a[i], v = a[i + n / 2];
#else
        float u = a[2 * i], v = a[2 * i + 1];
#endif
        float t = x * u - y * v;
        y = x * v + y * u;
        x = t;
    }
    c[ME] = x + y;
}
#endif

#ifdef K_word_counts
KERNEL(word_counts)
{
    // Sums by key of 2,048 words, in global memory or (PRIVATE) for each block first.
#if defined(PRIVATE)
    __shared__ int s[2048];
    for (int i = T; i < 2048; i += blockDim.x)
        s[i] = 0;
    __syncthreads();
#pragma unroll 1
    for (int r = 0; r < m; r++)
        atomicAdd(&s[k[ME + r * ALL] & 2047], r);
    __syncthreads();
    for (int i = T; i < 2048; i += blockDim.x)
        atomicAdd(&h[i], s[i]);
#else
#pragma unroll 1
    for (int r = 0; r < m; r++)
        atomicAdd(&h[k[ME + r * ALL] & 2047], r);
#endif
}
#endif

#ifdef K_block_maximum
KERNEL(block_maximum)
{
    // COPIES maxima of a block's values, by lane.
    __shared__ int s[COPIES];
    if (T < COPIES)
        s[T] = 0;
    __syncthreads();
#pragma unroll 1
    for (int r = 0; r < m; r++)
        atomicMax(&s[T & (COPIES - 1)], k[ME + (r & 7) * ALL] ^ r);
    __syncthreads();
    if (T < COPIES)
        atomicMax(&h[blockIdx.x], s[T]);
}
#endif

#ifdef K_pair_rows
#ifndef STRIDE
#define STRIDE 24
#endif
KERNEL(pair_rows)
{
    // Twenty-four counters a lane: eight lanes on a bank.
    __shared__ int s[32 * 25];
    for (int i = T; i < 32 * 25; i += blockDim.x)
        s[i] = 0;
    __syncthreads();
    int x = k[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        atomicAdd(&s[(T & 31) * STRIDE + r % 24u], x & 3);
        x = x / 2 + r;
    }
    __syncthreads();
    int sum = 0;
    for (int i = T & 31; i < 24; i += 32)
        sum += s[(T >> 5) * STRIDE + i];
    c[ME] = sum;
}
#endif

#ifdef K_late_half
KERNEL(late_half)
{
    // The upper half of a block's warps has twice the work of the lower; EVEN: all have the mean.
    __shared__ float s[256];
    s[T] = a[ME];
    float x = b[ME], y = 0;
#if defined(EVEN)
    int times = m + m / 2;
#else
    int times = T < blockDim.x / 2 ? m : 2 * m;
#endif
#pragma unroll 1
    for (int r = 0; r < 10; r++) {
        __syncthreads();
#pragma unroll UNROLL
        for (int i = 0; i < times; i++) {
            x = x * 0.5f + s[(T + i) & 255];
            y = y * 0.25f + x;
        }
        __syncthreads();
        s[T] = y;
    }
    c[ME] = x;
}
#endif

#ifdef K_lane_quarters
KERNEL(lane_quarters)
{
    // Four kinds of work by lane; GROUPED: by warp.
#if defined(GROUPED)
    bool odd = T >> 5 & 1, high = T >> 6 & 1;
#else
    bool odd = T & 1, high = T >> 1 & 1;
#endif
    float x = a[ME], y = b[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        if (odd && high) {
#pragma unroll
            for (int i = 0; i < 8; i++)
                x = x * 0.5f + i;
        } else if (odd) {
#pragma unroll
            for (int i = 0; i < 8; i++)
                y = y * x + 0.125f;
        } else if (high) {
#pragma unroll
            for (int i = 0; i < 8; i++)
                x = fmaxf(x - y, 0.25f * i);
        } else {
#pragma unroll
            for (int i = 0; i < 8; i++)
                y = y * 0.75f - x;
        }
    }
    c[ME] = x + y;
}
#endif

#ifdef K_soft_plus
#if defined(FAST)
#define LOG __logf
#define EXP __expf
#else
#define LOG logf
#define EXP expf
#endif
KERNEL(soft_plus)
{
    float x = a[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++)
        x = LOG(1 + EXP(x * 0.5f)) - 0.25f;
    c[ME] = x;
}
#endif

#ifdef K_squash
#if defined(FAST)
#define DIVIDE __fdividef
#else
#define DIVIDE(x, y) ((x) / (y))
#endif
KERNEL(squash)
{
    float x = a[ME], y = b[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        x = DIVIDE(x + y, 1 + fabsf(x));
        y = y * 0.75f + x;
    }
    c[ME] = x;
}
#endif

#ifdef K_calendar
KERNEL(calendar)
{
    // Weeks and days of times, with a week of n; SHIFT: of eight days.
    int x = k[ME], sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
#if defined(SHIFT)
        sum += (x >> 3) * 3 + (x & 7);
#else
        sum += x / n * 3 + x % n;
#endif
        x += r * 1013;
    }
    c[ME] = sum;
}
#endif

#ifdef K_leaky
#if defined(SINGLE)
#define LEAK 0.01f
#else
#define LEAK 0.01
#endif
KERNEL(leaky)
{
    float x = a[ME], y = b[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        x = x - LEAK * (x - y);
        y = y * 0.5f + x;
    }
    c[ME] = x;
}
#endif

#ifdef K_five_taps
KERNEL(five_taps)
{
    // Five neighbours of each of m points, whole numbers; TILE: by way of shared memory.
#if defined(TILE)
    __shared__ int s[256 + 4];
#endif
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        int i = ME + r * ALL + 2, sum = 0;
#if defined(TILE)
        __syncthreads();
        s[T + 2] = k[i];
        if (T < 2) {
            s[T] = k[i - 2];
            s[T + 2 + blockDim.x] = k[i + blockDim.x];
        }
        __syncthreads();
#pragma unroll
        for (int d = 0; d < 5; d++)
            sum += s[T + d] * (d + 1);
#else
#pragma unroll
        for (int d = 0; d < 5; d++)
            sum += k[i + d - 2] * (d + 1);
#endif
        c[i] = sum;
    }
}
#endif

#ifdef K_gains
#if defined(CONSTANT)
__constant__ float table[64];
#define GAIN(i) table[i]
#else
#define GAIN(i) b[i]
#endif
KERNEL(gains)
{
    // Twelve gains, the same for all threads.
    float x = a[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++)
#pragma unroll
        for (int t = 0; t < 12; t++)
            x = x * 0.5f + GAIN(t + (r & 1));
    c[ME] = x;
}
#endif

#ifdef K_one_block
KERNEL(one_block)
{
    float x = a[ME], sum = 0;
    for (int i = ME; i < n; i += ALL) {
        sum += a[i] * x;
        x = x * 0.5f + b[i];
    }
    if (ME < 64)
        c[ME] = sum;
    h[ME] = x > sum;
}
#endif

#ifdef K_turned_tile
KERNEL(turned_tile)
{
    // A tile of 32 by 32 read along its columns, four times.
    __shared__ float s[32 * (32 + PAD)];
    float sum = 0;
    for (int row = T >> 5; row < 32; row += blockDim.x >> 5)
        s[row * (32 + PAD) + (T & 31)] = a[row * 32 + (T & 31) + blockIdx.x * 1024];
    __syncthreads();
#pragma unroll UNROLL
    for (int r = 0; r < m; r++)
        sum = fmaxf(sum, s[(T & 31) * (32 + PAD) + (r & 31)] + r);
    c[ME] = sum;
}
#endif

#ifdef K_stepper
#if defined(INLINE)
__device__ __forceinline__
#else
__device__ __noinline__
#endif
float advance(float x, int steps)
{
#pragma unroll 1
    for (int i = 0; i < steps; i++)
        x = x * 0.9375f + 0.0625f;
    return x;
}
KERNEL(stepper)
{
    float x = a[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++)
        x = advance(x, 1 + (r & 3)) - 0.125f;
    c[ME] = x;
}
#endif

#ifdef K_two_arrays
KERNEL(two_arrays)
{
    float sum = 0;
#if defined(AHEAD)
    int at = k[ME], to = k[ME + ALL];
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        sum += a[at] * b[to];
        at = k[ME + (r + 1) * ALL];
        to = k[ME + (r + 2) * ALL];
    }
#else
#pragma unroll UNROLL
    for (int r = 0; r < m; r++)
        sum += a[k[ME + r * ALL]] * b[k[ME + (r + 1) * ALL]];
#endif
    c[ME] = sum;
}
#endif

#ifdef K_mixed_hash
KERNEL(mixed_hash)
{
    // CHAINS hashes at a time, m in all.
    unsigned sum = 0, f = k[ME];
#pragma unroll 1
    for (int r = 0; r < m; r += CHAINS) {
        unsigned x[CHAINS];
#pragma unroll
        for (int u = 0; u < CHAINS; u++)
            x[u] = f + r + u;
#pragma unroll
        for (int i = 0; i < 6; i++)
#pragma unroll
            for (int u = 0; u < CHAINS; u++)
                x[u] = (x[u] ^ x[u] >> 15) * 0x2c1b3c6du;
#pragma unroll
        for (int u = 0; u < CHAINS; u++)
            sum += x[u];
    }
    c[ME] = sum;
}
#endif

#ifdef K_tuned_gather
KERNEL(tuned_gather)
{
    // Eight loads on their way, then their sums.
    const float4* a4 = (const float4*)a;
    float4* c4 = (float4*)c;
    float4 x[4], y[4];
#pragma unroll
    for (int r = 0; r < 4; r++)
        x[r] = a4[ME + 2 * r * ALL];
#pragma unroll
    for (int r = 0; r < 4; r++)
        y[r] = a4[ME + (2 * r + 1) * ALL];
#pragma unroll
    for (int r = 0; r < 4; r++) {
        x[r].x += y[r].y;
        x[r].z -= y[r].w;
        c4[ME + r * ALL] = x[r];
    }
}
#endif
