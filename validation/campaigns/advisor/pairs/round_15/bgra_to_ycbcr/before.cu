// Colour conversion: packed BGRA to three planes Y, Cb, Cr (BT.709, full range), in integers.
__device__ __forceinline__ unsigned char clamp_byte(int v)
{
    return v < 0 ? 0 : (v > 255 ? 255 : v);
}

extern "C" __global__ void bgra_to_ycbcr(const unsigned char *__restrict__ bgra, unsigned char *__restrict__ luma,
                                         unsigned char *__restrict__ cb, unsigned char *__restrict__ cr, int width,
                                         int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int i = y * width + x;

    int b = bgra[4 * i + 0];
    int g = bgra[4 * i + 1];
    int r = bgra[4 * i + 2];
    luma[i] = clamp_byte((13933 * r + 46871 * g + 4732 * b + 32768) >> 16);
    cb[i] = clamp_byte(((-7509 * r - 25259 * g + 32768 * b + 32768) >> 16) + 128);
    cr[i] = clamp_byte(((32768 * r - 29763 * g - 3005 * b + 32768) >> 16) + 128);
}
