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
    int x = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
    int y = 2 * (blockIdx.y * blockDim.y + threadIdx.y);
    if (x < 2 || y < 2 || x >= width - 2 || y >= height - 2)
        return;
    int upper = y * width + x, lower = upper + width;
    const float *at = raw + upper, *below = raw + lower;
    float2 red0 = make_float2(at[0], 0.5f * (at[0] + at[2]));
    float2 red1 = make_float2(0.5f * (at[0] + below[width]), corners(below + 1, width));
    float2 green0 = make_float2(cross_green(at, width), at[1]);
    float2 green1 = make_float2(below[0], cross_green(below + 1, width));
    float2 blue0 = make_float2(corners(at, width), 0.5f * (at[1 - width] + below[1]));
    float2 blue1 = make_float2(0.5f * (below[-1] + below[1]), below[1]);
    *(float2 *)(red_out + upper) = red0;
    *(float2 *)(red_out + lower) = red1;
    *(float2 *)(green_out + upper) = green0;
    *(float2 *)(green_out + lower) = green1;
    *(float2 *)(blue_out + upper) = blue0;
    *(float2 *)(blue_out + lower) = blue1;
}
