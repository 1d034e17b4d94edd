// Graph learning: mean of the neighbours' features (64 numbers a node). 16 threads a node, four features each.
#define FEATURES 64

extern "C" __global__ void aggregate(const float *features, const int *row_start, const int *neighbour, float *mean, int nodes)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int node = t / 16, f = t % 16 * 4;
    if (node >= nodes)
        return;
    float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
    int first = row_start[node], last = row_start[node + 1];
    for (int e = first; e < last; e++) {
        const float *x = features + neighbour[e] * FEATURES + f;
        s0 += x[0];
        s1 += x[1];
        s2 += x[2];
        s3 += x[3];
    }
    float scale = 1.0f / max(last - first, 1);
    float *to = mean + node * FEATURES + f;
    to[0] = s0 * scale;
    to[1] = s1 * scale;
    to[2] = s2 * scale;
    to[3] = s3 * scale;
}
