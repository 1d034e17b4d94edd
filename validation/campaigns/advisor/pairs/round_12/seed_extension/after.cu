// Genomics: a seed of 32 bases is aligned within a window of the reference (local, affine gaps). One warp a seed,
// one base of the seed a lane; the table is filled diagonal by diagonal.
#define WARPS 4

extern "C" __global__ void seed_extension(const signed char *seeds, const signed char *windows, int *best, int window,
                                          int match, int mismatch, int open, int extend)
{
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int pair = blockIdx.x * WARPS + warp;
    signed char base = seeds[pair * 32 + lane];
    const signed char *reference = windows + pair * window;
    int h = 0, e = 0, f = 0, corner = 0, top = 0;
    for (int d = 0; d < window + 31; d++) {
        int up_h = __shfl_up_sync(0xffffffffu, h, 1);
        int up_f = __shfl_up_sync(0xffffffffu, f, 1);
        if (lane == 0)
            up_h = up_f = 0;
        int column = d - lane;
        if (column >= 0 && column < window) {
            int score = reference[column] == base ? match : -mismatch;
            e = max(h - open, e - extend);
            f = max(up_h - open, up_f - extend);
            h = max(max(0, corner + score), max(e, f));
            top = max(top, h);
        }
        corner = up_h;
    }
    for (int far = 16; far > 0; far >>= 1)
        top = max(top, __shfl_xor_sync(0xffffffffu, top, far));
    if (lane == 0)
        best[pair] = top;
}
