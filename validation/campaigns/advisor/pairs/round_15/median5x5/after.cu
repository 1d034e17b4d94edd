// Median filter, 5 x 5, of a 16-bit image; the border repeats. Forgetful selection: of the 14 first values the least
// and the greatest cannot be the median, so they give way to the next value, and so on. All indices are known to the
// compiler, so the values stay in registers.
#define RADIUS 2
#define SIDE (2 * RADIUS + 1)
#define COUNT (SIDE * SIDE)
#define KEPT (COUNT / 2 + 2)

__device__ __forceinline__ void order(int &a, int &b)
{
    const int least = min(a, b);
    b = max(a, b);
    a = least;
}

extern "C" __global__ void median5x5(const unsigned short *__restrict__ in, unsigned short *__restrict__ out,
                                     int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;

    int window[COUNT];
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
        int sx = min(max(x + k % SIDE - RADIUS, 0), width - 1);
        int sy = min(max(y + k / SIDE - RADIUS, 0), height - 1);
        window[k] = in[sy * width + sx];
    }

    // window[k .. KEPT - 1] are in play: least to the front, greatest to the back, which the next value replaces
#pragma unroll
    for (int k = 0; k < COUNT - KEPT + 1; k++) {
#pragma unroll
        for (int i = KEPT - 1; i > k; i--)
            order(window[k], window[i]);
#pragma unroll
        for (int i = k + 1; i < KEPT - 1; i++)
            order(window[i], window[KEPT - 1]);
        if (KEPT + k < COUNT)
            window[KEPT - 1] = window[KEPT + k];
    }
    out[y * width + x] = window[KEPT - 2];
}
