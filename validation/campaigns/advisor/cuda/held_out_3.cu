// Kernels that the estimators were not shaped on, the third round, with the changes that a program can make (macros).

#ifdef K_scatter_values
KERNEL(scatter_values)
{
    // Values go to the places that an index names.
#pragma unroll UNROLL
    for (int r = 0; r < m; r++)
        c[k[ME + r * ALL]] = a[ME + r * ALL] + 1;
}
#endif

#ifdef K_grey_levels
KERNEL(grey_levels)
{
    // Pixels of three floats; PLANES: an array a colour.
#pragma unroll UNROLL
    for (int r = 0; r < m; r++) {
        int i = ME + r * ALL;
#if defined(PLANES)
        c[i] = 0.3f * a[i] + 0.6f * a[i + n / 4] + 0.1f * a[i + n / 2];
#else
        c[i] = 0.3f * a[3 * i] + 0.6f * a[3 * i + 1] + 0.1f * a[3 * i + 2];
#endif
    }
}
#endif

#ifdef K_class_tally
KERNEL(class_tally)
{
    // How many values are in each of 24 classes, in global memory or (PRIVATE) for each block first.
#if defined(PRIVATE)
    __shared__ int s[24];
    if (T < 24)
        s[T] = 0;
    __syncthreads();
#pragma unroll 1
    for (int r = 0; r < m; r++)
        atomicAdd(&s[(int)(a[ME + r * ALL] * 24)], 1);
    __syncthreads();
    if (T < 24)
        atomicAdd(&h[T], s[T]);
#else
#pragma unroll 1
    for (int r = 0; r < m; r++)
        atomicAdd(&h[(int)(a[ME + r * ALL] * 24)], 1);
#endif
}
#endif

#ifdef K_group_sums
KERNEL(group_sums)
{
    // Sums of six groups in shared memory; COPIES of each, by lane.
    __shared__ int s[6 * COPIES];
    for (int i = T; i < 6 * COPIES; i += blockDim.x)
        s[i] = 0;
    __syncthreads();
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        int x = k[ME + r * ALL], group = (x & 3) ? 2 : (x >> 2) % 6u;
        atomicAdd(&s[group * COPIES + (T & (COPIES - 1))], x >> 8);
    }
    __syncthreads();
    for (int i = T; i < 6; i += blockDim.x) {
        int sum = 0;
        for (int j = 0; j < COPIES; j++)
            sum += s[i * COPIES + j];
        atomicAdd(&h[i], sum);
    }
}
#endif

#ifdef K_row_counters
#ifndef STRIDE
#define STRIDE 8
#endif
KERNEL(row_counters)
{
    // Eight counters a lane: rows on four banks.
    __shared__ int s[32 * 9];
    for (int i = T; i < 32 * 9; i += blockDim.x)
        s[i] = 0;
    __syncthreads();
    int x = k[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        atomicAdd(&s[(T & 31) * STRIDE + (r & 7)], x & 1);
        x = (x >> 1) + r;
    }
    __syncthreads();
    for (int i = T; i < 32 * 8; i += blockDim.x)
        h[i] = s[(i >> 3) * STRIDE + (i & 7)];
}
#endif

#ifdef K_one_does_more
KERNEL(one_does_more)
{
    // The first warp of a block prepares what all others wait for; EVEN: all prepare a part.
    __shared__ float s[256];
    float x = a[ME];
#pragma unroll 1
    for (int r = 0; r < 8; r++) {
#if defined(EVEN)
        int times = m / 8 + m / 2;
#else
        int times = T < 32 ? m + m / 2 : m / 2;
#endif
#pragma unroll 1
        for (int i = 0; i < times; i++)
            x = x * 0.875f + 0.5f;
        s[T] = x;
        __syncthreads();
        x += s[T & 31];
        __syncthreads();
    }
    c[ME] = x;
}
#endif

#ifdef K_squares
KERNEL(squares)
{
    // Work that grows with the square of the warp's number, between barriers; EVEN: the mean for all.
    __shared__ float s[512];
    int w = T >> 5, warps = blockDim.x >> 5;
    float x = b[ME];
    s[T] = x;
    __syncthreads();
#pragma unroll 1
    for (int r = 0; r < 4; r++) {
#if defined(EVEN)
        int times = m * (warps - 1) * (2 * warps - 1) / 6;
#else
        int times = m * w * w;
#endif
#pragma unroll 1
        for (int i = 0; i < times; i++)
            x = x * 0.5f + s[(T + i) & 255];
        __syncthreads();
        s[T] = x;
        __syncthreads();
    }
    c[ME] = x;
}
#endif

