// Ocean model: implicit vertical mixing of a tracer. Every column of 32 levels is one tridiagonal system,
// solved by parallel cyclic reduction with a thread for each level; the levels of a column are the lanes of a
// warp.
extern "C" __global__ void vertical_mixing(const float *tracer, const float *mixing, const float *thickness,
                                           float *mixed, int columns, float dt)
{
    const unsigned int ALL = 0xffffffffu;
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

    // beyond the ends a lane gets its own values, but there a or e is zero and so is the factor
    for (int step = 1; step < 32; step *= 2) {
        float inverse = 1.0f / b;
        float above = -a * __shfl_up_sync(ALL, inverse, step);
        float below = -e * __shfl_down_sync(ALL, inverse, step);
        float a_next = above * __shfl_up_sync(ALL, a, step);
        float e_next = below * __shfl_down_sync(ALL, e, step);
        b += above * __shfl_up_sync(ALL, e, step) + below * __shfl_down_sync(ALL, a, step);
        d += above * __shfl_up_sync(ALL, d, step) + below * __shfl_down_sync(ALL, d, step);
        a = a_next;
        e = e_next;
    }
    mixed[at] = d / b;
}
