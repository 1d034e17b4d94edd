// Kernels that the estimators were not shaped on, in two rounds, with the changes that a program can make (macros).

#ifdef K_triad
KERNEL(triad)
{
#pragma unroll UNROLL
    for (int r = 0; r < m; r++) {
        int i = ME + r * ALL;
        c[i] = a[i] + 0.75f * b[i];
    }
}
#endif

#ifdef K_row_sums
KERNEL(row_sums)
{
    // A thread a row of m; COLUMNS: the matrix lies transposed.
    float sum = 0;
#pragma unroll UNROLL
    for (int i = 0; i < m; i++)
#if defined(COLUMNS)
        sum += a[i * ALL + ME];
#else
        sum += a[ME * m + i];
#endif
    c[ME] = sum;
}
#endif

#ifdef K_nearest_centre
#if defined(CONSTANT)
__constant__ float table[64];
#define CENTRE(i) table[i]
#else
#define CENTRE(i) b[i]
#endif
KERNEL(nearest_centre)
{
    // Which of 32 centres is nearest to each of m points.
    for (int r = 0; r < m; r++) {
        float x = a[ME + r * ALL], y = x * 0.5f, best = 1e30f;
        int at = 0;
#pragma unroll UNROLL
        for (int t = 0; t < 32; t++) {
            float dx = x - CENTRE(2 * t), dy = y - CENTRE(2 * t + 1), d = dx * dx + dy * dy;
            if (d < best) {
                best = d;
                at = t;
            }
        }
        c[ME + r * ALL] = at;
    }
}
#endif

#ifdef K_few_bins
KERNEL(few_bins)
{
    // Sixteen bins, most values in one of them; COPIES by lane.
    __shared__ int s[16 * COPIES];
    for (int i = T; i < 16 * COPIES; i += blockDim.x)
        s[i] = 0;
    __syncthreads();
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        int x = k[ME + r * ALL], v = (x & 7) ? 3 : (x >> 3) & 15;
#if defined(AGGREGATE)
        int leader = __shfl_sync(~0u, v, 0);
        unsigned same = __ballot_sync(~0u, v == leader);
        if ((T & 31) == 0)
            atomicAdd(&s[leader], __popc(same));
        if (v != leader)
            atomicAdd(&s[v], 1);
#else
        atomicAdd(&s[v * COPIES + (T & (COPIES - 1))], 1);
#endif
    }
    __syncthreads();
    for (int i = T; i < 16; i += blockDim.x) {
        int sum = 0;
        for (int j = 0; j < COPIES; j++)
            sum += s[i * COPIES + j];
        atomicAdd(&h[i], sum);
    }
}
#endif

#ifdef K_lane_counters
#ifndef STRIDE
#define STRIDE 32
#endif
KERNEL(lane_counters)
{
    // Each lane counts in a row of its own; rows of 32 words lie on one bank.
    __shared__ int s[32 * 33];
    for (int i = T; i < 32 * 33; i += blockDim.x)
        s[i] = 0;
    __syncthreads();
    int x = k[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++)
        atomicAdd(&s[(T & 31) * STRIDE + ((x + r) & 31 & r)], 1);
    __syncthreads();
    for (int i = T; i < 32 * 32; i += blockDim.x)
        h[i] = s[(i >> 5) * STRIDE + (i & 31)];
}
#endif

#ifdef K_tile_columns
KERNEL(tile_columns)
{
    // Sums over the columns of a tile whose rows have 40 words: eight lanes on a bank.
    __shared__ float s[32 * (40 + PAD)];
    for (int i = T; i < 32 * (40 + PAD); i += blockDim.x)
        s[i] = a[i];
    __syncthreads();
    float sum = 0;
#pragma unroll UNROLL
    for (int r = 0; r < m; r++)
        sum = sum * 0.5f + s[(T & 31) * (40 + PAD) + (r & 31)];
    c[ME] = sum;
}
#endif

