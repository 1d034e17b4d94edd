// Kernels that the estimators were not shaped on, the eighth round: rows of unequal length shared by a warp, several
// results a thread, trip counts that no factor divides, tiles fetched ahead, exchanges by shuffles, compaction,
// warps of lanes sorted by their work, powers and tangents.

#ifdef K_sparse_rows
KERNEL(sparse_rows)
{
    // A sparse matrix times a vector, rows of 8 to 8 + m numbers; WARPS: 8 lanes a row, neighbours side by side.
    float sum = 0;
#if defined(WARPS)
    for (int row = ME >> 3; row < ALL; row += ALL >> 3) {
        int begin = row * 24, end = begin + 8 + (k[row] & 15) * m / 16;
        float part = 0;
#pragma unroll 1
        for (int j = begin + (T & 7); j < end; j += 8)
            part += a[j & 0x3ffff] * b[k[j & 0x3ffff] & 0xfff];
        for (int d = 4; d > 0; d >>= 1)
            part += __shfl_xor_sync(~0u, part, d);
        if ((T & 7) == 0)
            c[row] = part;
    }
#else
    int begin = ME * 24, end = begin + 8 + (k[ME] & 15) * m / 16;
#pragma unroll UNROLL
    for (int j = begin; j < end; j++)
        sum += a[j & 0x3ffff] * b[k[j & 0x3ffff] & 0xfff];
    c[ME] = sum;
#endif
}
#endif

#ifdef K_outer_products
KERNEL(outer_products)
{
    // A tile of a matrix product in shared memory; UNROLL of the inner loop, or a pad against the columns' conflicts.
    __shared__ float s[32 * (32 + PAD)], t[32 * 32];
    for (int i = T; i < 1024; i += blockDim.x) {
        s[(i >> 5) * (32 + PAD) + (i & 31)] = a[i + blockIdx.x * 1024];
        t[i] = b[i + blockIdx.x * 1024];
    }
    __syncthreads();
    int lane = T & 31, w = T >> 5;
    float sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++)
#pragma unroll UNROLL
        for (int q = 0; q < 32; q++)
            sum += s[lane * (32 + PAD) + q] * t[q * 32 + ((w + r) & 31)];
    c[ME] = sum;
}
#endif

#ifdef K_odd_lengths
KERNEL(odd_lengths)
{
    // Rows of m numbers, m no multiple of anything; what is left over runs along.
    float sum = 0;
#pragma unroll UNROLL
    for (int r = 0; r < m; r++)
        sum += a[(ME + r * ALL) & 0x3ffff] * b[r];
    c[ME] = sum;
}
#endif

#ifdef K_horner_sets
KERNEL(horner_sets)
{
    // 8 polynomials of degree m at a point, coefficients the same for all threads; CHAINS of them together.
    float x = a[ME] * 0.5f, sum = 0;
#pragma unroll 1
    for (int p = 0; p < 8; p += CHAINS) {
        float y[CHAINS];
#pragma unroll
        for (int t = 0; t < CHAINS; t++)
            y[t] = b[p + t];
#pragma unroll 1
        for (int r = 0; r < m; r++)
#pragma unroll
            for (int t = 0; t < CHAINS; t++)
                y[t] = y[t] * x + 0.25f;
#pragma unroll
        for (int t = 0; t < CHAINS; t++)
            sum += y[t];
    }
    c[ME] = sum;
}
#endif

#ifdef K_next_tile
KERNEL(next_tile)
{
    // Tiles through shared memory; AHEAD: the next tile's words are asked for before this one is computed on.
    __shared__ float s[256];
    float sum = 0;
#if defined(AHEAD)
    float next = a[ME];
#endif
#pragma unroll 1
    for (int r = 0; r < m; r++) {
#if defined(AHEAD)
        s[T] = next;
        __syncthreads();
        next = a[(ME + (r + 1) * ALL) & 0x3ffff];
#else
        s[T] = a[(ME + r * ALL) & 0x3ffff];
        __syncthreads();
#endif
#pragma unroll
        for (int q = 0; q < 8; q++)
            sum = sum * 0.5f + s[(T + q * 32) & 255];
        __syncthreads();
    }
    c[ME] = sum;
}
#endif

#ifdef K_neighbour_sums
KERNEL(neighbour_sums)
{
    // Prefix sums in a warp's numbers by shared memory and barriers of the block; SHUFFLED: by shuffles.
    __shared__ float s[256];
    float x = a[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++) {
#if defined(SHUFFLED)
#pragma unroll
        for (int d = 1; d < 32; d <<= 1) {
            float y = __shfl_up_sync(~0u, x, d);
            if ((T & 31) >= d)
                x = x * 0.5f + y;
        }
#else
#pragma unroll 1
        for (int d = 1; d < 32; d <<= 1) {
            s[T] = x;
            __syncthreads();
            float y = (T & 31) >= d ? s[T - d] : 0.0f;
            __syncthreads();
            x = (T & 31) >= d ? x * 0.5f + y : x;
        }
#endif
    }
    c[ME] = x;
}
#endif

