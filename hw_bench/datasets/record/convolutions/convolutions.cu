// Convolutions of a square image with a square mask, results clamped to 0 to 1 in double precision. Written from the kernels that
// R100001/Programming-Massively-Parallel-Processors measured. The mask's width is an argument there, and so it is here: each
// kernel takes all widths and uses its own.

#define PARAMETERS const float *image, const float *mask, float *result, int side, int w3, int w5, int w7, int w9, int w11

__constant__ float fixed_mask[121];

__device__ float clamped(float value) { return fmin(fmax((double)value, 0.0), 1.0); }

__device__ void along_a_line(const float *line, const float *mask, float *result, int count, int width)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count)
        return;
    int first = at - width / 2;
    float sum = 0;
    for (int k = 0; k < width; ++k)
        if (first + k >= 0 && first + k < count)
            sum += line[first + k] * mask[k];
    result[at] = clamped(sum);
}

__device__ void from_memory(const float *image, const float *mask, float *result, int side, int width)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= side || column >= side)
        return;
    int top = row - width / 2, left = column - width / 2;
    float sum = 0;
    for (int k = 0; k < width; ++k)
        for (int l = 0; l < width; ++l)
            if (top + k >= 0 && top + k < side && left + l >= 0 && left + l < side)
                sum += image[(top + k) * side + left + l] * mask[k * width + l];
    result[row * side + column] = clamped(sum);
}

// A block reads its square once; only its inner threads have all neighbours and give a result.
__device__ void tiled(const float *image, float *result, int side, int width)
{
    extern __shared__ float tile[];
    int rows = blockDim.y - width + 1, columns = blockDim.x - width + 1;
    int y = threadIdx.y, x = threadIdx.x;
    int row = blockIdx.y * rows + y, column = blockIdx.x * columns + x;
    int from_row = row - width / 2, from_column = column - width / 2;
    bool inside = from_row >= 0 && from_row < side && from_column >= 0 && from_column < side;
    tile[y * blockDim.x + x] = inside ? image[from_row * side + from_column] : 0;
    __syncthreads();
    if (y < rows && x < columns && row < side && column < side) {
        float sum = 0;
        for (int k = 0; k < width; ++k)
            for (int l = 0; l < width; ++l)
                sum += tile[(y + k) * blockDim.x + x + l] * fixed_mask[k * width + l];
        result[row * side + column] = clamped(sum);
    }
}

#define KERNELS(WIDTH)                                                                                                      \
    extern "C" __global__ void line_##WIDTH(PARAMETERS) { along_a_line(image, mask, result, side * side, w##WIDTH); }       \
    extern "C" __global__ void memory_##WIDTH(PARAMETERS) { from_memory(image, mask, result, side, w##WIDTH); }             \
    extern "C" __global__ void constant_##WIDTH(PARAMETERS) { from_memory(image, fixed_mask, result, side, w##WIDTH); }     \
    extern "C" __global__ void tiled_##WIDTH(PARAMETERS) { tiled(image, result, side, w##WIDTH); }

KERNELS(3)
KERNELS(5)
KERNELS(7)
KERNELS(9)
KERNELS(11)
