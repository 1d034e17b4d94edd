// Sorts segments of 32 keys by a bitonic network. One thread sorts a segment in its registers; key k of
// segment s lies at k * segments + s. The bounds ask for 1,024 threads on a multiprocessor.
#define KEYS 32

extern "C" __global__ void __launch_bounds__(128, 8)
segment_sort(const int *__restrict__ in, int *__restrict__ out, int segments)
{
    const int segment = blockIdx.x * blockDim.x + threadIdx.x;
    if (segment >= segments)
        return;

    int key[KEYS];
#pragma unroll
    for (int k = 0; k < KEYS; k++)
        key[k] = in[k * segments + segment];

#pragma unroll
    for (int size = 2; size <= KEYS; size *= 2) {
#pragma unroll
        for (int distance = size / 2; distance > 0; distance /= 2) {
#pragma unroll
            for (int k = 0; k < KEYS; k++) {
                const int other = k ^ distance;
                if (other > k) {
                    const int low = min(key[k], key[other]);
                    const int high = max(key[k], key[other]);
                    const bool rising = (k & size) == 0;
                    key[k] = rising ? low : high;
                    key[other] = rising ? high : low;
                }
            }
        }
    }

#pragma unroll
    for (int k = 0; k < KEYS; k++)
        out[k * segments + segment] = key[k];
}
