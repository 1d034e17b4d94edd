// One half of a Metropolis sweep of a two-dimensional Ising model with periodic borders: the sites of one colour of
// the checkerboard. A spin is 0 or 1. accept[] is the acceptance for each number of aligned neighbours.
__device__ unsigned scramble(unsigned v)
{
    v ^= v >> 16;
    v *= 0x7feb352du;
    v ^= v >> 15;
    v *= 0x846ca68bu;
    v ^= v >> 16;
    return v;
}

extern "C" __global__ void ising_sweep(int *spins, const float *__restrict__ accept, int width, int height,
                                       int colour, unsigned seed)
{
    const int site = blockIdx.x * blockDim.x + threadIdx.x;
    const int half = width / 2;
    if (site >= half * height)
        return;

    const int y = site / half;
    const int x = 2 * (site - y * half) + ((y + colour) & 1);

    const int left = spins[y * width + (x == 0 ? width - 1 : x - 1)];
    const int right = spins[y * width + (x == width - 1 ? 0 : x + 1)];
    const int up = spins[(y == 0 ? height - 1 : y - 1) * width + x];
    const int down = spins[(y == height - 1 ? 0 : y + 1) * width + x];

    const int self = spins[y * width + x];
    const int ones = left + right + up + down;
    const int aligned = self ? ones : 4 - ones;
    const float draw = scramble(seed ^ scramble(site)) * 2.3283064e-10f;
    if (draw < accept[aligned])
        spins[y * width + x] = 1 - self;
}
