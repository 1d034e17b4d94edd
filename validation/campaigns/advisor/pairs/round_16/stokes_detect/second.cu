// Radio telescope backend: detects the four Stokes parameters from 8-bit complex voltages of two
// polarisations and integrates them over a number of samples. A sample is X real, X imaginary, Y real, Y
// imaginary.
extern "C" __global__ void stokes_detect(const signed char *voltages, float4 *stokes, int channels,
                                         int samples, float scale)
{
    int channel = blockIdx.x * blockDim.x + threadIdx.x;
    if (channel >= channels)
        return;
    int first = blockIdx.y * samples;
    int xx = 0, yy = 0, re = 0, im = 0;
    for (int t = first; t < first + samples; t++) {
        char4 v = reinterpret_cast<const char4 *>(voltages)[(long long)t * channels + channel];
        int xr = v.x, xi = v.y, yr = v.z, yi = v.w;
        xx += xr * xr + xi * xi;
        yy += yr * yr + yi * yi;
        re += xr * yr + xi * yi;
        im += xi * yr - xr * yi;
    }
    stokes[blockIdx.y * channels + channel] =
        make_float4(scale * (xx + yy), scale * (xx - yy), scale * (2 * re), scale * (2 * im));
}
