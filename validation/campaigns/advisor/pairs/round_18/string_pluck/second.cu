// Plucked strings: each block steps one string of 256 points (wave equation
// with loss, fixed ends) and records the displacement at the pickup.
#define POINTS 256
extern "C" __global__ void string_pluck(const float *shape,
                                        float *sound,
                                        int steps,
                                        int pickup,
                                        float courant2,
                                        float loss)
{
    __shared__ float u[2][POINTS];
    int p = threadIdx.x;
    float now = shape[blockIdx.x * POINTS + p];
    float old = now;
    u[0][p] = now;
    __syncthreads();

    for (int t = 0; t < steps; ++t) {
        // two buffers in turn: one barrier a step is enough
        const float *from = u[t & 1];
        float *to = u[(t & 1) ^ 1];
        float next = 0.0f;
        if (p > 0 && p < POINTS - 1) {
            float bend = from[p - 1] - 2.0f * now + from[p + 1];
            next = now + (1.0f - loss) * (now - old) + courant2 * bend;
        }
        to[p] = next;
        __syncthreads();
        old = now;
        now = next;
        if (p == pickup)
            sound[blockIdx.x * steps + t] = now;
    }
}
