// im2col: the patches of images (batch, channels, height, width) as columns for a convolution by matrix product,
// columns[batch][channel][ky][kx][oy][ox]; the border is zero. Indices have 32 bits, and a thread writes all entries of
// a patch in a channel, so it divides twice for kernel * kernel entries.
struct Conv {
    int batch, channels, height, width;
    int kernel, pad, stride;
    int out_height, out_width;
};

extern "C" __global__ void im2col(const float *__restrict__ images, float *__restrict__ columns, Conv c)
{
    const unsigned area = c.out_height * c.out_width;
    const unsigned total = c.batch * c.channels * area;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += blockDim.x * gridDim.x) {
        const unsigned plane = i / area;
        const unsigned at = i - plane * area;
        const unsigned oy = at / c.out_width;
        const unsigned ox = at - oy * c.out_width;
        const int x0 = (int)ox * c.stride - c.pad;
        const int y0 = (int)oy * c.stride - c.pad;
        const float *image = images + plane * c.height * c.width;
        float *column = columns + plane * c.kernel * c.kernel * area + at;
        for (int ky = 0; ky < c.kernel; ky++)
            for (int kx = 0; kx < c.kernel; kx++) {
                const int x = x0 + kx, y = y0 + ky;
                const bool inside = x >= 0 && x < c.width && y >= 0 && y < c.height;
                *column = inside ? image[y * c.width + x] : 0.0f;
                column += area;
            }
    }
}
