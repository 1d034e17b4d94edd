// Quantum chemistry: electron density at the points of an integration grid, from the density matrix and the
// basis functions' values there. A block takes 64 points, one for each thread, and stages matrix and values.
#define FUNCTIONS 40

extern "C" __global__ void electron_density(const double *matrix, const double *basis, double *density,
                                            int points)
{
    __shared__ double staged[FUNCTIONS][FUNCTIONS], value[FUNCTIONS][64];
    int own = threadIdx.x;
    int point = blockIdx.x * 64 + own;
    for (int n = own; n < FUNCTIONS * FUNCTIONS; n += 64)
        staged[n / FUNCTIONS][n % FUNCTIONS] = matrix[n];
    for (int i = 0; i < FUNCTIONS; i++)
        value[i][own] = point < points ? basis[i * points + point] : 0.0;
    __syncthreads();
    if (point >= points)
        return;
    double rho = 0.0;
#pragma unroll 1
    for (int i = 0; i < FUNCTIONS; i++) {
        double sum = 0.0;
#pragma unroll
        for (int j = 0; j < FUNCTIONS; j++)
            sum += staged[i][j] * value[j][own];
        rho += value[i][own] * sum;
    }
    density[point] = rho;
}
