// c = a * b on tensor cores, in the steps of published worklogs. Macros say which step:
//
//   BM BN BK    what a block makes, and how deep a tile is
//   WM WN       what a warp makes
//   STAGES      tiles that are on their way or in use
//   COPY        0: through registers, 16 bytes each; 1: cp.async; 2: element by element
//   PAD         elements behind each row
//   SWIZZLE     1: places of 16 bytes are exchanged within a row
//   LOADS       0: fragments element by element; 1: ldmatrix
//   B_PARTS     matrices of b that one ldmatrix loads: 2 or 4
//   ORDER       0: all fragments of b and one of a at a time; 1: all fragments of a depth; 2: all of a tile before
//               its products; 3: the fragments of the next depth during the products of this one
//   RELOAD      1: fragments of a and b again for each product; 2: those of b
//   LATE        1: the next copies are asked for after the fragments are loaded
//   B_ROWS      0: b is [n][k]; 1: b is [k][n]
//   WIDE        1: c is of singles; 0: of elements
//   BFLOAT      1: elements are BF16; 0: halves
//   HALF_SUMS   1: sums in halves
//
// a is [m][k], c is [m][n]. Sizes are multiples of the tiles. The grid is one-dimensional: a block of b's columns after the other.

typedef unsigned int word;
typedef unsigned short element;
#define THREADS (BM / WM * (BN / WN) * 32)
#define ROWS_M (WM / 16)
#define COLUMNS_N (WN / 8)
#define DEPTHS (BK / 16)
#define A_WIDTH (BK + PAD)
#define B_WIDTH ((B_ROWS ? BN : BK) + PAD)
#define B_HEIGHT (B_ROWS ? BK : BN)
#define A_BYTES (BM * A_WIDTH * 2)
#define B_BYTES (B_HEIGHT * B_WIDTH * 2)
#if HALF_SUMS
typedef word sum;
#define SUMS 2
#else
typedef float sum;
#define SUMS 4
#endif

__device__ __forceinline__ void multiply(sum (&c)[SUMS], const word *a, const word *b) {
#if HALF_SUMS && __CUDA_ARCH__ < 800
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3}, {%4}, {%0,%1};"
                 : "+r"(c[0]), "+r"(c[1]) : "r"(a[0]), "r"(a[1]), "r"(b[0]));
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3}, {%4}, {%0,%1};"
                 : "+r"(c[0]), "+r"(c[1]) : "r"(a[2]), "r"(a[3]), "r"(b[1]));
#elif HALF_SUMS
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
                 : "+r"(c[0]), "+r"(c[1]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#elif BFLOAT
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// Where 16 bytes of a row lie, in bytes from the tile's beginning.
template <int WIDTH> __device__ __forceinline__ word place(int row, int part) {
    if (SWIZZLE) part ^= WIDTH >= 64 ? row % 8 : row / 2 % 4;
    return row * WIDTH * 2 + 16 * part;
}

// Brings a tile of HEIGHT x WIDTH elements. A thread has one place of 16 bytes in every STEP-th row: `from` and `to` are those of its
// first.
template <int HEIGHT, int WIDTH, int STRIDE>
__device__ __forceinline__ void fetch(word to, const element *from, int width) {
#if COPY == 2
    constexpr int step = THREADS / WIDTH;
#pragma unroll
    for (int n = 0; n < HEIGHT / step; n++) {
        element v = from[n * step * width];
        asm volatile("st.shared.u16 [%0], %1;" ::"r"(to + n * step * STRIDE * 2), "h"(v) : "memory");
    }
#else
    constexpr int step = THREADS / (WIDTH / 8);
#pragma unroll
    for (int n = 0; n < HEIGHT / step; n++) {
        const element *source = from + n * step * width;
        word at = to + n * step * STRIDE * 2;
#if COPY == 1
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(source) : "memory");
#else
        uint4 v = *(const uint4 *)source;
        asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
#endif
    }
#endif
}
template <int WIDTH, int STRIDE> __device__ __forceinline__ word first_place() {
    constexpr int parts = COPY == 2 ? WIDTH : WIDTH / 8;
    static_assert(COPY == 2 || !SWIZZLE || THREADS / parts % 8 == 0, "a thread's places are exchanged alike");
    int row = threadIdx.x / parts, part = threadIdx.x % parts;
    return COPY == 2 ? row * STRIDE * 2 + part * 2 : place<STRIDE>(row, part);
}
template <int WIDTH> __device__ __forceinline__ int first_element(int width) {
    constexpr int parts = COPY == 2 ? WIDTH : WIDTH / 8;
    return threadIdx.x / parts * width + threadIdx.x % parts * (WIDTH / parts);
}

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

