// Speech synthesis: causal dilated convolution over time with three taps, from all input channels to all
// output channels, with bias and leaky rectification. A thread takes one time step of four output channels,
// so that each sample it reads serves four times. The number of output channels is a multiple of four.
extern "C" __global__ void temporal_conv(const float *__restrict__ input, const float *__restrict__ weight,
                                         const float *__restrict__ bias, float *__restrict__ output,
                                         int length, int in_channels, int out_channels, int dilation)
{
    const int outputs = 4;
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int channel = blockIdx.y * outputs;
    if (t >= length)
        return;
    const float *x = input + (size_t)blockIdx.z * in_channels * length;
    const float *w = weight + channel * in_channels * 3;
    float sum[outputs];
#pragma unroll
    for (int o = 0; o < outputs; o++)
        sum[o] = bias[channel + o];
    bool has1 = t >= dilation, has2 = t >= 2 * dilation;
    for (int c = 0; c < in_channels; c++) {
        float now = x[c * length + t];
        float past = has1 ? x[c * length + t - dilation] : 0.0f;
        float older = has2 ? x[c * length + t - 2 * dilation] : 0.0f;
#pragma unroll
        for (int o = 0; o < outputs; o++) {
            const float *tap = w + (o * in_channels + c) * 3;
            sum[o] += tap[0] * older + tap[1] * past + tap[2] * now;
        }
    }
    size_t at = ((size_t)blockIdx.z * out_channels + channel) * length + t;
#pragma unroll
    for (int o = 0; o < outputs; o++)
        output[at + (size_t)o * length] = sum[o] > 0.0f ? sum[o] : 0.1f * sum[o];
}