#ifdef K_gaussian
#if defined(FAST)
#define EXP __expf
#define DIVIDE __fdividef
#else
#define EXP expf
#define DIVIDE(x, y) ((x) / (y))
#endif
KERNEL(gaussian)
{
    for (int r = 0; r < m; r++) {
        float x = a[ME + r * ALL] - 0.5f;
        float e = EXP(-x * x);
        c[ME + r * ALL] = DIVIDE(e, 1 + e);
    }
}
#endif

#ifdef K_ring_index
KERNEL(ring_index)
{
    // Positions in a ring of n; MASK: its size is a power of two.
    unsigned at = k[ME], sum = 0;
    for (int r = 0; r < m; r++) {
#if defined(MASK)
        at = (at + r) & (n - 1);
#else
        at = (at + r) % (unsigned)n;
#endif
        sum += at;
    }
    c[ME] = sum;
}
#endif

#ifdef K_damped
#if defined(SINGLE)
#define DAMP 0.97f
#else
#define DAMP 0.97
#endif
KERNEL(damped)
{
    float x = a[ME], v = b[ME];
    for (int r = 0; r < m; r++) {
        v = v * DAMP - x * 0.01f;
        x = x + v;
    }
    c[ME] = x;
}
#endif

#ifdef K_filter_step
#if defined(INLINE)
__device__ __forceinline__
#else
__device__ __noinline__
#endif
float filter(float x, float y, float z)
{
    return fmaxf(x * 0.25f + y * 0.5f, z);
}
KERNEL(filter_step)
{
    float y = 0;
    for (int r = 0; r < m; r++)
        y = filter(a[ME + r * ALL], y, 0.125f);
    c[ME] = y;
}
#endif

#ifdef K_triangle
KERNEL(triangle)
{
    // Rows of a triangle: warp w has w + 1 times the work; EVEN: all have the mean.
    __shared__ float s[256];
    float x = a[ME];
    s[T] = x;
    __syncthreads();
#if defined(EVEN)
    int times = m * (blockDim.x / 32 + 1) / 2;
#else
    int times = m * (T / 32 + 1);
#endif
    for (int r = 0; r < 6; r++) {
#pragma unroll 1
        for (int i = 0; i < times; i++)
            x = x * 0.5f + s[(T + i) & 255] * 0.125f;
        __syncthreads();
        s[T] = x;
        __syncthreads();
    }
    c[ME] = x;
}
#endif

#ifdef K_vote_counts
KERNEL(vote_counts)
{
#if defined(PRIVATE)
    __shared__ int s[64];
    if (T < 64)
        s[T] = 0;
    __syncthreads();
#pragma unroll 1
    for (int r = 0; r < m; r++)
        atomicAdd(&s[k[ME + r * ALL] & 63], 1);
    __syncthreads();
    if (T < 64)
        atomicAdd(&h[T], s[T]);
#else
#pragma unroll 1
    for (int r = 0; r < m; r++)
        atomicAdd(&h[k[ME + r * ALL] & 63], 1);
#endif
}
#endif

#ifdef K_small_stack
KERNEL(small_stack)
{
    // A stack of twelve words indexed by data; REGISTERS: selections among all of it.
    float own[12];
#pragma unroll
    for (int t = 0; t < 12; t++)
        own[t] = a[ME + t * ALL];
    int at = k[ME] % 12u;
    float sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
#if defined(REGISTERS)
        float x = 0;
#pragma unroll
        for (int t = 0; t < 12; t++)
            x = at == t ? own[t] : x;
#else
        float x = own[at];
#endif
        sum = sum * 0.5f + x;
        at = at == 11 ? 0 : at + 1;
    }
    c[ME] = sum;
}
#endif

#ifdef K_two_hops
KERNEL(two_hops)
{
    float sum = 0;
#if defined(AHEAD)
    int next = k[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        int at = next;
        next = k[ME + (r + 1) * ALL];
        sum += a[k[at]];
    }
#else
#pragma unroll UNROLL
    for (int r = 0; r < m; r++)
        sum += a[k[k[ME + r * ALL]]];
#endif
    c[ME] = sum;
}
#endif

