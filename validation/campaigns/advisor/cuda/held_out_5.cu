// Kernels that the estimators were not shaped on, the fifth round: of the kinds of the applications that Zhou et al.
// measured (their Table III), written anew, and others; with the changes that a program can make (macros).

#ifdef K_layer_sums
KERNEL(layer_sums)
{
    // Products of a block added up in a tree; GROUPED: by neighbouring threads, whole warps drop out.
    __shared__ float s[256];
    float total = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        s[T] = a[ME + r * ALL] * b[T];
        __syncthreads();
#if defined(GROUPED)
#pragma unroll 1
        for (int d = 128; d; d >>= 1) {
            if (T < d)
                s[T] += s[T + d];
            __syncthreads();
        }
#else
#pragma unroll 1
        for (int d = 1; d < 256; d *= 2) {
            if ((T & (2 * d - 1)) == 0)
                s[T] += s[T + d];
            __syncthreads();
        }
#endif
        total += s[0];
        __syncthreads();
    }
    c[ME] = total;
}
#endif

#ifdef K_frontier
KERNEL(frontier)
{
    // Neighbours that are not visited yet get a level.
#pragma unroll UNROLL
    for (int e = 0; e < m; e++) {
        int to = k[ME + e * ALL];
        if (a[to] > 0.75f)
            c[to] = 2;
    }
}
#endif

#ifdef K_tree_search
KERNEL(tree_search)
{
    // Searches for 16 keys in sorted words, CHAINS at a time.
    int sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r += CHAINS) {
        int at[CHAINS], key[CHAINS];
#pragma unroll
        for (int u = 0; u < CHAINS; u++) {
            at[u] = 0;
            key[u] = (ME * 37 + (r + u) * 1021) & 8191;
        }
#pragma unroll
        for (int step = 4096; step >= 64; step >>= 1)
#pragma unroll
            for (int u = 0; u < CHAINS; u++)
                at[u] += (int)(a[at[u] + step] * 0.0f) + at[u] + step <= key[u] ? step : 0;
#pragma unroll
        for (int u = 0; u < CHAINS; u++)
            sum += at[u];
    }
    c[ME] = sum;
}
#endif

#ifdef K_fluxes
#if defined(FAST)
#define DIVIDED(x, y) __fdividef(x, y)
#define ROOT(x) ((x) * rsqrtf(x))
#else
#define DIVIDED(x, y) ((x) / (y))
#define ROOT(x) sqrtf(x)
#endif
KERNEL(fluxes)
{
    // Speed of sound and flux of an ideal gas, cell by cell.
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        int i = ME + r * ALL;
        float density = a[i] + 1, momentum = b[i];
        float v = DIVIDED(momentum, density);
        float pressure = 0.4f * (2.5f - 0.5f * momentum * v);
        float speed = ROOT(DIVIDED(1.4f * pressure, density));
        c[i] = (fabsf(v) + speed) * momentum + pressure;
    }
}
#endif

#ifdef K_pivot_rows
KERNEL(pivot_rows)
{
    // One row a warp: what is loaded decides what is loaded next, in a table that L1 holds.
    int at = T & 31;
    float sum = 0;
#pragma unroll 1
    for (int i = ME; i < n; i += ALL) {
#pragma unroll 1
        for (int r = 0; r < m; r++) {
            float x = b[(at & 31) * 32 + (T & 31)];
            sum = sum * x + 0.5f;
            at = __float_as_int(sum) >> 20 & 31;
            at = __shfl_sync(~0u, at, 0);
        }
    }
    c[ME] = sum;
}
#endif

#ifdef K_template_match
KERNEL(template_match)
{
    // A template of 8 by 8 held against an image 512 wide.
    float sum = 0;
#pragma unroll 1
    for (int y = 0; y < m; y++)
#pragma unroll UNROLL
        for (int x = 0; x < 8; x++) {
            float d = a[ME + y * 512 + x] - b[y * 8 + x];
            sum += d * d;
        }
    c[ME] = sum;
}
#endif

