// Face detection: integral images of 32 x 32 windows, as the features of a
// boosted cascade need them. One warp builds the integral image of a window.
#define SIDE 32

extern "C" __global__ void integral_tiles(const float *__restrict__ image,
                                          float *__restrict__ integral,
                                          int width, int height)
{
    __shared__ float window[SIDE][SIDE + 1];
    int lane = threadIdx.x;
    int x = blockIdx.x * SIDE + lane;
    int y0 = blockIdx.y * SIDE;

    for (int r = 0; r < SIDE; ++r)
        window[r][lane] = image[(y0 + r) * width + x];
    __syncwarp();

    // sums along the rows: a lane for each row
    float sum = 0.0f;
    for (int c = 0; c < SIDE; ++c) {
        sum += window[lane][c];
        window[lane][c] = sum;
    }
    __syncwarp();

    // sums along the columns, stored on the way
    sum = 0.0f;
    for (int r = 0; r < SIDE; ++r) {
        sum += window[r][lane];
        integral[(y0 + r) * width + x] = sum;
    }
}
