// Gradient of a bias: the sum of the output's gradient over all rows of the batch. One thread for each column.
extern "C" __global__ void bias_grad(const float *__restrict__ grad, float *__restrict__ bias, int rows, int columns)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns)
        return;

    float sum = 0.0f;
    for (int row = 0; row < rows; ++row)
        sum += grad[(size_t)row * columns + column];
    bias[column] = sum;
}
