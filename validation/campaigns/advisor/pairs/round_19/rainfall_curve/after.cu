// Hydrology: mass curves of storms, that is the share of a storm's rain that
// has fallen until each interval. A block takes a storm of 256 intervals.
#define INTERVALS 256

extern "C" __global__ void rainfall_curve(const float *__restrict__ rain,
                                          float *__restrict__ curve, int storms)
{
    // each step reads one array and writes the other
    __shared__ float fallen[2][INTERVALS];
    int t = threadIdx.x;

    for (int storm = blockIdx.x; storm < storms; storm += gridDim.x) {
        int now = 0;
        float sum = rain[storm * INTERVALS + t];
        fallen[now][t] = sum;
        __syncthreads();

        for (int offset = 1; offset < INTERVALS; offset *= 2) {
            if (t >= offset)
                sum += fallen[now][t - offset];
            now ^= 1;
            fallen[now][t] = sum;
            __syncthreads();
        }

        float total = fallen[now][INTERVALS - 1];
        curve[storm * INTERVALS + t] = total > 0.0f ? sum / total : 0.0f;
        __syncthreads();
    }
}
