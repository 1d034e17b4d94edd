// Motion estimation: one block for each macroblock of 16 x 16 pixels, one thread for each displacement of
// -8 to 7 in both directions. The reference frame has a border of 8 pixels on each side.
#define EDGE 16
#define REACH 8

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
    if (displacement == 0)
        smallest = 0x7fffffff;
    __syncthreads();

    const unsigned char *from = reference + (y0 + threadIdx.y) * pitch + x0 + threadIdx.x;
    int sum = 0;
    for (int y = 0; y < EDGE; y++)
        for (int x = 0; x < EDGE; x++)
            sum += abs((int)current[(y0 + y) * width + x0 + x] - (int)from[y * pitch + x]);

    sums[macroblock * EDGE * EDGE + displacement] = sum;
    atomicMin(&smallest, sum << 8 | displacement);
    __syncthreads();
    if (displacement == 0)
        best[macroblock] = smallest;
}
