// Machine learning: image to columns, before a convolution as a matrix product; columns are [c][ky][kx][oy][ox].
extern "C" __global__ void im2col(const float *image, float *columns, int channels, int height, int width,
                                  int kernel, int pad, int out_height, int out_width)
{
    int ox = threadIdx.x;
    int oy = blockIdx.x * blockDim.y + threadIdx.y;
    if (ox >= out_width || oy >= out_height)
        return;
    int kx = blockIdx.y % kernel;
    int ky = blockIdx.y / kernel;
    int c = blockIdx.z;
    int column = (c * kernel + ky) * kernel + kx;
    int y = oy + ky - pad, x = ox + kx - pad;
    bool inside = y >= 0 && y < height && x >= 0 && x < width;
    columns[(column * out_height + oy) * out_width + ox] = inside ? image[(c * height + y) * width + x] : 0.0f;
}
