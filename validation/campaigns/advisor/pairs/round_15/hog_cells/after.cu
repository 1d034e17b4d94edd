// Histograms of oriented gradients: 9 unsigned orientations in cells of 8 x 8 pixels; a pixel shares its gradient's
// magnitude between the two nearest bins. A block has 32 x 8 pixels, four cells. Each thread has its own column of
// bins in shared memory; the columns of a cell are summed at the end.
#define CELL 8
#define BINS 9
#define TILE_X 32
#define CELLS_IN_BLOCK (TILE_X / CELL)

extern "C" __global__ void hog_cells(const float *__restrict__ image, float *__restrict__ histograms, int width,
                                     int height)
{
    __shared__ float own[BINS][CELL * TILE_X];
    const int tid = threadIdx.y * TILE_X + threadIdx.x;
#pragma unroll
    for (int b = 0; b < BINS; b++)
        own[b][tid] = 0.0f;

    const int x = blockIdx.x * TILE_X + threadIdx.x;
    const int y = blockIdx.y * CELL + threadIdx.y;
    const float gx = image[y * width + min(x + 1, width - 1)] - image[y * width + max(x - 1, 0)];
    const float gy = image[min(y + 1, height - 1) * width + x] - image[max(y - 1, 0) * width + x];
    const float magnitude = sqrtf(gx * gx + gy * gy);
    float angle = atan2f(gy, gx) * (BINS / 3.14159265f);
    if (angle < 0.0f)
        angle += BINS;

    const float at = angle - 0.5f;
    const float lower = floorf(at);
    const float share = at - lower;
    int bin = (int)lower;
    bin = bin < 0 ? BINS - 1 : min(bin, BINS - 1);
    const int next = bin == BINS - 1 ? 0 : bin + 1;

    own[bin][tid] = magnitude * (1.0f - share);
    own[next][tid] = magnitude * share;
    __syncthreads();

    for (int k = tid; k < BINS * TILE_X; k += CELL * TILE_X) {
        const int b = k / TILE_X, column = k % TILE_X;
        float sum = 0.0f;
#pragma unroll
        for (int row = 0; row < CELL; row++)
            sum += own[b][row * TILE_X + column];
        sum += __shfl_xor_sync(0xffffffffu, sum, 4);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        if (column % CELL == 0) {
            const int cells_x = width / CELL;
            const int to = blockIdx.y * cells_x + blockIdx.x * CELLS_IN_BLOCK + column / CELL;
            histograms[to * BINS + b] = sum;
        }
    }
}
