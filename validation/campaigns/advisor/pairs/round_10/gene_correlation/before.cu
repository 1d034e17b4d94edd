// Co-expression: correlation of every pair of genes over the samples. Rows are standardised already.
extern "C" __global__ void correlate(const float *expression, float *corr, int genes, int samples)
{
    int a = blockIdx.y * 16 + threadIdx.y;
    int b = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int s = 0; s < samples; s++)
        sum += expression[a * samples + s] * expression[b * samples + s];
    corr[a * genes + b] = sum / samples;
}
