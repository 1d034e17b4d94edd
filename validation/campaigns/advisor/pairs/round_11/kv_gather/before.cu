// Paged KV cache: collects the keys of every sequence from its pages into one dense array,
// out[sequence][head][token][dim]. One block for each (head, sequence).
#define HEAD_DIM 64
#define PAGE_TOKENS 16

extern "C" __global__ void kv_gather(const float *__restrict__ cache, const int *__restrict__ page_table,
                                     float *__restrict__ out, int heads, int tokens)
{
    const int head = blockIdx.x;
    const int sequence = blockIdx.y;
    const int pages = (tokens + PAGE_TOKENS - 1) / PAGE_TOKENS;
    const int *table = page_table + sequence * pages;
    float *dense = out + (size_t)(sequence * heads + head) * tokens * HEAD_DIM;

    for (int token = threadIdx.x; token < tokens; token += blockDim.x) {
        const int page = table[token / PAGE_TOKENS];
        const float *key = cache + ((size_t)(page * heads + head) * PAGE_TOKENS + token % PAGE_TOKENS) * HEAD_DIM;
        for (int d = 0; d < HEAD_DIM; ++d)
            dense[token * HEAD_DIM + d] = key[d];
    }
}
