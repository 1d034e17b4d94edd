// Hash join, probe side: for each foreign key the payload of the build side, or -1. Linear probing, empty slots hold -1.
__device__ __forceinline__ unsigned hash_of(int key)
{
    unsigned h = (unsigned)key * 2654435761u;
    return h ^ (h >> 15);
}

extern "C" __global__ void probe(const int *keys, const int *slot_key, const int *slot_value, int *out, int n, unsigned mask)
{
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
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
