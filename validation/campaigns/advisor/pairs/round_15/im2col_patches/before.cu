// im2col: the patches of images (batch, channels, height, width) as columns for a convolution by matrix product,
// columns[batch][channel][ky][kx][oy][ox]; the border is zero.
struct Conv {
    int batch, channels, height, width;
    int kernel, pad, stride;
    int out_height, out_width;
};

extern "C" __global__ void im2col(const float *__restrict__ images, float *__restrict__ columns, Conv c)
{
    const size_t oh = c.out_height, ow = c.out_width, k = c.kernel;
    const size_t total = (size_t)c.batch * c.channels * k * k * oh * ow;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += (size_t)blockDim.x * gridDim.x) {
        const size_t ox = i % ow;
        const size_t oy = i / ow % oh;
        const size_t kx = i / (ow * oh) % k;
        const size_t ky = i / (ow * oh * k) % k;
        const size_t plane = i / (ow * oh * k * k);
        const int x = (int)(ox * c.stride + kx) - c.pad;
        const int y = (int)(oy * c.stride + ky) - c.pad;
        float value = 0.0f;
        if (x >= 0 && x < c.width && y >= 0 && y < c.height)
            value = images[(plane * c.height + y) * c.width + x];
        columns[i] = value;
    }
}
