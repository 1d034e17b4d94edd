// Hydrology: bucket model of soil moisture in every cell of a catchment; forcing and runoff are stored as [day][cell].
extern "C" __global__ void soil_bucket(const float *rain, const float *demand, const float *capacity, float *moisture,
                                       float *runoff, int cells, int days)
{
    int cell = blockIdx.x * blockDim.x + threadIdx.x;
    float most = capacity[cell];
    float per_most = 1.0f / most;
    float water = moisture[cell];
    for (int day = 0; day < days; day++) {
        float wet = water * per_most;
        water += rain[day * cells + cell] - demand[day * cells + cell] * wet;
        float excess = fmaxf(water - most, 0.0f);
        water = fmaxf(water - excess, 0.0f);
        runoff[day * cells + cell] = excess;
    }
    moisture[cell] = water;
}
