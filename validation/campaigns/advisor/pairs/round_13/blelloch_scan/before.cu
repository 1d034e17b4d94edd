// Exclusive prefix sums of segments of 1,024 numbers by Blelloch's two sweeps over a tree in shared memory.
// One block of 512 threads for each segment; its total goes to `totals`.
#define COUNT 1024

extern "C" __global__ void blelloch_scan(const int *__restrict__ in, int *__restrict__ out,
                                         int *__restrict__ totals)
{
    __shared__ int tree[COUNT];
    const int t = threadIdx.x;
    const int base = blockIdx.x * COUNT;

    tree[t] = in[base + t];
    tree[t + COUNT / 2] = in[base + t + COUNT / 2];

    // up: sums of ever larger parts
    int distance = 1;
    for (int active = COUNT / 2; active > 0; active >>= 1) {
        __syncthreads();
        if (t < active) {
            const int left = distance * (2 * t + 1) - 1;
            const int right = distance * (2 * t + 2) - 1;
            tree[right] += tree[left];
        }
        distance *= 2;
    }

    if (t == 0) {
        totals[blockIdx.x] = tree[COUNT - 1];
        tree[COUNT - 1] = 0;
    }

    // down: each part hands its prefix to its halves
    for (int active = 1; active < COUNT; active *= 2) {
        distance >>= 1;
        __syncthreads();
        if (t < active) {
            const int left = distance * (2 * t + 1) - 1;
            const int right = distance * (2 * t + 2) - 1;
            const int kept = tree[left];
            tree[left] = tree[right];
            tree[right] += kept;
        }
    }
    __syncthreads();

    out[base + t] = tree[t];
    out[base + t + COUNT / 2] = tree[t + COUNT / 2];
}
