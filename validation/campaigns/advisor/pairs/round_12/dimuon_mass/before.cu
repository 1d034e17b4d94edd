// Particle physics: histogram of the invariant mass of muon pairs, for the barrel and for the end caps.
extern "C" __global__ void dimuon_mass(const float *pt, const float *eta, const float *phi, int *counts, int pairs,
                                       int bins, float lowest, float bins_per_gev)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < pairs; i += gridDim.x * blockDim.x) {
        float eta_a = eta[i], eta_b = eta[pairs + i];
        float d_eta = eta_a - eta_b;
        float d_phi = phi[i] - phi[pairs + i];
        float mass = sqrtf(2.0f * pt[i] * pt[pairs + i] * (coshf(d_eta) - cosf(d_phi)));
        int bin = (int)((mass - lowest) * bins_per_gev);
        if (bin < 0 || bin >= bins)
            continue;
        int region = (fabsf(eta_a) > 1.2f || fabsf(eta_b) > 1.2f) ? 1 : 0;
        atomicAdd(&counts[region * bins + bin], 1);
    }
}
