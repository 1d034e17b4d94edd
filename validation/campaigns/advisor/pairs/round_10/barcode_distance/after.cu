// Sequencing: edit distance between a read and the barcode that it is thought to carry. One row of the table in registers.
#define BARCODE 24

extern "C" __global__ void __launch_bounds__(64) distance(const unsigned char *reads, const unsigned char *barcodes,
                                                          int *distance, int n, int length)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int base[BARCODE], row[BARCODE];
#pragma unroll
    for (int k = 0; k < BARCODE; k++) {
        base[k] = barcodes[k * n + i];
        row[k] = k + 1;
    }
    for (int p = 0; p < length; p++) {
        int c = reads[p * n + i];
        int diagonal = p, left = p + 1;
#pragma unroll
        for (int k = 0; k < BARCODE; k++) {
            int up = row[k];
            left = min(min(up, left) + 1, diagonal + (base[k] != c));
            row[k] = left;
            diagonal = up;
        }
    }
    distance[i] = row[BARCODE - 1];
}
