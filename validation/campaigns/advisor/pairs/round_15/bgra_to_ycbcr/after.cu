// Colour conversion: packed BGRA to three planes Y, Cb, Cr (BT.709, full range), in integers. A thread has four pixels
// of a row, whose width is a multiple of four: one load of 16 bytes, three stores of 4.
__device__ __forceinline__ unsigned char clamp_byte(int v)
{
    return v < 0 ? 0 : (v > 255 ? 255 : v);
}

__device__ __forceinline__ void convert(unsigned pixel, unsigned char &luma, unsigned char &cb, unsigned char &cr)
{
    int b = pixel & 255, g = pixel >> 8 & 255, r = pixel >> 16 & 255;
    luma = clamp_byte((13933 * r + 46871 * g + 4732 * b + 32768) >> 16);
    cb = clamp_byte(((-7509 * r - 25259 * g + 32768 * b + 32768) >> 16) + 128);
    cr = clamp_byte(((32768 * r - 29763 * g - 3005 * b + 32768) >> 16) + 128);
}

extern "C" __global__ void bgra_to_ycbcr(const unsigned char *__restrict__ bgra, unsigned char *__restrict__ luma,
                                         unsigned char *__restrict__ cb, unsigned char *__restrict__ cr, int width,
                                         int height)
{
    int x = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int i = (y * width + x) / 4;

    const uint4 pixels = reinterpret_cast<const uint4 *>(bgra)[i];
    uchar4 ys, us, vs;
    convert(pixels.x, ys.x, us.x, vs.x);
    convert(pixels.y, ys.y, us.y, vs.y);
    convert(pixels.z, ys.z, us.z, vs.z);
    convert(pixels.w, ys.w, us.w, vs.w);
    reinterpret_cast<uchar4 *>(luma)[i] = ys;
    reinterpret_cast<uchar4 *>(cb)[i] = us;
    reinterpret_cast<uchar4 *>(cr)[i] = vs;
}
