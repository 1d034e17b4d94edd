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
            atomicAdd(&requests[range], 1u);
            atomicAdd(&bytes[range], (unsigned int)length[i]);
        }
    }
}
