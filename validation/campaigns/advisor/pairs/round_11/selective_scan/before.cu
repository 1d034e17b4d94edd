// The recurrence of a state-space layer: h[t] = a[t] * h[t-1] + b[t], y[t] = c[t] * h[t].
// Arrays are [step][channel]; one thread walks one channel.
extern "C" __global__ void selective_scan(const float *a, const float *b, const float *c, float *y,
                                          int channels, int steps)
{
    const int channel = blockIdx.x * blockDim.x + threadIdx.x;
    if (channel >= channels)
        return;

    float h = 0.0f;
    for (int t = 0; t < steps; ++t) {
        const int at = t * channels + channel;
        h = a[at] * h + b[at];
        y[at] = c[at] * h;
    }
}
