// Terrain analysis: by how many standard deviations a cell of an elevation model lies above its neighbourhood.
#define RADIUS 4

extern "C" __global__ void terrain_deviation(const float *elevation, float *deviation, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    float base = elevation[y * width + x];
    float sum = 0.0f, squares = 0.0f;
    for (int dy = -RADIUS; dy <= RADIUS; dy++) {
        int row = min(max(y + dy, 0), height - 1) * width;
        for (int dx = -RADIUS; dx <= RADIUS; dx++) {
            int column = min(max(x + dx, 0), width - 1);
            float difference = elevation[row + column] - base;
            sum += difference;
            squares += difference * difference;
        }
    }
    const float count = (2 * RADIUS + 1) * (2 * RADIUS + 1);
    float mean = sum / count;
    float variance = squares / count - mean * mean;
    deviation[y * width + x] = -mean / sqrtf(fmaxf(variance, 1e-6f));
}
