// Matrix-vector product of 8-bit weights with an 8-bit activation; 32 weights of a row share a scale.
// One warp for each row.
#define GROUP 32

extern "C" __global__ void q8_matvec(const signed char *__restrict__ weights, const float *__restrict__ scales,
                                     const signed char *__restrict__ x, float *__restrict__ y, float x_scale,
                                     int rows, int columns)
{
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const int lane = threadIdx.x % 32;
    if (row >= rows)
        return;

    const signed char *w = weights + (size_t)row * columns;
    const float *scale = scales + (size_t)row * (columns / GROUP);
    float sum = 0.0f;
    for (int column = lane * 4; column < columns; column += 128) {
        const char4 four = *reinterpret_cast<const char4 *>(w + column);
        const char4 by = *reinterpret_cast<const char4 *>(x + column);
        const int product = four.x * by.x + four.y * by.y + four.z * by.z + four.w * by.w;
        sum += scale[column / GROUP] * (float)product;
    }

    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (lane == 0)
        y[row] = sum * x_scale;
}
