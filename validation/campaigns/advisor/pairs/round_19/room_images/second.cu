// Room acoustics: delay and amplitude of the image sources of a shoebox room.
// Every thread takes one image (i, j, k) of the source.
#define PI 3.14159265f
#define SPEED_OF_SOUND 343.2f

__device__ float mirrored(int n, float length, float source)
{
    return (n & 1) ? (n + 1) * length - source : n * length + source;
}

extern "C" __global__ void room_images(float *__restrict__ delay,
                                       float *__restrict__ amplitude, int order,
                                       float lx, float ly, float lz,
                                       float reflection, float rate)
{
    int side = 2 * order;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int j = blockIdx.y * blockDim.y + threadIdx.y;
    int k = blockIdx.z;
    if (i >= side || j >= side)
        return;

    int a = i - order, b = j - order, c = k - order;
    float dx = mirrored(a, lx, 0.3f * lx) - 0.62f * lx;
    float dy = mirrored(b, ly, 0.4f * ly) - 0.55f * ly;
    float dz = mirrored(c, lz, 0.5f * lz) - 0.45f * lz;

    float d = sqrtf(dx * dx + dy * dy + dz * dz + 1e-6f);
    int bounces = abs(a) + abs(b) + abs(c);
    int at = (k * side + j) * side + i;
    delay[at] = d / SPEED_OF_SOUND * rate;
    amplitude[at] = expf(bounces * logf(reflection)) / (4.0f * PI * d) * expf(-0.0007f * d);
}
