// Co-expression: correlation of every pair of genes over the samples. Rows are standardised already.
extern "C" __global__ void correlate(const float *expression, float *corr, int genes, int samples)
{
    __shared__ float rows[16][17];
    __shared__ float cols[16][17];
    int a = blockIdx.y * 16 + threadIdx.y;
    int b = blockIdx.x * 16 + threadIdx.x;
    int b_row = blockIdx.x * 16 + threadIdx.y;
    float sum = 0.0f;
    for (int s0 = 0; s0 < samples; s0 += 16) {
        rows[threadIdx.y][threadIdx.x] = expression[a * samples + s0 + threadIdx.x];
        cols[threadIdx.y][threadIdx.x] = expression[b_row * samples + s0 + threadIdx.x];
        __syncthreads();
#pragma unroll
        for (int s = 0; s < 16; s++)
            sum += rows[threadIdx.y][s] * cols[threadIdx.x][s];
        __syncthreads();
    }
    corr[a * genes + b] = sum / samples;
}
