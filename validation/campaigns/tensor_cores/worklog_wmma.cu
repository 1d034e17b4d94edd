// c = a * b by `wmma`, in the steps of published worklogs. Macros say which step:
//
//   BM BN BK    what a block makes, and how deep a tile is
//   WM WN       what a warp makes
//   STAGES      tiles that are on their way or in use
//   COPY        0: through registers, 16 bytes each; 1: cp.async; 2: element by element; 3: as 0, in a loop whose step the compiler
//               does not know
//   PAD         elements behind each row
//   A_TURNED    1: the tile of a is kept as [k][m], and what is copied is checked against the matrix's edge
//   B_ROWS      0: b is [n][k]; 1: b is [k][n]
//   AHEAD       0: all fragments of a depth, then its products; 1: those of the next depth during the products of this one;
//               2: the same beyond the tile's end (BK is 32 then, and two tiles are on their way)
//   WAIT_LAST   1: a tile is waited for after the products of the one before, with one barrier
//   RELOAD      1: fragments of b again for each row of products
//   ZIGZAG      1: every other row of products from right to left
//   GROUP       rows of blocks that follow each other; 0: a block of b's columns after the other
//   ADD         1: what the result held is added
//   VIA_SHARED  1: the result goes through shared memory
//   HALF_SUMS   1: sums in halves, and a result of halves; 0: singles
//
// a is [m][k], c is [m][n]. Sizes are multiples of the tiles. The grid is one-dimensional.

#ifndef RELOAD
#define RELOAD 0
#endif
typedef unsigned int word;
typedef unsigned short element;
#define THREADS (BM / WM * (BN / WN) * 32)
#define ROWS_M (WM / 16)
#define COLUMNS_N (WN / 16)
#define DEPTHS (BK / 16)
#define A_WIDTH ((A_TURNED ? BM : BK) + PAD)
#define A_HEIGHT (A_TURNED ? BK : BM)
#define B_WIDTH ((B_ROWS ? BN : BK) + PAD)
#define B_HEIGHT (B_ROWS ? BK : BN)
#define A_SIZE (A_HEIGHT * A_WIDTH)
#define B_SIZE (B_HEIGHT * B_WIDTH)
#if HALF_SUMS
typedef element number;
#define SUMS 4
#else
typedef float number;
#define SUMS 8
#endif

template <int STRIDE> __device__ __forceinline__ void load_a(word *to, word at) {
#if A_TURNED
    asm volatile("wmma.load.a.sync.aligned.col.m16n16k16.shared.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8], %9;"
#else
    asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8], %9;"
#endif
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]), "=r"(to[4]), "=r"(to[5]), "=r"(to[6]), "=r"(to[7])
                 : "r"(at), "n"(STRIDE) : "memory");
}
template <int STRIDE> __device__ __forceinline__ void load_b(word *to, word at) {
#if B_ROWS
    asm volatile("wmma.load.b.sync.aligned.row.m16n16k16.shared.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8], %9;"
#else
    asm volatile("wmma.load.b.sync.aligned.col.m16n16k16.shared.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8], %9;"
#endif
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]), "=r"(to[4]), "=r"(to[5]), "=r"(to[6]), "=r"(to[7])
                 : "r"(at), "n"(STRIDE) : "memory");
}
#if A_TURNED
#define A_ORDER "col"
#else
#define A_ORDER "row"
#endif
#if B_ROWS
#define B_ORDER "row"
#else
#define B_ORDER "col"
#endif
__device__ __forceinline__ void multiply(word (&c)[SUMS], const word *a, const word *b) {
#if HALF_SUMS
    asm volatile("wmma.mma.sync.aligned." A_ORDER "." B_ORDER ".m16n16k16.f16.f16 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7,%8,%9,%10,%11}, {%12,%13,%14,%15,%16,%17,%18,%19}, {%0,%1,%2,%3};"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]), "r"(b[0]), "r"(b[1]),
                   "r"(b[2]), "r"(b[3]), "r"(b[4]), "r"(b[5]), "r"(b[6]), "r"(b[7]));
