// One step of Adam with decoupled weight decay. The corrections are 1 / (1 - beta ^ step). The number of
// parameters is a multiple of four.
extern "C" __global__ void adam_step(float *__restrict__ parameters, const float *__restrict__ gradients,
                                     float *__restrict__ first, float *__restrict__ second, int n, float rate,
                                     float beta1, float beta2, float correction1, float correction2,
                                     float epsilon, float decay)
{
    const int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        const float g = gradients[i];
        const float m = beta1 * first[i] + (1.0f - beta1) * g;
        const float v = beta2 * second[i] + (1.0f - beta2) * g * g;
        const float p = parameters[i];
        first[i] = m;
        second[i] = v;
        parameters[i] = p - rate * (m * correction1 / (sqrtf(v * correction2) + epsilon) + decay * p);
    }
}
