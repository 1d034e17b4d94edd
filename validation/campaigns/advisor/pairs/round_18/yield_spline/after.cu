// Natural cubic splines through yield curves with 32 equally spaced tenors:
// each thread solves the tridiagonal system of one curve in shared memory.
#define N 32
#define CURVES 64
extern "C" __global__ void yield_spline(const float *yields,
                                        float *curvature,
                                        float step)
{
    __shared__ float y[CURVES][N + 1];
    __shared__ float c[CURVES][N + 1];
    int t = threadIdx.x;
    int base = blockIdx.x * CURVES * N;

    for (int k = t; k < CURVES * N; k += CURVES)
        y[k / N][k % N] = yields[base + k];
    __syncthreads();

    float scale = 6.0f / (step * step);
    float prev = 0.0f, right = 0.0f;
    for (int k = 1; k < N - 1; ++k) {
        float d = scale * (y[t][k - 1] - 2.0f * y[t][k] + y[t][k + 1]);
        float m = 1.0f / (4.0f - prev);
        prev = m;
        c[t][k] = m;
        right = (d - right) * m;
        y[t][k - 1] = right;
    }
    float next = 0.0f;
    y[t][N - 1] = 0.0f;
    for (int k = N - 2; k > 0; --k) {
        next = y[t][k - 1] - c[t][k] * next;
        y[t][k] = next;
    }
    y[t][0] = 0.0f;
    __syncthreads();

    for (int k = t; k < CURVES * N; k += CURVES)
        curvature[base + k] = y[k / N][k % N];
}
