// Kernels whose time is global memory's, each with the changes that a program can make (macros).

#ifdef K_sum_stream
KERNEL(sum_stream)
{
    float sum = 0;
#pragma unroll UNROLL
    for (int r = 0; r < m; r++)
        sum += a[ME + r * ALL];
    c[ME] = sum;
}
#endif

#ifdef K_dot_stream
KERNEL(dot_stream)
{
    float sum = 0;
#pragma unroll UNROLL
    for (int r = 0; r < m; r++)
        sum += a[ME + r * ALL] * b[ME + r * ALL];
    c[ME] = sum;
}
#endif

#ifdef K_scale_stream
KERNEL(scale_stream)
{
#if defined(WIDE)
    const float4* a4 = (const float4*)a;
    float4* c4 = (float4*)c;
    for (int i = ME; i < n / 4; i += ALL) {
        float4 x = a4[i];
        x.x *= 3; x.y *= 3; x.z *= 3; x.w *= 3;
        c4[i] = x;
    }
#else
#pragma unroll UNROLL
    for (int r = 0; r < m; r++)
        c[ME + r * ALL] = 3 * a[ME + r * ALL];
#endif
}
#endif

#ifdef K_tuned_copy
KERNEL(tuned_copy)
{
    const float4* a4 = (const float4*)a;
    float4* c4 = (float4*)c;
    float4 x[4];
#pragma unroll
    for (int r = 0; r < 4; r++)
        x[r] = a4[ME + r * ALL];
#pragma unroll
    for (int r = 0; r < 4; r++)
        c4[ME + r * ALL] = x[r];
}
#endif

#ifdef K_gather
KERNEL(gather)
{
    float sum = 0;
#if defined(AHEAD)
    int next = k[ME];
    for (int r = 0; r < m; r++) {
        int at = next;
        if (r + 1 < m)
            next = k[ME + (r + 1) * ALL];
        sum += a[at];
    }
#else
#pragma unroll UNROLL
    for (int r = 0; r < m; r++)
        sum += a[k[ME + r * ALL]];
#endif
    c[ME] = sum;
}
#endif

#ifdef K_strided
KERNEL(strided)
{
    // Array of structures of four floats; SOA: four arrays.
    float sum = 0;
    for (int r = 0; r < m; r++) {
        int i = ME + r * ALL;
#if defined(SOA)
        sum += a[i] + a[i + n / 4];
#else
        sum += a[4 * i] + a[4 * i + 1];
#endif
    }
    c[ME] = sum;
}
#endif

#ifdef K_transpose
#ifndef PAD
#define PAD 0
#endif
KERNEL(transpose)
{
    // A block of 32 by 8 moves a tile of 32 by 32 of an m by m matrix.
    int tiles = m / 32, x = threadIdx.x & 31, y = threadIdx.x >> 5;
    int tx = blockIdx.x % tiles * 32, ty = blockIdx.x / tiles * 32;
#if defined(TILE)
    __shared__ float tile[32][32 + PAD];
    for (int r = 0; r < 32; r += 8)
        tile[y + r][x] = a[(ty + y + r) * m + tx + x];
    __syncthreads();
    for (int r = 0; r < 32; r += 8)
        c[(tx + y + r) * m + ty + x] = tile[x][y + r];
#else
    for (int r = 0; r < 32; r += 8)
        c[(tx + x) * m + ty + y + r] = a[(ty + y + r) * m + tx + x];
#endif
}
#endif

#ifdef K_chase
KERNEL(chase)
{
    int at = ME % n;
    for (int r = 0; r < m; r++)
        at = k[at];
    c[ME] = at;
}
#endif

#ifdef K_spmv
KERNEL(spmv)
{
    // Rows of m entries; k holds the columns, a the values.
    float sum = 0;
#pragma unroll UNROLL
    for (int r = 0; r < m; r++)
        sum += a[ME + r * ALL] * b[k[ME + r * ALL]];
    c[ME] = sum;
}
#endif

#ifdef K_stencil
KERNEL(stencil)
{
    for (int r = 0; r < m; r++) {
        int i = ME + r * ALL + 8;
        float sum = 0;
#if defined(SHARED)
        __shared__ float tile[1024 + 16];
        __syncthreads();
        tile[threadIdx.x + 8] = a[i];
        if (threadIdx.x < 8) {
            tile[threadIdx.x] = a[i - 8];
            tile[threadIdx.x + 8 + blockDim.x] = a[i + blockDim.x];
        }
        __syncthreads();
        for (int d = -8; d <= 8; d++)
            sum += tile[threadIdx.x + 8 + d];
#else
        for (int d = -8; d <= 8; d++)
            sum += a[i + d];
#endif
        c[i] = sum;
    }
}
#endif

