// Single-precision product of matrices, both with the summed index contiguous: C = A B^T. One tile of BM x BN a block,
// TM x TN a thread; SLICES groups of threads share the summed index and add up at the end.
constexpr int GROUP = THREADS / SLICES;
constexpr int BK = 8 * SLICES;
constexpr int ACROSS = BN / TN;

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
product(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n, int k) {
    __shared__ float as[2][BK][BM + 4];
    __shared__ float bs[2][BK][BN + 4];
    const int thread = threadIdx.x, slice = thread / GROUP, lane = thread % GROUP;
    constexpr int WIDE = ACROSS < 8 ? ACROSS : 8, WARPS_ACROSS = ACROSS / WIDE;
    const int warp = lane / 32, in_warp = lane % 32;
    const int tx = (warp % WARPS_ACROSS) * WIDE + in_warp % WIDE;
    const int ty = (warp / WARPS_ACROSS) * (32 / WIDE) + in_warp / WIDE;
    const float* from_a = a + (size_t)blockIdx.y * BM * k;
    const float* from_b = b + (size_t)blockIdx.x * BN * k;
    constexpr int LOADS_A = (BM * BK / 4 + THREADS - 1) / THREADS, LOADS_B = (BN * BK / 4 + THREADS - 1) / THREADS;
    float4 next_a[LOADS_A], next_b[LOADS_B];
    float sum[TM][TN] = {};

    auto fetch = [&](int at) {
#pragma unroll
        for (int i = 0; i < LOADS_A; ++i) {
            const int index = thread + i * THREADS;
            if (BM * BK / 4 >= THREADS || index < BM * BK / 4)
                next_a[i] = *(const float4*)(from_a + (size_t)(index / (BK / 4)) * k + at + index % (BK / 4) * 4);
        }
#pragma unroll
        for (int i = 0; i < LOADS_B; ++i) {
            const int index = thread + i * THREADS;
            if (BN * BK / 4 >= THREADS || index < BN * BK / 4)
                next_b[i] = *(const float4*)(from_b + (size_t)(index / (BK / 4)) * k + at + index % (BK / 4) * 4);
        }
    };
    auto keep = [&](int half) {
#pragma unroll
        for (int i = 0; i < LOADS_A; ++i) {
            const int index = thread + i * THREADS, row = index / (BK / 4), column = index % (BK / 4) * 4;
            if (BM * BK / 4 >= THREADS || index < BM * BK / 4) {
                as[half][column][row] = next_a[i].x;
                as[half][column + 1][row] = next_a[i].y;
                as[half][column + 2][row] = next_a[i].z;
                as[half][column + 3][row] = next_a[i].w;
            }
        }
#pragma unroll
        for (int i = 0; i < LOADS_B; ++i) {
            const int index = thread + i * THREADS, row = index / (BK / 4), column = index % (BK / 4) * 4;
            if (BN * BK / 4 >= THREADS || index < BN * BK / 4) {
                bs[half][column][row] = next_b[i].x;
                bs[half][column + 1][row] = next_b[i].y;
                bs[half][column + 2][row] = next_b[i].z;
                bs[half][column + 3][row] = next_b[i].w;
            }
        }
    };
    auto add_up = [&](int half) {
#pragma unroll
        for (int step = 0; step < 8; ++step) {
            float x[TM], y[TN];
#pragma unroll
            for (int i = 0; i < TM; i += 4)
                *(float4*)&x[i] = *(const float4*)&as[half][slice * 8 + step][i / 4 * (BM / (TM / 4)) + ty * 4];
#pragma unroll
            for (int j = 0; j < TN; j += 4)
                *(float4*)&y[j] = *(const float4*)&bs[half][slice * 8 + step][j / 4 * (BN / (TN / 4)) + tx * 4];
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) sum[i][j] += x[i] * y[j];
        }
    };

    fetch(0);
    keep(0);
    __syncthreads();
    int half = 0;
    for (int at = BK; at < k; at += BK) {
        fetch(at);
        add_up(half);
        keep(half ^ 1);
        __syncthreads();
        half ^= 1;
    }
    add_up(half);
    float* to = c + (size_t)blockIdx.y * BM * n + (size_t)blockIdx.x * BN;
#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int row = i / 4 * (BM / (TM / 4)) + ty * 4 + i % 4;
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            float* place = to + (size_t)row * n + j / 4 * (BN / (TN / 4)) + tx * 4;
            if (SLICES == 1) {
                *(float4*)place = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            } else {
                for (int q = 0; q < 4; ++q) atomicAdd(place + q, sum[i][j + q]);
            }
        }
    }
}
