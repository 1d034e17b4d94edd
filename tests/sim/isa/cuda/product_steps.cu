// c = a * transposed(b), of halves with sums in singles, on tensor cores: one kernel, in the steps by which
// such kernels are usually made fast. STEP says which.
//
//   1  registers only: each warp loads its fragments from global memory
//   2  shared memory: the block's tiles go there through registers; fragments are read word by word
//   3  ldmatrix reads the fragments
//   4  cp.async fills the second of two stages while the first is used
//   5  places of 16 bytes are exchanged within a row (swizzled), so that no banks conflict
//
// Two more macros make it slow, for whoever gives advice: STAGES=1 waits for each copy as soon as it is asked
// for, and BLOCKS=4 leaves too few registers for the sums.
//
// a is [n][k], b is [n][k], c is [n][n]; n is a multiple of 128, k of 32. A block has four warps and makes
// 128 x 128 sums, a warp 64 x 64.

#ifndef STEP
#define STEP 5
#endif

typedef unsigned int word;
#define TILE 128
#define DEPTH 32
#define ROW_WORDS (DEPTH / 2)
#ifndef STAGES
#define STAGES (STEP >= 4 ? 2 : 1)
#endif
#ifndef BLOCKS
#define BLOCKS 1
#endif

__device__ __forceinline__ void multiply(float (&sum)[4], const word (&a)[4], word b0, word b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Where 16 bytes of a row lie, in words from the tile's beginning.
__device__ __forceinline__ int place(int row, int part) {
    return row * ROW_WORDS + 4 * (STEP >= 5 ? part ^ (row >> 1 & 3) : part);
}

__device__ __forceinline__ void load_matrices(word (&to)[4], const word *from) {
    word at = (word)__cvta_generic_to_shared(from);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
}

__device__ __forceinline__ void copy(word *to, const word *from) {
    word at = (word)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
}

// Begin to bring the tiles of one depth; each thread has four parts of 16 bytes of each.
__device__ __forceinline__ void fetch(word *to, const word *a, const word *b, int row_words) {
    for (int n = 0; n < 4; n++) {
        int row = n * 32 + threadIdx.x / 4, part = threadIdx.x % 4;
        word *to_a = to + place(row, part), *to_b = to_a + TILE * ROW_WORDS;
        const word *from_a = a + (size_t)row * row_words + 4 * part, *from_b = b + (size_t)row * row_words + 4 * part;
#if STEP >= 4
        copy(to_a, from_a);
        copy(to_b, from_b);
#else
        *(uint4 *)to_a = *(const uint4 *)from_a;
        *(uint4 *)to_b = *(const uint4 *)from_b;
#endif
    }
#if STEP >= 4
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

extern "C" __global__ void __launch_bounds__(128, BLOCKS) product(const word *a, const word *b, float *c, int n, int k) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, quad = lane % 4;
    int row_words = k / 2, warp_row = warp / 2 * 64, warp_column = warp % 2 * 64;
    a += (size_t)blockIdx.y * TILE * row_words;
    b += (size_t)blockIdx.x * TILE * row_words;
    float sums[4][8][4];
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int r = 0; r < 4; r++) sums[i][j][r] = 0;
#if STEP >= 2
    __shared__ __align__(128) word tiles[STAGES][2 * TILE * ROW_WORDS];
#endif
#if STAGES == 2
    fetch(tiles[0], a, b, row_words);
#endif
    for (int step = 0; step < k / DEPTH; step++) {
#if STEP == 1
        const word *tile_a = a + (size_t)step * ROW_WORDS, *tile_b = b + (size_t)step * ROW_WORDS;
        const int stride = row_words;
#else
        const int stride = ROW_WORDS;
        const word *tile_a = tiles[STAGES == 2 ? step % 2 : 0], *tile_b = tile_a + TILE * ROW_WORDS;
#if STAGES == 2
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
        if (step + 1 < k / DEPTH) {
            int next = (step + 1) * ROW_WORDS;
            fetch(tiles[(step + 1) % 2], a + next, b + next, row_words);
        }
#else
        __syncthreads();
        fetch(tiles[0], a + step * ROW_WORDS, b + step * ROW_WORDS, row_words);
#if STEP >= 4
        asm volatile("cp.async.wait_group 0;" ::: "memory");
#endif
        __syncthreads();
#endif
#endif
#pragma unroll
        for (int half = 0; half < 2; half++) {
            word left[4][4], right[4][4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
#if STEP >= 3
                load_matrices(left[i], tile_a + place(warp_row + 16 * i + lane % 16, 2 * half + lane / 16));
                load_matrices(right[i], tile_b + place(warp_column + 16 * i + lane / 16 * 8 + lane % 8,
                                                       2 * half + lane / 8 % 2));
#else
                const word *from_a = tile_a + (size_t)(warp_row + 16 * i + group) * stride + 8 * half + quad;
                const word *from_b = tile_b + (size_t)(warp_column + 16 * i + group) * stride + 8 * half + quad;
                left[i][0] = from_a[0], left[i][1] = from_a[8 * stride];
                left[i][2] = from_a[4], left[i][3] = from_a[8 * stride + 4];
                right[i][0] = from_b[0], right[i][1] = from_b[4];
                right[i][2] = from_b[8 * stride], right[i][3] = from_b[8 * stride + 4];
#endif
            }
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 8; j++)
                    multiply(sums[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 8; j++) {
            size_t row = blockIdx.y * TILE + warp_row + 16 * i + group;
            size_t column = blockIdx.x * TILE + warp_column + 8 * j + 2 * quad;
            *(float2 *)(c + row * n + column) = make_float2(sums[i][j][0], sums[i][j][1]);
            *(float2 *)(c + (row + 8) * n + column) = make_float2(sums[i][j][2], sums[i][j][3]);
        }
}
