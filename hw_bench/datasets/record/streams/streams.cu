// STREAM's four kernels (J. McCalpin), a float a thread, and the last one with 16 bytes a load.

#define PARAMETERS float *a, const float *b, const float *c, float s, int n
#define KERNEL extern "C" __global__ void

__device__ int at() { return blockIdx.x * blockDim.x + threadIdx.x; }

KERNEL copy(PARAMETERS)
{
    if (at() < n)
        a[at()] = b[at()];
}

KERNEL scale(PARAMETERS)
{
    if (at() < n)
        a[at()] = s * b[at()];
}

KERNEL add(PARAMETERS)
{
    if (at() < n)
        a[at()] = b[at()] + c[at()];
}

KERNEL triad(PARAMETERS)
{
    if (at() < n)
        a[at()] = b[at()] + s * c[at()];
}

KERNEL triad_wide(float4 *a, const float4 *b, const float4 *c, float s, int n)
{
    if (4 * at() >= n)
        return;
    float4 x = b[at()], y = c[at()];
    a[at()] = make_float4(x.x + s * y.x, x.y + s * y.y, x.z + s * y.z, x.w + s * y.w);
}
