// Finite elements, matrix-free: forces of elastic elements (hexahedra with eight nodes) on a regular grid, as topology
// optimisation needs them. A thread has one element: it gathers the displacements of its nodes, applies the stiffness
// matrix that all elements share, and scales by the element's density cubed. forces[node of element][element] = (fx,
// fy, fz, 0).
#define THREADS 128
#define NODES 8 // at most
#define PITCH (NODES + 1) // an odd number of float4, so that lanes begin in different banks

__constant__ float stiffness[3 * NODES][3 * NODES];

struct Grid {
    int ex, ey, ez; // elements along the axes
    int nodes;      // of an element: 8, or 4 of a plane grid
};

__device__ __forceinline__ float3 apply_block(int n, int m, const float4 &u, float3 f)
{
    f.x += stiffness[3 * n][3 * m] * u.x + stiffness[3 * n][3 * m + 1] * u.y + stiffness[3 * n][3 * m + 2] * u.z;
    f.y += stiffness[3 * n + 1][3 * m] * u.x + stiffness[3 * n + 1][3 * m + 1] * u.y +
           stiffness[3 * n + 1][3 * m + 2] * u.z;
    f.z += stiffness[3 * n + 2][3 * m] * u.x + stiffness[3 * n + 2][3 * m + 1] * u.y +
           stiffness[3 * n + 2][3 * m + 2] * u.z;
    return f;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    hex8_stiffness(const float4 *__restrict__ displacements, const float *__restrict__ density,
                   float4 *__restrict__ forces, Grid grid)
{
    __shared__ float4 local[THREADS][PITCH];
    const int tid = threadIdx.x;
    const int elements = grid.ex * grid.ey * grid.ez;
    const int e = blockIdx.x * THREADS + tid;
    if (e >= elements)
        return;

    const int i = e % grid.ex, j = e / grid.ex % grid.ey, k = e / (grid.ex * grid.ey);
    for (int n = 0; n < grid.nodes; n++) {
        const int x = i + (n & 1), y = j + (n >> 1 & 1), z = k + (n >> 2);
        local[tid][n] = displacements[(z * (grid.ey + 1) + y) * (grid.ex + 1) + x];
    }

    const float rho = density[e];
    const float modulus = rho * rho * rho;
    for (int n = 0; n < grid.nodes; n++) {
        float3 f = make_float3(0.0f, 0.0f, 0.0f);
        for (int m = 0; m < grid.nodes; m++)
            f = apply_block(n, m, local[tid][m], f);
        forces[n * elements + e] = make_float4(modulus * f.x, modulus * f.y, modulus * f.z, 0.0f);
    }
}
