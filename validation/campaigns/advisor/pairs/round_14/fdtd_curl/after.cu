// Electromagnetics: half step of the electric field on a Yee grid (TE mode); fields are stored as [i][j].
extern "C" __global__ void fdtd_curl(float *ex, float *ey, const float *hz, const float *inv_eps, int nx, int ny,
                                     float dt_over_dx)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < 1 || j < 1 || i >= nx || j >= ny)
        return;
    int cell = i * ny + j;
    float here = hz[cell];
    float scale = dt_over_dx * inv_eps[cell];
    ex[cell] += scale * (here - hz[cell - 1]);
    ey[cell] -= scale * (here - hz[cell - ny]);
}
