// Kernels that the estimators were not shaped on, the seventh round: other kinds of change than the rounds before
// (loops exchanged, windows carried in registers, votes, counters in registers, running remainders, lanes dealt anew).

#ifdef K_exchanged
KERNEL(exchanged)
{
    // Sums over m numbers of each thread, which lie one behind the other; LOOPS: those of a round lie so.
    float sum = 0;
#pragma unroll UNROLL
    for (int r = 0; r < m; r++) {
#if defined(LOOPS)
        sum += a[r * ALL + ME];
#else
        sum += a[ME * m + r];
#endif
    }
    c[ME] = sum;
}
#endif

#ifdef K_carried_window
KERNEL(carried_window)
{
    // Second differences down a column; CARRIED: two of the three values stay in registers.
    int column = ME;
    float sum = 0;
#if defined(CARRIED)
    float above = a[column], here = a[column + ALL];
#pragma unroll 1
    for (int r = 1; r < m; r++) {
        float below = a[column + (r + 1) * ALL];
        sum += fabsf(above - 2 * here + below);
        above = here;
        here = below;
    }
#else
#pragma unroll UNROLL
    for (int r = 1; r < m; r++)
        sum += fabsf(a[column + (r - 1) * ALL] - 2 * a[column + r * ALL] + a[column + (r + 1) * ALL]);
#endif
    c[ME] = sum;
}
#endif

#ifdef K_over_threshold
KERNEL(over_threshold)
{
    // How many numbers of a block lie above a threshold; VOTED: a warp's votes as one; COUNTED: in registers.
    __shared__ int count;
    if (T == 0)
        count = 0;
    __syncthreads();
    int mine = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        bool above = a[(ME + r * ALL) & 0x3ffff] > 0.4f;
#if defined(VOTED)
        unsigned votes = __ballot_sync(~0u, above);
        if ((T & 31) == 0)
            atomicAdd(&count, __popc(votes));
#elif defined(COUNTED)
        mine += above;
#else
        if (above)
            atomicAdd(&count, 1);
#endif
    }
    if (mine)
        atomicAdd(&count, mine);
    __syncthreads();
    if (T == 0)
        h[blockIdx.x] = count;
}
#endif

#ifdef K_running_variance
#if defined(SINGLE)
#define REAL float
#else
#define REAL double
#endif
KERNEL(running_variance)
{
    // Welford's mean and variance, in double precision or (SINGLE) not.
    REAL mean = 0, square = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        REAL x = a[ME + r * ALL], off = x - mean;
        mean += off * (REAL)0.125;
        square += off * (x - mean);
    }
    c[ME] = (float)(square + mean);
}
#endif

#ifdef K_directions
#if defined(FAST)
#define LENGTH(x) __fsqrt_rn(x)
#define OVER(x, y) __fdividef(x, y)
#define LOG __logf
#else
#define LENGTH(x) sqrtf(x)
#define OVER(x, y) ((x) / (y))
#define LOG logf
#endif
KERNEL(directions)
{
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        int i = (ME + r * 32) & 0x3fff;
        float x = a[i] + 0.5f, y = b[i] + 0.5f;
        c[i] = OVER(x, x * x + y * y + 1.0f) + OVER(y, x + 2.0f) + LOG(x + y);
    }
}
#endif

#ifdef K_round_robin
KERNEL(round_robin)
{
    // Places modulo a run-time number; RUNNING: a counter that begins again.
    float sum = 0;
#if defined(RUNNING)
    unsigned at = T % n, step = 7 % n;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        sum = sum * 0.5f + at;
        at += step;
        at = at >= n ? at - n : at;
    }
#else
#pragma unroll 1
    for (int r = 0; r < m; r++)
        sum = sum * 0.5f + (unsigned)(T + 7 * r) % (unsigned)n;
#endif
    c[ME] = sum;
}
#endif

#ifdef K_logistic_maps
KERNEL(logistic_maps)
{
    // m steps of 4 logistic maps, one after the other or CHAINS of them together.
    float sum = 0;
#pragma unroll 1
    for (int q = 0; q < 4; q += CHAINS) {
        float x[CHAINS];
#pragma unroll
        for (int t = 0; t < CHAINS; t++)
            x[t] = a[ME + (q + t) * ALL];
#pragma unroll 1
        for (int r = 0; r < m; r++)
#pragma unroll
            for (int t = 0; t < CHAINS; t++)
                x[t] = 3.5f * x[t] * (1.0f - x[t]);
#pragma unroll
        for (int t = 0; t < CHAINS; t++)
            sum += x[t];
    }
    c[ME] = sum;
}
#endif

