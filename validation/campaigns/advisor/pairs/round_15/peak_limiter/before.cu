// Audio: peak limiter of many short clips. The envelope follows the magnitude with an attack and a release, the gain
// holds the envelope below the threshold. A thread has one clip, audio[clip][sample].
struct Limiter {
    float attack, release;
    float threshold;
    float makeup;
};

__device__ __forceinline__ float limit(float sample, float &envelope, const Limiter &by)
{
    const float level = fabsf(sample);
    envelope += (level > envelope ? by.attack : by.release) * (level - envelope);
    const float gain = envelope > by.threshold ? __fdividef(by.threshold, envelope) : 1.0f;
    return sample * gain * by.makeup;
}

extern "C" __global__ void peak_limiter(const float *__restrict__ audio, float *__restrict__ limited,
                                        float *__restrict__ envelopes, int clips, int samples, Limiter by)
{
    const int clip = blockIdx.x * blockDim.x + threadIdx.x;
    if (clip >= clips)
        return;
    const float *in = audio + (size_t)clip * samples;
    float *out = limited + (size_t)clip * samples;

    float envelope = envelopes[clip];
    for (int t = 0; t < samples; t++)
        out[t] = limit(in[t], envelope, by);
    envelopes[clip] = envelope;
}