#ifdef K_heat_step
KERNEL(heat_step)
{
    // Four resistances divide; RECIPROCAL: their inverses are taken once.
    float rx = b[0] + 1, ry = b[1] + 1, rz = b[2] + 1, x = a[ME];
#if defined(RECIPROCAL)
    float ix = 1 / rx, iy = 1 / ry, iz = 1 / rz;
#endif
#pragma unroll 1
    for (int r = 0; r < m; r++) {
#if defined(RECIPROCAL)
        x += 0.01f * ((0.5f - x) * ix + (0.25f - x) * iy + (0.75f - x) * iz);
#else
        x += 0.01f * ((0.5f - x) / rx + (0.25f - x) / ry + (0.75f - x) / rz);
#endif
    }
    c[ME] = x;
}
#endif

#ifdef K_code_offsets
KERNEL(code_offsets)
{
    // Offsets of a block's codes: one thread adds them up; EVEN: all warps do, by shuffles.
    __shared__ int s[256], w[8];
    int sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        s[T] = k[ME + r * ALL] & 31;
        __syncthreads();
#if defined(EVEN)
        int x = s[T];
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
            int y = __shfl_up_sync(~0u, x, d);
            x += (T & 31) >= d ? y : 0;
        }
        if ((T & 31) == 31)
            w[T >> 5] = x;
        __syncthreads();
        for (int i = 0; i < (T >> 5); i++)
            x += w[i];
        s[T] = x;
#else
        if (T < 1)
#pragma unroll 4
            for (int i = 1; i < 256; i++)
                s[i] += s[i - 1];
#endif
        __syncthreads();
        sum += s[T];
    }
    c[ME] = sum;
}
#endif

#ifdef K_assign_points
KERNEL(assign_points)
{
    // Distances of a point with eight features to m centres; PLANES: an array a feature.
    float best = 1e30f;
    int which = 0;
#pragma unroll 1
    for (int q = 0; q < m; q++) {
        float sum = 0;
#pragma unroll UNROLL
        for (int f = 0; f < 8; f++) {
#if defined(PLANES)
            float d = a[ME + f * ALL] - b[q * 8 + f];
#else
            float d = a[ME * 8 + f] - b[q * 8 + f];
#endif
            sum += d * d;
        }
        which = sum < best ? q : which;
        best = fminf(best, sum);
    }
    c[ME] = which;
}
#endif

#ifdef K_box_forces
#if defined(FAST)
#define EXP __expf
#else
#define EXP expf
#endif
KERNEL(box_forces)
{
    // Forces of the particles of a box, a block of 128.
    __shared__ float4 s[128];
    s[T & 127] = make_float4(a[ME], b[ME], a[ME + 64], b[ME + 64]);
    __syncthreads();
    float4 me = s[T & 127];
    float x = 0, y = 0;
#pragma unroll UNROLL
    for (int j = 0; j < m; j++) {
        float4 o = s[j];
        float dx = me.x - o.x, dy = me.y - o.y, dz = me.z - o.z;
        float w = o.w * EXP(-2 * (dx * dx + dy * dy + dz * dz));
        x += w * dx;
        y += w * dy;
    }
    c[ME] = x + y;
}
#endif

#ifdef K_lower_rows
KERNEL(lower_rows)
{
    // Forward substitution in a tile of 32 by 32 a warp: products as long as the row's number.
    __shared__ float s[8][32];
    int w = T >> 5, lane = T & 31;
    s[w][lane] = a[ME];
    __syncwarp();
#pragma unroll 1
    for (int i = 1; i < m; i++) {
        float sum = 0;
#pragma unroll UNROLL
        for (int j = 0; j < i; j++)
            sum += b[(i * 32 + lane) & 1023] * s[w][j];
        __syncwarp();
        if (lane == i)
            s[w][i] -= 0.0625f * sum;
        __syncwarp();
    }
    c[ME] = s[w][lane];
}
#endif

#ifdef K_species
KERNEL(species)
{
    // Forty-eight reactions written out, more code than is held near a scheduler; ROLLED: a loop of them.
    float x = a[ME], y = b[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        float rate = 0;
#if defined(ROLLED)
#pragma unroll 1
#else
#pragma unroll
#endif
        for (int i = 0; i < 48; i++) {
            float z = x * (i * 0.03125f) + y;
#pragma unroll
            for (int j = 0; j < 10; j++)
                z = z * 0.875f + y;
            rate += z;
        }
        x = rate * 0.015625f;
        y = y * 0.5f + x;
    }
    c[ME] = x + y;
}
#endif