#ifdef K_pairs_of_columns
KERNEL(pairs_of_columns)
{
    // Differences of the two halves of a row of 32 words, a lane a row.
    __shared__ float s[8 * 32 * (32 + PAD)];
    float* mine = s + (T >> 5) * 32 * (32 + PAD);
    int lane = T & 31;
    for (int j = 0; j < 32; j++)
        mine[j * (32 + PAD) + lane] = a[ME + j * 32];
    __syncwarp();
    float sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
#pragma unroll UNROLL
        for (int j = 0; j < 16; j++)
            sum = sum * 0.5f + mine[lane * (32 + PAD) + j] - mine[lane * (32 + PAD) + j + 16];
    }
    c[ME] = sum;
}
#endif

#ifdef K_early_out
KERNEL(early_out)
{
    // Iterations until a number is small, which the first numbers decide; DEALT: lanes of like numbers together.
#if defined(DEALT)
    int kind = (T >> 5) & 7;
#else
    int kind = T & 7;
#endif
    float sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        float x = 1.0f + kind * kind;
#pragma unroll 1
        while (x > 0.5f) {
            x = x - 0.5f - 0.125f * a[kind];
            sum += rsqrtf(x + 4.0f);
        }
    }
    c[ME] = sum;
}
#endif

#ifdef K_first_warp_sums
KERNEL(first_warp_sums)
{
    // All warps fill, the first one sums; SHARED_OUT: each warp sums its part.
    __shared__ float s[1024];
    __shared__ float part[32];
    int w = T >> 5, lane = T & 31;
    float total = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        for (int i = T; i < 1024; i += blockDim.x)
            s[i] = a[i] * r;
        __syncthreads();
#if defined(SHARED_OUT)
        float sum = 0;
        for (int i = 0; i < 4; i++)
            sum += s[w * 128 + i * 32 + lane];
        part[lane] = sum;
        total += sum;
#else
        if (w == 0) {
            float sum = 0;
#pragma unroll 1
            for (int i = 0; i < 32; i++)
                sum += s[i * 32 + lane];
            part[lane] = sum;
            total += sum;
        }
#endif
        __syncthreads();
    }
    c[ME] = total + part[lane];
}
#endif

#ifdef K_followed_pairs
KERNEL(followed_pairs)
{
    // Pairs by places that data name; AHEAD: the next places are asked for a round before.
    float sum = 0;
#if defined(AHEAD)
    int at = k[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        int next = k[ME + (r + 1) * ALL];
        sum += a[at] * b[at];
        at = next;
    }
#else
#pragma unroll UNROLL
    for (int r = 0; r < m; r++) {
        int at = k[ME + r * ALL];
        sum += a[at] * b[at];
    }
#endif
    c[ME] = sum;
}
#endif

#ifdef K_spread_out
KERNEL(spread_out)
{
    float sum = 0;
    for (int i = ME; i < n; i += ALL)
        sum += a[i] * a[i] + 0.5f * sum;
    c[ME] = sum;
}
#endif

#ifdef K_weighted_lags
#if defined(CONSTANT)
__constant__ float table[64];
#define WEIGHT(i) table[i]
#else
#define WEIGHT(i) b[i]
#endif
KERNEL(weighted_lags)
{
    // A filter of m lags; all threads load the same weights, each its own numbers, which its neighbours load too.
    float sum = 0;
#pragma unroll UNROLL
    for (int j = 0; j < m; j++)
        sum += a[ME + j] * WEIGHT(j & 63);
    c[ME] = sum;
}
#endif

#ifdef K_lane_slots
#ifndef STRIDE
#define STRIDE 32
#endif
KERNEL(lane_slots)
{
    // A warp adds to words of its own lane's row; STRIDE decides which banks the rows begin at.
    __shared__ int s[32 * (STRIDE + 1)];
    for (int i = T; i < 32 * (STRIDE + 1); i += blockDim.x)
        s[i] = 0;
    __syncthreads();
#pragma unroll 1
    for (int r = 0; r < m; r++)
        atomicAdd(&s[(T & 31) * STRIDE + (k[(ME + r * 8) & 0xffff] & 3)], 1);
    __syncthreads();
    h[ME] = s[T];
}
#endif

#ifdef K_tuned_axpy
KERNEL(tuned_axpy)
{
#pragma unroll
    for (int r = 0; r < 4; r++) {
        int i = ME + r * ALL;
        float4 x = reinterpret_cast<const float4*>(a)[i], y = reinterpret_cast<const float4*>(b)[i];
        x.x = 2 * x.x + y.x;
        x.y = 2 * x.y + y.y;
        x.z = 2 * x.z + y.z;
        x.w = 2 * x.w + y.w;
        reinterpret_cast<float4*>(c)[i] = x;
    }
}
#endif
