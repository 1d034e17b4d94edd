// Ocean model: implicit vertical mixing of a tracer. Every column of 32 levels is one tridiagonal system,
// solved by parallel cyclic reduction with a lane of a warp for each level.
extern "C" __global__ void vertical_mixing(const float *tracer, const float *mixing, const float *thickness,
                                           float *mixed, int columns, float dt)
{
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
        // A lane whose neighbour lies beyond the column gets its own values back; its a or e is zero then, so
        // that they count for nothing.
        float inverse = 1.0f / b;
        float above = -a * __shfl_up_sync(0xffffffffu, inverse, step);
        float below = -e * __shfl_down_sync(0xffffffffu, inverse, step);
        float a_above = __shfl_up_sync(0xffffffffu, a, step), a_below = __shfl_down_sync(0xffffffffu, a, step);
        float e_above = __shfl_up_sync(0xffffffffu, e, step), e_below = __shfl_down_sync(0xffffffffu, e, step);
        float d_above = __shfl_up_sync(0xffffffffu, d, step), d_below = __shfl_down_sync(0xffffffffu, d, step);
        b += above * e_above + below * a_below;
        d += above * d_above + below * d_below;
        a = above * a_above;
        e = below * e_below;
    }
    mixed[at] = d / b;
}
