// Machine learning: image to columns, before a convolution as a matrix product; columns are [c][ky][kx][oy][ox].
extern "C" __global__ void im2col(const float *image, float *columns, int channels, int height, int width,
                                  int kernel, int pad, int out_height, int out_width)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= channels * kernel * kernel * out_height * out_width)
        return;
    int ox = index % out_width;
    int oy = index / out_width % out_height;
    int kx = index / (out_width * out_height) % kernel;
    int ky = index / (out_width * out_height * kernel) % kernel;
    int c = index / (out_width * out_height * kernel * kernel);
    int y = oy + ky - pad, x = ox + kx - pad;
    bool inside = y >= 0 && y < height && x >= 0 && x < width;
    columns[index] = inside ? image[(c * height + y) * width + x] : 0.0f;
}
