// Gaussian elimination, one step: a multiple of the pivot's row is taken from every row below it, and from
// the right-hand side. One thread has one element; x counts rows and y columns.
extern "C" __global__ void eliminate(float *factors, float *matrix, float *rhs, int size, int remaining, int pivot)
{
    if (threadIdx.x + blockIdx.x * blockDim.x >= size - 1 - pivot)
        return;
    if (threadIdx.y + blockIdx.y * blockDim.y >= size - pivot)
        return;
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    int column = blockIdx.y * blockDim.y + threadIdx.y;
    matrix[size * (row + 1 + pivot) + (column + pivot)] -=
        factors[size * (row + 1 + pivot) + pivot] * matrix[size * pivot + (column + pivot)];
    if (column == 0) {
        rhs[row + 1 + pivot] -= factors[size * (row + 1 + pivot) + (column + pivot)] * rhs[pivot];
    }
}
