// Ray tracing: primary rays of a pinhole camera against a list of spheres (x, y, z, radius). Depth and number of the nearest.
extern "C" __global__ void trace(const float4 *spheres, float *depth, int *hit, int count, int width, int height)
{
    int px = blockIdx.x * blockDim.x + threadIdx.x;
    int py = blockIdx.y * blockDim.y + threadIdx.y;
    float dx = (2.0f * px - width) / height, dy = (2.0f * py - height) / height;
    float scale = rsqrtf(dx * dx + dy * dy + 1.0f);
    dx *= scale;
    dy *= scale;
    float dz = scale;
    float nearest = 1.0e30f;
    int which = -1;
    for (int s = 0; s < count; s++) {
        float4 ball = spheres[s];
        float along = ball.x * dx + ball.y * dy + ball.z * dz;
        float off2 = ball.x * ball.x + ball.y * ball.y + ball.z * ball.z - along * along;
        float inside = ball.w * ball.w - off2;
        if (inside > 0.0f) {
            float t = along - sqrtf(inside);
            if (t > 0.0f && t < nearest) {
                nearest = t;
                which = s;
            }
        }
    }
    depth[py * width + px] = nearest;
    hit[py * width + px] = which;
}
