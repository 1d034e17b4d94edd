// Audio: peak limiter of many short clips. The envelope follows the magnitude with an attack and a release, the gain
// holds the envelope below the threshold. A thread has one clip, audio[clip][sample]. A warp brings 32 samples of its
// 32 clips through shared memory, a clip at a time, so that its lanes read and write consecutive words. Clips have a
// multiple of 32 samples.
#define WARPS 4
#define FULL 0xffffffffu

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
    __shared__ float tiles[WARPS][32][33];
    const int lane = threadIdx.x % 32;
    float(*tile)[33] = tiles[threadIdx.x / 32];
    const int first = blockIdx.x * blockDim.x + threadIdx.x - lane;
    if (first >= clips)
        return;
    const int here = min(32, clips - first);
    const float *in = audio + (size_t)first * samples + lane;
    float *out = limited + (size_t)first * samples + lane;

    float envelope = lane < here ? envelopes[first + lane] : 0.0f;
    for (int t = 0; t < samples; t += 32) {
#pragma unroll 8
        for (int c = 0; c < here; c++)
            tile[c][lane] = in[(size_t)c * samples + t];
        __syncwarp(FULL);
        if (lane < here)
#pragma unroll 8
            for (int s = 0; s < 32; s++)
                tile[lane][s] = limit(tile[lane][s], envelope, by);
        __syncwarp(FULL);
#pragma unroll 8
        for (int c = 0; c < here; c++)
            out[(size_t)c * samples + t] = tile[c][lane];
        __syncwarp(FULL);
    }
    if (lane < here)
        envelopes[first + lane] = envelope;
}
