// Hydrodynamics with a tabulated equation of state: finds each cell's temperature from density and internal
// energy by Newton steps in the table, then its pressure. Table rows are densities, 64 temperatures each,
// both in logarithms.
extern "C" __global__ void eos_invert(const float *density, const float *energy, const float *energy_table,
                                      const float *pressure_table, float *temperature, float *pressure,
                                      int cells, int rows)
{
    // the energy table, rows * 64 values
    extern __shared__ float shared_energy[];
    for (int n = threadIdx.x; n < rows * 64; n += blockDim.x)
        shared_energy[n] = energy_table[n];
    __syncthreads();
    for (int cell = blockIdx.x * blockDim.x + threadIdx.x; cell < cells; cell += gridDim.x * blockDim.x) {
        float row = fminf(fmaxf(density[cell], 0.0f), rows - 1.001f);
        float target = energy[cell];
        float t = temperature[cell];
        int base = (int)row * 64;
        float w = row - (int)row;
        for (int step = 0; step < 4; step++) {
            int k = base + (int)t;
            float left = shared_energy[k] + w * (shared_energy[k + 64] - shared_energy[k]);
            float right = shared_energy[k + 1] + w * (shared_energy[k + 65] - shared_energy[k + 1]);
            float slope = right - left;
            float miss = left + (t - (int)t) * slope - target;
            t = fminf(fmaxf(t - __fdividef(miss, slope), 0.0f), 62.999f);
        }
        int k = base + (int)t;
        float left = pressure_table[k] + w * (pressure_table[k + 64] - pressure_table[k]);
        float right = pressure_table[k + 1] + w * (pressure_table[k + 65] - pressure_table[k + 1]);
        temperature[cell] = t;
        pressure[cell] = left + (t - (int)t) * (right - left);
    }
}
