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
        // four independent chains
        double sum0 = 0.0, sum1 = 0.0, sum2 = 0.0, sum3 = 0.0;
#pragma unroll
        for (int j = 0; j < FUNCTIONS; j += 4) {
            sum0 += staged[i][j] * value[j][own];
            sum1 += staged[i][j + 1] * value[j + 1][own];
            sum2 += staged[i][j + 2] * value[j + 2][own];
            sum3 += staged[i][j + 3] * value[j + 3][own];
        }
        rho += value[i][own] * ((sum0 + sum1) + (sum2 + sum3));
    }
    density[point] = rho;
}
