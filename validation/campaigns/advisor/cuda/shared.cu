// Kernels whose time is shared memory's, its atomics' or barriers', with the changes that a program can make.

#ifdef K_histogram_shared
// 256 bins, COPIES private histograms for the warps to share, UNROLL independent loads before their atomics.
KERNEL(histogram_shared)
{
    __shared__ int s[COPIES * (256 + PAD)];
    for (int i = T; i < COPIES * (256 + PAD); i += blockDim.x)
        s[i] = 0;
    __syncthreads();
    int* own = s + ((T >> 5) % COPIES) * (256 + PAD);
#pragma unroll 1
    for (int r = 0; r < m; r += UNROLL) {
        int v[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            v[u] = k[ME + (r + u) * ALL] & 255;
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            atomicAdd(&own[v[u]], 1);
    }
    __syncthreads();
    for (int i = T; i < 256; i += blockDim.x) {
        int sum = 0;
        for (int j = 0; j < COPIES; j++)
            sum += s[j * (256 + PAD) + i];
        atomicAdd(&h[i], sum);
    }
}
#endif

#ifdef K_histogram_skewed
// Most values are alike. AGGREGATE: the lanes with the leader's value count themselves by one atomic.
KERNEL(histogram_skewed)
{
    __shared__ int s[256 * COPIES];
    for (int i = T; i < 256 * COPIES; i += blockDim.x)
        s[i] = 0;
    __syncthreads();
    for (int r = 0; r < m; r++) {
        int x = k[ME + r * ALL];
        int v = (x & 15) ? 7 : (x >> 4) & 255;
#if defined(AGGREGATE)
        int leader = __shfl_sync(~0u, v, 0);
        unsigned same = __ballot_sync(~0u, v == leader);
        if ((T & 31) == 0)
            atomicAdd(&s[leader], __popc(same));
        if (v != leader)
            atomicAdd(&s[v], 1);
#elif COPIES > 1
        atomicAdd(&s[v * COPIES + (T & (COPIES - 1))], 1);
#else
        atomicAdd(&s[v], 1);
#endif
    }
    __syncthreads();
    for (int i = T; i < 256; i += blockDim.x) {
        int sum = 0;
        for (int j = 0; j < COPIES; j++)
            sum += s[i * COPIES + j];
        atomicAdd(&h[i], sum);
    }
}
#endif

#ifdef K_histogram_strided
// A histogram of 64 bins for each lane; the row's stride decides on which bank a lane's bins lie.
#ifndef STRIDE
#define STRIDE 64
#endif
KERNEL(histogram_strided)
{
    __shared__ int s[32 * (64 + 1)];
    for (int i = T; i < 32 * 65; i += blockDim.x)
        s[i] = 0;
    __syncthreads();
    for (int r = 0; r < m; r++)
        atomicAdd(&s[(T & 31) * STRIDE + (r & 63)], k[ME + (r & 1) * ALL]);
    __syncthreads();
    if (T < 64)
        h[blockIdx.x * 64 + T] = s[T];
}
#endif

#ifdef K_counter_total
// Every thread adds to one word; TREE: the warp adds up first.
KERNEL(counter_total)
{
    __shared__ int total;
    if (T == 0)
        total = 0;
    __syncthreads();
    for (int r = 0; r < m; r++) {
        int x = k[ME + (r & 3) * ALL] & 7, at = (x >> 3) & n;
#if defined(TREE)
        for (int d = 16; d; d >>= 1)
            x += __shfl_xor_sync(~0u, x, d);
        if ((T & 31) == 0)
            atomicAdd(&total + at, x);
#else
        atomicAdd(&total + at, x);
#endif
    }
    __syncthreads();
    if (T == 0)
        h[blockIdx.x] = total;
}
#endif

#ifdef K_ticket
KERNEL(ticket)
{
    __shared__ int head[32];
    if (T < 32)
        head[T] = 0;
    __syncthreads();
    int sum = 0;
    for (int r = 0; r < m; r++)
        sum += atomicAdd(&head[(T * 7 + r) & 31], 1);
    c[ME] = sum;
}
#endif

#ifdef K_hash_insert
KERNEL(hash_insert)
{
    __shared__ int keys[1024];
    for (int i = T; i < 1024; i += blockDim.x)
        keys[i] = 0;
    __syncthreads();
    for (int r = 0; r < m; r++) {
        int key = (k[ME + r * ALL] & 511) + 1;
        int at = key * 37 & 1023;
        for (int tries = 0; tries < 32; tries++) {
            int seen = atomicCAS(&keys[at], 0, key);
            if (seen == 0 || seen == key)
                break;
            at = (at + 1) & 1023;
        }
    }
    __syncthreads();
    for (int i = T; i < 1024; i += blockDim.x)
        h[i] = keys[i];
}
#endif

#ifdef K_reduce_tree
KERNEL(reduce_tree)
{
    // SHUFFLE: the last steps in a warp, without barriers.
    __shared__ float s[1024];
    for (int r = 0; r < m; r++) {
        __syncthreads();
        s[T] = a[ME + r * ALL];
        __syncthreads();
#if defined(SHUFFLE)
        float x = s[T];
        for (int d = 16; d; d >>= 1)
            x += __shfl_down_sync(~0u, x, d);
        __syncthreads();
        if ((T & 31) == 0)
            s[T >> 5] = x;
        __syncthreads();
        if (T < 32) {
            x = T < blockDim.x / 32 ? s[T] : 0;
            for (int d = 16; d; d >>= 1)
                x += __shfl_down_sync(~0u, x, d);
            if (T == 0)
                c[blockIdx.x * m + r] = x;
        }
#else
        for (int d = blockDim.x / 2; d; d >>= 1) {
            if (T < d)
                s[T] += s[T + d];
            __syncthreads();
        }
        if (T == 0)
            c[blockIdx.x * m + r] = s[0];
#endif
    }
}
#endif

#ifdef K_scan_block
KERNEL(scan_block)
{
    __shared__ float s[2][1024];
    int from = 0;
    s[0][T] = a[ME];
    __syncthreads();
    for (int r = 0; r < m; r++)
        for (int d = 1; d < blockDim.x; d *= 2) {
            s[1 - from][T] = s[from][T] + (T >= d ? s[from][T - d] : 0);
            from = 1 - from;
            __syncthreads();
        }
    c[ME] = s[from][T];
}
#endif

#ifdef K_bank_columns
KERNEL(bank_columns)
{
    // Each lane walks a row of its own: with a stride of 32 words all lanes are on one bank.
    __shared__ float s[32 * (32 + PAD) * 2];
    for (int i = T; i < 32 * (32 + PAD) * 2; i += blockDim.x)
        s[i] = a[i];
    __syncthreads();
    float sum = 0;
#pragma unroll UNROLL
    for (int r = 0; r < m; r++)
        sum += s[(T & 31) * (32 + PAD) + (r & 31)];
    c[ME] = sum;
}
#endif

#ifdef K_matmul_naive
KERNEL(matmul_naive)
{
    // c = a b, m by m; a thread an element. TILE: through shared memory.
    int x = ME % m, y = ME / m;
    float sum = 0;
#if defined(TILE)
    __shared__ float p[16][16], q[16][16];
    int tx = T & 15, ty = T >> 4, tiles = m / 16;
    x = blockIdx.x % tiles * 16 + tx, y = blockIdx.x / tiles * 16 + ty;
    for (int t = 0; t < m; t += 16) {
        p[ty][tx] = a[y * m + t + tx];
        q[ty][tx] = b[(t + ty) * m + x];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 16; i++)
            sum += p[ty][i] * q[i][tx];
        __syncthreads();
    }
#else
#pragma unroll UNROLL
    for (int i = 0; i < m; i++)
        sum += a[y * m + i] * b[i * m + x];
#endif
    c[y * m + x] = sum;
}
#endif