#ifdef K_table_lookup
#if defined(CONSTANT)
__constant__ float table[64];
#endif
KERNEL(table_lookup)
{
    // Every thread reads the same 64 coefficients.
    float x = a[ME], sum = 0;
    for (int r = 0; r < m; r++) {
#pragma unroll
        for (int t = 0; t < 64; t++) {
#if defined(CONSTANT)
            sum = sum * x + table[t];
#else
            sum = sum * x + b[t + (r & 1) * 64];
#endif
        }
    }
    c[ME] = sum;
}
#endif

#ifdef K_spilled
KERNEL(spilled)
{
    // An array indexed by data lies in local memory; REGISTERS: selections among all of it.
    float own[8];
    for (int r = 0; r < 8; r++)
        own[r] = a[ME + r * ALL];
    float sum = 0;
    int j = k[ME] & 7;
    for (int r = 0; r < m; r++) {
#if defined(REGISTERS)
        int at = (j * 5 + r) & 7;
        float x = 0;
#pragma unroll
        for (int t = 0; t < 8; t++) {
            own[t] += j == t;
            x = at == t ? own[t] : x;
        }
        sum += x;
#else
        own[j] += 1;
        sum += own[(j * 5 + r) & 7];
#endif
        j = (j + 3) & 7;
    }
    c[ME] = sum;
}
#endif

#ifdef K_few_blocks
KERNEL(few_blocks)
{
    float sum = 0;
    for (int i = ME; i < n; i += ALL)
        sum += a[i] * a[i];
    c[ME] = sum;
}
#endif

#ifdef K_small_blocks
KERNEL(small_blocks)
{
    float sum = 0;
    for (int i = ME; i < n; i += ALL)
        sum += a[i] * b[i] + 1;
    c[ME] = sum;
}
#endif

#ifdef K_rows_softmax
KERNEL(rows_softmax)
{
    // A warp a row of m.
    int row = ME >> 5, lane = ME & 31;
    float top = -1e30f, sum = 0;
#pragma unroll UNROLL
    for (int i = lane; i < m; i += 32)
        top = fmaxf(top, a[row * m + i]);
    for (int d = 16; d; d >>= 1)
        top = fmaxf(top, __shfl_xor_sync(~0u, top, d));
#pragma unroll UNROLL
    for (int i = lane; i < m; i += 32)
        sum += __expf(a[row * m + i] - top);
    for (int d = 16; d; d >>= 1)
        sum += __shfl_xor_sync(~0u, sum, d);
#pragma unroll UNROLL
    for (int i = lane; i < m; i += 32)
        c[row * m + i] = __expf(a[row * m + i] - top) / sum;
}
#endif

#ifdef K_histogram_global
KERNEL(histogram_global)
{
#if defined(PRIVATE)
    __shared__ int s[256];
    s[threadIdx.x] = 0;
    __syncthreads();
    for (int r = 0; r < m; r++)
        atomicAdd(&s[k[ME + r * ALL] & 255], 1);
    __syncthreads();
    atomicAdd(&h[threadIdx.x], s[threadIdx.x]);
#else
    for (int r = 0; r < m; r++)
        atomicAdd(&h[k[ME + r * ALL] & 255], 1);
#endif
}
#endif

#ifdef K_hot_words
KERNEL(hot_words)
{
    // Eight counters for all threads: one sector of L2, in which lanes on one word follow each other.
#if defined(PRIVATE)
    __shared__ int s[8];
    if (threadIdx.x < 8)
        s[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll 1
    for (int r = 0; r < m; r++)
        atomicAdd(&s[k[ME + r * ALL] & 7], 1);
    __syncthreads();
    if (threadIdx.x < 8)
        atomicAdd(&h[threadIdx.x], s[threadIdx.x]);
#else
#pragma unroll 1
    for (int r = 0; r < m; r++)
        atomicAdd(&h[k[ME + r * ALL] & 7], 1);
#endif
}
#endif

#ifdef K_hot_tickets
KERNEL(hot_tickets)
{
    // Tickets from sixteen machines, for all threads or (PRIVATE) for those of a block.
    int sum = 0, at = k[ME];
#if defined(PRIVATE)
    __shared__ int s[16];
    if (threadIdx.x < 16)
        s[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll 1
    for (int r = 0; r < m; r++)
        sum += atomicAdd(&s[(at >> r) & 15], 1);
#else
#pragma unroll 1
    for (int r = 0; r < m; r++)
        sum += atomicAdd(&h[(at >> r) & 15], 1);
#endif
    c[ME] = sum;
}
#endif
