// c = a * b + c by `mma` of 16 x 8 x 8 halves, in the steps of a published worklog on a Turing card. Macros say which step:
//
//   BM BN BK    what a block makes, and how deep a tile is
//   WM WN       what a warp makes
//   STAGES      tiles in use: 1, or 2 with one barrier a tile
//   COPY        0: through registers, 16 bytes each; 2: element by element, in a loop; 3: 16 bytes each, asked for before the
//               products of the tile before and stored after them
//   SWIZZLE     1: places of 16 bytes are exchanged within a row
//   PLACES      0: where a fragment lies is known to the compiler; 1: it is worked out for each load; 2: from the place before
//
// Fragments are loaded 32 deep. With PLACES 2 by `ldmatrix.x4`, else two matrices of a and one of b at a time.
// a is [m][k], b [k][n], c [m][n], of halves. Sizes are multiples of the tiles. The grid is one-dimensional, along b's columns first.

typedef unsigned int word;
typedef unsigned short element;
#define THREADS (BM / WM * (BN / WN) * 32)
#define ROWS_M (WM / 16)
#define COLUMNS_N (WN / 8)
#define A_SIZE (BM * BK)
#define B_SIZE (BK * BN)

template <int WIDTH> __device__ __forceinline__ int chunk(int row, int part) {
    if (!SWIZZLE) return part;
    return part ^ (WIDTH >= 64 ? row % 8 : (row & 3) ^ (row >> 2 & 1));
}
template <int HEIGHT, int WIDTH> struct Tile {
    static constexpr int parts = WIDTH / 8, step = THREADS / parts, each = HEIGHT / step;
    uint4 kept[each];
    __device__ __forceinline__ void ask(const element *from, int width) {
#pragma unroll
        for (int n = 0; n < each; n++)
            kept[n] = *(const uint4 *)(from + (threadIdx.x / parts + n * step) * width + threadIdx.x % parts * 8);
    }
    __device__ __forceinline__ void put(element *to) const {
#pragma unroll
        for (int n = 0; n < each; n++) {
            int row = threadIdx.x / parts + n * step;
            *(uint4 *)(to + row * WIDTH + chunk<WIDTH>(row, threadIdx.x % parts) * 8) = kept[n];
        }
    }
};
// The loop is not unrolled by its trip count, since the compiler does not know the block's size.
__device__ __forceinline__ void copy_elements(element *to, const element *from, int width, int height, int columns) {
    int step = blockDim.x / columns, column = threadIdx.x % columns;
    for (int row = threadIdx.x / columns; row < height; row += step) to[row * columns + column] = from[row * width + column];
}

