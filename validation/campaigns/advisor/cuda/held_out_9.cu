// Kernels that the estimators were not shaped on, the ninth round: written when they were finished, run once.

#ifdef K_trapezoids
KERNEL(trapezoids)
{
    // Integrals of a table over windows of m points; UNROLL, or two windows a thread at a time.
    float sum = 0;
#pragma unroll 1
    for (int q = 0; q < 4; q += CHAINS) {
        float area[CHAINS];
#pragma unroll
        for (int t = 0; t < CHAINS; t++)
            area[t] = 0;
#pragma unroll UNROLL
        for (int r = 0; r < m; r++)
#pragma unroll
            for (int t = 0; t < CHAINS; t++)
                area[t] = area[t] * 0.875f + a[(ME + (q + t) * 512 + r * ALL) & 0x3ffff];
#pragma unroll
        for (int t = 0; t < CHAINS; t++)
            sum += area[t];
    }
    c[ME] = sum;
}
#endif

#ifdef K_key_lookups
KERNEL(key_lookups)
{
    // Lookups in a hash table with linear probing; UNROLL of the keys.
    float sum = 0;
#pragma unroll UNROLL
    for (int r = 0; r < m; r++) {
        int key = k[(ME + r * ALL) & 0x3ffff];
        int at = (key * 7) & 0xfff;
        sum += a[at] > 0.5f ? b[at] : b[(at + 1) & 0xfff];
    }
    c[ME] = sum;
}
#endif

#ifdef K_colour_planes
KERNEL(colour_planes)
{
    // Pixels of three floats each; PLANES: three arrays.
    float sum = 0;
#pragma unroll UNROLL
    for (int r = 0; r < m; r++) {
        int i = (ME + r * ALL) & 0xffff;
#if defined(PLANES)
        sum += 0.3f * a[i] + 0.6f * a[i + 0x10000] + 0.1f * a[i + 0x20000];
#else
        sum += 0.3f * a[3 * i] + 0.6f * a[3 * i + 1] + 0.1f * a[3 * i + 2];
#endif
    }
    c[ME] = sum;
}
#endif

#ifdef K_cosine_rows
#if defined(FAST)
#define COS __cosf
#else
#define COS cosf
#endif
KERNEL(cosine_rows)
{
    float x = a[ME], sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++)
        sum = sum * 0.5f + COS(x * (r + 0.5f)) * b[r];
    c[ME] = sum;
}
#endif

#ifdef K_logistic_scores
#if defined(FAST)
#define LOG __logf
#define OVER(x, y) __fdividef(x, y)
#else
#define LOG logf
#define OVER(x, y) ((x) / (y))
#endif
KERNEL(logistic_scores)
{
    float sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        float p = a[(ME + r * ALL) & 0x3ffff] * 0.8f + 0.1f;
        sum += LOG(OVER(p, 1.0f - p));
    }
    c[ME] = sum;
}
#endif

#ifdef K_date_fields
KERNEL(date_fields)
{
    // Seconds taken apart by run-time lengths; SHIFT: lengths are powers of two.
    unsigned sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        unsigned x = ME * 977 + r * 13;
#if defined(SHIFT)
        sum = sum * 3 + ((x >> 5) & 31) + (x & 31);
#else
        sum = sum * 3 + (x / (unsigned)n) % (unsigned)n + x % (unsigned)n;
#endif
    }
    c[ME] = sum;
}
#endif

#ifdef K_ray_steps
KERNEL(ray_steps)
{
    // Marches that end after 1 to 16 steps, by a lane's own start; SORTED: by warps.
#if defined(SORTED)
    float left = 1 + (T >> 4 & 15);
#else
    float left = 1 + (T * 11 & 15);
#endif
    float sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        float x = left;
#pragma unroll 1
        while (x > 0.5f) {
            sum = sum * 0.5f + rsqrtf(x + 1.0f);
            x -= 1.0f;
        }
    }
    c[ME] = sum;
}
#endif

#ifdef K_channel_mix
KERNEL(channel_mix)
{
    // Each lane's row of 32 words in shared memory times a vector there; PAD, and UNROLL.
    __shared__ float s[256 * (16 + PAD)];
    for (int j = 0; j < 16; j++)
        s[T * (16 + PAD) + j] = a[ME + j * 256];
    __syncthreads();
    float sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++)
#pragma unroll UNROLL
        for (int j = 0; j < 16; j++)
            sum = sum * 0.5f + s[T * (16 + PAD) + j];
    c[ME] = sum;
}
#endif

#ifdef K_vote_table
KERNEL(vote_table)
{
    // Votes for 16 places of a table on global memory; PRIVATE: a block's own first.
#if defined(PRIVATE)
    __shared__ int s[16];
    if (T < 16)
        s[T] = 0;
    __syncthreads();
#pragma unroll 1
    for (int r = 0; r < m; r++)
        atomicAdd(&s[k[(ME + r * ALL) & 0x3ffff] & 15], 1);
    __syncthreads();
    if (T < 16)
        atomicAdd(&h[T], s[T]);
#else
#pragma unroll 1
    for (int r = 0; r < m; r++)
        atomicAdd(&h[k[(ME + r * ALL) & 0x3ffff] & 15], 1);
#endif
}
#endif

#ifdef K_mean_field
#if defined(SINGLE)
#define ONE(x) x##f
#else
#define ONE(x) x
#endif
KERNEL(mean_field)
{
    float x = a[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++)
        x = x * ONE(0.99) + ONE(0.01) * (x > ONE(0.5) ? 1 : 0);
    c[ME] = x;
}
#endif

#ifdef K_tuned_sum_of_four
KERNEL(tuned_sum_of_four)
{
    const float4* from = reinterpret_cast<const float4*>(a);
    float4 x = from[ME], y = from[ME + ALL], z = from[ME + 2 * ALL], w = from[ME + 3 * ALL];
    reinterpret_cast<float4*>(c)[ME] =
        make_float4(x.x + y.x + z.x + w.x, x.y + y.y + z.y + w.y, x.z + y.z + z.z + w.z, x.w + y.w + z.w + w.w);
}
#endif
