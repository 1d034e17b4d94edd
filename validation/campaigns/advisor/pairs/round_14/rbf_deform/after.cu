// Mesh deformation: displacement of every node by radial basis functions (thin-plate-like, compact support).
#define MOST 256

extern "C" __global__ void rbf_deform(const float *node_x, const float *node_y, const float *node_z,
                                      const float4 *centres, const float4 *weights, float *shift_x, float *shift_y,
                                      float *shift_z, int count, float inv_radius)
{
    __shared__ float4 centre[MOST], weight[MOST];
    for (int k = threadIdx.x; k < count; k += blockDim.x) {
        centre[k] = centres[k];
        weight[k] = weights[k];
    }
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = node_x[i], y = node_y[i], z = node_z[i];
    float sx = shift_x[i], sy = shift_y[i], sz = shift_z[i];
    for (int k = 0; k < count; k++) {
        float4 c = centre[k], w = weight[k];
        float dx = x - c.x, dy = y - c.y, dz = z - c.z;
        float r = sqrtf(dx * dx + dy * dy + dz * dz) * inv_radius;
        float t = fmaxf(1.0f - r, 0.0f);
        float phi = t * t * t * t * (4.0f * r + 1.0f);
        sx += phi * w.x;
        sy += phi * w.y;
        sz += phi * w.z;
    }
    shift_x[i] = sx;
    shift_y[i] = sy;
    shift_z[i] = sz;
}
