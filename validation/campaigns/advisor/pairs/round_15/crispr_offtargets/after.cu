// String matching with mismatches: how often each guide of a CRISPR library matches a genome (letters are bytes) with
// at most `allowed` mismatches. A thread has one position and compares all guides with it; its window of the genome and
// its best share stay in registers.
#define GUIDE 20

extern "C" __global__ void crispr_offtargets(const unsigned char *__restrict__ genome, int length,
                                             const unsigned char *__restrict__ guides, int guide_count, int allowed,
                                             unsigned int *__restrict__ hits, float *__restrict__ best_share)
{
    const int stride = gridDim.x * blockDim.x;
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at + GUIDE <= length; at += stride) {
        unsigned char window[GUIDE];
#pragma unroll
        for (int k = 0; k < GUIDE; k++)
            window[k] = genome[at + k];
        float best = 0.0f;
        for (int g = 0; g < guide_count; g++) {
            int mismatches = 0;
#pragma unroll
            for (int k = 0; k < GUIDE; k++)
                mismatches += window[k] != guides[g * GUIDE + k];
            if (mismatches <= allowed)
                atomicAdd(&hits[g], 1u);
            best = fmaxf(best, 1.0f - mismatches / (float)GUIDE);
        }
        best_share[at] = best;
    }
}
