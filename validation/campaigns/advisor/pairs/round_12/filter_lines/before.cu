// Medical ultrasound: each receive line is filtered by three second-order sections before beam forming.
// Samples of all lines at one time lie together.
#define SECTIONS 3

extern "C" __global__ void filter_lines(const float *signal, const float *coefficients, float *filtered, int lines,
                                        int samples)
{
    int line = blockIdx.x * blockDim.x + threadIdx.x;
    if (line >= lines)
        return;
    float first[SECTIONS] = {0.0f}, second[SECTIONS] = {0.0f};
    for (int n = 0; n < samples; n++) {
        float x = signal[n * lines + line];
#pragma unroll
        for (int s = 0; s < SECTIONS; s++) {
            const float *c = coefficients + s * 5;
            float y = c[0] * x + first[s];
            first[s] = c[1] * x - c[3] * y + second[s];
            second[s] = c[2] * x - c[4] * y;
            x = y;
        }
        filtered[n * lines + line] = x;
    }
}