#ifdef K_alignments
KERNEL(alignments)
{
    // A wave front: each round reads both neighbours' last results; FEWER: two rows in turn, one barrier.
    __shared__ int s[2][130];
    int mine = k[ME] & 15, best = 0;
    s[0][T + 1] = s[1][T + 1] = mine;
    if (T < 2)
        s[0][T * 129] = s[1][T * 129] = 0;
    __syncthreads();
#pragma unroll 1
    for (int r = 0; r < m; r++) {
#if defined(FEWER)
        int* from = s[r & 1];
        int* to = s[~r & 1];
        best = max(max(from[T], from[T + 2]) - 1, from[T + 1] + (mine >> (r & 3) & 1));
        to[T + 1] = best;
        __syncthreads();
#else
        best = max(max(s[0][T], s[0][T + 2]) - 1, s[0][T + 1] + (mine >> (r & 3) & 1));
        __syncthreads();
        s[0][T + 1] = best;
        __syncthreads();
#endif
    }
    c[ME] = best;
}
#endif

#ifdef K_particle_weights
KERNEL(particle_weights)
{
    // Likelihood of each particle.
    for (int i = ME; i < n; i += ALL) {
        float x = a[i], sum = 0;
#pragma unroll 1
        for (int r = 0; r < m; r++)
            sum += (x - b[r]) * (x - b[r]) * 0.02f;
        c[i] = __expf(-sum);
    }
}
#endif

#ifdef K_diffusion
KERNEL(diffusion)
{
    // Statistics of a block by halves, in which ever fewer warps work; EVEN: each warp by shuffles first.
    __shared__ float s[256];
    float x = a[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++) {
#if defined(EVEN)
        float y = x;
#pragma unroll
        for (int d = 16; d; d >>= 1)
            y += __shfl_xor_sync(~0u, y, d);
        s[T >> 5] = y;
        __syncthreads();
        y = s[T & 7];
#pragma unroll
        for (int d = 4; d; d >>= 1)
            y += __shfl_xor_sync(~0u, y, d);
        __syncthreads();
#else
        s[T] = x;
        __syncthreads();
#pragma unroll 1
        for (int d = 128; d; d >>= 1) {
            if (T < d)
                s[T] += s[T + d];
            __syncthreads();
        }
        float y = s[0];
        __syncthreads();
#endif
        x = x * 0.5f + y * 0.001f;
    }
    c[ME] = x;
}
#endif

#ifdef K_cheapest_paths
KERNEL(cheapest_paths)
{
    // Row by row the cheapest of three ways; AHEAD: a row's costs are loaded before the barrier in front of it.
    __shared__ float s[258];
    float mine = a[ME];
    s[T + 1] = mine;
    if (T < 2)
        s[T * 257] = 1e9f;
    __syncthreads();
#if defined(AHEAD)
    float next = a[ME + ALL];
#endif
#pragma unroll 1
    for (int r = 1; r < m; r++) {
#if defined(AHEAD)
        float cost = next;
        next = a[ME + (r + 1) * ALL];
#else
        float cost = a[ME + r * ALL];
#endif
        mine = cost + fminf(fminf(s[T], s[T + 2]), s[T + 1]);
        __syncthreads();
        s[T + 1] = mine;
        __syncthreads();
    }
    c[ME] = mine;
}
#endif

#ifdef K_collisions
#if defined(INLINE)
__device__ __forceinline__
#else
__device__ __noinline__
#endif
float collided(float energy, float angle, int kind)
{
    if (kind & 1)
        return energy * (1 - 0.5f * angle * angle);
    return energy * 0.75f + angle * 0.125f;
}
KERNEL(collisions)
{
    float energy = a[ME], angle = b[ME];
    int kind = k[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        energy = collided(energy, angle, kind >> (r & 7));
        angle = angle * 0.875f + 0.0625f;
    }
    c[ME] = energy;
}
#endif

