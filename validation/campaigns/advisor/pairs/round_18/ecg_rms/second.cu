// RMS and peak of each window of a multi-channel ECG recording. Windows lie
// one after the other: samples[window][sample].
extern "C" __global__ void ecg_rms(const float *samples,
                                   float *rms,
                                   float *peak,
                                   int windows,
                                   int length)
{
    // one warp a window, lanes read neighbouring samples
    int w = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (w >= windows)
        return;
    const float *x = samples + (size_t)w * length;

    float sum = 0.0f, energy = 0.0f, top = 0.0f;
    #pragma unroll 8
    for (int i = lane; i < length; i += 32) {
        float v = x[i];
        sum += v;
        energy += v * v;
        top = fmaxf(top, fabsf(v));
    }
    for (int d = 16; d > 0; d >>= 1) {
        sum += __shfl_down_sync(0xffffffffu, sum, d);
        energy += __shfl_down_sync(0xffffffffu, energy, d);
        top = fmaxf(top, __shfl_down_sync(0xffffffffu, top, d));
    }
    if (lane == 0) {
        float mean = sum / length;
        rms[w] = sqrtf(fmaxf(energy / length - mean * mean, 0.0f));
        peak[w] = top;
    }
}
