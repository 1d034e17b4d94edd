// Histograms of 512 channels: values are rows of 512 bytes, counts has 256 bins for each channel. Written from the description
// of a public work log (Histogram Work Log, June 2026, H100 SXM), entry by entry. Its own source was not published.

#define CHANNELS 512
#define BINS 256

extern "C" __global__ void entry3(const unsigned char *values, int *counts, int rows)
{
    int channel = blockIdx.x * blockDim.x + threadIdx.x;
    for (int row = blockIdx.y; row < rows; row += gridDim.y)
        atomicAdd(&counts[channel * BINS + values[(size_t)row * CHANNELS + channel]], 1);
}

// A block counts 32 channels, a lane one of them. STRIDE words lie between the bins of two channels.
template <int STRIDE, int ROWS_AT_ONCE>
__device__ void count_bytes(const unsigned char *values, int *counts, int rows)
{
    __shared__ int bins[32 * STRIDE];
    int thread = threadIdx.y * 32 + threadIdx.x, threads = 32 * blockDim.y;
    for (int i = thread; i < 32 * STRIDE; i += threads)
        bins[i] = 0;
    __syncthreads();
    int *own = bins + threadIdx.x * STRIDE;
    int step = blockDim.y * gridDim.y;
    const unsigned char *column = values + blockIdx.x * 32 + threadIdx.x;
    for (int row = blockIdx.y * blockDim.y + threadIdx.y; row < rows; row += ROWS_AT_ONCE * step) {
        unsigned char value[ROWS_AT_ONCE];
#pragma unroll
        for (int k = 0; k < ROWS_AT_ONCE; ++k)
            value[k] = column[(size_t)(row + k * step) * CHANNELS];
#pragma unroll
        for (int k = 0; k < ROWS_AT_ONCE; ++k)
            atomicAdd(&own[value[k]], 1);
    }
    __syncthreads();
    for (int i = thread; i < 32 * BINS; i += threads)
        atomicAdd(&counts[blockIdx.x * 32 * BINS + i], bins[i / BINS * STRIDE + i % BINS]);
}

extern "C" __global__ void entry4(const unsigned char *values, int *counts, int rows)
{
    count_bytes<BINS, 1>(values, counts, rows);
}

extern "C" __global__ void entry5(const unsigned char *values, int *counts, int rows)
{
    count_bytes<BINS + 1, 1>(values, counts, rows);
}

extern "C" __global__ void entry6(const unsigned char *values, int *counts, int rows)
{
    count_bytes<BINS, 8>(values, counts, rows);
}

// Four channels of a row are one word; eight lanes share a row.
extern "C" __global__ void entry7(const unsigned char *values, int *counts, int rows)
{
    __shared__ int bins[32 * BINS];
    int thread = threadIdx.y * 8 + threadIdx.x, threads = 8 * blockDim.y;
    for (int i = thread; i < 32 * BINS; i += threads)
        bins[i] = 0;
    __syncthreads();
    int *own = bins + threadIdx.x * 4 * BINS;
    int step = blockDim.y * gridDim.y;
    const unsigned *column = (const unsigned *)values + blockIdx.x * 8 + threadIdx.x;
    for (int row = blockIdx.y * blockDim.y + threadIdx.y; row < rows; row += 8 * step) {
        unsigned value[8];
#pragma unroll
        for (int k = 0; k < 8; ++k)
            value[k] = column[(size_t)(row + k * step) * (CHANNELS / 4)];
#pragma unroll
        for (int k = 0; k < 8; ++k)
#pragma unroll
            for (int c = 0; c < 4; ++c)
                atomicAdd(&own[c * BINS + (value[k] >> 8 * c & 255)], 1);
    }
    __syncthreads();
    for (int i = thread; i < 32 * BINS; i += threads)
        atomicAdd(&counts[blockIdx.x * 32 * BINS + i], bins[i]);
}

// Each lane has a bank of its own, and EACH channels in it.
template <typename Word, int EACH>
__device__ void count_in_own_bank(const unsigned char *values, int *counts, int rows)
{
    extern __shared__ int bins[];
    int thread = threadIdx.y * 32 + threadIdx.x, threads = 32 * blockDim.y;
    for (int i = thread; i < 32 * EACH * BINS; i += threads)
        bins[i] = 0;
    __syncthreads();
    int step = blockDim.y * gridDim.y;
    const Word *column = (const Word *)values + blockIdx.x * 32 + threadIdx.x;
    for (int row = blockIdx.y * blockDim.y + threadIdx.y; row < rows; row += 8 * step) {
        Word value[8];
#pragma unroll
        for (int k = 0; k < 8; ++k)
            value[k] = column[(size_t)(row + k * step) * (CHANNELS / EACH)];
#pragma unroll
        for (int k = 0; k < 8; ++k)
#pragma unroll
            for (int c = 0; c < EACH; ++c)
                atomicAdd(&bins[(c * BINS + (value[k] >> 8 * c & 255)) * 32 + threadIdx.x], 1);
    }
    __syncthreads();
    for (int i = thread; i < 32 * EACH * BINS; i += threads) {
        int lane = i & 31, bin = i / 32 % BINS, channel = i / 32 / BINS;
        atomicAdd(&counts[(blockIdx.x * 32 * EACH + lane * EACH + channel) * BINS + bin], bins[i]);
    }
}

extern "C" __global__ void entry9(const unsigned char *values, int *counts, int rows)
{
    count_in_own_bank<unsigned short, 2>(values, counts, rows);
}

extern "C" __global__ void entry10(const unsigned char *values, int *counts, int rows)
{
    count_in_own_bank<unsigned, 4>(values, counts, rows);
}
