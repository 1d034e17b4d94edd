// Video coding: cosine transform of 8 x 8 pixels and quantisation.
// A block of 128 threads takes 16 such squares side by side.
__device__ void transform(float *v)
{
    float s0 = v[0] + v[7], s1 = v[1] + v[6], s2 = v[2] + v[5], s3 = v[3] + v[4];
    float d0 = v[0] - v[7], d1 = v[1] - v[6], d2 = v[2] - v[5], d3 = v[3] - v[4];
    float e0 = s0 + s3, e1 = s1 + s2, e2 = s0 - s3, e3 = s1 - s2;
    v[0] = 0.35355339f * (e0 + e1);
    v[4] = 0.35355339f * (e0 - e1);
    v[2] = 0.46193977f * e2 + 0.19134172f * e3;
    v[6] = 0.19134172f * e2 - 0.46193977f * e3;
    v[1] = 0.49039264f * d0 + 0.41573481f * d1 + 0.27778512f * d2 + 0.09754516f * d3;
    v[3] = 0.41573481f * d0 - 0.09754516f * d1 - 0.49039264f * d2 - 0.27778512f * d3;
    v[5] = 0.27778512f * d0 - 0.49039264f * d1 + 0.09754516f * d2 + 0.41573481f * d3;
    v[7] = 0.09754516f * d0 - 0.27778512f * d1 + 0.41573481f * d2 - 0.49039264f * d3;
}

extern "C" __global__ void dct_quantise(const unsigned char *luma, const float *quant, short *levels, int width)
{
    __shared__ float tile[16][8][9];
    int unit = threadIdx.x / 8, k = threadIdx.x % 8;
    int at = blockIdx.y * 8 * width + blockIdx.x * 128 + threadIdx.x;
    float v[8];

    for (int r = 0; r < 8; r++)
        tile[unit][r][k] = (float)luma[at + r * width] - 128.0f;
    __syncthreads();

    for (int c = 0; c < 8; c++)
        v[c] = tile[unit][k][c];
    transform(v);
    for (int c = 0; c < 8; c++)
        tile[unit][k][c] = v[c];
    __syncthreads();

    for (int r = 0; r < 8; r++)
        v[r] = tile[unit][r][k];
    transform(v);
    for (int r = 0; r < 8; r++)
        levels[at + r * width] = (short)rintf(v[r] * quant[r * 8 + k]);
}
