// Attention forward, o = softmax(q k^T / sqrt(D)) v, in the steps of published worklogs. Macros say which step:
//
//   BQ BKV    rows of q of a block, and of k and v of a turn
//   D         size of a head
//   WARPS     of a block; each takes BQ / WARPS rows
//   SWIZZLE   1: places of 16 bytes are exchanged within a row
//   K_PARTS V_PARTS  matrices of k, and of v, that one ldmatrix loads: 2 or 4
//   Q_SHARED  1: q stays in shared memory, with a place of its own; 0: in registers, and its place is used again
//   OVERLAP   0: k is copied and waited for, then v; 1: v is copied during the first product and the next k during
//             the second; 2: two places each for k and v; 3: two places for k, one for v; 4: k and v are copied at once
//             and waited for together; 5: as 0, but v is asked for after the softmax
//   BATCHED   1: a fragment of k or v is used for all rows of the warp; 0: by 16 rows (with Q_SHARED), or all fragments
//             of k or v are loaded before the products
//   BASE_2    1: the scale is part of the exponent, to the base 2
//   BFLOAT    1: elements are BF16; 0: halves
//
// q, o are [heads][rows][D], k, v [heads][keys][D].

typedef unsigned int word;
typedef unsigned short element;
#define THREADS (WARPS * 32)
#define M_TILES (BQ / WARPS / 16)
#define ROW (D * 2)
#define TILE (BKV * ROW)
#define INFINITE 3.4e38f

