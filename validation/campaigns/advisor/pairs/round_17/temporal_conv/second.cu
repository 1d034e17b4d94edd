// Speech synthesis: causal dilated convolution over time with three taps, from all input channels to all
// output channels, with bias and leaky rectification. A thread takes one time step of four output
// channels, so that it loads the input once for all four.
extern "C" __global__ void temporal_conv(const float *__restrict__ input, const float *__restrict__ weight,
                                         const float *__restrict__ bias, float *__restrict__ output,
                                         int length, int in_channels, int out_channels, int dilation)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    const int each = 4;
    int channel = blockIdx.y * each;
    if (t >= length)
        return;
    const float *x = input + (size_t)blockIdx.z * in_channels * length;
    const float *w[each];
    float sum[each];
#pragma unroll
    for (int k = 0; k < each; k++) {
        int valid = min(channel + k, out_channels - 1);
        w[k] = weight + valid * in_channels * 3;
        sum[k] = bias[valid];
    }
    bool has1 = t >= dilation, has2 = t >= 2 * dilation;
    for (int c = 0; c < in_channels; c++) {
        float now = x[c * length + t];
        float past = has1 ? x[c * length + t - dilation] : 0.0f;
        float older = has2 ? x[c * length + t - 2 * dilation] : 0.0f;
#pragma unroll
        for (int k = 0; k < each; k++)
            sum[k] += w[k][c * 3] * older + w[k][c * 3 + 1] * past + w[k][c * 3 + 2] * now;
    }
#pragma unroll
    for (int k = 0; k < each; k++)
        if (channel + k < out_channels) {
            size_t at = ((size_t)blockIdx.z * out_channels + channel + k) * length + t;
            output[at] = sum[k] > 0.0f ? sum[k] : 0.1f * sum[k];
        }
}
