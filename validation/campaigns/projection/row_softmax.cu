// Softmax of rows of single-precision values, a block a row, in three readings: for the maximum, for the sum of
// exponentials, for the result. Four values a thread at once while whole steps of the block are left, then one by one.
// Partial results meet in shared memory: the first warp adds up each warp's, a thread all of those.
template <typename Join>
__device__ float of_the_block(float* room, float own, float neutral, Join join) {
    __syncthreads();
    room[threadIdx.x] = own;
    __syncthreads();
    const int warps = blockDim.x / 32;
    if (threadIdx.x < warps) {
        float sum = neutral;
#pragma unroll
        for (int i = 0; i < 32; ++i) sum = join(sum, room[threadIdx.x * 32 + i]);
        __syncwarp((1ull << warps) - 1);
        room[threadIdx.x] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        float sum = neutral;
        for (int i = 0; i < warps; ++i) sum = join(sum, room[i]);
        room[0] = sum;
    }
    __syncthreads();
    return room[0];
}

template <typename Join>
__device__ float over_the_row(const float* row, int values, float neutral, Join join) {
    const int rest = values % (4 * blockDim.x);
    float own = neutral;
    for (int at = threadIdx.x; at * 4 < values - rest; at += blockDim.x) {
        const float4 four = ((const float4*)row)[at];
        own = join(join(join(join(own, four.x), four.y), four.z), four.w);
    }
    for (int at = values - rest + threadIdx.x; at < values; at += blockDim.x) own = join(own, row[at]);
    return own;
}

extern "C" __global__ void row_softmax(float* to, const float* from, int values) {
    extern __shared__ float room[];
    const float* row = from + (size_t)blockIdx.x * values;
    float* result = to + (size_t)blockIdx.x * values;
    auto larger = [](float a, float b) { return fmaxf(a, b); };
    const float lowest = -3.402823466e38f;
    const float most = of_the_block(room, over_the_row(row, values, lowest, larger), lowest, larger);
    auto add_exponential = [most](float sum, float value) { return sum + expf(value - most); };
    const float sum = of_the_block(room, over_the_row(row, values, 0.0f, add_exponential), 0.0f,
                                   [](float a, float b) { return a + b; });
    const int rest = values % (4 * blockDim.x);
    for (int at = threadIdx.x; at * 4 < values - rest; at += blockDim.x) {
        float4 four = ((const float4*)row)[at];
        four.x = expf(four.x - most) / sum;
        four.y = expf(four.y - most) / sum;
        four.z = expf(four.z - most) / sum;
        four.w = expf(four.w - most) / sum;
        ((float4*)result)[at] = four;
    }
    for (int at = values - rest + threadIdx.x; at < values; at += blockDim.x) result[at] = expf(row[at] - most) / sum;
}