__device__ __forceinline__ void multiply(float (&c)[4], const word *a, word b0, word b1) {
#if BFLOAT
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
#else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
#endif
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ word place(int row, int part) { return row * ROW + 16 * (SWIZZLE ? part ^ row % 8 : part); }
__device__ __forceinline__ word pair(float low, float high) {
    word v;
#if BFLOAT
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(high), "f"(low));
#else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(high), "f"(low));
#endif
    return v;
}
__device__ __forceinline__ float power(float x) {  // of e, or of 2
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(BASE_2 ? x : x * 1.4426950408889634f));
    return y;
}
// Brings rows. A thread has one place of 16 bytes in every so many rows: `from` and `to` are those of its first.
template <int ROWS> __device__ __forceinline__ void fetch(word to, const element *from) {
    constexpr int step = THREADS / (D / 8);
    static_assert(!SWIZZLE || step % 8 == 0, "a thread's places are exchanged alike");
#pragma unroll
    for (int n = 0; n < ROWS / step; n++)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + n * step * ROW), "l"(from + n * step * D) : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT> __device__ __forceinline__ void arrive() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
    __syncthreads();
}
#define LOAD(name, form)                                                                                                   \
    __device__ __forceinline__ void name(word *to, word at) {                                                              \
        asm volatile("ldmatrix.sync.aligned.m8n8.x4" form ".shared.b16 {%0,%1,%2,%3}, [%4];"                                \
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");                            \
    }                                                                                                                      \
    __device__ __forceinline__ void name##_2(word *to, word at) {                                                          \
        asm volatile("ldmatrix.sync.aligned.m8n8.x2" form ".shared.b16 {%0,%1}, [%2];"                                      \
                     : "=r"(to[0]), "=r"(to[1]) : "r"(at) : "memory");                                                     \
    }
LOAD(load, "")
LOAD(load_turned, ".trans")

// Fragments of k for 8 keys (or, with four parts, 16 keys) and 16 places of the head; of v for 16 keys and 8 (16) places.
__device__ __forceinline__ void load_k(word *to, word tile, int keys, int depth, int lane) {
    if (K_PARTS == 4)
        load(to, tile + place(keys * 8 + lane % 8 + lane / 16 * 8, 2 * depth + lane / 8 % 2));
    else
        load_2(to, tile + place(keys * 8 + lane % 8, 2 * depth + lane / 8 % 2));
}
__device__ __forceinline__ void load_v(word *to, word tile, int depth, int column, int lane) {
    if (V_PARTS == 4)
        load_turned(to, tile + place(depth * 16 + lane % 16, column + lane / 16));
    else
        load_turned_2(to, tile + place(depth * 16 + lane % 16, column));
}
#define K_STEP (K_PARTS / 2)
#define V_STEP (V_PARTS / 2)

// One turn of the softmax of 16 rows: scores become weights, sums and o are scaled anew.
__device__ __forceinline__ void soften(float (&s)[BKV / 8][4], float (&o)[D / 8][4], float *most, float *total, float scale) {
    float now[2] = {-INFINITE, -INFINITE}, again[2], sum[2] = {0, 0};
#pragma unroll
    for (int n = 0; n < BKV / 8; n++)
#pragma unroll
        for (int r = 0; r < 4; r++) {
            if (!BASE_2) s[n][r] *= scale;
            now[r / 2] = fmaxf(now[r / 2], s[n][r]);
        }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        now[h] = fmaxf(now[h], __shfl_xor_sync(~0u, now[h], 1));
        now[h] = fmaxf(now[h], __shfl_xor_sync(~0u, now[h], 2));
        if (BASE_2) now[h] *= scale;
        now[h] = fmaxf(now[h], most[h]);
        again[h] = power(most[h] - now[h]);
        most[h] = now[h];
    }
#pragma unroll
    for (int n = 0; n < D / 8; n++)
#pragma unroll
        for (int r = 0; r < 4; r++) o[n][r] *= again[r / 2];
#pragma unroll
    for (int n = 0; n < BKV / 8; n++)
#pragma unroll
        for (int r = 0; r < 4; r++) {
            s[n][r] = power(BASE_2 ? s[n][r] * scale - now[r / 2] : s[n][r] - now[r / 2]);
            sum[r / 2] += s[n][r];
        }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        sum[h] += __shfl_xor_sync(~0u, sum[h], 1);
        sum[h] += __shfl_xor_sync(~0u, sum[h], 2);
        total[h] = total[h] * again[h] + sum[h];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    attention(const element *q, const element *k, const element *v, element *o, int rows, int keys, float scale) {
    extern __shared__ __align__(128) char memory[];
    word shared = (word)__cvta_generic_to_shared(memory);
    int lane = threadIdx.x % 32, first = threadIdx.x / 32 * M_TILES * 16;
    int blocks = rows / BQ, head = blockIdx.x / blocks;
    q += (size_t)blockIdx.x * BQ * D, o += (size_t)blockIdx.x * BQ * D;
    k += (size_t)head * keys * D, v += (size_t)head * keys * D;
    const word own = place(threadIdx.x / (D / 8), threadIdx.x % (D / 8));
    q += threadIdx.x * 8, k += threadIdx.x * 8, v += threadIdx.x * 8;
    word k_at = shared + (Q_SHARED ? BQ * ROW : 0), v_at = k_at + (OVERLAP == 2 || OVERLAP == 3 ? 2 : 1) * TILE;
    fetch<BQ>(shared + own, q);
    commit();
    arrive<0>();
#if !Q_SHARED
    word q_parts[M_TILES][D / 16][4];
#pragma unroll
    for (int m = 0; m < M_TILES; m++)
#pragma unroll
        for (int d = 0; d < D / 16; d++) load(q_parts[m][d], shared + place(first + 16 * m + lane % 16, 2 * d + lane / 16));
    __syncthreads();
#endif
    float out[M_TILES][D / 8][4], most[M_TILES][2], total[M_TILES][2];
#pragma unroll
    for (int m = 0; m < M_TILES; m++) {
#pragma unroll
        for (int n = 0; n < D / 8; n++)
#pragma unroll
            for (int r = 0; r < 4; r++) out[m][n][r] = 0;
#pragma unroll
        for (int h = 0; h < 2; h++) most[m][h] = -INFINITE, total[m][h] = 0;
    }
    int turns = keys / BKV;
    auto ask_k = [&](int turn) {
        if (turn < turns) fetch<BKV>(own + k_at + (OVERLAP == 2 || OVERLAP == 3 ? turn % 2 * TILE : 0), k + (size_t)turn * BKV * D);
        commit();
    };
    auto ask_v = [&](int turn) {
        if (turn < turns) fetch<BKV>(own + v_at + (OVERLAP == 2 ? turn % 2 * TILE : 0), v + (size_t)turn * BKV * D);
        commit();
    };
    if (OVERLAP >= 1 && OVERLAP <= 3) ask_k(0);
    if (OVERLAP == 2) ask_v(0);
    for (int turn = 0; turn < turns; turn++) {
        word k_tile = k_at + (OVERLAP == 2 || OVERLAP == 3 ? turn % 2 * TILE : 0), v_tile = v_at + (OVERLAP == 2 ? turn % 2 * TILE : 0);
        float s[M_TILES][BKV / 8][4];
        word weights[M_TILES][BKV / 16][4];
#pragma unroll
        for (int m = 0; m < M_TILES; m++)
#pragma unroll
            for (int n = 0; n < BKV / 8; n++)
#pragma unroll
                for (int r = 0; r < 4; r++) s[m][n][r] = 0;
        if (OVERLAP == 0 || OVERLAP == 5) ask_k(turn), arrive<0>();
        if (OVERLAP == 1) arrive<0>(), ask_v(turn);
        if (OVERLAP == 2) ask_k(turn + 1), arrive<2>();
        if (OVERLAP == 3) __syncthreads(), ask_v(turn), arrive<1>();
        if (OVERLAP == 4) ask_k(turn), ask_v(turn), arrive<0>();
#if Q_SHARED && BATCHED
#pragma unroll
        for (int d = 0; d < D / 16; d++) {
            word left[M_TILES][4];
#pragma unroll
            for (int m = 0; m < M_TILES; m++) load(left[m], shared + place(first + 16 * m + lane % 16, 2 * d + lane / 16));
#pragma unroll
            for (int n = 0; n < BKV / 8; n += K_STEP) {
                word right[4];
                load_k(right, k_tile, n, d, lane);
#pragma unroll
                for (int m = 0; m < M_TILES; m++)
#pragma unroll
                    for (int p = 0; p < K_STEP; p++) multiply(s[m][n + p], left[m], right[2 * p], right[2 * p + 1]);
            }
        }
#elif Q_SHARED
#pragma unroll
        for (int m = 0; m < M_TILES; m++) {
#pragma unroll
            for (int d = 0; d < D / 16; d++) {
                word left[4];
                load(left, shared + place(first + 16 * m + lane % 16, 2 * d + lane / 16));
#pragma unroll
                for (int n = 0; n < BKV / 8; n += K_STEP) {
                    word right[4];
                    load_k(right, k_tile, n, d, lane);
#pragma unroll
                    for (int p = 0; p < K_STEP; p++) multiply(s[m][n + p], left, right[2 * p], right[2 * p + 1]);
                }
            }
        }
#else
        word right[BKV / 8][D / 16][2];
#pragma unroll
        for (int n = 0; n < BKV / 8; n += K_STEP)
#pragma unroll
            for (int d = 0; d < D / 16; d++) {
                word parts[4];
                load_k(parts, k_tile, n, d, lane);
#pragma unroll
                for (int p = 0; p < 2 * K_STEP; p++) right[n + p / 2][d][p % 2] = parts[p];
            }
#pragma unroll
        for (int m = 0; m < M_TILES; m++)
#pragma unroll
            for (int n = 0; n < BKV / 8; n++)
#pragma unroll
                for (int d = 0; d < D / 16; d++) multiply(s[m][n], q_parts[m][d], right[n][d][0], right[n][d][1]);
#endif
        if (OVERLAP == 0) ask_v(turn);
        if (OVERLAP == 2) ask_v(turn + 1);
        if (OVERLAP == 3) ask_k(turn + 1);
#pragma unroll
        for (int m = 0; m < M_TILES; m++) {
            soften(s[m], out[m], most[m], total[m], scale);
#pragma unroll
            for (int d = 0; d < BKV / 16; d++)
#pragma unroll
                for (int r = 0; r < 4; r++)
                    weights[m][d][r] = pair(s[m][2 * d + r / 2][r % 2 * 2], s[m][2 * d + r / 2][r % 2 * 2 + 1]);
        }
        if (OVERLAP == 5) ask_v(turn);
        if (OVERLAP == 0 || OVERLAP == 5) arrive<0>();
        if (OVERLAP == 1) arrive<0>(), ask_k(turn + 1);
        if (OVERLAP == 2) arrive<2>();
        if (OVERLAP == 3) arrive<1>();
#if !Q_SHARED
        word below[BKV / 16][D / 8][2];
#pragma unroll
        for (int d = 0; d < BKV / 16; d++)
#pragma unroll
            for (int n = 0; n < D / 8; n += V_STEP) {
                word parts[4];
                load_v(parts, v_tile, d, n, lane);
#pragma unroll
                for (int p = 0; p < 2 * V_STEP; p++) below[d][n + p / 2][p % 2] = parts[p];
            }
#pragma unroll
        for (int m = 0; m < M_TILES; m++)
#pragma unroll
            for (int n = 0; n < D / 8; n++)
#pragma unroll
                for (int d = 0; d < BKV / 16; d++) multiply(out[m][n], weights[m][d], below[d][n][0], below[d][n][1]);
#else
#pragma unroll
        for (int each = 0; each < (BATCHED ? 1 : M_TILES); each++)
#pragma unroll
            for (int d = 0; d < BKV / 16; d++)
#pragma unroll
                for (int n = 0; n < D / 8; n += V_STEP) {
                    word parts[4];
                    load_v(parts, v_tile, d, n, lane);
#pragma unroll
                    for (int m = BATCHED ? 0 : each; m < (BATCHED ? M_TILES : each + 1); m++)
#pragma unroll
                        for (int p = 0; p < V_STEP; p++) multiply(out[m][n + p], weights[m][d], parts[2 * p], parts[2 * p + 1]);
                }
#endif
        if (OVERLAP == 0 || OVERLAP >= 4) __syncthreads();
    }
#pragma unroll
    for (int m = 0; m < M_TILES; m++)
#pragma unroll
        for (int n = 0; n < D / 8; n++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                *(word *)(o + (size_t)(first + 16 * m + lane / 4 + 8 * h) * D + 8 * n + lane % 4 * 2) =
                    pair(out[m][n][2 * h] / total[m][h], out[m][n][2 * h + 1] / total[m][h]);
}
