// Reaction rates of a metabolic network: each reaction follows one of three
// rate laws (0 Michaelis-Menten, 1 Hill, 2 Hill with substrate inhibition).
extern "C" __global__ void enzyme_rates(const int *law,
                                        const float *substrate,
                                        const float *km,
                                        const float *vmax,
                                        const float *order,
                                        float *rate,
                                        float ki,
                                        int reactions)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= reactions)
        return;
    int kind = law[i];
    float s = substrate[i];
    float k = km[i];
    float v;
    if (kind == 0) {
        v = vmax[i] * s / (k + s);
    } else if (kind == 1) {
        float sn = powf(s, order[i]);
        float kn = powf(k, order[i]);
        v = vmax[i] * sn / (kn + sn);
    } else {
        float sn = powf(s, 2.0f * order[i]);
        float kn = powf(k, 2.0f * order[i]);
        v = vmax[i] * sn / (kn + sn + sn * s / ki);
    }
    rate[i] = v;
}
