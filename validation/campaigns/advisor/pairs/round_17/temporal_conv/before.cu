// Speech synthesis: causal dilated convolution over time with three taps, from all input channels to all
// output channels, with bias and leaky rectification. A thread takes one time step of one output channel.
extern "C" __global__ void temporal_conv(const float *__restrict__ input, const float *__restrict__ weight,
                                         const float *__restrict__ bias, float *__restrict__ output,
                                         int length, int in_channels, int out_channels, int dilation)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int channel = blockIdx.y;
    if (t >= length)
        return;
    const float *x = input + (size_t)blockIdx.z * in_channels * length;
    const float *w = weight + channel * in_channels * 3;
    float sum = bias[channel];
    bool has1 = t >= dilation, has2 = t >= 2 * dilation;
    for (int c = 0; c < in_channels; c++) {
        float now = x[c * length + t];
        float past = has1 ? x[c * length + t - dilation] : 0.0f;
        float older = has2 ? x[c * length + t - 2 * dilation] : 0.0f;
        sum += w[c * 3] * older + w[c * 3 + 1] * past + w[c * 3 + 2] * now;
    }
    size_t at = ((size_t)blockIdx.z * out_channels + channel) * length + t;
    output[at] = sum > 0.0f ? sum : 0.1f * sum;
}
