// Ecology: a cellular automaton on a torus. Counts the living cells within a square radius and applies birth and survival.
extern "C" __global__ void generation(const unsigned char *alive, unsigned char *next, int width, int height, int radius,
                                      int born_low, int born_high, int stay_low, int stay_high)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int count = 0;
    for (int dy = -radius; dy <= radius; dy++)
        for (int dx = -radius; dx <= radius; dx++) {
            int nx = x + dx, ny = y + dy;
            nx += nx < 0 ? width : nx >= width ? -width : 0;
            ny += ny < 0 ? height : ny >= height ? -height : 0;
            count += alive[ny * width + nx];
        }
    int me = alive[y * width + x];
    count -= me;
    int lives = me ? count >= stay_low && count <= stay_high : count >= born_low && count <= born_high;
    next[y * width + x] = (unsigned char)lives;
}
