// y = A x for a sparse matrix in compressed rows (CSR). One thread for each row.
extern "C" __global__ void spmv_csr(const int *__restrict__ row_start, const int *__restrict__ columns,
                                    const float *__restrict__ values, const float *__restrict__ x,
                                    float *__restrict__ y, int rows)
{
    const int first = blockIdx.x * blockDim.x + threadIdx.x;
    const int stride = gridDim.x * blockDim.x;

    for (int row = first; row < rows; row += stride) {
        const int begin = row_start[row];
        const int end = row_start[row + 1];
        float sum = 0.0f;
        for (int k = begin; k < end; k++)
            sum += values[k] * x[columns[k]];
        y[row] = sum;
    }
}
