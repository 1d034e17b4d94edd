// Neuroscience: passive cable equation. One block is one dendrite of 128 compartments, explicit steps in shared memory.
#define COMPARTMENTS 128

extern "C" __global__ void cable(const float *start, const float *current, float *voltage, int steps, float axial, float leak)
{
    __shared__ float v[COMPARTMENTS];
    int c = threadIdx.x;
    int at = blockIdx.x * COMPARTMENTS + c;
    int left = c > 0 ? c - 1 : 0;
    int right = c < COMPARTMENTS - 1 ? c + 1 : COMPARTMENTS - 1;
    float injected = current[at];
    v[c] = start[at];
    __syncthreads();
    for (int s = 0; s < steps; s++) {
        float here = v[c];
        float next = here + axial * (v[left] - 2.0f * here + v[right]) + leak * (-65.0f - here) + injected;
        __syncthreads();
        v[c] = next;
        __syncthreads();
    }
    voltage[at] = v[c];
}
