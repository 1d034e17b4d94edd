// Agriculture: soil-adjusted vegetation index of a satellite scene, from the
// red and near infrared bands as bytes, scaled to a byte for display.
typedef unsigned char byte;

__device__ byte soil_adjusted(byte red, byte infrared, float soil)
{
    float r = red * (1.0f / 255.0f);
    float n = infrared * (1.0f / 255.0f);
    float v = __fdividef((n - r) * (1.0f + soil), n + r + soil);
    return (byte)(fminf(fmaxf(v, 0.0f), 1.0f) * 255.0f);
}

// four pixels packed into a word
__device__ unsigned four_pixels(unsigned red, unsigned infrared, float soil)
{
    unsigned packed = 0;
#pragma unroll
    for (int b = 0; b < 32; b += 8)
        packed |= (unsigned)soil_adjusted(red >> b, infrared >> b, soil) << b;
    return packed;
}

extern "C" __global__ void vegetation_index(const byte *__restrict__ red,
                                            const byte *__restrict__ infrared,
                                            byte *__restrict__ index,
                                            int pixels, float soil)
{
    int stride = gridDim.x * blockDim.x;
    int first = blockIdx.x * blockDim.x + threadIdx.x;

    // eight pixels at a time
    int eights = pixels / 8;
    for (int i = first; i < eights; i += stride) {
        uint2 r = ((const uint2 *)red)[i];
        uint2 n = ((const uint2 *)infrared)[i];
        ((uint2 *)index)[i] = make_uint2(four_pixels(r.x, n.x, soil),
                                         four_pixels(r.y, n.y, soil));
    }

    // the pixels left over
    for (int i = 8 * eights + first; i < pixels; i += stride)
        index[i] = soil_adjusted(red[i], infrared[i], soil);
}
