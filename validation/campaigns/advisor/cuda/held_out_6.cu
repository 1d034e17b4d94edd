// Kernels that the estimators were not shaped on, the sixth round, with the changes that a program can make (macros).

#ifdef K_bias_relu
KERNEL(bias_relu)
{
#pragma unroll UNROLL
    for (int r = 0; r < m; r++)
        c[ME + r * ALL] = fmaxf(a[ME + r * ALL] + b[r], 0.5f);
}
#endif

#ifdef K_row_variance
KERNEL(row_variance)
{
    // A warp a row of m numbers: mean and variance in one pass.
    int row = ME >> 5, lane = T & 31;
    float sum = 0, square = 0;
#pragma unroll UNROLL
    for (int i = lane; i < m; i += 32) {
        float x = a[row * m + i];
        sum += x;
        square += x * x;
    }
    for (int d = 16; d; d >>= 1) {
        sum += __shfl_xor_sync(~0u, sum, d);
        square += __shfl_xor_sync(~0u, square, d);
    }
    c[ME] = square - sum * sum / m;
}
#endif

#ifdef K_particles
KERNEL(particles)
{
    // Particles of eight floats of which three are used; SOA: three arrays.
    float sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        int i = ME + r * ALL;
#if defined(SOA)
        float x = a[i], y = a[i + 65536], z = a[i + 131072];
#else
        float x = a[8 * i], y = a[8 * i + 1], z = a[8 * i + 2];
#endif
        sum += rsqrtf(x * x + y * y + z * z + 0.01f);
    }
    c[ME] = sum;
}
#endif

#ifdef K_word_table
KERNEL(word_table)
{
    // 512 bins for words, in global memory or (PRIVATE) a table for each block first.
#if defined(PRIVATE)
    __shared__ int s[512];
    for (int i = T; i < 512; i += blockDim.x)
        s[i] = 0;
    __syncthreads();
#pragma unroll 1
    for (int r = 0; r < m; r++)
        atomicAdd(&s[(k[ME + r * ALL] >> 3) & 511], 1);
    __syncthreads();
    for (int i = T; i < 512; i += blockDim.x)
        atomicAdd(&h[i], s[i]);
#else
#pragma unroll 1
    for (int r = 0; r < m; r++)
        atomicAdd(&h[(k[ME + r * ALL] >> 3) & 511], 1);
#endif
}
#endif

#if defined(FAST)
#define EXP __expf
#define POW __powf
#define SIN __sinf
#define COS __cosf
#define DIVIDED(x, y) __fdividef(x, y)
#else
#define EXP expf
#define POW powf
#define SIN sinf
#define COS cosf
#define DIVIDED(x, y) ((x) / (y))
#endif

#ifdef K_gamma_curve
KERNEL(gamma_curve)
{
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        int i = (ME + r * 64) & 0x3fff;
        c[i] = POW(a[i], 0.4545f) * 0.9f + 0.05f;
    }
}
#endif

#ifdef K_gates
KERNEL(gates)
{
    float x = a[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        float gate = DIVIDED(1.0f, 1.0f + EXP(-x));
        x = gate * (x + 0.5f) + 0.125f;
    }
    c[ME] = x;
}
#endif

#ifdef K_rotations
KERNEL(rotations)
{
    float x = a[ME], y = b[ME], angle = x;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        float s = SIN(angle);
        float t = COS(angle);
        float z = x * t - y * s;
        y = x * s + y * t;
        x = z;
        angle += 0.0625f;
    }
    c[ME] = x + y;
}
#endif

#ifdef K_two_dimensions
KERNEL(two_dimensions)
{
    // Rows and columns of places in an image n wide; SHIFT: it is 64 wide.
    unsigned sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        unsigned place = ME * 5 + r * 77;
#if defined(SHIFT)
        unsigned row = place >> 6, column = place & 63;
#else
        unsigned row = place / (unsigned)n, column = place % (unsigned)n;
#endif
        sum += row * 3 ^ column;
    }
    c[ME] = sum;
}
#endif

#ifdef K_blended
#if defined(SINGLE)
#define TENTH 0.1f
#define REST 0.9f
#else
#define TENTH 0.1
#define REST 0.9
#endif
KERNEL(blended)
{
    float x = a[ME], y = b[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        x = x * REST + y * TENTH;
        y = fmaxf(x - y, 0.25f);
    }
    c[ME] = x + y;
}
#endif

#ifdef K_sparse_work
KERNEL(sparse_work)
{
    // One lane in four does much; GROUPED: one warp in four.
#if defined(GROUPED)
    bool busy = (T >> 5 & 3) == 0;
#else
    bool busy = (T & 3) == 0;
#endif
    float x = a[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        x = x * 0.5f + 1;
        if (busy) {
#pragma unroll 1
            for (int i = 0; i < 16; i++)
                x = x + 0.25f * rsqrtf(x + i + 1);
        }
    }
    c[ME] = x;
}
#endif

#ifdef K_wedge
KERNEL(wedge)
{
    // Later warps have more rows, and all meet after each wedge; EVEN: all as many.
    __shared__ float s[256];
    int w = T >> 5;
    float x = a[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++) {
#if defined(EVEN)
        int rows = 18;
#else
        int rows = 4 + 4 * w;
#endif
#pragma unroll 1
        for (int i = 0; i < rows; i++)
            x = x * 0.75f + b[(T + i) & 127];
        s[T] = x;
        __syncthreads();
        x += s[T ^ 32];
        __syncthreads();
    }
    c[ME] = x;
}
#endif

