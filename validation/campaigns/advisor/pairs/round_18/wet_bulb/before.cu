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

    float es = 6.112 * exp(17.67 * t / (t + 243.5));
    float e = rh * es;
    float gamma = 0.00066 * p;

    float tw = t - (1.0 - rh) * 8.0;
    for (int it = 0; it < 4; ++it) {
        float ew = 6.112 * exp(17.67 * tw / (tw + 243.5));
        float f = ew - gamma * (1.0 + 0.00115 * tw) * (t - tw) - e;
        float dew = ew * 17.67 * 243.5 / ((tw + 243.5) * (tw + 243.5));
        float df = dew + gamma * (1.0 + 0.00115 * tw);
        tw -= f / df;
    }
    wetbulb[i] = tw;
}
