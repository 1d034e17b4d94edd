// Hydrology: mass curves of storms, that is the share of a storm's rain that
// has fallen until each interval. A block takes a storm of 256 intervals.
#define INTERVALS 256

extern "C" __global__ void rainfall_curve(const float *__restrict__ rain,
                                          float *__restrict__ curve, int storms)
{
    __shared__ float fallen[INTERVALS];
    int t = threadIdx.x;

    for (int storm = blockIdx.x; storm < storms; storm += gridDim.x) {
        fallen[t] = rain[storm * INTERVALS + t];
        __syncthreads();

        for (int offset = 1; offset < INTERVALS; offset *= 2) {
            float earlier = 0.0f;
            if (t >= offset)
                earlier = fallen[t - offset];
            __syncthreads();
            fallen[t] += earlier;
            __syncthreads();
        }

        float total = fallen[INTERVALS - 1];
        curve[storm * INTERVALS + t] = total > 0.0f ? fallen[t] / total : 0.0f;
        __syncthreads();
    }
}
