// Particle physics: energy and centre of gravity of the hits of each calorimeter cluster; a cluster per block.
#define HITS 256

extern "C" __global__ void cluster_centre(const float *energy, const float *eta, const float *phi, float *cluster_energy,
                                          float *centre_eta, float *centre_phi)
{
    __shared__ float deposit[HITS], weighted_eta[HITS], weighted_phi[HITS];
    int t = threadIdx.x, hit = blockIdx.x * HITS + t;
    float e = energy[hit] > 0.05f ? energy[hit] : 0.0f;
    deposit[t] = e;
    weighted_eta[t] = e * eta[hit];
    weighted_phi[t] = e * phi[hit];
    __syncthreads();
    if (t == 0) {
        float sum = 0.0f, sum_eta = 0.0f, sum_phi = 0.0f;
        for (int k = 0; k < HITS; k++) {
            sum += deposit[k];
            sum_eta += weighted_eta[k];
            sum_phi += weighted_phi[k];
        }
        cluster_energy[blockIdx.x] = sum;
        centre_eta[blockIdx.x] = sum_eta / sum;
        centre_phi[blockIdx.x] = sum_phi / sum;
    }
}
