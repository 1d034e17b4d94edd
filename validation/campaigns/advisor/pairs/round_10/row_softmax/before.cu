// Machine learning: softmax of each row of logits, one block a row.
#define THREADS 256

extern "C" __global__ void softmax(const float *logits, float *out, int columns)
{
    __shared__ float part[THREADS];
    const float *row = logits + blockIdx.x * columns;
    float top = -3.4e38f;
    for (int c = threadIdx.x; c < columns; c += THREADS)
        top = fmaxf(top, row[c]);
    part[threadIdx.x] = top;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + half]);
        __syncthreads();
    }
    top = part[0];
    __syncthreads();

    float sum = 0.0f;
    for (int c = threadIdx.x; c < columns; c += THREADS)
        sum += expf(row[c] - top);
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    float inverse = 1.0f / part[0];
    for (int c = threadIdx.x; c < columns; c += THREADS)
        out[blockIdx.x * columns + c] = expf(row[c] - top) * inverse;
}
