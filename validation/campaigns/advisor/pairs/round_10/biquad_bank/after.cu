// Audio: a bank of low-pass biquads, one thread a channel. Samples of all channels lie side by side.
extern "C" __global__ void biquads(const float *in, float *out, const float *cutoff, const float *quality, int channels,
                                   int samples, float rate)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= channels)
        return;
    float w = 6.2831853f * cutoff[c] / rate;
    float cosw = cosf(w);
    float alpha = sinf(w) / (2.0f * quality[c]);
    float norm = 1.0f / (1.0f + alpha);
    float b0 = 0.5f * (1.0f - cosw) * norm;
    float b1 = (1.0f - cosw) * norm;
    float a1 = -2.0f * cosw * norm;
    float a2 = (1.0f - alpha) * norm;
    float x1 = 0.0f, x2 = 0.0f, y1 = 0.0f, y2 = 0.0f;
    for (int s = 0; s < samples; s++) {
        float x = in[s * channels + c];
        float y = b0 * x + b1 * x1 + b0 * x2 - a1 * y1 - a2 * y2;
        x2 = x1;
        x1 = x;
        y2 = y1;
        y1 = y;
        out[s * channels + c] = y;
    }
}
