// Hash join, probe side: for each foreign key the payload of the build side, or -1. Linear probing, empty slots hold -1.
__device__ __forceinline__ unsigned hash_of(int key)
{
    unsigned h = (unsigned)key * 2654435761u;
    return h ^ (h >> 15);
}

extern "C" __global__ void probe(const int *keys, const int *slot_key, const int *slot_value, int *out, int n, unsigned mask)
{
    int stride = gridDim.x * blockDim.x;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + 3 * stride < n; i += 4 * stride) {
        int key[4], found[4], value[4];
        unsigned slot[4];
#pragma unroll
        for (int u = 0; u < 4; u++)
            key[u] = keys[i + u * stride];
#pragma unroll
        for (int u = 0; u < 4; u++) {
            slot[u] = hash_of(key[u]) & mask;
            found[u] = slot_key[slot[u]];
        }
#pragma unroll
        for (int u = 0; u < 4; u++)
            while (found[u] != key[u] && found[u] != -1) {
                slot[u] = (slot[u] + 1) & mask;
                found[u] = slot_key[slot[u]];
            }
#pragma unroll
        for (int u = 0; u < 4; u++)
            value[u] = found[u] == key[u] ? slot_value[slot[u]] : -1;
#pragma unroll
        for (int u = 0; u < 4; u++)
            out[i + u * stride] = value[u];
    }
    for (; i < n; i += stride) {
        int key = keys[i];
        unsigned slot = hash_of(key) & mask;
        int found = slot_key[slot];
        while (found != key && found != -1) {
            slot = (slot + 1) & mask;
            found = slot_key[slot];
        }
        out[i] = found == key ? slot_value[slot] : -1;
    }
}
