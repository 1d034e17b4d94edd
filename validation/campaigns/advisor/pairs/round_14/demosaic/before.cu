// Photography: colours of all pixels from a Bayer sensor (RGGB), green along the weaker gradient.
__device__ float cross_green(const float *at, int width)
{
    float across = fabsf(at[-1] - at[1]) + fabsf(2.0f * at[0] - at[-2] - at[2]);
    float along = fabsf(at[-width] - at[width]) + fabsf(2.0f * at[0] - at[-2 * width] - at[2 * width]);
    return across < along ? 0.5f * (at[-1] + at[1]) + 0.25f * (2.0f * at[0] - at[-2] - at[2])
                          : 0.5f * (at[-width] + at[width]) + 0.25f * (2.0f * at[0] - at[-2 * width] - at[2 * width]);
}

__device__ float corners(const float *at, int width)
{
    return 0.25f * (at[-width - 1] + at[-width + 1] + at[width - 1] + at[width + 1]);
}

extern "C" __global__ void demosaic(const float *raw, float *red_out, float *green_out, float *blue_out, int width,
                                    int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 2 || y < 2 || x >= width - 2 || y >= height - 2)
        return;
    const float *at = raw + y * width + x;
    float red, green, blue;
    if ((y & 1) == 0 && (x & 1) == 0) {
        red = at[0];
        green = cross_green(at, width);
        blue = corners(at, width);
    } else if ((y & 1) == 1 && (x & 1) == 1) {
        blue = at[0];
        green = cross_green(at, width);
        red = corners(at, width);
    } else if ((y & 1) == 0) {
        green = at[0];
        red = 0.5f * (at[-1] + at[1]);
        blue = 0.5f * (at[-width] + at[width]);
    } else {
        green = at[0];
        red = 0.5f * (at[-width] + at[width]);
        blue = 0.5f * (at[-1] + at[1]);
    }
    red_out[y * width + x] = red;
    green_out[y * width + x] = green;
    blue_out[y * width + x] = blue;
}
