// Hydrodynamics with a tabulated equation of state: finds each cell's temperature from density and internal
// energy by Newton steps in the table, then its pressure. Table rows are densities, 64 temperatures each,
// both in logarithms.
extern "C" __global__ void eos_invert(const float *density, const float *energy, const float *energy_table,
                                      const float *pressure_table, float *temperature, float *pressure,
                                      int cells, int rows)
{
    __shared__ float energies[32 * 64], pressures[32 * 64];
    for (int k = threadIdx.x; k < rows * 64; k += blockDim.x) {
        energies[k] = energy_table[k];
        pressures[k] = pressure_table[k];
    }
    __syncthreads();
    for (int cell = blockIdx.x * blockDim.x + threadIdx.x; cell < cells; cell += gridDim.x * blockDim.x) {
        float row = fminf(fmaxf(density[cell], 0.0f), rows - 1.001f);
        float target = energy[cell];
        float t = temperature[cell];
        int base = (int)row * 64;
        float w = row - (int)row;
        for (int step = 0; step < 4; step++) {
            int k = base + (int)t;
            float left = energies[k] + w * (energies[k + 64] - energies[k]);
            float right = energies[k + 1] + w * (energies[k + 65] - energies[k + 1]);
            float slope = right - left;
            float miss = left + (t - (int)t) * slope - target;
            t = fminf(fmaxf(t - __fdividef(miss, slope), 0.0f), 62.999f);
        }
        int k = base + (int)t;
        float left = pressures[k] + w * (pressures[k + 64] - pressures[k]);
        float right = pressures[k + 1] + w * (pressures[k + 65] - pressures[k + 1]);
        temperature[cell] = t;
        pressure[cell] = left + (t - (int)t) * (right - left);
    }
}
