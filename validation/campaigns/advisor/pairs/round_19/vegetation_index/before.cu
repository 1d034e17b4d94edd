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

extern "C" __global__ void vegetation_index(const byte *__restrict__ red,
                                            const byte *__restrict__ infrared,
                                            byte *__restrict__ index,
                                            int pixels, float soil)
{
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < pixels; i += stride)
        index[i] = soil_adjusted(red[i], infrared[i], soil);
}
