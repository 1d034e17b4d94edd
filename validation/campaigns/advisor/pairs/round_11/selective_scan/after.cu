// The recurrence of a state-space layer: h[t] = a[t] * h[t-1] + b[t], y[t] = c[t] * h[t].
// Arrays are [step][channel]; one thread walks one channel.
extern "C" __global__ void selective_scan(const float *a, const float *b, const float *c, float *y,
                                          int channels, int steps)
{
    const int channel = blockIdx.x * blockDim.x + threadIdx.x;
    if (channel >= channels)
        return;

    float h = 0.0f;
    int t = 0;
    for (; t + 4 <= steps; t += 4) {
        const int at = t * channels + channel;
        float a_now[4], b_now[4], c_now[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            a_now[k] = a[at + k * channels];
            b_now[k] = b[at + k * channels];
            c_now[k] = c[at + k * channels];
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            h = a_now[k] * h + b_now[k];
            y[at + k * channels] = c_now[k] * h;
        }
    }
    for (; t < steps; ++t) {
        const int at = t * channels + channel;
        h = a[at] * h + b[at];
        y[at] = c[at] * h;
    }
}
