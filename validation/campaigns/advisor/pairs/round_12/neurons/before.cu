// Neuroscience: one millisecond of a network with three kinds of neurons (leaky, Izhikevich, Hodgkin-Huxley).
extern "C" __global__ void neurons(const int *kind, const float *current, float *potential, float *slow, float *gate_m,
                                   float *gate_h, int *spikes, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float v = potential[i], in = current[i];
    int fired = 0;
    int k = kind[i];
    if (k == 0) {
        for (int s = 0; s < 4; s++) {
            v += 0.25f * ((-65.0f - v) * 0.05f + in);
            if (v > -50.0f) {
                v = -65.0f;
                fired++;
            }
        }
    } else if (k == 1) {
        float u = slow[i];
        for (int s = 0; s < 4; s++) {
            v += 0.25f * (0.04f * v * v + 5.0f * v + 140.0f - u + in);
            u += 0.25f * 0.02f * (0.2f * v - u);
            if (v >= 30.0f) {
                v = -65.0f;
                u += 8.0f;
                fired++;
            }
        }
        slow[i] = u;
    } else {
        float n = slow[i], m = gate_m[i], h = gate_h[i];
        float before = v;
        for (int s = 0; s < 40; s++) {
            float a_n = 0.01f * (v + 55.0f) / (1.0f - expf(-0.1f * (v + 55.0f)) + 1e-6f);
            float b_n = 0.125f * expf(-0.0125f * (v + 65.0f));
            float a_m = 0.1f * (v + 40.0f) / (1.0f - expf(-0.1f * (v + 40.0f)) + 1e-6f);
            float b_m = 4.0f * expf(-0.0555556f * (v + 65.0f));
            float a_h = 0.07f * expf(-0.05f * (v + 65.0f));
            float b_h = 1.0f / (1.0f + expf(-0.1f * (v + 35.0f)));
            n += 0.025f * (a_n * (1.0f - n) - b_n * n);
            m += 0.025f * (a_m * (1.0f - m) - b_m * m);
            h += 0.025f * (a_h * (1.0f - h) - b_h * h);
            float sodium = 120.0f * m * m * m * h * (v - 50.0f);
            float potassium = 36.0f * n * n * n * n * (v + 77.0f);
            v += 0.025f * (in - sodium - potassium - 0.3f * (v + 54.4f));
        }
        fired = before < 0.0f && v >= 0.0f;
        slow[i] = n;
        gate_m[i] = m;
        gate_h[i] = h;
    }
    potential[i] = v;
    spikes[i] = fired;
}
