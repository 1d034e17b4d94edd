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
    for (int k = 0; k < count; k++) {
        float4 c = centre[k], w = weight[k];
        float dx = node_x[i] - c.x, dy = node_y[i] - c.y, dz = node_z[i] - c.z;
        float r = sqrtf(dx * dx + dy * dy + dz * dz) * inv_radius;
        float t = fmaxf(1.0f - r, 0.0f);
        float phi = t * t * t * t * (4.0f * r + 1.0f);
        shift_x[i] += phi * w.x;
        shift_y[i] += phi * w.y;
        shift_z[i] += phi * w.z;
    }
}
