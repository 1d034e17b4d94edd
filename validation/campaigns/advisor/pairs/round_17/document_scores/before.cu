// Spam filter: log-odds of every document, the sum of its tokens' weights and of the weights of its pairs
// of adjacent tokens, which are hashed. The token stream is in order of documents.
__device__ unsigned int pair_slot(unsigned int a, unsigned int b, int slots)
{
    unsigned int h = a * 0x9e3779b1u ^ (b + 0x7f4a7c15u) * 0x85ebca6bu;
    h ^= h >> 15;
    h *= 0xc2b2ae35u;
    h ^= h >> 13;
    return h & (unsigned int)(slots - 1);
}

extern "C" __global__ void document_scores(const int *token, const int *document, const float *weight,
                                           const float *pair_weight, float *score, int tokens, int slots)
{
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < tokens; i += stride) {
        int doc = document[i];
        float odds = weight[token[i]];
        if (i + 1 < tokens && document[i + 1] == doc)
            odds += pair_weight[pair_slot(token[i], token[i + 1], slots)];
        atomicAdd(&score[doc], odds);
    }
}
