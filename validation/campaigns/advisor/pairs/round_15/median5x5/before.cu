// Median filter, 5 x 5, of a 16-bit image; the border repeats.
#define RADIUS 2
#define SIDE (2 * RADIUS + 1)
#define COUNT (SIDE * SIDE)

extern "C" __global__ void median5x5(const unsigned short *__restrict__ in, unsigned short *__restrict__ out,
                                     int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;

    unsigned short window[COUNT];
    int n = 0;
    for (int dy = -RADIUS; dy <= RADIUS; dy++)
        for (int dx = -RADIUS; dx <= RADIUS; dx++) {
            int sx = min(max(x + dx, 0), width - 1);
            int sy = min(max(y + dy, 0), height - 1);
            window[n++] = in[sy * width + sx];
        }

    // insertion sort
    for (int i = 1; i < COUNT; i++) {
        unsigned short value = window[i];
        int j = i - 1;
        while (j >= 0 && window[j] > value) {
            window[j + 1] = window[j];
            j--;
        }
        window[j + 1] = value;
    }
    out[y * width + x] = window[COUNT / 2];
}
