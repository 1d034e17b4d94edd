// String matching with mismatches: how often each guide of a CRISPR library matches a genome (letters are bytes) with
// at most `allowed` mismatches. A thread has one position and compares all guides with it.
#define GUIDE 20

extern "C" __global__ void crispr_offtargets(const unsigned char *genome, int length, const unsigned char *guides,
                                             int guide_count, int allowed, unsigned int *hits, float *best_share)
{
    const int stride = gridDim.x * blockDim.x;
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at + GUIDE <= length; at += stride) {
        best_share[at] = 0.0f;
        for (int g = 0; g < guide_count; g++) {
            int mismatches = 0;
#pragma unroll
            for (int k = 0; k < GUIDE; k++)
                mismatches += genome[at + k] != guides[g * GUIDE + k];
            if (mismatches <= allowed)
                atomicAdd(&hits[g], 1u);
            best_share[at] = fmaxf(best_share[at], 1.0f - mismatches / (float)GUIDE);
        }
    }
}