#ifdef K_warp_imbalance
KERNEL(warp_imbalance)
{
    // Warp w works w times as long before each barrier; EVEN: all as long.
    __shared__ float s[1024];
    float x = a[ME];
    for (int r = 0; r < m; r++) {
#if defined(EVEN)
        int times = 3 * m; // the mean of the others'
#else
        int times = 8 * (T >> 5) + 8;
#endif
        for (int i = 0; i < times; i++)
            x = x * 0.5f + 0.25f;
        s[T] = x;
        __syncthreads();
        x += s[(T + 32) % blockDim.x];
        __syncthreads();
    }
    c[ME] = x;
}
#endif

#ifdef K_alignment
KERNEL(alignment)
{
    // Anti-diagonals of a dynamic program, a barrier each (Needleman and Wunsch's).
    __shared__ int s[2][1025];
    int from = 0;
    s[0][T] = s[1][T] = 0;
    if (T == 0)
        s[0][blockDim.x] = s[1][blockDim.x] = 0;
    __syncthreads();
    for (int r = 0; r < m; r++) {
        int up = s[from][T], left = s[from][T + 1], own = k[(ME + r) & 1023] & 3;
        int best = max(up, left) - 1;
        best = max(best, up + (own == 1 ? 2 : -1));
        s[1 - from][T] = best;
        from = 1 - from;
        __syncthreads();
    }
    c[ME] = s[from][T];
}
#endif

#ifdef K_convolve_shared
KERNEL(convolve_shared)
{
    __shared__ float s[1024 + 32], w[32];
    if (T < 32)
        w[T] = b[T];
    for (int r = 0; r < m; r++) {
        __syncthreads();
        s[T] = a[ME + r * ALL];
        if (T < 32)
            s[blockDim.x + T] = a[ME + r * ALL + blockDim.x];
        __syncthreads();
        float sum = 0;
#pragma unroll UNROLL
        for (int i = 0; i < 32; i++)
            sum += w[i] * s[T + i];
        c[ME + r * ALL] = sum;
    }
}
#endif

#ifdef K_sort_bitonic
KERNEL(sort_bitonic)
{
    __shared__ float s[1024];
    s[T] = a[ME];
    __syncthreads();
    for (int size = 2; size <= blockDim.x; size *= 2)
        for (int d = size / 2; d; d /= 2) {
            int other = T ^ d;
            if (other > T) {
                bool up = (T & size) == 0;
                float x = s[T], y = s[other];
                if (up == (x > y)) {
                    s[T] = y;
                    s[other] = x;
                }
            }
            __syncthreads();
        }
    c[ME] = s[T];
}
#endif
