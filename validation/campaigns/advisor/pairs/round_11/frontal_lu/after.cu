// Partial LU factorisation, without pivoting, of many 32 x 32 frontal matrices of a sparse solver, one for each block:
// eliminates PIVOTS variables and leaves the Schur complement of the others. The diagonal is shifted. 32 x 8 threads.
#define N 32
#define PIVOTS 16
#define STRIPE 8

extern "C" __global__ void frontal_lu(float *matrices, float shift)
{
    __shared__ float a[N][N + 1];
    const int column = threadIdx.x;
    float *matrix = matrices + (size_t)blockIdx.x * N * N;

    for (int row = threadIdx.y; row < N; row += STRIPE)
        a[row][column] = matrix[row * N + column] + (row == column ? shift : 0.0f);
    __syncthreads();

    for (int k = 0; k < PIVOTS; ++k) {
        // the column below the pivot stays unscaled until the end, so nobody waits for the multipliers
        const float upper = a[k][column] / a[k][k];
        for (int row = k + 1 + threadIdx.y; row < N; row += STRIPE)
            if (column > k)
                a[row][column] -= a[row][k] * upper;
        __syncthreads();
    }

    for (int row = threadIdx.y; row < N; row += STRIPE) {
        const float value = a[row][column];
        matrix[row * N + column] = row > column && column < PIVOTS ? value / a[column][column] : value;
    }
}