#ifdef K_two_ways
KERNEL(two_ways)
{
    // One lane in four does something else; GROUPED: one warp in four.
#if defined(GROUPED)
    bool other = (T >> 5 & 3) == 0;
#else
    bool other = (T & 3) == 0;
#endif
    float x = a[ME], y = b[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        if (other) {
#pragma unroll
            for (int i = 0; i < 16; i++)
                x = x * y + 0.25f * i;
        } else {
#pragma unroll
            for (int i = 0; i < 16; i++)
                y = y * 0.5f - x * i;
        }
    }
    c[ME] = x + y;
}
#endif

#ifdef K_recurrence
KERNEL(recurrence)
{
    // CHAINS independent recurrences of m / CHAINS steps each.
    float x[CHAINS];
#pragma unroll
    for (int u = 0; u < CHAINS; u++)
        x[u] = a[ME + u];
    float f = b[ME];
#pragma unroll 1
    for (int r = 0; r < m; r += 8 * CHAINS)
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int u = 0; u < CHAINS; u++)
                x[u] = x[u] * f + 0.5f * i;
    float sum = 0;
#pragma unroll
    for (int u = 0; u < CHAINS; u++)
        sum += x[u];
    c[ME] = sum;
}
#endif

#ifdef K_tuned_scale
KERNEL(tuned_scale)
{
    const float4* a4 = (const float4*)a;
    float4* c4 = (float4*)c;
    float4 x[8];
#pragma unroll
    for (int r = 0; r < 8; r++)
        x[r] = a4[ME + r * ALL];
#pragma unroll
    for (int r = 0; r < 8; r++) {
        x[r].x *= 2;
        x[r].w += 1;
        c4[ME + r * ALL] = x[r];
    }
}
#endif

#ifdef K_tuned_polynomial
KERNEL(tuned_polynomial)
{
    float x[6], y[6];
#pragma unroll
    for (int u = 0; u < 6; u++) {
        x[u] = a[ME] + u;
        y[u] = 1;
    }
#pragma unroll 1
    for (int r = 0; r < m; r++)
#pragma unroll
        for (int i = 0; i < 12; i++)
#pragma unroll
            for (int u = 0; u < 6; u++)
                y[u] = y[u] * x[u] + 0.5f;
    float sum = 0;
#pragma unroll
    for (int u = 0; u < 6; u++)
        sum += y[u];
    c[ME] = sum;
}
#endif

// The second round.

#ifdef K_axpy_chain
KERNEL(axpy_chain)
{
    float sum = 0;
#pragma unroll UNROLL
    for (int r = 0; r < m; r++)
        sum = sum * 0.5f + a[ME + r * ALL] * b[ME + (m - r) * ALL];
    c[ME] = sum;
}
#endif

#ifdef K_fields
KERNEL(fields)
{
    // Records of eight floats, three of them used; SOA: an array a field.
    float sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        int i = ME + r * ALL;
#if defined(SOA)
        sum += a[i] * a[i + n / 8] - a[i + n / 4];
#else
        sum += a[8 * i] * a[8 * i + 3] - a[8 * i + 5];
#endif
    }
    c[ME] = sum;
}
#endif

#ifdef K_weights
#if defined(CONSTANT)
__constant__ float table[64];
#endif
KERNEL(weights)
{
    // A sum with 24 weights that all threads share.
    float x = a[ME], y = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++)
#pragma unroll 4
        for (int t = 0; t < 24; t++) {
#if defined(CONSTANT)
            y += table[t] * x;
#else
            y += b[t] * x;
#endif
            x = x * 0.99f;
        }
    c[ME] = y;
}
#endif

