// Combustion: hydrogen and oxygen in each cell, integrated by Runge-Kutta over one step of the flow.
#define SPECIES 7
#define REACTIONS 10

__device__ __forceinline__ void production(const float *y, const float *k, float *dy)
{
    float third = y[0] + y[1] + y[2] + y[3] + y[4] + y[5] + y[6] + 3.0f;
    float r0 = k[0] * y[3] * y[1];
    float r1 = k[1] * y[4] * y[0];
    float r2 = k[2] * y[5] * y[0];
    float r3 = k[3] * y[4] * y[2];
    float r4 = k[4] * y[3] * y[1] * third;
    float r5 = k[5] * y[6] * y[3];
    float r6 = k[6] * y[6] * y[3];
    float r7 = k[7] * y[6] * y[5];
    float r8 = k[8] * y[3] * y[5] * third;
    float r9 = k[9] * y[3] * y[3] * third;
    dy[0] = -r1 - r2 + r6 + r9;
    dy[1] = -r0 - r4 + r6 + r7;
    dy[2] = r2 - r3 + r7 + r8;
    dy[3] = -r0 + r1 + r2 - r4 - r5 - r6 - r8 - 2.0f * r9;
    dy[4] = r0 - r1 - r3;
    dy[5] = r0 + r1 - r2 + 2.0f * r3 + 2.0f * r5 - r7 - r8;
    dy[6] = r4 - r5 - r6 - r7;
}

extern "C" __global__ void __launch_bounds__(256, 4) combustion(const float *temperature, float *fraction, int cells,
                                                                int steps, float dt)
{
    const float factor[REACTIONS] = {9.0f, 6.0f, 5.0f, 4.0f, 0.8f, 3.0f, 1.5f, 2.0f, 1.2f, 0.5f};
    const float barrier[REACTIONS] = {8.3f, 3.2f, 1.7f, 6.9f, 0.2f, 0.15f, 0.4f, 0.1f, 0.3f, 0.25f};
    int cell = blockIdx.x * blockDim.x + threadIdx.x;
    if (cell >= cells)
        return;
    float inverse = 1000.0f / temperature[cell];
    float k[REACTIONS], y[SPECIES];
#pragma unroll
    for (int r = 0; r < REACTIONS; r++)
        k[r] = factor[r] * expf(-barrier[r] * inverse);
#pragma unroll
    for (int s = 0; s < SPECIES; s++)
        y[s] = fraction[s * cells + cell];
    for (int n = 0; n < steps; n++) {
        float sum[SPECIES], slope[SPECIES], trial[SPECIES];
        production(y, k, sum);
#pragma unroll
        for (int s = 0; s < SPECIES; s++)
            trial[s] = y[s] + 0.5f * dt * sum[s];
        production(trial, k, slope);
#pragma unroll
        for (int s = 0; s < SPECIES; s++) {
            sum[s] += 2.0f * slope[s];
            trial[s] = y[s] + 0.5f * dt * slope[s];
        }
        production(trial, k, slope);
#pragma unroll
        for (int s = 0; s < SPECIES; s++) {
            sum[s] += 2.0f * slope[s];
            trial[s] = y[s] + dt * slope[s];
        }
        production(trial, k, slope);
#pragma unroll
        for (int s = 0; s < SPECIES; s++)
            y[s] += dt / 6.0f * (sum[s] + slope[s]);
    }
#pragma unroll
    for (int s = 0; s < SPECIES; s++)
        fraction[s * cells + cell] = y[s];
}
