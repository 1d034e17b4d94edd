// The probe side of a hash join: looks up each key in a table with open addressing and writes the value that
// belongs to it, or -1. Slots with the key EMPTY are free. The capacity is a power of two.
#define EMPTY 0xffffffffu

__device__ unsigned int mixed(unsigned int key)
{
    key ^= key >> 16;
    key *= 0x85ebca6bu;
    key ^= key >> 13;
    key *= 0xc2b2ae35u;
    return key ^ key >> 16;
}

extern "C" __global__ void hash_probe(const unsigned int *__restrict__ slots, const int *__restrict__ values,
                                      const unsigned int *__restrict__ keys, int *__restrict__ found,
                                      unsigned int capacity, int n)
{
    const int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        const unsigned int key = keys[i];
        unsigned int at = mixed(key) % capacity;
        int result = -1;
        for (;;) {
            const unsigned int here = slots[at];
            if (here == key) {
                result = values[at];
                break;
            }
            if (here == EMPTY)
                break;
            at = (at + 1) % capacity;
        }
        found[i] = result;
    }
}