#else
    float(&f)[SUMS] = reinterpret_cast<float(&)[SUMS]>(c);
    asm volatile("wmma.mma.sync.aligned." A_ORDER "." B_ORDER ".m16n16k16.f32.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, "
                 "{%8,%9,%10,%11,%12,%13,%14,%15}, {%16,%17,%18,%19,%20,%21,%22,%23}, {%0,%1,%2,%3,%4,%5,%6,%7};"
                 : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3]), "+f"(f[4]), "+f"(f[5]), "+f"(f[6]), "+f"(f[7])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]), "r"(b[0]), "r"(b[1]),
                   "r"(b[2]), "r"(b[3]), "r"(b[4]), "r"(b[5]), "r"(b[6]), "r"(b[7]));
#endif
}
__device__ __forceinline__ void store(number *to, word (&c)[SUMS], int stride) {
#if VIA_SHARED
#define SPACE "shared"
    word at = (word)__cvta_generic_to_shared(to);
#define PLACE "r"
#else
#define SPACE "global"
    size_t at = __cvta_generic_to_global(to);
#define PLACE "l"
#endif
#if HALF_SUMS
    asm volatile("wmma.store.d.sync.aligned.row.m16n16k16." SPACE ".f16 [%0], {%1,%2,%3,%4}, %5;"
                 ::PLACE(at), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(stride) : "memory");
#else
    float(&f)[SUMS] = reinterpret_cast<float(&)[SUMS]>(c);
    asm volatile("wmma.store.d.sync.aligned.row.m16n16k16." SPACE ".f32 [%0], {%1,%2,%3,%4,%5,%6,%7,%8}, %9;"
                 ::PLACE(at), "f"(f[0]), "f"(f[1]), "f"(f[2]), "f"(f[3]), "f"(f[4]), "f"(f[5]), "f"(f[6]), "f"(f[7]), "r"(stride)
                 : "memory");
#endif
}
#if ADD
__device__ __forceinline__ void add(word (&c)[SUMS], const number *from, int stride) {
    word old[4];
    asm volatile("wmma.load.c.sync.aligned.row.m16n16k16.global.f16 {%0,%1,%2,%3}, [%4], %5;"
                 : "=r"(old[0]), "=r"(old[1]), "=r"(old[2]), "=r"(old[3]) : "l"(__cvta_generic_to_global(from)), "r"(stride) : "memory");
    for (int r = 0; r < 4; r++) asm("add.rn.f16x2 %0, %0, %1;" : "+r"(c[r]) : "r"(old[r]));
}
#endif

// Brings a tile of HEIGHT x WIDTH elements into rows of STRIDE.
template <int HEIGHT, int WIDTH, int STRIDE>
__device__ __forceinline__ void fetch(element *to, const element *__restrict__ from, int width) {
#if COPY == 2
#pragma unroll
    for (int i = threadIdx.x; i < HEIGHT * WIDTH; i += THREADS) to[i / WIDTH * STRIDE + i % WIDTH] = from[i / WIDTH * width + i % WIDTH];
#else
    constexpr int parts = WIDTH / 8, step = THREADS / parts;
    int row = threadIdx.x / parts, part = threadIdx.x % parts * 8;
#if COPY == 3
    for (int n = 0, by = blockDim.x / parts; n < HEIGHT; n += by)
        *(uint4 *)(to + (row + n) * STRIDE + part) = *(const uint4 *)(from + (row + n) * width + part);
    return;
#endif
#pragma unroll
    for (int n = 0; n < HEIGHT / step; n++) {
        const element *source = from + (row + n * step) * width + part;
        element *at = to + (row + n * step) * STRIDE + part;
#if COPY == 1
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((word)__cvta_generic_to_shared(at)), "l"(source) : "memory");
#else
        *(uint4 *)at = *(const uint4 *)source;
#endif
    }
