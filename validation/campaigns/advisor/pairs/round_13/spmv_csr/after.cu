// y = A x for a sparse matrix in compressed rows (CSR). One warp for each row, lanes on neighbouring entries.
extern "C" __global__ void spmv_csr(const int *__restrict__ row_start, const int *__restrict__ columns,
                                    const float *__restrict__ values, const float *__restrict__ x,
                                    float *__restrict__ y, int rows)
{
    const int lane = threadIdx.x & 31;
    const int first = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    const int stride = (gridDim.x * blockDim.x) >> 5;

    for (int row = first; row < rows; row += stride) {
        const int begin = row_start[row];
        const int end = row_start[row + 1];
        float sum = 0.0f;
        for (int k = begin + lane; k < end; k += 32)
            sum += values[k] * x[columns[k]];
        for (int offset = 16; offset > 0; offset >>= 1)
            sum += __shfl_down_sync(0xffffffffu, sum, offset);
        if (lane == 0)
            y[row] = sum;
    }
}
