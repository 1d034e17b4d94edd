// Terrain analysis: by how many standard deviations a cell of an elevation model lies above its neighbourhood.
#define RADIUS 4
#define TILE_X 32
#define TILE_Y 8

extern "C" __global__ void terrain_deviation(const float *elevation, float *deviation, int width, int height)
{
    __shared__ float tile[TILE_Y + 2 * RADIUS][TILE_X + 2 * RADIUS];
    int left = blockIdx.x * TILE_X - RADIUS;
    int top = blockIdx.y * TILE_Y - RADIUS;
    for (int j = threadIdx.y; j < TILE_Y + 2 * RADIUS; j += TILE_Y) {
        int row = min(max(top + j, 0), height - 1) * width;
        for (int i = threadIdx.x; i < TILE_X + 2 * RADIUS; i += TILE_X)
            tile[j][i] = elevation[row + min(max(left + i, 0), width - 1)];
    }
    __syncthreads();
    int x = blockIdx.x * TILE_X + threadIdx.x;
    int y = blockIdx.y * TILE_Y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    float base = tile[threadIdx.y + RADIUS][threadIdx.x + RADIUS];
    float sum = 0.0f, squares = 0.0f;
    for (int dy = 0; dy <= 2 * RADIUS; dy++) {
        for (int dx = 0; dx <= 2 * RADIUS; dx++) {
            float difference = tile[threadIdx.y + dy][threadIdx.x + dx] - base;
            sum += difference;
            squares += difference * difference;
        }
    }
    const float count = (2 * RADIUS + 1) * (2 * RADIUS + 1);
    float mean = sum / count;
    float variance = squares / count - mean * mean;
    deviation[y * width + x] = -mean / sqrtf(fmaxf(variance, 1e-6f));
}
