// One step of Adam with decoupled weight decay. The corrections are 1 / (1 - beta ^ step). The number of
// parameters is a multiple of four; a thread takes four at a time.
extern "C" __global__ void adam_step(float *__restrict__ parameters, const float *__restrict__ gradients,
                                     float *__restrict__ first, float *__restrict__ second, int n, float rate,
                                     float beta1, float beta2, float correction1, float correction2,
                                     float epsilon, float decay)
{
    const int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n / 4; i += stride) {
        const float4 gs = ((const float4 *)gradients)[i];
        float4 ms = ((float4 *)first)[i];
        float4 vs = ((float4 *)second)[i];
        float4 ps = ((float4 *)parameters)[i];

        auto step = [&](float g, float &m, float &v, float &p) {
            m = beta1 * m + (1.0f - beta1) * g;
            v = beta2 * v + (1.0f - beta2) * g * g;
            p -= rate * (m * correction1 / (sqrtf(v * correction2) + epsilon) + decay * p);
        };
        step(gs.x, ms.x, vs.x, ps.x);
        step(gs.y, ms.y, vs.y, ps.y);
        step(gs.z, ms.z, vs.z, ps.z);
        step(gs.w, ms.w, vs.w, ps.w);

        ((float4 *)first)[i] = ms;
        ((float4 *)second)[i] = vs;
        ((float4 *)parameters)[i] = ps;
    }
}
