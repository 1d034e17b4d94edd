// Combustion: one time step of a one-step reaction in every cell. Stiff cells take many small steps, the others a few.
// `order` lists the cells that are not stiff, then those that are.
extern "C" __global__ void react(const float *temperature, const float *fuel, const int *stiff, float *temperature_out,
                                 float *fuel_out, int cells, float dt, const int *order)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= cells)
        return;
    int i = order[at];
    float t = temperature[i], y = fuel[i];
    int steps = stiff[i] ? 16 : 2;
    float h = dt / steps;
    for (int s = 0; s < steps; s++) {
        float rate = 4.0e3f * y * expf(-9000.0f / t);
        y -= h * rate;
        t += h * 1500.0f * rate;
    }
    temperature_out[i] = t;
    fuel_out[i] = y;
}
