// RMS and peak of each window of a multi-channel ECG recording. Windows lie
// one after the other: samples[window][sample].
extern "C" __global__ void ecg_rms(const float *samples,
                                   float *rms,
                                   float *peak,
                                   int windows,
                                   int length)
{
    int w = blockIdx.x * blockDim.x + threadIdx.x;
    if (w >= windows)
        return;
    const float *x = samples + (size_t)w * length;

    float sum = 0.0f, energy = 0.0f, top = 0.0f;
    for (int i = 0; i < length; ++i) {
        float v = x[i];
        sum += v;
        energy += v * v;
        top = fmaxf(top, fabsf(v));
    }
    float mean = sum / length;
    rms[w] = sqrtf(fmaxf(energy / length - mean * mean, 0.0f));
    peak[w] = top;
}
