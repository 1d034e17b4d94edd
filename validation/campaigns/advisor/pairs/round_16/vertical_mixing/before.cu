// Ocean model: implicit vertical mixing of a tracer. Every column of 32 levels is one tridiagonal system,
// solved by parallel cyclic reduction with a thread for each level.
extern "C" __global__ void vertical_mixing(const float *tracer, const float *mixing, const float *thickness,
                                           float *mixed, int columns, float dt)
{
    __shared__ float lower[8][32], inverse[8][32], upper[8][32], right[8][32];
    int k = threadIdx.x, c = threadIdx.y;
    int column = blockIdx.x * 8 + c;
    if (column >= columns)
        return;
    int at = column * 32 + k;

    // mixing[at] belongs to the face above the level
    float here = thickness[at];
    float up = k > 0 ? 2.0f * dt * mixing[at] / (here * (here + thickness[at - 1])) : 0.0f;
    float down = k < 31 ? 2.0f * dt * mixing[at + 1] / (here * (here + thickness[at + 1])) : 0.0f;
    float a = -up, b = 1.0f + up + down, e = -down, d = tracer[at];

    for (int step = 1; step < 32; step *= 2) {
        lower[c][k] = a;
        inverse[c][k] = 1.0f / b;
        upper[c][k] = e;
        right[c][k] = d;
        __syncwarp();
        float above = 0.0f, below = 0.0f;
        float a_next = 0.0f, e_next = 0.0f;
        if (k >= step) {
            above = -a * inverse[c][k - step];
            a_next = above * lower[c][k - step];
            b += above * upper[c][k - step];
            d += above * right[c][k - step];
        }
        if (k + step < 32) {
            below = -e * inverse[c][k + step];
            e_next = below * upper[c][k + step];
            b += below * lower[c][k + step];
            d += below * right[c][k + step];
        }
        a = a_next;
        e = e_next;
        __syncwarp();
    }
    mixed[at] = d / b;
}