#if PLACES == 2
__device__ __forceinline__ void load_fragments(word (&a)[4][ROWS_M][2], word (&b)[4][COLUMNS_N], word a_at, word b_at) {
    int lane = threadIdx.x % 32;
    word at = a_at + (lane * BK + chunk<BK>(lane, 0) * 8) * 2;
#pragma unroll
    for (int k = 0; k < 4; k++) {
#pragma unroll
        for (int i = 0; i < ROWS_M; i += 2)
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                         : "=r"(a[k][i][0]), "=r"(a[k][i][1]), "=r"(a[k][i + 1][0]), "=r"(a[k][i + 1][1])
                         : "r"(at + i * 16 * BK * 2));
        at ^= k == 1 ? 48 : 16;
    }
    at = b_at + (lane % 8 * BN + chunk<BN>(lane % 8, lane / 8) * 8) * 2;
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
        for (int j = 0; j < COLUMNS_N; j += 4)
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                         : "=r"(b[k][j]), "=r"(b[k][j + 1]), "=r"(b[k][j + 2]), "=r"(b[k][j + 3])
                         : "r"((at + k * 8 * BN * 2) ^ j * 16));
}
#else
template <int WIDTH> __device__ __forceinline__ word exchanged(word at) {
    constexpr int bits = WIDTH == 64 ? 3 : WIDTH == 128 ? 4 : 5;
    return PLACES ? at ^ (at & 0x70 << bits) >> bits : at;
}
__device__ __forceinline__ void load_fragments(word (&a)[4][ROWS_M][2], word (&b)[4][COLUMNS_N], word a_at, word b_at) {
#pragma unroll
    for (int i = 0; i < ROWS_M; i++)
#pragma unroll
        for (int k = 0; k < 4; k++)
            asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                         : "=r"(a[k][i][0]), "=r"(a[k][i][1])
                         : "r"(exchanged<BK>(a_at + (i * 16 * BK + k * 8 + threadIdx.x % 16 * BK) * 2)));
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
        for (int j = 0; j < COLUMNS_N; j++)
            asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                         : "=r"(b[k][j]) : "r"(exchanged<BN>(b_at + (k * 8 * BN + j * 8 + threadIdx.x % 8 * BN) * 2)));
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
    product(const element *a, const element *b, element *result, int n, int k) {
    extern __shared__ __align__(1024) element memory[];
    const int warp = threadIdx.x / 32, row = warp / (BN / WN) * WM, column = warp % (BN / WN) * WN;
    const int block_row = blockIdx.x / (n / BN), block_column = blockIdx.x % (n / BN);
    a += (size_t)block_row * BM * k, b += block_column * BN;
    word c[ROWS_M][COLUMNS_N][2] = {};
    const int count = k / BK;
    auto copy = [&](int step, element *to) {
#if COPY == 2
        copy_elements(to, a + step * BK, k, BM, BK);
        copy_elements(to + A_SIZE, b + (size_t)step * BK * n, n, BK, BN);
#else
        Tile<BM, BK> of_a;
        Tile<BK, BN> of_b;
        of_a.ask(a + step * BK, k), of_a.put(to);
        of_b.ask(b + (size_t)step * BK * n, n), of_b.put(to + A_SIZE);
#endif
    };
    auto tile = [&](element *at) {
#pragma unroll
        for (int part = 0; part < BK / 32; part++) {
            word left[4][ROWS_M][2], right[4][COLUMNS_N];
            load_fragments(left, right, (word)__cvta_generic_to_shared(at + row * BK + part * 32),
                           (word)__cvta_generic_to_shared(at + A_SIZE + part * 32 * BN + column));
#pragma unroll
            for (int d = 0; d < 4; d++)
#pragma unroll
                for (int j = 0; j < COLUMNS_N; j++)
#pragma unroll
                    for (int i = 0; i < ROWS_M; i++)
                        asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3}, {%4}, {%0,%1};"
                                     : "+r"(c[i][j][0]), "+r"(c[i][j][1])
                                     : "r"(left[d][i][0]), "r"(left[d][i][1]), "r"(right[d][j]));
        }
    };
#if COPY == 3
    Tile<BM, BK> of_a;
    Tile<BK, BN> of_b;
    copy(0, memory);
    if (STAGES == 1) __syncthreads();
    for (int step = 1; step <= count; step++) {
        if (STAGES == 2) __syncthreads();
        if (step < count) of_a.ask(a + step * BK, k), of_b.ask(b + (size_t)step * BK * n, n);
        if (STAGES == 1) __syncthreads();
        tile(memory + (step + 1) % STAGES * (A_SIZE + B_SIZE));
        if (STAGES == 1) __syncthreads();
        if (step < count) {
            element *to = memory + step % STAGES * (A_SIZE + B_SIZE);
            of_a.put(to), of_b.put(to + A_SIZE);
        }
    }
#else
    for (int step = 0; step < count; step++) {
        copy(step, memory);
        __syncthreads();
        tile(memory);
        __syncthreads();
    }
#endif
    int lane = threadIdx.x % 32;
    result += (size_t)(block_row * BM + row + lane / 4) * n + block_column * BN + column + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < ROWS_M; i++)
#pragma unroll
        for (int j = 0; j < COLUMNS_N; j++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                word old = *(word *)(result + (size_t)(16 * i + 8 * h) * n + 8 * j);
                asm("add.rn.f16x2 %0, %0, %1;" : "+r"(c[i][j][h]) : "r"(old));
            }
#pragma unroll
    for (int i = 0; i < ROWS_M; i++)
#pragma unroll
        for (int j = 0; j < COLUMNS_N; j++)
#pragma unroll
            for (int h = 0; h < 2; h++) *(word *)(result + (size_t)(16 * i + 8 * h) * n + 8 * j) = c[i][j][h];
}