#ifdef K_geometric_bins
KERNEL(geometric_bins)
{
    // Sixty-four bins of values that halve in frequency; COPIES by lane.
    __shared__ int s[64 * COPIES];
    for (int i = T; i < 64 * COPIES; i += blockDim.x)
        s[i] = 0;
    __syncthreads();
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        int v = __ffs(k[ME + r * ALL] | 1 << 20) & 63;
#if defined(AGGREGATE)
        int leader = __shfl_sync(~0u, v, 0);
        unsigned same = __ballot_sync(~0u, v == leader);
        if ((T & 31) == 0)
            atomicAdd(&s[leader], __popc(same));
        if (v != leader)
            atomicAdd(&s[v], 1);
#else
        atomicAdd(&s[v * COPIES + (T & (COPIES - 1))], 1);
#endif
    }
    __syncthreads();
    for (int i = T; i < 64; i += blockDim.x) {
        int sum = 0;
        for (int j = 0; j < COPIES; j++)
            sum += s[i * COPIES + j];
        atomicAdd(&h[i], sum);
    }
}
#endif

#ifdef K_slot_maxima
#ifndef STRIDE
#define STRIDE 16
#endif
KERNEL(slot_maxima)
{
    // A row of 16 slots for each lane: rows on two banks.
    __shared__ int s[32 * 17];
    for (int i = T; i < 32 * 17; i += blockDim.x)
        s[i] = 0;
    __syncthreads();
    int x = k[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++)
        atomicMax(&s[(T & 31) * STRIDE + (r & 15)], x ^ r);
    __syncthreads();
    for (int i = T; i < 32 * 16; i += blockDim.x)
        h[i] = s[(i >> 4) * STRIDE + (i & 15)];
}
#endif

#ifdef K_matrix_rows
KERNEL(matrix_rows)
{
    // Rows of 64 words, a lane a row.
    __shared__ float s[32 * (64 + PAD)];
    for (int i = T; i < 32 * (64 + PAD); i += blockDim.x)
        s[i] = a[i];
    __syncthreads();
    float sum = 0;
#pragma unroll UNROLL
    for (int r = 0; r < m; r++)
        sum += s[(T & 31) * (64 + PAD) + (r & 63)] * b[r];
    c[ME] = sum;
}
#endif

#ifdef K_tone_map
#if defined(FAST)
#define LOG __logf
#define POW __powf
#else
#define LOG logf
#define POW powf
#endif
KERNEL(tone_map)
{
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        float x = a[ME + r * ALL] + 0.25f;
        c[ME + r * ALL] = POW(x, 0.45f) + LOG(x);
    }
}
#endif

#ifdef K_digits
KERNEL(digits)
{
    // Digits to a base that only the launch knows; SHIFT: it is sixteen.
    unsigned x = k[ME], sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
#if defined(SHIFT)
        sum += x & 15;
        x = (x >> 4) + r * 77777u;
#else
        unsigned q = x / (unsigned)n;
        sum += x - q * n;
        x = q + r * 77777u;
#endif
    }
    c[ME] = sum;
}
#endif

#ifdef K_orbit
#if defined(SINGLE)
#define QUARTER 0.26f
#else
#define QUARTER 0.26
#endif
KERNEL(orbit)
{
    float x = a[ME], y = b[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        float t = x * x - y * QUARTER;
        y = x * y + QUARTER;
        x = t;
    }
    c[ME] = x + y;
}
#endif

#ifdef K_clamp_calls
#if defined(INLINE)
__device__ __forceinline__
#else
__device__ __noinline__
#endif
float clamped(float x, float low, float high)
{
    return fminf(fmaxf(x, low), high);
}
KERNEL(clamp_calls)
{
    float x = a[ME], y = b[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        x = clamped(x * 1.5f - y, 0.125f, 0.875f);
        y = clamped(y + 0.5f * x, 0.25f, 0.75f);
    }
    c[ME] = x + y;
}
#endif

#ifdef K_ragged
KERNEL(ragged)
{
    // Every other warp has three times the work before each barrier; EVEN: all have the mean.
    __shared__ float s[256];
    s[T] = a[ME];
    float x = b[ME];
#if defined(EVEN)
    int times = 2 * m;
#else
    int times = T >> 5 & 1 ? 3 * m : m;
#endif
#pragma unroll 1
    for (int r = 0; r < 8; r++) {
        __syncthreads();
        x += s[(T + 64) & 255];
#pragma unroll 1
        for (int i = 0; i < times; i++)
            x = x * 0.75f + 0.125f;
        __syncthreads();
        s[T] = x;
    }
    c[ME] = x;
}
#endif