#ifdef K_many_live
#if defined(REGISTERS)
#define BOUNDS
#else
#define BOUNDS __launch_bounds__(256, 8)
#endif
extern "C" __global__ void BOUNDS many_live(const float* __restrict__ a, const float* __restrict__ b,
    float* __restrict__ c, const int* __restrict__ k, int* h, int n, int m)
{
    // Forty-eight values live at once, and 32 registers for them; REGISTERS: as many as it takes.
    float x[48];
#pragma unroll
    for (int i = 0; i < 48; i++)
        x[i] = a[ME + i];
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        float f = b[r];
#pragma unroll
        for (int i = 0; i < 48; i++)
            x[i] = x[i] * f + x[(i * 7 + 5) % 48];
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 48; i++)
        sum += x[i];
    c[ME] = sum;
}
#endif

#ifdef K_tensor_places
KERNEL(tensor_places)
{
    // A tensor's dimensions put in another order: places by division and remainder; MAGIC: by multiplication.
    unsigned d = n;
#if defined(MAGIC)
    unsigned magic = 0xffffffffu / d + 1;
#define QUOTIENT(x) __umulhi(x, magic)
#else
#define QUOTIENT(x) ((x) / d)
#endif
    unsigned sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        unsigned x = (ME + r * ALL) & 0x3fff;
        unsigned q = QUOTIENT(x), p = QUOTIENT(q);
        sum += (x - q * d) * d * d + (q - p * d) * d + p;
    }
    c[ME] = sum;
}
#endif

#ifdef K_star_stencil
#if defined(CONSTANT)
__constant__ float table[64];
#define FACTOR(i) table[i]
#else
#define FACTOR(i) b[i]
#endif
KERNEL(star_stencil)
{
    // Four neighbours on each side along the slow axis, with factors in memory.
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        int at = ME + (r & 3) * 1024;
        float sum = 0;
#pragma unroll
        for (int d = 0; d < 9; d++)
            sum += FACTOR(d) * a[at + d * 4096];
        c[at] = sum;
    }
}
#endif

#ifdef K_byte_sums
KERNEL(byte_sums)
{
    // Four neighbouring bytes a thread and round; WIDE: one load for all four.
    const unsigned char* bytes = (const unsigned char*)k;
    unsigned sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        int at = (ME + r * ALL) & 0xffff;
#if defined(WIDE)
        uchar4 x = ((const uchar4*)bytes)[at];
        sum += x.x * 3 + x.y * 6 + x.z * 2 + x.w;
#else
        sum += bytes[4 * at] * 3 + bytes[4 * at + 1] * 6 + bytes[4 * at + 2] * 2 + bytes[4 * at + 3];
#endif
    }
    c[ME] = sum;
}
#endif

#ifdef K_energy_totals
KERNEL(energy_totals)
{
    // Four totals for all threads; PRIVATE: four of a block's own, added at the end.
#if defined(PRIVATE)
    __shared__ float s[4];
    if (T < 4)
        s[T] = 0;
    __syncthreads();
#endif
    float x = a[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++) {
#if defined(PRIVATE)
        atomicAdd(&s[(T + r) & 3], x);
#else
        atomicAdd(&c[(T + r) & 3], x);
#endif
        x = x * 0.75f + 0.125f;
    }
#if defined(PRIVATE)
    __syncthreads();
    if (T < 4)
        atomicAdd(&c[T], s[T]);
#endif
}
#endif

#ifdef K_dense_rows
KERNEL(dense_rows)
{
    // A matrix of rows of 64 words times a vector: a thread a row, or (ROWS) a warp a row.
#pragma unroll 1
    for (int r = 0; r < m; r++) {
#if defined(ROWS)
        int lane = T & 31, first = (ME >> 5) * 32;
#pragma unroll 1
        for (int i = 0; i < 32; i++) {
            int row = ((first + i + r * 512) & 4095) * 64;
            float sum = a[row + lane] * b[lane] + a[row + lane + 32] * b[lane + 32];
#pragma unroll
            for (int d = 16; d; d >>= 1)
                sum += __shfl_xor_sync(~0u, sum, d);
            if (lane == i)
                c[ME] = sum;
        }
#else
        int row = ((ME + r * 512) & 4095) * 64;
        float sum = 0;
#pragma unroll 1
        for (int j = 0; j < 64; j++)
            sum += a[row + j] * b[j];
        c[ME] = sum;
#endif
    }
}
#endif

