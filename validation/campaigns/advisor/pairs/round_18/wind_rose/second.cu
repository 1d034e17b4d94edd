// Wind rose: shares of the eight sectors in the hourly winds of each station
// (u[hour][station], v[hour][station]); calm hours count as none.
extern "C" __global__ void wind_rose(const float *u,
                                     const float *v,
                                     float *share,
                                     int stations,
                                     int hours,
                                     float calm)
{
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= stations)
        return;

    float run[8];
    #pragma unroll
    for (int k = 0; k < 8; ++k)
        run[k] = 0.0f;
    float all = 1e-6f;
    for (int h = 0; h < hours; ++h) {
        float x = u[h * stations + s];
        float y = v[h * stations + s];
        float speed = sqrtf(x * x + y * y);
        speed = speed < calm ? 0.0f : speed;
        int sector = (x < 0.0f) + 2 * (y < 0.0f) + 4 * (fabsf(y) > fabsf(x));
        // constant indices only, so that run stays in registers
        #pragma unroll
        for (int k = 0; k < 8; ++k)
            run[k] += k == sector ? speed : 0.0f;
        all += speed;
    }
    #pragma unroll
    for (int k = 0; k < 8; ++k)
        share[k * stations + s] = run[k] / all;
}