#ifdef K_pair_counts
KERNEL(pair_counts)
{
#if defined(PRIVATE)
    __shared__ int s[512];
    for (int i = T; i < 512; i += blockDim.x)
        s[i] = 0;
    __syncthreads();
#pragma unroll 1
    for (int r = 0; r < m; r++)
        atomicAdd(&s[(k[ME + r * ALL] ^ k[ME + (r + 1) * ALL]) & 511], 1);
    __syncthreads();
    for (int i = T; i < 512; i += blockDim.x)
        atomicAdd(&h[i], s[i]);
#else
#pragma unroll 1
    for (int r = 0; r < m; r++)
        atomicAdd(&h[(k[ME + r * ALL] ^ k[ME + (r + 1) * ALL]) & 511], 1);
#endif
}
#endif

#ifdef K_window
KERNEL(window)
{
    // A window of six values, written and read at an index that turns; REGISTERS: selections.
    float own[6];
#pragma unroll
    for (int t = 0; t < 6; t++)
        own[t] = a[ME + t];
    int at = k[ME] % 6u;
    float sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        int far = at >= 2 ? at - 2 : at + 4;
#if defined(REGISTERS)
        float x = 0;
#pragma unroll
        for (int t = 0; t < 6; t++)
            x = far == t ? own[t] : x;
#pragma unroll
        for (int t = 0; t < 6; t++)
            own[t] = at == t ? sum : own[t];
#else
        float x = own[far];
        own[at] = sum;
#endif
        sum = sum * 0.5f + x;
        at = at == 5 ? 0 : at + 1;
    }
    c[ME] = sum;
}
#endif

#ifdef K_index_sums
KERNEL(index_sums)
{
    float sum = 0;
#pragma unroll UNROLL
    for (int r = 0; r < m; r++)
        sum += a[k[ME + r * ALL] & 4095] * 0.5f;
    c[ME] = sum;
}
#endif

#ifdef K_lane_roles
KERNEL(lane_roles)
{
    // Half of the lanes sum, half multiply; GROUPED: half of the warps.
#if defined(GROUPED)
    bool sums = T >> 5 & 1;
#else
    bool sums = T >> 4 & 1;
#endif
    float x = a[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        if (sums) {
#pragma unroll 1
            for (int i = 0; i < 12; i++)
                x += 0.5f * i;
        } else {
#pragma unroll 1
            for (int i = 0; i < 12; i++)
                x *= 0.99f;
        }
    }
    c[ME] = x;
}
#endif

#ifdef K_series
KERNEL(series)
{
    // CHAINS terms of a series at a time, each a chain of its own.
    float sum = 0, f = a[ME];
#pragma unroll 1
    for (int r = 0; r < m; r += CHAINS) {
        float t[CHAINS];
#pragma unroll
        for (int u = 0; u < CHAINS; u++)
            t[u] = f + (r + u);
#pragma unroll
        for (int i = 0; i < 10; i++)
#pragma unroll
            for (int u = 0; u < CHAINS; u++)
                t[u] = t[u] * f + 0.25f;
#pragma unroll
        for (int u = 0; u < CHAINS; u++)
            sum += t[u];
    }
    c[ME] = sum;
}
#endif

#ifdef K_tuned_add
KERNEL(tuned_add)
{
    const float4* a4 = (const float4*)a;
    const float4* b4 = (const float4*)b;
    float4* c4 = (float4*)c;
    float4 x[4], y[4];
#pragma unroll
    for (int r = 0; r < 4; r++) {
        x[r] = a4[ME + r * ALL];
        y[r] = b4[ME + r * ALL];
    }
#pragma unroll
    for (int r = 0; r < 4; r++) {
        x[r].x += y[r].x;
        x[r].y += y[r].y;
        x[r].z += y[r].z;
        x[r].w += y[r].w;
        c4[ME + r * ALL] = x[r];
    }
}
#endif
