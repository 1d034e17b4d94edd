// The histograms of Dong & Pai (2025), Listing 1 and, with REORDERED, Listing 2: bytes of pixels counted by channel in
// shared memory, then added to the histogram in global memory. CHANNELS is the number of channels where the compiler is to
// know it. With READ the result of each atomic is used, so that it stays an addition.
#define BINS 256
#define MAX_CHANNELS 4

extern "C" __global__ void histogram(const unsigned char *image, int pixels, int chans, unsigned *result,
                                     unsigned never)
{
#ifdef CHANNELS
    const int channels = CHANNELS;
#else
    const int channels = chans;
#endif
    __shared__ unsigned counts[MAX_CHANNELS * BINS];
    for (int i = threadIdx.x; i < MAX_CHANNELS * BINS; i += blockDim.x)
        counts[i] = 0;
    __syncthreads();

    int thread = threadIdx.x, threads = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + thread; i < pixels; i += threads) {
        size_t first = (size_t)i * channels;
        unsigned bins[MAX_CHANNELS];
        for (int c = 0; c < channels; ++c)
            bins[c] = image[first + c];
        for (int c = 0; c < channels; ++c) {
#ifdef REORDERED
            int channel = (c + thread % channels) % channels;
#else
            int channel = c;
#endif
            unsigned *count = &counts[BINS * channel + bins[channel]];
#ifdef READ
            if (atomicAdd(count, 1) == never)
                result[0] = 0;
#else
            atomicAdd(count, 1);
#endif
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < MAX_CHANNELS * BINS; i += blockDim.x)
        atomicAdd(&result[i], counts[i]);
}
