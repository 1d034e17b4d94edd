// Shannon diversity and richness of each survey site: one block a site,
// counts[site][species].
#define THREADS 128
extern "C" __global__ void shannon_diversity(const float *counts,
                                             float *diversity,
                                             float *richness,
                                             int species)
{
    __shared__ float total[THREADS];
    __shared__ float clogc[THREADS];
    __shared__ float present[THREADS];
    int t = threadIdx.x;
    const float *row = counts + blockIdx.x * species;

    float n = 0.0f, e = 0.0f, s = 0.0f;
    for (int k = t; k < species; k += THREADS) {
        float c = row[k];
        if (c > 0.0f) {
            n += c;
            e += c * __logf(c);
            s += 1.0f;
        }
    }
    total[t] = n;
    clogc[t] = e;
    present[t] = s;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half >>= 1) {
        if (t < half) {
            total[t] += total[t + half];
            clogc[t] += clogc[t + half];
            present[t] += present[t + half];
        }
        __syncthreads();
    }
    if (t == 0) {
        diversity[blockIdx.x] = __logf(total[0]) - clogc[0] / total[0];
        richness[blockIdx.x] = present[0];
    }
}
