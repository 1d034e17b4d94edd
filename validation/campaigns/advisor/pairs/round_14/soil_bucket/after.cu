// Hydrology: bucket model of soil moisture in every cell of a catchment; forcing and runoff are stored as [day][cell].
#define BATCH 8

extern "C" __global__ void soil_bucket(const float *rain, const float *demand, const float *capacity, float *moisture,
                                       float *runoff, int cells, int days)
{
    int cell = blockIdx.x * blockDim.x + threadIdx.x;
    float most = capacity[cell];
    float per_most = 1.0f / most;
    float water = moisture[cell];
    for (int first = 0; first < days; first += BATCH) {
        float falls[BATCH], asks[BATCH];
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            falls[k] = rain[(first + k) * cells + cell];
            asks[k] = demand[(first + k) * cells + cell];
        }
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            float wet = water * per_most;
            water += falls[k] - asks[k] * wet;
            float excess = fmaxf(water - most, 0.0f);
            water = fmaxf(water - excess, 0.0f);
            runoff[(first + k) * cells + cell] = excess;
        }
    }
    moisture[cell] = water;
}
