// Tide prediction: height at each time as a sum of harmonic constituents.
extern "C" __global__ void tide_height(const float *hours,
                                       const float *amplitude,
                                       const float *speed,
                                       const float *phase,
                                       float *height,
                                       float mean_level,
                                       int constituents,
                                       int times)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= times)
        return;

    float sum = mean_level;
    for (int c = 0; c < constituents; ++c) {
        float angle = speed[c] * hours[i] + phase[c];
        sum += amplitude[c] * __cosf(angle);
    }
    height[i] = sum;
}