#ifdef K_lane_lengths
KERNEL(lane_lengths)
{
    // Lists of 4 to 32 elements, one a lane; GROUPED: lanes of a warp have lists of one length.
#if defined(GROUPED)
    int length = 4 + 4 * (T >> 5 & 7);
#else
    int length = 4 + 4 * (T & 7);
#endif
    float x = a[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++)
#pragma unroll 1
        for (int i = 0; i < length; i++)
            x = x * 0.75f + 0.25f * i;
    c[ME] = x;
}
#endif

#ifdef K_lengths_of_vectors
#if defined(FAST)
#define INVERSE(x) rsqrtf(x)
#else
#define INVERSE(x) (1.0f / sqrtf(x))
#endif
KERNEL(lengths_of_vectors)
{
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        int i = ME + r * ALL;
        float x = a[i], y = b[i];
        c[i] = x * INVERSE(x * x + y * y + 0.125f);
    }
}
#endif

#ifdef K_waves
#if defined(FAST)
#define SINE __sinf
#else
#define SINE sinf
#endif
KERNEL(waves)
{
    float x = a[ME], sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        sum += SINE(x);
        x = x * 1.03125f + 0.25f;
    }
    c[ME] = sum;
}
#endif

#ifdef K_hash_places
KERNEL(hash_places)
{
    // Places in a table of n; MASK: its size is a power of two.
    unsigned x = k[ME], sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        x = x * 2654435761u + 12345u;
#if defined(MASK)
        sum ^= x & (unsigned)(n - 1);
#else
        sum ^= x % (unsigned)n;
#endif
    }
    c[ME] = sum;
}
#endif

#ifdef K_smoothed
#if defined(SINGLE)
#define HALF 0.48f
#else
#define HALF 0.48
#endif
KERNEL(smoothed)
{
    float x = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++)
        x = x * HALF + a[ME + r * ALL];
    c[ME] = x;
}
#endif

#ifdef K_box_filter
KERNEL(box_filter)
{
    // Three by three of an image 512 wide, a block 256 pixels of a row; TILE: by way of shared memory.
    int x = T + (blockIdx.x & 1) * 256, y0 = (blockIdx.x >> 1) * m;
#if defined(TILE)
    __shared__ float s[3][258];
#endif
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        int at = (y0 + r + 1) * 512 + x + 1;
        float sum = 0;
#if defined(TILE)
        __syncthreads();
#pragma unroll
        for (int d = 0; d < 3; d++) {
            s[d][T + 1] = a[at + (d - 1) * 512];
            if (T < 2)
                s[d][T * 257] = a[at + (d - 1) * 512 + (T ? 255 : -1)];
        }
        __syncthreads();
#pragma unroll
        for (int d = 0; d < 3; d++)
            sum += s[d][T] + s[d][T + 1] + s[d][T + 2];
#else
#pragma unroll
        for (int d = -1; d <= 1; d++)
            sum += a[at + d * 512 - 1] + a[at + d * 512] + a[at + d * 512 + 1];
#endif
        c[at] = sum;
    }
}
#endif

#ifdef K_polynomials
#if defined(CONSTANT)
__constant__ float table[64];
#endif
KERNEL(polynomials)
{
    // Sixteen polynomials of degree three, the same for all threads.
    float x = a[ME], y = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++)
#pragma unroll 2
        for (int p = 0; p < 16; p++) {
#if defined(CONSTANT)
            float z = ((table[4 * p] * x + table[4 * p + 1]) * x + table[4 * p + 2]) * x + table[4 * p + 3];
#else
            float z = ((b[4 * p] * x + b[4 * p + 1]) * x + b[4 * p + 2]) * x + b[4 * p + 3];
#endif
            y = fmaxf(y * 0.5f, z);
        }
    c[ME] = y;
}
#endif

#ifdef K_two_big_blocks
KERNEL(two_big_blocks)
{
    float x = a[ME];
    for (int r = 0; r < n / ALL; r++)
#pragma unroll 1
        for (int i = 0; i < m; i++)
            x = x * 0.5f + 0.25f;
    c[ME] = x;
}
#endif

#ifdef K_column_means
KERNEL(column_means)
{
    // Column sums of tiles whose rows have 48 words: sixteen lanes on a bank.
    __shared__ float s[32 * (48 + PAD)];
    float sum = 0;
#pragma unroll 1
    for (int tile = 0; tile < 4; tile++) {
        __syncthreads();
        for (int row = T >> 5, lane = T & 31; row < 32; row += blockDim.x >> 5) {
            s[row * (48 + PAD) + lane] = a[row * 48 + lane + tile * 2048];
            if (lane < 16)
                s[row * (48 + PAD) + lane + 32] = a[row * 48 + lane + 32 + tile * 2048];
        }
        __syncthreads();
#pragma unroll UNROLL
        for (int r = 0; r < m; r++)
            sum += s[(T & 31) * (48 + PAD) + r % 48];
    }
    c[ME] = sum;
}
#endif

