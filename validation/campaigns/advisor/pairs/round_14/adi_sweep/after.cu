// Heat conduction: implicit sweep of an ADI scheme; every line of the grid is a tridiagonal system (Thomas).
#define CELLS 64
#define LINES 32
#define PITCH (CELLS + 1)

extern "C" __global__ void adi_sweep(float *temperature, const float *fourier)
{
    __shared__ float rhs[LINES * PITCH];
    __shared__ float upper[LINES * PITCH];
    int first = blockIdx.x * LINES;
    int line = threadIdx.x;
    for (int row = 0; row < LINES; row++)
        for (int k = threadIdx.x; k < CELLS; k += LINES)
            rhs[row * PITCH + k] = temperature[(first + row) * CELLS + k];
    __syncthreads();

    float r = fourier[first + line];
    float diagonal = 1.0f + 2.0f * r;
    float c = 0.0f, d = 0.0f;
    for (int k = 0; k < CELLS; k++) {
        float scale = 1.0f / (diagonal + r * c);
        c = -r * scale;
        d = (rhs[line * PITCH + k] + r * d) * scale;
        upper[line * PITCH + k] = c;
        rhs[line * PITCH + k] = d;
    }
    float solved = 0.0f;
    for (int k = CELLS - 1; k >= 0; k--) {
        solved = rhs[line * PITCH + k] - upper[line * PITCH + k] * solved;
        rhs[line * PITCH + k] = solved;
    }
    __syncthreads();
    for (int row = 0; row < LINES; row++)
        for (int k = threadIdx.x; k < CELLS; k += LINES)
            temperature[(first + row) * CELLS + k] = rhs[row * PITCH + k];
}
