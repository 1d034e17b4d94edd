// Gradient of a bias: the sum of the output's gradient over all rows of the batch. One thread for each column
// and each part of the rows; bias[] begins as zeros.
extern "C" __global__ void bias_grad(const float *__restrict__ grad, float *__restrict__ bias, int rows, int columns)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns)
        return;

    const int part = (rows + gridDim.y - 1) / gridDim.y;
    const int first = blockIdx.y * part;
    const int last = min(first + part, rows);
    float sum = 0.0f;
    for (int row = first; row < last; ++row)
        sum += grad[(size_t)row * columns + column];
    atomicAdd(&bias[column], sum);
}
