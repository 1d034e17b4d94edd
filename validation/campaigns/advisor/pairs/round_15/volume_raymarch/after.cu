// Volume rendering: parallel rays through a cube of densities, trilinear samples, emission and absorption from front
// to back with early termination. Two-dimensional blocks of any shape.
struct View {
    int width, height;
    int size;             // of the volume, along one edge
    float step;           // in voxels
    float slant_x, slant_y;
    float threshold, opacity;
};

__device__ __forceinline__ float lerp(float a, float b, float t) { return a + t * (b - a); }

__device__ float sample(const float *volume, int size, float x, float y, float z)
{
    const float fx = floorf(x), fy = floorf(y), fz = floorf(z);
    const float tx = x - fx, ty = y - fy, tz = z - fz;
    const int row = size, slice = size * size;
    const float *v = volume + (int)fz * slice + (int)fy * row + (int)fx;
    const float c00 = lerp(v[0], v[1], tx), c10 = lerp(v[row], v[row + 1], tx);
    const float c01 = lerp(v[slice], v[slice + 1], tx), c11 = lerp(v[slice + row], v[slice + row + 1], tx);
    return lerp(lerp(c00, c10, ty), lerp(c01, c11, ty), tz);
}

extern "C" __global__ void volume_raymarch(const float *__restrict__ volume, float2 *__restrict__ image, View view)
{
    const int px = blockIdx.x * blockDim.x + threadIdx.x;
    const int py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= view.width || py >= view.height)
        return;

    const float limit = view.size - 1.001f;
    float x = px * limit / view.width, y = py * limit / view.height, z = 0.0f;
    float light = 0.0f, clear = 1.0f;
    while (z < limit && x >= 0.0f && x < limit && y >= 0.0f && y < limit && clear > 0.02f) {
        const float density = sample(volume, view.size, x, y, z);
        if (density > view.threshold) {
            const float alpha = 1.0f - __expf(-view.opacity * (density - view.threshold) * view.step);
            light += clear * alpha * density;
            clear *= 1.0f - alpha;
        }
        x += view.slant_x * view.step;
        y += view.slant_y * view.step;
        z += view.step;
    }
    image[py * view.width + px] = make_float2(light, 1.0f - clear);
}
