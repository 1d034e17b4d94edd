// The same finite impulse response filter for many channels of samples. A channel has TAPS - 1 samples of history
// before its first output. One thread for each output; blockIdx.y is the channel.
#define TAPS 64

__constant__ float taps[TAPS];

extern "C" __global__ void fir_bank(const float *samples, float *filtered, int outputs)
{
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= outputs)
        return;

    const float *channel = samples + (size_t)blockIdx.y * (outputs + TAPS - 1);
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < TAPS; ++k)
        sum += taps[k] * channel[n + TAPS - 1 - k];
    filtered[(size_t)blockIdx.y * outputs + n] = sum;
}