__device__ __forceinline__ void load_4(word *to, word at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
}
__device__ __forceinline__ void load_2(word *to, word at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(at) : "memory");
}
__device__ __forceinline__ void load_turned(word *to, word at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1]) : "r"(at) : "memory");
}
__device__ __forceinline__ word load_element(word at) {
    unsigned short v;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(at) : "memory");
    return v;
}

// Fragment i of a, or j of b, at a depth.
__device__ __forceinline__ void load_a(word *to, word tile, int row, int depth, int lane) {
#if LOADS
    load_4(to, tile + place<A_WIDTH>(row + lane % 16, 2 * depth + lane / 16));
#else
#pragma unroll
    for (int r = 0; r < 4; r++) {
        word at = tile + (row + lane / 4 + r % 2 * 8) * A_WIDTH * 2 + (depth * 16 + lane % 4 * 2 + r / 2 * 8) * 2;
        to[r] = load_element(at) | load_element(at + 2) << 16;
    }
#endif
}
__device__ __forceinline__ void load_b(word *to, word tile, int column, int depth, int lane) {
#if !LOADS && B_ROWS
#pragma unroll
    for (int r = 0; r < 2; r++) {
        word at = tile + (depth * 16 + lane % 4 * 2 + r * 8) * B_WIDTH * 2 + (column + lane / 4) * 2;
        to[r] = load_element(at) | load_element(at + B_WIDTH * 2) << 16;
    }
#elif !LOADS
#pragma unroll
    for (int r = 0; r < 2; r++) {
        word at = tile + (column + lane / 4) * B_WIDTH * 2 + (depth * 16 + lane % 4 * 2 + r * 8) * 2;
        to[r] = load_element(at) | load_element(at + 2) << 16;
    }
#elif B_ROWS
    load_turned(to, tile + place<B_WIDTH>(depth * 16 + lane % 16, column / 8));
#elif B_PARTS == 4
    load_4(to, tile + place<B_WIDTH>(column + lane % 8 + lane / 16 * 8, 2 * depth + lane / 8 % 2));
#else
    load_2(to, tile + place<B_WIDTH>(column + lane % 8, 2 * depth + lane / 8 % 2));
#endif
}
#define B_STEP (B_PARTS / 2)

__device__ __forceinline__ void load_depth(word (&a)[ROWS_M][4], word (&b)[COLUMNS_N][2], word tile, int depth, int row,
                                           int column, int lane) {
#pragma unroll
    for (int i = 0; i < ROWS_M; i++) load_a(a[i], tile, row + 16 * i, depth, lane);
#pragma unroll
    for (int j = 0; j < COLUMNS_N; j += B_STEP) load_b(b[j], tile + A_BYTES, column + 8 * j, depth, lane);
}