#ifdef K_mixed_calls
#if defined(INLINE)
#define CALLED __device__ __forceinline__
#else
#define CALLED __device__ __noinline__
#endif
CALLED float rising(float x, float y)
{
    return x * 0.75f + y * 0.125f;
}
CALLED float falling(float x, float y)
{
    return fabsf(x - y) * 0.5f;
}
KERNEL(mixed_calls)
{
    float x = a[ME], y = b[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        x = rising(y, x);
        y = falling(x, y);
    }
    c[ME] = x + y;
}
#endif

#ifdef K_recent_values
KERNEL(recent_values)
{
    // Ten recent values, one replaced and one used a round at places that data choose; REGISTERS: selections.
    float own[10];
#pragma unroll
    for (int t = 0; t < 10; t++)
        own[t] = b[ME + t];
    unsigned at = k[ME];
    float sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        unsigned to = at % 10u, from = (at >> 4) % 10u;
#if defined(REGISTERS)
        float x = 0;
#pragma unroll
        for (int t = 0; t < 10; t++) {
            own[t] = to == t ? sum : own[t];
            x = from == t ? own[t] : x;
        }
        sum = sum * 0.5f + x;
#else
        own[to] = sum;
        sum = sum * 0.5f + own[from];
#endif
        at = at * 5 + 7;
    }
    c[ME] = sum;
}
#endif

#ifdef K_load_then_work
KERNEL(load_then_work)
{
    // A load and a chain of twelve a round; AHEAD: the load comes a round early.
    float sum = 0;
#if defined(AHEAD)
    float next = a[ME];
#endif
#pragma unroll UNROLL
    for (int r = 0; r < m; r++) {
#if defined(AHEAD)
        float x = next;
        next = a[ME + (r + 1) * ALL];
#else
        float x = a[ME + r * ALL];
#endif
#pragma unroll
        for (int i = 0; i < 12; i++)
            x = x * 0.9375f + 0.03125f * i;
        sum += x;
    }
    c[ME] = sum;
}
#endif

#ifdef K_masked_sum
KERNEL(masked_sum)
{
    // Whole numbers under a mask, few warps.
    int sum = 0;
#pragma unroll UNROLL
    for (int r = 0; r < m; r++)
        sum += k[ME + r * ALL] & (r * 3 + 1);
    c[ME] = sum;
}
#endif

#ifdef K_warp_scans
KERNEL(warp_scans)
{
    // CHAINS sums over the lanes of a warp at a time, m in all.
    float sum = 0;
    int lane = T & 31;
#pragma unroll 1
    for (int r = 0; r < m; r += CHAINS) {
        float x[CHAINS];
#pragma unroll
        for (int u = 0; u < CHAINS; u++)
            x[u] = a[T] + (r + u);
#pragma unroll
        for (int d = 1; d < 32; d *= 2)
#pragma unroll
            for (int u = 0; u < CHAINS; u++) {
                float y = __shfl_up_sync(~0u, x[u], d);
                x[u] += lane >= d ? y : 0;
            }
#pragma unroll
        for (int u = 0; u < CHAINS; u++)
            sum += x[u];
    }
    c[ME] = sum;
}
#endif

#ifdef K_tuned_blend
KERNEL(tuned_blend)
{
    const float4* a4 = (const float4*)a;
    const float4* b4 = (const float4*)b;
    float4* c4 = (float4*)c;
    float4 x[6];
#pragma unroll
    for (int r = 0; r < 6; r++)
        x[r] = r < 3 ? a4[ME + r * ALL] : b4[ME + (r - 3) * ALL];
#pragma unroll
    for (int r = 0; r < 3; r++) {
        x[r].x = x[r].x * 0.25f + x[r + 3].x;
        x[r].y = x[r].y * 0.25f + x[r + 3].y;
        x[r].z = x[r].z * 0.25f + x[r + 3].z;
        x[r].w = x[r].w * 0.25f + x[r + 3].w;
        c4[ME + r * ALL] = x[r];
    }
}
#endif

#ifdef K_tuned_squares
KERNEL(tuned_squares)
{
    float x[8], f = b[ME];
#pragma unroll
    for (int u = 0; u < 8; u++)
        x[u] = a[ME] * u;
#pragma unroll 1
    for (int r = 0; r < m; r++)
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int u = 0; u < 8; u++)
                x[u] = x[u] * f + 1;
    float sum = 0;
#pragma unroll
    for (int u = 0; u < 8; u++)
        sum += x[u];
    c[ME] = sum;
}
#endif
