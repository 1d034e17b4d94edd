// Wet-bulb temperature of every grid cell by a few Newton steps on the
// psychrometric equation (temperatures in Celsius, pressure in hPa).
extern "C" __global__ void wet_bulb(const float *temperature,
                                    const float *humidity,
                                    const float *pressure,
                                    float *wetbulb,
                                    int cells)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= cells)
        return;

    float t = temperature[i];
    float rh = humidity[i];
    float p = pressure[i];

    float es = 6.112f * expf(17.67f * t / (t + 243.5f));
    float e = rh * es;
    float gamma = 0.00066f * p;

    float tw = t - (1.0f - rh) * 8.0f;
    for (int it = 0; it < 4; ++it) {
        float ew = 6.112f * expf(17.67f * tw / (tw + 243.5f));
        float f = ew - gamma * (1.0f + 0.00115f * tw) * (t - tw) - e;
        float dew = ew * 17.67f * 243.5f / ((tw + 243.5f) * (tw + 243.5f));
        float df = dew + gamma * (1.0f + 0.00115f * tw);
        tw -= f / df;
    }
    wetbulb[i] = tw;
}
