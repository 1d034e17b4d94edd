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
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        bool syn = (flags[i] & 0x12) == 0x02;
        if (syn) {
            int p = port[i];
            int range = p < 1024 ? 0 : p < 49152 ? 1 : 2;
            unsigned int peers = __match_any_sync(__activemask(), range);
            unsigned int total = __reduce_add_sync(peers, (unsigned int)length[i]);
            if ((threadIdx.x & 31) == __ffs(peers) - 1) {
                atomicAdd(&requests[range], (unsigned int)__popc(peers));
                atomicAdd(&bytes[range], total);
            }
        }
    }
}
