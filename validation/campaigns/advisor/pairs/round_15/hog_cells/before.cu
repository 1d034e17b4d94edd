// Histograms of oriented gradients: 9 unsigned orientations in cells of 8 x 8 pixels; a pixel shares its gradient's
// magnitude between the two nearest bins. A block has 32 x 8 pixels, four cells.
#define CELL 8
#define BINS 9
#define TILE_X 32
#define CELLS_IN_BLOCK (TILE_X / CELL)

extern "C" __global__ void hog_cells(const float *__restrict__ image, float *__restrict__ histograms, int width,
                                     int height)
{
    __shared__ float hist[CELLS_IN_BLOCK][BINS];
    const int tid = threadIdx.y * TILE_X + threadIdx.x;
    if (tid < CELLS_IN_BLOCK * BINS)
        hist[tid / BINS][tid % BINS] = 0.0f;
    __syncthreads();

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

    const int cell = threadIdx.x / CELL;
    atomicAdd(&hist[cell][bin], magnitude * (1.0f - share));
    atomicAdd(&hist[cell][next], magnitude * share);
    __syncthreads();

    if (tid < CELLS_IN_BLOCK * BINS) {
        const int cells_x = width / CELL;
        const int to = blockIdx.y * cells_x + blockIdx.x * CELLS_IN_BLOCK + tid / BINS;
        histograms[to * BINS + tid % BINS] = hist[tid / BINS][tid % BINS];
    }
}
