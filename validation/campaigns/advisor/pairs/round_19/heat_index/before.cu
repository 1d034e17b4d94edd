// Climate services: apparent temperature of every station and hour.
// Records are stored station after station: field[station][hour].
__device__ float vapour_pressure(float celsius, float humidity)
{
    return humidity * 0.01f * 6.105f * expf(17.27f * celsius / (237.7f + celsius));
}

extern "C" __global__ void heat_index(const float *__restrict__ temperature,
                                      const float *__restrict__ humidity,
                                      const float *__restrict__ wind,
                                      float *__restrict__ apparent,
                                      int stations, int hours)
{
    int station = blockIdx.x * blockDim.x + threadIdx.x;
    int hour = blockIdx.y * blockDim.y + threadIdx.y;
    if (station >= stations || hour >= hours)
        return;

    int i = station * hours + hour;
    float t = temperature[i];
    float e = vapour_pressure(t, humidity[i]);
    apparent[i] = t + 0.33f * e - 0.70f * wind[i] - 4.0f;
}