__device__ __forceinline__ void multiply_depth(sum (&c)[ROWS_M][COLUMNS_N][SUMS], word (&a)[ROWS_M][4],
                                               word (&b)[COLUMNS_N][2]) {
#pragma unroll
    for (int i = 0; i < ROWS_M; i++)
#pragma unroll
        for (int j = 0; j < COLUMNS_N; j++) multiply(c[i][j], a[i], b[j]);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    product(const element *a, const element *b, void *result, int n, int k) {
    extern __shared__ __align__(128) char memory[];
    word tiles = (word)__cvta_generic_to_shared(memory);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = warp / (BN / WN) * WM, column = warp % (BN / WN) * WN;
    int block_row = blockIdx.x / (n / BN), block_column = blockIdx.x % (n / BN);
    a += (size_t)block_row * BM * k;
    b += B_ROWS ? (size_t)block_column * BN : (size_t)block_column * BN * k;
    sum c[ROWS_M][COLUMNS_N][SUMS];
#pragma unroll
    for (int i = 0; i < ROWS_M; i++)
#pragma unroll
        for (int j = 0; j < COLUMNS_N; j++)
#pragma unroll
            for (int r = 0; r < SUMS; r++) c[i][j][r] = 0;
    int count = k / BK;
    constexpr int b_columns = B_ROWS ? BN : BK;
    const word a_place = tiles + first_place<BK, A_WIDTH>(), b_place = tiles + A_BYTES + first_place<b_columns, B_WIDTH>();
    a += first_element<BK>(k), b += first_element<b_columns>(B_ROWS ? n : k);
    auto ask = [&](int step) {
        if (step < count) {
            int to = step % STAGES * (A_BYTES + B_BYTES);
            fetch<BM, BK, A_WIDTH>(a_place + to, a, k);
            fetch<B_HEIGHT, b_columns, B_WIDTH>(b_place + to, b, B_ROWS ? n : k);
            a += BK, b += B_ROWS ? BK * n : BK;
        }
        commit();
    };
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) ask(s);
    for (int step = 0; step < count; step++) {
        word tile = tiles + step % STAGES * (A_BYTES + B_BYTES);
#if LATE
        wait<(STAGES > 1 ? STAGES - 2 : 0)>();
        __syncthreads();
#else
        if (step || STAGES == 1) __syncthreads();
        ask(step + STAGES - 1);
        wait<STAGES - 1>();
        __syncthreads();
#endif
#if RELOAD
#pragma unroll
        for (int i = 0; i < ROWS_M; i++) {
            word left[DEPTHS][4], right[2];
#if RELOAD == 2
#pragma unroll
            for (int depth = 0; depth < DEPTHS; depth++) load_a(left[depth], tile, row + 16 * i, depth, lane);
#endif
#pragma unroll
            for (int j = 0; j < COLUMNS_N; j++)
#pragma unroll
                for (int depth = 0; depth < DEPTHS; depth++) {
#if RELOAD == 1
                    load_a(left[depth], tile, row + 16 * i, depth, lane);
#endif
                    load_b(right, tile + A_BYTES, column + 8 * j, depth, lane);
                    multiply(c[i][j], left[depth], right);
                }
        }
#elif ORDER == 0
#pragma unroll
        for (int depth = 0; depth < DEPTHS; depth++) {
            word right[COLUMNS_N][2];
#pragma unroll
            for (int j = 0; j < COLUMNS_N; j += B_STEP) load_b(right[j], tile + A_BYTES, column + 8 * j, depth, lane);
#pragma unroll
            for (int i = 0; i < ROWS_M; i++) {
                word left[4];
                load_a(left, tile, row + 16 * i, depth, lane);
#pragma unroll
                for (int j = 0; j < COLUMNS_N; j++) multiply(c[i][j], left, right[j]);
            }
        }
#elif ORDER == 1
#pragma unroll
        for (int depth = 0; depth < DEPTHS; depth++) {
            word left[ROWS_M][4], right[COLUMNS_N][2];
            load_depth(left, right, tile, depth, row, column, lane);
            multiply_depth(c, left, right);
        }
#elif ORDER == 2
        word left[DEPTHS][ROWS_M][4], right[DEPTHS][COLUMNS_N][2];
#pragma unroll
        for (int depth = 0; depth < DEPTHS; depth++) load_depth(left[depth], right[depth], tile, depth, row, column, lane);
#if LATE
        ask(step + STAGES - 1);
#endif
#pragma unroll
        for (int depth = 0; depth < DEPTHS; depth++) multiply_depth(c, left[depth], right[depth]);
#else
        word left[2][ROWS_M][4], right[2][COLUMNS_N][2];
        load_depth(left[0], right[0], tile, 0, row, column, lane);
#pragma unroll
        for (int depth = 0; depth < DEPTHS; depth++) {
            if (depth + 1 < DEPTHS)
                load_depth(left[(depth + 1) % 2], right[(depth + 1) % 2], tile, depth + 1, row, column, lane);
            multiply_depth(c, left[depth % 2], right[depth % 2]);
        }
#endif
    }
#pragma unroll
    for (int i = 0; i < ROWS_M; i++)
#pragma unroll
        for (int j = 0; j < COLUMNS_N; j++) {
            size_t at = (size_t)(block_row * BM + row + 16 * i + lane / 4) * n + block_column * BN + column + 8 * j + lane % 4 * 2;
#if HALF_SUMS
            *(word *)((element *)result + at) = c[i][j][0];
            *(word *)((element *)result + at + 8 * (size_t)n) = c[i][j][1];
#elif WIDE
            *(float2 *)((float *)result + at) = make_float2(c[i][j][0], c[i][j][1]);
            *(float2 *)((float *)result + at + 8 * (size_t)n) = make_float2(c[i][j][2], c[i][j][3]);
#else
            word pairs[2];
#pragma unroll
            for (int h = 0; h < 2; h++) {
#if BFLOAT
                asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pairs[h]) : "f"(c[i][j][2 * h + 1]), "f"(c[i][j][2 * h]));
#else
                asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pairs[h]) : "f"(c[i][j][2 * h + 1]), "f"(c[i][j][2 * h]));
#endif
            }
            *(word *)((element *)result + at) = pairs[0];
            *(word *)((element *)result + at + 8 * (size_t)n) = pairs[1];
#endif
        }
}