#ifdef K_sixteen_sums
KERNEL(sixteen_sums)
{
    // Sixteen whole sums for all threads; PRIVATE: of a block first.
#if defined(PRIVATE)
    __shared__ int s[16];
    if (T < 16)
        s[T] = 0;
    __syncthreads();
#endif
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        int x = k[ME + r * ALL];
#if defined(PRIVATE)
        atomicAdd(&s[x & 15], x >> 8);
#else
        atomicAdd(&h[x & 15], x >> 8);
#endif
    }
#if defined(PRIVATE)
    __syncthreads();
    if (T < 16)
        atomicAdd(&h[T], s[T]);
#endif
}
#endif

#ifdef K_tile_sums
KERNEL(tile_sums)
{
    // Sums along the rows of a tile, a thread a row of 64 words.
    __shared__ float s[64 * (64 + PAD)];
    for (int i = T; i < 4096; i += blockDim.x)
        s[(i >> 6) * (64 + PAD) + (i & 63)] = a[i + blockIdx.x * 4096];
    __syncthreads();
    float sum = 0;
#pragma unroll UNROLL
    for (int j = 0; j < 64; j++)
        sum += s[(T & 63) * (64 + PAD) + j];
    c[ME] = sum;
}
#endif

#ifdef K_filter_bank
#if defined(CONSTANT)
__constant__ float table[64];
#define TAP(i) table[i]
#else
#define TAP(i) b[i]
#endif
KERNEL(filter_bank)
{
    // m filters of four taps, the same for all threads.
    float x = a[ME], y = a[ME + 1], z = a[ME + 2], w = a[ME + 3], sum = 0;
#pragma unroll 1
    for (int f = 0; f < m; f++)
        sum = fmaxf(sum, TAP(4 * f) * x + TAP(4 * f + 1) * y + TAP(4 * f + 2) * z + TAP(4 * f + 3) * w);
    c[ME] = sum;
}
#endif

#ifdef K_root_chains
KERNEL(root_chains)
{
    // CHAINS iterated roots at a time, m in all.
    float sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r += CHAINS) {
        float x[CHAINS];
#pragma unroll
        for (int u = 0; u < CHAINS; u++)
            x[u] = r + u + 2;
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int u = 0; u < CHAINS; u++)
                x[u] = rsqrtf(x[u]) + 0.5f;
#pragma unroll
        for (int u = 0; u < CHAINS; u++)
            sum += x[u];
    }
    c[ME] = sum;
}
#endif

#ifdef K_two_of_four
KERNEL(two_of_four)
{
    float sum = 0;
    for (int i = ME; i < n; i += ALL) {
        float x = a[i];
#pragma unroll 1
        for (int r = 0; r < m; r++)
            x = x * x * 0.5f + 0.125f;
        sum += x;
    }
    c[ME] = sum;
}
#endif

#ifdef K_ring_buffer
KERNEL(ring_buffer)
{
    // Sixteen values in a ring, one written and one read a round; REGISTERS: selections.
    float own[16];
#pragma unroll
    for (int i = 0; i < 16; i++)
        own[i] = a[ME + i];
    int at = k[ME] & 15;
    float sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        int from = (at + 5) & 15;
#if defined(REGISTERS)
        float x = 0;
#pragma unroll
        for (int i = 0; i < 16; i++) {
            own[i] = i == at ? sum : own[i];
            x = i == from ? own[i] : x;
        }
        sum = sum * 0.5f + x;
#else
        own[at] = sum;
        sum = sum * 0.5f + own[from];
#endif
        at = (at + 1) & 15;
    }
    c[ME] = sum;
}
#endif

#ifdef K_material
#if defined(INLINE)
#define CALLED __device__ __forceinline__
#else
#define CALLED __device__ __noinline__
#endif
CALLED float absorbed(float energy, float density, float width)
{
    float x = energy * density;
    return x > width ? x - width : x * 0.5f;
}
KERNEL(material)
{
    float energy = a[ME] + 1, width = b[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        energy = absorbed(energy, 0.9375f, width) + 0.25f;
        width = absorbed(width, 0.75f, energy) + 0.125f;
    }
    c[ME] = energy + width;
}
#endif

#ifdef K_linked_rows
KERNEL(linked_rows)
{
    // The rows of a matrix that indices name, four words of each.
    float sum = 0;
#pragma unroll UNROLL
    for (int r = 0; r < m; r++) {
        int row = (k[ME + r * ALL] & 0xfff) * 8;
        sum += a[row] + a[row + 1] + a[row + 2] + a[row + 3];
    }
    c[ME] = sum;
}
#endif

#ifdef K_tuned_sums
KERNEL(tuned_sums)
{
    const float4* a4 = (const float4*)a;
    float4 x[8];
    float sum = 0;
#pragma unroll
    for (int r = 0; r < 8; r++)
        x[r] = a4[ME + r * ALL];
#pragma unroll
    for (int r = 0; r < 8; r++)
        sum += x[r].x + x[r].y + x[r].z + x[r].w;
    c[ME] = sum;
}
#endif
