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
    // all three laws are one formula: vmax s^n / (k^n + s^n (1 + s / ki)),
    // with n = 1, order or 2 order, and the inhibition for law 2 alone
    float n = order[i];
    n = kind == 0 ? 1.0f : kind == 1 ? n : 2.0f * n;
    float inhibition = kind >= 2 ? s / ki : 0.0f;
    float sn = powf(s, n);
    float kn = powf(k, n);
    rate[i] = vmax[i] * sn / (kn + sn + sn * inhibition);
}
