// Astrophysics: acceleration of test particles by a set of massive bodies (x, y, z, mass).
extern "C" __global__ void accelerate(const float4 *bodies, const float *px, const float *py, const float *pz, float *ax,
                                      float *ay, float *az, int n_bodies, float softening2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = px[i], y = py[i], z = pz[i];
    float sx = 0.0f, sy = 0.0f, sz = 0.0f;
    for (int j = 0; j < n_bodies; j++) {
        float4 b = bodies[j];
        float dx = b.x - x, dy = b.y - y, dz = b.z - z;
        float d2 = dx * dx + dy * dy + dz * dz + softening2;
        float pull = b.w / (d2 * sqrtf(d2));
        sx += pull * dx;
        sy += pull * dy;
        sz += pull * dz;
    }
    ax[i] = sx;
    ay[i] = sy;
    az[i] = sz;
}
