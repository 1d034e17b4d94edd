// Flow cytometry: density plot of the events inside a rectangular gate, over
// two logarithmic channels.
#define BINS 32

struct Gate {
    float low_x, high_x, low_y, high_y;
};

__device__ bool inside(const Gate &g, float x, float y)
{
    return x >= g.low_x && x < g.high_x && y >= g.low_y && y < g.high_y;
}

extern "C" __global__ void cytometry_gate(const float *__restrict__ forward,
                                          const float *__restrict__ side,
                                          int *__restrict__ density, int events,
                                          float low, float high)
{
    Gate gate = {low, high, low, high};
    float per_bin = BINS / __log2f(high / low);
    int stride = gridDim.x * blockDim.x;

    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < events; i += stride) {
        float x = forward[i], y = side[i];
        if (!inside(gate, x, y))
            continue;
        int bx = min((int)(__log2f(x / low) * per_bin), BINS - 1);
        int by = min((int)(__log2f(y / low) * per_bin), BINS - 1);
        atomicAdd(&density[by * BINS + bx], 1);
    }
}
