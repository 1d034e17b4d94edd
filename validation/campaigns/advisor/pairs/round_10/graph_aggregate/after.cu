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
        float4 x = *reinterpret_cast<const float4 *>(features + neighbour[e] * FEATURES + f);
        s0 += x.x;
        s1 += x.y;
        s2 += x.z;
        s3 += x.w;
    }
    float scale = 1.0f / max(last - first, 1);
    *reinterpret_cast<float4 *>(mean + node * FEATURES + f) = make_float4(s0 * scale, s1 * scale, s2 * scale, s3 * scale);
}
