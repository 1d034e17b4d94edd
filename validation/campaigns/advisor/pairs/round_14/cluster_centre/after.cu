// Particle physics: energy and centre of gravity of the hits of each calorimeter cluster; a cluster per block.
#define HITS 256

extern "C" __global__ void cluster_centre(const float *energy, const float *eta, const float *phi, float *cluster_energy,
                                          float *centre_eta, float *centre_phi)
{
    __shared__ float deposit[HITS / 32], weighted_eta[HITS / 32], weighted_phi[HITS / 32];
    int t = threadIdx.x, hit = blockIdx.x * HITS + t;
    float sum = energy[hit] > 0.05f ? energy[hit] : 0.0f;
    float sum_eta = sum * eta[hit], sum_phi = sum * phi[hit];
    for (int offset = 16; offset > 0; offset >>= 1) {
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
        sum_eta += __shfl_down_sync(0xffffffffu, sum_eta, offset);
        sum_phi += __shfl_down_sync(0xffffffffu, sum_phi, offset);
    }
    if ((t & 31) == 0) {
        deposit[t >> 5] = sum;
        weighted_eta[t >> 5] = sum_eta;
        weighted_phi[t >> 5] = sum_phi;
    }
    __syncthreads();
    if (t >= HITS / 32)
        return;
    sum = deposit[t], sum_eta = weighted_eta[t], sum_phi = weighted_phi[t];
    for (int offset = HITS / 64; offset > 0; offset >>= 1) {
        sum += __shfl_down_sync(0xffu, sum, offset);
        sum_eta += __shfl_down_sync(0xffu, sum_eta, offset);
        sum_phi += __shfl_down_sync(0xffu, sum_phi, offset);
    }
    if (t == 0) {
        cluster_energy[blockIdx.x] = sum;
        centre_eta[blockIdx.x] = sum_eta / sum;
        centre_phi[blockIdx.x] = sum_phi / sum;
    }
}
