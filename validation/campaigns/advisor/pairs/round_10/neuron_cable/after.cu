// Neuroscience: passive cable equation. One block is one dendrite of 128 compartments, explicit steps in shared memory.
#define COMPARTMENTS 128

extern "C" __global__ void cable(const float *start, const float *current, float *voltage, int steps, float axial, float leak)
{
    __shared__ float v[2][COMPARTMENTS];
    int c = threadIdx.x;
    int at = blockIdx.x * COMPARTMENTS + c;
    int left = c > 0 ? c - 1 : 0;
    int right = c < COMPARTMENTS - 1 ? c + 1 : COMPARTMENTS - 1;
    float injected = current[at];
    v[0][c] = start[at];
    __syncthreads();
    for (int s = 0; s < steps; s++) {
        const float *now = v[s & 1];
        float here = now[c];
        float next = here + axial * (now[left] - 2.0f * here + now[right]) + leak * (-65.0f - here) + injected;
        v[(s + 1) & 1][c] = next;
        __syncthreads();
    }
    voltage[at] = v[steps & 1][c];
}
