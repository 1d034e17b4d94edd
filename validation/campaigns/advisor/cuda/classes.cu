// One kernel for each class of change that the fifth round of unseen kernels showed to be missing among those that
// the estimators are shaped on.

#if defined(K_float_bins) || defined(K_float_totals)
#if defined(K_float_bins)
#define BINS 128
KERNEL(float_bins)
#else
#define BINS 2
KERNEL(float_totals)
#endif
{
    // Weights added up by bin, in global memory or (PRIVATE) for each block first.
#if defined(PRIVATE)
    __shared__ float s[BINS];
    if (T < BINS)
        s[T] = 0;
    __syncthreads();
#endif
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        int at = k[ME + r * ALL] & (BINS - 1);
#if defined(PRIVATE)
        atomicAdd(&s[at], b[T] + r);
#else
        atomicAdd(&c[at], b[T] + r);
#endif
    }
#if defined(PRIVATE)
    __syncthreads();
    if (T < BINS)
        atomicAdd(&c[T], s[T]);
#endif
}
#endif

#ifdef K_tree_maximum
KERNEL(tree_maximum)
{
    // The greatest value of a block, by halves with a barrier each; EVEN: within each warp by shuffles.
    __shared__ float s[256];
    float top = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        float x = a[ME + r * ALL];
#if defined(EVEN)
#pragma unroll
        for (int d = 16; d; d >>= 1)
            x = fmaxf(x, __shfl_xor_sync(~0u, x, d));
        if ((T & 31) == 0)
            s[T >> 5] = x;
        __syncthreads();
        x = s[T & 7];
#pragma unroll
        for (int d = 4; d; d >>= 1)
            x = fmaxf(x, __shfl_xor_sync(~0u, x, d));
#else
        s[T] = x;
        __syncthreads();
#pragma unroll 1
        for (int d = 128; d; d >>= 1) {
            if (T < d)
                s[T] = fmaxf(s[T], s[T + d]);
            __syncthreads();
        }
        x = s[0];
#endif
        top += x;
        __syncthreads();
    }
    c[ME] = top;
}
#endif

#ifdef K_leader_total
KERNEL(leader_total)
{
    // One thread of a block adds up what all others brought; EVEN: each warp its own, then eight numbers.
    __shared__ float s[256], w[8];
    float total = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        float x = a[ME + r * ALL] * b[T];
#if defined(EVEN)
#pragma unroll
        for (int d = 16; d; d >>= 1)
            x += __shfl_xor_sync(~0u, x, d);
        if ((T & 31) == 0)
            w[T >> 5] = x;
        __syncthreads();
        x = 0;
        for (int i = 0; i < 8; i++)
            x += w[i];
#else
        s[T] = x;
        __syncthreads();
        if (T == 0) {
            float sum = 0;
#pragma unroll 1
            for (int i = 0; i < 256; i++)
                sum += s[i];
            w[0] = sum;
        }
        __syncthreads();
        x = w[0];
#endif
        total += x;
        __syncthreads();
    }
    c[ME] = total;
}
#endif

#ifdef K_two_barriers
KERNEL(two_barriers)
{
    // Neighbours' values smoothed in place, two barriers a round; FEWER: from one array to the other, one.
    __shared__ float s[260], t[260];
    s[T + 2] = a[ME];
    t[T + 2] = 0;
    if (T < 2)
        s[T] = s[T + 258] = t[T] = t[T + 258] = 0;
    __syncthreads();
    float x = 0;
#pragma unroll 1
    for (int r = 0; r < m; r += 2) {
        x = 0.25f * (s[T] + s[T + 4]) + 0.5f * s[T + 2];
#if defined(FEWER)
        t[T + 2] = x;
        __syncthreads();
        x = 0.25f * (t[T] + t[T + 4]) + 0.5f * t[T + 2];
        s[T + 2] = x;
        __syncthreads();
#else
        __syncthreads();
        s[T + 2] = x;
        __syncthreads();
        x = 0.25f * (s[T] + s[T + 4]) + 0.5f * s[T + 2];
        __syncthreads();
        s[T + 2] = x;
        __syncthreads();
#endif
    }
    c[ME] = x;
}
#endif

#ifdef K_table_walk
KERNEL(table_walk)
{
    // Each item goes through a table of 1024 words, where it is sent.
    for (int i = ME; i < n; i += ALL) {
        int at = k[i] & 992;
#pragma unroll 1
        for (int r = 0; r < m; r++)
            at = (k[at + (T & 31)] + at) & 992;
        c[i] = at;
    }
}
#endif

#ifdef K_three_hops
KERNEL(three_hops)
{
    // Four loads of which each names the next, CHAINS at a time.
    int sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r += CHAINS) {
        int at[CHAINS];
#pragma unroll
        for (int u = 0; u < CHAINS; u++)
            at[u] = ME + (r + u) * ALL;
#pragma unroll
        for (int hop = 0; hop < 4; hop++)
#pragma unroll
            for (int u = 0; u < CHAINS; u++)
                at[u] = k[at[u]] & 0xfffff;
#pragma unroll
        for (int u = 0; u < CHAINS; u++)
            sum += at[u];
    }
    c[ME] = sum;
}
#endif

#ifdef K_normalised
KERNEL(normalised)
{
    // Values divided by what is the same for a thread; RECIPROCAL: its inverse is taken once.
    float scale = b[ME] + 1, sum = 0;
#if defined(RECIPROCAL)
    float inverse = 1 / scale;
#endif
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        float x = a[(ME + r * 32) & 0xffff] - sum;
#if defined(RECIPROCAL)
        sum += x * inverse;
#else
        sum += x / scale;
#endif
    }
    c[ME] = sum;
}
#endif

#ifdef K_three_kinds
KERNEL(three_kinds)
{
    // Three kinds of cell; GROUPED: a warp has one kind.
#if defined(GROUPED)
    int kind = (T >> 5) % 3;
#else
    int kind = T % 3;
#endif
    float x = a[ME], y = b[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        if (kind == 0) {
            for (int i = 0; i < 12; i++)
                x = x * 0.5f + y;
        } else if (kind == 1) {
            for (int i = 0; i < 8; i++)
                x = fmaxf(x * 0.75f - y, 0.25f);
        } else {
            for (int i = 0; i < 16; i++)
                y = y * 0.875f + 0.125f;
        }
    }
    c[ME] = x + y;
}
#endif

#ifdef K_until_small
KERNEL(until_small)
{
    // Each lane goes on until its value is small; GROUPED: lanes of a warp begin with one value.
#if defined(GROUPED)
    float x = 1 + ((T >> 3) & 31);
#else
    float x = 1 + ((T * 7) & 31);
#endif
    float sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        float y = x;
#pragma unroll 1
        while (y > 0.5f) {
            sum = sum * 0.75f + y;
            y -= 1;
        }
    }
    c[ME] = sum;
}
#endif

#ifdef K_short_words
KERNEL(short_words)
{
    // Pairs of 16-bit words in a small array; WIDE: one load for both.
    int sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        int at = (T + r * 32) & 1023;
#if defined(WIDE)
        short2 x = ((const short2*)k)[at];
        sum += x.x * 3 + x.y;
#else
        sum += ((const short*)k)[2 * at] * 3 + ((const short*)k)[2 * at + 1];
#endif
    }
    c[ME] = sum;
}
#endif