#ifdef K_kept_places
KERNEL(kept_places)
{
    // Places of numbers above a threshold, one counter for all; AGGREGATED by warps.
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        bool keep = a[(ME + r * ALL) & 0x3ffff] > 0.5f;
#if defined(AGGREGATED)
        unsigned votes = __ballot_sync(~0u, keep);
        int place = 0;
        if ((T & 31) == 0)
            place = atomicAdd(&h[0], __popc(votes));
        place = __shfl_sync(~0u, place, 0) + __popc(votes & ((1u << (T & 31)) - 1));
        if (keep)
            c[place & 0x3ffff] = r;
#else
        if (keep)
            c[atomicAdd(&h[0], 1) & 0x3ffff] = r;
#endif
    }
}
#endif

#ifdef K_path_lengths
KERNEL(path_lengths)
{
    // Walks of a length that data decide; SORTED: walks of like length lie side by side.
#if defined(SORTED)
    int length = (T >> 3) & 31;
#else
    int length = (T * 5) & 31;
#endif
    float x = a[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++)
#pragma unroll 1
        for (int j = 0; j < length; j++)
            x = x * 0.75f + 0.125f * (x > 1.0f ? x : 1.0f);
    c[ME] = x;
}
#endif

#ifdef K_power_laws
#if defined(FAST)
#define POW __powf
#else
#define POW powf
#endif
KERNEL(power_laws)
{
    float sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        float x = a[(ME + r * ALL) & 0x3ffff] + 0.5f;
        sum += POW(x, 1.7f);
    }
    c[ME] = sum;
}
#endif

#ifdef K_decays
#if defined(FAST)
#define EXP __expf
#else
#define EXP expf
#endif
KERNEL(decays)
{
    // Sums of decaying exponentials, several of them a round.
    float sum = 0, x = a[ME];
#pragma unroll UNROLL
    for (int r = 0; r < m; r++)
        sum += EXP(-x * r) - EXP(-x - r) * 0.3f;
    c[ME] = sum;
}
#endif

#ifdef K_cell_indices
KERNEL(cell_indices)
{
    // Cells of points on a grid: exact division by the width of a cell; RECIPROCAL: multiplied with its inverse.
    float width = b[0] + 0.25f, sum = 0;
#if defined(RECIPROCAL)
    float inverse = 1.0f / width;
#endif
#pragma unroll UNROLL
    for (int r = 0; r < m; r++) {
        float x = a[(ME + r * ALL) & 0x3ffff];
#if defined(RECIPROCAL)
        sum += k[(int)(x * inverse * 16.0f) & 0xff];
#else
        sum += k[(int)(x / width * 16.0f) & 0xff];
#endif
    }
    c[ME] = sum;
}
#endif

#ifdef K_picked_values
KERNEL(picked_values)
{
    // A stack of 6 values that an index picks from; SELECTED: compared with every place.
    float v[6];
    for (int q = 0; q < 6; q++)
        v[q] = a[ME + q];
    float sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        int at = k[(ME + r * 64) & 0xffff] % 6;
#if defined(SELECTED)
        float x = v[0];
#pragma unroll
        for (int q = 1; q < 6; q++)
            x = at == q ? v[q] : x;
        sum += x;
#pragma unroll
        for (int q = 0; q < 6; q++)
            v[q] = at == q ? sum : v[q];
#else
        sum += v[at];
        v[at] = sum;
#endif
    }
    c[ME] = sum;
}
#endif

#ifdef K_level_counts
KERNEL(level_counts)
{
    // Counts of 4 levels in a block's table, as skewed as squares are; COPIES of the table.
    __shared__ int s[4 * COPIES];
    for (int i = T; i < 4 * COPIES; i += blockDim.x)
        s[i] = 0;
    __syncthreads();
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        float x = a[(ME + r * ALL) & 0x3ffff];
        atomicAdd(&s[(int)(x * x * 3.9f) * COPIES + (T & (COPIES - 1))], 1);
    }
    __syncthreads();
    for (int i = T; i < 4; i += blockDim.x) {
        int all = 0;
        for (int q = 0; q < COPIES; q++)
            all += s[i * COPIES + q];
        atomicAdd(&h[i], all);
    }
}
#endif

#ifdef K_tuned_triad
KERNEL(tuned_triad)
{
#pragma unroll
    for (int r = 0; r < 4; r++) {
        int i = ME + r * ALL;
        float4 x = reinterpret_cast<const float4*>(a)[i], y = reinterpret_cast<const float4*>(b)[i];
        reinterpret_cast<float4*>(c)[i] = make_float4(x.x + 3 * y.x, x.y + 3 * y.y, x.z + 3 * y.z, x.w + 3 * y.w);
    }
}
#endif
