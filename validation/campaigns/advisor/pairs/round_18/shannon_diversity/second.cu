// Shannon diversity and richness of each survey site: one block a site,
// counts[site][species].
#define THREADS 128
#define WARPS (THREADS / 32)
extern "C" __global__ void shannon_diversity(const float *counts,
                                             float *diversity,
                                             float *richness,
                                             int species)
{
    __shared__ float total[WARPS];
    __shared__ float clogc[WARPS];
    __shared__ float present[WARPS];
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
    for (int d = 16; d > 0; d >>= 1) {
        n += __shfl_down_sync(0xffffffffu, n, d);
        e += __shfl_down_sync(0xffffffffu, e, d);
        s += __shfl_down_sync(0xffffffffu, s, d);
    }
    if (t % 32 == 0) {
        total[t / 32] = n;
        clogc[t / 32] = e;
        present[t / 32] = s;
    }
    __syncthreads();
    if (t == 0) {
        for (int w = 1; w < WARPS; ++w) {
            n += total[w];
            e += clogc[w];
            s += present[w];
        }
        diversity[blockIdx.x] = __logf(n) - e / n;
        richness[blockIdx.x] = s;
    }
}