#endif
}
#if A_TURNED
// The same with the edges of the matrix checked. `turned`: rows of the tile become columns.
template <int HEIGHT, int WIDTH, int STRIDE, bool turned>
__device__ __forceinline__ void fetch_checked(element *to, const element *__restrict__ from, long width, long rows, long row_0, long column_0) {
    constexpr int size = COPY == 2 ? 1 : 8;
#pragma unroll
    for (int i = 0; i < HEIGHT * WIDTH / size / THREADS; i++) {
        long place = threadIdx.x + i * THREADS, row = place / (WIDTH / size), column = place % (WIDTH / size) * size;
        __align__(16) element v[size] = {};
        if (row_0 + row < rows && column_0 + column < width) {
            if (size == 8) *(uint4 *)v = *(const uint4 *)(from + (row_0 + row) * width + column_0 + column);
            else v[0] = from[(row_0 + row) * width + column_0 + column];
        }
        if (turned) {
#pragma unroll
            for (int e = 0; e < size; e++) to[(column + e) * STRIDE + row] = v[e];
        } else if (size == 8) *(uint4 *)(to + row * STRIDE + column) = *(uint4 *)v;
        else to[row * STRIDE + column] = v[0];
    }
}
#endif
__device__ __forceinline__ void commit() {
#if COPY == 1
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int LEFT> __device__ __forceinline__ void wait() {
#if COPY == 1
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS)
    product(const element *__restrict__ a, const element *__restrict__ b, number *result, int n, int k) {
    extern __shared__ __align__(128) element memory[];
    const int warp = threadIdx.x / 32, row = warp / (BN / WN) * WM, column = warp % (BN / WN) * WN;
    int across = n / BN, block_row = blockIdx.x / across, block_column = blockIdx.x % across;
#if GROUP
    {
        int down = gridDim.x / across, of_group = GROUP * across, first = blockIdx.x / of_group * GROUP;
        int rows = min(down - first, GROUP);
        block_row = first + blockIdx.x % rows, block_column = blockIdx.x % of_group / rows;
    }
#endif
#if A_TURNED
    long m = (long)(gridDim.x / across) * BM;
#endif
    number *c_block = result + (size_t)block_row * BM * n + block_column * BN;
    word c[ROWS_M][COLUMNS_N][SUMS] = {};
    const int count = k / BK;
    auto ask = [&](int step, int stage) {
        element *to = memory + stage * (A_SIZE + B_SIZE);
#if A_TURNED
        fetch_checked<BM, BK, A_WIDTH, true>(to, a, k, m, (long)block_row * BM, (long)step * BK);
        fetch_checked<BK, BN, B_WIDTH, false>(to + A_SIZE, b, n, k, (long)step * BK, (long)block_column * BN);
#else
        fetch<BM, BK, A_WIDTH>(to, a + (size_t)block_row * BM * k + step * BK, k);
        if (B_ROWS) fetch<B_HEIGHT, B_ROWS ? BN : BK, B_WIDTH>(to + A_SIZE, b + (size_t)step * BK * n + block_column * BN, n);
        else fetch<B_HEIGHT, B_ROWS ? BN : BK, B_WIDTH>(to + A_SIZE, b + (size_t)block_column * BN * k + step * BK, k);
#endif
    };
    const word tiles = (word)__cvta_generic_to_shared(memory);
    auto load_left = [&](word (&left)[ROWS_M][8], int stage, int depth, int i) {
        word at = tiles + stage * (A_SIZE + B_SIZE) * 2;
        load_a<A_WIDTH>(left[i], at + 2 * (A_TURNED ? depth * 16 * A_WIDTH + row + 16 * i : (row + 16 * i) * A_WIDTH + depth * 16));
    };
    auto load_right = [&](word (&right)[COLUMNS_N][8], int stage, int depth, int j) {
        word at = tiles + stage * (A_SIZE + B_SIZE) * 2;
        load_b<B_WIDTH>(right[j], at + 2 * (A_SIZE + (B_ROWS ? depth * 16 * B_WIDTH + column + 16 * j
                                                            : (column + 16 * j) * B_WIDTH + depth * 16)));
    };
    auto load = [&](word (&left)[ROWS_M][8], word (&right)[COLUMNS_N][8], int stage, int depth) {
#pragma unroll
        for (int i = 0; i < ROWS_M; i++) load_left(left, stage, depth, i);
#pragma unroll
        for (int j = 0; j < COLUMNS_N; j++) load_right(right, stage, depth, j);
    };
    auto multiply_all = [&](word (&left)[ROWS_M][8], word (&right)[COLUMNS_N][8]) {
#pragma unroll
        for (int i = 0; i < ROWS_M; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS_N; j++) {
                const int turn = ZIGZAG && i % 2 ? COLUMNS_N - 1 - j : j;
                multiply(c[i][turn], left[i], right[turn]);
            }
    };
#if AHEAD == 2
    word left[2][ROWS_M][8], right[2][COLUMNS_N][8];
    ask(0, 0), commit();
    ask(1, 1), commit();
    wait<1>();
    __syncthreads();
    load(left[0], right[0], 0, 0);
    for (int step = 0; step < count; step++) {
        load(left[1], right[1], step % STAGES, 1);
        multiply_all(left[0], right[0]);
        if (STAGES == 2) __syncthreads();
        if (step + 2 < count) ask(step + 2, (step + 2) % STAGES);
        commit();
        if (step + 1 < count) {
            wait<1>();
            __syncthreads();
            load(left[0], right[0], (step + 1) % STAGES, 0);
        }
        multiply_all(left[1], right[1]);
    }
#else
    auto tile = [&](int stage) {
#if AHEAD == 1
        word left[2][ROWS_M][8], right[2][COLUMNS_N][8];
        load(left[0], right[0], stage, 0);
#pragma unroll
        for (int depth = 0; depth < DEPTHS; depth++) {
            if (depth + 1 < DEPTHS) load(left[(depth + 1) % 2], right[(depth + 1) % 2], stage, depth + 1);
            multiply_all(left[depth % 2], right[depth % 2]);
        }
#else
#pragma unroll
        for (int depth = 0; depth < DEPTHS; depth++) {
            word left[ROWS_M][8], right[COLUMNS_N][8];
#if RELOAD
#pragma unroll
            for (int i = 0; i < ROWS_M; i++) {
                load_left(left, stage, depth, i);
#pragma unroll
                for (int j = 0; j < COLUMNS_N; j++) {
                    load_right(right, stage, depth, j);
                    multiply(c[i][j], left[i], right[j]);
                }
            }
#else
            load(left, right, stage, depth);
            multiply_all(left, right);
#endif
        }
#endif
    };
#if WAIT_LAST
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) ask(s, s), commit();
    wait<STAGES - 2>();
    __syncthreads();
    for (int step = 0; step < count; step++) {
        int next = step + STAGES - 1;
        if (next < count) ask(next, next % STAGES);
        tile(step % STAGES);
        commit();
        wait<STAGES - 2>();
        __syncthreads();
    }
#else
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) ask(s, s), commit();
    for (int step = 0; step < count; step++) {
        int next = step + STAGES - 1;
        if (next < count) ask(next, next % STAGES);
        commit();
        wait<STAGES - 1>();
        __syncthreads();
        tile(step % STAGES);
        __syncthreads();
    }
#endif
#endif
#if VIA_SHARED
    constexpr int width = BN + 8;
    if (AHEAD == 2) __syncthreads();
#pragma unroll
    for (int i = 0; i < ROWS_M; i++)
#pragma unroll
        for (int j = 0; j < COLUMNS_N; j++) store((number *)memory + (row + 16 * i) * width + column + 16 * j, c[i][j], width);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < BM * BN / 8 / THREADS; i++) {
        int place = threadIdx.x + i * THREADS, down = place / (BN / 8), over = place % (BN / 8) * 8;
        *(uint4 *)(c_block + (size_t)down * n + over) = *(uint4 *)((number *)memory + down * width + over);
    }
#else
#pragma unroll
    for (int i = 0; i < ROWS_M; i++)
#pragma unroll
        for (int j = 0; j < COLUMNS_N; j++) {
            number *to = c_block + (size_t)(row + 16 * i) * n + column + 16 * j;
#if ADD
            add(c[i][j], to, n);
#endif
            store(to, c[i][j], n);
        }
#endif
}
