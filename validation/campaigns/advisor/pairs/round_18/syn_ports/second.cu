// Scan detection: counts connection requests (SYN without ACK) and their
// bytes by the range of the destination port (system, registered, dynamic).
extern "C" __global__ void syn_ports(const int *port,
                                     const int *flags,
                                     const int *length,
                                     unsigned int *requests,
                                     unsigned int *bytes,
                                     int count)
{
    int stride = gridDim.x * blockDim.x;
    int lane = threadIdx.x % 32;
    // whole warps go round the loop together (first is that of lane 0)
    int first = blockIdx.x * blockDim.x + threadIdx.x - lane;
    for (; first < count; first += stride) {
        int i = first + lane;
        bool syn = i < count && (flags[i] & 0x12) == 0x02;
        int range = -1;
        unsigned int size = 0;
        if (syn) {
            int p = port[i];
            range = p < 1024 ? 0 : p < 49152 ? 1 : 2;
            size = length[i];
        }
        // lane r adds what the warp has for range r
        unsigned int n = 0, sum = 0;
        #pragma unroll
        for (int r = 0; r < 3; ++r) {
            unsigned int m = __popc(__ballot_sync(0xffffffffu, range == r));
            unsigned int b = __reduce_add_sync(0xffffffffu, range == r ? size : 0u);
            if (lane == r) {
                n = m;
                sum = b;
            }
        }
        if (n) {
            atomicAdd(&requests[lane], n);
            atomicAdd(&bytes[lane], sum);
        }
    }
}