#ifdef K_turned_pairs
KERNEL(turned_pairs)
{
    // Tiles of pairs of words turned in shared memory; SWIZZLE: each row begins elsewhere.
    __shared__ float2 s[32][32];
    int lane = T & 31;
    float sum = 0;
#if defined(SWIZZLE)
#define AT(row, column) s[row][(column) ^ (row)]
#else
#define AT(row, column) s[row][column]
#endif
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        for (int row = T >> 5; row < 32; row += 8)
            AT(row, lane) = make_float2(a[T] + r, b[T] + row);
        __syncthreads();
        for (int row = T >> 5; row < 32; row += 8) {
            float2 x = AT(lane, row);
            sum += x.x * x.y;
        }
        __syncthreads();
    }
    c[ME] = sum;
}
#endif

#ifdef K_moments
#if defined(SINGLE)
#define REAL float
#else
#define REAL double
#endif
KERNEL(moments)
{
    REAL mean = 0, square = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        REAL x = a[(ME + r * 64) & 0xffff], d = x - mean;
        mean += d * (REAL)0.03125;
        square += d * (x - mean);
    }
    c[ME] = mean + square;
}
#endif

#ifdef K_ramps
KERNEL(ramps)
{
    // Numbers of rounds made floating point; COUNTED: a second counter is floating point.
    float sum = 0, step = a[ME] * 0.01f;
#if defined(COUNTED)
    float place = 0;
#endif
#pragma unroll 1
    for (int r = 0; r < m; r++) {
#if defined(COUNTED)
        sum += fminf(place * step, 1);
        sum += fminf((place + 0.5f) * step, 1);
        place += 1;
#else
        sum += fminf((float)r * step, 1);
        sum += fminf((float)(2 * r + 1) * 0.5f * step, 1);
#endif
    }
    c[ME] = sum;
}
#endif

#ifdef K_warp_tables
KERNEL(warp_tables)
{
    // Sixteen bins a block; COPIES 8: a table for each warp.
#if !defined(COPIES)
#define COPIES 1
#endif
    __shared__ int s[COPIES * 16];
    for (int i = T; i < COPIES * 16; i += blockDim.x)
        s[i] = 0;
    __syncthreads();
    int* mine = s + (T >> 5) % COPIES * 16;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        int x = k[ME + r * ALL];
        atomicAdd(&mine[(x & 48) ? 5 : x & 15], 1);
    }
    __syncthreads();
    if (T < 16) {
        int sum = 0;
        for (int j = 0; j < COPIES; j++)
            sum += s[j * 16 + T];
        atomicAdd(&h[T], sum);
    }
}
#endif

#ifdef K_tuned_dot
KERNEL(tuned_dot)
{
    const float4* a4 = (const float4*)a;
    const float4* b4 = (const float4*)b;
    float4 x[4], y[4];
    float sum = 0;
#pragma unroll
    for (int r = 0; r < 4; r++)
        x[r] = a4[ME + r * ALL];
#pragma unroll
    for (int r = 0; r < 4; r++)
        y[r] = b4[ME + r * ALL];
#pragma unroll
    for (int r = 0; r < 4; r++)
        sum += x[r].x * y[r].x + x[r].y * y[r].y + x[r].z * y[r].z + x[r].w * y[r].w;
    c[ME] = sum;
}
#endif

#ifdef K_tuned_matrix
KERNEL(tuned_matrix)
{
    // Products of 8 by 8 in registers, all of their inputs there.
    float x[8], y[8], sum[8][8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        x[i] = a[ME + i];
        y[i] = b[ME + i];
#pragma unroll
        for (int j = 0; j < 8; j++)
            sum[i][j] = 0;
    }
#pragma unroll 1
    for (int r = 0; r < m; r++)
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 8; j++)
                sum[i][j] += x[i] * y[j];
    float total = 0;
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 8; j++)
            total += sum[i][j];
    c[ME] = total;
}
#endif
