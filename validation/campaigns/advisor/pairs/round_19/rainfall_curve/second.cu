// Hydrology: mass curves of storms, that is the share of a storm's rain that
// has fallen until each interval. A block takes a storm of 256 intervals.
#define INTERVALS 256
#define WARPS (INTERVALS / 32)

extern "C" __global__ void rainfall_curve(const float *__restrict__ rain,
                                          float *__restrict__ curve, int storms)
{
    // two sets of sums in turn, so that one barrier a storm is enough
    __shared__ float warp_sum[2][WARPS];
    int t = threadIdx.x, lane = t % 32, warp = t / 32, set = 0;

    for (int storm = blockIdx.x; storm < storms; storm += gridDim.x, set ^= 1) {
        float fallen = rain[storm * INTERVALS + t];
#pragma unroll
        for (int offset = 1; offset < 32; offset *= 2) {
            float earlier = __shfl_up_sync(0xffffffff, fallen, offset);
            if (lane >= offset)
                fallen += earlier;
        }
        if (lane == 31)
            warp_sum[set][warp] = fallen;
        __syncthreads();

        float before = 0.0f, total = 0.0f;
#pragma unroll
        for (int w = 0; w < WARPS; ++w) {
            if (w == warp)
                before = total;
            total += warp_sum[set][w];
        }
        fallen += before;
        curve[storm * INTERVALS + t] = total > 0.0f ? fallen / total : 0.0f;
    }
}
