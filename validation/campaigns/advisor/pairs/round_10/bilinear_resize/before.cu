// Image processing: bilinear resize of a grey image, in a loop over the grid's stride.
extern "C" __global__ void resize(const float *src, float *dst, int src_w, int src_h, int dst_w, int dst_h, float step_x,
                                  float step_y)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < dst_w * dst_h; i += gridDim.x * blockDim.x) {
        int y = i / dst_w, x = i - y * dst_w;
        float fx = fmaxf((x + 0.5f) * step_x - 0.5f, 0.0f);
        float fy = fmaxf((y + 0.5f) * step_y - 0.5f, 0.0f);
        int x0 = (int)fx, y0 = (int)fy;
        int x1 = min(x0 + 1, src_w - 1), y1 = min(y0 + 1, src_h - 1);
        float wx = fx - x0, wy = fy - y0;
        float top = src[y0 * src_w + x0] * (1.0f - wx) + src[y0 * src_w + x1] * wx;
        float bottom = src[y1 * src_w + x0] * (1.0f - wx) + src[y1 * src_w + x1] * wx;
        dst[i] = top * (1.0f - wy) + bottom * wy;
    }
}
