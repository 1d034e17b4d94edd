// Motion estimation: one block for each macroblock of 16 x 16 pixels, one thread for each displacement of
// -8 to 7 in both directions. The reference frame has a border of 8 pixels on each side.
#define EDGE 16
#define REACH 8
#define WINDOW (EDGE + 2 * REACH)

extern "C" __global__ void sad_search(const unsigned char *__restrict__ current,
                                      const unsigned char *__restrict__ reference, int *__restrict__ sums,
                                      int *__restrict__ best, int width)
{
    const int pitch = width + 2 * REACH;
    const int x0 = blockIdx.x * EDGE;
    const int y0 = blockIdx.y * EDGE;
    const int macroblock = blockIdx.y * gridDim.x + blockIdx.x;
    const int displacement = threadIdx.y * EDGE + threadIdx.x;

    __shared__ int smallest;
    __shared__ unsigned char tile[EDGE][EDGE];
    __shared__ unsigned char window[WINDOW][WINDOW];
    if (displacement == 0)
        smallest = 0x7fffffff;
    tile[threadIdx.y][threadIdx.x] = current[(y0 + threadIdx.y) * width + x0 + threadIdx.x];
    for (int i = displacement; i < WINDOW * WINDOW; i += EDGE * EDGE)
        window[i / WINDOW][i % WINDOW] = reference[(y0 + i / WINDOW) * pitch + x0 + i % WINDOW];
    __syncthreads();

    int sum = 0;
    for (int y = 0; y < EDGE; y++)
        for (int x = 0; x < EDGE; x++)
            sum += abs((int)tile[y][x] - (int)window[threadIdx.y + y][threadIdx.x + x]);

    sums[macroblock * EDGE * EDGE + displacement] = sum;
    atomicMin(&smallest, sum << 8 | displacement);
    __syncthreads();
    if (displacement == 0)
        best[macroblock] = smallest;
}
