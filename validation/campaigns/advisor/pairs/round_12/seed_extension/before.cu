// Genomics: a seed of 32 bases is aligned within a window of the reference (local, affine gaps). One warp a seed,
// one base of the seed a lane; the table is filled diagonal by diagonal.
#define WARPS 4

extern "C" __global__ void seed_extension(const signed char *seeds, const signed char *windows, int *best, int window,
                                          int match, int mismatch, int open, int extend)
{
    __shared__ int row_h[WARPS][32];
    __shared__ int row_f[WARPS][32];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int pair = blockIdx.x * WARPS + warp;
    signed char base = seeds[pair * 32 + lane];
    const signed char *reference = windows + pair * window;
    int h = 0, e = 0, f = 0, corner = 0, top = 0;
    for (int d = 0; d < window + 31; d++) {
        row_h[warp][lane] = h;
        row_f[warp][lane] = f;
        __syncthreads();
        int up_h = lane > 0 ? row_h[warp][lane - 1] : 0;
        int up_f = lane > 0 ? row_f[warp][lane - 1] : 0;
        __syncthreads();
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
    row_h[warp][lane] = top;
    __syncthreads();
    for (int far = 16; far > 0; far >>= 1) {
        if (lane < far)
            row_h[warp][lane] = max(row_h[warp][lane], row_h[warp][lane + far]);
        __syncthreads();
    }
    if (lane == 0)
        best[pair] = row_h[warp][0];
}
